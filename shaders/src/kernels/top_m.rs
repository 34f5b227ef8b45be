//! The M largest logits of each row, largest first, equal ones by id.
//!
//! Cost: M passes over the row, divided among 256 lanes. A selection by digits takes five passes whatever M is and then a
//! sort; for M = 50 the rows are in the cache, and this has no bound on M and nothing to overflow.

use crate::{Access, Binding, Kernel};

/// Stands for no token, where a row has fewer than M.
pub const NONE: u32 = u32::MAX;

/// The kernel; the reference is [`top_m`].
pub const TOP_M: Kernel = Kernel {
    name: "top_m",
    source: include_str!("top_m.wgsl"),
    workgroup: 256,
    over_set: false,
    bindings: &[
        Binding { name: "logits", access: Access::Read },
        Binding { name: "shape", access: Access::Uniform },
        Binding { name: "tops", access: Access::ReadWrite },
    ],
};

/// Whole numbers in the order of floats, of which -0 comes below 0; NaN comes last.
fn key_of(logit: f32) -> u32 {
    let bits = logit.to_bits();
    if logit.is_nan() {
        0
    } else if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The same on the CPU, for one row: the ids of the `m` largest logits, then [`NONE`].
pub fn top_m(logits: &[f32], m: usize) -> Vec<u32> {
    let mut order: Vec<(u32, u32)> = (0..).zip(logits).map(|(id, logit)| (!key_of(*logit), id)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, id)| id).chain(std::iter::repeat(NONE)).take(m).collect()
}
