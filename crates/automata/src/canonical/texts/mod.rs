//! The texts that an encoder does not rewrite: its normaliser leaves them unchanged, and it finds no added token in
//! them.
//!
//! | file | contents |
//! |---|---|
//! | `facts` | the steps of a tokenizer in the order of their application, and errors for unsupported steps |
//! | `added` | the texts without added tokens |
//! | `rewriting` | steps that may undo each other |
//! | `form` | the texts that a normalisation form of Unicode leaves unchanged |
//! | `utf8` | the bytes of characters |

pub(crate) mod added;
pub(crate) mod facts;
pub(crate) mod form;
pub(crate) mod rewriting;
pub(crate) mod utf8;
