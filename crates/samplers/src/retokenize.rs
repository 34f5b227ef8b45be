//! Retokenisation: the tokens with which a model itself would have written a text.
//!
//! A tokenizer has one spelling for a text, and a model may prefer another: after a forced prefix, inside code, after
//! a template. From left to right, [`retokenize`] takes the likeliest of the tokens that the rest of the text begins
//! with (DOMINO, section 3.5, "model-based retokenisation"). The method is greedy: the likeliest spelling of the
//! whole text may be another one.

use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId, logprob};
use unskew_trie::TokenTrie;

use crate::SampleError;

/// A spelling of a text.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Spelling {
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// The log-probability of the tokens after the prompt under the model. The end of the sequence is not counted.
    pub log_prob: f64,
}

/// The likeliest tokens, one after the other, that spell `text` after `prompt`. `None` if at some place no token
/// begins the rest of the text. A vocabulary of all bytes always has such a token.
///
/// Of equally likely tokens, the longest is taken.
///
/// Cost: one evaluation of the model for each token.
///
/// # Errors
///
/// [`SampleError::Model`] when the model fails, and [`SampleError::NotADistribution`].
pub fn retokenize<M: LanguageModel>(
    model: &mut M,
    trie: &TokenTrie,
    prompt: &[TokenId],
    text: &[u8],
) -> Result<Option<Spelling>, SampleError<M::Error>> {
    let mut sequence = model.start();
    let mut logits = Logits::new();
    let mut appended = prompt.to_vec();
    let mut spelling = Spelling { tokens: Vec::new(), log_prob: 0.0 };
    let mut rest = text;
    while !rest.is_empty() {
        let batch = &mut [Extension { sequence: &mut sequence, tokens: &appended, rows: Rows::Last }];
        model.extend(batch, &mut logits).map_err(SampleError::Model)?;
        logits.read_all()?;
        let row = logits.row(0);
        let log_normalizer = logprob::log_normalizer(row);
        if !log_normalizer.is_finite() {
            return Err(SampleError::NotADistribution { tokens: spelling.tokens.len() });
        }
        // The logit, the length and the token.
        let mut best: Option<(f32, usize, TokenId)> = None;
        trie.walk(
            0,
            |at: usize, byte| (rest.get(at) == Some(&byte)).then_some(at + 1),
            |token, len| {
                let Some(logit) = row.get(token.index()).copied() else { return };
                if best.is_none_or(|(other, longest, _)| (logit, len) > (other, longest)) {
                    best = Some((logit, len, token));
                }
            },
        );
        let Some((logit, len, token)) = best else { return Ok(None) };
        spelling.log_prob += f64::from(logit) - log_normalizer;
        spelling.tokens.push(token);
        rest = &rest[len..];
        appended = vec![token];
    }
    Ok(Some(spelling))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unskew_core::TableModel;

    #[test]
    fn the_likelier_spelling_is_taken() {
        // After the empty prompt, `a` is likelier than `ab`; after `b`, `ab` is likelier.
        let contexts = [(vec![], vec![0.5, 0.1, 0.3, 0.1]), (vec![TokenId(1)], vec![0.1, 0.1, 0.7, 0.1])];
        let mut model = TableModel::new(["a", "b", "ab"], vec![0.25; 4], contexts).unwrap();
        let trie = TokenTrie::new(model.vocabulary().clone()).unwrap();
        let [a, b, ab] = [0, 1, 2].map(TokenId);
        let spelling = retokenize(&mut model, &trie, &[], b"ab").unwrap().unwrap();
        assert_eq!(spelling.tokens, [a, b]);
        assert!((spelling.log_prob - (0.5f64 * 0.25).ln()).abs() < 1e-6);
        assert_eq!(retokenize(&mut model, &trie, &[b], b"ab").unwrap().unwrap().tokens, [ab]);
        assert_eq!(retokenize(&mut model, &trie, &[], b"ax").unwrap(), None);
        assert_eq!(retokenize(&mut model, &trie, &[], b"").unwrap().unwrap().tokens, []);
    }
}
