//! Where an output loses the model's mass, and what the model would rather write there.
//!
//! Exact samplers are dear where masks leave little. One token is the reason as a rule: the model begins with a word of
//! explanation, a fence of code or a line break, writes a letter in the other case, or goes on where the constraint
//! ends.
//! A person who sees it changes the prompt or the constraint.

use std::fmt;

use unskew_core::TokenId;
use unskew_samplers::trace;

use super::{Request, error::Result};

/// The place of an output where the mask leaves the least of the model's mass.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The output up to there.
    pub before: String,
    /// The share of the model's mass that the mask leaves.
    pub left: f64,
    /// The most probable token that the mask forbids.
    pub instead: String,
    /// The model's probability of it.
    pub p: f64,
    /// Whether that is the end of its text.
    pub is_end: bool,
}

impl Request {
    /// The place of an output where the mask leaves the least; `None` where every mask leaves nearly all. It costs a
    /// pass of the model over the output.
    ///
    /// # Errors
    ///
    /// [`Error`](super::Error), where the model fails, or `ids` is no output of this request.
    pub fn loss(&self, ids: &[TokenId]) -> Result<Option<Loss>> {
        const NEARLY_ALL: f64 = 0.9;
        let tokens = self.tokens();
        let steps = trace(&mut self.task()?, ids)?;
        let least =
            steps.iter().enumerate().min_by(|left, right| left.1.log_mass.total_cmp(&right.1.log_mass));
        Ok(least.filter(|(_, step)| step.log_mass.exp() < NEARLY_ALL).and_then(|(at, step)| {
            let (instead, log_p) = step.instead?;
            Some(Loss {
                before: tokens.decode(&ids[..at.min(ids.len())]),
                left: step.log_mass.exp(),
                instead: tokens.decode(&[instead]),
                p: log_p.exp(),
                is_end: tokens.vocabulary().end_of_sequence().contains(&instead),
            })
        }))
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, left, instead, p, is_end } = self;
        match before.as_str() {
            "" => f.write_str("at the first token")?,
            before => write!(f, "after {before:?}")?,
        }
        write!(f, " the constraint leaves {:.2} % of the model's probability", 100.0 * left)?;
        match is_end {
            true => write!(f, "; the model would rather end its text ({:.0} %)", 100.0 * p),
            false => write!(f, "; the model would rather write {instead:?} ({:.0} %)", 100.0 * p),
        }
    }
}
