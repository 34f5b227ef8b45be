//! Structures that hold millions of titles, side by side: `cargo xtask bench sets`.
//!
//! Every structure answers the same questions about the same prefixes, of random titles at random depths, so that
//! popular prefixes come more often; answers are compared before anything is timed. Two things are timed:
//!
//! - **A mask**: all tokens that may follow, into a mask of 100,352 bits. Too short for the clock of the process, so
//!   it is the clock on the wall, and the smallest of several rounds through all prefixes: each round finds the
//!   caches as the other prefixes left them.
//! - **A step of candidates**: 50 for each of 128 sequences, by the time that the process has run, and the smallest
//!   of as many rounds through all steps. One of the 50 is the title's own next token, the others are drawn as the
//!   titles' tokens are.

mod engines;
pub(crate) mod titles;

use std::{fmt::Write, sync::Arc, time::Instant};

use clap::Args;
use unskew_core::{TokenId, TokenMask};
use unskew_sets::{ItemSet, SetBuilder, SetConstraint};

use crate::{
    clock::{Moment, use_cpu_time},
    options::{RecordOptions, at_least_one},
    record,
    record::figures::{amount, percentile, thousands},
    subject,
};
use engines::{Columns, Engine, Hashes, Ranges, Rows, Strings};
use titles::{LONGEST, TOKENS, Titles, VOCAB};

const BATCH: usize = 128;
const CANDIDATES: usize = 50;
const STEPS: usize = 200;
const PREFIXES: usize = 4000;

/// The hash trie takes a kilobyte a title.
const MOST_HASHED: usize = 1_000_000;

/// Structures that hold millions of titles.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many titles; the largest that the hash trie is built for is 1000000
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10000,100000,1000000")]
    sizes: Vec<usize>,
    /// Of the structures beside ours only these: ranges, hash, rows, exit, fst; none
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Option<Vec<String>>,
    /// Titles of exactly so many tokens
    #[arg(long, value_name = "N", value_parser = length)]
    length: Option<usize>,
    /// Also build a set from so many lines of text, tokenising included
    #[arg(long, value_name = "N")]
    text: Option<usize>,
    /// The tokenizer of that text
    #[arg(long, value_name = "NAME", default_value = "tiny")]
    vocabulary: String,
    /// How often each mask is timed
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    rounds: usize,
    #[command(flatten)]
    record: RecordOptions,
}

fn length(text: &str) -> Result<usize, String> {
    at_least_one(text).map(|length| length.min(LONGEST))
}

/// Measures and reports.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    use_cpu_time();
    let mut report = String::new();
    for size in &options.sizes {
        eprintln!("{size} titles");
        report += &measure(*size, options)?;
    }
    if let Some(lines) = options.text {
        eprintln!("{lines} lines");
        report += &from_text(lines, options)?;
    }
    let head = format!(
        "# Sets side by side, {}\n\n{}{}.\n\n\
         Titles of {} tokens by Zipf's distribution over {TOKENS} ids, masks of {VOCAB} bits. Masks: microseconds on the wall, the \
         smallest of {} rounds through {PREFIXES} prefixes of random titles. Steps: {BATCH} sequences with {CANDIDATES} \
         candidates each, microseconds of the process, {STEPS} steps, the smallest of as many rounds through all of them. `ranges` is a trie in breadth-first order (STATIC's \
         structure), eight bytes a node with the end as a node; `hash` a trie of hash tables; `rows` the paper's array of \
         16 lanes, searched as a whole with a lexicographic comparison over all lanes or up to the first that differs; `fst` \
         an automaton of three bytes a token.\n\n",
        record::today(),
        record::host(),
        record::command(),
        options.length.map_or("7.7".to_owned(), |length| length.to_string()),
        options.rounds,
    );
    let report = head + &report;
    print!("{report}");
    options.record.write("sets", &report)
}

/// A set of titles.
pub(crate) fn set_of(titles: &[Vec<u32>]) -> ItemSet {
    let mut builder = SetBuilder::new(TOKENS as usize);
    let mut item = Vec::new();
    for title in titles {
        item.clear();
        item.extend(title.iter().copied().map(TokenId));
        builder.push(&item).expect("tokens of the vocabulary");
    }
    builder.build().expect("a set that fits").0
}

/// The questions to each structure.
struct Questions {
    prefixes: Vec<Vec<u32>>,
    /// Of each step, the prefixes of its sequences and the candidates of all.
    steps: Vec<(Vec<Vec<u32>>, Vec<TokenId>)>,
}

impl Questions {
    fn new(titles: &[Vec<u32>], source: &mut Titles) -> Self {
        let prefix = |source: &mut Titles| {
            let title = &titles[source.below(titles.len())];
            let depth = source.below(title.len() + 1);
            (title[..depth].to_vec(), title.get(depth).copied())
        };
        let prefixes = (0..PREFIXES).map(|_| prefix(source).0).collect();
        let steps = (0..STEPS).map(|_| {
            let (mut prefixes, mut candidates) = (Vec::new(), Vec::new());
            for _ in 0..BATCH {
                let (prefix, next) = prefix(source);
                prefixes.push(prefix);
                let own = next.unwrap_or_else(|| source.token());
                candidates
                    .extend([own].into_iter().chain((1..CANDIDATES).map(|_| source.token())).map(TokenId));
            }
            (prefixes, candidates)
        });
        Self { steps: steps.collect(), prefixes }
    }
}

/// The answers of a structure, to be compared: hashes of masks would hide which differ, and these are few.
#[derive(Default)]
struct Answers {
    counts: Vec<usize>,
    valid: Vec<bool>,
}

struct Times {
    name: &'static str,
    bytes: usize,
    /// Seconds of the process.
    build: f64,
    /// By depth 0 to 4, the last for all beyond.
    masks: Option<[Vec<u64>; 5]>,
    steps: Vec<u64>,
}

fn time<E: Engine>(
    name: &'static str,
    questions: &Questions,
    rounds: usize,
    answers: &mut Option<Answers>,
    build: impl FnOnce() -> E,
) -> Times {
    let begin = Moment::now();
    let engine = build();
    let build = begin.ns() as f64 / 1e9;

    let places: Vec<E::Place> = questions.prefixes.iter().map(|prefix| engine.place(prefix)).collect();
    let mut mask = TokenMask::new(VOCAB);
    let mut best = vec![u64::MAX; places.len()];
    let (mut counts, mut has_masks) = (Vec::new(), true);
    for round in 0..rounds {
        for (place, best) in places.iter().zip(&mut best) {
            let begin = Instant::now();
            has_masks &= std::hint::black_box(&engine).mask(place, mask.as_mut()).is_some();
            *best = (*best).min(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if round == 0 {
                counts.push(mask.ids().fold(mask.count(), |sum, id| sum.wrapping_mul(31) + id.index()));
            }
        }
    }
    let mut masks: [Vec<u64>; 5] = Default::default();
    questions.prefixes.iter().zip(best).for_each(|(prefix, best)| masks[prefix.len().min(4)].push(best));
    masks.iter_mut().for_each(|times| times.sort_unstable());

    let mut valid = vec![false; BATCH * CANDIDATES];
    let (mut steps, mut all_valid) = (vec![u64::MAX; questions.steps.len()], Vec::new());
    let places = |prefixes: &[Vec<u32>]| prefixes.iter().map(|prefix| engine.place(prefix)).collect();
    let of_step: Vec<Vec<E::Place>> = questions.steps.iter().map(|(prefixes, _)| places(prefixes)).collect();
    for round in 0..rounds {
        for ((places, (_, candidates)), best) in of_step.iter().zip(&questions.steps).zip(&mut steps) {
            let begin = Moment::now();
            std::hint::black_box(&engine).step(places, candidates, &mut valid);
            *best = (*best).min(begin.ns());
            if round == 0 {
                all_valid.extend_from_slice(&valid);
            }
        }
    }
    steps.sort_unstable();

    match answers {
        None => *answers = Some(Answers { counts, valid: all_valid }),
        Some(expected) => {
            assert!(!has_masks || expected.counts == counts, "{name}: masks differ");
            assert!(expected.valid == all_valid, "{name}: candidates differ");
        }
    }
    Times { name, bytes: engine.bytes(), build, masks: has_masks.then_some(masks), steps }
}

fn measure(size: usize, options: &Options) -> Result<String, String> {
    let mut source = Titles::new(size as u64);
    source.length(options.length);
    let mut titles = source.set(size);
    let tokens: usize = titles.iter().map(Vec::len).sum();
    let questions = Questions::new(&titles, &mut source);

    // Ours, from titles in no order.
    let (wall, cpu) = (Instant::now(), Moment::now());
    let set = set_of(&titles);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu.ns() as f64 / 1e9);
    let folder = std::env::temp_dir();
    let path = folder.join(format!("unskew-bench-{}.set", std::process::id()));
    set.save(&path).map_err(|error| error.to_string())?;
    let open = |verify: bool| {
        let begin = Moment::now();
        let set = ItemSet::open_any(&path).expect("a saved set");
        if verify {
            set.verify().expect("a saved set");
        }
        begin.ns() as f64 / 1e6
    };
    let (opened, verified) = ((0..5).map(|_| open(false)).fold(f64::MAX, f64::min), open(true));
    let _ = std::fs::remove_file(&path);
    let constraint = Arc::new(SetConstraint::new(Arc::new(set), VOCAB).map_err(|error| error.to_string())?);

    titles.sort_unstable();
    let (mut answers, rounds) = (None, options.rounds);
    let ours = Arc::clone(&constraint);
    let mut times = vec![time("columns (ours)", &questions, rounds, &mut answers, || Columns(ours))];
    times[0].build = cpu;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only.iter().any(|other| other == name));
    let mut nodes = None;
    if wanted("ranges") {
        times.push(time("ranges", &questions, rounds, &mut answers, || {
            let trie = Ranges::new(&titles);
            nodes = Some(trie.nodes());
            trie
        }));
    }
    if wanted("hash") && size <= MOST_HASHED {
        times.push(time("hash", &questions, rounds, &mut answers, || Hashes::new(&titles)));
    }
    if wanted("rows") {
        times.push(time("rows, all lanes", &questions, rounds, &mut answers, || Rows::new(&titles, false)));
    }
    if wanted("exit") {
        times.push(time("rows, early exit", &questions, rounds, &mut answers, || Rows::new(&titles, true)));
    }
    if wanted("fst") {
        times.push(time("fst", &questions, rounds, &mut answers, || Strings::new(&titles)));
    }

    let width = constraint.set().token_bytes();
    let mut out = format!(
        "## {} titles, {} tokens\n\nOurs: built from ids in no order in {wall:.2} s on the wall, {cpu:.2} s of the process; opened in \
         {opened:.2} ms, with all checksums in {verified:.1} ms; {} bytes are {:.3} x {width} bytes a token.{}\n\n",
        thousands(size as f64, 0),
        thousands(tokens as f64, 0),
        thousands(times[0].bytes as f64, 0),
        times[0].bytes as f64 / (width * tokens) as f64,
        nodes
            .map_or_else(String::new, |nodes| format!(" `ranges` has {} nodes.", thousands(nodes as f64, 0))),
    );
    out += &table(&times);
    out += &against(&times);
    Ok(out)
}

fn table(times: &[Times]) -> String {
    let mut out =
        "| | MB | build s | step p50 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|\n".to_owned();
    let four = |times: &[u64]| {
        let at = |permille| amount(percentile(times, permille) as f64 / 1e3);
        [at(500), at(990), at(999), at(1000)].join(" | ")
    };
    for Times { name, bytes, build, steps, .. } in times {
        let _ = writeln!(out, "| {name} | {} | {build:.2} | {} |", amount(*bytes as f64 / 1e6), four(steps));
    }
    out += "\nThe time to build includes sorting for ours alone; the others get sorted titles.\n\n";
    out += "| mask at depth | structure | n | p50 | p99 | p99.9 | max |\n|---|---|--:|--:|--:|--:|--:|\n";
    for depth in 0..5 {
        for Times { name, masks, .. } in times {
            let Some(of_depth) = masks.as_ref().map(|masks| &masks[depth]).filter(|times| !times.is_empty())
            else {
                continue;
            };
            let depth = if depth == 4 { "4 and beyond".to_owned() } else { depth.to_string() };
            let _ = writeln!(out, "| {depth} | {name} | {} | {} |", of_depth.len(), four(of_depth));
        }
    }
    out + "\n"
}

/// Ours in proportion to the others.
fn against(times: &[Times]) -> String {
    let step = |times: &Times| percentile(&times.steps, 500) as f64;
    let ours = &times[0];
    let mut out = String::new();
    for peer in &times[1..] {
        let _ = write!(out, "{}: {} times our step", peer.name, amount(step(peer) / step(ours)));
        if let (Some(masks), Some(own)) = (&peer.masks, &ours.masks) {
            let ratio = |depth: usize| match (masks[depth].is_empty(), own[depth].is_empty()) {
                (false, false) => {
                    amount(percentile(&masks[depth], 500) as f64 / percentile(&own[depth], 500) as f64)
                }
                _ => "-".to_owned(),
            };
            let ratios: Vec<String> = (0..5).map(ratio).collect();
            let _ = write!(out, ", {} times our masks at depth 0 to 4", ratios.join(", "));
        }
        let _ = writeln!(out, ", {} times our memory.", amount(peer.bytes as f64 / ours.bytes as f64));
    }
    out + "\n"
}

fn from_text(lines: usize, options: &Options) -> Result<String, String> {
    let name = &options.vocabulary;
    let subject = subject(name)?.ok_or_else(|| format!("no tokenizer {name}; set UNSKEW_DATA"))?;
    let text = Titles::new(7).lines(lines);
    let (wall, cpu) = (Instant::now(), Moment::now());
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&subject.vocabulary));
    let encode = |line: &str| subject.tokenizer.encode_continuation(line);
    builder.push_lines(text.as_bytes(), encode, |_, _| ()).map_err(|error| error.to_string())?;
    let (pushed, pushed_cpu) = (wall.elapsed().as_secs_f64(), cpu.ns() as f64 / 1e9);
    let (set, _) = builder.build().map_err(|error| error.to_string())?;
    Ok(format!(
        "## {} lines of text, {name}\n\n{:.0} MB of text, {:.2} tokens a line; built in {:.1} s on the wall, {:.1} s of the process on \
         all cores, of which tokenising takes {pushed:.1} and {pushed_cpu:.1}.\n\n",
        thousands(lines as f64, 0),
        text.len() as f64 / 1e6,
        set.tokens() as f64 / set.len() as f64,
        wall.elapsed().as_secs_f64(),
        cpu.ns() as f64 / 1e9,
    ))
}

const _: () = assert!(LONGEST < 16, "a row of the paper's array has room for the end");
