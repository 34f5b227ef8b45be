//! Look-up of n-grams: what followed the last tokens when they came before.
//!
//! Outputs repeat their prompt and themselves: names, field names, quotations. The continuation of the longest, and then latest,
//! earlier occurrence of the last tokens is a guess that takes no model and no training.

use unskew_core::{Constraint, Proposer, TokenId};

/// Guesses that the text goes on as it did before.
///
/// Each guess reads the text once: it is no more than a few thousand tokens.
#[derive(Clone, Debug)]
pub struct Ngram {
    least: usize,
    most: usize,
    text: Vec<TokenId>,
}

impl Default for Ngram {
    /// Looks up the last 4 tokens, or fewer down to one.
    fn default() -> Self {
        Self::new(1, 4)
    }
}

impl Ngram {
    /// Looks up the last `most` tokens, or fewer, but not less than `least` and one.
    pub fn new(least: usize, most: usize) -> Self {
        Self { least: least.max(1), most, text: Vec::new() }
    }

    /// Where the text went on the last time.
    fn find(&self) -> Option<usize> {
        let text = &self.text;
        let mut best = None;
        let mut longest = self.least.saturating_sub(1);
        // From the latest on; only a longer one is better.
        for end in (1..text.len()).rev() {
            let shared = text[..end].iter().rev().zip(text.iter().rev()).take(self.most);
            let shared = shared.take_while(|(left, right)| left == right).count();
            if shared > longest {
                (best, longest) = (Some(end), shared);
                if longest == self.most {
                    break;
                }
            }
        }
        best
    }
}

impl<C: Constraint> Proposer<C> for Ngram {
    fn begin(&mut self, prompt: &[TokenId]) {
        self.text.clear();
        self.text.extend_from_slice(prompt);
    }

    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        let observed = self.text.len();
        self.text.extend_from_slice(tokens);
        if let Some(mut from) = self.find() {
            let mut state = state.clone();
            for _ in 0..most {
                // It may go on into what it proposes itself.
                let token = self.text[from];
                if constraint.advance(scratch, &mut state, token).is_err() {
                    break;
                }
                tokens.push(token);
                self.text.push(token);
                from += 1;
            }
        }
        self.text.truncate(observed);
    }

    fn observe(&mut self, _: &C, _: &mut C::Scratch, _: &C::State, token: TokenId) {
        self.text.push(token);
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, Unconstrained};

    use super::*;

    fn proposed(text: &[u32], guessed: &[u32], most: usize, ngram: &mut Ngram) -> Vec<u32> {
        let constraint = Unconstrained::new(TableModel::uniform(["a", "b", "c", "d"]).vocabulary());
        let ids = |ids: &[u32]| ids.iter().copied().map(TokenId).collect::<Vec<_>>();
        Proposer::<Unconstrained>::begin(ngram, &[]);
        ids(text).iter().for_each(|token| ngram.observe(&constraint, &mut (), &(), *token));
        let mut tokens = ids(guessed);
        ngram.propose(&constraint, &mut (), &(), most, &mut tokens);
        tokens[guessed.len()..].iter().map(|token| token.0).collect()
    }

    #[test]
    fn the_longest_and_then_the_latest_occurrence_is_continued() {
        let mut ngram = Ngram::default();
        assert_eq!(proposed(&[0, 1, 2, 3, 1, 0, 1], &[], 2, &mut ngram), [2, 3]);
        assert_eq!(proposed(&[1, 2, 1, 3, 1], &[], 3, &mut ngram), [3, 1, 3]);
        // What is guessed already is part of the text, and is forgotten afterwards.
        assert_eq!(proposed(&[0, 1, 2, 3], &[0, 1], 9, &mut ngram)[..2], [2, 3]);
        assert_eq!(proposed(&[0, 1, 2, 3], &[], 9, &mut ngram), [0; 0]);
        // A repetition goes on.
        assert_eq!(proposed(&[0, 1, 0, 1], &[], 5, &mut ngram), [0, 1, 0, 1, 0]);
        assert_eq!(proposed(&[0, 1, 0], &[], 5, &mut Ngram::new(2, 4)), [0; 0]);
        assert_eq!(proposed(&[], &[], 5, &mut ngram), [0; 0]);
    }
}
