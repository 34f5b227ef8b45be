//! The draws of a rollout by [values](crate::values), and the lessons of a rollout that has ended.
//!
//! At a prefix x, the continuation t is drawn with probability `p(t) V(x t) / Z(x)`, where `Z(x)` is the sum of all
//! `p(t) V(x t)`, and the value of the end is one. So the model's probability of the output is that of the proposal
//! times the product of all `Z(x) / V(x)` along it, with `V` of the empty prefix one: `V(x)` is the value by which x
//! was proposed, and `Z(x)` the value that its row gives it. Where values are right, all these factors but the first
//! are one, and all outputs have the same weight. Where they are not, the weight says by how much. No value is zero
//! where a continuation has a positive probability, but for a prefix that is known to lead nowhere.

use rand_core::Rng;
use unskew_core::Constraint;

use super::{Choice, End, Progress, Rollout, RowResult, Step, Unexplored};
use crate::{random::uniform, session::Session, values::Way};

impl<C: Constraint> Rollout<C> {
    /// Draws by the values of the prefixes that the tokens lead to.
    pub(super) fn draw_by_values(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<Progress>> {
        let valid_mass = session.tree().valid_mass(self.node);
        let step = |log_p| Step { log_p, valid_mass, entropy: 0.0 };
        let unexplored = match self.unexplored.take() {
            Some(drawn) => drawn,
            None => {
                let Some((lookahead, outlook)) = session.outlook(self.node) else {
                    return self.wait(session).map(Some);
                };
                if outlook.total == f64::NEG_INFINITY {
                    return Ok(Some(Progress::Done(End::Stuck(self.tokens.clone()))));
                }
                let number = self.uniform.take().unwrap_or_else(|| uniform(rng));
                let way = outlook.draw(lookahead, number).unwrap_or(Way::End);
                self.log_weight += outlook.total - self.paid;
                self.paid = outlook.total;
                match way {
                    Way::End => {
                        let end = outlook.end;
                        return self.commit(session, Choice::End, step(end), end - outlook.total, 0.0);
                    }
                    Way::Candidate(index) => {
                        let (candidate, value) = (lookahead.candidates[index], outlook.values[index]);
                        let log_q = candidate.log_p + value - outlook.total;
                        let choice = Choice::Token(candidate.token);
                        return self.commit(session, choice, step(candidate.log_p), log_q, value);
                    }
                    Way::Other => Unexplored {
                        bound: outlook.total - outlook.other,
                        without: lookahead.candidates.iter().map(|candidate| candidate.token).collect(),
                    },
                }
            }
        };
        let Some(row) = self.row(session, self.node) else {
            self.unexplored = Some(unexplored);
            return self.wait(session).map(Some);
        };
        let Unexplored { bound, without } = unexplored;
        let Some(drawn) = row.draw(&without, uniform(rng))? else {
            // There is no such token: choose again, and never among them.
            session.exhaust_others(self.node);
            return Ok(None);
        };
        drop(row);
        let value = self.paid - bound;
        self.commit(session, Choice::Token(drawn.token), step(drawn.log_p), drawn.log_p - bound, value)
    }

    /// Teaches the values of the prefixes that the rollout has passed.
    pub(crate) fn teach(&self, session: &mut Session<C>) {
        let above = self.left.iter().rev().map(|left| left.node);
        session.learn_values(std::iter::once(self.node).chain(above));
    }
}
