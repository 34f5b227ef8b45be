//! Two names and a small tokenizer: the example of V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with
//! Regex Constraints* (2024), for the effect of improper spellings on the distribution.
//!
//! The names are the published ones. The vocabulary is ours and reproduces the published numbers of states
//! and edges. Real vocabularies give other numbers: all spellings take 53 edges with GPT-2's, and not 48. As
//! in real vocabularies, the first proper token of a name is rare in other texts, and the short tokens that
//! are its prefixes are common words.

use unskew_core::{Merge, MergeTable, TokenId, Vocabulary};

/// The regex.
pub const PATTERN: &str = " (William|Theodore)";

/// The texts that the regex matches.
pub const NAMES: [&str; 2] = [" William", " Theodore"];

/// The proper tokens of each name.
pub const PROPER: [&[&str]; 2] = [&[" William"], &[" Theo", "d", "ore"]];

const SYMBOLS: [&str; 12] = [" ", "T", "W", "a", "d", "e", "h", "i", "l", "m", "o", "r"];

/// The merges by rank, as pairs of texts. Every result is a new token, and the encoding of the text of every
/// token is that token.
const MERGES: [(&str, &str); 32] = [
    ("h", "e"),
    ("i", "l"),
    ("il", "l"),
    (" ", "W"),
    (" W", "ill"),
    ("i", "a"),
    ("ia", "m"),
    (" Will", "iam"),
    ("o", "r"),
    ("or", "e"),
    (" ", "T"),
    (" T", "he"),
    (" The", "o"),
    (" T", "h"),
    ("T", "he"),
    ("T", "h"),
    ("The", "o"),
    ("W", "ill"),
    ("Will", "iam"),
    (" W", "i"),
    ("W", "i"),
    ("l", "i"),
    ("l", "l"),
    ("l", "li"),
    ("l", "iam"),
    ("W", "il"),
    ("e", "o"),
    ("o", "d"),
    ("od", "or"),
    ("d", "o"),
    ("d", "or"),
    ("r", "e"),
];

/// The text of every token, by id.
pub fn texts() -> Vec<String> {
    let merged = MERGES.iter().map(|(left, right)| format!("{left}{right}"));
    SYMBOLS.iter().map(|symbol| (*symbol).to_owned()).chain(merged).collect()
}

/// The token with the text `text`.
///
/// # Panics
///
/// If there is none.
pub fn token(text: &str) -> TokenId {
    TokenId::from_index(texts().iter().position(|other| other == text).expect("a token"))
}

/// The tokens, without a token that ends a sequence.
pub fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    texts().iter().for_each(|text| _ = builder.text(text.as_bytes()));
    builder.build().expect("a small vocabulary")
}

/// The merges.
pub fn merges() -> MergeTable {
    let merge = |(left, right): &(&str, &str)| Merge {
        left: token(left),
        right: token(right),
        result: token(&format!("{left}{right}")),
    };
    MergeTable::new(MERGES.iter().map(merge).collect()).expect("the pairs are distinct")
}
