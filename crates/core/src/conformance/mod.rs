//! The contracts of the traits, as tests that any implementer can run over a constraint, a model or a sampler.
//!
//! The checks belong to the library and not to its tests: every implementation must satisfy the contracts, and one
//! line checks it. Each rule is checked against the plainest possible oracle (advance every token, evaluate every
//! position again, enumerate every output). A run costs as much as the oracle: keep vocabularies and depths small.
//!
//! ```
//! use unskew_core::{TableModel, Unconstrained, conformance};
//!
//! let mut model = TableModel::uniform(["a", "b"]);
//! conformance::check_constraint(&Unconstrained::new(model.vocabulary()), 3).unwrap();
//! conformance::check_model(&mut model, &[vec![0, 1, 1], vec![1], vec![]], 0.0).unwrap();
//! ```

mod constraint;
mod model;
mod rows;
mod sampler;

pub use constraint::{check_constraint, check_reach};
pub use model::check_model;
pub use rows::check_rows;
pub use sampler::{Fit, check_sampler, chi_square};

/// A rule of a contract that does not hold, with the place of the failure.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{rule}: {detail}")]
#[non_exhaustive]
pub struct ConformanceError {
    /// The rule.
    pub rule: &'static str,
    /// The place of the failure, and how the rule fails.
    pub detail: String,
}

impl ConformanceError {
    fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }
}
