//! The bytes of all text tokens as a trie, flat, in depth-first order: the form in which engines walk a vocabulary.
//!
//! A walk runs a byte automaton over every token at once and skips a whole subtree where the automaton stops. In depth-first order
//! that is one forward pass over an array. A node knows its depth (which state to step from) and the end of its subtree (where to
//! go on when a byte fails). A trie of child arrays with an explicit stack took about twice the time of this form, over 128,000
//! tokens.
//!
//! A token without bytes is not in the trie: allowing it would let a sequence grow without its text growing.

use std::sync::Arc;

use unskew_core::{MaskMut, TokenId, Vocabulary};

use crate::{
    ByteSet,
    fill::{self, ByteAutomaton, KindTokens, Kinds},
    quotient::Quotients,
};

/// One node: the last byte of a prefix of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    /// Index of the first node after this one's subtree.
    pub(crate) end: u32,
    /// The length of the prefix, minus one, in the high 24 bits; the byte in the low 8.
    depth_and_byte: u32,
    /// The tokens that spell this prefix: from here to the first token of the next node. There is none if the two are equal.
    pub(crate) first_token: u32,
}

/// A depth-first array of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ByteTrie {
    /// Depth-first, children in ascending order of bytes; the root is not stored. One sentinel node at the end.
    pub(crate) nodes: Vec<Node>,
    /// Token ids in the order of their bytes. Tokens of equal bytes are in the order of ids.
    pub(crate) tokens: Vec<TokenId>,
}

/// A vocabulary's text tokens as a depth-first array of bytes. Immutable, built once per vocabulary.
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
    bytes: ByteTrie,
    quotients: Quotients,
    /// The tokens that are in no quotient.
    irregular: ByteTrie,
    /// The nodes of single bytes.
    roots: Vec<(u8, u32)>,
    /// Nodes with at least [`MANY`] children, in ascending order, each with the index of its first child in the next list. Children
    /// lie far apart, and passing over all of them is most of a walk that reads few bytes.
    wide: Vec<(u32, u32)>,
    /// For each node the bytes of its children, in ascending order, and the children.
    children: Vec<(u8, u32)>,
    vocabulary: Arc<Vocabulary>,
    /// The longest token, in bytes.
    max_depth: usize,
    /// For each byte: whether it is a token.
    spelled: Box<[bool; 256]>,
}

/// The least number of children for which a search is faster than passing over them.
const MANY: usize = if cfg!(test) { 3 } else { 8 };

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

    /// The trie of the text tokens of `vocabulary`. O(b log n) for n tokens of b bytes together.
    ///
    /// # Errors
    ///
    /// [`TokenTooLong`] when a token is longer than [`MAX_TOKEN_LEN`](Self::MAX_TOKEN_LEN).
    pub fn new(vocabulary: impl Into<Arc<Vocabulary>>) -> Result<Self, TokenTooLong> {
        let vocabulary = vocabulary.into();
        let mut texts: Vec<(&[u8], TokenId)> = vocabulary
            .text_tokens()
            .filter(|(_, text)| !text.is_empty())
            .map(|(id, text)| (text, id))
            .collect();
        if let Some((text, token)) = texts.iter().find(|(text, _)| text.len() > Self::MAX_TOKEN_LEN) {
            return Err(TokenTooLong { token: *token, bytes: text.len(), limit: Self::MAX_TOKEN_LEN });
        }
        texts.sort_unstable();
        let mut spelled = Box::new([false; 256]);
        for (text, _) in &texts {
            if let [byte] = text {
                spelled[usize::from(*byte)] = true;
            }
        }
        let bytes = ByteTrie::new(&texts);
        let (quotients, irregular) = Quotients::new(&bytes.nodes, &bytes.tokens, vocabulary.len());
        let irregular: Vec<_> = irregular.into_iter().map(|index| texts[index]).collect();
        let irregular = ByteTrie::new(&irregular);
        let max_depth = texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        let siblings = |mut at: usize, end: usize| {
            let nodes = &bytes.nodes;
            std::iter::from_fn(move || {
                let node = (at < end).then_some((nodes[at].byte(), index(at)))?;
                at = nodes[at].end as usize;
                Some(node)
            })
        };
        let roots: Vec<(u8, u32)> = siblings(0, bytes.len()).collect();
        let (mut wide, mut children) = (Vec::new(), Vec::new());
        for (at, node) in bytes.nodes[..bytes.len()].iter().enumerate() {
            if node.end as usize - at > MANY && siblings(at + 1, node.end as usize).nth(MANY - 1).is_some() {
                wide.push((index(at), index(children.len())));
                children.extend(siblings(at + 1, node.end as usize));
            }
        }
        Ok(Self { bytes, quotients, irregular, roots, wide, children, max_depth, spelled, vocabulary })
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
        self.bytes.len()
    }

    /// Whether no token has text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some token is just `byte`. If that holds for all bytes of a text, tokens spell the text.
    #[inline]
    pub fn spells(&self, byte: u8) -> bool {
        self.spelled[usize::from(byte)]
    }

    /// The memory of the tables, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.bytes.memory_usage()
            + self.quotients.memory_usage()
            + self.irregular.memory_usage()
            + size_of_val(&self.wide[..])
            + size_of_val(&self.children[..])
    }

    /// Adds to `mask` the tokens that `automaton` allows from `start`. [`walk`](Self::walk) finds the same tokens in a multiple of
    /// the time: this method looks at classes of characters, and at single characters only where the automaton distinguishes them.
    ///
    /// Cost: a few microseconds where few tokens are allowed, some tens where many are. At most it is about the cost of a walk,
    /// where an automaton distinguishes all characters and yet allows most tokens.
    ///
    /// # Panics
    ///
    /// If the mask does not cover the ids of the vocabulary.
    pub fn fill<A: ByteAutomaton>(&self, automaton: &mut A, start: u32, mask: MaskMut<'_>) {
        assert_eq!(mask.as_ref().len(), self.vocab_len(), "the mask covers the ids of the vocabulary");
        fill::fill(&self.bytes, &self.irregular, &self.quotients, automaton, start, mask.into_words());
    }

    /// As [`fill`](Self::fill), with the tokens of each kind separate: those of [`Verdict::Kind`](crate::Verdict::Kind) at its
    /// number, and all others at 0. Separating the kinds takes no additional walk.
    pub fn fill_kinds<A: ByteAutomaton>(&self, automaton: &mut A, start: u32) -> Vec<KindTokens> {
        let mut kinds = Kinds::new(self.vocab_len());
        fill::fill_kinds(&self.bytes, &self.irregular, &self.quotients, automaton, start, &mut kinds);
        kinds.into_sets()
    }

    /// Whether [`fill_kinds`](Self::fill_kinds) walks to few letters from `start` separately.
    #[cfg(test)]
    pub(crate) fn is_diverted<A: ByteAutomaton>(&self, automaton: &mut A, start: u32) -> bool {
        fill::is_diverted(&self.bytes, &self.quotients, automaton, start, &mut Kinds::new(self.vocab_len()))
    }

    /// The length of the longest token, in bytes.
    pub fn longest(&self) -> usize {
        self.max_depth
    }

    /// The tokens that begin with `prefix`, in the order of their bytes.
    ///
    /// Cost: a search for each byte of `prefix`, up to the first byte that no token has at its place.
    pub fn beginning_with(&self, prefix: &[u8]) -> &[TokenId] {
        let Some((first, others)) = prefix.split_first().filter(|_| prefix.len() <= self.max_depth) else {
            return if prefix.is_empty() { &self.bytes.tokens } else { &[] };
        };
        let search = |children: &[(u8, u32)], byte: u8| {
            let found = children.binary_search_by_key(&byte, |(byte, _)| *byte).ok()?;
            Some(children[found].1 as usize)
        };
        let nodes = &self.bytes.nodes;
        let child = |node: usize, byte: u8| match self.wide_children(node) {
            Some(children) => search(children, byte),
            None => {
                let (mut at, end) = (node + 1, nodes[node].end as usize);
                while at < end && nodes[at].byte() < byte {
                    at = nodes[at].end as usize;
                }
                (at < end && nodes[at].byte() == byte).then_some(at)
            }
        };
        let first = search(&self.roots, *first);
        let node = first.and_then(|first| others.iter().try_fold(first, |at, byte| child(at, *byte)));
        let Some(node) = node else { return &[] };
        let end = nodes[node].end as usize;
        &self.bytes.tokens[nodes[node].first_token as usize..nodes[end].first_token as usize]
    }

    /// Runs an automaton over the bytes of every token, from `start`. Calls `visit` with each token that is read to its end and the
    /// state there, in the order of the tokens' bytes. Where `step` answers `None` for a prefix, the tokens below it are skipped.
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
        for (byte, root) in &self.roots {
            let Some(state) = step(start, *byte) else { continue };
            states.clear();
            states.push(state);
            if self.any_below(*root, &mut states, &mut step, &mut visit) {
                return true;
            }
        }
        false
    }

    /// As [`any`](Self::any), for an automaton that reads few bytes: `reads` answers with the bytes that are read from a state, and
    /// `step` is called with no others. `reads` and `visit` are handed `context`, which both may change.
    ///
    /// Cost: a search for each byte that is read after a prefix; where few tokens go on from the prefix, a look at each of them.
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
            children: Option<&'a [(u8, u32)]>,
            /// Without them: the next child to look at, and the end.
            at: usize,
            end: usize,
        }
        let nodes = &self.bytes.nodes;
        let mut open: Vec<Open<'_, S>> = Vec::new();
        let children = Some(&self.roots[..]);
        open.push(Open { state: start, reads: reads(context, start), children, at: 0, end: 0 });
        while let Some(last) = open.last_mut() {
            let next = match &mut last.children {
                Some(children) => loop {
                    let Some(byte) = last.reads.pop_first() else { break None };
                    let from = children.partition_point(|(other, _)| *other < byte);
                    *children = &children[from..];
                    if let Some((_, node)) = children.first().filter(|(other, _)| *other == byte) {
                        break Some(*node as usize);
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
            if self.own(node).iter().any(|token| visit(context, *token, state)) {
                return true;
            }
            let (at, end) = (node + 1, nodes[node].end as usize);
            if at < end {
                open.push(Open {
                    state,
                    reads: reads(context, state),
                    children: self.wide_children(node),
                    at,
                    end,
                });
            }
        }
        false
    }

    /// The children of a node, if the node has many.
    fn wide_children(&self, node: usize) -> Option<&[(u8, u32)]> {
        if self.bytes.nodes[node].end as usize - node <= MANY {
            return None;
        }
        let at = self.wide.binary_search_by_key(&index(node), |(node, _)| *node).ok()?;
        let end = self.wide.get(at + 1).map_or(self.children.len(), |(_, first)| *first as usize);
        Some(&self.children[self.wide[at].1 as usize..end])
    }

    /// The tokens that spell the prefix of `node`.
    fn own(&self, node: usize) -> &[TokenId] {
        let nodes = &self.bytes.nodes;
        &self.bytes.tokens[nodes[node].first_token as usize..nodes[node + 1].first_token as usize]
    }

    /// Goes on in the subtree of `root`. `states` holds the states after the bytes of its prefix, one by one.
    fn any_below<S: Copy>(
        &self,
        root: u32,
        states: &mut Vec<S>,
        step: &mut impl FnMut(S, u8) -> Option<S>,
        visit: &mut impl FnMut(TokenId, S) -> bool,
    ) -> bool {
        let root = root as usize;
        let (mut at, end) = (root, self.bytes.nodes[root].end as usize);
        while at < end {
            let node = self.bytes.nodes[at];
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
            if self.own(at).iter().any(|token| visit(*token, states[depth])) {
                return true;
            }
            at += 1;
        }
        false
    }
}

impl ByteTrie {
    /// The trie of `texts`, which ascend and are not empty.
    fn new(texts: &[(&[u8], TokenId)]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut tokens = Vec::with_capacity(texts.len());
        // The nodes of the current prefix, whose subtrees are still open.
        let mut open: Vec<usize> = Vec::new();
        let mut previous: &[u8] = &[];
        for (text, token) in texts {
            let shared = previous.iter().zip(*text).take_while(|(left, right)| left == right).count();
            // `previous` may be longer than the prefix that it shares with `text`: the subtrees of its other nodes are complete.
            for closed in open.drain(shared..) {
                nodes[closed].end = index(nodes.len());
            }
            for (depth, byte) in text.iter().enumerate().skip(shared) {
                open.push(nodes.len());
                let depth_and_byte = index(depth) << 8 | u32::from(*byte);
                nodes.push(Node { end: 0, depth_and_byte, first_token: index(tokens.len()) });
            }
            tokens.push(*token);
            previous = text;
        }
        for closed in open {
            nodes[closed].end = index(nodes.len());
        }
        nodes.push(Node { end: index(nodes.len()), depth_and_byte: 0, first_token: index(tokens.len()) });
        Self { nodes, tokens }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    fn memory_usage(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..])
    }
}

impl Node {
    #[inline]
    pub(crate) fn byte(self) -> u8 {
        (self.depth_and_byte & 0xff) as u8
    }

    #[inline]
    pub(crate) fn depth(self) -> usize {
        (self.depth_and_byte >> 8) as usize
    }
}

pub(crate) fn index(value: usize) -> u32 {
    u32::try_from(value).expect("a vocabulary holds less than 4 GiB of text")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::fill::Verdict;

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
            let trie = TokenTrie::new(vocabulary(&texts)).unwrap();
            let vocabulary = trie.vocabulary();
            let step = |state: u32, byte: u8| {
                (!refused.contains(&(state % 50, byte))).then(|| state.wrapping_mul(7).wrapping_add(u32::from(byte) + 1))
            };

            let mut visited = Vec::new();
            trie.walk(1, step, |token, state| visited.push((token, state)));
            let mut reading = Vec::new();
            let reads = |asked: &mut u32, state: u32| {
                *asked += 1;
                (0u8..5).filter(|byte| *byte == 4 || step(state, *byte).is_some()).collect()
            };
            let ends = trie.any_reading(&mut 0, 1, reads, step, |asked, token, state| {
                assert!(*asked > 0);
                reading.push((token, state));
                reading.len() == 20
            });
            prop_assert_eq!(ends, reading.len() == 20);
            prop_assert_eq!(&reading[..], &visited[..visited.len().min(20)]);
            visited.sort();

            let expected: Vec<_> = vocabulary
                .text_tokens()
                .filter(|(_, text)| !text.is_empty())
                .filter_map(|(id, text)| Some((id, text.iter().try_fold(1, |state, byte| step(state, *byte))?)))
                .collect();
            prop_assert_eq!(visited, expected);

            for prefix in texts.iter().flat_map(|text| (0..=text.len()).map(|len| &text[..len])).chain([&[3, 3, 9][..], &[4]]) {
                let mut found: Vec<_> = trie.beginning_with(prefix).to_vec();
                found.sort();
                let begins = |(_, text): &(TokenId, &[u8])| !text.is_empty() && text.starts_with(prefix);
                prop_assert_eq!(found, vocabulary.text_tokens().filter(begins).map(|(id, _)| id).collect::<Vec<_>>());
            }
        }
    }

    /// Texts of few characters, of one to four bytes, cut at any byte, so that quotients, members and irregular tokens all occur.
    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let char = prop::sample::select(vec![
            'a', 'b', 'c', 'Z', '0', '7', ' ', '"', 'é', 'ж', 'Ж', '日', '旦', '😀',
        ]);
        let text =
            (prop::collection::vec(char, 0..7), 0usize..3, 0usize..3).prop_map(|(chars, front, back)| {
                let text = chars.into_iter().collect::<String>().into_bytes();
                let keep = text.len().saturating_sub(back / 2);
                text[(front / 2).min(keep)..keep].to_vec()
            });
        prop::collection::vec(text, 0..400)
    }

    /// A random table with few classes, whose bounds lie at those of the symbols and between them, and with few states.
    #[derive(Debug)]
    struct Table {
        classes: [u8; 256],
        next: Vec<u32>,
        verdicts: Vec<Verdict>,
        asked: RefCell<Vec<(u32, TokenId)>>,
    }

    const STATES: usize = 5;
    const WIDTH: usize = 6;

    impl ByteAutomaton for &Table {
        fn class(&self, byte: u8) -> u8 {
            self.classes[usize::from(byte)]
        }

        fn step(&mut self, state: u32, byte: u8) -> u32 {
            self.next[state as usize * WIDTH + usize::from(self.class(byte))]
        }

        fn verdict(&mut self, state: u32) -> Verdict {
            self.verdicts[state as usize]
        }

        fn admits(&mut self, state: u32, token: TokenId) -> bool {
            self.asked.borrow_mut().push((state, token));
            !(token.0 + state).is_multiple_of(3)
        }
    }

    fn table() -> impl Strategy<Value = Table> {
        let bound = prop::sample::select(vec![
            b' ', b'"', b'#', b'0', b'5', b':', b'A', b'[', b'a', b'b', b'{', 0x80, 0x90, 0xa0, 0xb0, 0xc0,
            0xc2, 0xd0, 0xd1, 0xe0, 0xe6, 0xf0, 0xf5,
        ]);
        let bounds = prop::collection::vec((bound, 0..WIDTH as u8), 0..10);
        // States are mostly alive, and often stay the same.
        let target = prop_oneof![1 => Just(fill::DEAD), 3 => Just(0), 4 => 0..STATES as u32];
        let verdict = prop_oneof![6 => Just(Verdict::All), 1 => Just(Verdict::None), 1 => Just(Verdict::Each),
                3 => (1u8..4).prop_map(Verdict::Kind)];
        (bounds, prop::collection::vec(target, STATES * WIDTH), prop::collection::vec(verdict, STATES))
            .prop_map(|(mut bounds, next, verdicts)| {
                bounds.sort_unstable();
                let mut classes = [0; 256];
                for (bound, class) in bounds {
                    classes[usize::from(bound)..].fill(class);
                }
                Table { classes, next, verdicts, asked: RefCell::default() }
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// A mask holds the tokens that a run over each token's bytes allows, and the tokens that it held before.
        #[test]
        fn a_filled_mask_is_a_run_over_every_token(texts in texts(), table in table()) {
            let trie = TokenTrie::new(vocabulary(&texts)).unwrap();
            let vocabulary = trie.vocabulary();
            for start in 0..STATES as u32 {
                let mut mask = unskew_core::TokenMask::new(vocabulary.len());
                mask.as_mut().insert(TokenId::from_index(texts.len()));
                let mut automaton = &table;
                table.asked.take();
                trie.fill(&mut automaton, start, mask.as_mut());
                let end_of = |text: &[u8]| {
                    text.iter().try_fold(start, |state, byte| {
                        Some((&table).step(state, *byte)).filter(|next| *next != fill::DEAD)
                    })
                };
                for (state, token) in table.asked.take() {
                    prop_assert_eq!(Some(state), vocabulary.text(token).and_then(end_of));
                }
                let kind_of = |(id, text): (TokenId, &[u8])| {
                    let end = end_of(text);
                    let kind = match table.verdicts[end.filter(|_| !text.is_empty())? as usize] {
                        Verdict::All => Some(0),
                        Verdict::None => None,
                        Verdict::Each => (&table).admits(end?, id).then_some(0),
                        Verdict::Kind(kind) => Some(kind),
                    };
                    Some((id, kind?))
                };
                let kinds: Vec<(TokenId, u8)> = vocabulary.text_tokens().filter_map(kind_of).collect();
                let expected = kinds.iter().map(|(id, _)| *id).chain([TokenId::from_index(texts.len())]);
                prop_assert_eq!(mask.ids().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                let sets = trie.fill_kinds(&mut automaton, start);
                for kind in 0..4 {
                    let of_kind = kinds.iter().filter(|(_, other)| *other == kind).map(|(id, _)| *id);
                    let of_kind: Vec<TokenId> = of_kind.collect();
                    let found = sets.get(usize::from(kind)).cloned().unwrap_or(KindTokens::Few(vec![]));
                    prop_assert!(of_kind.len() <= KindTokens::FEW || matches!(found, KindTokens::Many(_)));
                    prop_assert_eq!(found.into_mask(vocabulary.len()).ids().collect::<Vec<_>>(), of_kind);
                }
            }
        }
    }

    #[test]
    fn a_trie_of_nothing_fills_nothing() {
        let trie = TokenTrie::new(vocabulary(&[])).unwrap();
        let mut mask = unskew_core::TokenMask::new(1);
        let mut table = fill::DenseTable { classes: &[0; 256], width: 1, next: &[0] };
        trie.fill(&mut table, 0, mask.as_mut());
        assert!(mask.none() && trie.is_empty());
    }

    /// One long run of a letter: the nesting of quotients is bounded, and so is the recursion through them.
    #[test]
    fn a_chain_of_tokens_is_no_danger() {
        let texts: Vec<Vec<u8>> = (1..3_000).map(|len| vec![b'a'; len]).collect();
        let trie = TokenTrie::new(vocabulary(&texts)).unwrap();
        let mut classes = [0; 256];
        classes[usize::from(b'a')] = 1;
        let mut table = fill::DenseTable { classes: &classes, width: 2, next: &[fill::DEAD, 0] };
        let mut mask = unskew_core::TokenMask::new(trie.vocab_len());
        trie.fill(&mut table, 0, mask.as_mut());
        assert_eq!(mask.count(), texts.len());
    }

    #[test]
    fn a_token_beyond_the_limit_is_an_error() {
        let error = TokenTrie::new(vocabulary(&[vec![0; TokenTrie::MAX_TOKEN_LEN + 1]])).unwrap_err();
        assert_eq!(error.to_string(), "token 0 is 65537 bytes long; the limit is 65536");
    }
}
