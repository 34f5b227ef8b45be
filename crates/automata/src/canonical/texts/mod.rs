//! The texts that an encoder takes as they are: what its normaliser and its added tokens leave alone.
//!
//! | file | contents |
//! |---|---|
//! | `facts` | the steps of a tokenizer in the order in which they are applied, and errors for those that are not followed |
//! | `added` | the texts that hold no added token |
//! | `form` | the texts that a normalisation form of Unicode leaves alone |

pub(crate) mod added;
pub(crate) mod facts;
pub(crate) mod form;
