//! A tokenizer with one vocabulary, and the caches that the constraints over them share: [`CanonicalIndex`].
//!
//! | file | contents |
//! |---|---|
//! | `tables` | the index itself |
//! | `split_liveness` | the states of the splitter that accept every continuation in ordinary characters |
//! | `universal` | the ordinary characters and the universal states, for `split_liveness` |
//! | `split_transitions` | the tokens that the splitter reads from each of its states, and the states after them |
//! | `successors` | the tokens that may follow a token |
//! | `part_liveness` | safety of parts of texts |
//! | `shared_cache` | bounded caches that threads share |

mod part_liveness;
pub(crate) mod shared_cache;
pub(crate) mod split_liveness;
pub(crate) mod split_transitions;
pub(crate) mod successors;
mod tables;
pub(crate) mod universal;

pub use tables::CanonicalIndex;
