//! A tokenizer beside one vocabulary, and what the constraints over them share: [`CanonicalIndex`].
//!
//! | file | contents |
//! |---|---|
//! | `tables` | the index itself |
//! | `certain` | the states of the splitting from which every ordinary text goes on |
//! | `ends` | the tokens that the splitting reads from each of its states, and where they end |
//! | `followers` | the tokens that may follow a token |
//! | `kept` | answers that are written once and read by all threads |

pub(crate) mod certain;
pub(crate) mod ends;
pub(crate) mod followers;
mod kept;
mod tables;

pub use tables::CanonicalIndex;
