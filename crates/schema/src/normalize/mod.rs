//! From schemas to shapes: values of one type, with what each must satisfy.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | the normal form |
//! | `expand` | `allOf` and references join, `anyOf`, `oneOf`, `if` and negations branch |
//! | `keywords`, `part_keywords` | what each keyword asks for, and what breaks it |
//! | `parts` | the conditions on members and items |
//! | `unevaluated` | what branches know of members and items |
//! | `fits` | whether a value that stands in a schema satisfies others |
//! | `finite` | sets of schemas that few values satisfy |

pub(crate) mod expand;
pub(crate) mod finite;
pub(crate) mod fits;
pub(crate) mod keywords;
pub(crate) mod part_keywords;
pub(crate) mod parts;
pub(crate) mod shape;
pub(crate) mod unevaluated;
