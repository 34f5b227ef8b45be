//! The measures of an audit: how far the outputs of a sampler are from a distribution, and their cost.
//!
//! They are of **texts** and of **sequences of tokens**. A mask draws `W` and `orld` where the model hardly ever writes
//! `World` so: the text is right, and the sequence is not. People mean texts; a mask in the tokenizer's own spelling
//! (`canonical`) cures the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use unskew_core::{Finish, TokenId, logprob::log_sum_exp};
use unskew_engine::TokenSpace;

use super::{
    super::{Method, Output},
    Sampled,
};

/// The most texts that a line lists: as many as the page has bars.
pub const LISTED: usize = 12;

/// Texts of which the target gives fewer than this many, for as many outputs as a sampler has, are compared together.
const FEW: f64 = 5.0;

/// Probabilities of outputs.
pub(super) type Distribution = BTreeMap<Vec<TokenId>, f64>;

/// The measures of one sampler, as a line of JSON.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Line {
    /// The name of the sampler.
    pub sampler: &'static str,
    /// The name with its parameters.
    pub label: String,
    /// The distribution that its outputs should follow.
    pub distribution: &'static str,
    /// The reference of the distances: `exact` or `observed`.
    pub basis: &'static str,
    /// Outputs, those that were cut off at the length limit not counted.
    pub samples: usize,
    /// Outputs that were cut off.
    pub cut: usize,
    /// The divergence of the frequencies of texts from the target, in nats. Where the target is observed, texts that
    /// are too rare for so few outputs are one, so that this is a lower bound; `None` where all texts are.
    pub kl_text: Option<f64>,
    /// About the divergence of an exact sampler for so few outputs.
    pub kl_text_noise: f64,
    /// The total variation between them: the share of texts that would have been others.
    pub tv_text: Option<f64>,
    /// The share of the target that is texts too rare to be compared one by one.
    pub rare: f64,
    /// The texts that the target gives most often, with their shares: [`LISTED`] at most.
    pub most_probable: Vec<(String, f64)>,
    /// The texts that the sampler gave most often, with their shares.
    pub most_frequent: Vec<(String, f64)>,
    /// P(constraint), as this sampler estimates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mass: Option<f64>,
    /// The divergence of the outputs' frequencies from the target, in nats.
    pub kl: Option<f64>,
    /// About the divergence of an exact sampler for so few outputs.
    pub kl_noise: f64,
    /// The total variation between them.
    pub tv: Option<f64>,
    /// The divergence of masked sampling from the model's own distribution, by the mean of the logarithms of its
    /// weights and P(constraint): it has no noise of few outputs, and no output is missing in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_by_weights: Option<f64>,
    /// The total variation, by the weights: the share of sequences that would have been others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tv_by_weights: Option<f64>,
    /// The same with the outputs' weights, where they have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_weighted: Option<f64>,
    /// The total variation with the outputs' weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tv_weighted: Option<f64>,
    /// Positions that the model evaluated for an output, on average.
    pub lm_calls_per_sample: f64,
    /// Positions that the model evaluated for the first output: what it learned serves all others.
    pub lm_calls_first: u64,
    /// Positions for an output, on average over the last tenth of them.
    pub lm_calls_last: f64,
    /// Calls of the model for an output, on average.
    pub lm_passes_per_sample: f64,
    /// Outputs for each proposal.
    pub acceptance: f64,
    /// The number of independent outputs that the weights are worth.
    pub ess: f64,
    /// The mean of the outputs' log-probabilities under the model.
    pub mean_logprob: f64,
    /// The standard error of that mean.
    pub mean_logprob_se: f64,
    /// Whether no other sampler of the audit is as near to the target for fewer positions, or nearer for as many.
    pub frontier: bool,
    /// The cheapest sampler of the frontier whose divergence exceeds the least of all by no more than the noise. One
    /// sampler of an audit is, unless all stopped.
    pub recommended: bool,
    /// The tally of drafts, where tokens were drafted.
    #[serde(flatten)]
    pub speculation: Option<Speculated>,
    /// Why it has fewer outputs than were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The target by text, where it was enumerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<BTreeMap<String, f64>>,
    /// The frequencies by text, where the target was enumerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empirical: Option<BTreeMap<String, f64>>,
}

/// The tally of drafts, in a line of JSON.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Speculated {
    /// The share of the verified drafts that was accepted.
    pub draft_acceptance: f64,
    /// Tokens of outputs for each call of the model.
    pub tokens_per_pass: f64,
    /// The divergence that was spent over all outputs, in nats.
    pub kl_spent: f64,
    /// The divergence that was allowed over all outputs, in nats.
    pub kl_allowed: f64,
}

pub(super) fn finished(draws: &[Output]) -> impl Iterator<Item = &Output> {
    draws.iter().filter(|draw| draw.finish == Finish::Stop)
}

/// The model's own probabilities of all outputs that any sampler gave, normalised, and the logarithm of their sum.
///
/// An output may be written in several ways: a token passes its end, and `}` and a line break in one token have another
/// probability than `}` alone. Each way that was seen counts. Draws tell them apart by their log-probabilities, which
/// are those of one way up to the rounding of batches.
pub(super) fn observed(sampled: &[Sampled]) -> (Distribution, f64) {
    const SAME: f64 = 1e-2;
    let mut ways: BTreeMap<&[TokenId], Vec<f64>> = BTreeMap::new();
    for draw in sampled.iter().flat_map(|sampled| finished(&sampled.outputs)) {
        ways.entry(draw.ids.as_slice()).or_default().push(draw.log_prob);
    }
    let log_prob = |mut ways: Vec<f64>| {
        ways.sort_by(f64::total_cmp);
        ways.dedup_by(|next, last| *next - *last < SAME);
        log_sum_exp(ways)
    };
    let outputs: BTreeMap<&[TokenId], f64> =
        ways.into_iter().map(|(output, ways)| (output, log_prob(ways))).collect();
    let log_seen = log_sum_exp(outputs.values().copied().collect::<Vec<_>>());
    let share = |log_prob: f64| (log_prob - log_seen).exp();
    (outputs.into_iter().map(|(output, log_prob)| (output.to_vec(), share(log_prob))).collect(), log_seen)
}

/// The shares of outputs by weight; a weight is that of one output.
pub(super) fn shares<'a>(draws: impl Iterator<Item = (&'a [TokenId], f64)>) -> BTreeMap<&'a [TokenId], f64> {
    let mut shares: BTreeMap<&[TokenId], f64> = BTreeMap::new();
    for (output, weight) in draws {
        *shares.entry(output).or_default() += weight;
    }
    let total: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= total);
    shares
}

/// The divergence of shares from a distribution, in nats, and their total variation.
pub(super) fn distances<K: Ord>(shares: &BTreeMap<K, f64>, target: &BTreeMap<K, f64>) -> (f64, f64) {
    let of = |output: &K| target.get(output).copied().unwrap_or(0.0);
    let kl: f64 = shares
        .iter()
        .filter(|(_, share)| **share > 0.0)
        .map(|(output, share)| share * (share / of(output)).ln())
        .sum();
    let outputs: BTreeSet<&K> = shares.keys().chain(target.keys()).collect();
    let difference = |output: &&K| (shares.get(*output).copied().unwrap_or(0.0) - of(output)).abs();
    // Rounding must not show as a negative distance.
    (kl.max(0.0), outputs.iter().map(difference).sum::<f64>() / 2.0)
}

/// The same by texts.
pub(super) fn by_text<'a>(
    outputs: impl IntoIterator<Item = (&'a [TokenId], f64)>,
    tokens: &TokenSpace,
) -> BTreeMap<String, f64> {
    let mut texts: BTreeMap<String, f64> = BTreeMap::new();
    outputs.into_iter().for_each(|(output, p)| *texts.entry(tokens.decode(output)).or_default() += p);
    texts
}

/// The frequencies of texts and their target, with the texts that are too rare for `count` outputs as one, `None`. The
/// probabilities of texts that nothing drew belong to it: where outputs are many, most of them are never seen, and any
/// sampler would seem to draw what is seen too rarely.
fn cells(
    texts: &BTreeMap<String, f64>,
    target: &BTreeMap<String, f64>,
    count: f64,
) -> [BTreeMap<Option<String>, f64>; 2] {
    let seen: f64 = target.values().sum();
    let cell =
        |text: &String| (target.get(text).copied().unwrap_or(0.0) * count >= FEW).then(|| text.clone());
    let gather = |of: &BTreeMap<String, f64>| {
        let mut gathered: BTreeMap<Option<String>, f64> = BTreeMap::new();
        of.iter().for_each(|(text, p)| *gathered.entry(cell(text)).or_default() += p);
        gathered
    };
    let mut target = gather(target);
    *target.entry(None).or_default() += (1.0 - seen).max(0.0);
    [gather(texts), target]
}

/// The texts with the largest shares.
fn most_frequent(texts: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let mut all: Vec<(&String, &f64)> = texts.iter().collect();
    all.sort_by(|left, right| right.1.total_cmp(left.1));
    all.truncate(LISTED);
    all.into_iter().map(|(text, share)| (text.clone(), *share)).collect()
}

/// `target_texts` are those of `target`, by their probabilities among all, seen or not; `log_mass` is the logarithm of
/// P(constraint), as far as the audit knows it.
pub(super) fn line(
    sampled: &Sampled,
    target: &BTreeMap<&[TokenId], f64>,
    target_texts: &BTreeMap<String, f64>,
    basis: &'static str,
    log_mass: Option<f64>,
    tokens: &TokenSpace,
) -> Line {
    let Sampled { method, label, drafted, outputs: draws, error, log_mass: own_mass } = sampled;
    let kept: Vec<&Output> = finished(draws).collect();
    let count = to_f64(kept.len() as u64);
    let plain = shares(kept.iter().map(|draw| (draw.ids.as_slice(), 1.0)));
    let greatest = kept.iter().map(|draw| draw.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = kept.iter().map(|draw| (draw.log_weight - greatest).exp()).collect();
    let weighted = kept.iter().any(|draw| draw.log_weight != 0.0);
    let by_weight = weighted.then(|| {
        let draws = kept.iter().zip(&weights).map(|(draw, weight)| (draw.ids.as_slice(), *weight));
        distances(&shares(draws), target)
    });
    // Other weights are estimates of the ratio of the model's probability to the sampler's.
    let is_ratio = weighted && *method == Method::Masked;
    let some = !kept.is_empty();
    let (kl, tv) = distances(&plain, target);
    let texts = by_text(plain.iter().map(|(output, p)| (*output, *p)), tokens);
    let exact = basis == "exact";
    let [found, wanted] = cells(&texts, target_texts, count);
    let (kl_text, tv_text) = if exact { distances(&texts, target_texts) } else { distances(&found, &wanted) };
    let compared = if exact { target_texts.len() } else { wanted.len() };
    let rare = if exact { 0.0 } else { wanted[&None] };
    let tells = some && (exact || compared > 1);
    let mean_weight = kept.iter().map(|draw| draw.log_weight).sum::<f64>() / count.max(1.0);
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let mean = kept.iter().map(|draw| draw.log_prob).sum::<f64>() / count.max(1.0);
    let variance =
        kept.iter().map(|draw| (draw.log_prob - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let total = |of: fn(&Output) -> u64| to_f64(draws.iter().map(of).sum());
    let each = to_f64(draws.len() as u64).max(1.0);
    let last = &draws[draws.len() - draws.len().div_ceil(10)..];
    let last_positions = to_f64(last.iter().map(|draw| draw.cost.positions).sum());
    let by_weights = log_mass.filter(|_| is_ratio && some);
    // The total variation is the sum of what masks draw too often.
    let too_often = |log_mass: f64| {
        kept.iter().map(|draw| (1.0 - (draw.log_weight - log_mass).exp()).max(0.0)).sum::<f64>() / count
    };
    Line {
        sampler: method.name(),
        label: label.clone(),
        distribution: method.distribution(),
        basis,
        samples: kept.len(),
        cut: draws.len() - kept.len(),
        kl_text: tells.then_some(kl_text),
        kl_text_noise: (to_f64(compared as u64) - 1.0).max(0.0) / (2.0 * count.max(1.0)),
        tv_text: tells.then_some(tv_text),
        rare,
        most_probable: most_frequent(target_texts),
        most_frequent: most_frequent(&texts),
        mass: own_mass.map(f64::exp),
        kl_by_weights: by_weights.map(|log_mass| (log_mass - mean_weight).max(0.0)),
        tv_by_weights: by_weights.map(too_often),
        kl: some.then_some(kl),
        kl_noise: (to_f64(target.len() as u64) - 1.0).max(0.0) / (2.0 * count.max(1.0)),
        tv: some.then_some(tv),
        kl_weighted: by_weight.map(|(kl, _)| kl),
        tv_weighted: by_weight.map(|(_, tv)| tv),
        lm_calls_per_sample: total(|draw| draw.cost.positions) / each,
        lm_calls_first: draws.first().map_or(0, |draw| draw.cost.positions),
        lm_calls_last: last_positions / to_f64(last.len() as u64).max(1.0),
        lm_passes_per_sample: total(|draw| draw.cost.passes) / each,
        acceptance: to_f64(draws.len() as u64) / total(|draw| draw.cost.proposals).max(1.0),
        ess: if squares > 0.0 { sum * sum / squares } else { 0.0 },
        mean_logprob: mean,
        mean_logprob_se: (variance / count.max(1.0)).sqrt(),
        frontier: false,
        recommended: false,
        speculation: drafted.map(|drafted| Speculated {
            draft_acceptance: drafted.acceptance(),
            tokens_per_pass: total(|draw| draw.ids.len() as u64) / total(|draw| draw.cost.passes).max(1.0),
            kl_spent: drafted.kl_spent,
            kl_allowed: drafted.kl_allowed,
        }),
        error: error.clone(),
        exact: exact.then(|| target_texts.clone()),
        empirical: exact.then_some(texts),
    }
}

/// Marks the samplers of the frontier of divergence against positions, and the one that is recommended. A sampler
/// that stopped is neither.
pub(super) fn mark_frontier(lines: &mut [Line]) {
    let points: Vec<(usize, f64, f64, f64)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.error.is_none() && line.cut == 0)
        .filter_map(|(index, line)| Some((index, line.lm_calls_per_sample, line.kl?, line.kl_noise)))
        .collect();
    let on_frontier = |(index, cost, kl, _): &&(usize, f64, f64, f64)| {
        !points.iter().any(|(other, other_cost, other_kl, _)| {
            let no_worse = other_cost <= cost && other_kl <= kl;
            // Of two equal samplers the first is on it.
            no_worse && (other_cost < cost || other_kl < kl || other < index)
        })
    };
    let mut frontier: Vec<_> = points.iter().filter(on_frontier).collect();
    frontier.iter().for_each(|(index, ..)| lines[*index].frontier = true);
    frontier.sort_by(|left, right| left.1.total_cmp(&right.1));
    let least = frontier.iter().map(|(_, _, kl, _)| *kl).fold(f64::INFINITY, f64::min);
    if let Some((index, ..)) = frontier.iter().find(|(_, _, kl, noise)| *kl <= least + noise) {
        lines[*index].recommended = true;
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn to_f64(count: u64) -> f64 {
    count as f64
}
