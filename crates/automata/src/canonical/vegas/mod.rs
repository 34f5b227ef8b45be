//! Vegas configurations: what happens between delimiters with which nothing merges stays between them.
//!
//! [`hard`] knows which pairs of bytes no token contains, [`detect`] finds the parts of a pattern between such pairs,
//! [`block`] cuts the product of a constraint with its tokenizer at the same places, and [`library`] keeps what was
//! computed for each part, for all constraints of a tokenizer and, by [`file`](mod@file), from one run to the next.

pub(crate) mod block;
mod detect;
mod file;
mod hard;
mod hash;
mod library;
mod prebuilt;

pub use detect::{VegasConfiguration, vegas_configurations};
pub use file::LibraryFileError;
pub use hard::HardBigrams;
pub(super) use library::Shared;
pub use library::{LibraryStats, VegasLibrary};
