//! Merges applied to a piece exactly as they are defined. Used for the few tokens that need a whole sequence, and as
//! the slow oracle that tests compare the automata with.

use unskew_core::{MergeTable, TokenId};

use crate::canonical::MergeOrder;

/// Replaces the symbols of a piece by its tokens. Cost for n symbols: O(n^2), or O(n m) in passes over m merges.
pub(crate) fn merge(piece: &mut Vec<u32>, merges: &MergeTable, order: MergeOrder) {
    match order {
        MergeOrder::LowestRank => while merge_lowest(piece, merges) {},
        MergeOrder::Passes => merge_in_passes(piece, merges),
    }
}

fn merge_lowest(piece: &mut Vec<u32>, merges: &MergeTable) -> bool {
    let ranks = piece.windows(2).enumerate();
    let lowest =
        ranks.filter_map(|(at, pair)| Some((merges.rank(TokenId(pair[0]), TokenId(pair[1]))?, at))).min();
    if let Some((rank, at)) = lowest {
        piece[at] = merges.merges()[rank].result.0;
        piece.remove(at + 1);
    }
    lowest.is_some()
}

fn merge_in_passes(piece: &mut Vec<u32>, merges: &MergeTable) {
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
