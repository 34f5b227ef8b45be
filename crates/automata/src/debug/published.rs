//! The automata over tokens as diagrams.

use std::fmt::Write;

use unskew_core::{TokenId, Vocabulary};

use super::{Diagram, by_target};
use crate::published::{LiftedDfa, MergedDfa};

impl From<&LiftedDfa> for Diagram {
    fn from(lifted: &LiftedDfa) -> Self {
        Self::new(lifted.states().map(|state| {
            let mut edges: Vec<_> = lifted.edges(state).collect();
            edges.sort_unstable();
            let edges = edges.into_iter().map(|(id, target)| (target, token(lifted.vocabulary(), id)));
            (state, lifted.is_accepting(state), by_target(edges))
        }))
    }
}

impl From<(&MergedDfa, &Vocabulary)> for Diagram {
    fn from((merged, vocabulary): (&MergedDfa, &Vocabulary)) -> Self {
        Self::new(merged.states().map(|state| {
            let edges = merged.edges(state).map(|(id, target)| (target, token(vocabulary, id)));
            (state, merged.is_accepting(state), by_target(edges))
        }))
    }
}

/// The sign for a space in a token. A plain blank separates tokens.
const SPACE: char = '\u{2423}';

/// The text of a token: letters and signs unchanged, a space as `␣`, and in hexadecimal the bytes that are not UTF-8,
/// invisible characters, and separators of edges.
fn token(vocabulary: &Vocabulary, id: TokenId) -> String {
    let Some(text) = vocabulary.text(id) else { return vocabulary.name(id).into_owned() };
    let mut label = String::new();
    let hexadecimal = |label: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(label, "\\x{byte:02x}").expect("a string can always be written to");
        }
    };
    for chunk in text.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                ' ' => label.push(SPACE),
                ',' | '>' | SPACE => hexadecimal(&mut label, char.encode_utf8(&mut [0; 4]).as_bytes()),
                _ if char.is_control() || char.is_whitespace() => {
                    hexadecimal(&mut label, char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => label.push(char),
            }
        }
        hexadecimal(&mut label, chunk.invalid());
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_readable() {
        let mut builder = Vocabulary::builder();
        let texts: [&[u8]; 6] =
            [b" the", "日本".as_bytes(), b"\xe6\x97", b"a\n\t", b"a,->", "\u{2423}".as_bytes()];
        let ids = texts.map(|text| builder.text(text));
        let end = builder.control("<end>");
        let vocabulary = builder.build().unwrap();
        let labels = ids.map(|id| token(&vocabulary, id));
        assert_eq!(labels, ["␣the", "日本", "\\xe6\\x97", "a\\x0a\\x09", "a\\x2c-\\x3e", "\\xe2\\x90\\xa3"]);
        assert_eq!(token(&vocabulary, end), "<end>");
    }
}
