//! The checks that a model with a context makes of a batch before it evaluates any of it, and their errors.
//!
//! Models that only wrap a function or a table have no context and other errors. Those that hold keys and values
//! share these.

use std::ops::Range;

use super::Rows;
use crate::TokenId;

/// Why a batch is not evaluated. No sequence of the batch has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Logits are wanted for an empty sequence.
    #[error("item {item} of the batch asks for logits after an empty sequence; append a token first, such as {}", a_token(.begin))]
    EmptyContext {
        /// The item of the batch.
        item: usize,
        /// The model's start token, if it has one.
        begin: Option<TokenId>,
    },
    /// A sequence would exceed the context.
    #[error(
        "item {item} of the batch would hold {len} tokens, the model's context is {context}; truncate it first"
    )]
    ContextFull {
        /// The item of the batch.
        item: usize,
        /// The length that the sequence would have.
        len: usize,
        /// The model's limit.
        context: usize,
    },
    /// A token id is outside the vocabulary.
    #[error(
        "item {item} of the batch appends token {token}, but ids end below {vocab_len}; check the tokenizer"
    )]
    UnknownToken {
        /// The item of the batch.
        item: usize,
        /// The id.
        token: TokenId,
        /// The length of the vocabulary.
        vocab_len: usize,
    },
    /// A sequence was started by another model.
    #[error("item {item} of the batch was started by another model; start it with this one")]
    ForeignSequence {
        /// The item of the batch.
        item: usize,
    },
}

fn a_token(begin: &Option<TokenId>) -> String {
    begin.map_or_else(|| "the token for a line end".to_owned(), |token| token.to_string())
}

/// The limits that every item of a batch keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLimits {
    /// The length of the vocabulary.
    pub vocab_len: usize,
    /// The most tokens of a sequence.
    pub context: usize,
    /// The token that starts a text, if the model has one.
    pub begin: Option<TokenId>,
}

impl BatchLimits {
    /// The positions of which an item wants the logits: it appends `tokens` to a sequence of `len` tokens. O(tokens).
    ///
    /// # Errors
    ///
    /// [`BatchError`], but for sequences of other models, which have no common type.
    pub fn check(
        &self,
        item: usize,
        len: usize,
        tokens: &[TokenId],
        rows: Rows,
    ) -> Result<Range<usize>, BatchError> {
        let Self { vocab_len, context, begin } = *self;
        if let Some(token) = tokens.iter().copied().find(|token| token.index() >= vocab_len) {
            return Err(BatchError::UnknownToken { item, token, vocab_len });
        }
        let (old, len) = (len, len + tokens.len());
        if len > context {
            return Err(BatchError::ContextFull { item, len, context });
        }
        match rows {
            Rows::Last if len == 0 => Err(BatchError::EmptyContext { item, begin }),
            // If there is no token to append, the last position is evaluated again.
            Rows::Last => Ok(len - 1..len),
            Rows::All => Ok(old..len),
            Rows::From(first) => Ok(old.saturating_add(first).min(len)..len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_checked_and_its_wanted_positions_are_those_of_its_rows() {
        let limits = BatchLimits { vocab_len: 5, context: 4, begin: None };
        let check = |len, tokens: &[u32], rows| {
            let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
            limits.check(7, len, &tokens, rows)
        };
        assert_eq!(check(2, &[4, 0], Rows::Last), Ok(3..4));
        assert_eq!(check(2, &[4, 0], Rows::All), Ok(2..4));
        assert_eq!(check(2, &[], Rows::Last), Ok(1..2));
        assert_eq!(check(0, &[1, 2, 3], Rows::From(2)), Ok(2..3));
        assert_eq!(check(0, &[1], Rows::From(usize::MAX)), Ok(1..1));
        let error = |len, tokens: &[u32], rows| check(len, tokens, rows).unwrap_err().to_string();
        assert!(
            error(0, &[], Rows::Last).ends_with("append a token first, such as the token for a line end")
        );
        assert!(
            error(3, &[0, 5], Rows::All).contains("item 7 of the batch appends token 5, but ids end below 5")
        );
        assert!(error(3, &[0, 0], Rows::All).contains("would hold 5 tokens, the model's context is 4"));
    }
}
