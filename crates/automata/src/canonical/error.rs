//! Errors: a tokenizer's canonical sequences cannot be recognised exactly, or a constraint admits no canonical
//! sequence.

use unskew_core::TokenId;

use crate::{RegexError, canonical::SplitError};

/// The reason why a [`TokenizerAutomaton`](super::TokenizerAutomaton), a [`CanonicalIndex`](super::CanonicalIndex),
/// or a constraint over one cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// The pre-tokenizer has a step that the automaton cannot follow exactly.
    #[error("the tokenizer's own sequences cannot be enforced: {0}")]
    Split(#[from] SplitError),
    /// The normaliser has a step that the automaton cannot follow exactly.
    #[error(
        "the tokenizer's own sequences cannot be enforced: its normaliser has the step {step}, and the texts that \
         this step leaves unchanged are not known exactly; leave out the demand for canonical sequences"
    )]
    #[non_exhaustive]
    Normalizer {
        /// The step.
        step: String,
    },
    /// The tokenizer writes spaces of its own (before a text or in place of another character), and the model has no
    /// token for a space.
    #[error(
        "the tokenizer's own sequences cannot be enforced: it writes spaces or a character in their place, and no \
         token of the model is that character; leave out the demand for canonical sequences"
    )]
    NoBlank,
    /// The automaton cannot follow the matching of an added token exactly.
    #[error(
        "the tokenizer's own sequences cannot be enforced: its added token {token} ({content:?}) {reason}; remove it \
         from the tokenizer, or make it special"
    )]
    #[non_exhaustive]
    AddedToken {
        /// The token.
        token: TokenId,
        /// The text that it matches.
        content: String,
        /// The property of the token that prevents it.
        reason: &'static str,
    },
    /// The automaton of the texts that the normaliser leaves unchanged exceeds its limit of states.
    #[error(
        "the automaton of the texts that the tokenizer leaves unchanged has more than {limit} states: the \
         tokenizer has too many added tokens, or too long ones"
    )]
    #[non_exhaustive]
    TooManyTextStates {
        /// The limit.
        limit: usize,
    },
    /// A merge names an id that is not in the vocabulary.
    #[error(
        "the merge at rank {rank} names token {token} and the vocabulary has {ids} ids: give the vocabulary and \
         the merges of one tokenizer"
    )]
    #[non_exhaustive]
    ForeignMerge {
        /// The rank of the merge.
        rank: usize,
        /// The token.
        token: TokenId,
        /// The number of ids of the vocabulary.
        ids: usize,
    },
    /// Merges split a whole-piece token's text into more tokens than the limit.
    #[error(
        "the tokenizer's own sequences cannot be enforced: merges would split the text of token {token}, which the \
         encoder looks up as a whole piece, into {tokens} tokens; the limit is {limit}"
    )]
    #[non_exhaustive]
    WholePieceTooLong {
        /// The token.
        token: TokenId,
        /// The number of tokens that merges produce from the text of `token`.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// The vocabulary has fewer ids than the vocabulary that the automaton was built for.
    #[error(
        "the tokenizer automaton covers {automaton} ids and the vocabulary has {vocabulary}: build it for this \
         vocabulary"
    )]
    #[non_exhaustive]
    VocabularyMismatch {
        /// The number of ids that the automaton covers.
        automaton: usize,
        /// The number of ids of the vocabulary.
        vocabulary: usize,
    },
    /// The vocabulary has other tokens than the vocabulary that the automaton was built for.
    #[error(
        "the vocabulary's first {ids} ids are not the tokens that the tokenizer automaton was built for: give the \
         vocabulary of the same tokenizer, or build the automaton for this vocabulary"
    )]
    #[non_exhaustive]
    OtherVocabulary {
        /// The number of ids that the automaton covers.
        ids: usize,
    },
    /// The pattern or its DFA is refused.
    #[error(transparent)]
    Regex(#[from] RegexError),
    /// The product of the constraint with the tokenizer has too many states.
    #[error(
        "the constraint together with the tokenizer's splitting has more than {limit} states (Limits::product_states): \
         lower repetition counts, use smaller character classes, or raise the limit"
    )]
    #[non_exhaustive]
    TooManyProductStates {
        /// The limit.
        limit: usize,
    },
    /// A terminal of a grammar has texts that are not whole characters of UTF-8.
    #[error(
        "a terminal of the grammar has texts that are not whole characters of UTF-8, and the tokenizer's own sequences \
         are known for whole characters alone: write the terminal as characters, or leave out the demand for canonical \
         sequences"
    )]
    NotUtf8,
    /// A grammar names a control token by its id, and the text that the tokenizer reads after it is not known.
    #[error(
        "the grammar names the token {token} ({name:?}), and the tokenizer's own sequences beside it cannot be enforced: \
         it strips white space, is found only as a whole word, or another added token begins with its name; leave it out \
         of the grammar, or leave out the demand for canonical sequences"
    )]
    #[non_exhaustive]
    ControlToken {
        /// The token.
        token: TokenId,
        /// Its name.
        name: String,
    },
    /// No text that the constraint accepts has a canonical token sequence.
    #[error(
        "no output is both accepted and the tokenizer's own: {}", reason.explanation()
    )]
    #[non_exhaustive]
    NothingCanonical {
        /// The reason, as far as the check can determine it.
        reason: NothingCanonical,
    },
}

/// The reason why a constraint accepts no canonical sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NothingCanonical {
    /// Every accepted text is changed by the normaliser, contains the text of an added token, or is not UTF-8.
    Rewritten,
    /// Every accepted text has a character that no token spells.
    #[non_exhaustive]
    Unspellable {
        /// The bytes that occur in accepted texts and in no token that the tokenizer writes, in ascending order.
        missing: Vec<u8>,
    },
}

impl NothingCanonical {
    fn explanation(&self) -> String {
        match self {
            Self::Rewritten => {
                "the tokenizer rewrites every accepted text (its normaliser changes it, it holds the text \
                 of an added token, or it is not UTF-8): change the constraint"
                    .to_owned()
            }
            Self::Unspellable { missing } if missing.is_empty() => {
                "every accepted text has a character that no token spells: change the constraint".to_owned()
            }
            Self::Unspellable { missing } => {
                let bytes: Vec<_> = missing.iter().take(8).map(|byte| format!("0x{byte:02x}")).collect();
                let more = if missing.len() > 8 { ", .." } else { "" };
                format!(
                    "every accepted text has a character that no token spells (no token has the bytes {}{more}): \
                     change the constraint",
                    bytes.join(", ")
                )
            }
        }
    }
}
