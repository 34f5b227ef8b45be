//! How each token comes about: the last merge that makes it, found without encoding any token.
//!
//! A merge table converted from a rank file or from SentencePiece lists every way to split a token in two, up to ten.
//! Only one of them is the way that the encoder takes when it is given the token's text. Its two parts, their parts and
//! so on are the token's merge tree, and everything that decides which tokens can be neighbours lies on the right edge of
//! the left neighbour's tree and on the left edge of the right one's (see [`super::pair`]).
//!
//! A split `left right` of a token is the encoder's own if encoding the token's text keeps `left` and `right` apart until
//! both are complete: the pair test, with the last merge left out. So the trees of long tokens come out of those of
//! shorter ones. Tried instead: encoding the text of every token, which takes five times as long for a table of 280,000
//! merges and gives the same trees (a test compares).

use unskew_core::{MergeTable, TokenId};

use super::pair;

/// When a merge is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MergeOrder {
    /// The lowest-ranked merge that occurs anywhere in the piece, leftmost first, until none occurs: what encoders do.
    #[default]
    LowestRank,
    /// Each merge once, in order of rank, in one pass over the piece from the left: what DirectMerge is defined for. The
    /// two agree on a table where each token comes after its parts and can be made.
    Passes,
}

/// No token.
pub(crate) const NONE: u32 = u32::MAX;

/// The merge trees of all tokens, by id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Derivations {
    pub(crate) order: MergeOrder,
    /// When the token is made: 0 for a symbol, 1 + the rank of the last merge for others, [`NONE`] for tokens that no
    /// piece is encoded to.
    pub(crate) key: Vec<u32>,
    /// The left part, [`NONE`] for symbols and for tokens that are never made.
    pub(crate) left: Vec<u32>,
    /// The right part.
    pub(crate) right: Vec<u32>,
    /// Tokens with a part, at any depth, that is made later than the whole, ascending: merges out of order, to which the
    /// rule about edges of trees does not apply.
    pub(crate) unordered: Vec<u32>,
}

impl Derivations {
    /// The trees of `len` ids under `merges`, where `symbols` are what pieces consist of at first. `lengths` are the
    /// lengths of the tokens in bytes.
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
            key: vec![NONE; len],
            left: vec![NONE; len],
            right: vec![NONE; len],
            unordered: Vec::new(),
        };
        for symbol in symbols {
            trees.key[symbol.index()] = 0;
        }
        // Parts are shorter than the whole, so in this order they are known.
        let mut by_length: Vec<(u32, u32)> = (0u32..)
            .zip(merges.merges())
            .map(|(rank, merge)| (u32::try_from(lengths(merge.result.0)).unwrap_or(u32::MAX), rank))
            .collect();
        by_length.sort_unstable();
        let mut is_unordered = vec![false; len];
        for (_, rank) in by_length {
            let merge = merges.merges()[rank as usize];
            let [left, right, result] = [merge.left, merge.right, merge.result].map(|token| token.0);
            let key = rank + 1;
            // A symbol is never made by a merge, whatever the table says; of several splits one is the encoder's.
            if trees.key[result as usize] != NONE || !trees.is_made(left) || !trees.is_made(right) {
                continue;
            }
            let parts_key = trees.key[left as usize].max(trees.key[right as usize]);
            if order == MergeOrder::Passes && key <= parts_key {
                continue;
            }
            let parts_unordered = is_unordered[left as usize] || is_unordered[right as usize];
            let is_split = if parts_unordered {
                let mut piece = Vec::new();
                trees.push_symbols(left, &mut piece);
                trees.push_symbols(right, &mut piece);
                last_merge(&mut piece, merges) == Some((left, right))
            } else {
                !pair::crosses(&trees, |left, right| key_of(merges, left, right), left, right, true)
            };
            if is_split {
                trees.key[result as usize] = key;
                trees.left[result as usize] = left;
                trees.right[result as usize] = right;
                is_unordered[result as usize] = parts_unordered || key < parts_key;
            }
        }
        trees.unordered = (0u32..)
            .zip(&is_unordered)
            .filter(|(_, unordered)| **unordered)
            .map(|(token, _)| token)
            .collect();
        trees
    }

    /// Whether some piece is encoded to this token alone, by merges.
    #[inline]
    pub(crate) fn is_made(&self, token: u32) -> bool {
        self.key[token as usize] != NONE
    }

    /// Appends the symbols of a token that is made.
    pub(crate) fn push_symbols(&self, token: u32, symbols: &mut Vec<u32>) {
        let mut open = vec![token];
        while let Some(token) = open.pop() {
            match self.left[token as usize] {
                NONE => symbols.push(token),
                left => open.extend([self.right[token as usize], left]),
            }
        }
    }
}

/// When `left right` is merged: 1 + the rank.
pub(crate) fn key_of(merges: &MergeTable, left: u32, right: u32) -> Option<u32> {
    let rank = merges.rank(TokenId(left), TokenId(right))?;
    Some(u32::try_from(rank).expect("ranks are 32 bits wide") + 1)
}

/// Applies `merges` to the symbols of a piece, lowest rank first, leftmost first. The slow definition.
pub(crate) fn encode(piece: &mut Vec<u32>, merges: &MergeTable) {
    while apply_lowest(piece, merges).is_some() {}
}

/// As [`encode`], and answers the parts of the last merge.
fn last_merge(piece: &mut Vec<u32>, merges: &MergeTable) -> Option<(u32, u32)> {
    let mut last = None;
    while let Some(parts) = apply_lowest(piece, merges) {
        last = Some(parts);
    }
    last.filter(|_| piece.len() == 1)
}

fn apply_lowest(piece: &mut Vec<u32>, merges: &MergeTable) -> Option<(u32, u32)> {
    let ranks = piece.windows(2).enumerate();
    let (rank, at) =
        ranks.filter_map(|(at, pair)| Some((merges.rank(TokenId(pair[0]), TokenId(pair[1]))?, at))).min()?;
    let parts = (piece[at], piece[at + 1]);
    piece[at] = merges.merges()[rank].result.0;
    piece.remove(at + 1);
    Some(parts)
}

/// Applies each merge once, in order of rank, from the left.
pub(crate) fn encode_by_passes(piece: &mut Vec<u32>, merges: &MergeTable) {
    for merge in merges.merges() {
        let mut at = 0;
        while at + 1 < piece.len() {
            if piece[at] == merge.left.0 && piece[at + 1] == merge.right.0 {
                piece[at] = merge.result.0;
                piece.remove(at + 1);
            }
            at += 1;
        }
    }
}
