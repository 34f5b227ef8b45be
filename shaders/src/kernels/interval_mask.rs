//! The exact mask of each sequence: a bit for every token that may follow, in words of 32 bits, least significant
//! first.
//!
//! Cost: for c tokens in an interval of n items, about c log(n / c) reads, divided among the 256 lanes of a sequence.

use crate::{Access, Binding, Interval, Kernel, SetArrays};

/// The kernel; the reference is [`interval_mask`].
pub const INTERVAL_MASK: Kernel = Kernel {
    name: "interval_mask",
    source: concat!(
        include_str!("../set.wgsl"),
        include_str!("../interval.wgsl"),
        include_str!("interval_mask.wgsl")
    ),
    workgroup: 256,
    over_set: true,
    bindings: &[
        Binding { name: "intervals", access: Access::Read },
        Binding { name: "masks", access: Access::ReadWrite },
    ],
};

/// The reference on the CPU, for masks of `mask_words` words; tokens beyond the masks are left out.
///
/// # Panics
///
/// If the length of `masks` is not `mask_words` words for each interval.
pub fn interval_mask(set: &SetArrays, mask_words: usize, intervals: &[Interval], masks: &mut [u32]) {
    for (sequence, interval) in intervals.iter().enumerate() {
        let mask = &mut masks[sequence * mask_words..(sequence + 1) * mask_words];
        mask.fill(0);
        if interval.valid == 0 {
            continue;
        }
        let column = set.column_at(interval.depth);
        let mut place = interval.lo;
        while place < interval.hi {
            let token = set.token_at(column, place);
            if let Some(word) = mask.get_mut((token / 32) as usize) {
                *word |= 1 << (token % 32);
            }
            place = set.run_end(column, place, interval.hi);
        }
    }
}
