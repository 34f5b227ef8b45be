//! What the benchmarks share: vocabularies, regexes, engines, and how they are measured and reported.
//!
//! The embedded tokenizer is always there. With the environment variable `UNSKEW_DATA` set to a folder that holds
//! `tokenizers/NAME/tokenizer.json`, those are measured too.
//!
//! `benches/regex.rs` watches our own engine with criterion. The suites ([`run()`]) compare engines: every regex of
//! [`suite`] and every grammar of [`workloads`] on every engine of [`engine`] and, with the feature `peers`, of other projects,
//! in one process as far as their dependencies allow. [`run_sets`] compares structures that hold millions of items; with the feature `wgpu`, `run_device`
//! measures them where a model runs on wgpu.
//! [`speculation`] measures drafts and their verification, [`samplers`] distributions, costs and overheads.

mod chart;
mod clock;
mod detail;
#[cfg(feature = "wgpu")]
mod device;
pub mod engine;
mod guesses;
pub mod maskbench;
pub mod measure;
mod options;
#[cfg(feature = "peers")]
pub mod peers;
mod process;
mod report;
mod rows;
mod run;
pub mod samplers;
pub mod schema_suite;
mod sets;
pub mod soak;
pub mod speculation;
pub mod suite;
mod worker;
pub mod workloads;

use std::{path::Path, sync::Arc};

use unskew_core::{TokenId, TokenTrie, Vocabulary};
use unskew_vocab::Tokenizer;

#[cfg(feature = "wgpu")]
pub use device::run_device;
pub use run::run;
pub use sets::run_sets;

use engine::Builder;
use suite::Case;

/// A comparison: what is compiled and walked, and by which engines.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// What `cargo xtask bench` calls it, and records.
    pub name: &'static str,
    /// The heading of the report.
    pub title: &'static str,
    /// What it compiles, in the plural.
    pub items: &'static str,
    /// All that is compiled, with its samples.
    pub cases: fn() -> Vec<Case>,
    /// Our engines. The masks of all that allow all spellings are compared with those of the first.
    pub ours: fn() -> Vec<Builder>,
    /// The engines of others.
    pub peers: fn() -> Vec<Builder>,
    /// The vocabularies that it is measured on unless others are asked for.
    pub vocabularies: &'static [&'static str],
    /// Whether samples are also walked with one matcher for all, each case has its own table, and the slowest masks are listed.
    pub detailed: bool,
}

/// The suite of regexes.
pub const REGEX_SUITE: Suite = Suite {
    name: "regex",
    title: "Regex engines side by side",
    items: "regexes",
    cases: suite::cases,
    ours: engine::ours,
    #[cfg(feature = "peers")]
    peers: peers::peers,
    #[cfg(not(feature = "peers"))]
    peers: Vec::new,
    vocabularies: &VOCABULARIES,
    detailed: false,
};

/// The suite of grammars.
pub const GRAMMAR_SUITE: Suite = Suite {
    name: "grammars",
    title: "Grammar engines side by side",
    items: "grammars",
    cases: workloads::cases,
    ours: engine::ours_for_grammars,
    #[cfg(feature = "peers")]
    peers: peers::peers_for_grammars,
    #[cfg(not(feature = "peers"))]
    peers: Vec::new,
    vocabularies: &["cl100k"],
    detailed: true,
};

/// A vocabulary to measure on.
#[derive(Clone)]
pub struct Subject {
    /// What to call it.
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

/// The regexes that our own engine is watched on, by name.
pub const REGEXES: [(&str, &str); 4] = [
    ("date", "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"),
    ("email", r"[a-z][a-z0-9.]{0,20}@[a-z]{2,10}(\.[a-z]{2,6}){1,2}"),
    ("record", r#"\{"name": "[A-Za-z ]{1,40}", "age": [0-9]{1,3}, "city": "[A-Za-z ]{1,40}"\}"#),
    ("text", r"(\p{L}+[ ,.])*\p{L}+\."),
];

/// The vocabularies that the suite knows, the embedded one first.
pub const VOCABULARIES: [&str; 6] = ["tiny", "cl100k", "gpt2", "llama3", "qwen2", "mistral-v1"];

/// The embedded tokenizer's vocabulary, and those of GPT-2 and Llama 3 under `UNSKEW_DATA`.
///
/// # Panics
///
/// If a tokenizer cannot be loaded.
pub fn subjects() -> Vec<Subject> {
    let has_data = std::env::var_os("UNSKEW_DATA").is_some();
    let names = if has_data { &["tiny", "gpt2", "llama3"][..] } else { &["tiny"] };
    names.iter().map(|name| subject(name).expect("a tokenizer").expect("a file")).collect()
}

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
    let vocabulary = Arc::new(tokenizer.vocabulary().clone());
    let trie = Arc::new(TokenTrie::new(&vocabulary).map_err(|error| format!("{name}: {error}"))?);
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
