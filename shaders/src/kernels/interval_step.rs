//! Narrows the interval of each sequence by the sequence's next token.
//!
//! The run of the token in the interval of column *t* becomes the interval of column *t* + 1. The new interval begins
//! at the place of the run minus the number of items that end in front of the run. A token that no item has there
//! makes the interval invalid.
//!
//! Cost: O(log n) for an interval of n items, one lane for each sequence.

use crate::{Access, Binding, Interval, Kernel, SetArrays};

/// The kernel; the reference is [`interval_step`].
pub const INTERVAL_STEP: Kernel = Kernel {
    name: "interval_step",
    source: concat!(
        include_str!("../set.wgsl"),
        include_str!("../interval.wgsl"),
        include_str!("interval_step.wgsl")
    ),
    workgroup: 64,
    over_set: true,
    bindings: &[
        Binding { name: "tokens", access: Access::Read },
        Binding { name: "intervals", access: Access::ReadWrite },
    ],
};

/// The reference on the CPU.
///
/// # Panics
///
/// If there are fewer intervals than tokens.
pub fn interval_step(set: &SetArrays, tokens: &[u32], intervals: &mut [Interval]) {
    for (sequence, token) in tokens.iter().copied().enumerate() {
        let interval = intervals[sequence];
        if interval.valid == 0 {
            continue;
        }
        let column = set.column_at(interval.depth);
        let begin = set.lower_bound(column, interval.lo, interval.hi, token);
        if begin >= interval.hi || set.token_at(column, begin) != token {
            intervals[sequence].valid = 0;
            continue;
        }
        let end = set.run_end(column, begin, interval.hi);
        let (ended, ends) = set.ends_at(column, begin);
        let lo = begin - ended;
        let first_item = interval.first_item + interval.ends + (begin - interval.lo);
        let (depth, hi) = (interval.depth + 1, lo + (end - begin) - ends);
        intervals[sequence] = Interval { depth, lo, hi, first_item, ends, valid: 1 };
    }
}
