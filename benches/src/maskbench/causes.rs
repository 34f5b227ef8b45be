//! The slowest masks and tokens by cause: what the engine counted while each was made.
//!
//! A mask is put under the first cause of [`CAUSES`] that its counts show, so that shares add up. The counts are those
//! of the engine's own statistics; tried instead: a profile, which says nothing of the one mask in ten thousand.

use std::fmt::Write as _;

use super::{
    EngineResult,
    measure::{Outcome, Slow},
};
use crate::{engine::Work, record::figures::percentile};

/// A name, and whether the counts of a mask show this cause.
type Cause = (&'static str, fn(&Slow) -> bool);

/// In the order in which they are looked for: the dearest first.
const CAUSES: [Cause; 8] = [
    ("the token takes longer than the mask", |slow| slow.mask * 2 < slow.ns),
    ("a walk over the vocabulary", |slow| slow.work.walks > 0),
    ("tables were full, and dropped", |slow| slow.work.emptied > 0),
    ("nodes, automata or fragments made for the library", |slow| slow.work.misses > 0),
    ("nodes and fragments looked up in the library", |slow| slow.work.hits > 0),
    ("keys that must not repeat", |slow| slow.work.used_texts > 8),
    ("parser states and transitions made in the scratch", |slow| slow.work.made > 0),
    ("a mask that is ready", |_| true),
];

/// The table of the `most` slowest masks with their tokens.
pub(super) fn causes(results: &[EngineResult], most: usize) -> String {
    let mut out = String::new();
    for result in results {
        let outcomes =
            result.outcomes.iter().filter_map(|outcome: &Result<Outcome, String>| outcome.as_ref().ok());
        let mut all: Vec<&Slow> = outcomes.flat_map(|outcome| &outcome.slow).collect();
        all.sort_by_key(|slow| std::cmp::Reverse(slow.ns));
        all.truncate(most);
        let sum: u64 = all.iter().map(|slow| slow.ns).sum();
        let _ = writeln!(
            out,
            "| {}: the {} slowest masks with their tokens, by cause | n | % of their time | p50 | max | looked up | made new | \
             transitions | items | used texts |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            result.name,
            all.len()
        );
        for (index, (name, _)) in CAUSES.iter().enumerate() {
            let is_of = |slow: &&&Slow| CAUSES.iter().position(|(_, shows)| shows(slow)) == Some(index);
            let mut times: Vec<u64> = all.iter().filter(is_of).map(|slow| slow.ns).collect();
            times.sort_unstable();
            let Some(max) = times.last() else { continue };
            let mean = |of: fn(&Work) -> u64| {
                let sum: u64 = all.iter().filter(is_of).map(|slow| of(&slow.work)).sum();
                sum / times.len() as u64
            };
            let counts = [mean(|work| work.hits), mean(|work| work.misses), mean(|work| work.steps)];
            let _ = writeln!(
                out,
                "| {name} | {} | {:.1} | {:.0} | {:.0} | {} | {} | {} | {} | {} |",
                times.len(),
                100.0 * times.iter().sum::<u64>() as f64 / sum.max(1) as f64,
                percentile(&times, 500) as f64 / 1e3,
                *max as f64 / 1e3,
                counts[0],
                counts[1],
                counts[2],
                mean(|work| work.items),
                mean(|work| work.used_texts),
            );
        }
        out += "\n";
    }
    out
}
