//! Forced continuations: tokens, bytes, and the tokens that the tokenizer writes for these bytes.
//!
//! Three questions with three answers, of which only the first is free of consequences:
//!
//! | | it is | to take it |
//! |---|---|---|
//! | [`forced_tokens`](Matcher::forced_tokens) | tokens, each the only one allowed | changes no distribution |
//! | [`forced_text`](Matcher::forced_text) | bytes that every continuation begins with | says nothing of tokens |
//! | [`forced_text_tokens`](Matcher::forced_text_tokens) | the tokenizer's spelling of these bytes | changes the distribution |
//!
//! The last one changes the distribution over token sequences: other spellings of the same text, which the model may
//! have written, are given up.

use unskew_core::{AnyState, Constraint, TokenId};
use unskew_trie::heal;

use super::{Matcher, MatcherError};
use crate::Error;

impl Matcher {
    /// The tokens that follow in any case: each is the only one that is allowed, and the output may not end in front
    /// of it. At most `most` of them. To take them changes no distribution.
    ///
    /// # Errors
    ///
    /// [`MatcherError::Limit`] where the output grows beyond a limit.
    pub fn forced_tokens(&self, most: usize) -> Result<Vec<TokenId>, MatcherError> {
        let mut tokens = Vec::new();
        if self.is_terminated() {
            return Ok(tokens);
        }
        let mut state = self.state().clone();
        while tokens.len() < most {
            let pool = &self.compiled.pool;
            let forced = pool.with(&self.slot, |constraint, scratch| constraint.forced(scratch, &state));
            let Some(token) = forced else { break };
            if self.is_stop(token) || !self.step(&mut state, token)? {
                break;
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// Bytes that every continuation begins with: all of them, up to `most`, where the constraint is one on texts.
    /// Under a constraint on token sequences (canonical ones, the items of a set) it may stop where two tokens begin
    /// alike, and a control token ends it.
    ///
    /// Cost: a mask for each branch, and a step for each byte.
    ///
    /// # Errors
    ///
    /// As [`forced_tokens`](Self::forced_tokens).
    pub fn forced_text(&self, most: usize) -> Result<Vec<u8>, MatcherError> {
        let mut bytes = Vec::new();
        if self.is_terminated() {
            return Ok(bytes);
        }
        let vocabulary = self.vocabulary();
        let mut words = vec![0; self.mask_words()];
        let mut state = self.state().clone();
        while bytes.len() < most && !self.compiled.is_accepting(&state) {
            self.compiled.pool.fill_mask(&self.slot, &state, &mut words);
            let mut only = None;
            let mut common: Option<&[u8]> = None;
            for id in unskew_core::MaskRef::new(&words, self.compiled.vocab_len()).into_ids() {
                only = if common.is_none() { Some(id) } else { None };
                // A control token has no text, so that nothing is common.
                let text = vocabulary.text(id).unwrap_or_default();
                let before = common.unwrap_or(text);
                let len = before.iter().zip(text).take_while(|(left, right)| left == right).count();
                common = Some(&before[..len]);
                if len == 0 {
                    break;
                }
            }
            let common = common.unwrap_or_default();
            if common.is_empty() {
                break;
            }
            bytes.extend_from_slice(common);
            let goes_on = match only {
                Some(token) => self.step(&mut state, token)?,
                None => self.compiled.pool.is_of_text() && self.step_bytes(&mut state, common)?,
            };
            if !goes_on {
                break;
            }
        }
        bytes.truncate(most);
        Ok(bytes)
    }

    /// The tokens that the tokenizer writes for [`forced_text`](Self::forced_text), as far as they do not depend on
    /// the text after it: the last ones are left out where a longer token begins with their text. To take them
    /// **changes the distribution** over token sequences, for the model may have spelled the text otherwise; the text
    /// itself is the same in any case. Under a canonical constraint the model writes no others.
    ///
    /// # Errors
    ///
    /// As [`forced_tokens`](Self::forced_tokens). A text that is not UTF-8, or that the tokens cannot spell, gives
    /// none.
    pub fn forced_text_tokens(&self, most: usize) -> Result<Vec<TokenId>, MatcherError> {
        let bytes = self.forced_text(most)?;
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        let spelled = self.compiled.tokens.encode_output(text).and_then(|tokens| {
            let trie = self.compiled.tokens.trie()?;
            let (taken, _) = heal(&tokens, &trie);
            Ok::<_, Error>(tokens[..tokens.len() - taken].to_vec())
        });
        let Ok(mut tokens) = spelled else { return Ok(Vec::new()) };
        let allowed = self.validate(&tokens)?;
        tokens.truncate(allowed);
        Ok(tokens)
    }

    /// Reads bytes by the tokens of single bytes. `false` where the vocabulary lacks one.
    fn step_bytes(&self, state: &mut AnyState, bytes: &[u8]) -> Result<bool, MatcherError> {
        let Ok(trie) = self.compiled.tokens.trie() else { return Ok(false) };
        for byte in bytes {
            let mut beginning = trie.beginning_with(&[*byte]).iter().copied();
            let Some(token) =
                beginning.find(|id| self.vocabulary().text(*id).is_some_and(|text| text.len() == 1))
            else {
                return Ok(false);
            };
            if !self.step(state, token)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
