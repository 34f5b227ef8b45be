//! Normalizes schemas to shapes: values of one type with their conditions.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | the normal form |
//! | `expand` | `allOf` and references join a set of schemas; `anyOf`, `oneOf`, `if` and negations branch |
//! | `keywords`, `part_keywords` | the conditions of each keyword, and the conditions that break it |
//! | `parts` | the conditions on members and items |
//! | `unevaluated` | the members and items that each branch evaluates |
//! | `fits` | whether a value of the schema's text satisfies other schemas |
//! | `finite` | sets of schemas that only few values satisfy |

pub(crate) mod expand;
pub(crate) mod finite;
pub(crate) mod fits;
pub(crate) mod keywords;
pub(crate) mod part_keywords;
pub(crate) mod parts;
pub(crate) mod shape;
pub(crate) mod unevaluated;
