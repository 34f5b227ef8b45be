//! One file for each kernel, next to its WGSL.

mod interval_mask;
mod interval_step;
mod masked_choice;
mod ppv;

pub use interval_mask::{INTERVAL_MASK, interval_mask};
pub use interval_step::{INTERVAL_STEP, interval_step};
pub use masked_choice::{BROKEN, END, LOWEST, MASKED_CHOICE, MaskedChoice, NONE, Pick, masked_choice};
pub use ppv::{PPV, ppv};
