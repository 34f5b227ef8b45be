//! The merges of a byte-pair tokenizer: which tokens they make, and which tokens may be neighbours within one piece.
//!
//! | file | contents |
//! |---|---|
//! | `derivation` | the merge tree of each token |
//! | `pair` | whether two tokens may be neighbours: the walk along two trees |
//! | `meeting` | the merge of the symbols at the boundary of two tokens |
//! | `forest` | the same relation for all tokens at once, as intervals |
//! | `whole` | pieces that are looked up as a whole |
//! | `encode` | the merges of a text, for tables |

pub(crate) mod derivation;
pub(crate) mod encode;
pub(crate) mod forest;
pub(crate) mod meeting;
pub(crate) mod pair;
pub(crate) mod whole;
