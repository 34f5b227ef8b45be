//! Models whose rows are worked out from the tokens so far, for the benchmarks of samplers and of speculation. They
//! take any token, and an error of theirs does not exist.

use unskew_core::{Extension, LanguageModel, Logits, TokenId};

/// The rows of such a model.
pub(crate) trait RowOf {
    fn vocab_len(&self) -> usize;

    /// Writes the logits after `sequence` into `out`, of the vocabulary's length.
    fn row(&self, sequence: &[TokenId], out: &mut [f32]);
}

/// A [`RowOf`] as a language model: a sequence is its tokens.
#[derive(Clone, Debug)]
pub(crate) struct RowModel<R>(pub(crate) R);

impl<R: RowOf> LanguageModel for RowModel<R> {
    type Sequence = Vec<TokenId>;
    type Error = std::convert::Infallible;

    fn vocab_len(&self) -> usize {
        self.0.vocab_len()
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
        sequence.truncate(len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), Self::Error> {
        let rows = batch.iter().map(|item| item.rows.count(item.tokens.len())).sum();
        let vocab_len = self.vocab_len();
        let mut out = logits.reset(rows, vocab_len).chunks_exact_mut(vocab_len);
        for Extension { sequence, tokens, rows } in batch {
            sequence.extend_from_slice(tokens);
            for len in rows.prefixes(tokens.len(), sequence.len()) {
                self.0.row(&sequence[..len], out.next().expect("as many rows as were counted"));
            }
        }
        Ok(())
    }
}
