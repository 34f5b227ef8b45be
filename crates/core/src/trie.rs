//! The bytes of all text tokens as a trie, flat, in depth-first order: the form in which engines walk a vocabulary.
//!
//! A walk runs a byte automaton over every token at once and skips a whole subtree where the automaton stops. In
//! depth-first order that is one forward pass over an array, where a node knows its depth (which state to step from)
//! and where its subtree ends (where to go on when a byte fails); a trie of child arrays with an explicit stack was
//! measured at about twice the time of this form, over 128,000 tokens.
//!
//! A token without bytes is not in the trie: allowing it would let a sequence grow without its text growing.

use crate::{TokenId, Vocabulary};

/// One node: the last byte of the prefix that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    /// Index of the first node after this one's subtree.
    end: u32,
    /// The length of the prefix, minus one; in the high 24 bits. The byte is in the low 8.
    depth_and_byte: u32,
    /// The tokens that spell this prefix: from here to the first token of the next node, none if they are equal.
    first_token: u32,
}

/// A vocabulary's text tokens as a depth-first array of bytes. Immutable, built once per vocabulary.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenTrie, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "ab", "b", "ba"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = TokenTrie::new(&builder.build()?)?;
///
/// // Which tokens are runs of `a`? The state is their length so far.
/// let mut found = Vec::new();
/// trie.walk(0, |run, byte| (byte == b'a').then_some(run + 1), |token, run| found.push((token, run)));
/// assert_eq!(found, [(TokenId(0), 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenTrie {
    /// Depth-first, children in ascending order of bytes; the root is not stored. One sentinel node at the end.
    nodes: Vec<Node>,
    /// Token ids in the order of their bytes, then of ids.
    tokens: Vec<TokenId>,
    vocab_len: usize,
    /// The longest token, in bytes.
    max_depth: usize,
}

/// A token is longer than the trie can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("token {token} is {bytes} bytes long; the limit is {limit}")]
#[non_exhaustive]
pub struct TokenTooLong {
    /// The token.
    pub token: TokenId,
    /// Its length, in bytes.
    pub bytes: usize,
    /// The longest that is supported, in bytes.
    pub limit: usize,
}

impl TokenTrie {
    /// The longest token that a trie can hold, in bytes.
    pub const MAX_TOKEN_LEN: usize = 1 << 16;

    /// The trie of the text tokens of `vocabulary`. O(b log n) for n tokens of b bytes together.
    ///
    /// # Errors
    ///
    /// [`TokenTooLong`] when a token is longer than [`MAX_TOKEN_LEN`](Self::MAX_TOKEN_LEN).
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, TokenTooLong> {
        let mut texts: Vec<(&[u8], TokenId)> = vocabulary
            .text_tokens()
            .filter(|(_, text)| !text.is_empty())
            .map(|(id, text)| (text, id))
            .collect();
        if let Some((text, token)) = texts.iter().find(|(text, _)| text.len() > Self::MAX_TOKEN_LEN) {
            return Err(TokenTooLong { token: *token, bytes: text.len(), limit: Self::MAX_TOKEN_LEN });
        }
        texts.sort_unstable();

        let mut nodes: Vec<Node> = Vec::new();
        let mut tokens = Vec::with_capacity(texts.len());
        // The nodes of the current prefix, whose subtrees are still open.
        let mut open: Vec<usize> = Vec::new();
        let mut previous: &[u8] = &[];
        for (text, token) in texts {
            let shared = previous.iter().zip(text).take_while(|(left, right)| left == right).count();
            // `previous` may be longer than what it shares with `text`: those subtrees are complete.
            for closed in open.drain(shared..) {
                nodes[closed].end = index(nodes.len());
            }
            for (depth, byte) in text.iter().enumerate().skip(shared) {
                open.push(nodes.len());
                let depth_and_byte = index(depth) << 8 | u32::from(*byte);
                nodes.push(Node { end: 0, depth_and_byte, first_token: index(tokens.len()) });
            }
            tokens.push(token);
            previous = text;
        }
        for closed in open {
            nodes[closed].end = index(nodes.len());
        }
        let max_depth = nodes.iter().map(|node| node.depth() + 1).max().unwrap_or(0);
        nodes.push(Node { end: index(nodes.len()), depth_and_byte: 0, first_token: index(tokens.len()) });
        Ok(Self { nodes, tokens, vocab_len: vocabulary.len(), max_depth })
    }

    /// The number of ids of the vocabulary, which the masks cover.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// The number of distinct non-empty prefixes of tokens.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether no token has text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the tables take, in bytes.
    pub fn memory_usage(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..])
    }

    /// Runs an automaton over the bytes of every token, from `start`, and calls `visit` with each token that is read
    /// to its end and the state there, in the order of the tokens' bytes. A prefix on which `step` answers `None` is
    /// left with all that lies below it.
    ///
    /// Cost: one `step` for every prefix whose proper prefixes were all read; at most [`len`](Self::len).
    pub fn walk<S: Copy>(
        &self,
        start: S,
        mut step: impl FnMut(S, u8) -> Option<S>,
        mut visit: impl FnMut(TokenId, S),
    ) {
        // states[d] is the state after the first d bytes of the current prefix.
        let mut states = vec![start; self.max_depth + 1];
        let end = self.len();
        let mut at = 0;
        while at < end {
            let node = self.nodes[at];
            let depth = node.depth();
            match step(states[depth], node.byte()) {
                None => at = node.end as usize,
                Some(state) => {
                    states[depth + 1] = state;
                    at += 1;
                    let own = node.first_token as usize..self.nodes[at].first_token as usize;
                    for token in &self.tokens[own] {
                        visit(*token, state);
                    }
                }
            }
        }
    }
}

impl Node {
    #[inline]
    fn byte(self) -> u8 {
        (self.depth_and_byte & 0xff) as u8
    }

    #[inline]
    fn depth(self) -> usize {
        (self.depth_and_byte >> 8) as usize
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("a vocabulary holds less than 4 GiB of text")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vocabulary(texts: &[Vec<u8>]) -> Vocabulary {
        let mut builder = Vocabulary::builder();
        for text in texts {
            builder.text(text);
        }
        builder.control("<end>");
        builder.build().unwrap()
    }

    proptest! {
        /// A walk visits exactly the tokens whose bytes a per-token run of the automaton reads, with the same state.
        #[test]
        fn a_walk_is_a_run_over_every_token(
            texts in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..60),
            refused in prop::collection::vec((0u32..50, 0u8..4), 0..20),
        ) {
            let vocabulary = vocabulary(&texts);
            let trie = TokenTrie::new(&vocabulary).unwrap();
            let step = |state: u32, byte: u8| {
                (!refused.contains(&(state % 50, byte))).then(|| state.wrapping_mul(7).wrapping_add(u32::from(byte) + 1))
            };

            let mut visited = Vec::new();
            trie.walk(1, step, |token, state| visited.push((token, state)));
            visited.sort();

            let expected: Vec<_> = vocabulary
                .text_tokens()
                .filter(|(_, text)| !text.is_empty())
                .filter_map(|(id, text)| Some((id, text.iter().try_fold(1, |state, byte| step(state, *byte))?)))
                .collect();
            prop_assert_eq!(visited, expected);
        }
    }

    #[test]
    fn a_token_beyond_the_limit_is_an_error() {
        let error = TokenTrie::new(&vocabulary(&[vec![0; TokenTrie::MAX_TOKEN_LEN + 1]])).unwrap_err();
        assert_eq!(error.to_string(), "token 0 is 65537 bytes long; the limit is 65536");
    }
}
