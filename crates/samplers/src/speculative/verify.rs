//! Verification: whether a draft is accepted, and the token that replaces a rejected one.
//!
//! Without a budget this is speculative sampling: a token that was drafted with probability `q` is accepted with
//! probability `min(1, p / q)`, and a rejected one is replaced by a draw from the rest `max(p - q, 0)`. With a budget
//! it is mentored decoding: `p` gives way to the [`Optimum`], the distribution within the budget that accepts most.
//!
//! Two tests save the optimum's computation and change no output. First, a draft that would be accepted without any
//! budget (`u q < p`) is accepted with one. This test is possible only if no weight of the output is asked for, since
//! a weight is made of the optimum's probabilities. Second, where the draft's own distribution is within the budget,
//! it is the optimum.

use rand_core::Rng;
use unskew_core::TokenId;

use super::{Divergence, Optimum, Pair, Selection, SpeculationConfig, SpeculationStats, drafts::Drawn};
use crate::{
    random::{uniform, weighted},
    row::{DenseRow, exp64},
    tree::log_difference,
};

/// The choice at a drafted position: a token, or `None` for the end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Verified {
    pub(crate) choice: Option<TokenId>,
    /// The log-probability of the choice under the distribution that it was drawn from.
    pub(crate) log_q: f64,
}

/// The target's distribution at a drafted position.
pub(crate) struct Target<'a> {
    pub(crate) row: &'a DenseRow,
    pub(crate) eos: f64,
    pub(crate) valid_mass: f64,
}

impl Target<'_> {
    /// The log-probability of a choice, given that it is allowed.
    fn log(&self, choice: Option<TokenId>) -> f64 {
        choice.map_or(self.eos, |token| self.row.of_token(token)) - self.valid_mass
    }

    /// Draws a choice from all outcomes except the token `without`.
    fn draw(&self, without: Option<TokenId>, rng: &mut dyn Rng) -> Option<TokenId> {
        let left = match without {
            Some(token) => log_difference(self.valid_mass, self.row.of_token(token)),
            None => self.valid_mass,
        };
        if self.eos > f64::NEG_INFINITY && uniform(rng) < (self.eos - left).exp() {
            return None;
        }
        self.row.draw(without.as_slice(), uniform(rng)).map(|drawn| drawn.token)
    }
}

/// Verifies drafts, with or without a budget.
pub(crate) struct Verifier {
    pub(crate) config: SpeculationConfig,
    pub(crate) divergence: Box<dyn Divergence>,
    pub(crate) selection: Selection,
}

impl Verifier {
    /// Verifies the draft `drafted` of a position. The divergence that the choice spends is counted in `stats`.
    pub(crate) fn verify(
        &mut self,
        target: &Target<'_>,
        drafted: Option<TokenId>,
        drawn: &Drawn,
        stats: &mut SpeculationStats,
        rng: &mut dyn Rng,
    ) -> Verified {
        if self.config.budget.is_lossless() {
            return lossless(target, drafted, drawn, rng);
        }
        self.mentored(target, drafted, drawn, stats, rng)
    }

    fn mentored(
        &mut self,
        target: &Target<'_>,
        drafted: Option<TokenId>,
        drawn: &Drawn,
        stats: &mut SpeculationStats,
        rng: &mut dyn Rng,
    ) -> Verified {
        let allowed = self.config.budget.allowance(stats.spent);
        stats.allowed += allowed;
        // The end comes first, and then the tokens.
        let (ids, draft, log_ratios) = match drawn {
            Drawn::From { ids, logs } => {
                let of = std::iter::once(None).chain(ids.iter().copied().map(Some));
                let ratios: Vec<f64> = of.zip(logs).map(|(choice, log)| target.log(choice) - log).collect();
                (ids.clone(), exp64::probabilities(logs, 0.0), ratios)
            }
            Drawn::Forced | Drawn::Surely => {
                let mut ids: Vec<TokenId> = target.row.list().into_iter().map(|(token, _)| token).collect();
                if let Some(token) = drafted
                    && let Err(at) = ids.binary_search(&token)
                {
                    ids.insert(at, token);
                }
                let at = drafted.map_or(0, |token| ids.partition_point(|id| *id < token) + 1);
                let mut draft = vec![0.0; ids.len() + 1];
                draft[at] = 1.0;
                let mut ratios = vec![f64::INFINITY; ids.len() + 1];
                ratios[at] = target.log(drafted);
                (ids, draft, ratios)
            }
        };
        let choice = |index: usize| index.checked_sub(1).map(|index| ids[index]);
        let logs: Vec<f64> = (0..draft.len()).map(|index| target.log(choice(index))).collect();
        let target = exp64::probabilities(&logs, 0.0);
        let at = drafted.map_or(0, |token| ids.partition_point(|id| *id < token) + 1);
        let (mut own, mut forbidden) = (0.0, 0.0);
        for ((p, q), log_ratio) in draft.iter().zip(&target).zip(&log_ratios) {
            if *q > 0.0 {
                own += self.divergence.term(*p, *q, *log_ratio);
            } else {
                forbidden += p;
            }
        }
        if forbidden <= 0.0 && own <= allowed {
            // The draft's own distribution is the optimum.
            stats.spend(own.max(0.0));
            return Verified { choice: drafted, log_q: draft[at].ln() };
        }
        let coin = uniform(rng);
        let weights = self.config.weights;
        if !weights && forbidden <= 0.0 && coin * draft[at] < target[at] {
            stats.spend(allowed);
            return Verified { choice: drafted, log_q: target[at].ln() };
        }
        let pair = Pair { draft: &draft, target: &target, log_ratios: Some(&log_ratios) };
        let optimum = self.selection.optimum(&pair, &*self.divergence, allowed);
        // The budget was checked when the sampler was made.
        let optimum = optimum.unwrap_or(Optimum::lossless(1.0, 0.0));
        stats.solved += 1;
        stats.spend(if optimum.is_binding() { allowed } else { optimum.divergence().clamp(0.0, allowed) });
        let distribution = |index: usize| optimum.distribution(draft[index], target[index]);
        let index = if coin * draft[at] < distribution(at) {
            at
        } else {
            let residual = draft.iter().zip(&target).map(|(p, q)| optimum.residual(*p, *q));
            // Where rounding leaves an empty rest, the two distributions are the same.
            weighted(&residual.collect::<Vec<_>>(), rng).or_else(|| weighted(&target, rng)).unwrap_or(at)
        };
        Verified {
            choice: choice(index),
            log_q: if weights { distribution(index).ln() } else { target[index].ln() },
        }
    }
}

/// Speculative sampling.
fn lossless(target: &Target<'_>, drafted: Option<TokenId>, drawn: &Drawn, rng: &mut dyn Rng) -> Verified {
    let log_target = target.log(drafted);
    let log_draft = match drawn {
        Drawn::From { ids, logs } => {
            logs[drafted.map_or(0, |token| ids.partition_point(|id| *id < token) + 1)]
        }
        Drawn::Forced | Drawn::Surely => 0.0,
    };
    let choice = if uniform(rng) * log_draft.exp() < log_target.exp() {
        drafted
    } else if let Drawn::From { ids, logs } = drawn {
        let choices = std::iter::once(None).chain(ids.iter().copied().map(Some));
        let residual = choices.zip(logs).map(|(choice, log)| (target.log(choice).exp() - log.exp()).max(0.0));
        match weighted(&residual.collect::<Vec<_>>(), rng) {
            Some(index) => index.checked_sub(1).map(|index| ids[index]),
            // Where rounding leaves an empty rest, the two distributions are the same.
            None => target.draw(None, rng),
        }
    } else {
        target.draw(drafted, rng)
    };
    Verified { choice, log_q: target.log(choice) }
}
