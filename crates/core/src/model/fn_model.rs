//! A language model that is a function from a prefix to a row of logits.
//!
//! Such a model is enough for tests, for models whose library evaluates whole prefixes, and for endpoints that answer
//! with logits. It keeps no keys and values between calls, so a prefix of n tokens costs n times as much as with a
//! model that keeps them.

use std::fmt;

use crate::{Extension, LanguageModel, Logits, TokenId};

/// A model that is a function. The function writes the logits after a sequence, the prompt included, into a row.
///
/// # Example
///
/// ```
/// use unskew_core::{FnModel, LanguageModel};
///
/// // Token 1 is e times as probable as token 0, after every prefix.
/// let model = FnModel::new(2, |_, row| row.copy_from_slice(&[0.0, 1.0]));
/// assert_eq!(model.vocab_len(), 2);
/// ```
///
/// A token that is not below the length of a row is an error.
#[derive(Clone)]
pub struct FnModel<F> {
    vocab_len: usize,
    function: F,
}

/// A token that the model does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("token {token} is none of the model's: its rows have {vocab_len} logits")]
#[non_exhaustive]
pub struct FnModelError {
    /// The token.
    pub token: TokenId,
    /// The length of a row.
    pub vocab_len: usize,
}

impl<F> fmt::Debug for FnModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnModel").field("vocab_len", &self.vocab_len).finish_non_exhaustive()
    }
}

impl<F: FnMut(&[TokenId], &mut [f32])> FnModel<F> {
    /// The model of a function whose rows have `vocab_len` logits. The function must write all of them.
    pub fn new(vocab_len: usize, function: F) -> Self {
        Self { vocab_len, function }
    }
}

impl<F: FnMut(&[TokenId], &mut [f32])> LanguageModel for FnModel<F> {
    type Sequence = Vec<TokenId>;
    type Error = FnModelError;

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn context_len(&self) -> Option<usize> {
        None
    }

    fn start(&mut self) -> Vec<TokenId> {
        Vec::new()
    }

    fn len(&self, sequence: &Vec<TokenId>) -> usize {
        sequence.len()
    }

    fn fork(&mut self, sequence: &Vec<TokenId>) -> Vec<TokenId> {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Vec<TokenId>, len: usize) {
        assert!(len <= sequence.len(), "a sequence of {} tokens has no first {len}", sequence.len());
        sequence.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), FnModelError> {
        let unknown = |token: &&TokenId| token.index() >= self.vocab_len;
        if let Some(token) = batch.iter().flat_map(|item| item.tokens).find(unknown) {
            return Err(FnModelError { token: *token, vocab_len: self.vocab_len });
        }
        let rows = batch.iter().map(|item| item.rows.count(item.tokens.len())).sum();
        let mut rows = logits.reset(rows, self.vocab_len).chunks_exact_mut(self.vocab_len.max(1));
        for Extension { sequence, tokens, rows: wanted } in batch {
            sequence.extend_from_slice(tokens);
            for len in wanted.prefixes(tokens.len(), sequence.len()) {
                let row = rows.next().expect("there is a row for each position that is asked for");
                (self.function)(&sequence[..len], row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::check_model;

    #[test]
    fn it_keeps_the_contract_of_a_model() {
        let mut model = FnModel::new(5, |prefix: &[TokenId], row: &mut [f32]| {
            for (id, logit) in row.iter_mut().enumerate() {
                let sum: usize = prefix.iter().map(|token| token.index() + 1).sum();
                *logit = f32::from(u8::try_from((sum * 7 + id * 3 + prefix.len()) % 11).unwrap());
            }
        });
        check_model(&mut model, &[vec![0, 1, 2], vec![0, 1, 3, 4], vec![2]], 0.0).unwrap();
    }
}
