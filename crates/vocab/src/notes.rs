//! Where a decoder, as the `tokenizers` library runs it, and the bytes of tokens differ.
//!
//! A constraint is about the text that a model means by its tokens. Where a file's decoder gives that text, the bytes
//! are the decoder's, and a decoder that is no concatenation of bytes is refused. The files noted here decode into
//! something that no text of a training run looked like, or change a text after it is decoded. Their tokens are read
//! as the steps in front of the model write them. Tried instead: refusing them. Then small models whose authors left
//! the decoder out do not load, though their encoder leaves no doubt.

use std::fmt;

use serde_json::Value;

use crate::{bytes::Spelling, format::pipeline::DecoderStep};

/// A difference between the text that the `tokenizers` library decodes from ids and the bytes of their tokens here.
///
/// The bytes follow the steps in front of the model: a token spells the text for which the encoder writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DecoderNote {
    /// The file has no decoder. The library joins the names of tokens with spaces.
    NoDecoder,
    /// The encoder spells bytes or spaces in tokens such as `<0x0A>`, `Ġ` or `▁`, and the decoder reads them as they
    /// stand.
    Undecoded,
    /// The decoder takes spaces off in front of some punctuation and contractions (`cleanup` of WordPiece).
    CleansUp,
}

impl DecoderNote {
    pub(crate) fn of(decoder: &Value, decoders: &[DecoderStep], spelling: &Spelling) -> Vec<Self> {
        let is_missing = decoder.is_null();
        let cleans = decoders.iter().any(|step| matches!(step, DecoderStep::WordPiece { cleanup: true, .. }));
        let notes = [
            (Self::NoDecoder, is_missing && !spelling.joins_with_spaces()),
            (Self::Undecoded, !is_missing && !spelling.is_read_by(decoders)),
            (Self::CleansUp, cleans),
        ];
        notes.into_iter().filter(|(_, holds)| *holds).map(|(note, _)| note).collect()
    }
}

impl fmt::Display for DecoderNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDecoder => {
                "the tokenizer has no decoder, with which the tokenizers library joins tokens with spaces; here they \
                 spell the texts for which the encoder writes them"
            }
            Self::Undecoded => {
                "the tokenizer spells bytes or spaces in tokens such as <0x0A>, Ġ or ▁, and its decoder reads them as they \
                 stand; here they are bytes and spaces"
            }
            Self::CleansUp => {
                "the tokenizer's decoder takes spaces off in front of punctuation (cleanup); here each word has its \
                 space"
            }
        })
    }
}
