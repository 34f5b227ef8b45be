//! The tokens of a vocabulary as a trie: the public face of the crate.

use std::sync::Arc;

use unskew_core::{MaskMut, TokenId, Vocabulary};

use crate::{
    ByteSet, KindTokens,
    alphabet::Alphabet,
    automaton::ByteAutomaton,
    byte_trie::{ByteTrie, Child, Children},
    ids::Id,
    quotient::Quotients,
    safe::SymbolsBelow,
    tuning::Tuning,
    walk::{self, Kinds, Tables},
};

/// A vocabulary's text tokens as a trie, with the vocabulary. Immutable, built once per vocabulary and shared through
/// an [`Arc`].
///
/// A token without bytes is not in the trie: allowing it would let a sequence grow without its text growing.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "ab", "b", "ba"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = TokenTrie::new(builder.build()?)?;
///
/// // Which tokens are runs of `a`? The state is their length so far.
/// let mut found = Vec::new();
/// trie.walk(0, |run, byte| (byte == b'a').then_some(run + 1), |token, run| found.push((token, run)));
/// assert_eq!(found, [(TokenId(0), 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenTrie {
    vocabulary: Arc<Vocabulary>,
    tables: Tables,
    children: Children,
    /// The longest token, in bytes.
    longest: usize,
    alphabet: Alphabet,
}

/// A token that is longer than the trie can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("token {token} is {bytes} bytes long; the limit is {limit}")]
#[non_exhaustive]
pub struct TokenTooLong {
    /// The token.
    pub token: TokenId,
    /// Its length, in bytes.
    pub bytes: usize,
    /// The longest supported token, in bytes.
    pub limit: usize,
}

impl TokenTrie {
    /// The longest token that a trie can hold, in bytes.
    pub const MAX_TOKEN_LEN: usize = 1 << 16;

    /// The trie of the text tokens of `vocabulary`, which it keeps. O(b log n) for n tokens of b bytes together:
    /// about 80 ms and 20 MB for 128,000 tokens.
    ///
    /// # Errors
    ///
    /// [`TokenTooLong`] when a token is longer than [`MAX_TOKEN_LEN`](Self::MAX_TOKEN_LEN).
    pub fn new(vocabulary: impl Into<Arc<Vocabulary>>) -> Result<Self, TokenTooLong> {
        Self::with_tuning(vocabulary.into(), Tuning::default())
    }

    /// As [`new`](Self::new), with other numbers than those that ship. Masks are the same.
    pub(crate) fn with_tuning(vocabulary: Arc<Vocabulary>, tuning: Tuning) -> Result<Self, TokenTooLong> {
        let mut texts: Vec<(&[u8], TokenId)> = vocabulary
            .text_tokens()
            .filter(|(_, text)| !text.is_empty())
            .map(|(id, text)| (text, id))
            .collect();
        if let Some((text, token)) = texts.iter().find(|(text, _)| text.len() > Self::MAX_TOKEN_LEN) {
            return Err(TokenTooLong { token: *token, bytes: text.len(), limit: Self::MAX_TOKEN_LEN });
        }
        texts.sort_unstable();
        let alphabet = Alphabet::new(texts.iter().map(|(text, _)| *text));
        let bytes = ByteTrie::new(&texts);
        let (quotients, irregular) = Quotients::new(&bytes, vocabulary.len(), tuning);
        let irregular: Vec<_> = irregular.into_iter().map(|index| texts[index]).collect();
        let irregular = ByteTrie::new(&irregular);
        let longest = texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        let children = Children::new(&bytes, tuning.searched_children);
        let below = SymbolsBelow::new(&bytes);
        let tables = Tables { bytes, below, quotients, irregular };
        Ok(Self { vocabulary, tables, children, longest, alphabet })
    }

    /// The vocabulary.
    #[inline]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The number of ids of the vocabulary, which the masks cover.
    #[inline]
    pub fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    /// The number of distinct non-empty prefixes of tokens.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether no token has text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the longest token, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The bytes and the characters that the tokens write.
    #[inline]
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The memory of the tables, in bytes; the vocabulary, which may be shared, is not counted.
    pub fn memory_usage(&self) -> usize {
        let Tables { bytes, below, quotients, irregular } = &self.tables;
        bytes.memory_usage()
            + below.memory_usage()
            + quotients.memory_usage()
            + irregular.memory_usage()
            + self.children.memory_usage()
    }

    /// Adds to `mask` the tokens that `automaton` allows from `start`. [`walk`](Self::walk) finds the same tokens in
    /// a multiple of the time: this method looks at classes of characters, and at single characters only where the
    /// automaton distinguishes them.
    ///
    /// Cost: a few microseconds where few tokens are allowed, some tens where many are. At most it is about the cost
    /// of a walk, where an automaton distinguishes all characters and yet allows most tokens.
    ///
    /// # Panics
    ///
    /// If the mask does not cover the ids of the vocabulary.
    pub fn fill<A: ByteAutomaton>(&self, automaton: &mut A, start: u32, mask: MaskMut<'_>) {
        assert_eq!(mask.len(), self.vocab_len(), "the mask covers the ids of the vocabulary");
        walk::fill(&self.tables, automaton, start, mask.into_words());
    }

    /// As [`fill`](Self::fill), with the tokens of each kind separate: those of
    /// [`Verdict::Kind`](crate::Verdict::Kind) at its number, and all others at 0. Separating the kinds takes no
    /// additional walk.
    pub fn fill_kinds<A: ByteAutomaton>(&self, automaton: &mut A, start: u32) -> Vec<KindTokens> {
        let mut kinds = Kinds::new(self.vocab_len(), self.tables.quotients.tuning.kind_list_tokens);
        walk::fill(&self.tables, automaton, start, &mut kinds);
        kinds.into_sets()
    }

    /// The tokens that begin with `prefix`, in the order of their bytes.
    ///
    /// Cost: a search for each byte of `prefix`, up to the first byte that no token has at its place.
    pub fn beginning_with(&self, prefix: &[u8]) -> &[TokenId] {
        if prefix.is_empty() {
            return &self.bytes().tokens;
        }
        let node = if prefix.len() > self.longest { None } else { self.children.find(self.bytes(), prefix) };
        node.map_or(&[], |node| self.bytes().below(node))
    }

    /// Runs an automaton over the bytes of every token, from `start`. Calls `visit` with each token that is read to
    /// its end and the state there, in the order of the tokens' bytes. Where `step` answers `None` for a prefix, the
    /// tokens below it are skipped.
    ///
    /// Cost: one `step` for every prefix whose proper prefixes were all read; at most [`len`](Self::len).
    pub fn walk<S: Copy>(
        &self,
        start: S,
        step: impl FnMut(S, u8) -> Option<S>,
        mut visit: impl FnMut(TokenId, S),
    ) {
        self.any(start, step, |token, state| {
            visit(token, state);
            false
        });
    }

    /// As [`walk`](Self::walk), but ends as soon as `visit` answers true. Answers whether it did.
    pub fn any<S: Copy>(
        &self,
        start: S,
        mut step: impl FnMut(S, u8) -> Option<S>,
        mut visit: impl FnMut(TokenId, S) -> bool,
    ) -> bool {
        let mut states: Vec<S> = Vec::new();
        for (byte, root) in &self.children.roots {
            let Some(state) = step(start, *byte) else { continue };
            states.clear();
            states.push(state);
            if self.any_below(root.index(), &mut states, &mut step, &mut visit) {
                return true;
            }
        }
        false
    }

    /// As [`any`](Self::any), for an automaton that reads few bytes: `reads` answers with the bytes that are read
    /// from a state, and `step` is called with no others. `reads` and `visit` are handed `context`, which both may
    /// change.
    ///
    /// Cost: a search for each byte that is read after a prefix; where few tokens go on from the prefix, a look at
    /// each of them.
    pub fn any_reading<C, S: Copy>(
        &self,
        context: &mut C,
        start: S,
        reads: impl Fn(&mut C, S) -> ByteSet,
        step: impl Fn(S, u8) -> Option<S>,
        mut visit: impl FnMut(&mut C, TokenId, S) -> bool,
    ) -> bool {
        /// A prefix, with its children that are left.
        struct Open<'a, S> {
            state: S,
            reads: ByteSet,
            /// The children to search, for the bytes that are read and were not searched for yet.
            children: Option<&'a [Child]>,
            /// Without them: the next child to look at, and the end.
            at: usize,
            end: usize,
        }
        let nodes = &self.bytes().nodes;
        let mut open: Vec<Open<'_, S>> = Vec::new();
        let children = Some(&self.children.roots[..]);
        open.push(Open { state: start, reads: reads(context, start), children, at: 0, end: 0 });
        while let Some(last) = open.last_mut() {
            let next = match &mut last.children {
                Some(children) => loop {
                    let Some(byte) = last.reads.pop_first() else { break None };
                    let from = children.partition_point(|(other, _)| *other < byte);
                    *children = &children[from..];
                    if let Some((_, node)) = children.first().filter(|(other, _)| *other == byte) {
                        break Some(node.index());
                    }
                },
                None => loop {
                    if last.at == last.end {
                        break None;
                    }
                    let node = last.at;
                    last.at = nodes[node].end as usize;
                    if last.reads.contains(nodes[node].byte()) {
                        break Some(node);
                    }
                },
            };
            let Some(node) = next else {
                open.pop();
                continue;
            };
            let Some(state) = step(last.state, nodes[node].byte()) else { continue };
            if self.bytes().own(node).iter().any(|token| visit(context, *token, state)) {
                return true;
            }
            let (at, end) = (node + 1, nodes[node].end as usize);
            if at < end {
                open.push(Open {
                    state,
                    reads: reads(context, state),
                    children: self.children.of(self.bytes(), node),
                    at,
                    end,
                });
            }
        }
        false
    }

    /// Goes on in the subtree of `root`. `states` holds the states after the bytes of its prefix, one by one.
    fn any_below<S: Copy>(
        &self,
        root: usize,
        states: &mut Vec<S>,
        step: &mut impl FnMut(S, u8) -> Option<S>,
        visit: &mut impl FnMut(TokenId, S) -> bool,
    ) -> bool {
        let (mut at, end) = (root, self.bytes().nodes[root].end as usize);
        while at < end {
            let node = self.bytes().nodes[at];
            let depth = node.depth();
            if at > root {
                match step(states[depth - 1], node.byte()) {
                    None => {
                        at = node.end as usize;
                        continue;
                    }
                    Some(state) => {
                        states.truncate(depth);
                        states.push(state);
                    }
                }
            }
            if self.bytes().own(at).iter().any(|token| visit(*token, states[depth])) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The trie of all tokens.
    #[inline]
    fn bytes(&self) -> &ByteTrie {
        &self.tables.bytes
    }

    /// The tables, for tests of their parts.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests;
