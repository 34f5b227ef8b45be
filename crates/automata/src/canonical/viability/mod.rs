//! The positions of a constraint beside a tokenizer, and the tokens that lead on from them to an accepted output.
//!
//! A position is a state of the constraint beside one of the splitting. Two engines answer the same questions:
//!
//! | file | contents |
//! |---|---|
//! | `position` | the product of constraint and splitting, byte by byte |
//! | `context` | the parts of a constraint |
//! | `by_need` | the questions that are asked, answered when they are asked |
//! | `reads` | the first bytes that each state of the constraint reads |
//! | `rows` | the tokens of a position, for `by_need` |
//! | `product`, `settle`, `completion`, `complete` | all positions at once, for constraints about which too little is certain, and for libraries |

pub(crate) mod by_need;
pub(crate) mod complete;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod position;
pub(crate) mod product;
mod reads;
mod rows;
mod settle;
