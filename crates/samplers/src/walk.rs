//! One walk down the tree of prefixes: the proposal that masked, rejection and DISC sampling share.
//!
//! Masked sampling draws each token from what the mask leaves of the model's distribution, renormalised. The mass that
//! it leaves, multiplied along the output, is the ratio of the model's probability to the proposal's: `x` in the paper
//! (DISC, section 2). Rejection sampling is the same walk with a coin at each prefix that goes on with the probability
//! of that mass: the model itself would have drawn an allowed token with just that probability. So a test with
//! probability `x` at the end, and a test with probability mass at each prefix, are the same law; the second stops
//! early, and most of its refusals cost nothing, because the first prefixes of a walk are known.

use rand_core::Rng;
use unskew_core::{Constraint, Finish, LanguageModel, TokenId};

use crate::{
    SampleError, Truncation,
    prefixes::{NodeId, Prefixes, Step},
    random::{uniform, weighted},
};

/// Which prefixes toss a coin with their mass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coins {
    /// None: the walk is masked sampling.
    None,
    /// All but the empty prefix. Its mass is the same for every output: leaving it out multiplies the probability of
    /// every acceptance alike, and so changes no law.
    BelowRoot,
    /// All.
    All,
}

/// What a walk does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Walk {
    pub(crate) coins: Coins,
    /// At the length limit: end with a prefix, as plain decoding does. Otherwise the output must stop there, and its
    /// mass is the probability that it does.
    pub(crate) cut: bool,
    /// Cuts off the improbable part of what the mask leaves.
    pub(crate) truncation: Option<Truncation>,
}

/// How a walk ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum End {
    /// With an output.
    Output(Output),
    /// With a coin that fell on the other side.
    Refused,
    /// At a prefix after which nothing allowed has a positive probability.
    Stuck(Vec<TokenId>),
}

/// An output of the proposal.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) finish: Finish,
    /// Its log-probability under the model, the end included if there was one.
    pub(crate) log_prob: f64,
    /// Its log-probability under the walk without coins.
    pub(crate) log_proposal: f64,
    /// The log of the mass of the empty prefix.
    pub(crate) log_root_mass: f64,
}

impl Output {
    /// `ln x`: what the model's probability is to the proposal's.
    pub(crate) fn log_mass(&self) -> f64 {
        self.log_prob - self.log_proposal
    }
}

/// What follows a prefix in a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Token(TokenId),
    End,
}

/// Walks from the empty prefix until an output ends, a coin refuses, or nothing is left.
///
/// A token that is forced is appended without waiting for the model; its probability is computed with the next
/// position that needs the model, in the same pass.
pub(crate) fn walk<M: LanguageModel, C: Constraint>(
    prefixes: &mut Prefixes<M, C>,
    walk: Walk,
    rng: &mut dyn Rng,
) -> Result<End, SampleError<M::Error>> {
    let mut node = Prefixes::<M, C>::ROOT;
    // The prefixes that were left, each with the token that followed, and how many of them have tossed their coins.
    let mut path: Vec<(NodeId, TokenId)> = Vec::new();
    let mut settled = 0;
    loop {
        let cut = walk.cut && path.len() == prefixes.max_tokens();
        if !cut
            && prefixes.known(node).is_none()
            && let Some(token) = prefixes.forced(node)
        {
            path.push((node, token));
            node = prefixes.child(node, token);
            continue;
        }

        // Evaluates the last prefix, and with it those that were passed.
        let newest = if cut { path.last().map(|(node, _)| *node) } else { Some(node) };
        if let Some(newest) = newest {
            prefixes.step(newest)?;
        }
        while settled <= path.len() {
            let at = path.get(settled).map_or(node, |(node, _)| *node);
            if cut && at == node {
                break;
            }
            let mass = prefixes.step(at)?.mass;
            if mass <= 0.0 {
                return Ok(End::Stuck(prefixes.tokens(at)));
            }
            let tosses = match walk.coins {
                Coins::None => false,
                Coins::BelowRoot => settled > 0,
                Coins::All => true,
            };
            if tosses && uniform(rng) >= mass {
                return Ok(End::Refused);
            }
            settled += 1;
        }
        if cut {
            return output(prefixes, walk, &path, None);
        }

        match choose(prefixes.step(node)?, walk.truncation, rng) {
            Choice::End => return output(prefixes, walk, &path, Some(node)),
            Choice::Token(token) => {
                path.push((node, token));
                node = prefixes.child(node, token);
            }
        }
    }
}

/// Draws what follows a prefix, in proportion to what the mask, and then the truncation, leave.
fn choose(step: &Step, truncation: Option<Truncation>, rng: &mut dyn Rng) -> Choice {
    if let Some(truncation) = truncation {
        let (kept, weights) = truncated(step, truncation);
        return kept[weighted(&weights, rng).expect("the most probable outcome is kept")];
    }
    if uniform(rng) * step.mass < step.stop {
        return Choice::End;
    }
    // With no token left the end is, and the line above has drawn it but for rounding.
    weighted(&step.probabilities, rng).map_or(Choice::End, |index| Choice::Token(step.tokens[index]))
}

/// What a truncation keeps of what the mask leaves, with the probabilities under the model.
fn truncated(step: &Step, truncation: Truncation) -> (Vec<Choice>, Vec<f64>) {
    let choice = |index: usize| if index == 0 { Choice::End } else { Choice::Token(step.tokens[index - 1]) };
    let weights: Vec<f64> = std::iter::once(step.stop).chain(step.probabilities.iter().copied()).collect();
    truncation.keep(&weights).into_iter().map(|index| (choice(index), weights[index])).unzip()
}

/// Adds up the probabilities of a walk whose prefixes are all evaluated; `end` is the prefix after which it stopped.
fn output<M: LanguageModel, C: Constraint>(
    prefixes: &mut Prefixes<M, C>,
    walk: Walk,
    path: &[(NodeId, TokenId)],
    end: Option<NodeId>,
) -> Result<End, SampleError<M::Error>> {
    let choices = path.iter().map(|(node, token)| (*node, Choice::Token(*token)));
    let choices = choices.chain(end.map(|node| (node, Choice::End)));
    let (mut log_prob, mut log_proposal) = (0.0, 0.0);
    for (node, choice) in choices {
        let step = prefixes.step(node)?;
        let probability = step.probability(choice);
        let left = match walk.truncation {
            None => step.mass,
            Some(truncation) => truncated(step, truncation).1.iter().sum(),
        };
        log_prob += probability.ln();
        log_proposal += (probability / left).ln();
    }
    let log_root_mass = prefixes.step(Prefixes::<M, C>::ROOT)?.mass.ln();
    let tokens = path.iter().map(|(_, token)| *token).collect();
    let finish = if end.is_some() { Finish::Stop } else { Finish::Length };
    Ok(End::Output(Output { tokens, finish, log_prob, log_proposal, log_root_mass }))
}

impl Step {
    fn probability(&self, choice: Choice) -> f64 {
        match choice {
            Choice::End => self.stop,
            Choice::Token(token) => {
                self.tokens.binary_search(&token).map_or(0.0, |index| self.probabilities[index])
            }
        }
    }
}
