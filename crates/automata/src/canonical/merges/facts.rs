//! When every text has a canonical sequence: the facts about a tokenizer on which the lazy engine rests.
//!
//! A tokenizer is *regular* if the encoder writes a sequence of its tokens for every text that the automata of texts
//! and of the splitting read. It may fail to do so for two reasons: a merge results in a token that the encoder never
//! writes or whose text is not the text of its parts, or a character has no symbol and occurs only in pieces that are
//! looked up as a whole. (A piece that reads like the name of a token of another text is refused where it ends,
//! [`super::whole`].)
//!
//! **Claim.** For a regular tokenizer every position from which bytes, boundaries and added tokens lead to acceptance
//! can be completed if a piece begins there, or may end there.
//!
//! *Proof.* The encoder writes tokens for the text of such a path, piece by piece, and the boundaries of the path are
//! those of the text. So the tokens of the pieces lead from the start of the first piece to acceptance. Where a piece
//! may end, the text ends, an added token follows, or another piece begins, from which the same holds. ∎
//!
//! A *hard bigram* is a pair of bytes that no token contains ([`super::hard`]). No merge joins the texts on its two
//! sides. So after a token that ends with the first byte, the encoding of the rest of a piece that begins with the
//! second byte may always follow.

use unskew_core::{TokenId, Vocabulary};
use unskew_trie::ByteSet;

use super::{derivation::NONE, hard::HardPairs};
use crate::canonical::tokenizer::automaton::{Role, TokenizerAutomaton};

/// The facts about a tokenizer on which the lazy engine rests.
pub(crate) struct BigramFacts {
    /// The byte pairs that occur in no token and in no result of a merge.
    pub(crate) hard: HardPairs,
    /// Whether every result of merges is a token that the encoder writes and whose text is the concatenation of its
    /// parts.
    pub(crate) regular: bool,
}

impl BigramFacts {
    pub(crate) fn new(tokenizer: &TokenizerAutomaton, vocabulary: &Vocabulary) -> Self {
        let mut hard = HardPairs::new(vocabulary);
        let text = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut regular = true;
        let trees = &tokenizer.bigrams.trees;
        for (token, role) in (0u32..).zip(&tokenizer.roles).filter(|(token, _)| trees.is_reachable(*token)) {
            regular &= matches!(role, Role::Merged | Role::Fallback) && !text(token).is_empty();
            let (left, right) = (trees.left[token as usize], trees.right[token as usize]);
            if left != NONE && right != NONE {
                regular &= text(token).strip_prefix(text(left)) == Some(text(right));
            }
            for partner in tokenizer.bigrams.by_left.partners(token) {
                if let (Some(left), Some(right)) = (text(token).last(), text(partner).first()) {
                    hard.soften(*left, *right);
                }
            }
        }
        Self { hard, regular }
    }

    /// Whether the encoder writes tokens for every text of these bytes that the tokenizer's automata read.
    pub(crate) fn is_regular_for(&self, bytes: &ByteSet, tokenizer: &TokenizerAutomaton) -> bool {
        self.regular && !bytes.meets(&tokenizer.unspelled)
    }
}
