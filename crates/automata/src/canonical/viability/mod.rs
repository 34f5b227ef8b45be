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
//! | `by_need` | the lazy engine: liveness of positions, decided when it is needed |
//! | `reads` | the FIRST sets of the states of the constraint |
//! | `rows` | the token set of a position, for `by_need` |
//! | `product`, `settle`, `completion`, `complete` | the whole product: if the lazy engine refuses, and for libraries |

pub(crate) mod completion;
pub(crate) mod context;
mod first_bytes;
mod fixpoint;
pub(crate) mod lazy_product;
mod lookahead;
pub(crate) mod position;
pub(crate) mod product;
pub(crate) mod whole_product;
