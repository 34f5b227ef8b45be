//! What the benchmarks share: vocabularies and constraints.
//!
//! The embedded tokenizer is always there. With the environment variable `UNSKEW_DATA` set to a folder that holds
//! `tokenizers/NAME/tokenizer.json`, those are measured too.

use std::{path::Path, sync::Arc};

use unskew_core::{TokenTrie, Vocabulary};
use unskew_vocab::Tokenizer;

/// A vocabulary to measure on.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What to call it.
    pub name: String,
    /// Its tokens.
    pub vocabulary: Arc<Vocabulary>,
    /// Their trie.
    pub trie: Arc<TokenTrie>,
}

/// The regexes that engines are measured on, by name.
pub const REGEXES: [(&str, &str); 4] = [
    ("date", "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"),
    ("email", r"[a-z][a-z0-9.]{0,20}@[a-z]{2,10}(\.[a-z]{2,6}){1,2}"),
    ("record", r#"\{"name": "[A-Za-z ]{1,40}", "age": [0-9]{1,3}, "city": "[A-Za-z ]{1,40}"\}"#),
    ("text", r"(\p{L}+[ ,.])*\p{L}+\."),
];

/// The embedded tokenizer's vocabulary, and those under `UNSKEW_DATA`.
///
/// # Panics
///
/// If a tokenizer cannot be loaded.
pub fn subjects() -> Vec<Subject> {
    let tiny =
        Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).expect("the embedded tokenizer");
    let mut subjects = vec![subject("tiny", &tiny)];
    if let Some(data) = std::env::var_os("UNSKEW_DATA") {
        let folder = Path::new(&data).join("tokenizers");
        for name in ["gpt2", "llama3"] {
            let file = folder.join(name).join("tokenizer.json");
            subjects.push(subject(name, &Tokenizer::from_file(file).expect("a tokenizer")));
        }
    }
    subjects
}

fn subject(name: &str, tokenizer: &Tokenizer) -> Subject {
    let vocabulary = Arc::new(tokenizer.vocabulary().clone());
    let trie = Arc::new(TokenTrie::new(&vocabulary).expect("tokens of a usual length"));
    Subject { name: name.to_owned(), vocabulary, trie }
}
