//! The accept tests of a rollout, prefix by prefix.

use rand_core::Rng;
use unskew_core::Constraint;

use super::{AcceptTest, End, Proposal, ROUNDING, Rollout, RowResult, Step};
use crate::{random::uniform, session::Session};

impl<C: Constraint> Rollout<C> {
    /// The logarithm of `b`, where the rollout is accepted with probability `P(L) / b`: the mass that its tests leave
    /// out. `None` without accept tests.
    pub(crate) fn log_untested(&self) -> Option<f64> {
        match self.config.accept {
            AcceptTest::Never => None,
            AcceptTest::ExceptFirst => Some(self.log_root_bound),
            AcceptTest::Every => Some(0.0),
        }
    }

    /// The accept tests of the prefixes that were left by forced tokens, all of which are scored. Answers with the
    /// end of the rollout, if a test ends it. Such a prefix was left by the only allowed token with a bound of one,
    /// so its factor is its mass.
    pub(super) fn test_forced(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<End>> {
        while self.tested < self.left.len() {
            let index = self.tested;
            let node = self.left[index].node;
            let valid_mass = session.tree().valid_mass(node);
            if valid_mass == f64::NEG_INFINITY {
                return Ok(Some(End::Stuck(session.tree().tokens(node))));
            }
            self.tested += 1;
            session.learn_forced(valid_mass);
            if self.is_refused(index, valid_mass, rng) {
                return Ok(Some(End::Rejected));
            }
            if index == self.steps.len() {
                let child = self.left.get(index + 1).map_or(self.node, |left| left.node);
                let mut log_p = session.tree().log_p(child);
                if log_p.is_nan() {
                    log_p = match self.row(session, node) {
                        Some(row) => row.of_token(self.tokens[index])?,
                        None => f64::NEG_INFINITY,
                    };
                    session.tree_mut().set_log_p(child, log_p);
                }
                self.steps.push(Step { log_p, valid_mass, entropy: 0.0 });
            }
        }
        Ok(None)
    }

    /// The accept test of the present prefix, with the ratio of its bound now to the bound that was paid. The test is
    /// repeated where the bound has fallen while the rollout waited for a row.
    pub(super) fn test_here(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
        backed_up: bool,
    ) -> Option<End> {
        let tree = session.tree();
        let valid_mass = tree.valid_mass(self.node);
        let bound = match self.config.proposal {
            _ if backed_up => tree.bound(self.node),
            // At a new prefix ARS has ruled out no token yet, and AWRS knows no mask.
            Proposal::Ars | Proposal::Awrs => self.paid,
            _ => valid_mass,
        };
        if valid_mass == f64::NEG_INFINITY || bound == f64::NEG_INFINITY {
            return Some(End::Stuck(tree.tokens(self.node)));
        }
        #[cfg(test)]
        if backed_up && tree.mutant == Some(crate::tree::Mutant::FallsAreFree) {
            self.paid = bound;
            return None;
        }
        if !backed_up && tree.is_forced(self.node) {
            session.learn_forced(valid_mass);
        }
        let factor = bound - self.paid;
        self.paid = bound;
        self.is_refused(self.tokens.len(), factor, rng).then_some(End::Rejected)
    }

    /// Counts a factor in the weight, and tests with it if the prefix of length `depth` has a test. A factor of one
    /// or more needs no random number, nor does a factor that is below one by rounding.
    fn is_refused(&mut self, depth: usize, factor: f64, rng: &mut dyn Rng) -> bool {
        self.log_weight += factor;
        if depth == 0 {
            self.log_root_bound += factor;
        }
        let tests = match self.config.accept {
            AcceptTest::Never => false,
            AcceptTest::ExceptFirst => depth > 0,
            AcceptTest::Every => true,
        };
        tests && factor < -ROUNDING && uniform(rng).ln() >= factor
    }
}
