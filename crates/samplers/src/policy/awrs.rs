//! AWRS: each token by rejection, without a mask, and an unbiased weight for the whole output (Lipkin et al. 2025,
//! "Fast Controlled Generation from Language Models with Adaptive Weighted Rejection Sampling").
//!
//! At each prefix, tokens are drawn from the model without replacement until the constraint accepts one. That token
//! is a draw from the masked distribution. It costs one question to the constraint for each wrong token, and one
//! more; a mask asks about every token of the vocabulary. A weight needs the mass that a mask would leave, which is
//! estimated: the drawing goes on, from all tokens that were not refused, until a second token is accepted. With `m`
//! the mass of the tokens refused before the first accepted one, and `n` the number of all refusals,
//!
//! ```text
//! Z = (1 - m) / (n + 1)
//! ```
//!
//! and `E[Z; the token was v] = P(v)` for each allowed token `v`, exactly (a test adds up all orders). So the product
//! of the `Z` along an output is a weight with which outputs stand for the model's own distribution, and its
//! expectation is `P(L)`.
//!
//! Where the constraint has its masks at hand, masked sampling has the same distribution of outputs and weights
//! without noise.

use std::{cmp::Ordering, collections::BinaryHeap};

use rand_core::Rng;
use unskew_core::{Origin, RowError, TokenId, logprob::log_sum_exp};

use crate::{
    policy::{Outcome, Policy, Tries},
    random::{uniform, weighted},
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
    row::Row,
    session::Scope,
};

/// Adaptive weighted rejection sampling.
///
/// - **Distribution**: that of masked sampling; where a prefix has no continuation, the output is begun anew, as
///   often as `max_tries` says.
/// - **Weight**: `log_weight` is that of an estimate whose expectation, over tries, is `P(L)`: averages with these
///   weights, normalised, tend to those under the target distribution.
/// - **Cost**: one evaluated position per token, and a question to the constraint for each token that it refused,
///   twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Awrs {
    max_tries: u64,
}

impl Awrs {
    /// The sampler that gives up after `max_tries` tries for one output.
    pub const fn new(max_tries: u64) -> Self {
        Self { max_tries }
    }
}

impl Policy for Awrs {
    type Memory = ();

    fn scope(&self) -> Scope {
        Proposal::Awrs.scope()
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig::new(Proposal::Awrs, AcceptTest::Never)
    }

    fn on_end(&self, (): &mut (), tries: Tries, end: End, _rng: &mut dyn Rng) -> Outcome {
        match end {
            End::Output(output) => {
                let log_weight = output.log_weight;
                Outcome::Done(output, Origin::Proposed, log_weight)
            }
            End::Stuck(_) | End::Rejected if tries.rollouts < self.max_tries => Outcome::Again,
            End::Stuck(_) | End::Rejected => Outcome::NoOutput,
        }
    }
}

/// A token of a row, or `None` for the end, with its log-probability and an estimate of the mass that a mask would
/// leave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Local {
    pub(crate) token: Option<TokenId>,
    pub(crate) log_p: f64,
    pub(crate) log_mass: f64,
}

/// The number of outcomes that are drawn one by one before all outcomes are put in order.
const FEW: usize = 16;

/// An outcome with its arrival time, that of an exponential clock. The clocks are independent, and their rates are the
/// probabilities: outcomes in the order of time are a sample without replacement.
#[derive(PartialEq, Debug)]
struct Clock {
    time: f64,
    outcome: usize,
}

impl Eq for Clock {}

impl PartialOrd for Clock {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Clock {
    /// For the heap, the earliest outcome is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.outcome.cmp(&self.outcome))
    }
}

/// The two loops of the method at one prefix. `allows` is called with `None` for the end. `None` if no outcome is
/// allowed.
pub(crate) fn local(
    row: &Row,
    rng: &mut dyn Rng,
    mut allows: impl FnMut(Option<TokenId>) -> bool,
) -> Result<Option<Local>, RowError> {
    let mut refused = Refused::default();
    // Mostly the first few tokens decide, and the row need not be listed.
    if let Some(found) = by_blocks(row, rng, &mut allows, &mut refused)? {
        return Ok(Some(found));
    }
    Ok(one_by_one(row, &row.list()?, rng, &mut allows, refused))
}

/// The refused outcomes, and the first accepted one.
#[derive(Default, Debug)]
struct Refused {
    /// The refused tokens, ascending.
    tokens: Vec<TokenId>,
    end: bool,
    count: u32,
    /// The outcome that was accepted first, its log-probability, and the logarithm of the mass that was not refused
    /// before it.
    taken: Option<(Option<TokenId>, f64, f64)>,
}

/// The loops by draws from the row, each without the refused outcomes. `None` where more than a few outcomes are
/// refused in one of the loops; `refused` then holds the state of the loops.
fn by_blocks(
    row: &Row,
    rng: &mut dyn Rng,
    allows: &mut impl FnMut(Option<TokenId>) -> bool,
    refused: &mut Refused,
) -> Result<Option<Local>, RowError> {
    let total = log_sum_exp([row.end(), row.sum()]);
    for _ in 0..2 * FEW {
        let end = if refused.end { f64::NEG_INFINITY } else { row.end() };
        let left = log_sum_exp([end, row.log_mass(&refused.tokens)?]);
        let (token, log_p) = if uniform(rng) < (end - left).exp() {
            (None, end)
        } else {
            let Some(drawn) = row.draw(&refused.tokens, uniform(rng))? else { return Ok(None) };
            (Some(drawn.token), drawn.log_p)
        };
        match refused.taken {
            Some((first, log_p, share)) if first == token || allows(token) => {
                let log_mass = share - f64::from(refused.count + 1).ln();
                return Ok(Some(Local { token: first, log_p, log_mass }));
            }
            None if allows(token) => refused.taken = Some((token, log_p, left - total)),
            _ => {
                refused.count += 1;
                match token {
                    None => refused.end = true,
                    Some(token) => {
                        let at = refused.tokens.partition_point(|other| *other < token);
                        refused.tokens.insert(at, token);
                    }
                }
            }
        }
    }
    Ok(None)
}

/// The loops over a list of all outcomes with their weights. Outcome 0 is the end.
fn one_by_one(
    row: &Row,
    listed: &[(TokenId, f64)],
    rng: &mut dyn Rng,
    allows: &mut impl FnMut(Option<TokenId>) -> bool,
    refused: Refused,
) -> Option<Local> {
    let outcome_of = |token: Option<TokenId>| match token {
        None => Some(0),
        Some(token) => listed.binary_search_by_key(&token, |(token, _)| *token).ok().map(|index| index + 1),
    };
    let token_of = |outcome: usize| outcome.checked_sub(1).map(|index| listed[index].0);
    let logs: Vec<f64> = std::iter::once(row.end()).chain(listed.iter().map(|(_, log_p)| *log_p)).collect();
    let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = logs.iter().map(|log| (log - greatest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let Refused { tokens, end, count: mut refusals, taken } = refused;
    let known = tokens.into_iter().map(Some).chain(end.then_some(None));
    known.filter_map(outcome_of).for_each(|outcome| weights[outcome] = 0.0);
    // A refused outcome has weight zero from its refusal on.
    let mut first = |weights: &mut Vec<f64>, known: Option<usize>, rng: &mut dyn Rng| {
        // The first few outcomes one by one, by their weights: mostly one of them is accepted, and a sum is cheaper
        // than many clocks.
        for _ in 0..FEW {
            let outcome = weighted(weights, rng)?;
            if known == Some(outcome) || allows(token_of(outcome)) {
                return Some(outcome);
            }
            refusals += 1;
            weights[outcome] = 0.0;
        }
        let mut clocks: BinaryHeap<Clock> = weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(outcome, weight)| Clock { time: -(1.0 - uniform(rng)).ln() / weight, outcome })
            .collect();
        while let Some(Clock { outcome, .. }) = clocks.pop() {
            if known == Some(outcome) || allows(token_of(outcome)) {
                return Some(outcome);
            }
            refusals += 1;
            weights[outcome] = 0.0;
        }
        None
    };
    let (outcome, log_left) = match taken {
        Some((token, _, share)) => (outcome_of(token)?, share),
        None => {
            let taken = first(&mut weights, None, rng)?;
            // The mass is summed, not subtracted: the rest may be far less than the refused mass.
            let left: f64 = weights.iter().sum();
            (taken, (left / total).ln())
        }
    };
    first(&mut weights, Some(outcome), rng);
    let log_mass = log_left - f64::from(refusals + 1).ln();
    Some(Local { token: token_of(outcome), log_p: logs[outcome], log_mass })
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    /// `E[Z; the token was v]`, by adding up all orders in which tokens may be drawn.
    fn expectation(p: &[f64], valid: &[bool]) -> Vec<f64> {
        struct Open {
            refused: Vec<usize>,
            probability: f64,
            /// The first accepted token, and the mass that was left then.
            taken: Option<(usize, f64)>,
        }
        let mut sums = vec![0.0; p.len()];
        let mut open = vec![Open { refused: vec![], probability: 1.0, taken: None }];
        while let Some(Open { refused, probability, taken }) = open.pop() {
            let rest: Vec<usize> = (0..p.len()).filter(|index| !refused.contains(index)).collect();
            let left: f64 = rest.iter().map(|index| p[*index]).sum();
            for index in rest {
                let probability = probability * p[index] / left;
                match (valid[index], taken) {
                    (false, taken) => {
                        let refused = refused.iter().copied().chain([index]).collect();
                        open.push(Open { refused, probability, taken });
                    }
                    (true, None) => {
                        open.push(Open { refused: refused.clone(), probability, taken: Some((index, left)) });
                    }
                    (true, Some((first, left))) => {
                        let n = f64::from(u32::try_from(refused.len()).unwrap());
                        sums[first] += probability * left / (n + 1.0);
                    }
                }
            }
        }
        sums
    }

    #[test]
    fn the_weight_is_unbiased_token_by_token() {
        let p = [0.05, 0.3, 0.15, 0.4, 0.1];
        for bits in 1..32u32 {
            let valid: Vec<bool> = (0..5).map(|index| bits >> index & 1 == 1).collect();
            for (index, sum) in expectation(&p, &valid).into_iter().enumerate() {
                let exact = if valid[index] { p[index] } else { 0.0 };
                assert!((sum - exact).abs() < 1e-12, "{valid:?} {index}: {sum}");
            }
        }
    }

    #[test]
    fn the_loops_have_that_expectation() {
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let logits = [0.3, 0.15, 0.4, 0.1].map(|p: f64| p.ln() as f32).to_vec();
        let row = Row::of(&[0, 1, 2, 3].map(TokenId), &logits, 0.05f64.ln());
        let (mut rng, mut sums, draws) = (ChaCha8Rng::seed_from_u64(2), [0.0; 5], 40_000u32);
        for _ in 0..draws {
            let Local { token, log_mass, .. } =
                local(&row, &mut rng, |token| token.is_none_or(|token| token.0 < 2)).unwrap().unwrap();
            sums[token.map_or(0, |token| token.index() + 1)] += log_mass.exp() / f64::from(draws);
        }
        for (sum, exact) in sums.into_iter().zip([0.05, 0.3, 0.15, 0.0, 0.0]) {
            // A weight is at most 1: the deviation of a mean of 40,000 is below 0.0025.
            assert!((sum - exact).abs() < 0.01, "{sums:?}");
        }
        assert_eq!(local(&row, &mut rng, |_| false).unwrap(), None);
        // More tokens than are drawn one by one. Only the last is allowed.
        let tokens: Vec<TokenId> = (0..60).map(TokenId).collect();
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let row = Row::of(&tokens, &[-(60f64.ln()) as f32; 60], f64::NEG_INFINITY);
        let (draws, mut sum) = (4_000u32, 0.0);
        for _ in 0..draws {
            let drawn = local(&row, &mut rng, |token| token == Some(TokenId(59))).unwrap().unwrap();
            assert_eq!(drawn.token, Some(TokenId(59)));
            sum += drawn.log_mass.exp() / f64::from(draws);
        }
        assert!((sum - 1.0 / 60.0).abs() < 0.003, "{sum}");
    }
}
