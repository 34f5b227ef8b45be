//! The benchmarks: vocabularies, regexes, engines, and how they are measured and reported.
//!
//! The program `unskew-bench` has one subcommand for each suite; [`run()`] is its body. The embedded tokenizer is
//! always there. With the environment variable `UNSKEW_DATA` set to a folder that holds
//! `tokenizers/NAME/tokenizer.json`, those are measured too.
//!
//! `regex`, `grammars` and `published` run every regex of [`suite`] and every grammar of [`workloads`] on every
//! engine of [`engine`] and, with the feature `peers`, of other projects, in one process as far as their dependencies
//! allow.

#[cfg(feature = "runner")]
mod checkpoints;
mod clock;
#[cfg(feature = "wgpu")]
mod device;
pub mod engine;
mod maskbench;
mod options;
#[cfg(any(feature = "burn", feature = "wgpu"))]
mod passes;
mod process;
mod record;
mod rows;
#[cfg(feature = "burn")]
mod runner;
mod samplers;
mod sets;
mod side_by_side;
mod soak;
mod speculation;
pub mod suite;
pub mod workloads;

use std::{path::Path, process::ExitCode, sync::Arc};

use clap::{Parser, Subcommand};
use unskew_core::{TokenId, Vocabulary};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

use engine::Builder;
pub use side_by_side::measure::Meter;
use suite::Case;

/// The engines that a program has, and how it counts memory.
#[derive(Debug)]
pub struct Program {
    /// Engines of regexes, ours first.
    pub regexes: Vec<Builder>,
    /// Engines of grammars, ours first.
    pub grammars: Vec<Builder>,
    /// Engines of published grammars, ours first.
    pub published: Vec<Builder>,
    /// Engines of JSON Schema, ours first.
    pub schemas: Vec<Builder>,
    /// For a program that counts its heap.
    pub meter: Option<Meter>,
}

/// Benchmarks of unskew.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Regex engines side by side: times, or memory
    Regex(options::Options),
    /// Grammar engines side by side: times, or memory
    Grammars(options::Options),
    /// Grammar engines on published grammars: a folder UNSKEW_PUBLISHED that published_verdicts.py wrote
    Published(options::Options),
    /// Engines of JSON Schema on MaskBench's files: which schemas pass, and the times
    Maskbench(maskbench::Options),
    /// Threads that serve strangers' constraints for minutes: memory, times, masks that differ
    Soak(soak::Options),
    /// Samplers side by side: distance from the exact distribution, cost, time for a token, memory
    Samplers(samplers::Options),
    /// Drafts: the speed that a budget of mentored decoding buys
    Speculation(speculation::Options),
    /// Structures that hold millions of titles
    Sets(sets::Options),
    /// Peak memory of transformers: a thousand walks after one prompt, and every command on a billion parameters
    #[cfg(feature = "runner")]
    Checkpoints(checkpoints::Options),
    /// Passes of transformers on the CPU, beside burn and beside the memory
    #[cfg(feature = "burn")]
    Runner(runner::Options),
    /// Rows and passes of transformers on an adapter of wgpu
    #[cfg(feature = "wgpu")]
    Device(device::Options),
}

/// Runs the subcommand that the arguments of the process name. An error is one message on standard error.
#[allow(clippy::print_stderr, reason = "the body of a program that talks to its user")]
pub fn run(program: &Program) -> ExitCode {
    let meter = program.meter;
    let done = match CommandLine::parse().command {
        Command::Regex(options) => side_by_side::run(&REGEX_SUITE, &program.regexes, &options, meter),
        Command::Grammars(options) => side_by_side::run(&GRAMMAR_SUITE, &program.grammars, &options, meter),
        Command::Published(options) => {
            side_by_side::run(&PUBLISHED_SUITE, &program.published, &options, meter)
        }
        Command::Maskbench(options) => maskbench::run(&program.schemas, &options),
        Command::Soak(options) => soak::run(&options),
        Command::Samplers(options) => samplers::run(&options),
        Command::Speculation(options) => speculation::run(&options),
        Command::Sets(options) => sets::run(&options),
        #[cfg(feature = "runner")]
        Command::Checkpoints(options) => checkpoints::run(&options),
        #[cfg(feature = "burn")]
        Command::Runner(options) => runner::run(&options),
        #[cfg(feature = "wgpu")]
        Command::Device(options) => device::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A comparison of engines over cases.
#[derive(Clone, Copy, Debug)]
struct Suite {
    /// The subcommand and the name of its record.
    name: &'static str,
    /// The heading of the report.
    title: &'static str,
    /// The cases, in the plural.
    items: &'static str,
    /// The regexes or grammars with their samples.
    cases: fn() -> Vec<Case>,
    /// The vocabularies that it is measured on unless others are asked for.
    vocabularies: &'static [&'static str],
    /// Whether samples are also walked with one matcher for all, each case has its own table, and the slowest masks
    /// are listed.
    detailed: bool,
}

const REGEX_SUITE: Suite = Suite {
    name: "regex",
    title: "Regex engines side by side",
    items: "regexes",
    cases: suite::cases,
    vocabularies: &VOCABULARIES,
    detailed: false,
};

const GRAMMAR_SUITE: Suite = Suite {
    name: "grammars",
    title: "Grammar engines side by side",
    items: "grammars",
    cases: workloads::cases,
    vocabularies: &["cl100k"],
    detailed: true,
};

const PUBLISHED_SUITE: Suite = Suite {
    name: "published",
    title: "Published grammars",
    cases: workloads::published::cases,
    ..GRAMMAR_SUITE
};

/// A vocabulary to measure on.
#[derive(Clone)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub tokenizer: Arc<Tokenizer>,
    /// Its tokens.
    pub vocabulary: Arc<Vocabulary>,
    /// Their trie.
    pub trie: Arc<TokenTrie>,
    /// The ids that are no text tokens.
    pub others: Arc<[usize]>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The vocabularies that the suite knows, the embedded one first.
pub const VOCABULARIES: [&str; 6] = ["tiny", "cl100k", "gpt2", "llama3", "qwen2", "mistral-v1"];

/// The vocabulary of this name; `None` if there is no file for it.
///
/// # Errors
///
/// A file that is no tokenizer.
pub fn subject(name: &str) -> Result<Option<Subject>, String> {
    let tokenizer = if name == "tiny" {
        Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes())
    } else {
        let Some(data) = std::env::var_os("UNSKEW_DATA") else { return Ok(None) };
        let file = Path::new(&data).join("tokenizers").join(name).join("tokenizer.json");
        if !file.is_file() {
            return Ok(None);
        }
        Tokenizer::from_file(file)
    };
    let tokenizer = tokenizer.map_err(|error| format!("{name}: {error}"))?;
    of_tokenizer(name, tokenizer).map(Some)
}

/// The vocabulary of a file, called like the folder that it lies in; without a file, the embedded one.
///
/// # Errors
///
/// A file that is no tokenizer.
pub fn subject_of_file(file: Option<&Path>) -> Result<Subject, String> {
    let (name, tokenizer) = match file {
        None => ("tiny".into(), Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes())),
        Some(file) => {
            let folder = file.parent().and_then(Path::file_name).or(file.file_stem());
            (folder.unwrap_or_default().to_string_lossy(), Tokenizer::from_file(file))
        }
    };
    of_tokenizer(&name, tokenizer.map_err(|error| format!("{name}: {error}"))?)
}

fn of_tokenizer(name: &str, tokenizer: Tokenizer) -> Result<Subject, String> {
    let vocabulary = Arc::clone(tokenizer.vocabulary());
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).map_err(|error| format!("{name}: {error}"))?);
    let others = (0..vocabulary.len()).filter(|index| vocabulary.text(TokenId::from_index(*index)).is_none());
    let others = others.collect();
    Ok(Subject { name: name.to_owned(), tokenizer: Arc::new(tokenizer), vocabulary, trie, others })
}

impl Subject {
    /// The id that engines which need one are told to end sequences by; beyond the vocabulary if it names none.
    pub fn end(&self) -> TokenId {
        let known = self.vocabulary.end_of_sequence().first().copied();
        known.unwrap_or_else(|| TokenId::from_index(self.vocabulary.len()))
    }
}
