//! The merge tree of each token: the last merge that creates it, found without encoding any token.
//!
//! A token is *reachable* if the encoder turns its text, as one piece, into that token alone by merges. A merge
//! table that was converted from a rank file or from SentencePiece lists every way to split a token in two, up to
//! ten per token. The encoder takes only one of these splits when it encodes the token's text. The two parts, their
//! own parts, and so on form the token's merge tree. The right edge of the left neighbour's tree and the left edge
//! of the right neighbour's tree decide which tokens can be neighbours (see [`super::pair`]).
//!
//! A split `left right` of a token is the encoder's own if encoding the token's text keeps `left` and `right` apart
//! until both are complete. That is the pair test without the last merge. So the trees of long tokens follow from
//! the trees of shorter ones. Tried instead: encoding the text of every token. That takes five times as long for a
//! table of 280,000 merges and gives the same trees (a test compares them).

use unskew_core::{MergeTable, TokenId};

use super::pair;
use crate::ids::MergeKey;

/// The order in which an encoder applies merges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MergeOrder {
    /// The lowest-ranked merge that occurs anywhere in the piece, leftmost first, until none occurs. Encoders use
    /// this order.
    #[default]
    LowestRank,
    /// Each merge once, in order of rank, in one pass over the piece from the left. DirectMerge is defined for this
    /// order. The two orders agree on a table where each token comes after its parts and is reachable.
    Passes,
}

/// No token.
pub(crate) const NONE: u32 = u32::MAX;

/// The merge trees of all tokens, by id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Derivations {
    pub(crate) order: MergeOrder,
    /// The key of the token's last merge. [`MergeKey::NEVER`] for unreachable tokens.
    pub(crate) key: Vec<MergeKey>,
    /// The left part; [`NONE`] for symbols and for unreachable tokens.
    pub(crate) left: Vec<u32>,
    /// The right part; [`NONE`] as for `left`.
    pub(crate) right: Vec<u32>,
    /// The earliest time at which the token exists: the greatest key in its tree. It is greater than the token's own
    /// key if a part is created late. Then the token's last merge happens immediately after the part is created.
    pub(crate) time: Vec<MergeKey>,
}

impl Derivations {
    /// The trees of `len` ids under `merges`. `symbols` are the initial tokens of pieces, and `lengths` gives the
    /// lengths of tokens in bytes, 0 for tokens without a text (control tokens).
    ///
    /// Cost: one pair test for each merge.
    pub(crate) fn new(
        len: usize,
        lengths: impl Fn(u32) -> usize,
        symbols: impl Iterator<Item = TokenId>,
        merges: &MergeTable,
        order: MergeOrder,
    ) -> Self {
        let mut trees = Self {
            order,
            key: vec![MergeKey::NEVER; len],
            left: vec![NONE; len],
            right: vec![NONE; len],
            time: vec![MergeKey::NEVER; len],
        };
        for symbol in symbols {
            trees.key[symbol.index()] = MergeKey::SYMBOL;
            trees.time[symbol.index()] = MergeKey::SYMBOL;
        }
        // Parts are shorter than the whole, so in this order the parts are processed before the whole.
        let lengths = lengths_of(len, lengths, merges);
        let mut by_length: Vec<(usize, u32)> = (0u32..)
            .zip(merges.merges())
            .map(|(rank, merge)| (lengths[merge.result.index()], rank))
            .collect();
        by_length.sort_unstable();
        for (_, rank) in by_length {
            let merge = merges.merges()[rank as usize];
            let [left, right, result] = [merge.left, merge.right, merge.result].map(|token| token.0);
            // A symbol is never created by a merge, whatever the table lists. Of several splits, one is the
            // encoder's.
            if trees.is_reachable(result) || !trees.is_reachable(left) || !trees.is_reachable(right) {
                continue;
            }
            let key = MergeKey::of_rank(rank);
            let since = trees.time[left as usize].max(trees.time[right as usize]);
            let in_time = order == MergeOrder::LowestRank || key > since;
            if in_time && !pair::crosses(&trees, |left, right| key_of(merges, left, right), left, right, true)
            {
                let result = result as usize;
                (trees.key[result], trees.left[result], trees.right[result]) = (key, left, right);
                trees.time[result] = key.max(since);
            }
        }
        trees
    }

    /// Whether the token is reachable: some piece is encoded to this token alone, by merges.
    #[inline]
    pub(crate) fn is_reachable(&self, token: u32) -> bool {
        self.key[token as usize] != MergeKey::NEVER
    }

    /// Calls `each` with the tokens on one edge of the tree of `token`, from the whole down to the symbol, each with
    /// the token that consumes it. `down` is `left` or `right`.
    pub(crate) fn on_edge(&self, down: &[u32], token: u32, mut each: impl FnMut(u32, Option<u32>)) {
        let (mut at, mut above) = (token, None);
        while at != NONE {
            each(at, above);
            above = Some(at);
            at = down[at as usize];
        }
    }

    /// The last key at which the left part of `whole` can still be merged with a token on its left. A merge of this
    /// key or a lower one happens before the left part is consumed.
    ///
    /// The left part is consumed at the time of the whole. There is one exception. If the left part is created only
    /// at that time, the last merge of the whole follows immediately, with the whole's own key. The exception does
    /// not apply if the right part is created at that time too: of merges of one rank, the left ones happen first.
    #[inline]
    pub(crate) fn left_end(&self, whole: u32) -> MergeKey {
        let (left, right, whole) = (self.left[whole as usize], self.right[whole as usize], whole as usize);
        if self.time[left as usize] == self.time[whole] && self.time[right as usize] != self.time[whole] {
            self.key[whole]
        } else {
            self.time[whole]
        }
    }

    /// The last key at which the right part of `whole` can still be merged with a token on its right. A merge of a
    /// lower key happens before the right part is consumed.
    #[inline]
    pub(crate) fn right_end(&self, whole: u32) -> MergeKey {
        let (right, whole) = (self.right[whole as usize], whole as usize);
        if self.time[right as usize] == self.time[whole] { self.key[whole] } else { self.time[whole] }
    }
}

/// The lengths of all tokens. A merge may result in a token without a text, whose length is that of its parts.
fn lengths_of(len: usize, lengths: impl Fn(u32) -> usize, merges: &MergeTable) -> Vec<usize> {
    let mut lengths: Vec<usize> = (0u32..).take(len).map(lengths).collect();
    loop {
        let mut is_changed = false;
        for merge in merges.merges() {
            let [left, right, whole] = [merge.left, merge.right, merge.result].map(TokenId::index);
            if lengths[whole] == 0 && lengths[left] > 0 && lengths[right] > 0 {
                lengths[whole] = lengths[left] + lengths[right];
                is_changed = true;
            }
        }
        if !is_changed {
            return lengths;
        }
    }
}

/// The key of the merge of `left right`.
fn key_of(merges: &MergeTable, left: u32, right: u32) -> Option<MergeKey> {
    let rank = merges.rank(TokenId(left), TokenId(right))?;
    Some(MergeKey::of_rank(u32::try_from(rank).expect("ranks are 32 bits wide")))
}
