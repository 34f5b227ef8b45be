//! Token healing: the end of a prompt, given back to the model.
//!
//! A prompt that ends in `http:` ends in the token `:`. After it a model hardly ever writes `//`: in its training
//! `://` was one token. So the last tokens are removed where a longer token begins with their text, and the output
//! must begin with that text instead. (Guidance's token healing; DOMINO, section 3.5, forces the text through the
//! grammar.)

use unskew_core::TokenId;

use crate::TokenTrie;

/// The most tokens that are removed.
const MAX_TOKENS: usize = 8;

/// The number of the last tokens of `prompt` to remove, and their text, with which the output must then begin.
///
/// The removed tokens are as many as together begin a longer token, at most eight. Control tokens stay. The text is
/// valid UTF-8 if that of the prompt is and that of its tokens is.
///
/// Cost: O(b + c) for b bytes and c continuations of each beginning.
///
/// # Example
///
/// ```
/// use unskew_core::Vocabulary;
/// use unskew_trie::{TokenTrie, heal};
///
/// let mut builder = Vocabulary::builder();
/// let [http, colon, slashes] = ["http", ":", "://"].map(|text| builder.text(text.as_bytes()));
/// let trie = TokenTrie::new(builder.build()?)?;
/// assert_eq!(heal(&[http, colon], &trie), (1, b":".to_vec()));
/// assert_eq!(heal(&[http, slashes], &trie), (0, Vec::new()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn heal(prompt: &[TokenId], trie: &TokenTrie) -> (usize, Vec<u8>) {
    let mut text: Vec<u8> = Vec::new();
    let mut best = (0, Vec::new());
    for (index, token) in prompt.iter().rev().take(MAX_TOKENS).enumerate() {
        let Some(bytes) = trie.vocabulary().text(*token).filter(|bytes| !bytes.is_empty()) else { break };
        text.splice(0..0, bytes.iter().copied());
        let goes_on = trie.any(
            0,
            |at: usize, byte| match text.get(at) {
                Some(expected) => (*expected == byte).then_some(at + 1),
                None => Some(at + 1),
            },
            |_, read| read > text.len(),
        );
        if goes_on && std::str::from_utf8(&text).is_ok() {
            best = (index + 1, text.clone());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use unskew_core::Vocabulary;

    use super::*;

    #[test]
    fn several_tokens_and_control_tokens() {
        let mut builder = Vocabulary::builder();
        let [a, b, _abc, c, ce] =
            ["a", "b", "abc", "\u{c3}", "\u{c3}\u{a9}"].map(|text| builder.text(text.as_bytes()));
        let half = builder.text(&[0xc3]);
        let end = builder.control("<end>");
        let trie = TokenTrie::new(builder.build().unwrap()).unwrap();
        assert_eq!(heal(&[c, a, b], &trie), (2, b"ab".to_vec()));
        assert_eq!(heal(&[b, a], &trie), (1, b"a".to_vec()));
        assert_eq!(heal(&[b, end], &trie), (0, vec![]));
        // The output cannot be required to begin with half a character.
        assert_eq!(heal(&[half], &trie), (0, vec![]));
        assert_eq!(heal(&[], &trie), (0, vec![]));
        assert_eq!(heal(&[ce], &trie), (0, vec![]));
    }
}
