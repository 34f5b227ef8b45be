//! How much of the model's mass the constraint has, as the rollouts of a run tell.

use crate::{rollout::End, tree::add};

/// Counts for an estimate of `P(L)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mass {
    /// Rollouts that passed their accept tests.
    pub(super) accepted: u64,
    /// The logarithm of the sum, over all rollouts with tests, of `1 / b`: accepted rollouts are expected in
    /// proportion to it.
    pub(super) log_expected: f64,
}

impl Default for Mass {
    fn default() -> Self {
        Self { accepted: 0, log_expected: f64::NEG_INFINITY }
    }
}

impl Mass {
    pub(super) fn count(&mut self, log_untested: Option<f64>, end: &End) {
        let Some(log_bound) = log_untested else { return };
        self.log_expected = add([self.log_expected, -log_bound]);
        self.accepted += u64::from(matches!(end, End::Output(_)));
    }
}
