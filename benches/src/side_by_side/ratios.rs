//! Ours beside others: geometric means of ratios over the same steps, and percentiles as shares.

use std::fmt::Write as _;

use super::{EngineResult, VocabularyResult, measure::Outcome, report::Metric, worker::is_time_limit};
use crate::{
    engine::{EAGER, EAGER_PEER},
    options::Options,
    record::figures::{amount, percentile},
};

pub(crate) fn ratios(result: &VocabularyResult) -> String {
    let mut out = "| ours | peer | time | pairs | geometric mean of peer / ours | ours takes less | smallest mean of a regex | largest |\n|---|---|---|--:|--:|--:|---|---|\n".to_owned();
    let rows = out.len();
    for (ours, peer) in of_ours_and_peers(result) {
        for metric in Metric::ALL {
            let by_regex: Vec<(&str, Vec<(u64, u64)>)> = result
                .tasks
                .iter()
                .zip(ours.outcomes.iter().zip(&peer.outcomes))
                .filter_map(|(task, (ours, peer))| {
                    let pairs = metric.pairs(ours.as_ref().ok()?, peer.as_ref().ok()?);
                    (!pairs.is_empty()).then_some((task.case.name, pairs))
                })
                .collect();
            let pairs: Vec<(u64, u64)> = by_regex.iter().flat_map(|(_, pairs)| pairs).copied().collect();
            if pairs.is_empty() {
                continue;
            }
            let means = by_regex.iter().map(|(name, pairs)| (*name, geometric_mean(pairs)));
            let mut means: Vec<(&str, f64)> = means.collect();
            means.sort_by(|left, right| left.1.total_cmp(&right.1));
            let named = |entry: Option<&(&str, f64)>| {
                entry.map_or("-".to_owned(), |(name, mean)| format!("{} ({name})", amount(*mean)))
            };
            let wins = pairs.iter().filter(|(ours, peer)| ours < peer).count();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {:.0} % | {} | {} |",
                ours.builder.name,
                peer.builder.name,
                metric.name(),
                pairs.len(),
                amount(geometric_mean(&pairs)),
                100.0 * wins as f64 / pairs.len() as f64,
                named(means.first()),
                named(means.last()),
            );
        }
    }
    if out.len() == rows { String::new() } else { out + "\n" }
}

/// Percentiles of ours as a share of a peer's, each over the steps that both were timed at.
pub(crate) fn percentile_ratios(result: &VocabularyResult) -> String {
    let mut out = "On the steps that both were timed at:\n\n| ours / peer | time | steps | mean | p50 | p90 | p99 | p99.9 | max |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n".to_owned();
    let rows = out.len();
    for (ours, peer) in of_ours_and_peers(result) {
        for metric in Metric::ALL {
            let outcomes = ours.outcomes.iter().zip(&peer.outcomes);
            let both = outcomes.filter_map(|(ours, peer)| ours.as_ref().ok().zip(peer.as_ref().ok()));
            let pairs = both.flat_map(|(ours, peer)| metric.pairs(ours, peer));
            let (mut left, mut right): (Vec<u64>, Vec<u64>) = pairs.unzip();
            if left.is_empty() {
                continue;
            }
            left.sort_unstable();
            right.sort_unstable();
            let sum = |times: &[u64]| times.iter().sum::<u64>() as f64;
            let mut cells = vec![format!("{:.3}", sum(&left) / sum(&right))];
            for permille in [500, 900, 990, 999, 1000] {
                let share = percentile(&left, permille) as f64 / percentile(&right, permille).max(1) as f64;
                cells.push(format!("{share:.3}"));
            }
            let (ours, peer) = (ours.builder.name, peer.builder.name);
            let _ = writeln!(
                out,
                "| {ours} / {peer} | {} | {} | {} |",
                metric.name(),
                left.len(),
                cells.join(" | ")
            );
        }
    }
    if out.len() == rows { String::new() } else { out + "\n" }
}

pub(crate) fn of_ours_and_peers(
    result: &VocabularyResult,
) -> impl Iterator<Item = (&EngineResult, &EngineResult)> {
    let is_ours = |engine: &&EngineResult| engine.builder.name.starts_with("unskew");
    let peers = move || result.engines.iter().filter(move |engine| !is_ours(engine));
    result.engines.iter().filter(is_ours).flat_map(move |ours| peers().map(move |peer| (ours, peer)))
}

/// The geometric mean of the second number over the first. No time counts as one nanosecond.
pub(crate) fn geometric_mean(pairs: &[(u64, u64)]) -> f64 {
    let ratio = |(ours, peer): &(u64, u64)| ((*peer).max(1) as f64 / (*ours).max(1) as f64).ln();
    (pairs.iter().map(ratio).sum::<f64>() / pairs.len() as f64).exp()
}

/// The two engines that build everything ahead of time: their ratio, and the ratio if regexes that were cut off are
/// taken to need the limit.
pub(crate) fn ahead_of_time(result: &VocabularyResult, options: &Options) -> String {
    let named = |name| result.engines.iter().find(|engine| engine.builder.name == name);
    let Some((ours, peer)) = named(EAGER).zip(named(EAGER_PEER)) else { return String::new() };
    let (mut pairs, mut bounds, mut cut, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (task, outcomes) in result.tasks.iter().zip(ours.outcomes.iter().zip(&peer.outcomes)) {
        match outcomes {
            (Ok(ours), Ok(peer)) => pairs.push((ours.compile, peer.compile)),
            (Ok(ours), Err(reason)) if is_time_limit(reason, options) => {
                cut.push(task.case.name);
                bounds.push((ours.compile, limit_ns(options)));
            }
            _ => others.push(task.case.name),
        }
    }
    if pairs.is_empty() {
        return String::new();
    }
    let list = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => format!("{} ({})", names.len(), names.join(", ")),
    };
    let mean = amount(geometric_mean(&pairs));
    let with_cut: Vec<_> = pairs.iter().copied().chain(bounds).collect();
    format!(
        "From the pattern to all states and edges, {EAGER_PEER} takes {mean} times as long as {EAGER}: the geometric mean \
         over {} regexes. Cut off at {:.0?}: {}; with that time for these it is {} or more. Left out: {}.\n\n",
        pairs.len(),
        options.peer_limit,
        list(&cut),
        amount(geometric_mean(&with_cut)),
        list(&others),
    )
}

fn limit_ns(options: &Options) -> u64 {
    u64::try_from(options.peer_limit.as_nanos()).unwrap_or(u64::MAX)
}

/// The outcomes of regexes that both engines have compiled.
pub(crate) fn both<'a>(
    ours: &'a EngineResult,
    peer: &'a EngineResult,
) -> impl Iterator<Item = (&'a Outcome, &'a Outcome)> {
    let outcomes = ours.outcomes.iter().zip(&peer.outcomes);
    outcomes.filter_map(|(ours, peer)| Some((ours.as_ref().ok()?, peer.as_ref().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_means_are_symmetric() {
        assert!((geometric_mean(&[(1, 4), (4, 1), (3, 3)]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[(10, 20), (10, 80)]) - 4.0).abs() < 1e-12);
    }
}
