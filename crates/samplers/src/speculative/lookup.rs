//! Prompt lookup: a proposer that expects the text to go on as it did after an earlier occurrence of the same tokens.

use unskew_core::{Constraint, Proposer, TokenId};

/// Proposes the tokens that followed the latest occurrence of the longest suffix of the text (Saxena 2023).
///
/// Each proposal reads the text once: a text has no more than a few thousand tokens.
#[derive(Clone, Debug)]
pub struct PromptLookup {
    least: usize,
    most: usize,
}

impl Default for PromptLookup {
    /// Looks up the last 4 tokens, or fewer, down to one.
    fn default() -> Self {
        Self::new(1, 4)
    }
}

impl PromptLookup {
    /// Looks up the last `most` tokens, or fewer, down to `least` (at least one).
    pub fn new(least: usize, most: usize) -> Self {
        Self { least: least.max(1), most }
    }

    /// The index at which the text went on after the latest occurrence.
    fn find(&self, text: &[TokenId]) -> Option<usize> {
        let mut best = None;
        let mut longest = self.least.saturating_sub(1);
        // From the latest occurrence on. An earlier one is better only if it is longer.
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

impl<C: Constraint> Proposer<C> for PromptLookup {
    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        text: &[TokenId],
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        let Some(from) = self.find(text) else { return };
        let mut state = state.clone();
        for index in from..from.saturating_add(most) {
            // The continuation may go on into the proposal itself.
            let token = text.get(index).copied().unwrap_or_else(|| tokens[index - text.len()]);
            if constraint.advance(scratch, &mut state, token).is_err() {
                break;
            }
            tokens.push(token);
        }
    }

    fn observe(&mut self, _: &C, _: &mut C::Scratch, _: &C::State, _: TokenId) {}
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, Unconstrained};

    use super::*;

    fn proposed(text: &[u32], most: usize, lookup: &mut PromptLookup) -> Vec<u32> {
        let constraint = Unconstrained::new(TableModel::uniform(["a", "b", "c", "d"]).vocabulary());
        let text: Vec<TokenId> = text.iter().copied().map(TokenId).collect();
        let mut tokens = Vec::new();
        lookup.propose(&constraint, &mut (), &text, &(), most, &mut tokens);
        tokens.iter().map(|token| token.0).collect()
    }

    #[test]
    fn the_longest_and_then_the_latest_occurrence_is_continued() {
        let mut lookup = PromptLookup::default();
        assert_eq!(proposed(&[0, 1, 2, 3, 1, 0, 1], 2, &mut lookup), [2, 3]);
        assert_eq!(proposed(&[1, 2, 1, 3, 1], 3, &mut lookup), [3, 1, 3]);
        assert_eq!(proposed(&[0, 1, 2, 3], 9, &mut lookup), [0; 0]);
        // A repetition goes on.
        assert_eq!(proposed(&[0, 1, 0, 1], 5, &mut lookup), [0, 1, 0, 1, 0]);
        assert_eq!(proposed(&[0, 1, 0], 5, &mut PromptLookup::new(2, 4)), [0; 0]);
        assert_eq!(proposed(&[], 5, &mut lookup), [0; 0]);
    }
}
