//! One file for each kernel, next to its WGSL.

mod masked_choice;
mod ppv;

pub use masked_choice::{
    BROKEN, CHOICE_PART_WORDS, END, LOWEST, MASKED_CHOICE, MaskedChoice, NONE, Pick, ROW_PARTS, choice_parts,
    masked_choice,
};
pub use ppv::{Interval, PARTS, PPV, SetArrays, ppv};
