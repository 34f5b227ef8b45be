//! Vegas configurations: parts of a constraint between delimiters that no merge crosses, computed once for all
//! constraints.
//!
//! | file | contents |
//! |---|---|
//! | `hard` | the pairs of bytes that no token contains |
//! | `detect` | the parts of a pattern between hard pairs |
//! | `product` | the product of a constraint with its tokenizer, built whole |
//! | `block` | that product, cut at hard pairs |
//! | `completion`, `fixpoint`, `backward` | the tokens that may precede each state of a product or a block |
//! | `library`, `file`, `prebuilt`, `hash` | the results for each block, for all constraints and between runs |
//! | `whole_product` | a completed product with its token sets |
//! | `constraint` | masks and states: [`VegasConstraint`] |

mod backward;
mod block;
mod completion;
mod constraint;
mod detect;
mod file;
mod fixpoint;
mod hard;
mod hash;
mod library;
mod prebuilt;
mod product;
mod whole_product;

pub use constraint::VegasConstraint;
pub use detect::{VegasConfiguration, vegas_configurations};
pub use file::LibraryFileError;
pub use hard::HardBigrams;
pub use library::{LibraryStats, VegasLibrary};
