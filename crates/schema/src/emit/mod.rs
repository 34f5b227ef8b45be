//! From shapes to rules of a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `rules` | a rule for each shape |
//! | `objects`, `arrays` | those of objects and arrays |

pub(crate) mod arrays;
pub(crate) mod objects;
pub(crate) mod rules;
