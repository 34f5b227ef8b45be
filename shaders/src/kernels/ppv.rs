//! Parallel Prefix-Verification: whether each candidate token may follow its sequence.
//!
//! The paper (DISC, algorithm 2 and its appendix) restarts the search of prefix and candidate in the whole array, and
//! its printed comparison is not lexicographic. In this kernel the prefix is an interval already
//! ([`interval_step`](super::interval_step()) from the root does the paper's search of the prefix, once), and the
//! candidate is one search in one column.
//!
//! Cost: O(log n) for an interval of n items, one lane for each candidate of each sequence.

use crate::{Access, Binding, Interval, Kernel, SetArrays};

/// The kernel; the reference is [`ppv`].
pub const PPV: Kernel = Kernel {
    name: "ppv",
    source: concat!(include_str!("../set.wgsl"), include_str!("../interval.wgsl"), include_str!("ppv.wgsl")),
    workgroup: 64,
    over_set: true,
    bindings: &[
        Binding { name: "candidates", access: Access::Read },
        Binding { name: "intervals", access: Access::Read },
        Binding { name: "valid", access: Access::ReadWrite },
    ],
};

/// The reference on the CPU: 1 for each candidate that may follow, else 0.
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
        if interval.valid != 0 {
            let column = set.column_at(interval.depth);
            let place = set.lower_bound(column, interval.lo, interval.hi, token);
            if place < interval.hi && set.token_at(column, place) == token {
                found = 1;
            }
        }
        valid[lane] = found;
    }
}
