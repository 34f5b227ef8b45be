//! Emits shapes as rules of a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `rules` | a rule for each set of schemas |
//! | `objects`, `arrays` | the rules of objects and arrays |
//! | `values` | the rules of single values |

pub(crate) mod arrays;
pub(crate) mod objects;
pub(crate) mod rules;
mod values;
