//! WGSL kernels, each next to a reference that computes the same on the CPU.
//!
//! A kernel is data ([`Kernel`]): its source, the size of its workgroups and its bindings in order. The reference has
//! the same name and takes the same arrays. This crate has no GPU library: `unskew-sets` runs the kernels, and
//! `tests/lint.rs` compiles them without a GPU.
//!
//! | kernel | computes |
//! |---|---|
//! | [`PPV`] | whether candidates may follow in a set of token sequences: Parallel Prefix-Verification |
//! | [`ROW_PARTS`], [`MASKED_CHOICE`] | the next token among the allowed ones, the most probable or by a random number, and the masses |
//!
//! Tried and taken out: kernels that follow the intervals of a set and make whole masks. On an H100 a mask took 25 to
//! 190 times as long as on one thread of the CPU, because it has to be read back.

mod kernels;

pub use kernels::{
    BROKEN, CHOICE_PART_WORDS, END, Interval, LOWEST, MASKED_CHOICE, MaskedChoice, NONE, PARTS, PPV, Pick,
    ROW_PARTS, SetArrays, choice_parts, masked_choice, ppv,
};

/// A compute shader with one entry point, `main`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The name, also that of the kernel's files and of its reference.
    pub name: &'static str,
    /// The complete WGSL.
    pub source: &'static str,
    /// The number of lanes of a workgroup.
    pub workgroup: u32,
    /// The bindings: binding *i* of group 0 is entry *i*.
    pub bindings: &'static [Binding],
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
pub const KERNELS: [Kernel; 3] = [PPV, ROW_PARTS, MASKED_CHOICE];
