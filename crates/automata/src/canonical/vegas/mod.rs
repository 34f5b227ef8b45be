//! Vegas configurations: parts of a constraint between delimiters that no merge crosses, computed once for all
//! constraints.
//!
//! [`hard`] finds the pairs of bytes that no token contains. [`detect`] finds the parts of a pattern between hard
//! pairs. [`block`] cuts the product of a constraint with its tokenizer at the same places. [`library`] keeps the
//! results for each part, for all constraints of a tokenizer, and [`file`](mod@file) stores them between runs.

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
