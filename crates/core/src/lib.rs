//! placeholder
mod constraint;
mod erased;
mod mask;
mod model;
mod tokenization;
mod token;
mod trie;
mod vocabulary;
pub use constraint::{Constraint, Rejected};
pub use erased::{AnyConstraint, AnyScratch, AnyState};
pub use mask::{MaskBatch, MaskMut, MaskRef, TokenMask, WORD_BITS, words_for};
pub use model::{Extension, LanguageModel, Logits, Rows};
pub use token::TokenId;
pub use tokenization::{
    DuplicateMerge, Merge, MergeTable, Normalizer, PrependScheme, SplitBehavior, SplitPattern, Tokenization,
    UnicodeForm,
};
pub use trie::{TokenTooLong, TokenTrie};
pub use vocabulary::{TokenKind, Vocabulary, VocabularyBuilder, VocabularyError};
