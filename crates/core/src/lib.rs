//! The common ground of constrained decoding: token ids, vocabularies, token masks, and the traits of a constraint, a
//! language model and a sampler, with their contracts as a test kit.
//!
//! # Should you use this crate?
//!
//! To *write* an engine, a model runner or a sampler that works with the others: yes, it is made for that, and it
//! changes rarely. To *use* one, start from the `unskew` crate, which re-exports all of them and shows how they fit
//! together.
//!
//! # Contents
//!
//! - [`TokenId`] and [`Vocabulary`]: the text of every id, as flat data.
//! - [`Tokenization`]: the normaliser, split pattern and merge table of a byte-pair tokenizer, as data.
//! - [`TokenMask`], [`MaskRef`], [`MaskMut`], [`MaskBatch`]: the allowed tokens, one bit each.
//! - [`Constraint`]: a machine that reads tokens and says which may come next. [`AnyConstraint`] erases its type;
//!   [`Unconstrained`] allows any text.
//! - [`LanguageModel`]: sequences in, rows of logits out, in batches. [`TableModel`] is a model given as a table, and
//!   [`FnModel`] one given as a function. [`rows`]: questions that rows answer in the place where they lie.
//! - [`Sampler`] and [`Draw`]: the drawing of outputs; [`ExactDistribution`]: the distribution that they should have.
//! - [`conformance`]: checks of these contracts for any implementation.
//!
//! # The end of a sequence
//!
//! A constraint's masks hold text tokens only. Whether the sequence may end is a question of its own
//! ([`Constraint::is_accepting`]); samplers allow the end-of-sequence ids exactly when the answer is yes. [`WithEnd`]
//! is a constraint whose outputs end where the model's text leaves it instead.
//!
//! # Features
//!
//! - `json` (off): [`TableModel::from_json`](TableModel#method.from_json) reads the JSON form of a table model. Costs
//!   serde and serde_json.

mod cancel;
pub mod conformance;
mod constraint;
mod exact;
mod generations;
#[doc(hidden)]
pub mod ids;
pub mod logprob;
mod mask;
mod model;
mod proposer;
pub mod rows;
mod sampler;
mod token;
mod tokenization;
mod vocabulary;

pub use cancel::Cancel;
pub use constraint::{
    AnyConstraint, AnyScratch, AnyState, Constraint, EndCache, EndScratch, EndState, OutputEnd, Reach,
    Rejected, TextOrder, Unconstrained, UnknownEnd, WithEnd, cuts_word, hashed_key, with_tail,
};
pub use exact::{EnumerationError, ExactDistribution};
pub use generations::Generations;
pub use mask::{MaskBatch, MaskMut, MaskRef, TokenMask, WORD_BITS, words_for};
pub use model::{
    BatchError, BatchLimits, Extension, FnModel, FnModelError, LanguageModel, Rows, TableModel,
    TableModelError,
};
pub use proposer::Proposer;
pub use rows::{LogitRows, Logits, RowError};
pub use sampler::{Cost, Draw, Finish, Origin, Sampler};
pub use token::TokenId;
pub use tokenization::{
    AddedToken, DuplicateMerge, Merge, MergeTable, Normalizer, PrependScheme, SplitBehavior, SplitPattern,
    Symbols, Tokenization, UnicodeForm, alphabet_to_byte, byte_to_alphabet,
};
pub use vocabulary::{TokenKind, Vocabulary, VocabularyBuilder, VocabularyError};
