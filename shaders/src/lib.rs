//! WGSL kernels, each next to a reference that computes the same on the CPU.
//!
//! A kernel is data ([`Kernel`]): its source, the size of its workgroups and its bindings in order. The reference has
//! the same name and takes the same arrays. This crate has no GPU library: `unskew-sets` runs the kernels, and
//! `tests/lint.rs` compiles them without a GPU.
//!
//! | kernel | computes |
//! |---|---|
//! | [`INTERVAL_STEP`] | the interval after a token in a set of token sequences, for many sequences |
//! | [`PPV`] | whether candidates may follow: Parallel Prefix-Verification |
//! | [`INTERVAL_MASK`] | the exact mask: every token that may follow |
//! | [`ROW_PARTS`], [`MASKED_CHOICE`] | the next token among the allowed ones, the most probable or by a random number, and the masses |
//!
//! A set lies in the same arrays on both sides ([`SetArrays`]). The shared search is in `set.wgsl` and `set.rs`,
//! function by function.

mod kernels;
mod set;

pub use kernels::{
    BROKEN, CHOICE_PART_WORDS, END, INTERVAL_MASK, INTERVAL_STEP, LOWEST, MASKED_CHOICE, MaskedChoice, NONE,
    PPV, Pick, ROW_PARTS, choice_parts, interval_mask, interval_step, masked_choice, ppv,
};
pub use set::{BLOCK_BITS, BLOCK_WORDS, Interval, PARTS, SetArrays};

/// A compute shader with one entry point, `main`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The name, also that of the kernel's files and of its reference.
    pub name: &'static str,
    /// The complete WGSL.
    pub source: &'static str,
    /// The number of lanes of a workgroup.
    pub workgroup: u32,
    /// Whether the kernel reads a set: its first bindings are then [`SET_BINDINGS`].
    pub over_set: bool,
    /// The other bindings.
    pub bindings: &'static [Binding],
}

impl Kernel {
    /// All bindings in order: binding *i* of group 0 is entry *i*.
    pub fn all_bindings(&self) -> impl Iterator<Item = Binding> {
        let of_set: &[Binding] = if self.over_set { &SET_BINDINGS } else { &[] };
        of_set.iter().chain(self.bindings).copied()
    }
}

/// A buffer that is an argument of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The name in the source.
    pub name: &'static str,
    /// The kernel's access to the buffer.
    pub access: Access,
}

/// An access to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A few numbers, the same for all lanes.
    Uniform,
    /// A storage buffer that the kernel reads.
    Read,
    /// A storage buffer that the kernel reads and writes.
    ReadWrite,
}

/// All kernels.
pub const KERNELS: [Kernel; 5] = [INTERVAL_STEP, PPV, INTERVAL_MASK, ROW_PARTS, MASKED_CHOICE];

const fn read(name: &'static str) -> Binding {
    Binding { name, access: Access::Read }
}

/// The first arguments of every kernel over a set: the arrays of the set and its shape.
pub const SET_BINDINGS: [Binding; 6] = [
    read("cells_0"),
    read("cells_1"),
    read("cells_2"),
    read("cells_3"),
    read("index"),
    Binding { name: "shape", access: Access::Uniform },
];
