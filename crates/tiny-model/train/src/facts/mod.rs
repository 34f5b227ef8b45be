//! The facts that all documents share: fixed tables, drawn from Zipf-like.

mod names;
pub(crate) mod people;
pub(crate) mod places;
pub(crate) mod things;
mod work;
