//! Canonical sequences of generated tokenizers, with the tokenizers library as the judge.
//!
//! Tokenizers are drawn over the library's normalisers, pre-tokenizers, flags of added tokens and options of
//! byte-pair models; half of them are the pipelines of published models around small vocabularies. The library and
//! the engine each build them. A sequence of ids is canonical if the library writes it for the text that it spells
//! (`generated/judge.rs` defines this for tokenizers that prepend to a text). The engine must accept exactly the
//! canonical sequences, its walks must write only canonical sequences, and its masks must hold exactly the tokens
//! that can be read. Refusals of the engine are counted by reason.
//!
//! | variable | meaning |
//! |---|---|
//! | `UNSKEW_TOKENIZERS` | how many tokenizers are drawn |
//! | `UNSKEW_STYLES` | how many tokenizers are drawn in the style of each published one |
//! | `UNSKEW_SEED` | the first seed |
//! | `UNSKEW_EFFORT` | how much of each is compared (0: as much as in a debug build) |

#![allow(clippy::print_stdout, reason = "the counts and the smallest difference are printed")]

mod charsmap;
mod compare;
mod draw;
mod engine;
mod judge;
mod model;
mod plan;
mod real;
mod steps;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::common::random::Random;
use compare::{Difference, Effort, Outcome, compare, differs};
use plan::Plan;

const DEBUG: bool = cfg!(debug_assertions);

fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}: a number is expected")),
        Err(_) => otherwise,
    }
}

fn effort() -> Effort {
    let times = usize::try_from(number("UNSKEW_EFFORT", 1)).unwrap();
    if DEBUG || times == 0 {
        let times = times.max(1);
        return Effort { texts: 12 * times, sequences: 400 * times, walks: 3 * times, patterns: times };
    }
    Effort { texts: 20 * times, sequences: 1_000 * times, walks: 4 * times, patterns: 2 * times }
}

/// A tokenizer on which the engine and the library differ.
struct Found {
    name: String,
    seed: u64,
    plan: Plan,
    difference: Difference,
}

/// The outcomes of many tokenizers.
#[derive(Default)]
struct Table {
    tried: usize,
    compared: usize,
    no_judge: usize,
    library: BTreeMap<String, (usize, String)>,
    refused: BTreeMap<String, (usize, String)>,
    notes: BTreeMap<&'static str, (usize, String)>,
    sequences: usize,
    canonical: usize,
    walks: usize,
    library_panics: usize,
    with_difference: usize,
    found: Vec<Found>,
}

impl Table {
    fn add(&mut self, name: &str, seed: u64, plan: Plan, outcome: Outcome) {
        self.tried += 1;
        match outcome {
            Outcome::LibraryFailed(reason) => {
                self.library.entry(reason).or_insert_with(|| (0, format!("{name} {seed}"))).0 += 1;
            }
            Outcome::Refused(reason) => {
                self.refused.entry(reason).or_insert_with(|| (0, format!("{name} {seed}"))).0 += 1;
            }
            Outcome::Compared(report) => {
                self.compared += usize::from(!report.no_judge);
                self.no_judge += usize::from(report.no_judge);
                self.sequences += report.sequences;
                self.canonical += report.canonical;
                self.walks += report.walks;
                self.library_panics += report.library_panics;
                for (kind, (count, example)) in report.notes {
                    let example = format!("{name} {seed}: {example}");
                    self.notes.entry(kind).or_insert_with(|| (0, example)).0 += count;
                }
                self.with_difference += usize::from(!report.differences.is_empty());
                // Only the smallest difference of each kind is kept.
                let mut differences = report.differences;
                // Differences under a constraint follow from the others.
                if differences.iter().any(|difference| difference.pattern.is_none()) {
                    differences.retain(|difference| difference.pattern.is_none());
                }
                differences.sort_by_key(|difference| (difference.kind, difference.ids.len()));
                differences.dedup_by_key(|difference| difference.kind);
                self.found.extend(differences.into_iter().map(|difference| Found {
                    name: name.to_owned(),
                    seed,
                    plan: plan.clone(),
                    difference,
                }));
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.tried += other.tried;
        self.compared += other.compared;
        self.no_judge += other.no_judge;
        self.sequences += other.sequences;
        self.canonical += other.canonical;
        self.walks += other.walks;
        self.library_panics += other.library_panics;
        self.with_difference += other.with_difference;
        for (reason, (count, example)) in other.library {
            self.library.entry(reason).or_insert_with(|| (0, example)).0 += count;
        }
        for (reason, (count, example)) in other.refused {
            self.refused.entry(reason).or_insert_with(|| (0, example)).0 += count;
        }
        for (kind, (count, example)) in other.notes {
            self.notes.entry(kind).or_insert_with(|| (0, example)).0 += count;
        }
        self.found.extend(other.found);
    }

    fn print(&self) {
        let failed: usize = self.library.values().map(|(count, _)| count).sum();
        let refused: usize = self.refused.values().map(|(count, _)| count).sum();
        println!(
            "{} tokenizers: {} compared, {refused} refused, {} without an exact judge, {failed} that the library does not read",
            self.tried, self.compared, self.no_judge
        );
        println!(
            "{} sequences, {} of them canonical; {} walks; the library fails on {} texts; {} tokenizers with differences",
            self.sequences, self.canonical, self.walks, self.library_panics, self.with_difference
        );
        let mut refused: Vec<_> = self.refused.iter().collect();
        refused.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (reason, (count, example)) in refused {
            println!("  refused {count:>7}  {reason}  ({example})");
        }
        for (reason, (count, example)) in &self.library {
            println!("  library {count:>7}  {reason}  ({example})");
        }
        for (kind, (count, example)) in &self.notes {
            println!("  noted   {count:>7}  {kind}; {example}");
        }
    }
}

/// The names of the ids of a plan.
fn names(plan: &Plan) -> BTreeMap<u32, String> {
    let id =
        |value: &serde_json::Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX);
    let file = plan.file();
    let mut names = BTreeMap::new();
    if let serde_json::Value::Object(ids) = &file["model"]["vocab"] {
        names.extend(ids.iter().map(|(name, value)| (id(value), name.clone())));
    }
    for token in file["added_tokens"].as_array().into_iter().flatten() {
        names
            .entry(id(&token["id"]))
            .or_insert_with(|| token["content"].as_str().unwrap_or_default().to_owned());
    }
    names
}

/// The smallest plan that still differs, and its difference. A sequence is identified by the names of its tokens, so
/// that another difference cannot replace it. If the difference needs more than one sequence, the whole comparison is
/// repeated.
fn shrunk(found: &Found) -> (Plan, Difference) {
    let begin = Instant::now();
    let in_time = || begin.elapsed().as_secs() < 12;
    let (mut plan, mut difference) = (found.plan.clone(), found.difference.clone());
    let old = names(&plan);
    let spelled = |ids: &[u32]| ids.iter().map(|id| old.get(id).cloned()).collect::<Option<Vec<String>>>();
    let (Some(mut sequence), true) = (spelled(&difference.ids), differs(&plan, &difference.ids).is_some())
    else {
        let mut effort = effort();
        effort.texts *= 2;
        let again = |plan: &Plan| match compare(plan, effort, found.seed) {
            Outcome::Compared(report) => report
                .differences
                .into_iter()
                .filter(|other| other.kind == found.difference.kind)
                .min_by_key(|difference| difference.ids.len()),
            _ => None,
        };
        while in_time()
            && pass(&mut plan, in_time, |plan| again(plan).map(|smallest| difference = smallest).is_some())
        {
        }
        return (plan, difference);
    };
    let again = |plan: &Plan, sequence: &[String]| {
        let ids: BTreeMap<String, u32> = names(plan).into_iter().map(|(id, name)| (name, id)).collect();
        let ids: Option<Vec<u32>> = sequence.iter().map(|name| ids.get(name).copied()).collect();
        differs(plan, &ids?)
    };
    let mut at = 0;
    while at < sequence.len() && in_time() {
        let mut shorter = sequence.clone();
        shorter.remove(at);
        if again(&plan, &shorter).is_some_and(|other| other.kind == difference.kind) {
            sequence = shorter;
        } else {
            at += 1;
        }
    }
    let mut still = |plan: &Plan| {
        let smallest = again(plan, &sequence).filter(|other| other.kind == found.difference.kind);
        smallest.map(|smallest| difference = smallest).is_some()
    };
    while in_time() && pass(&mut plan, in_time, &mut still) {}
    (plan, difference)
}

/// Removes once each part of `plan` without which it still differs. Returns whether a part was removed.
fn pass(plan: &mut Plan, in_time: impl Fn() -> bool, mut still: impl FnMut(&Plan) -> bool) -> bool {
    let (mut at, mut any) = (0, false);
    let mut smaller = plan.smaller();
    while at < smaller.len() && in_time() {
        if still(&smaller[at]) {
            *plan = smaller.swap_remove(at);
            smaller = plan.smaller();
            any = true;
        } else {
            at += 1;
        }
    }
    any
}

/// A kind of difference, and an example.
fn show(found: &Found) -> (String, String) {
    let (plan, difference) = shrunk(found);
    let signature = format!("{} | {}", difference.kind, plan.signature());
    let names = names(&plan);
    let spelled = |ids: &[u32]| -> Vec<String> {
        ids.iter().map(|id| format!("{id}={:?}", names.get(id).map_or("?", String::as_str))).collect()
    };
    let text = format!(
        "{} {}: {}{}\n  signature {signature}\n  ids      {:?}\n  text     {:?}\n  expected {:?}\n  file     {}",
        found.name,
        found.seed,
        difference.kind,
        difference.pattern.map(|pattern| format!(" (under {pattern})")).unwrap_or_default(),
        spelled(&difference.ids),
        difference.text,
        difference.expected.as_deref().map(spelled),
        plan.file(),
    );
    (signature, text)
}

impl Table {
    /// Prints the counts and the smallest difference of each kind; fails if there is a difference.
    fn judge(&self) {
        self.print();
        if self.found.is_empty() {
            return;
        }
        let most = usize::try_from(number("UNSKEW_SHRINK", 5)).unwrap();
        let kinds: Mutex<BTreeMap<String, (usize, String)>> = Mutex::default();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads() {
                scope.spawn(|| {
                    loop {
                        let at = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                        let Some(found) = self.found.get(at).filter(|_| at < most) else { break };
                        let (signature, text) = show(found);
                        let mut kinds = kinds.lock().unwrap();
                        let entry = kinds.entry(signature).or_insert_with(|| (0, text.clone()));
                        entry.0 += 1;
                        if text.len() < entry.1.len() {
                            entry.1 = text;
                        }
                    }
                });
            }
        });
        let kinds = kinds.into_inner().unwrap();
        for (count, text) in kinds.values() {
            println!("\n{count} x {text}");
        }
        panic!("{} of {} tokenizers differ", self.with_difference, self.compared);
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Compares `count` tokenizers, drawn from the seeds `first` and later, on all processors. A thread serves few
/// tokenizers: the library keeps a cache for each model in each thread.
fn compare_all(first: u64, count: u64, name: &str, draw: impl Fn(u64) -> Plan + Sync) -> Table {
    const BATCH: u64 = 64;
    let next = AtomicU64::new(0);
    let table = Mutex::new(Table::default());
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(BATCH, Ordering::Relaxed);
                    if from >= count {
                        break;
                    }
                    let batch = || {
                        let mut part = Table::default();
                        for seed in (from..(from + BATCH).min(count)).map(|at| first + at) {
                            let plan = draw(seed);
                            let outcome = compare(&plan, effort(), seed);
                            part.add(name, seed, plan, outcome);
                        }
                        part
                    };
                    let part = std::thread::scope(|scope| scope.spawn(batch).join().unwrap());
                    table.lock().unwrap().merge(part);
                }
            });
        }
    });
    let mut table = table.into_inner().unwrap();
    table.found.sort_by_key(|found| found.seed);
    table
}

/// A test for each pipeline of a published model.
macro_rules! published {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let name = stringify!($name);
            let (_, build) = real::ALL.into_iter().find(|(other, _)| *other == name).unwrap();
            let count = number("UNSKEW_STYLES", if DEBUG { 2 } else { 100 });
            let table = compare_all(number("UNSKEW_SEED", 0), count, name, |seed| build(&mut Random::new(seed)));
            table.judge();
            assert_eq!(table.compared, table.tried, "none is refused");
        }
    )*};
}

published!(
    gemma phi3 llama2 falcon command_r tekken qwen35 o200k neox codegen deepseek deepseek_v3 bloom starcoder phi4 llama3
    mistral
);

/// A Unigram model has no merges. It is refused, and the reason names the model.
#[test]
fn t5() {
    match compare(&real::t5(&mut Random::new(0)), effort(), 0) {
        Outcome::Refused(reason) => assert!(reason.contains("Unigram"), "{reason}"),
        Outcome::LibraryFailed(reason) => panic!("{reason}"),
        Outcome::Compared(_) => panic!("it is taken, and is to be compared as the others are"),
    }
}

/// Tokenizers on which the engine differed:
///
/// - a space before a section that no token spells;
/// - a control token that merges produce from another text than the matched one;
/// - two added tokens that a normaliser joins;
/// - a control token that is a character;
/// - a normaliser that spells some spaces as the mark before another step does so with all;
/// - a normaliser that prepends two marks;
/// - a normaliser that writes a character which the model drops;
/// - a control token in the white space that another token strips;
/// - a space that is written after an added token while the end of the text is stripped;
/// - a pre-tokenizer that removes text which a normaliser wrote.
#[test]
fn tokenizers_that_differed() {
    let seeds = [
        1_003_309, 1_008_385, 1_001_965, 1_007_137, 4_004_739, 4_007_079, 4_017_329, 4_028_213, 4_004_066,
        4_001_314, 6_005_289, 6_032_130, 7_009_604, 7_038_433, 7_046_554, 8_024_769, 8_043_876,
    ];
    for seed in seeds {
        let table = compare_all(seed, 1, "random", |seed| draw::random_plan(&mut Random::new(seed)));
        table.judge();
    }
}

#[test]
fn random_tokenizers() {
    let first = number("UNSKEW_SEED", 0);
    let count = number("UNSKEW_TOKENIZERS", if DEBUG { 40 } else { 3_000 });
    let begin = Instant::now();
    let table = compare_all(first, count, "random", |seed| draw::random_plan(&mut Random::new(seed)));
    println!("{:.1?}", begin.elapsed());
    table.judge();
}
