//! The report of the suite, in Markdown: machine and vocabularies, distributions, ratios, and the refusals of peers.

use std::{fmt::Write as _, fs, time::Duration};

use super::{
    EngineResult, VocabularyResult, detail, guesses,
    measure::{Outcome, Walk},
    ratios::{ahead_of_time, both, geometric_mean, of_ours_and_peers, percentile_ratios, ratios},
};
use crate::{
    Suite, clock,
    engine::{Allows, PEERS},
    options::Options,
    record,
    record::figures::{amount, brief, distribution, thousands},
};

/// A time, as a column per regex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    Compile,
    ToFirstMask,
    ToFirstMaskAtFirst,
    First,
    AtFirst,
    Second,
    AfterOthers,
    Commit,
}

impl Metric {
    pub(crate) const ALL: [Self; 8] = [
        Self::Compile,
        Self::ToFirstMaskAtFirst,
        Self::ToFirstMask,
        Self::AtFirst,
        Self::First,
        Self::AfterOthers,
        Self::Second,
        Self::Commit,
    ];
    /// Those that only a detailed suite measures.
    const DETAILED: [Self; 3] = [Self::ToFirstMaskAtFirst, Self::AtFirst, Self::AfterOthers];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::ToFirstMask => "text to first mask",
            Self::ToFirstMaskAtFirst => "text to first mask, first round",
            Self::First => "mask, first visit",
            Self::AtFirst => "mask, first visit, first round",
            Self::Second => "mask, second visit",
            Self::AfterOthers => "mask, after other samples",
            Self::Commit => "commit",
        }
    }

    /// The times of one walk; none for a metric that is timed once per regex.
    fn of_walk(self, walk: &Walk) -> &[u64] {
        match self {
            Self::Compile | Self::ToFirstMask | Self::ToFirstMaskAtFirst => &[],
            Self::First => &walk.first,
            Self::AtFirst => &walk.at_first,
            Self::Second => &walk.second,
            Self::AfterOthers => &walk.after_others,
            Self::Commit => &walk.commit,
        }
    }

    fn of_regex(self, outcome: &Outcome) -> Option<u64> {
        match self {
            Self::Compile => Some(outcome.compile),
            Self::ToFirstMask => Some(outcome.to_first_mask),
            Self::ToFirstMaskAtFirst => outcome.to_first_mask_at_first,
            Self::First | Self::AtFirst | Self::Second | Self::AfterOthers | Self::Commit => None,
        }
    }

    /// All times of one regex, those of samples that were refused left out.
    pub(crate) fn times(self, outcome: &Outcome) -> Vec<u64> {
        let walks = outcome.walks.iter().filter(|walk| walk.refused.is_none());
        self.of_regex(outcome)
            .into_iter()
            .chain(walks.flat_map(|walk| self.of_walk(walk).iter().copied()))
            .collect()
    }

    /// The times of the same steps under two engines, where both have them.
    pub(crate) fn pairs(self, ours: &Outcome, peer: &Outcome) -> Vec<(u64, u64)> {
        let regex = self.of_regex(ours).zip(self.of_regex(peer));
        let walks = ours.walks.iter().zip(&peer.walks);
        let walks = walks.filter(|(ours, peer)| ours.refused.is_none() && peer.refused.is_none());
        let steps = walks.flat_map(|(ours, peer)| {
            self.of_walk(ours).iter().copied().zip(self.of_walk(peer).iter().copied())
        });
        regex.into_iter().chain(steps).collect()
    }
}

/// The whole report.
pub(crate) fn report(
    suite: &Suite,
    results: &[VocabularyResult],
    options: &Options,
    memory: bool,
    elapsed: Duration,
) -> String {
    let mut out =
        format!("# {}{}, {}\n\n", suite.title, if memory { ": memory" } else { "" }, record::today());
    out += &machine(results);
    let _ = writeln!(
        out,
        "{}; a peer in a process of its own has {:.0?} and {} GB for a regex.",
        record::command(),
        options.peer_limit,
        options.peer_memory / 1_000_000_000,
    );
    let _ = writeln!(out, "The run took {:.0} s.\n", elapsed.as_secs_f64());
    if !memory {
        let clock = if options.clock.cpu_time { "the process" } else { "the wall" };
        let cost = clock::cost() as f64 / 1e3;
        let _ = writeln!(
            out,
            "Times are those of {clock}, in microseconds; reading the clock takes {cost:.2} of them."
        );
    }
    out += match (memory, suite.detailed) {
        (true, _) => ABOUT_MEMORY,
        (false, false) => ABOUT_TIMES,
        (false, true) => ABOUT_GRAMMARS,
    };
    for result in results {
        let _ = writeln!(
            out,
            "\n## {}: {} ids, {} {}, {} samples, {} tokens\n",
            result.subject.name,
            thousands(result.subject.vocabulary.len() as f64, 0),
            result.tasks.len(),
            suite.items,
            result.tasks.iter().map(|task| task.samples.len()).sum::<usize>(),
            result.tasks.iter().flat_map(|task| &task.samples).map(Vec::len).sum::<usize>(),
        );
        for reason in &result.left_out {
            let _ = writeln!(out, "Left out: {reason}.\n");
        }
        out += &prepared(result);
        if memory {
            out += &heaps(result);
        } else {
            out += &coverage(suite, result);
            out += &distributions(result);
            out += &ratios(result);
            out += &percentile_ratios(result);
            if suite.detailed {
                out += &detail::per_case(result);
                out += &guesses::table(result);
                out += &detail::slowest(result);
                out += &detail::differences(result);
            } else {
                out += &ahead_of_time(result, options);
                out += &all_masks(result);
                out += &per_regex(result);
            }
        }
        out += &refusals(result, memory);
    }
    out
}

const ABOUT_TIMES: &str = "\
Of each step the smallest time over all rounds is taken. Percentiles are nearest ranks, over regexes for the first two rows of a table and over all positions of
all samples for the others. `first visit` is the first mask at a position under a matcher compiled for that sample, `second
visit` the same position when the sample is walked again. `unskew canonical` makes the mask of the start as it compiles, so
that the first visit there is a copy. llguidance allocates each mask; ours copies each into the caller's
buffer; outlines-core's is its map of allowed tokens turned into bits. `llguidance` has the tokenizer's encoder and forces
tokens, `llguidance lifted` has none and allows all spellings. A ratio above 1 means that ours takes less time.
";

const ABOUT_GRAMMARS: &str = "\
Of each step the smallest time over all rounds is taken, but for the rows of the first round, which are that round's alone.
Percentiles are nearest ranks, over grammars for the first three rows of a table and over all positions of all samples for the
others. `first visit` is the first mask at a position under a matcher compiled for that sample, `after other samples` the same
mask under a matcher that has walked the samples in front of it, `second visit` the same position when the sample is walked
again. `unskew grammar` keeps one library of subterminal trees for the whole run, as a service would, in which the parts of masks
of one grammar are kept as well, and no masks. In the first round that library has met the samples in front of a sample, and the
grammars in front of a grammar: `first round` stands for a service that has seen the grammar before, but not this text, and for
the first samples not even the grammar. In the later rounds it has met parts of the same masks: `first visit` stands for a service
that compiles a grammar anew for a text much like earlier ones. `new library` begins one with each matcher and `no library`
has none. llguidance has no encoder and forces no tokens; it allocates each mask. glrmask, where it is measured, runs in a process
of its own, since its dependencies exclude llguidance's; `glrmask` compiles once per round (its masks are made ahead of time),
`glrmask trie` is its lazy strategy. A ratio above 1 means that ours takes less time.
";

const ABOUT_MEMORY: &str = "\
Kilobytes of heap, counted by the allocator. `held` is the heap of a compiled regex after all its samples were walked, caches
included; `peak` the most that was in use on the way. A ratio above 1 means that ours takes less memory.
";

fn prepared(result: &VocabularyResult) -> String {
    let mut out =
        "| built once per vocabulary | ms | held MB | peak MB | notes |\n|---|--:|--:|--:|---|\n".to_owned();
    for engine in &result.engines {
        let (ms, held, peak, notes) = match &engine.prepared {
            Ok(prepared) => {
                let megabytes = |bytes: usize| thousands(bytes as f64 / 1e6, 1);
                (
                    thousands(prepared.ns as f64 / 1e6, 1),
                    prepared.heap.map_or("-".into(), |(held, _)| megabytes(held)),
                    prepared.heap.map_or("-".into(), |(_, peak)| megabytes(peak)),
                    prepared.notes.join("; "),
                )
            }
            Err(reason) => ("-".into(), "-".into(), "-".into(), brief(reason)),
        };
        let _ = writeln!(out, "| {} | {ms} | {held} | {peak} | {notes} |", engine.builder.name);
    }
    out + "\n"
}

fn coverage(suite: &Suite, result: &VocabularyResult) -> String {
    let mut out = format!(
        "| engine | {} compiled | samples accepted | masks that differ from our first engine's | forced tokens, all | forced \
         tokens, JSON |\n|---|--:|--:|--:|--:|--:|\n",
        suite.items
    );
    let first = result.engines.first();
    for engine in &result.engines {
        let compiled = engine.outcomes.iter().flatten().count();
        let walks = || engine.outcomes.iter().flatten().flat_map(|outcome| &outcome.walks);
        let accepted = walks().filter(|walk| walk.refused.is_none()).count();
        let differ = if engine.builder.allows == Allows::AllSpellings
            && let Some(first) = first
            && engine.builder.name != first.builder.name
        {
            let (differ, all) = differing(first, engine);
            format!("{differ} of {all}")
        } else {
            "-".to_owned()
        };
        let _ = writeln!(
            out,
            "| {} | {compiled} of {} | {accepted} of {} | {differ} | {} | {} |",
            engine.builder.name,
            result.tasks.len(),
            walks().count(),
            forced(result, engine, |_| true),
            forced(result, engine, |json| json),
        );
    }
    out + "\n"
}

/// How many masks of two engines differ, of how many.
fn differing(left: &EngineResult, right: &EngineResult) -> (usize, usize) {
    let masks = both(left, right)
        .flat_map(|(left, right)| left.walks.iter().zip(&right.walks))
        .flat_map(|(left, right)| left.masks.iter().zip(&right.masks));
    masks.fold((0, 0), |(differ, all), (left, right)| (differ + usize::from(left != right), all + 1))
}

/// The share of tokens that an engine forces, over accepted samples of the regexes that are asked for.
fn forced(result: &VocabularyResult, engine: &EngineResult, wanted: impl Fn(bool) -> bool) -> String {
    let walks = result.tasks.iter().zip(&engine.outcomes).filter(|(task, _)| wanted(task.case.json));
    let walks = walks.filter_map(|(_, outcome)| outcome.as_ref().ok()).flat_map(|outcome| &outcome.walks);
    let (forced, all) = walks
        .filter(|walk| walk.refused.is_none())
        .fold((0, 0), |(forced, all), walk| (forced + walk.forced, all + walk.commit.len()));
    if all == 0 { "-".into() } else { format!("{:.1} %", 100.0 * forced as f64 / all as f64) }
}

fn distributions(result: &VocabularyResult) -> String {
    let mut out = String::new();
    for engine in &result.engines {
        let _ = writeln!(
            out,
            "| {} | n | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|",
            engine.builder.name
        );
        for metric in Metric::ALL {
            let mut times: Vec<u64> =
                engine.outcomes.iter().flatten().flat_map(|outcome| metric.times(outcome)).collect();
            times.sort_unstable();
            if !times.is_empty() || !Metric::DETAILED.contains(&metric) {
                let _ = writeln!(out, "| {} | {} |", metric.name(), distribution(&times, 1e3));
            }
        }
        out += "\n";
    }
    out
}

fn all_masks(result: &VocabularyResult) -> String {
    let mut out = String::new();
    for engine in &result.engines {
        let all: Vec<_> = engine
            .outcomes
            .iter()
            .zip(&result.tasks)
            .filter_map(|(outcome, task)| Some((outcome.as_ref().ok()?.all_masks?, task.case.name)))
            .collect();
        if all.is_empty() {
            continue;
        }
        let mut times: Vec<u64> = all.iter().map(|(all, _)| all.ns).collect();
        times.sort_unstable();
        let mut states: Vec<u64> = all.iter().map(|(all, _)| all.states as u64).collect();
        states.sort_unstable();
        let _ = writeln!(
            out,
            "| {}, all masks ahead | n | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|",
            engine.builder.name
        );
        let _ = writeln!(out, "| ms | {} |", distribution(&times, 1e6));
        let _ = writeln!(out, "| states | {} |\n", distribution(&states, 1.0));
        for (all, name) in all.iter().filter(|(all, _)| all.made < all.states) {
            let _ = writeln!(
                out,
                "Cut off: {name}, {} of {} states in {:.1} s.\n",
                all.made,
                all.states,
                all.ns as f64 / 1e9
            );
        }
    }
    out
}

fn per_regex(result: &VocabularyResult) -> String {
    let mut out =
        "Pattern to first mask, and in brackets the mean and the largest mask on the first visit, refused samples left out:\n\n| regex |".to_owned();
    for engine in &result.engines {
        let _ = write!(out, " {} |", engine.builder.name);
    }
    out += "\n|---|";
    out += &"--:|".repeat(result.engines.len());
    out += "\n";
    for (index, task) in result.tasks.iter().enumerate() {
        let _ = write!(out, "| {} |", task.case.name);
        for engine in &result.engines {
            let cell = match &engine.outcomes[index] {
                Err(_) => "refused".to_owned(),
                Ok(outcome) => {
                    let first = amount(outcome.to_first_mask as f64 / 1e3);
                    let masks = Metric::First.times(outcome);
                    let sum = masks.iter().sum::<u64>() as f64;
                    match masks.iter().max() {
                        Some(largest) => {
                            let mean = amount(sum / masks.len() as f64 / 1e3);
                            format!("{first} ({mean}, {})", amount(*largest as f64 / 1e3))
                        }
                        None => format!("{first} (-)"),
                    }
                }
            };
            let _ = write!(out, " {cell} |");
        }
        out += "\n";
    }
    out + "\n"
}

fn heaps(result: &VocabularyResult) -> String {
    let mut out = "| heap of a regex, kB | n | mean | p50 | p90 | p99 | p99.9 | max | largest for |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n".to_owned();
    let pick = |outcome: &Outcome, peak: bool| {
        outcome.heap.map_or(0, |(held, most)| if peak { most as u64 } else { held as u64 })
    };
    for engine in &result.engines {
        for peak in [false, true] {
            let mut sizes: Vec<u64> =
                engine.outcomes.iter().flatten().map(|outcome| pick(outcome, peak)).collect();
            sizes.sort_unstable();
            let largest = engine
                .outcomes
                .iter()
                .zip(&result.tasks)
                .filter_map(|(outcome, task)| Some((pick(outcome.as_ref().ok()?, peak), task.case.name)))
                .max();
            let _ = writeln!(
                out,
                "| {}, {} | {} | {} |",
                engine.builder.name,
                if peak { "peak" } else { "held" },
                distribution(&sizes, 1e3),
                largest.map_or("-", |(_, name)| name),
            );
        }
    }
    out += "\n| ours | peer | pairs | geometric mean of peer / ours, held | peak |\n|---|---|--:|--:|--:|\n";
    for (ours, peer) in of_ours_and_peers(result) {
        let pairs = |peak: bool| -> Vec<(u64, u64)> {
            both(ours, peer).map(|(ours, peer)| (pick(ours, peak), pick(peer, peak))).collect()
        };
        let (held, peak) = (geometric_mean(&pairs(false)), geometric_mean(&pairs(true)));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            ours.builder.name,
            peer.builder.name,
            both(ours, peer).count(),
            amount(held),
            amount(peak)
        );
    }
    out + "\n"
}

fn refusals(result: &VocabularyResult, memory: bool) -> String {
    let mut out = String::new();
    for engine in &result.engines {
        let named = || result.tasks.iter().zip(&engine.outcomes);
        for (task, outcome) in named() {
            if let Err(reason) = outcome {
                let _ = writeln!(
                    out,
                    "- {}: **{}** not compiled: {}",
                    engine.builder.name,
                    task.case.name,
                    brief(reason)
                );
            }
        }
        for (task, outcome) in named() {
            let walks = outcome.iter().flat_map(|outcome| &outcome.walks);
            let samples = task.case.samples.iter().zip(&task.samples);
            let refused = walks.zip(samples).filter_map(|(walk, sample)| Some((walk.refused?, sample)));
            let refused: Vec<_> = refused.collect();
            if let Some((position, (text, tokens))) = refused.first() {
                let _ = writeln!(
                    out,
                    "- {}: **{}** refuses {} of {} samples: `{}` at token {position} of {}",
                    engine.builder.name,
                    task.case.name,
                    refused.len(),
                    task.samples.len(),
                    brief(&text.escape_debug().to_string()),
                    tokens.len(),
                );
            }
        }
    }
    match (out.is_empty(), memory) {
        (true, true) => String::new(),
        (true, false) => "Nothing was refused.\n".into(),
        (false, _) => format!(
            "Refused, with the first position that fails (the number of tokens stands for the end):\n\n{out}"
        ),
    }
}

fn machine(results: &[VocabularyResult]) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let lock = read(&format!("{root}/Cargo.lock")) + &read(&format!("{root}/benches/glrmask/Cargo.lock"));
    let measured = |name: &str| {
        let engines = results.iter().flat_map(|result| &result.engines);
        engines.map(|engine| engine.builder.name).any(|engine| engine.starts_with(name))
    };
    let peers = PEERS.into_iter().filter(|name| measured(name)).map(|name| {
        let version =
            lock.split("[[package]]").find(|package| package.contains(&format!("name = \"{name}\"")));
        let version = version.and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
        format!("{name} {}", version.unwrap_or("unknown"))
    });
    let peers: Vec<String> = peers.collect();
    let peers = if peers.is_empty() {
        String::new()
    } else {
        format!("Peers: {}, as published.\n", peers.join(", "))
    };
    format!("{}{peers}", record::host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_refused_samples_are_not_compared() {
        let walk = |refused| Walk {
            first: vec![1, 2],
            second: vec![1, 1],
            commit: vec![1],
            refused,
            ..Walk::default()
        };
        let outcome = |refused| Outcome {
            compile: 5,
            to_first_mask: 6,
            to_first_mask_at_first: None,
            walks: vec![walk(None), walk(refused)],
            memory: None,
            heap: None,
            all_masks: None,
        };
        let (ours, peer) = (outcome(None), outcome(Some(1)));
        assert_eq!(Metric::First.pairs(&ours, &peer), [(1, 1), (2, 2)]);
        assert_eq!(Metric::ToFirstMask.pairs(&ours, &peer), [(6, 6)]);
        assert_eq!(Metric::First.times(&ours).len(), 4);
        assert_eq!(Metric::First.times(&peer).len(), 2);
    }
}
