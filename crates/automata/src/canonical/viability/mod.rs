//! The positions of a constraint in combination with a tokenizer, and the tokens that lead from them to live
//! positions.
//!
//! A position is a state of the constraint together with a state of the splitter. Two engines answer the same
//! queries:
//!
//! | file | contents |
//! |---|---|
//! | `position` | the product of constraint and splitter, byte by byte |
//! | `context` | the parts of a constraint |
//! | `engine` | the queries, and the engine that answers them |
//! | `lazy_product` | the lazy engine: liveness of positions, decided when it is needed |
//! | `first_bytes` | the FIRST sets of the states of the constraint |
//! | `liveness` | whether a position is live, for `lazy_product` |
//! | `memo` | the cached answers of `lazy_product` |
//! | `lookahead` | the token set of a position, for `lazy_product`: tokens by look-ahead set |
//! | `product`, `completion`, `fixpoint`, `whole_product` | the whole product, for constraints that need it |

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod engine;
mod first_bytes;
mod fixpoint;
pub(crate) mod lazy_product;
mod liveness;
mod lookahead;
pub(crate) mod memo;
pub(crate) mod position;
pub(crate) mod product;
pub(crate) mod whole_product;
