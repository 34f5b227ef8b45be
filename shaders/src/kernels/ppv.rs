//! Parallel Prefix-Verification: whether each candidate token may follow its sequence in a set of token sequences.
//!
//! The items of the set are sorted, and column *t* holds token *t* of every item that has one. The items that begin
//! with a prefix and are longer are an interval of one column. The paper (DISC, algorithm 2 and its appendix) restarts
//! the search of prefix and candidate in the whole array, and its printed comparison is not lexicographic. Here the
//! prefix is an interval already, and the candidate is one search in one column.
//!
//! Cost: O(log n) for an interval of n items, one lane for each candidate of each sequence.

use crate::{Access, Binding, Kernel};

/// The number of parts that the tokens of a set may be divided into: each part is a binding, and bindings are limited
/// in number and size.
pub const PARTS: usize = 4;

/// The kernel; the reference is [`ppv`].
pub const PPV: Kernel = Kernel {
    name: "ppv",
    source: include_str!("ppv.wgsl"),
    workgroup: 64,
    bindings: &[
        Binding { name: "cells_0", access: Access::Read },
        Binding { name: "cells_1", access: Access::Read },
        Binding { name: "cells_2", access: Access::Read },
        Binding { name: "cells_3", access: Access::Read },
        Binding { name: "columns", access: Access::Read },
        Binding { name: "shape", access: Access::Uniform },
        Binding { name: "candidates", access: Access::Read },
        Binding { name: "intervals", access: Access::Read },
        Binding { name: "valid", access: Access::ReadWrite },
    ],
};

/// The tokens of a set in the arrays of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetArrays {
    /// 0, 1 or 2 for tokens of one, two or four bytes.
    pub width_log: u32,
    /// The tokens, in words, least significant first. A column begins at the beginning of a word.
    pub cells: Vec<u32>,
    /// For each column the place of its first token in `cells`, in tokens.
    pub columns: Vec<u32>,
}

/// The items that begin with a prefix and are longer: `lo..hi` of column `depth`. It is empty where no item does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interval {
    /// The number of tokens of the prefix.
    pub depth: u32,
    /// The begin of the interval in column `depth`.
    pub lo: u32,
    /// The end of the interval.
    pub hi: u32,
}

impl Interval {
    /// The interval as the words of a buffer.
    pub fn to_words(self) -> [u32; 3] {
        let Self { depth, lo, hi } = self;
        [depth, lo, hi]
    }
}

impl SetArrays {
    fn token_at(&self, at: u32) -> u32 {
        let in_word = 2 - self.width_log;
        let word = self.cells[(at >> in_word) as usize];
        if in_word == 0 {
            return word;
        }
        let bits = 8 << self.width_log;
        word >> ((at & ((1 << in_word) - 1)) * bits) & ((1 << bits) - 1)
    }

    /// The first place in `lo..hi` whose token is at least `token`, or `hi`.
    fn lower_bound(&self, lo: u32, hi: u32, token: u32) -> u32 {
        let (mut low, mut high) = (lo, hi);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.token_at(middle) < token { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The reference on the CPU: 1 for each candidate that may follow, else 0. Its functions have the names of those of
/// the kernel and compute the same, step by step.
///
/// # Panics
///
/// If the number of candidates is not a multiple of the number of intervals, or `valid` has another length.
pub fn ppv(set: &SetArrays, candidates: &[u32], intervals: &[Interval], valid: &mut [u32]) {
    assert_eq!(candidates.len(), valid.len(), "one answer for each candidate");
    let Some(each) = candidates.len().checked_div(intervals.len()).filter(|each| *each > 0) else { return };
    assert_eq!(each * intervals.len(), candidates.len(), "as many candidates for each sequence");
    for lane in 0..candidates.len() {
        let (interval, token) = (intervals[lane / each], candidates[lane]);
        let mut found = 0;
        if interval.lo < interval.hi {
            let first = set.columns[interval.depth as usize];
            let end = first + interval.hi;
            let place = set.lower_bound(first + interval.lo, end, token);
            if place < end && set.token_at(place) == token {
                found = 1;
            }
        }
        valid[lane] = found;
    }
}
