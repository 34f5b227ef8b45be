//! A corpus of test cases for constraint engines, and random patterns, texts and vocabularies.
//!
//! A case gives texts that a constraint accepts and rejects, and masks over some small vocabularies. It does
//! not name an engine: a regex is also a grammar with one terminal, and a list of choices is also a regex and
//! a set of items. So one corpus can test every engine, and a case added for one engine tests the others too.
//! At present the engines of `unskew-automata` run over it. The README describes the format of the files.
//!
//! Tried instead: tests in Rust next to each engine. They repeat the same cases in as many notations as there
//! are engines.

mod cases;
pub mod gguf;
pub mod strategies;
pub mod two_names;

pub use cases::{Case, Constraint, ExpectedError, Mask, cases};
use unskew_core::Vocabulary;

/// The number of cases of a random suite: the environment variable `UNSKEW_CASES`, or one of these by the build.
pub fn random_cases(debug: u32, release: u32) -> u32 {
    let asked = std::env::var("UNSKEW_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(if cfg!(debug_assertions) { debug } else { release })
}

/// One id of a vocabulary, in a form that a failing test can print.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Token {
    /// Text, not necessarily UTF-8, possibly empty.
    Text(Vec<u8>),
    /// A control token.
    Control,
    /// An unused id.
    Unused,
}

/// The vocabulary with the ids `tokens`, in this order, followed by a control token that ends a sequence.
pub fn vocabulary(tokens: &[Token]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for (id, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(text) => builder.text(text),
            Token::Control => builder.control(&format!("<control {id}>")),
            Token::Unused => builder.unused(),
        };
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    builder.build().expect("test vocabularies are small and their end is a control token")
}
