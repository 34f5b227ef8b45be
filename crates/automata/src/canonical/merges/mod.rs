//! The merges of a byte-pair tokenizer: the tokens that they create, and the tokens that may be neighbours within a
//! piece.
//!
//! | file | contents |
//! |---|---|
//! | `derivation` | the merge tree of each token |
//! | `pair` | the pair test: whether two tokens may be neighbours, by a walk along two trees |
//! | `forest` | the bigram relation for all tokens at once, as intervals |
//! | `whole` | pieces that the encoder looks up as a whole |
//! | `encode` | the merges applied to a text, slowly |
//! | `hard` | the pairs of bytes that no token contains |
//! | `facts` | when every text has a canonical sequence |

pub(crate) mod derivation;
pub(crate) mod encode;
pub(crate) mod facts;
pub(crate) mod forest;
pub(crate) mod hard;
pub(crate) mod pair;
pub(crate) mod whole;
