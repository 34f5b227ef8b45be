//! Normalizes schemas to shapes: values of one type with their conditions.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | the normal form |
//! | `expander` | the state of an expansion: memoized results, counted work, refusals |
//! | `expand` | `allOf` and references join a set of schemas; `anyOf`, `oneOf`, `if` and negations branch |
//! | `keywords` | the conditions of each keyword, and the conditions that break it: references and combinations |
//! | `value_keywords` | the same for types, listed values, strings and numbers |
//! | `part_keywords` | the same for members and items |
//! | `factors` | choices about different members, which are not multiplied out |
//! | `unevaluated` | the members and items that each branch evaluates |
//! | `parts` | the conditions on members and items |
//! | `contradictions` | searches for branches without a value |
//! | `constants` | whether a value of the schema's text satisfies other schemas |
//! | `finite` | sets of schemas that only few values satisfy |
//!
//! The files call each other, because the definitions do: the shapes of a set come from the conditions of its
//! keywords, `oneOf` asks whether two schemas have a common value, and the answer needs the shapes of both.
//! Memoized results, a list of pending sets and a limit on nested searches end this recursion.

mod constants;
mod contradictions;
mod expand;
pub(crate) mod expander;
pub(crate) mod factors;
pub(crate) mod finite;
mod keywords;
mod part_keywords;
pub(crate) mod parts;
pub(crate) mod shape;
mod unevaluated;
mod value_keywords;
