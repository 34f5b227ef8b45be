//! The part of a report that looks closer: each case for itself, the slowest masks with their places, and where masks
//! of two engines are not the same.

use std::fmt::Write as _;

use unskew_core::TokenId;

use super::{
    EngineResult, VocabularyResult,
    measure::{Outcome, Task},
    report::Metric,
};
use crate::{
    Subject,
    record::figures::{amount, percentile, thousands},
};

/// How many of the slowest masks are listed for an engine.
const SLOWEST: usize = 10;

/// A table of times for each engine, with a row for each case.
pub(crate) fn per_case(result: &VocabularyResult) -> String {
    let mut out = String::new();
    for engine in &result.engines {
        let _ = writeln!(
            out,
            "| {} | tokens | text to first mask | first visit: mean | p50 | p90 | p99 | p99.9 | max | after others: p50 | p99 | \
             max | commit: p50 | p99 | max | memory kB |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            engine.builder.name
        );
        for (task, outcome) in result.tasks.iter().zip(&engine.outcomes) {
            let _ = match outcome {
                Ok(outcome) => writeln!(out, "| {} | {} |", task.case.name, case_cells(task, outcome)),
                Err(_) => writeln!(out, "| {} | refused | | | | | | | | | | | | | | |", task.case.name),
            };
        }
        out += "\n";
    }
    out
}

fn case_cells(task: &Task, outcome: &Outcome) -> String {
    let sorted = |metric: Metric| {
        let mut times = metric.times(outcome);
        times.sort_unstable();
        times
    };
    let cell = |ns: u64| amount(ns as f64 / 1e3);
    let at = |times: &[u64], permille: usize| {
        if times.is_empty() { "-".to_owned() } else { cell(percentile(times, permille)) }
    };
    let (first, others, commit) =
        (sorted(Metric::First), sorted(Metric::AfterOthers), sorted(Metric::Commit));
    let mean = first.iter().sum::<u64>() as f64 / first.len().max(1) as f64 / 1e3;
    let mut cells = vec![
        thousands(task.samples.iter().map(Vec::len).sum::<usize>() as f64, 0),
        cell(outcome.to_first_mask),
        amount(mean),
    ];
    cells.extend([500, 900, 990, 999, 1000].map(|permille| at(&first, permille)));
    cells.extend([500, 990, 1000].map(|permille| at(&others, permille)));
    cells.extend([500, 990, 1000].map(|permille| at(&commit, permille)));
    cells.push(outcome.memory.map_or("-".to_owned(), |bytes| amount(bytes as f64 / 1e3)));
    cells.join(" | ")
}

/// The slowest masks on the first visit.
pub(crate) fn slowest(result: &VocabularyResult) -> String {
    let mut out = "The slowest masks on the first visit:\n\n| engine | us | grammar | sample | position | the text before ends with |\n|---|--:|---|--:|--:|---|\n".to_owned();
    for engine in &result.engines {
        let mut all: Vec<(u64, &Task, usize, usize)> = Vec::new();
        for (task, outcome) in result.tasks.iter().zip(&engine.outcomes) {
            for (sample, walk) in outcome.iter().flat_map(|outcome| outcome.walks.iter().enumerate()) {
                let places = walk.first.iter().enumerate();
                all.extend(places.map(|(position, time)| (*time, task, sample, position)));
            }
        }
        all.sort_unstable_by_key(|(time, ..)| std::cmp::Reverse(*time));
        for (time, task, sample, position) in all.into_iter().take(SLOWEST) {
            let text = result.subject.vocabulary.decode(&task.samples[sample][..position]);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {sample} | {position} | {} |",
                engine.builder.name,
                amount(time as f64 / 1e3),
                task.case.name,
                ending(&text),
            );
        }
    }
    out + "\n"
}

/// Where masks are not those of our first engine.
pub(crate) fn differences(result: &VocabularyResult) -> String {
    let Some(first) = result.engines.first() else { return String::new() };
    let mut rows = String::new();
    let mut examples = String::new();
    for engine in &result.engines {
        for (task, found) in result.tasks.iter().zip(&engine.differences) {
            let Some(found) = found.as_ref().filter(|found| found.differ > 0) else { continue };
            let _ = writeln!(
                rows,
                "| {} | {} | {} of {} | {} | {} |",
                engine.builder.name,
                task.case.name,
                found.differ,
                found.masks,
                thousands(found.only_left as f64, 0),
                thousands(found.only_right as f64, 0),
            );
            for (side, examples_of_side) in [first, engine].iter().zip(&found.examples) {
                for (text, ids) in examples_of_side {
                    let line = example(&result.subject, task, side, text, ids);
                    let _ = writeln!(examples, "- {line}");
                }
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "Masks that differ from those of {}:\n\n| engine | grammar | masks | tokens only ours allows | only theirs \
         |\n|---|---|--:|--:|--:|\n{rows}\nSome of them:\n\n{examples}\n",
        first.builder.name
    )
}

fn example(subject: &Subject, task: &Task, engine: &EngineResult, text: &[u8], ids: &[TokenId]) -> String {
    let names = ids.iter().map(|id| code(&format!("{:?}", subject.vocabulary.name(*id))));
    let names = names.collect::<Vec<_>>().join(" ");
    format!("{}, after {}: only {} allows {names}", task.case.name, ending(text), engine.builder.name)
}

/// The last characters of a text, as code.
fn ending(text: &[u8]) -> String {
    let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
    let from = text.len().saturating_sub(40);
    let dots = if from > 0 { "..." } else { "" };
    code(&format!("{dots}{}", text[from..].iter().collect::<String>().escape_debug()))
}

/// As code in a table of Markdown.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}
