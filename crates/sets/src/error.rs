//! Errors: a set cannot be built, or a file is not a set.

use std::{io, path::PathBuf};

use unskew_core::TokenId;
use unskew_files::FileError;

/// The origin of an item, for messages: the number of the line or of the sequence, from 1.
pub type Line = u64;

/// An error of building or using a set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// A token id is not one of the vocabulary's.
    #[error("item {line}: token {token} is none of the vocabulary's {vocab_len} ids")]
    NoSuchToken {
        /// The line or sequence.
        line: Line,
        /// The id.
        token: TokenId,
        /// The number of ids.
        vocab_len: usize,
    },
    /// A token is no piece of text, so that no mask may allow it.
    #[error(
        "item {line}: token {token} is a control token, unused or without text, and no output holds those"
    )]
    NotText {
        /// The line or sequence.
        line: Line,
        /// The id.
        token: TokenId,
    },
    /// An item has too many tokens.
    #[error("item {line} has {tokens} tokens; at most {limit} are allowed (SetLimits::item_tokens)")]
    TooLong {
        /// The line or sequence.
        line: Line,
        /// The number of its tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// A line has too many bytes.
    #[error("line {line} has more than {limit} bytes (SetLimits::line_bytes)")]
    LineTooLong {
        /// The line.
        line: Line,
        /// The limit.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("line {line} is not UTF-8: its byte {byte} begins no character")]
    NotUtf8 {
        /// The line.
        line: Line,
        /// The byte of the line, from 0.
        byte: usize,
    },
    /// The tokenizer failed on a line.
    #[error("line {line} {text:?}: {source}")]
    Encode {
        /// The line.
        line: Line,
        /// The beginning of the line.
        text: String,
        /// The tokenizer's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer's tokens spell another text than the line.
    #[error(
        "line {line} {text:?} cannot be written by the tokenizer: its tokens spell {spelled:?}; leave the line out or \
         write it so"
    )]
    Respelled {
        /// The line.
        line: Line,
        /// The beginning of the line.
        text: String,
        /// The beginning of the text that its tokens spell.
        spelled: String,
    },
    /// A line is none of the set's items.
    #[error("line {line} {text:?} is not an item of the set")]
    NoSuchItem {
        /// The line.
        line: Line,
        /// The beginning of the line.
        text: String,
    },
    /// The set has more items than 32 bits can number.
    #[error("the set has more than {limit} items")]
    TooManyItems {
        /// The limit.
        limit: u32,
    },
    /// The vocabulary has more ids than any tokenizer.
    #[error("the vocabulary has {vocab_len} ids; at most {limit} are allowed")]
    TooManyIds {
        /// The number of ids.
        vocab_len: usize,
        /// The limit.
        limit: usize,
    },
    /// The set has more bytes than the platform can address.
    #[error("the set is too large for this platform")]
    TooLarge,
    /// The set holds no item, or a filter leaves none: no output satisfies the constraint.
    #[error("the set is empty, so no output satisfies it: give at least one item")]
    Empty,
    /// The masks are shorter than the set's vocabulary.
    #[error("the set is over {set} token ids and the masks only over {masks}")]
    Masks {
        /// Ids of the set.
        set: usize,
        /// Ids of the masks.
        masks: usize,
    },
    /// The exclusion leaves no output.
    #[error("the vocabulary holds no text, and the empty text is excluded: no output is left")]
    NothingLeft,
    /// A subset or a delta belongs to another set.
    #[error("the {what} is of a set of {found} items, and this one has {expected}")]
    OtherSet {
        /// The kind: a subset or a delta.
        what: &'static str,
        /// The number of items of its set.
        found: u64,
        /// The number of items of the set at hand.
        expected: u64,
    },
    /// The file of a set is damaged.
    #[error(transparent)]
    File(#[from] SetFileError),
    /// The file of a set cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// A text cannot be read, or a temporary file cannot be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// An error of the file of a set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetFileError {
    /// Another kind of file, or an empty one.
    #[error("this is no built set: it does not begin with \"unskew items\"")]
    Magic,
    /// Another kind of file stands in the place of the changes to a set.
    #[error("these are no changes to a set: the file does not begin with \"unskew delta\"")]
    NoDelta,
    /// The changes are to another set.
    #[error(
        "these are changes to another set, of {found} items, and not to this one of {expected}: make them anew for this set"
    )]
    OtherSet {
        /// The number of items of the set that the changes are to.
        found: u64,
        /// The number of items of the set at hand.
        expected: u64,
    },
    /// The changes are to a set of the same lineage and of another generation, and they are not part of the set at
    /// hand.
    #[error(
        "these are changes to generation {found} of this set, which is of generation {expected} and does not have them: put the \
         set of that generation back, or make them anew for this one"
    )]
    OtherGeneration {
        /// The number of compactions of the set that the changes are to.
        found: u64,
        /// The number of compactions of the set at hand.
        expected: u64,
    },
    /// The changes are part of the set.
    #[error("these changes are part of the set, which was compacted with them: delete them")]
    Absorbed,
    /// The file in the place of the changes cannot be used.
    #[error("{}: {error}", path.display())]
    Beside {
        /// The file of the changes.
        path: PathBuf,
        /// The reason.
        #[source]
        error: Box<SetFileError>,
    },
    /// The set was replaced again and again while it was opened.
    #[error("{}: replaced {times} times while it was opened: try again", path.display())]
    Restless {
        /// The set.
        path: PathBuf,
        /// The number of tries.
        times: usize,
    },
    /// Another version of this library wrote the file.
    #[error("the set is of version {version} and this library reads version {supported}: build it again")]
    Version {
        /// The file's version.
        version: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The file is cut off, or other bytes follow the set.
    #[error("the set has {len} bytes where its header says {expected}: copy or build it again")]
    Length {
        /// The number of bytes.
        len: u64,
        /// The number of bytes that the header names.
        expected: u64,
    },
    /// The file is damaged.
    #[error(
        "the set is damaged: the checksum of its {part} is {found:016x} and should be {expected:016x}; copy or build it \
         again"
    )]
    Checksum {
        /// The damaged part.
        part: &'static str,
        /// The checksum of the bytes in the file.
        found: u64,
        /// The checksum that the file names.
        expected: u64,
    },
    /// This library did not write the file.
    #[error("the set's {part} are not those of any set: build it again")]
    Invalid {
        /// The part with wrong numbers.
        part: &'static str,
    },
    /// The set was built for other tokens.
    #[error(
        "the set was built with another tokenizer ({file:016x}, not {tokenizer:016x}): build it for this one"
    )]
    OtherTokenizer {
        /// The fingerprint of the vocabulary that the set was built for.
        file: u64,
        /// The fingerprint of the vocabulary at hand.
        tokenizer: u64,
    },
    /// The set has no subset of this name.
    #[error("the set has no subset {name:?}; it has {known:?}")]
    NoSuchSubset {
        /// The name.
        name: String,
        /// The subsets that the set has.
        known: Vec<String>,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
