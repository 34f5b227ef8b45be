//! The report in Markdown, and the figures as JSON.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde_json::{Map, Value, json};

use super::{EngineResult, Options, causes::causes, measure::Outcome};
use crate::{
    clock,
    engine::SCHEMA,
    record,
    record::{
        figures::{brief, distribution, percentile},
        plot,
    },
};

/// How many of the slowest masks are listed, and how many schemas that are wrong.
const LISTED: usize = 10;

/// How many schemas came to which end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) schemas: usize,
    pub(crate) compiled: usize,
    /// Compiled, and right about each instance.
    pub(crate) passing: usize,
    /// Schemas with a valid instance that was refused.
    pub(crate) validation_errors: usize,
    /// Schemas with an invalid instance that was accepted.
    pub(crate) invalidation_errors: usize,
    /// Schemas that were given up: for time, for memory, or because the process ended.
    pub(crate) given_up: usize,
    /// Valid instances: accepted, and all with a grammar.
    pub(crate) valid: (usize, usize),
    /// Likewise invalid ones.
    pub(crate) invalid: (usize, usize),
    /// Tokens that a mask allows and the engine then refuses.
    pub(crate) inconsistent: usize,
}

impl Counts {
    pub(crate) fn of(outcomes: &[Result<Outcome, String>]) -> Self {
        let mut counts = Self { schemas: outcomes.len(), ..Self::default() };
        for outcome in outcomes {
            let Ok(outcome) = outcome else {
                counts.given_up += 1;
                continue;
            };
            if outcome.refused.is_some() {
                continue;
            }
            counts.compiled += 1;
            let (refused, accepted) = outcome.wrong();
            counts.passing += usize::from(refused + accepted == 0);
            counts.validation_errors += usize::from(refused > 0);
            counts.invalidation_errors += usize::from(accepted > 0);
            for walk in &outcome.walks {
                let (right, all) = if walk.valid { &mut counts.valid } else { &mut counts.invalid };
                *all += 1;
                *right += usize::from(walk.refused_at.is_none());
                counts.inconsistent += usize::from(walk.inconsistent);
            }
        }
        counts
    }
}

/// The times of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    FirstMask,
    Mask,
    MaskAlone,
    Commit,
    Compile,
}

impl Metric {
    pub(crate) fn of(self, outcome: &Outcome) -> Vec<u64> {
        if outcome.refused.is_some() {
            return Vec::new();
        }
        let steps = outcome.walks.iter().flat_map(|walk| &walk.steps);
        match self {
            Self::FirstMask => vec![outcome.compile + outcome.first],
            Self::Compile => vec![outcome.compile],
            Self::Mask => steps.map(|(mask, commit)| mask + commit).collect(),
            Self::MaskAlone => steps.map(|(mask, _)| *mask).collect(),
            Self::Commit => steps.map(|(_, commit)| *commit).collect(),
        }
    }

    const ALL: [(Self, &'static str); 5] = [
        (Self::FirstMask, "time to first mask"),
        (Self::Compile, "of which compiling"),
        (Self::Mask, "mask and token"),
        (Self::MaskAlone, "of which mask"),
        (Self::Commit, "of which token"),
    ];
}

/// All times of an engine, sorted, in nanoseconds; of the files for which `wanted` is true.
pub(crate) fn times(result: &EngineResult, metric: Metric, wanted: impl Fn(usize) -> bool) -> Vec<u64> {
    let outcomes = result.outcomes.iter().enumerate().filter(|(at, _)| wanted(*at));
    let mut times: Vec<u64> = outcomes
        .filter_map(|(_, outcome)| outcome.as_ref().ok())
        .flat_map(|outcome| metric.of(outcome))
        .collect();
    times.sort_unstable();
    times
}

/// The figures, by engine.
pub(crate) fn json(results: &[EngineResult]) -> Value {
    let mut engines = Map::new();
    for result in results {
        let counts = Counts::of(&result.outcomes);
        let figures = |metric, names: &[(&str, usize)]| {
            let sorted = times(result, metric, |_| true);
            let micros = |ns: u64| ns as f64 / 1e3;
            let mut figures = Map::new();
            let mean = sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64 / 1e3;
            figures.insert("avg".to_owned(), if sorted.is_empty() { Value::Null } else { json!(mean) });
            for (name, permille) in names {
                let value = if sorted.is_empty() {
                    Value::Null
                } else {
                    json!(micros(percentile(&sorted, *permille)))
                };
                figures.insert((*name).to_owned(), value);
            }
            figures
        };
        let first = figures(Metric::FirstMask, &[("p50", 500), ("p90", 900), ("p99", 990), ("max", 1000)]);
        let masks = [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999), ("max", 1000)];
        engines.insert(
            result.name.to_owned(),
            json!({
                "schemas": counts.schemas,
                "compiled": counts.compiled,
                "passing": counts.passing,
                "validation_errors": counts.validation_errors,
                "invalidation_errors": counts.invalidation_errors,
                "ttfm_us": first,
                "mask_us": figures(Metric::Mask, &masks),
                "peak_rss_mb": result.peak as f64 / f64::from(1 << 20),
            }),
        );
    }
    json!({ "engines": engines })
}

/// The whole report.
pub(crate) fn report(
    names: &[String],
    results: &[EngineResult],
    options: &Options,
    elapsed: Duration,
) -> String {
    let mut out = format!("# Engines of JSON Schema on MaskBench, {}\n\n{}", record::today(), record::host());
    let _ = writeln!(out, "{}; {:.0} s.\n", record::command(), elapsed.as_secs_f64());
    if let Some(ready) = results.iter().find_map(|result| result.ready.as_ref()) {
        let _ = writeln!(out, "{} schemas; vocabulary {}, {} ids.", names.len(), ready.name, ready.tokens);
    }
    let clock = if options.clock.cpu_time { "the process" } else { "the wall" };
    let caches = if options.warm { "with" } else { "without" };
    let _ = writeln!(
        out,
        "Times are those of {clock}, in microseconds; reading the clock takes {:.2} of them. Each instance begins {caches} the caches \
         that other instances have left in the matcher.\n{}",
        clock::cost() as f64 / 1e3,
        ABOUT.replace("{order}", if options.any_order { "; unskew takes members in any order" } else { "" }),
    );
    out += &counts(results, options);
    out += &distributions(results);
    out += &ratios(results);
    out += &refused(results);
    out += &wrong(names, results);
    out += &slowest(names, results);
    if let Some(most) = options.causes {
        out += &causes(results, most);
    }
    out
}

const ABOUT: &str = "\
Instances are written as `json.dumps(data, ensure_ascii=False)` does and encoded by the tokenizer; where it would write another
text, by longest tokens. `time to first mask` is once for each schema that compiles, from its text; `mask and token` is for each token of
each instance up to the one that is refused, nearest ranks over all. unskew keeps one library of subterminal trees for all schemas of
the run, as a service does, and a scratch for each instance; llguidance keeps its slices of the vocabulary and has a deep clone of the
compiled matcher for each instance. White space is as each engine has it by default{order}. Memory is the peak of the process, which holds the
tokenizer and its vocabulary too.
";

fn counts(results: &[EngineResult], options: &Options) -> String {
    let mut out = "\n| engine | schemas | compiled | all right | validation errors | invalidation errors | given up | valid instances \
                   accepted | invalid ones | peak MB | before any schema |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for result in results {
        let counts = Counts::of(&result.outcomes);
        let percent = |part: usize| 100.0 * part as f64 / counts.schemas.max(1) as f64;
        let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            out,
            "| {} | {} | {} ({:.1} %) | {} ({:.1} %) | {} | {} | {} | {} of {} | {} of {} | {:.0} | {:.0} |",
            result.name,
            counts.schemas,
            counts.compiled,
            percent(counts.compiled),
            counts.passing,
            percent(counts.passing),
            counts.validation_errors,
            counts.invalidation_errors,
            counts.given_up,
            counts.valid.0,
            counts.valid.1,
            counts.invalid.0,
            counts.invalid.1,
            megabytes(result.peak),
            result.ready.as_ref().map_or(0.0, |ready| megabytes(ready.resident)),
        );
        if counts.inconsistent > 0 {
            let _ = writeln!(
                out,
                "| | {} tokens that a mask allows and the engine refuses |",
                counts.inconsistent
            );
        }
    }
    let _ = writeln!(
        out,
        "\nA schema is given up after {:.0?}, with {:.1} GB, or if the process ends.\n",
        options.limit(),
        options.memory() as f64 / 1e9
    );
    out
}

fn distributions(results: &[EngineResult]) -> String {
    let mut out = String::new();
    for result in results {
        let _ = writeln!(
            out,
            "| {} | n | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|",
            result.name
        );
        for (metric, name) in Metric::ALL {
            let _ = writeln!(out, "| {name} | {} |", distribution(&times(result, metric, |_| true), 1e3));
        }
        out += "\n";
    }
    out
}

/// Ours as a part of each peer's, on the schemas that both get right.
fn ratios(results: &[EngineResult]) -> String {
    let Some(ours) = results.iter().find(|result| result.name == SCHEMA) else { return String::new() };
    let mut out = String::new();
    for peer in results.iter().filter(|result| result.name != SCHEMA) {
        let right = |result: &EngineResult, at: usize| {
            let outcome = result.outcomes.get(at).and_then(|outcome| outcome.as_ref().ok());
            outcome.is_some_and(|outcome| outcome.refused.is_none() && outcome.wrong() == (0, 0))
        };
        let both: Vec<bool> = (0..ours.outcomes.len()).map(|at| right(ours, at) && right(peer, at)).collect();
        let _ = writeln!(
            out,
            "On the {} schemas that both get right:\n\n| {SCHEMA} / {} | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|",
            both.iter().filter(|both| **both).count(),
            peer.name,
        );
        for (metric, name) in Metric::ALL {
            let [left, right] = [ours, peer].map(|result| times(result, metric, |at| both[at]));
            if left.is_empty() || right.is_empty() {
                continue;
            }
            let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
            let mut cells = vec![mean(&left) / mean(&right)];
            let at =
                |permille| percentile(&left, permille) as f64 / percentile(&right, permille).max(1) as f64;
            cells.extend([500, 900, 990, 999, 1000].map(at));
            let cells: Vec<String> = cells.into_iter().map(|ratio| format!("{ratio:.3}")).collect();
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
        out += "\n";
    }
    out
}

/// The keyword that a reason is about, or its beginning.
pub(crate) fn cause(reason: &str) -> String {
    let quoted = |open: &str, close: &str| {
        let (_, behind) = reason.split_once(open)?;
        Some(behind.split_once(close)?.0.to_owned())
    };
    if let Some(keywords) = quoted("Unimplemented keys: [", "]") {
        return keywords.replace('"', "`");
    }
    if let Some((_, behind)) = reason.split_once(": `")
        && let Some((keyword, _)) = behind.split_once('`')
    {
        return format!("`{keyword}`");
    }
    let plain: String = reason.chars().map(|char| if char.is_ascii_digit() { '#' } else { char }).collect();
    let plain = plain
        .split_once(": ")
        .map_or(plain.as_str(), |(first, rest)| if first.starts_with('#') { rest } else { &plain });
    brief(plain).chars().take(70).collect()
}

fn refused(results: &[EngineResult]) -> String {
    let mut out = String::new();
    for result in results {
        let mut causes: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in &result.outcomes {
            let reason = match outcome {
                Ok(Outcome { refused: Some(reason), .. }) => cause(reason),
                Ok(_) => continue,
                Err(reason) => format!("given up: {}", brief(reason)),
            };
            *causes.entry(reason).or_default() += 1;
        }
        let mut causes: Vec<(String, usize)> = causes.into_iter().collect();
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown: Vec<String> =
            causes.iter().take(25).map(|(cause, count)| format!("{cause} {count}")).collect();
        let _ = writeln!(out, "{}, refused by keyword: {}.\n", result.name, shown.join(", "));
    }
    out
}

fn wrong(names: &[String], results: &[EngineResult]) -> String {
    let mut out = String::new();
    for result in results {
        let (mut validation, mut invalidation) = (Vec::new(), Vec::new());
        for (name, outcome) in names.iter().zip(&result.outcomes) {
            for (index, walk) in outcome.iter().flat_map(|outcome| &outcome.walks).enumerate() {
                match (walk.valid, walk.refused_at) {
                    (true, Some(at)) => {
                        validation.push(format!("{name} {index} at token {at} of {}", walk.tokens));
                    }
                    (false, None) => invalidation.push(format!("{name} {index}")),
                    _ => {}
                }
            }
        }
        for (what, list) in [("valid instances refused", validation), ("invalid ones accepted", invalidation)]
        {
            if !list.is_empty() {
                let more = list.len().saturating_sub(LISTED);
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                let _ = writeln!(
                    out,
                    "{}, {what}: {}{more}.\n",
                    result.name,
                    list[..list.len().min(LISTED)].join("; ")
                );
            }
        }
    }
    out
}

fn slowest(names: &[String], results: &[EngineResult]) -> String {
    let mut out = String::new();
    let shown =
        |text: &str| format!("`{}`", text.escape_debug().to_string().replace('|', "\\|").replace('`', "'"));
    for result in results {
        let outcomes = || {
            names
                .iter()
                .zip(&result.outcomes)
                .filter_map(|(name, outcome)| Some((name, outcome.as_ref().ok()?)))
        };
        let mut masks: Vec<_> = outcomes()
            .flat_map(|(name, outcome)| outcome.slow.iter().map(move |slow| (name, slow)))
            .collect();
        masks.sort_by_key(|(_, slow)| std::cmp::Reverse(slow.ns));
        let _ = writeln!(
            out,
            "| {}: slowest | of which mask | schema | instance, token | after | token |\n|--:|--:|---|--:|---|---|",
            result.name
        );
        for (name, slow) in masks.into_iter().take(LISTED) {
            let _ = writeln!(
                out,
                "| {:.1} | {:.1} | {name} | {}, {} | {} | {} |",
                slow.ns as f64 / 1e3,
                slow.mask as f64 / 1e3,
                slow.instance,
                slow.position,
                shown(&slow.before),
                shown(&slow.token)
            );
        }
        let mut first: Vec<_> = outcomes().filter(|(_, outcome)| outcome.refused.is_none()).collect();
        first.sort_by_key(|(_, outcome)| std::cmp::Reverse(outcome.compile + outcome.first));
        let _ = writeln!(
            out,
            "\n| {}: slowest to first mask | compiling | first mask | schema |\n|--:|--:|--:|---|",
            result.name
        );
        for (name, outcome) in first.into_iter().take(LISTED) {
            let micros = |ns: u64| ns as f64 / 1e3;
            let all = outcome.compile + outcome.first;
            let _ = writeln!(
                out,
                "| {:.0} | {:.0} | {:.1} | {name} |",
                micros(all),
                micros(outcome.compile),
                micros(outcome.first)
            );
        }
        out += "\n";
    }
    out
}

/// The distributions as a picture, in SVG: for each time, the part of all first masks and of all masks that takes
/// longer.
pub(super) fn plot(results: &[EngineResult]) -> String {
    let panel = |(metric, title): (Metric, &str)| {
        let curves = results.iter().map(|result| (result.name, points(&times(result, metric, |_| true))));
        (format!("{title}: part of all that takes longer than so many µs"), curves.collect())
    };
    let panels = [(Metric::FirstMask, "time to first mask"), (Metric::Mask, "mask and token")];
    plot::panels(&panels.map(panel))
}

/// Microseconds, and the part of all that takes so long or longer. `times` are sorted, in nanoseconds.
pub(super) fn points(times: &[u64]) -> Vec<[f64; 2]> {
    let share = |rank: usize| (times.len() - rank) as f64 / times.len() as f64;
    times.iter().enumerate().map(|(rank, ns)| [(*ns).max(1) as f64 / 1e3, share(rank)]).collect()
}
