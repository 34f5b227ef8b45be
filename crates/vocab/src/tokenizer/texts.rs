//! Texts to ids and back.

use std::borrow::Cow;

use unskew_core::TokenId;

use super::Tokenizer;
use crate::{TokenizerError, encoder::Piece};

/// Texts in front of a continuation, for tokenizers that put a space in front of a text.
const HEADS: [&str; 3] = ["\n", "a", "."];

impl Tokenizer {
    /// The ids of `text`, with `add_special` between those that the file puts around a sequence.
    ///
    /// Added tokens are matched in the text, control tokens too: text of unknown origin can name them. Where the model
    /// has no token for a character and no unknown token either, the character is dropped. Random merge dropout, which
    /// is for training, is not applied.
    ///
    /// Time is about O(n log n) for n bytes of text.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::TextTooLong`] beyond [`Limits::text_bytes`](crate::Limits::text_bytes), and
    /// [`TokenizerError::Encode`] where the model meets an unknown character and names an unknown token that it does
    /// not have.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<TokenId>, TokenizerError> {
        self.check_text(text)?;
        let ids = self.encoder.encode(text)?.into_iter().map(TokenId);
        if add_special {
            Ok(self.before.iter().copied().chain(ids).chain(self.behind.iter().copied()).collect())
        } else {
            Ok(ids.collect())
        }
    }

    /// The ids of `text` in the middle of another, as a model writes it after a prompt: without special tokens, and
    /// without a space that the tokenizer puts in front of whole texts only.
    ///
    /// A tokenizer that does so ([`prepends_space`](Self::prepends_space)) is given a line break to put the space in
    /// front of, or a letter or a full stop where the line break does not stay by itself; the ids after those of that
    /// head are the answer. Other tokenizers are asked as by [`encode`](Self::encode).
    ///
    /// # Errors
    ///
    /// As for [`encode`](Self::encode), and [`TokenizerError::Continuation`] where no head stays by itself.
    pub fn encode_continuation(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        if !self.prepends_space || text.is_empty() {
            return self.encode(text, false);
        }
        HEADS
            .iter()
            .find_map(|head| self.encode_behind(head, text).transpose())
            .unwrap_or(Err(TokenizerError::Continuation))
    }

    /// Whether `ids` are the ids of `text` in the middle of another.
    ///
    /// For a tokenizer that puts a space in front of texts, behind some head of those of
    /// [`encode_continuation`](Self::encode_continuation): a text of line breaks is tokenized in one way behind a
    /// letter, and in another behind a line break.
    ///
    /// # Errors
    ///
    /// As for [`encode`](Self::encode).
    pub fn is_continuation(&self, text: &str, ids: &[TokenId]) -> Result<bool, TokenizerError> {
        if !self.prepends_space || text.is_empty() {
            return Ok(self.encode(text, false)? == ids);
        }
        for head in HEADS {
            if self.encode_behind(head, text)?.is_some_and(|known| known == ids) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The ids of `text` behind `head`, where the ids of `head` stay.
    fn encode_behind(&self, head: &str, text: &str) -> Result<Option<Vec<TokenId>>, TokenizerError> {
        let before = self.encode(head, false)?;
        let whole = self.encode(&format!("{head}{text}"), false)?;
        Ok(whole.strip_prefix(before.as_slice()).map(<[_]>::to_vec))
    }

    /// The bytes that `ids` spell, control tokens by their names, where `text` has others.
    ///
    /// Of the ids of `text` this tells that the tokenizer reads another text: a step rewrote it (NFC composes letters,
    /// a WordPiece tokenizer puts spaces in front of words) or dropped a part, or there is no token for a character.
    pub fn read_as(&self, text: &str, ids: &[TokenId]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(text.len());
        for id in ids {
            match self.vocabulary.text(*id) {
                Some(text) => bytes.extend_from_slice(text),
                None => bytes.extend_from_slice(self.vocabulary.name(*id).as_bytes()),
            }
        }
        (bytes != text.as_bytes()).then_some(bytes)
    }

    /// The text of a whole encoded sequence: control tokens add nothing, bytes that are not UTF-8 become U+FFFD, and a
    /// space that the tokenizer puts in front of a text is taken off, where the file's decoder does so.
    ///
    /// A continuation is not a whole sequence: use
    /// [`Vocabulary::decode`](unskew_core::Vocabulary::decode), which neither drops nor replaces a byte.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let bytes = self.vocabulary.decode(ids);
        let text = match bytes.strip_prefix(b" ") {
            Some(rest) if self.spelling.strips_space => rest,
            _ => &bytes,
        };
        String::from_utf8_lossy(text).into_owned()
    }

    /// The bytes that the text tokens of `encode(text, false)` spell: `text` as the steps in front of the model leave
    /// it, with the spaces that they put in front, without control tokens and without text that a step removes (a
    /// WordPiece tokenizer keeps words and drops the text between them).
    ///
    /// For a byte-level tokenizer without normaliser this is `text` itself. It holds where every character of the text
    /// has a token; an unknown token spells nothing.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::TextTooLong`] and [`TokenizerError::Encode`], as for [`encode`](Self::encode).
    pub fn expected_bytes<'a>(&self, text: &'a str) -> Result<Cow<'a, [u8]>, TokenizerError> {
        self.check_text(text)?;
        let mut bytes = Vec::with_capacity(text.len() + 1);
        self.encoder.each_piece(text, |piece| {
            match piece {
                Piece::Added(id) => {
                    bytes.extend_from_slice(self.vocabulary.text(TokenId(id)).unwrap_or_default());
                }
                // Only a decoder that does not fit the steps in front of the model leaves a piece unspelled.
                Piece::Text(piece) => match self.spelling.piece(piece) {
                    Ok(spelled) => bytes.extend(spelled),
                    Err(_) => bytes.extend_from_slice(piece.as_bytes()),
                },
            }
            Ok(())
        })?;
        Ok(if bytes == text.as_bytes() { Cow::Borrowed(text.as_bytes()) } else { Cow::Owned(bytes) })
    }

    /// Whether the text may be encoded.
    fn check_text(&self, text: &str) -> Result<(), TokenizerError> {
        if let Some(error) = self.no_texts.as_ref().filter(|_| !text.is_empty()) {
            return Err(TokenizerError::Segmentation(error.clone()));
        }
        match (text.len(), self.limits.text_bytes) {
            (bytes, limit) if bytes > limit => Err(TokenizerError::TextTooLong { bytes, limit }),
            _ => Ok(()),
        }
    }
}
