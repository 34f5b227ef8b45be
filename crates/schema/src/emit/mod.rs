//! From shapes to rules of a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `rules` | a rule for each shape |
//! | `objects`, `arrays` | those of objects and arrays |
//! | `values` | those of single values |

pub(crate) mod arrays;
pub(crate) mod objects;
pub(crate) mod rules;
mod values;
