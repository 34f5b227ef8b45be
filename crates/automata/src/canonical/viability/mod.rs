//! The positions of a constraint in combination with a tokenizer, and the tokens that lead from them to live
//! positions.
//!
//! A position is a state of the constraint together with a state of the splitter.
//!
//! | file | contents |
//! |---|---|
//! | `position` | the product of constraint and splitter, byte by byte |
//! | `language` | the constraint: an exact automaton whose states are made on demand, of which a DFA is one |
//! | `context` | a constraint with the tokenizer that writes its texts |
//! | `sequence` | the states of a sequence and the steps between them |
//! | `lazy_product` | the engine: liveness of positions, decided when it is needed |
//! | `first_bytes` | the FIRST sets of the states of the constraint |
//! | `liveness` | whether a position is live, for `lazy_product` |
//! | `memo` | the cached answers of `lazy_product` |
//! | `lookahead` | the token set of a position, for `lazy_product`: tokens by look-ahead set |
//! | `search` | whether tokens lead from a position to the end of its piece, for `lazy_product` |
//! | `by_tokens` | the same questions where bytes do not answer them |

mod by_tokens;
pub(crate) mod context;
mod first_bytes;
pub(crate) mod language;
pub(crate) mod lazy_product;
pub(crate) mod liveness;
pub(crate) mod lookahead;
pub(crate) mod memo;
pub(crate) mod position;
mod search;
pub(crate) mod sequence;
