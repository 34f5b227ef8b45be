//! Why a set cannot be built, or a file is none.

use std::{io, path::PathBuf};

use unskew_core::TokenId;
use unskew_files::FileError;

/// Where an item came from, for messages: the line of a text, or the how manieth sequence, from 1.
pub type Line = u64;

/// Why a set was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// A token id is not one of the vocabulary's.
    #[error("item {line}: token {token} is none of the vocabulary's {vocab_len} ids")]
    NoSuchToken {
        /// Which item.
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
        /// Which item.
        line: Line,
        /// The id.
        token: TokenId,
    },
    /// An item has too many tokens.
    #[error("item {line} has {tokens} tokens; at most {limit} are allowed (SetLimits::item_tokens)")]
    TooLong {
        /// Which item.
        line: Line,
        /// Its tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// A line has too many bytes.
    #[error("line {line} has more than {limit} bytes (SetLimits::line_bytes)")]
    LineTooLong {
        /// Which line.
        line: Line,
        /// The limit.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("line {line} is not UTF-8: its byte {byte} begins no character")]
    NotUtf8 {
        /// Which line.
        line: Line,
        /// Where in the line, from 0.
        byte: usize,
    },
    /// The tokenizer failed on a line.
    #[error("line {line} {text:?}: {source}")]
    Encode {
        /// Which line.
        line: Line,
        /// The beginning of the line.
        text: String,
        /// What the tokenizer says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer's tokens spell another text than the line.
    #[error(
        "line {line} {text:?} cannot be written by the tokenizer: its tokens spell {spelled:?}; leave the line out or \
         write it so"
    )]
    Respelled {
        /// Which line.
        line: Line,
        /// The beginning of the line.
        text: String,
        /// The beginning of what its tokens spell.
        spelled: String,
    },
    /// A line is none of the set's items.
    #[error("line {line} {text:?} is not an item of the set")]
    NoSuchItem {
        /// Which line.
        line: Line,
        /// The beginning of the line.
        text: String,
    },
    /// There are more items than 32 bits can number.
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
    /// The set is larger than can be addressed.
    #[error("the set is too large for this platform")]
    TooLarge,
    /// The set holds no item, or none is left of it: no output satisfies it.
    #[error("the set is empty, so no output satisfies it: give at least one item")]
    Empty,
    /// A constraint needs masks at least as long as the set's vocabulary.
    #[error("the set is over {set} token ids and the masks only over {masks}")]
    Masks {
        /// Ids of the set.
        set: usize,
        /// Ids of the masks.
        masks: usize,
    },
    /// Nothing is left to be written when the excluded items are taken away.
    #[error("the vocabulary holds no text, and the empty text is excluded: no output is left")]
    NothingLeft,
    /// Bits that belong to another set.
    #[error("the {what} is of a set of {found} items, and this one has {expected}")]
    OtherSet {
        /// A subset or a delta.
        what: &'static str,
        /// The number of items that it is for.
        found: u64,
        /// The number of items of the set.
        expected: u64,
    },
    /// The file of a set is damaged.
    #[error(transparent)]
    File(#[from] SetFileError),
    /// The file of a set cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// What was read could not be, or a temporary file could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Why a file is not a set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetFileError {
    /// Another kind of file, or an empty one.
    #[error("this is no built set: it does not begin with \"unskew items\"")]
    Magic,
    /// Another kind of file in the place of changes to a set.
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
    /// The changes are to a set that was compacted from this one, or that this one was compacted from, and they are not in it.
    #[error(
        "these are changes to generation {found} of this set, which is of generation {expected} and does not have them: put the \
         set of that generation back, or make them anew for this one"
    )]
    OtherGeneration {
        /// How often the set that the changes are to was compacted.
        found: u64,
        /// How often the set at hand was.
        expected: u64,
    },
    /// The changes are part of the set.
    #[error("these changes are part of the set, which was compacted with them: delete them")]
    Absorbed,
    /// What lies beside a set is not what belongs there.
    #[error("{}: {error}", path.display())]
    Beside {
        /// The file of the changes.
        path: PathBuf,
        /// Why it is not used.
        #[source]
        error: Box<SetFileError>,
    },
    /// The set was replaced again and again while it was opened.
    #[error("{}: replaced {times} times while it was opened: try again", path.display())]
    Restless {
        /// The set.
        path: PathBuf,
        /// How often it was tried.
        times: usize,
    },
    /// The file was written by another version of this library.
    #[error("the set is of version {version} and this library reads version {supported}: build it again")]
    Version {
        /// The file's version.
        version: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The file is cut off, or something follows it.
    #[error("the set has {len} bytes where its header says {expected}: copy or build it again")]
    Length {
        /// The number of bytes.
        len: u64,
        /// The number of bytes that the header names.
        expected: u64,
    },
    /// The file was damaged.
    #[error(
        "the set is damaged: the checksum of its {part} is {found:016x} and should be {expected:016x}; copy or build it \
         again"
    )]
    Checksum {
        /// The part that was read.
        part: &'static str,
        /// The checksum of what the file holds.
        found: u64,
        /// The checksum that it names.
        expected: u64,
    },
    /// The file was not written by this library.
    #[error("the set's {part} are not those of any set: build it again")]
    Invalid {
        /// What is wrong in it.
        part: &'static str,
    },
    /// The set was built for other tokens.
    #[error(
        "the set was built with another tokenizer ({file:016x}, not {tokenizer:016x}): build it for this one"
    )]
    OtherTokenizer {
        /// The fingerprint of the vocabulary that it was built for.
        file: u64,
        /// The fingerprint of the vocabulary at hand.
        tokenizer: u64,
    },
    /// The set has no subset of this name.
    #[error("the set has no subset {name:?}; it has {known:?}")]
    NoSuchSubset {
        /// The name.
        name: String,
        /// Those that there are.
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
        /// Why not.
        source: io::Error,
    },
}
