//! The tokens of a model.

use std::{fmt::Write, sync::Arc};

use unskew::{
    TokenSpace,
    core::{TokenId, TokenKind, Vocabulary, words_for},
    vocab,
};
use wasm_bindgen::prelude::*;

use crate::fault::Fault;

/// The tokens of a model. A clone is another handle to them.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Tokenizer {
    pub(crate) tokens: Arc<TokenSpace>,
}

/// Ids as the library knows them.
pub(crate) fn ids(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

/// Ids as JavaScript knows them.
pub(crate) fn numbers(ids: &[TokenId]) -> Vec<u32> {
    ids.iter().map(|id| id.0).collect()
}

#[wasm_bindgen]
impl Tokenizer {
    /// From the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `tokenizer`.
    #[wasm_bindgen(js_name = fromJson)]
    pub fn from_json(json: &[u8], ends: &[u32]) -> Result<Tokenizer, Fault> {
        let refused = |error: unskew::BoxError| Fault::new("tokenizer", unskew::chain(&*error));
        let tokenizer = vocab::Tokenizer::from_bytes(json).map_err(|error| refused(error.into()))?;
        let tokens = TokenSpace::from_tokenizer(tokenizer, &ids(ends), 0);
        Ok(Self { tokens: Arc::new(tokens.map_err(|error| Fault::of_engine(&error))?) })
    }

    /// One token for each byte, and an end.
    ///
    /// # Panics
    ///
    /// Never: the vocabulary is always the same.
    #[must_use]
    pub fn bytes() -> Tokenizer {
        let mut builder = Vocabulary::builder();
        for byte in 0..=u8::MAX {
            builder.text(&[byte]);
        }
        let end = builder.control("<end>");
        builder.end_of_sequence(end);
        let vocabulary = builder.build().expect("the bytes are a vocabulary");
        Self { tokens: Arc::new(TokenSpace::from_vocabulary(vocabulary)) }
    }

    /// Another handle.
    #[wasm_bindgen(js_name = handle)]
    #[must_use]
    pub fn handle(&self) -> Tokenizer {
        self.clone()
    }

    /// How many ids there are.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn size(&self) -> usize {
        self.tokens.vocabulary().len()
    }

    /// The words of a mask.
    #[wasm_bindgen(getter, js_name = maskWords)]
    #[must_use]
    pub fn mask_words(&self) -> usize {
        words_for(self.size())
    }

    /// The ids that end an output.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn ends(&self) -> Vec<u32> {
        numbers(self.tokens.vocabulary().end_of_sequence())
    }

    /// The tokens of a text in the middle of another.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `tokenizer`.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Fault> {
        self.tokens.encode_output(text).map(|ids| numbers(&ids)).map_err(|error| Fault::of_engine(&error))
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `tokenizer`.
    #[wasm_bindgen(js_name = encodePrompt)]
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, Fault> {
        self.tokens.encode_prompt(text).map(|ids| numbers(&ids)).map_err(|error| Fault::of_engine(&error))
    }

    /// The text of tokens.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `argument` for an id beyond the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Fault> {
        Ok(self.tokens.decode(&self.known(tokens)?))
    }

    /// A token for people.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn token(&self, id: u32) -> Result<String, Fault> {
        let id = self.known(&[id])?[0];
        let vocabulary = self.tokens.vocabulary();
        Ok(match (vocabulary.text(id), vocabulary.kind(id)) {
            (Some(text), _) => shown(text),
            (None, TokenKind::Unused) => "(unused)".to_owned(),
            (None, _) => vocabulary.name(id).into_owned(),
        })
    }

    /// The bytes of a token; none of one that has no text.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    #[wasm_bindgen(js_name = tokenBytes)]
    pub fn token_bytes(&self, id: u32) -> Result<Vec<u8>, Fault> {
        let id = self.known(&[id])?[0];
        Ok(self.tokens.vocabulary().text(id).unwrap_or_default().to_vec())
    }

    /// Notes on how ids become text, as JSON.
    #[must_use]
    pub fn notes(&self) -> String {
        let notes: Vec<String> = self.tokens.notes().iter().map(ToString::to_string).collect();
        crate::fault::json(&notes)
    }
}

impl Tokenizer {
    pub(crate) fn known(&self, tokens: &[u32]) -> Result<Vec<TokenId>, Fault> {
        let (ids, len) = (ids(tokens), self.size());
        match ids.iter().find(|id| id.index() >= len) {
            Some(token) => {
                Err(Fault::of_matcher(&unskew::engine::MatcherError::BeyondVocabulary { token: *token, len }))
            }
            None => Ok(ids),
        }
    }
}

/// Bytes for people: what is no character, and what moves a line, as an escape.
fn shown(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => shown.push_str("\\n"),
                '\r' => shown.push_str("\\r"),
                '\t' => shown.push_str("\\t"),
                ' ' => shown.push('\u{2423}'),
                char if char.is_control() => _ = write!(shown, "\\u{{{:x}}}", u32::from(char)),
                char => shown.push(char),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shown() {
        let tokens = Tokenizer::bytes();
        let of = |id: u32| tokens.token(id).unwrap();
        assert_eq!([of(97), of(10), of(32), of(0xff), of(256)], ["a", "\\n", "␣", "\\xff", "<end>"]);
        assert_eq!((tokens.token_bytes(97).unwrap(), tokens.token_bytes(256).unwrap()), (vec![97], vec![]));
        assert_eq!(tokens.token_bytes(257).unwrap_err().kind, "argument");
        assert_eq!(shown("é\u{7}".as_bytes()), "é\\u{7}");
        assert_eq!(tokens.token(257).unwrap_err().kind, "argument");
        assert_eq!(tokens.decode(&tokens.encode("aé").unwrap()).unwrap(), "aé");
        assert_eq!((tokens.size(), tokens.mask_words(), tokens.ends()), (257, 9, vec![256]));
        assert_eq!(Tokenizer::from_json(b"{", &[]).unwrap_err().kind, "tokenizer");
    }
}
