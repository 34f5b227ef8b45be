//! A tokenizer with one vocabulary, and the caches that the constraints over them share: [`CanonicalIndex`].
//!
//! | file | contents |
//! |---|---|
//! | `tables` | the index itself |
//! | `certain` | the states of the splitter that accept every continuation in ordinary characters |
//! | `ends` | the tokens that the splitter reads from each of its states, and the states after them |
//! | `followers` | the tokens that may follow a token |
//! | `kept` | bounded caches that threads share |

pub(crate) mod certain;
pub(crate) mod ends;
pub(crate) mod followers;
mod kept;
mod tables;

pub use tables::CanonicalIndex;
