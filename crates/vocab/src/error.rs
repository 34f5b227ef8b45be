//! Why a tokenizer could not be loaded or used.
//!
//! An enum and not an opaque struct: a caller can raise a limit, name other special tokens or pick another file, and
//! has to know which. Messages are one line, quote at most [`SHOWN`] characters of the file, and say the way out.

use std::path::PathBuf;

use unskew_core::{DuplicateMerge, TokenId, VocabularyError};

use crate::GgufError;

/// Why a tokenizer could not be loaded, or a text not encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Loading a file failed; the source says why.
    #[error("cannot load the tokenizer file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<TokenizerError>,
    },
    /// The file cannot be opened or read.
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    /// The file is longer than the limit.
    #[error("the file is longer than the limit of {limit} bytes; raise `Limits::file_bytes` if it is right")]
    FileTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The bytes are not JSON.
    #[error("line {line}, column {column}: not JSON: {reason}; a tokenizer.json is expected")]
    NotJson {
        /// Where, counted from 1.
        line: usize,
        /// Where, in bytes from 1.
        column: usize,
        /// The reason of the JSON reader.
        reason: String,
    },
    /// JSON, but not that of a `tokenizer.json`.
    #[error("not a tokenizer.json: {place}: {reason}")]
    NotTokenizer {
        /// Which part of the file.
        place: String,
        /// The part that is missing or wrong there.
        reason: String,
    },
    /// A part of the file that changes the bytes of tokens in a way this crate does not express exactly.
    #[error("{place}: {what}; the bytes of the tokens would not be exact, use another tokenizer")]
    Unsupported {
        /// Which part of the file.
        place: String,
        /// The effect that it asks for.
        what: String,
    },
    /// An id beyond the limit.
    #[error("token {token} has id {id}, the limit is {limit}; raise `Limits::ids` if it is right")]
    IdTooLarge {
        /// The token, as the file spells it.
        token: String,
        /// Its id.
        id: u64,
        /// The number of ids allowed.
        limit: usize,
    },
    /// Two tokens of one id.
    #[error("id {id} is given to both {first} and {second}; every token needs an id of its own")]
    DuplicateId {
        /// The id.
        id: u32,
        /// One token.
        first: String,
        /// The other.
        second: String,
    },
    /// One token that is listed twice.
    #[error("{place}: token {token} is listed twice; every token needs to be listed once")]
    DuplicateToken {
        /// Which list.
        place: &'static str,
        /// The token.
        token: String,
    },
    /// A token beyond the limit.
    #[error(
        "token {id} is {bytes} bytes long, the limit is {limit}; raise `Limits::token_bytes` if it is right"
    )]
    TokenTooLong {
        /// The token.
        id: TokenId,
        /// Its length, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A token whose bytes are not known exactly.
    #[error("token {id} ({token}): {reason}; its bytes would be a guess, use another tokenizer")]
    TokenBytes {
        /// The token.
        id: TokenId,
        /// As the file spells it.
        token: String,
        /// The reason.
        reason: String,
    },
    /// A merge that the vocabulary does not know.
    #[error("merge {rank} ({left}, {right}): {reason}; the merges belong to another vocabulary")]
    Merge {
        /// Its rank, from 0.
        rank: usize,
        /// The left token, as the file spells it.
        left: String,
        /// The right token.
        right: String,
        /// The reason.
        reason: String,
    },
    /// The encoder numbers an added token otherwise than the file.
    #[error(
        "added token {token} has id {in_file} in the file, but an encoder gives it {in_encoder}; list it in \
         `model.vocab` too, or close the gap in the ids"
    )]
    AddedTokenId {
        /// The token.
        token: String,
        /// The id in the file.
        in_file: u32,
        /// The id that the encoder would give.
        in_encoder: u32,
    },
    /// The encoder does not accept a part of the file, for example a regex.
    #[error("{place}: the encoder refuses it: {reason}")]
    Refused {
        /// Which part of the file.
        place: String,
        /// The encoder's reason.
        reason: String,
    },
    /// A regex with a construct of which no exact translation is known.
    ///
    /// The `tokenizers` library matches the regexes of a `tokenizer.json` with Oniguruma, whose syntax differs from
    /// that of the engine here.
    #[error(
        "{place}: `pattern`, byte {at}: {construct}; it has no exact translation from Oniguruma's syntax, write the regex \
         without it or use another tokenizer"
    )]
    Regex {
        /// Which part of the file.
        place: String,
        /// Where the construct begins, in bytes of the regex.
        at: usize,
        /// Its name.
        construct: &'static str,
    },
    /// A line of a rank file that cannot be read, or a table that does not hang together.
    #[error("rank file, line {line}: {reason}; each line is the base64 of a token, a space and its rank")]
    RankFile {
        /// The line, counted from 1; 0 for the table as a whole.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A GGUF file that cannot be read.
    #[error(transparent)]
    Gguf(GgufError),
    /// A text for a tokenizer whose segmentation is not known.
    #[error("the text cannot be encoded: {0}")]
    Segmentation(TokenizationError),
    /// The vocabulary as a whole is refused, for example an end-of-sequence id that is no control token.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A text is longer than the limit.
    #[error(
        "the text is {bytes} bytes long, the limit is {limit}; encode it in parts or raise `Limits::text_bytes`"
    )]
    TextTooLong {
        /// Its length, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A continuation whose tokens depend on the text before it.
    #[error(
        "the text cannot be encoded by itself: its tokens depend on the text in front of it, behind a line break, a letter and a \
         full stop; give token ids"
    )]
    Continuation,
    /// The encoder failed on a text.
    #[error("the text cannot be encoded: {reason}")]
    Encode {
        /// The encoder's reason.
        reason: String,
    },
}

/// Why a tokenizer's segmentation is not given as data. Its vocabulary and its encoder work all the same.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizationError {
    /// The model is no byte-pair encoding.
    #[error("a {model} model has no merges; engines that need them work with byte-pair encodings only")]
    NoMerges {
        /// The kind of the model.
        model: &'static str,
    },
    /// The model writes the segmentation with the best score.
    ///
    /// Which segmentation that is, a sum of floating-point numbers from the beginning of a piece decides. Pieces may
    /// be of any length and the sums of two segmentations as far apart as they like before the next character turns
    /// them round, so no automaton with finitely many states tells these sequences from others.
    #[error(
        "a {model} model writes the segmentation with the best sum of scores, which no finite automaton can follow; leave out \
         the demand for canonical sequences"
    )]
    Scores {
        /// The kind of the model.
        model: &'static str,
    },
    /// The model skips merges at random.
    #[error("the model drops merges with probability {probability}; set `model.dropout` to null")]
    Dropout {
        /// The probability.
        probability: f64,
    },
    /// A pair of tokens is merged twice.
    #[error(transparent)]
    DuplicateMerge(#[from] DuplicateMerge),
    /// A merge has a control token on one side or as its result: text would become something that is no text.
    #[error("merge {rank} has the control token {token}; take `special` off it or drop the merge")]
    ControlMerge {
        /// Its rank, from 0.
        rank: usize,
        /// The control token.
        token: TokenId,
    },
    /// The model writes a control token for a text, which then is no text.
    #[error(
        "the model writes the control token {token} for a text; take `special` off it, or take it out of `model.vocab`"
    )]
    ControlPiece {
        /// The control token.
        token: TokenId,
    },
    /// The bytes of a merge's two sides are not those of its result.
    #[error("merge {rank} makes token {result}, whose bytes are not those of its two sides")]
    MergeBytes {
        /// Its rank, from 0.
        rank: usize,
        /// The token that it makes.
        result: TokenId,
    },
    /// A GGUF file names a pre-tokenizer of which no pattern is known here.
    #[error(
        "the GGUF file names the pre-tokenizer {name}, whose pattern is not known here; name the model's tokenizer.json as its \
         tokenizer, or give token ids"
    )]
    PreTokenizer {
        /// Its name, in quotes.
        name: String,
    },
    /// Two tokens of a GGUF file with scores have the same score. Which of them is made first depends on their places
    /// in a text, which no order of merges says.
    #[error(
        "the tokens {first} and {second} have the same score, so that no order of merges makes the tokenizer's sequences; leave \
         out the demand for canonical sequences"
    )]
    EqualScores {
        /// One token.
        first: TokenId,
        /// The other.
        second: TokenId,
    },
    /// The decoder reads tokens in another way than the steps in front of the model write text.
    #[error("the decoder reads {tokens}, and no step in front of the model writes text so")]
    DecoderAlone {
        /// The tokens.
        tokens: &'static str,
    },
}

/// How many characters of a token a message quotes.
const SHOWN: usize = 40;

/// A token in quotes, on one line, cut where it is long.
pub(crate) fn quoted(token: &str) -> String {
    match token.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &token[..end]),
        None => format!("{token:?}"),
    }
}

impl TokenizerError {
    pub(crate) fn not_tokenizer(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::NotTokenizer { place: place.into(), reason: reason.into() }
    }

    pub(crate) fn unsupported(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { place: place.into(), what: what.into() }
    }
}
