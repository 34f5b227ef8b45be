//! The kinds of document, each a writer over a scene.

mod json;
pub(crate) mod letters;
pub(crate) mod lists;
pub(crate) mod logs;
pub(crate) mod maths;
pub(crate) mod prose;
pub(crate) mod records;
