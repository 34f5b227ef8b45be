//! One file for each kernel, next to its WGSL.

mod interval_mask;
mod interval_step;
mod masked_choice;
mod ppv;

pub use interval_mask::{INTERVAL_MASK, interval_mask};
pub use interval_step::{INTERVAL_STEP, interval_step};
pub use masked_choice::{
    BROKEN, CHOICE_PART_WORDS, END, LOWEST, MASKED_CHOICE, MaskedChoice, NONE, Pick, ROW_PARTS, choice_parts,
    masked_choice,
};
pub use ppv::{PPV, ppv};
