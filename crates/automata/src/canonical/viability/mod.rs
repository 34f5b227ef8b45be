//! The positions of a constraint in combination with a tokenizer, and the tokens that lead from them to live
//! positions.
//!
//! A position is a state of the constraint together with a state of the splitter.
//!
//! | file | contents |
//! |---|---|
//! | `position` | the product of constraint and splitter, byte by byte |
//! | `context` | the parts of a constraint |
//! | `sequence` | the states of a sequence and the steps between them |
//! | `lazy_product` | the engine: liveness of positions, decided when it is needed |
//! | `first_bytes` | the FIRST sets of the states of the constraint |
//! | `liveness` | whether a position is live, for `lazy_product` |
//! | `memo` | the cached answers of `lazy_product` |
//! | `lookahead` | the token set of a position, for `lazy_product`: tokens by look-ahead set |
//! | `by_tokens` | the same questions where bytes do not answer them |

mod by_tokens;
pub(crate) mod context;
mod first_bytes;
pub(crate) mod language;
pub(crate) mod lazy_product;
mod liveness;
mod lookahead;
pub(crate) mod memo;
pub(crate) mod position;
pub(crate) mod sequence;
