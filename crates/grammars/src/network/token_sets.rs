//! Sets of tokens over one vocabulary.
//!
//! A grammar writes a set for any vocabulary, as ids and names ([`TokenSet`]), and it is resolved when a constraint is
//! compiled.

use unskew_core::{TokenId, TokenMask, Vocabulary};
use unskew_grammar::{GrammarError, TokenSet};

/// A [`TokenSet`] over one vocabulary.
pub(crate) enum Resolved {
    /// The token that ends the sequence.
    End,
    Tokens(TokenMask),
}

/// The tokens of `set` in `vocabulary`. `name` is the text of the set.
///
/// # Errors
///
/// [`GrammarError::UnknownToken`] if the vocabulary lacks a name, or has no token of the set.
pub(crate) fn resolve(set: &TokenSet, name: &str, vocabulary: &Vocabulary) -> Result<Resolved, GrammarError> {
    let unknown = |name: &str| GrammarError::UnknownToken { name: name.to_owned() };
    let mut listed = TokenMask::new(vocabulary.len());
    let size = u32::try_from(vocabulary.len()).expect("ids are numbers of 32 bits");
    for (first, last) in &set.ranges {
        for id in *first..size.min(last.saturating_add(1)) {
            listed.as_mut().insert(TokenId(id));
        }
    }
    for wanted in &set.names {
        let control = vocabulary.control_tokens().find(|(_, known)| **known == **wanted);
        // An added token that a decoder writes out has a text and no name.
        let text = || vocabulary.text_tokens().find(|(_, text)| *text == wanted.as_bytes());
        let token = control.map(|(token, _)| token).or_else(|| Some(text()?.0));
        listed.as_mut().insert(token.ok_or_else(|| unknown(wanted))?);
    }
    if !set.complement {
        let mut ids = listed.ids();
        let is_end = |id| vocabulary.is_end_of_sequence(id);
        if ids.next().is_some_and(is_end) && ids.all(is_end) {
            return Ok(Resolved::End);
        }
    }
    let mut tokens = vocabulary.mask_tokens();
    match set.complement {
        true => listed.ids().for_each(|id| tokens.as_mut().remove(id)),
        false => tokens.as_mut().intersect(listed.as_ref()),
    }
    if tokens.none() { Err(unknown(name)) } else { Ok(Resolved::Tokens(tokens)) }
}
