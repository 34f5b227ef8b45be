//! The tokens of a model: the meaning of each id, the tokens of a text, and the tokens that begin and end a sequence.
//!
//! A tokenizer, a model and its configuration each know a part of this. The configuration names the ids that end a
//! sequence, rows of logits may be longer or shorter than the tokenizer's vocabulary, and a model may need a first
//! token. An id without a logit is unused: no mask has it, and a text that needs it is an error. [`TokenSpace`] is the
//! three together, and constraints are compiled for it without any weights.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unskew_automata::{CanonicalIndex, TokenizerAutomaton};
use unskew_core::{TextOrder, TokenId, Vocabulary};
use unskew_trie::{TokenTrie, heal};
use unskew_vocab::{DecoderNote, Tokenizer, TokenizerError};

use crate::{Error, Result, compiler::Kept};

/// The tokens of a model.
pub struct TokenSpace {
    vocabulary: Arc<Vocabulary>,
    encoder: Encoder,
    /// The beginning of a text, for models that need a first token.
    begin: Vec<TokenId>,
    trie: OnceLock<Arc<TokenTrie>>,
    canonical: OnceLock<Arc<CanonicalIndex>>,
    order: OnceLock<Arc<TextOrder>>,
    /// The constraints of [`Compiler::shared`](crate::Compiler::shared).
    pub(crate) kept: OnceLock<Arc<Kept>>,
}

enum Encoder {
    Tokenizer(Box<Tokenizer>),
    /// A vocabulary alone has no tokenizer: a text is spelled with the fewest tokens.
    Fewest,
}

impl fmt::Debug for TokenSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSpace")
            .field("tokens", &self.vocabulary.len())
            .field("has_tokenizer", &self.has_tokenizer())
            .finish_non_exhaustive()
    }
}

impl TokenSpace {
    /// The tokens of a vocabulary without a tokenizer. A text is spelled with the fewest of them.
    pub fn from_vocabulary(vocabulary: impl Into<Arc<Vocabulary>>) -> Self {
        Self {
            vocabulary: vocabulary.into(),
            encoder: Encoder::Fewest,
            begin: Vec::new(),
            trie: OnceLock::new(),
            canonical: OnceLock::new(),
            order: OnceLock::new(),
            kept: OnceLock::new(),
        }
    }

    /// The tokens of a tokenizer for a model with rows of `len` entries (0: as many as the tokenizer has ids), whose
    /// configuration names `end` as the tokens that end a sequence (none: those of the tokenizer).
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where an id of `end` is no control token.
    pub fn from_tokenizer(tokenizer: Tokenizer, end: &[TokenId], len: usize) -> Result<Self> {
        let own = tokenizer.vocabulary();
        let len = if len == 0 { own.len() } else { len };
        let vocabulary = if end.is_empty() && own.len() == len {
            Arc::clone(own)
        } else {
            let mut vocabulary = Vocabulary::clone(own).padded(len);
            if !end.is_empty() {
                vocabulary = vocabulary.with_end_of_sequence(end).map_err(Error::tokens)?;
            }
            Arc::new(vocabulary.truncated(len))
        };
        let begin = tokenizer.begin_of_sequence().iter().copied().filter(|id| id.index() < len);
        Ok(Self {
            begin: begin.collect(),
            vocabulary,
            encoder: Encoder::Tokenizer(Box::new(tokenizer)),
            trie: OnceLock::new(),
            canonical: OnceLock::new(),
            order: OnceLock::new(),
            kept: OnceLock::new(),
        })
    }

    /// The same tokens with `begin` in front of an empty prompt, where the tokenizer names no token that begins a text.
    #[must_use]
    pub fn beginning_with(mut self, begin: impl IntoIterator<Item = TokenId>) -> Self {
        if self.begin.is_empty() {
            self.begin.extend(begin);
        }
        self
    }

    /// The vocabulary, as long as the rows of the model.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The trie of the vocabulary, which is built the first time: about 80 milliseconds for 128,000 tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where a token is too long.
    pub fn trie(&self) -> Result<Arc<TokenTrie>> {
        if let Some(trie) = self.trie.get() {
            return Ok(Arc::clone(trie));
        }
        let trie = Arc::new(TokenTrie::new(Arc::clone(&self.vocabulary)).map_err(Error::tokens)?);
        Ok(Arc::clone(self.trie.get_or_init(|| trie)))
    }

    /// The order of the vocabulary's texts, for outputs that end [freely](unskew_core::WithEnd), and for texts where
    /// there is no tokenizer. It is made the first time: about 50 milliseconds for 128,000 tokens.
    pub fn text_order(&self) -> &Arc<TextOrder> {
        self.order.get_or_init(|| Arc::new(TextOrder::new(Arc::clone(&self.vocabulary))))
    }

    /// The memory of the trie, of the order of texts, and of the index of canonical sequences, in bytes; the
    /// vocabulary and the tokenizer are not counted.
    pub fn memory_usage(&self) -> usize {
        let canonical = self.canonical.get();
        self.trie.get().map_or(0, |trie| trie.memory_usage())
            + self.order.get().map_or(0, |order| order.memory_usage())
            + canonical.map_or(0, |index| index.memory_usage() + index.automaton().memory_usage())
    }

    /// The tokens of a prompt, with the tokens that the tokenizer puts in front of a text.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where the tokens cannot spell it.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<TokenId>> {
        let mut ids = self.encoded(text, |tokenizer| tokenizer.encode(text, true))?;
        if ids.is_empty() {
            ids.clone_from(&self.begin);
        }
        Ok(ids)
    }

    /// The tokens of a text that has its special tokens in it, such as that of a chat template. None is put in front.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where the tokens cannot spell it.
    pub fn encode_whole(&self, text: &str) -> Result<Vec<TokenId>> {
        self.encoded(text, |tokenizer| tokenizer.encode(text, false))
    }

    /// The tokens of an output: those of the tokenizer for the text in the middle of another.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where the tokens cannot spell it.
    pub fn encode_output(&self, text: &str) -> Result<Vec<TokenId>> {
        self.encoded(text, |tokenizer| tokenizer.encode_continuation(text))
    }

    fn encoded(
        &self,
        text: &str,
        encode: impl FnOnce(&Tokenizer) -> std::result::Result<Vec<TokenId>, TokenizerError>,
    ) -> Result<Vec<TokenId>> {
        let ids = match &self.encoder {
            Encoder::Tokenizer(tokenizer) => encode(tokenizer).map_err(Error::tokens)?,
            Encoder::Fewest => self.text_order().spell(text.as_bytes()).map_err(|reached| {
                Error::tokens(format!("the model's tokens cannot spell the text from byte {reached} on"))
            })?,
        };
        let len = self.vocabulary.len();
        match ids.iter().find(|id| id.index() >= len) {
            Some(id) => Err(Error::tokens(format!(
                "the tokenizer writes the token {id}, and the model knows the ids below {len} alone"
            ))),
            None => Ok(ids),
        }
    }

    /// The text of an output, with replacement characters where it is not UTF-8.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        String::from_utf8_lossy(&self.vocabulary.decode(ids)).into_owned()
    }

    /// Whether there is a tokenizer, which writes one sequence for each text.
    pub fn has_tokenizer(&self) -> bool {
        matches!(self.encoder, Encoder::Tokenizer(_))
    }

    /// Whether the tokenizer itself writes these tokens for their text; `None` without a tokenizer.
    pub fn is_canonical(&self, ids: &[TokenId]) -> Option<bool> {
        let Encoder::Tokenizer(tokenizer) = &self.encoder else { return None };
        let Ok(text) = String::from_utf8(self.vocabulary.decode(ids)) else { return Some(false) };
        Some(tokenizer.is_continuation(&text, ids).unwrap_or(false))
    }

    /// The text that `ids` spell, control tokens by their names, where `text` is another: its tokenizer rewrote it, or
    /// has no token for a part. `None` too without a tokenizer, where a text is spelled as it is or not at all.
    pub fn read_as(&self, text: &str, ids: &[TokenId]) -> Option<String> {
        let Encoder::Tokenizer(tokenizer) = &self.encoder else { return None };
        tokenizer.read_as(text, ids).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether the tokenizer writes a space in front of a text, and of the text behind a control token.
    pub fn prepends_space(&self) -> bool {
        matches!(&self.encoder, Encoder::Tokenizer(tokenizer) if tokenizer.prepends_space())
    }

    /// Where the tokenizer's decoder makes another text than the bytes of tokens that constraints read.
    pub fn notes(&self) -> &[DecoderNote] {
        match &self.encoder {
            Encoder::Tokenizer(tokenizer) => tokenizer.notes(),
            Encoder::Fewest => &[],
        }
    }

    /// The tokens that the tokenizer itself writes for `text` in the middle of another; `None` without a tokenizer.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where the tokens cannot spell it.
    pub fn canonical(&self, text: &str) -> Result<Option<Vec<TokenId>>> {
        match &self.encoder {
            Encoder::Tokenizer(_) => self.encode_output(text).map(Some),
            Encoder::Fewest => Ok(None),
        }
    }

    /// The index that canonical constraints are made from: some milliseconds for each 10,000 tokens, the first time.
    pub(crate) fn canonical_index(&self) -> Result<Arc<CanonicalIndex>> {
        if let Some(index) = self.canonical.get() {
            return Ok(Arc::clone(index));
        }
        let Encoder::Tokenizer(tokenizer) = &self.encoder else { return Err(Self::no_tokenizer()) };
        let tokenization = tokenizer.tokenization().map_err(|error| {
            Error::combination(format!(
                "the tokenizer's own sequences cannot be enforced: {}",
                crate::chain(&error)
            ))
        })?;
        let automaton = TokenizerAutomaton::new(&self.vocabulary, tokenization).map_err(Error::constraint)?;
        let index = CanonicalIndex::new(Arc::new(automaton), self.trie()?);
        let index = index.map(Arc::new).map_err(Error::constraint)?;
        Ok(Arc::clone(self.canonical.get_or_init(|| index)))
    }

    pub(crate) fn no_tokenizer() -> Error {
        Error::combination(
            "`canonical` asks for the tokenizer's own sequences, and a table model has no tokenizer; name one with `tokenizer` FILE",
        )
    }

    /// Takes off `prompt` the tokens that a longer one begins with; answers with their text, which the output begins
    /// with then.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] where the text is not UTF-8, or a token is too long.
    pub fn heal(&self, prompt: &mut Vec<TokenId>) -> Result<String> {
        let (taken, text) = heal(prompt, &*self.trie()?);
        // A model may need a first token.
        let taken = if taken == prompt.len() && self.begin.is_empty() { 0 } else { taken };
        if taken == 0 {
            return Ok(String::new());
        }
        prompt.truncate(prompt.len() - taken);
        if prompt.is_empty() {
            prompt.clone_from(&self.begin);
        }
        String::from_utf8(text).map_err(Error::tokens)
    }
}
