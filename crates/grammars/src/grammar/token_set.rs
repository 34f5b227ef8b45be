//! A set of tokens as a grammar writes it, for any vocabulary: ranges of ids and names, or all tokens but those.
//!
//! A grammar knows no vocabulary, so a set is resolved when a constraint is compiled. A mask of one vocabulary
//! ([`Terminal::OneOf`](crate::Terminal::OneOf)) would bind the text of a grammar to the tokenizer that reads it.

use unskew_core::{TokenId, TokenMask, Vocabulary};

use crate::GrammarError;

/// A set of tokens by their ids and names, such as `<[128000-128009]>` or all tokens but `<|end|>`.
///
/// Tokens that end a sequence belong to a set only if the set is that one token: no mask holds them. Ids that the
/// vocabulary lacks belong to no set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct TokenSet {
    /// Ranges of ids, first and last.
    pub ranges: Vec<(u32, u32)>,
    /// The names of control tokens, or the texts of other tokens.
    pub names: Vec<Box<str>>,
    /// Whether the set has all other tokens instead.
    pub complement: bool,
}

/// A [`TokenSet`] over one vocabulary.
pub(crate) enum Resolved {
    /// The token that ends the sequence.
    End,
    Tokens(TokenMask),
}

impl TokenSet {
    /// The tokens with the ids of `ranges`, first and last.
    pub fn of_ids(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self { ranges: ranges.into_iter().collect(), ..Self::default() }
    }

    /// The control token of this name, or else the token of this text.
    pub fn of_name(name: &str) -> Self {
        Self { names: vec![name.into()], ..Self::default() }
    }

    /// All other tokens.
    #[must_use]
    pub fn complement(mut self) -> Self {
        self.complement ^= true;
        self
    }

    /// The tokens of `vocabulary`. `name` is the text of the set.
    ///
    /// # Errors
    ///
    /// [`GrammarError::UnknownToken`] if the vocabulary lacks a name, or has no token of the set.
    pub(crate) fn resolve(&self, name: &str, vocabulary: &Vocabulary) -> Result<Resolved, GrammarError> {
        let unknown = |name: &str| GrammarError::UnknownToken { name: name.to_owned() };
        let mut listed = TokenMask::new(vocabulary.len());
        let size = u32::try_from(vocabulary.len()).expect("ids are numbers of 32 bits");
        for (first, last) in &self.ranges {
            for id in *first..size.min(last.saturating_add(1)) {
                listed.as_mut().insert(TokenId(id));
            }
        }
        for wanted in &self.names {
            let control = vocabulary.control_tokens().find(|(_, known)| **known == **wanted);
            // An added token that a decoder writes out has a text and no name.
            let text = || vocabulary.text_tokens().find(|(_, text)| *text == wanted.as_bytes());
            let token = control.map(|(token, _)| token).or_else(|| Some(text()?.0));
            listed.as_mut().insert(token.ok_or_else(|| unknown(wanted))?);
        }
        if !self.complement {
            let mut ids = listed.ids();
            let is_end = |id| vocabulary.is_end_of_sequence(id);
            if ids.next().is_some_and(is_end) && ids.all(is_end) {
                return Ok(Resolved::End);
            }
        }
        let mut tokens = written_tokens(vocabulary);
        match self.complement {
            true => listed.ids().for_each(|id| tokens.as_mut().remove(id)),
            false => tokens.as_mut().intersect(listed.as_ref()),
        }
        if tokens.none() { Err(unknown(name)) } else { Ok(Resolved::Tokens(tokens)) }
    }
}

/// The tokens that a mask may hold.
pub(crate) fn written_tokens(vocabulary: &Vocabulary) -> TokenMask {
    let texts = vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()).map(|(id, _)| id);
    let controls = vocabulary.control_tokens().map(|(id, _)| id);
    let mut written = TokenMask::new(vocabulary.len());
    let all = texts.chain(controls.filter(|id| !vocabulary.is_end_of_sequence(*id)));
    all.for_each(|id| written.as_mut().insert(id));
    written
}
