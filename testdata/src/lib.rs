//! The corpus of cases that every engine of unskew runs over, and random patterns, texts and vocabularies.
//!
//! A case says what a constraint accepts and rejects, and for some small vocabularies which tokens may follow. It does
//! not say which engine enforces it: a regex is also a grammar with one terminal, a list of choices is also a regex and
//! also a set of items. So each engine has one test that runs all the cases that it can express, and a new engine is
//! tested by everything that was ever learnt from the others. See the README for the format of the files.
//!
//! Tried instead: tests in Rust next to each engine. They say the same things in as many dialects as there are engines.

mod cases;
pub mod strategies;
pub mod two_names;

pub use cases::{Case, Constraint, ExpectedError, Mask, cases};
use unskew_core::Vocabulary;

/// One id of a vocabulary, in the form that a failing test should print.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Token {
    /// Text, not necessarily UTF-8, possibly empty.
    Text(Vec<u8>),
    /// A control token.
    Control,
    /// A hole.
    Unused,
}

/// The vocabulary whose ids are `tokens`, in this order, and after them a control token that ends a sequence.
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
