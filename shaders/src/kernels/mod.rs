//! One file for each kernel, beside its WGSL.

mod interval_mask;
mod interval_step;
mod masked_choice;
mod masked_softmax_mass;
mod ppv;
mod top_m;

pub use interval_mask::{INTERVAL_MASK, interval_mask};
pub use interval_step::{INTERVAL_STEP, interval_step};
pub use masked_choice::{BROKEN, END, MASKED_CHOICE, MaskedChoice, Pick, masked_choice};
pub use masked_softmax_mass::{LOWEST, MASKED_SOFTMAX_MASS, Mass, masked_softmax_mass};
pub use ppv::{PPV, ppv};
pub use top_m::{NONE, TOP_M, top_m};
