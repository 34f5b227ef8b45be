//! Loads tokenizers as exact data: the bytes of every token, the merges, the split pattern.
//!
//! A constraint on text is enforced on tokens, so its engine must know the bytes of every token: with one wrong byte,
//! a mask forbids a token that it should allow. A `tokenizer.json` has those bytes in one of several spellings,
//! spread over five parts of the file. This crate reads the parts together, and refuses a file that leaves the bytes
//! of a token to a guess.
//!
//! # Should you use this crate?
//!
//! To know the bytes of every token of a `tokenizer.json`, a `tokenizer.model` or a GGUF file, exactly or not at
//! all: yes. To encode and decode texts and nothing else, take `tokenizers`, which this crate uses. To constrain
//! a model, start from the `unskew` crate, which loads a tokenizer for you.
//!
//! # Contents
//!
//!
//! A [`Tokenizer`] gives:
//!
//! - [`vocabulary`](Tokenizer::vocabulary): an [`unskew_core::Vocabulary`], the bytes of text tokens, the names of
//!   control tokens, the holes, the ends of a sequence as far as well-known names tell.
//! - [`tokenization`](Tokenizer::tokenization): an [`unskew_core::Tokenization`], from which engines build automata
//!   of canonical token sequences. Byte-pair encodings have it; Unigram, WordPiece and WordLevel models do not, and
//!   that is a typed error while the rest works.
//! - [`encode`](Tokenizer::encode) and [`decode`](Tokenizer::decode), for prompts and for showing output.
//!
//! # Example
//!
//! ```
//! use unskew_core::{TokenId, TokenKind};
//! use unskew_vocab::Tokenizer;
//!
//! // A SentencePiece style file: `▁` spells a space, `<0x21>` a byte.
//! let file = r#"{
//!     "added_tokens": [{"id": 0, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
//!                       "normalized": false, "special": true}],
//!     "normalizer": {"type": "Sequence", "normalizers": [
//!         {"type": "Prepend", "prepend": "▁"},
//!         {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
//!     "decoder": {"type": "Sequence", "decoders": [
//!         {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
//!         {"type": "ByteFallback"},
//!         {"type": "Fuse"},
//!         {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
//!     "model": {"type": "BPE", "byte_fallback": true, "merges": [["h", "i"], ["▁", "hi"]],
//!               "vocab": {"</s>": 0, "<0x21>": 1, "▁": 2, "h": 3, "i": 4, "hi": 5, "▁hi": 6}}
//! }"#;
//! let tokenizer = Tokenizer::from_bytes(file.as_bytes())?;
//!
//! let vocabulary = tokenizer.vocabulary();
//! assert_eq!(vocabulary.text(TokenId(6)), Some(&b" hi"[..]));
//! assert_eq!(vocabulary.text(TokenId(1)), Some(&b"!"[..]));
//! assert_eq!(vocabulary.kind(TokenId(0)), TokenKind::Control);
//! assert_eq!(vocabulary.end_of_sequence(), [TokenId(0)]);
//! assert_eq!(tokenizer.tokenization()?.merges.rank(TokenId(2), TokenId(5)), Some(1));
//!
//! let ids = tokenizer.encode("hi!", false)?;
//! assert_eq!(ids, [TokenId(6), TokenId(1)]);
//! assert_eq!(vocabulary.decode(&ids), b" hi!"); // the space that the tokenizer puts in front
//! assert_eq!(*tokenizer.expected_bytes("hi!")?, *b" hi!");
//! assert_eq!(tokenizer.decode(&ids), "hi!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How text relates to the bytes of its tokens
//!
//! The bytes of the ids of a text, one after the other, are [`Tokenizer::expected_bytes`]. For a byte-level tokenizer
//! without normaliser (GPT-2, Llama 3) that is the text. For others it is the text as its tokenizer sees it: normalised
//! (Qwen: composed), and with a space in front where the tokenizer puts one (Llama 2, Mistral; see
//! [`Tokenizer::prepends_space`]). A WordPiece tokenizer keeps words only: each word spells a space and itself.
//!
//! The output of a model after a prompt is no text of its own and gets no space in front: decode a continuation with
//! [`Vocabulary::decode`](unskew_core::Vocabulary::decode).
//!
//! # Decoders
//!
//! The bytes of a token are those that the file's decoder makes of it; an added token too, so that `ü` under a
//! byte-level decoder is the byte 0xFC. A decoder that is no concatenation of bytes is refused. Some files have none,
//! or one that does not read what the encoder writes (`<0x0A>`, `Ġ`): the `tokenizers` library then decodes into names
//! of tokens, with spaces between them. There a token spells the text for which the encoder writes it, and
//! [`Tokenizer::notes`] says so.
//!
//! # Regexes
//!
//! The `tokenizers` library matches the regexes of a `tokenizer.json` with Oniguruma. Here they run on another engine,
//! so each is translated into its syntax: `$` is the end of a line, `{1,3}+` repeats a repetition, `\w` has the
//! characters that Oniguruma calls word characters. A construct without an exact translation is
//! [`TokenizerError::Regex`]. Patterns of rank files are tiktoken's and stay as they are.
//!
//! # When not to use it
//!
//! - To tokenize corpora, or for offsets, padding, truncation or pairs of texts: use the `tokenizers` crate, which this
//!   one wraps for its models and normalisers.
//! - For a vocabulary that is at hand in another form: [`Vocabulary::builder`](unskew_core::Vocabulary::builder) needs
//!   nothing of this crate. No engine depends on it.
//! - For files of CLIP's or GPT-1's kind (`</w>` after a word), CTC decoders and other joiners of words: they are
//!   refused, since no bytes of a single token would be right.
//!
//! Rank files (tiktoken's) load too: [`Tokenizer::from_rank_file`]. So do the GGUF files of llama.cpp, without their
//! weights: [`Tokenizer::from_gguf_file`], and [`Gguf`] for the rest of what they say.
//!
//! # Damaged and hostile files
//!
//! Nothing in a file makes loading or encoding panic, as far as some hundred thousand damaged ones show; sizes have
//! [`Limits`]. Encoding takes time in proportion to the text (times its logarithm), except with a regex in the file
//! that backtracks, of which each match is bounded, and with long words of a WordPiece or long pieces of a Unigram
//! model.
//!
//! # Features
//!
//! - `train`: learns a byte-level byte-pair encoding from texts, reproducibly. No further dependency.
//!
//! Without features the crate needs `tokenizers` with its pure-Rust regex engine (about 100 seconds of one core to
//! build), `serde` and `serde_json`.

mod bytes;
mod chars;
mod encoder;
mod error;
mod format;
mod limits;
mod notes;
mod tokenization;
mod tokenizer;
#[cfg(feature = "train")]
mod train;

pub use error::{TokenizationError, TokenizerError};
pub use limits::Limits;
pub use notes::DecoderNote;
pub use tokenizer::Tokenizer;
#[cfg(feature = "train")]
pub use train::{TrainError, train_byte_level_bpe};
pub use unskew_core::AddedToken;
pub use unskew_gguf::{Gguf, GgufError, GgufTensor, GgufValue};
