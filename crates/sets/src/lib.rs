//! Outputs out of millions of known items, as exact constraints over tokens.
//!
//! Names of entities, titles, products, codes: a model should write one of them and nothing else. The items are
//! sorted token sequences in columns ([`ItemSet`]). A prefix is an interval of one column, a token is one search in
//! that interval, and the mask is the distinct values of the interval. A step therefore costs the same for ten
//! thousand items and for ten million. The crate builds nothing but the sorted columns, and a file of them is mapped
//! and not read.
//!
//! ```text
//! lines --tokenizer--> sequences --SetBuilder: sort, in memory or in files--> ItemSet, a file --SetConstraint--> masks
//! ```
//!
//! # The items of a set
//!
//! Each item is the one token sequence that the caller gives, or that the tokenizer writes for its line. Other
//! spellings of the same text are not allowed, as in the paper. An item may begin with another item: each column has
//! bits that say whether an output may end there.
//!
//! # Sets in files
//!
//! A [`SetStore`] is a set in a file and the file of changes next to it. A reader sees the state before or after each
//! change. A process that is killed in the middle of a change leaves one of the two states.
//!
//! # Should you use this crate?
//!
//! From some hundreds of items on, and for millions. For a handful of choices in every spelling, and for every language
//! that a pattern describes, use `unskew-automata`. To forbid some outputs, use [`ExclusionConstraint`].
//!
//! # Features
//!
//! - `wgpu`: next tokens are chosen on a GPU, from logits that lie there, and candidates are verified there. The
//!   feature brings wgpu, about two CPU-minutes of build.
//!
//! # Source
//!
//! "Efficient and Asymptotically Unbiased Constrained Decoding for Large Language Models" (DISC). Its Parallel
//! Prefix-Verification searches the whole sorted array at every step for each of the M most probable tokens. The top
//! of [`ItemSet`]'s file states the differences and their reasons. The listing of the paper has two errors, which a
//! test shows (`tests/listing.rs`).
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use unskew_core::{Constraint, TokenId, Vocabulary};
//! use unskew_sets::{SetBuilder, SetConstraint};
//!
//! let mut builder = Vocabulary::builder();
//! for byte in b' '..=b'z' {
//!     builder.text(&[byte]);
//! }
//! let vocabulary = Arc::new(builder.build()?);
//! let encode = |line: &str| Ok::<_, String>(line.bytes().map(|byte| TokenId(u32::from(byte - b' '))).collect());
//!
//! let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary));
//! builder.push_lines(&b"Ada Lovelace\nAda\n\nAlan Turing\nAda\n"[..], encode, |_, _| ())?;
//! let (set, report) = builder.build()?;
//! assert_eq!((report.items, report.duplicates, report.blank), (3, 1, 1));
//!
//! let constraint = SetConstraint::new(Arc::new(set), vocabulary.len())?;
//! let mut state = constraint.start();
//! for token in encode("Ada")? {
//!     constraint.advance(&mut (), &mut state, token)?;
//! }
//! assert!(constraint.is_accepting(&state)); // and goes on with a space
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod constraint;
mod delta;
mod error;
mod exclusion;
#[cfg(feature = "wgpu")]
mod gpu;
mod item_set;
mod lines;
mod save;
mod store;
mod subset;

pub use build::{BuildReport, SetBuilder, SetLimits};
pub use constraint::{SetConstraint, SetState};
pub use delta::{Delta, DeltaReport};
pub use error::{Line, SetError, SetFileError};
pub use exclusion::ExclusionConstraint;
#[cfg(feature = "wgpu")]
pub use gpu::{Choice, ChoiceQuestion, Chooser, Gpu, GpuError, GpuSetConstraint, LogitBuffer, Next, Rule};
pub use item_set::{Cursor, ItemSet, Items};
pub use store::{SetChanger, SetStore};
pub use subset::Subset;
