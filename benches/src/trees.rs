//! Walking over a vocabulary beside the trees that grammars share, by the size of the vocabulary: which of the two a
//! compiler takes.
//!
//! A vocabulary of a real tokenizer is cut after its first tokens, which are the frequent ones. For each size, each
//! grammar and schema is compiled anew for each of its texts, as by a service that evicts it, with a library that
//! lives as long as the service, and without one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::{fmt::Write as _, sync::Arc};

use clap::Args;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, GrammarOptions, TreeLibrary};
use unskew_schema::{SchemaLimits, SchemaOptions};
use unskew_trie::TokenTrie;

use crate::{
    clock::{Moment, use_cpu_time},
    options::{ClockOptions, RecordOptions},
    record, subject, workloads,
};

/// Walking and shared trees by the size of the vocabulary
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Vocabularies under UNSKEW_DATA/tokenizers
    #[arg(
        long = "vocabulary",
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "cl100k,llama3"
    )]
    vocabularies: Vec<String>,
    /// How many tokens are left of a vocabulary
    #[arg(
        long = "tokens",
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "512,1024,2048,4096,8192,16384,32768,65536,1000000"
    )]
    sizes: Vec<usize>,
    /// Texts for each grammar
    #[arg(long, value_name = "N", default_value_t = 3)]
    texts: usize,
    #[command(flatten)]
    clock: ClockOptions,
    #[command(flatten)]
    record: RecordOptions,
}

/// The bytes of the library.
const LIBRARY: usize = 256 << 20;

const SCHEMAS: [(&str, &str); 4] = [
    (
        r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"maxItems":5}},"required":["name","age"],"additionalProperties":false}"#,
        r#"{"name": "Mara Lindqvist", "age": 41, "email": "mara.lind@example.org", "tags": ["reader", "northern lights"]}"#,
    ),
    (
        r##"{"type":"object","properties":{"value":{"type":"number"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["value","children"],"additionalProperties":false}"##,
        r#"{"value": 1.5, "children": [{"value": -2, "children": []}, {"value": 30, "children": [{"value": 4e2, "children": []}]}]}"#,
    ),
    (
        r#"{"type":"object","properties":{"when":{"type":"string","format":"date-time"},"level":{"enum":["debug","info","warning","error"]},"id":{"type":"string","pattern":"^[0-9a-f]{8}-[0-9a-f]{4}$"}},"required":["when","level"],"additionalProperties":{"type":"string"}}"#,
        r#"{"when": "2026-11-20T07:30:00Z", "level": "warning", "id": "3f2b8c1e-90ad", "host": "south-4", "what": "a disk is nearly full, and nobody has looked"}"#,
    ),
    ("{}", r#"{"a": [1, true, null, {"b": "some text of no great length"}], "c": "d"}"#),
];

/// Times of one way over all cases.
#[derive(Default)]
struct Times {
    first: Vec<u64>,
    masks: Vec<u64>,
    texts: Vec<u64>,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.clock.cpu_time {
        use_cpu_time();
    }
    let limits = GrammarLimits::default();
    let mut cases: Vec<(Grammar, Vec<String>)> = Vec::new();
    for case in workloads::cases() {
        let grammar = Grammar::from_lark(&case.pattern, &GrammarOptions::default(), &limits);
        let texts = case.samples.iter().take(options.texts).map(|text| text.clone().into_owned());
        cases.push((grammar.map_err(|error| error.to_string())?, texts.collect()));
    }
    for (schema, text) in SCHEMAS {
        let grammar = unskew_schema::grammar(schema, &SchemaOptions::default(), &SchemaLimits::default());
        cases.push((grammar.map_err(|error| error.to_string())?, vec![text.to_owned()]));
    }
    let mut table = String::from(
        "| vocabulary | tokens | way | first mask, mean | p99 | mask, mean | p99 | a text, mean |\n\
         |---|--:|---|--:|--:|--:|--:|--:|\n",
    );
    for name in &options.vocabularies {
        let subject = subject(name)?.ok_or_else(|| format!("no vocabulary {name}; set UNSKEW_DATA"))?;
        let mut last = 0;
        for size in &options.sizes {
            let vocabulary = Arc::new(cut(&subject.vocabulary, *size)?);
            if vocabulary.len() == last {
                continue;
            }
            last = vocabulary.len();
            let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).map_err(|error| error.to_string())?);
            let texts: Vec<Vec<Vec<TokenId>>> = cases
                .iter()
                .map(|(_, texts)| texts.iter().map(|text| spelled(&vocabulary, &trie, text)).collect())
                .collect();
            let library = TreeLibrary::new(Arc::clone(&trie), LIBRARY);
            let library = Arc::new(library);
            let (mut walking, mut sharing) = (Times::default(), Times::default());
            for ((grammar, _), texts) in cases.iter().zip(&texts) {
                for text in texts {
                    let walk = || GrammarConstraint::new(grammar, Arc::clone(&trie), &limits);
                    let walked = walking.measure(text, walk)?;
                    let share = || GrammarConstraint::with_library(grammar, &library, &limits);
                    let shared = sharing.measure(text, share)?;
                    if walked != shared {
                        return Err(format!("{name}, {size} tokens: masks differ"));
                    }
                }
            }
            eprintln!("{name}, {} tokens", vocabulary.len());
            for (way, times) in [("walk", walking), ("trees", sharing)] {
                let _ = writeln!(
                    table,
                    "| {name} | {} | {way} | {} | {} | {} | {} | {} |",
                    vocabulary.len(),
                    mean(&times.first),
                    p99(&times.first),
                    mean(&times.masks),
                    p99(&times.masks),
                    mean(&times.texts)
                );
            }
        }
    }
    let (grammars, texts) = (cases.len(), cases.iter().map(|(_, texts)| texts.len()).sum::<usize>());
    let clock = if options.clock.cpu_time { "the process" } else { "the wall" };
    let report = format!(
        "# Walks and shared trees, {}\n\n{}{}.\n\n\
         {grammars} grammars and schemas with {texts} texts, in microseconds on the clock of {clock}. Each is compiled anew for each of its \
         texts, and its first mask includes that. `walk` has no library, `trees` has one of {} MiB for all of them. A text: all of its \
         masks and the compiling.\n\n{table}",
        record::today(),
        record::host(),
        record::command(),
        LIBRARY >> 20,
    );
    print!("{report}");
    options.record.write("trees", &report)
}

impl Times {
    /// Compiles and walks along a text, and answers with all masks.
    fn measure<E: std::fmt::Display>(
        &mut self,
        text: &[TokenId],
        make: impl FnOnce() -> Result<GrammarConstraint, E>,
    ) -> Result<Vec<TokenMask>, String> {
        let begin = Moment::now();
        let constraint = make().map_err(|error| error.to_string())?;
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut masks = Vec::with_capacity(text.len() + 1);
        let mut all = 0;
        for (index, token) in text.iter().map(Some).chain([None]).enumerate() {
            let mut mask = TokenMask::new(constraint.vocab_len());
            let before = if index == 0 { begin } else { Moment::now() };
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            let took = before.ns();
            all += took;
            if index == 0 { &mut self.first } else { &mut self.masks }.push(took);
            masks.push(mask);
            if let Some(token) = token {
                constraint.advance(&mut scratch, &mut state, *token).map_err(|error| error.to_string())?;
            }
        }
        self.texts.push(all);
        Ok(masks)
    }
}

/// The first tokens, and all bytes.
fn cut(whole: &Vocabulary, size: usize) -> Result<Vocabulary, String> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    let texts = whole.text_tokens().filter(|(id, text)| id.index() < size && text.len() > 1);
    texts.for_each(|(_, text)| {
        builder.text(text);
    });
    builder.build().map_err(|error| error.to_string())
}

/// The longest tokens from the left.
fn spelled(vocabulary: &Vocabulary, trie: &TokenTrie, text: &str) -> Vec<TokenId> {
    let (mut rest, mut tokens) = (text.as_bytes(), Vec::new());
    while !rest.is_empty() {
        let longest = (1..=rest.len().min(32)).rev().find_map(|len| {
            let ids = trie.beginning_with(&rest[..len]).iter().copied();
            ids.clone().find(|id| vocabulary.text(*id) == Some(&rest[..len]))
        });
        let token = longest.expect("every byte is a token");
        rest = &rest[vocabulary.text(token).map_or(1, <[u8]>::len)..];
        tokens.push(token);
    }
    tokens
}

/// In microseconds.
fn mean(times: &[u64]) -> String {
    format!("{:.1}", times.iter().sum::<u64>() as f64 / 1e3 / times.len().max(1) as f64)
}

fn p99(times: &[u64]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * 99).div_ceil(100).max(1) - 1;
    format!("{:.1}", times.get(at).copied().unwrap_or_default() as f64 / 1e3)
}
