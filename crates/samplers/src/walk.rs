//! One walk down the tree of prefixes: the proposal that masked, rejection and DISC sampling share.
//!
//! Masked sampling draws each token from what the mask leaves of the model's distribution, renormalised. The mass that
//! it leaves, multiplied along the output, is the ratio of the model's probability to the proposal's: `x` in the paper
//! (DISC, section 2). Rejection sampling is the same walk with a coin at each prefix that goes on with the probability
//! of that mass: the model itself would have drawn an allowed token with just that probability. So a test with
//! probability `x` at the end, and a test with probability mass at each prefix, are the same law; the second stops
//! early, and most of its refusals cost nothing, because the first prefixes of a walk are known.
//!
//! A walk can also use what earlier ones have found: at a known prefix it draws tokens in proportion to the bounds of
//! what they lead to (ASAp's proposal), and only new prefixes toss a coin. With `b` the bound of the empty prefix when
//! the walk begins, an output then comes through with probability `P / b`: the factors of the known prefixes cancel one
//! by one, since each divides by the bound that the one before it multiplied by (CARS, Parys et al. 2025). No known
//! failure is proposed twice, and when all prefixes are known no coin is left.

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
    /// None.
    None,
    /// All but the empty prefix. Its mass is the same for every output: leaving it out multiplies the probability of
    /// every acceptance alike, and so changes no law.
    BelowRoot,
    /// All.
    All,
}

/// In proportion to what a token is drawn, of those that the mask leaves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Proposal {
    /// The model's probability: masked sampling.
    Masked,
    /// The same, of the most probable ones alone.
    Truncated(Truncation),
    /// The model's probability times the bound of what it leads to. Known prefixes then toss no coins.
    Learned,
}

/// What a walk does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Walk {
    pub(crate) coins: Coins,
    pub(crate) proposal: Proposal,
    /// At the length limit: end with a prefix, as plain decoding does. Otherwise the output must stop there, and its
    /// mass is the probability that it does.
    pub(crate) cut: bool,
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
    /// What the model's probability is to the proposal's; for masked sampling, `ln x`.
    pub(crate) fn log_ratio(&self) -> f64 {
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
    let mut path = Path { left: Vec::new(), node: Prefixes::<M, C>::ROOT, log_proposal: 0.0 };
    let end = path.go(prefixes, walk, rng);
    if walk.proposal == Proposal::Learned {
        prefixes.tighten_above(path.node);
    }
    end
}

/// A prefix that was left, and the token that followed.
struct Passed {
    node: NodeId,
    token: TokenId,
    /// Whether it was evaluated before this walk.
    known: bool,
}

/// The way of one walk.
struct Path {
    left: Vec<Passed>,
    /// Where it is now.
    node: NodeId,
    log_proposal: f64,
}

impl Path {
    fn go<M: LanguageModel, C: Constraint>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        walk: Walk,
        rng: &mut dyn Rng,
    ) -> Result<End, SampleError<M::Error>> {
        // How many prefixes have tossed their coins.
        let mut settled = 0;
        loop {
            if walk.cut && self.left.len() == prefixes.max_tokens() {
                // The last of them may have been passed.
                if let Some(last) = self.left.last() {
                    prefixes.step(last.node)?;
                }
                if let Some(end) = self.settle(prefixes, walk, rng, &mut settled, None)? {
                    return Ok(end);
                }
                return self.output(prefixes, None);
            }
            let known = prefixes.is_known(self.node);
            if !known && let Some(token) = prefixes.forced(self.node) {
                self.leave(prefixes, token, known);
                continue;
            }
            // Evaluates also those that were passed.
            prefixes.step(self.node)?;
            if let Some(end) = self.settle(prefixes, walk, rng, &mut settled, Some(known))? {
                return Ok(end);
            }
            let (choice, probability) = choose(prefixes.step(self.node)?, walk.proposal, rng);
            self.log_proposal += probability.ln();
            match choice {
                Choice::End => return self.output(prefixes, Some(self.node)),
                Choice::Token(token) => self.leave(prefixes, token, known),
            }
        }
    }

    fn leave<M: LanguageModel, C: Constraint>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        token: TokenId,
        known: bool,
    ) {
        self.left.push(Passed { node: self.node, token, known });
        self.node = prefixes.child(self.node, token);
    }

    /// Tosses the coins of the prefixes that have not tossed them; `here` says whether the present one, if it takes
    /// part, was known. The end of the walk, if it is one.
    fn settle<M: LanguageModel, C: Constraint>(
        &self,
        prefixes: &mut Prefixes<M, C>,
        walk: Walk,
        rng: &mut dyn Rng,
        settled: &mut usize,
        here: Option<bool>,
    ) -> Result<Option<End>, SampleError<M::Error>> {
        let left =
            self.left[(*settled).min(self.left.len())..].iter().map(|passed| (passed.node, passed.known));
        for (node, known) in left.chain(here.map(|known| (self.node, known))) {
            let at_root = *settled == 0;
            *settled += 1;
            let Step { mass, bound, .. } = *prefixes.step(node)?;
            if mass <= 0.0 || (walk.proposal == Proposal::Learned && bound <= 0.0) {
                return Ok(Some(End::Stuck(prefixes.tokens(node))));
            }
            let tosses = match walk.coins {
                Coins::None => false,
                Coins::BelowRoot => !at_root,
                Coins::All => true,
            };
            let learned = known && walk.proposal == Proposal::Learned;
            if tosses && !learned && uniform(rng) >= mass {
                return Ok(Some(End::Refused));
            }
        }
        Ok(None)
    }

    /// Adds up the probabilities of a walk whose prefixes are all evaluated; `end` is the prefix after which it
    /// stopped.
    fn output<M: LanguageModel, C: Constraint>(
        &self,
        prefixes: &mut Prefixes<M, C>,
        end: Option<NodeId>,
    ) -> Result<End, SampleError<M::Error>> {
        let mut log_prob = 0.0;
        for Passed { node, token, .. } in &self.left {
            let step = prefixes.step(*node)?;
            log_prob += step.tokens.binary_search(token).map_or(0.0, |index| step.probabilities[index]).ln();
        }
        if let Some(node) = end {
            log_prob += prefixes.step(node)?.stop.ln();
        }
        Ok(End::Output(Output {
            tokens: self.left.iter().map(|passed| passed.token).collect(),
            finish: if end.is_some() { Finish::Stop } else { Finish::Length },
            log_prob,
            log_proposal: self.log_proposal,
            log_root_mass: prefixes.step(Prefixes::<M, C>::ROOT)?.mass.ln(),
        }))
    }
}

/// Draws what follows a prefix; answers with the probability of having drawn it.
fn choose(step: &Step, proposal: Proposal, rng: &mut dyn Rng) -> (Choice, f64) {
    let (weights, total) = match proposal {
        Proposal::Masked => (&step.probabilities, step.mass),
        Proposal::Learned => (&step.weights, step.bound),
        Proposal::Truncated(truncation) => return choose_truncated(step, truncation, rng),
    };
    let index = if uniform(rng) * total < step.stop { None } else { weighted(weights, rng) };
    // Where no token is left the end is, and the line above has drawn it but for rounding.
    index.map_or((Choice::End, step.stop / total), |index| {
        (Choice::Token(step.tokens[index]), weights[index] / total)
    })
}

fn choose_truncated(step: &Step, truncation: Truncation, rng: &mut dyn Rng) -> (Choice, f64) {
    let weights: Vec<f64> = std::iter::once(step.stop).chain(step.probabilities.iter().copied()).collect();
    let kept = truncation.keep(&weights);
    let weights: Vec<f64> = kept.iter().map(|index| weights[*index]).collect();
    let drawn = weighted(&weights, rng).expect("the most probable outcome is kept");
    let choice = if kept[drawn] == 0 { Choice::End } else { Choice::Token(step.tokens[kept[drawn] - 1]) };
    (choice, weights[drawn] / weights.iter().sum::<f64>())
}
