//! What a library of sub-automata saves: building canonical constraints and walking the samples of the suite of regexes
//! with the whole product and an empty library, with one that all regexes share, with the prebuilt one, and with one that
//! has seen the regex before; beside them what it takes by need, without a library.
//!
//! A program and not a benchmark of criterion's: each constraint is built once in each condition, as a service would, and
//! what is asked for is the sum. `UNSKEW_DATA` names the folder with the tokenizers; `--each` prints a line for every
//! regex; other arguments are names of tokenizers.
#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::{path::Path, sync::Arc, time::Instant};

use unskew_automata::{CanonicalConstraint, CanonicalIndex, Dfa, Limits, TokenizerAutomaton, VegasLibrary};
use unskew_benches::suite;
use unskew_core::{Constraint, TokenMask, TokenTrie};
use unskew_vocab::Tokenizer;

struct Setting {
    tokenizer: Tokenizer,
    index: Arc<CanonicalIndex>,
    limits: Limits,
}

impl Setting {
    fn new(file: &Path) -> Self {
        let tokenizer = Tokenizer::from_file(file).expect("a tokenizer");
        let vocabulary = Arc::new(tokenizer.vocabulary().clone());
        let trie = Arc::new(TokenTrie::new(&vocabulary).expect("tokens of a usual length"));
        let tokenization = tokenizer.tokenization().expect("a byte-pair tokenizer");
        let automaton =
            Arc::new(TokenizerAutomaton::new(&vocabulary, tokenization).expect("a known pre-tokenizer"));
        let index = CanonicalIndex::new(automaton, vocabulary, trie).expect("all of one tokenizer");
        Self { tokenizer, index: Arc::new(index), limits: Limits::default() }
    }

    fn library(&self) -> VegasLibrary {
        VegasLibrary::new(&self.index, 1 << 30)
    }

    /// The milliseconds for building and for walking; `None` where a limit is reached. Masks are those of `expected`,
    /// or are put there.
    fn time(
        &self,
        case: &suite::Case,
        dfa: &Dfa,
        library: Option<&VegasLibrary>,
        expected: &mut Vec<TokenMask>,
    ) -> Option<[f64; 2]> {
        let begin = Instant::now();
        let constraint = match library {
            None => CanonicalConstraint::from_dfa(dfa, &self.index, &self.limits),
            Some(library) => CanonicalConstraint::with_library(dfa, &self.index, library, &self.limits),
        };
        let constraint = constraint.ok()?;
        let build = begin.elapsed().as_secs_f64() * 1e3;
        let (mut scratch, mut walk, mut count) = (constraint.scratch(), 0.0, 0);
        let is_first = expected.is_empty();
        for sample in &case.samples {
            let mut state = constraint.start();
            let mut tokens = self.tokenizer.encode_continuation(sample).expect("text").into_iter();
            loop {
                let mut mask = TokenMask::new(constraint.vocab_len());
                let begin = Instant::now();
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                walk += begin.elapsed().as_secs_f64() * 1e3;
                if is_first {
                    expected.push(mask);
                } else {
                    assert_eq!(expected[count], mask, "{}", case.name);
                }
                count += 1;
                let Some(token) = tokens.next() else { break };
                constraint.advance(&mut scratch, &mut state, token).expect("a sample of the regex");
            }
        }
        Some([build, walk])
    }
}

fn measure(name: &str, setting: &Setting, each: bool) {
    let (shared, prebuilt) = (setting.library(), setting.library());
    let begin = Instant::now();
    prebuilt.prebuild(&setting.index, &setting.limits).expect("usual limits");
    let stats = prebuilt.stats();
    println!(
        "{name}: prebuilt in {:.1} s: {} blocks, {:.1} MB; file {:.1} MB",
        begin.elapsed().as_secs_f64(),
        stats.blocks,
        stats.bytes as f64 / 1e6,
        prebuilt.to_bytes().len() as f64 / 1e6
    );
    let names = ["by need", "empty", "shared", "prebuilt", "again"];
    let mut sums = [[0.0; 2]; 5];
    let mut parse = 0.0;
    let (mut regexes, mut by_need) = (0, [0.0; 2]);
    for case in suite::cases() {
        let begin = Instant::now();
        let dfa = Dfa::from_pattern(&case.pattern, &setting.limits).expect("a regex of the suite");
        parse += begin.elapsed().as_secs_f64() * 1e3;
        // Sets that the index keeps are made by whoever comes first.
        setting.time(&case, &dfa, None, &mut Vec::new());
        let mut masks = Vec::new();
        let own = setting.library();
        let libraries = [None, Some(&own), Some(&shared), Some(&prebuilt), Some(&own)];
        let mut times = [[0.0; 2]; 5];
        for (library, times) in libraries.into_iter().zip(&mut times) {
            let Some(time) = setting.time(&case, &dfa, library, &mut masks) else { break };
            *times = time;
        }
        by_need.iter_mut().zip(times[0]).for_each(|(sum, time)| *sum += time);
        if times.iter().any(|[build, _]| *build == 0.0) {
            println!("  {:22} its product is beyond the limits", case.name);
            continue;
        }
        regexes += 1;
        sums.iter_mut().flatten().zip(times.iter().flatten()).for_each(|(sum, time)| *sum += time);
        if each {
            let times = times.map(|[build, walk]| format!("{build:9.2} +{walk:7.2}"));
            println!("  {:22} {}", case.name, times.join(" |"));
        }
    }
    let all = suite::cases().len();
    println!("  character DFAs {parse:.0} ms; all {all} regexes by need {:.1} ms", by_need[0] + by_need[1]);
    println!("  {regexes} regexes whose products are within the limits:");
    for (name, [build, walk]) in names.iter().zip(sums) {
        println!("  {name:10} build {build:9.1} ms  masks {walk:7.1} ms  sum {:9.1} ms", build + walk);
    }
    for (name, library, before) in [("shared", &shared, None), ("prebuilt", &prebuilt, Some(stats))] {
        let (now, before) = (library.stats(), before.unwrap_or_default());
        println!(
            "  {name:10} hit: blocks {}, states {}, rows {}; {:.1} MB",
            rate(now.hits.0 - before.hits.0, now.misses.0 - before.misses.0),
            rate(now.hits.1 - before.hits.1, now.misses.1 - before.misses.1),
            rate(now.row_hits - before.row_hits, now.row_misses - before.row_misses),
            now.bytes as f64 / 1e6
        );
    }
}

/// How many of those that were looked up were found.
fn rate(hits: u64, misses: u64) -> String {
    let all = hits + misses;
    format!("{hits} of {all} ({:.1} %)", 100.0 * hits as f64 / all.max(1) as f64)
}

fn main() {
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let names = if names.is_empty() { vec!["cl100k".to_owned(), "llama3".to_owned()] } else { names };
    let data = std::env::var_os("UNSKEW_DATA").expect("UNSKEW_DATA names the folder with the tokenizers");
    for name in names {
        let file = Path::new(&data).join("tokenizers").join(&name).join("tokenizer.json");
        measure(&name, &Setting::new(&file), flags.iter().any(|flag| flag == "--each"));
    }
}
