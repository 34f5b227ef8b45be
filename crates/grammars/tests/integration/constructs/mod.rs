//! Constructs whose meaning has an oracle of its own.

mod budgets;
mod captures;
pub(crate) mod distinct;
mod end_tokens;
mod layout;
mod lazy;
mod lazy_verdicts;
mod looks;
mod one_of;
mod parameters;
mod token_sets;
