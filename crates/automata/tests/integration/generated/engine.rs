//! The engine under test: loaded from the same file, with its refusals as text.

use std::sync::Arc;

use serde_json::Value;
use unskew_automata::{CanonicalConstraint, CanonicalError, CanonicalIndex, Limits, TokenizerAutomaton};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

pub(crate) struct Engine {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) vocabulary: Arc<Vocabulary>,
    index: Arc<CanonicalIndex>,
    /// The constraint that allows every text.
    pub(crate) any: Arc<CanonicalConstraint>,
}

pub(crate) type Scratch = <CanonicalConstraint as Constraint>::Scratch;
pub(crate) type State = <CanonicalConstraint as Constraint>::State;

impl Engine {
    /// The engine of a file, or its refusal.
    pub(crate) fn load(file: &Value) -> Result<Self, String> {
        let tokenizer = Tokenizer::from_bytes(file.to_string().as_bytes())
            .map_err(|error| general("Tokenizer", &error.to_string()))?;
        let tokenization =
            tokenizer.tokenization().map_err(|error| general("tokenization", &error.to_string()))?;
        let vocabulary = Arc::clone(tokenizer.vocabulary());
        let automaton = TokenizerAutomaton::new(&vocabulary, tokenization)
            .map_err(|error| general("TokenizerAutomaton", &error.to_string()))?;
        let trie = TokenTrie::new(Arc::clone(&vocabulary))
            .map_err(|error| general("TokenTrie", &error.to_string()))?;
        let index = CanonicalIndex::new(Arc::new(automaton), Arc::new(trie))
            .map_err(|error| general("CanonicalIndex", &error.to_string()))?;
        let index = Arc::new(index);
        let any = CanonicalConstraint::any_text(&index, &Limits::default())
            .map_err(|error| general("any_text", &error.to_string()))?;
        Ok(Self { tokenizer, vocabulary, index, any: Arc::new(any) })
    }

    pub(crate) fn constraint(&self, pattern: &str) -> Result<CanonicalConstraint, CanonicalError> {
        CanonicalConstraint::new(pattern, &self.index, &Limits::default())
    }

    /// The text that `ids` spell, if it is UTF-8.
    pub(crate) fn text(&self, ids: &[u32]) -> Option<String> {
        let ids: Vec<TokenId> = ids.iter().copied().map(TokenId).collect();
        String::from_utf8(self.vocabulary.decode(&ids)).ok()
    }
}

/// Whether `constraint` accepts `ids`.
pub(crate) fn accepts(constraint: &CanonicalConstraint, scratch: &mut Scratch, ids: &[u32]) -> bool {
    let mut state = constraint.start();
    ids.iter().all(|id| constraint.advance(scratch, &mut state, TokenId(*id)).is_ok())
        && constraint.is_accepting(&state)
}

/// The tokens of the mask of `state`.
pub(crate) fn mask(constraint: &CanonicalConstraint, scratch: &mut Scratch, state: &State) -> TokenMask {
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(scratch, state, mask.as_mut());
    mask
}

/// A message without the parts that differ from file to file: numbers and quoted texts. Names of steps stay.
fn general(stage: &str, message: &str) -> String {
    let mut general = format!("{stage}: ");
    let mut rest = message;
    while let Some(next) = rest.chars().next() {
        let quoted = match next {
            '"' => closing(&rest[1..]),
            _ => None,
        };
        if let Some(end) = quoted {
            let inside = &rest[1..=end];
            let is_name = inside.len() > 2
                && inside.starts_with(|first: char| first.is_ascii_uppercase())
                && inside.chars().all(|character| character.is_ascii_alphabetic());
            general += if is_name { inside } else { ".." };
            rest = &rest[end + 2..];
        } else if next.is_ascii_digit() {
            general.push('#');
            rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        } else {
            general.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    general
}

/// The position of the quote that closes the quote before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        if escaped {
            escaped = false;
            return None;
        }
        escaped = character == '\\';
        (character == '"').then_some(at)
    })
}
