//! The continuations of a prefix, as far as a draw by values needs them: the most probable tokens with the states
//! that they lead to, and the mass of the others.

use smallvec::SmallVec;
use unskew_core::{TokenId, logprob::log_sum_exp};

use super::{Mean, StateValues};
use crate::random::weighted_by;

/// The most tokens of a prefix that have a value each. The others have one in common.
pub(crate) const CANDIDATES: usize = 32;

/// A token whose probability, relative to the most probable one, is below e to this is no candidate.
pub(crate) const LEAST_LOG_RATIO: f64 = -9.0;

/// A token that may follow a prefix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Successor {
    pub(crate) token: TokenId,
    pub(crate) log_p: f64,
    /// The key of the state that it leads to.
    pub(crate) key: Option<u64>,
}

/// The continuations of a prefix. Natural logarithms.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Lookahead {
    /// The key of the state of the prefix.
    pub(crate) key: Option<u64>,
    /// The probability of the end; minus infinity where the output may not end.
    pub(crate) end: f64,
    /// The most probable tokens that are allowed, by token.
    pub(crate) candidates: Box<[Successor]>,
    /// The mass of the other tokens that are allowed.
    pub(crate) rest: f64,
    /// The value of the prefix, once a rollout that passed it has ended.
    pub(crate) value: Option<f64>,
}

/// The weights by which the continuation of a prefix is drawn. Natural logarithms.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    /// The weight of the end.
    pub(crate) end: f64,
    /// The value of each candidate.
    pub(crate) values: SmallVec<[f64; CANDIDATES]>,
    /// The value of the tokens that are no candidates.
    pub(crate) other: f64,
    /// The sum of all weights, each a probability times a value: the value of the prefix.
    pub(crate) total: f64,
}

/// A way to continue a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    End,
    /// The candidate with this index.
    Candidate(usize),
    /// One of the tokens that are no candidates.
    Other,
}

impl Lookahead {
    /// The memory of a lookahead, in bytes, with its entry in a map.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.candidates[..]) + 16
    }

    /// The weights of the continuations. `known` answers with the value of the prefix after a candidate, where it is
    /// known.
    pub(crate) fn outlook(&self, values: &StateValues, known: impl Fn(TokenId) -> Option<f64>) -> Outlook {
        let mut sources: SmallVec<[Source; CANDIDATES]> = SmallVec::new();
        let keys = self.candidates.iter().map(|candidate| candidate.key).chain([self.key]);
        values.each(keys, |mean| sources.push(mean.map_or(Source::Nothing, Source::State)));
        let of_own_state = sources.pop();
        for (source, candidate) in sources.iter_mut().zip(&self.candidates) {
            if let Some(value) = known(candidate.token) {
                *source = Source::Prefix(value);
            }
        }
        let other = self.mean(&sources).or_else(|| Some(of_own_state?.log_value()? - self.mass()));
        // Without any knowledge, and where all that is known leads nowhere, no continuation is better than another.
        let other = other.filter(|other| other.is_finite()).unwrap_or(0.0);
        let values = sources.iter().map(|source| match source {
            Source::Prefix(value) => *value,
            Source::State(mean) => mean.among(other),
            Source::Nothing => other,
        });
        let values: SmallVec<[f64; CANDIDATES]> = values.collect();
        let weights = self.candidates.iter().zip(&values).map(|(candidate, value)| candidate.log_p + value);
        let total = log_sum_exp(weights.chain([self.end, self.rest + other]));
        Outlook { end: self.end, values, other, total }
    }

    /// The mass of the end and of all tokens.
    fn mass(&self) -> f64 {
        let tokens = self.candidates.iter().map(|candidate| candidate.log_p);
        log_sum_exp(tokens.chain([self.end, self.rest]))
    }

    /// The mean of the known values of candidates, by probability. `None` where none is known.
    fn mean(&self, sources: &[Source]) -> Option<f64> {
        let known = self.candidates.iter().zip(sources);
        let known = known.filter_map(|(candidate, source)| Some((candidate.log_p, source.log_value()?)));
        let mass = log_sum_exp(known.clone().map(|(log_p, _)| log_p));
        (mass > f64::NEG_INFINITY).then(|| log_sum_exp(known.map(|(log_p, value)| log_p + value)) - mass)
    }
}

/// The knowledge about the prefix after a candidate.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Its own value.
    Prefix(f64),
    /// The value of its state.
    State(Mean),
    Nothing,
}

impl Source {
    fn log_value(self) -> Option<f64> {
        match self {
            Self::Prefix(value) => Some(value),
            Self::State(mean) => Some(mean.log_mean),
            Self::Nothing => None,
        }
    }
}

impl Outlook {
    /// The way that a number in `[0, 1)` draws, with the logarithm of its probability relative to its weight: the
    /// total.
    pub(crate) fn draw(&self, lookahead: &Lookahead, uniform: f64) -> Option<Way> {
        let weight = |log: f64| (log - self.total).exp();
        let mut weights: SmallVec<[f64; CANDIDATES]> = SmallVec::new();
        weights.push(weight(self.end));
        weights.push(weight(lookahead.rest + self.other));
        let candidates = lookahead.candidates.iter().zip(&self.values);
        weights.extend(candidates.map(|(candidate, value)| weight(candidate.log_p + value)));
        Some(match weighted_by(&weights, uniform)? {
            0 => Way::End,
            1 => Way::Other,
            index => Way::Candidate(index - 2),
        })
    }
}
