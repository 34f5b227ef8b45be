//! One file for each command.

mod check;
mod generate;
mod logits;
mod mask;

pub(crate) use check::check;
pub(crate) use generate::generate;
pub(crate) use logits::logits;
pub(crate) use mask::mask;
