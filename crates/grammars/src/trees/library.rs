//! The library of subterminal trees of a vocabulary.
//!
//! The trees are those of DOMINO (section 3.3), with four differences:
//!
//! - **By need.** The paper builds the trees of all states and all paths ahead of time (1 to 5 seconds for a
//!   grammar). Here a node is built when a parser first takes its path, by a walk over the vocabulary's
//!   [quotients](unskew_trie::TokenTrie::fill), in some tens of microseconds.
//! - **Shared.** Nodes are kept in a [`TreeLibrary`] by the terminal's minimal automaton, so the body of a string is
//!   the same node in ten thousand grammars.
//! - **Only exits.** A path leaves a terminal where the terminal cannot read the next byte. Where it could also read
//!   it (two names side by side), the terminals [overlap](crate::mask::fusion): that depends on the followers, which
//!   a node does not know. The mask compares the bytes, and fuses the terminals, or is built by a walk.
//! - **The end of a path is a trie** of the [suffixes](super::suffixes) of the tokens that leave it. Literals are
//!   read along it, and where an automaton comes next, the next node is built from the trie and not by a walk over
//!   the vocabulary.

use std::{fmt, sync::Arc};

use unskew_automata::{Dfa, StateId};
use unskew_core::{MaskRef, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{
    CountedUnits,
    kit::terminal::{
        ScanState,
        counted::{Bounds, FREE, Units},
    },
};
use unskew_trie::{ByteAutomaton, ByteSet, DEAD, KindTokens, TokenTrie, Verdict};

use super::{
    by_count::{TokensByCount, beyond},
    cache::{ExtendingOf, KeyTokensOf, LibraryCache, LibraryId, LibraryIds, LibraryStats, Measured},
    fused::{Next, fuse},
    key_tokens::KeyTokens,
    nodes::{FEW, NodeKey, Parent, SuffixReader, Tokens, TreeNode},
    permissive::{ByteLists, Permissive},
    suffixes::{Entered, Exit, Exits},
};
use crate::{
    ids::{Id, number},
    network::extending::extending,
    tuning::Tuning,
};

/// Subterminal trees of a vocabulary, shared by all grammars over it.
///
/// The library grows as grammars are used, up to its limit; then it evicts entries that were not asked for lately.
/// Threads may share it. A look-up takes its lock: when a grammar is compiled, and when a scratch first needs a node,
/// a fused automaton, a fragment of a mask or the tokens that contain a key. No lock is held while one of these is
/// built. Fragments of masks belong to one grammar each. Masks do not depend on the entries of the library.
///
/// A scratch refers to the nodes that it uses. It drops them at its first mask after the library has evicted entries;
/// until then an idle scratch keeps them in memory.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::Vocabulary;
/// use unskew_grammar::GrammarLimits;
/// use unskew_grammars::{GrammarConstraint, TreeLibrary};
/// use unskew_notation::from_gbnf;
/// use unskew_trie::TokenTrie;
///
/// let mut vocabulary = Vocabulary::builder();
/// for text in ["a", "b", "ab", "\"", "a\""] {
///     vocabulary.text(text.as_bytes());
/// }
/// let trie = Arc::new(TokenTrie::new(vocabulary.build()?)?);
/// let library = Arc::new(TreeLibrary::new(trie, 64 << 20));
///
/// let limits = GrammarLimits::default();
/// let grammar = from_gbnf(r#"root ::= "\"" [ab]+ "\"" "#, &limits)?;
/// let constraint = GrammarConstraint::with_library(&grammar, &library, &limits)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TreeLibrary {
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    pub(crate) tuning: Tuning,
    pub(crate) ids: LibraryIds,
    all: Exits,
    byte_lists: ByteLists,
    pub(crate) cache: LibraryCache,
}

/// An automaton and its number.
pub(crate) type NumberedDfa = (LibraryId, Arc<Dfa>);

impl TreeLibrary {
    /// An empty library of at most about `limit` bytes, without its tables of all tokens of `trie`.
    /// O(b) for b bytes of tokens: about 10 ms for 128,000 tokens.
    pub fn new(trie: Arc<TokenTrie>, limit: usize) -> Self {
        Self::with_tuning(trie, limit, Tuning::default())
    }

    /// As [`new`](Self::new), with other numbers than those that ship: for tests. Masks do not depend on them.
    #[doc(hidden)]
    pub fn with_tuning(trie: Arc<TokenTrie>, limit: usize, tuning: Tuning) -> Self {
        let vocabulary = Arc::clone(trie.vocabulary());
        let ids = LibraryIds::new();
        let mut tokens: Vec<Exit> = Vec::with_capacity(vocabulary.len());
        // In the order of their bytes.
        trie.walk(
            (),
            |(), _| Some(()),
            |token, ()| {
                let text = vocabulary.text(token).unwrap_or_default();
                let left = u32::try_from(text.len()).expect("tokens are short");
                tokens.extend(text.first().map(|byte| (*byte, token, left)));
            },
        );
        let all = Exits::new(&tokens, &ids);
        // Built here, so that no mask waits for them.
        all.groups.iter().for_each(|group| {
            group.build_trie(&vocabulary);
        });
        let byte_lists = ByteLists::new(&vocabulary);
        let cache = LibraryCache::new(limit);
        Self { vocabulary, trie, tuning, ids, all, byte_lists, cache }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The trie of the vocabulary.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// The entries of the library, and its look-ups so far. O(1).
    pub fn stats(&self) -> LibraryStats {
        self.cache.stats()
    }

    /// The memory of the library, in bytes: its entries, and its tables of all tokens. Vocabulary and trie are not
    /// counted. O(1).
    pub fn memory_usage(&self) -> usize {
        self.stats().bytes + self.all.memory_usage() + self.byte_lists.memory_usage()
    }

    /// All tokens, as the exits of an empty path.
    pub(crate) fn all(&self) -> &Exits {
        &self.all
    }

    /// The number of `dfa` in this library.
    pub(crate) fn automaton(&self, dfa: &Arc<Dfa>) -> LibraryId {
        self.cache.get(dfa).unwrap_or_else(|| self.cache.keep(Arc::clone(dfa), self.ids.next()))
    }

    /// The root of the tree of a state of `dfa`, which has the number `automaton`.
    pub(crate) fn root(&self, automaton: LibraryId, dfa: &Arc<Dfa>, state: StateId) -> Arc<TreeNode> {
        let key = NodeKey::Root((automaton, None), state);
        self.cache.get(&key).unwrap_or_else(|| self.keep(key, self.make_root(automaton, dfa, state)))
    }

    /// The node after `parent` where `reader` comes next.
    pub(crate) fn child(&self, parent: &Parent<'_>, reader: SuffixReader<'_>) -> Arc<TreeNode> {
        let key = NodeKey::Child(parent.key(), reader.language());
        self.cache.get(&key).unwrap_or_else(|| self.keep(key, self.make_child(parent, reader)))
    }

    /// The number of an automaton with units. `number` is that of the automaton alone.
    pub(crate) fn measured(&self, count: &CountedUnits, number: LibraryId) -> LibraryId {
        let key = Measured(number, Arc::clone(count.unit_states()));
        self.cache.get(&key).unwrap_or_else(|| self.cache.keep(key, self.ids.next()))
    }

    /// The root of the tree of an automaton with counted units in `state`. The numbers are that of the automaton and
    /// that [with units](Self::measured).
    pub(crate) fn counted(
        &self,
        count: &CountedUnits,
        (number, measured): (LibraryId, LibraryId),
        state: ScanState,
    ) -> Arc<TreeNode> {
        let at = count.at(state);
        let root = || self.root(number, count.dfa(), at);
        let bounds = count.left(state, self.longest());
        if bounds == FREE {
            return root();
        }
        let key = (measured, at);
        let tokens = match self.cache.get(&key) {
            Some(tokens) => tokens,
            None => {
                let root = root();
                if let Some(few) = self.in_question(count.units(), bounds) {
                    let beyond = beyond(count.units(), at, (&root, few), bounds, &self.vocabulary);
                    let Some((bounds, beyond)) = beyond else { return root };
                    let key = NodeKey::Root((measured, Some(bounds)), at);
                    let made = || self.keep(key, self.without(&root, &beyond));
                    return self.cache.get(&key).unwrap_or_else(made);
                }
                let lists = &self.byte_lists;
                let made = TokensByCount::new(count.units(), at, &root, &self.vocabulary, lists);
                self.cache.keep(key, Arc::new(made))
            }
        };
        let bounds = tokens.told_apart(bounds);
        if bounds == FREE {
            return root();
        }
        let key = NodeKey::Root((measured, Some(bounds)), at);
        self.cache.get(&key).unwrap_or_else(|| {
            let exits = Exits::new(&tokens.exits(bounds), &self.ids);
            // A text that may end must end.
            let extending = ByteSet::default();
            self.keep(key, TreeNode { id: self.ids.next(), inside: tokens.inside(bounds), exits, extending })
        })
    }

    /// The tokens that may be beyond the bounds of units, if they are few. A unit takes a byte at least, and no unit
    /// ends after a token only if the closing mark begins in it: where an automaton has other ends, there is no least
    /// number.
    fn in_question(&self, units: &Units, (min, max): Bounds) -> Option<[&[TokenId]; 2]> {
        let longer = match max {
            Some(max) => self.byte_lists.longer(max.saturating_sub(units.greatest()) as usize),
            None => &[],
        };
        let closing = match units.close().first().filter(|byte| byte.is_ascii()) {
            _ if min == 0 => &[],
            first => self.byte_lists.having(*first?),
        };
        let len = longer.len() + closing.len();
        (len <= self.tuning.counted_read).then_some([longer, closing])
    }

    /// The node of the same tokens but `beyond`, which are in ascending order.
    fn without(&self, root: &TreeNode, beyond: &[TokenId]) -> TreeNode {
        let stays = |token: &TokenId| beyond.binary_search(token).is_err();
        let inside = match &root.inside {
            Tokens::Few(tokens) => Tokens::Few(tokens.iter().filter(|token| stays(token)).copied().collect()),
            Tokens::Many(words) => {
                let mut mask = MaskRef::new(words, self.vocabulary.len()).to_owned();
                beyond.iter().for_each(|token| mask.as_mut().remove(*token));
                Tokens::of(mask.as_ref())
            }
        };
        let exits: Vec<Exit> = root.exits.tokens().filter(|(_, token, _)| stays(token)).collect();
        // A text that may end must end.
        let extending = ByteSet::default();
        TreeNode { id: self.ids.next(), inside, exits: Exits::new(&exits, &self.ids), extending }
    }

    /// The length of the longest token.
    pub(crate) fn longest(&self) -> u32 {
        number(self.trie.longest())
    }

    /// The concatenation of the language of `dfa` from `state` on and `next`, as an automaton with its number. `None`
    /// where that is too large.
    pub(crate) fn fused(
        &self,
        (number, dfa): (LibraryId, &Dfa),
        state: StateId,
        next: &Next<'_>,
    ) -> Option<NumberedDfa> {
        let key = (number, ScanState::from_index(state.index()), next.key());
        self.cache.get(&key).unwrap_or_else(|| {
            let made = fuse(dfa, state, next, &self.tuning).map(|dfa| {
                let dfa = Arc::new(dfa);
                (self.automaton(&dfa), dfa)
            });
            self.cache.keep(key, made)
        })
    }

    /// The tokens in which `first` occurs before `last`; or, if `are_two` is false, in which `first` occurs.
    pub(crate) fn around(&self, first: u8, last: u8, are_two: bool) -> Arc<[TokenId]> {
        let key = (first, last, are_two);
        if let Some(known) = self.cache.get(&key) {
            return known;
        }
        let found = self.vocabulary.text_tokens().filter(|(_, text)| {
            let begin = text.iter().position(|byte| *byte == first);
            begin.is_some_and(|begin| !are_two || text[begin + 1..].contains(&last))
        });
        self.cache.keep(key, found.map(|(token, _)| token).collect())
    }

    /// The tokens that contain a text of the automaton of this number, computed by `made` if they are not known.
    pub(crate) fn key_tokens(
        &self,
        automaton: LibraryId,
        made: impl FnOnce() -> KeyTokens,
    ) -> Arc<KeyTokens> {
        let key = KeyTokensOf(automaton);
        self.cache.get(&key).unwrap_or_else(|| self.cache.keep(key, Arc::new(made())))
    }

    /// As [`extending`] computes them.
    pub(crate) fn extending(&self, automaton: LibraryId, dfa: &Dfa) -> ByteSet {
        let key = ExtendingOf(automaton);
        self.cache.get(&key).unwrap_or_else(|| self.cache.keep(key, extending(dfa)))
    }

    fn keep(&self, key: NodeKey, node: TreeNode) -> Arc<TreeNode> {
        self.cache.keep(key, Arc::new(node))
    }

    fn make_root(&self, automaton: LibraryId, dfa: &Dfa, state: StateId) -> TreeNode {
        let (inside, exits) = match self.byte_lists.root(dfa, state, &self.vocabulary, &self.tuning) {
            Some(Permissive { inside, exits }) => (Tokens::of(inside.as_ref()), exits),
            None => {
                let (inside, exits) = self.walk(dfa, state);
                (inside.map_or(Tokens::Few(Box::default()), |mask| Tokens::of(mask.as_ref())), exits)
            }
        };
        let exits = Exits::new(&exits, &self.ids);
        let extending = self.extending(automaton, dfa);
        TreeNode { id: self.ids.next(), inside, exits, extending }
    }

    /// The tokens that end in `dfa`, which begins in `state`, and those that leave it, by a walk over the vocabulary.
    fn walk(&self, dfa: &Dfa, state: StateId) -> (Option<TokenMask>, Vec<Exit>) {
        let mut reader = ExitReader::new(dfa, state);
        let mut kinds = self.trie.fill_kinds(&mut reader, ExitReader::START).into_iter();
        let mut next = || {
            let kind = kinds.next().filter(|kind| !matches!(kind, KindTokens::Few(few) if few.is_empty()))?;
            Some(kind.into_mask(self.vocabulary.len()))
        };
        let (inside, exits) = (next(), next());
        let exits = exits.iter().flat_map(TokenMask::ids).map(|token| {
            let text = self.vocabulary.text(token).unwrap_or_default();
            let exit = reader.exit(text);
            (text[exit], token, u32::try_from(text.len() - exit).expect("tokens are short"))
        });
        (inside, exits.collect())
    }

    /// As [`walk`](Self::walk), to compare with.
    #[cfg(test)]
    pub(crate) fn walked(&self, dfa: &Dfa, state: StateId) -> (Vec<TokenId>, Vec<Exit>) {
        let (inside, exits) = self.walk(dfa, state);
        (inside.iter().flat_map(TokenMask::ids).collect(), exits)
    }

    /// Reads the suffixes of `parent`.
    fn make_child(&self, parent: &Parent<'_>, reader: SuffixReader<'_>) -> TreeNode {
        let mut entered = Entered::default();
        match parent {
            Parent::Exits(node) => {
                for group in node.exits.groups.iter().filter(|group| reader.begins(group.byte)) {
                    reader.enter(group.trie(self), None, &mut entered);
                }
            }
            Parent::Suffix(group, at) => {
                reader.enter(group.trie(self), Some(*at), &mut entered);
            }
        }
        let Entered { inside, exits } = entered;
        let inside = if inside.len() <= FEW {
            Tokens::Few(inside.into())
        } else {
            let mut mask = TokenMask::new(self.vocabulary.len());
            inside.iter().for_each(|token| mask.as_mut().insert(*token));
            Tokens::of(mask.as_ref())
        };
        let exits = Exits::new(&exits, &self.ids);
        let extending = self.extending(reader.number, reader.dfa);
        TreeNode { id: self.ids.next(), inside, exits, extending }
    }
}

impl fmt::Debug for TreeLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeLibrary").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// An automaton from one of its states on, as a walk over the vocabulary sees it. A token leaves it where it cannot
/// be read and the automaton may end, but not before its first byte.
struct ExitReader<'d> {
    dfa: &'d Dfa,
    start: StateId,
    /// The state of tokens that have left it.
    left: u32,
}

impl<'d> ExitReader<'d> {
    /// Before the first byte. The numbers of the automaton's states are one higher here.
    const START: u32 = 0;

    fn new(dfa: &'d Dfa, start: StateId) -> Self {
        Self { dfa, start, left: number(dfa.len()) + 1 }
    }

    /// The number of bytes that the automaton reads of `text`, which leaves it.
    fn exit(&self, text: &[u8]) -> usize {
        let mut state = self.start;
        let goes_on = text.iter().take_while(|byte| match self.dfa.step(state, **byte) {
            Some(next) => {
                state = next;
                true
            }
            None => false,
        });
        goes_on.count()
    }
}

impl ByteAutomaton for ExitReader<'_> {
    fn class(&self, byte: u8) -> u8 {
        self.dfa.classes().get(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if state == self.left {
            return state;
        }
        let at = match state {
            Self::START => self.start,
            state => StateId::from_index(state as usize - 1),
        };
        match self.dfa.step(at, byte) {
            Some(next) => number(next.index()) + 1,
            None if state != Self::START && self.dfa.is_accepting(at) => self.left,
            None => DEAD,
        }
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        Verdict::Kind(u8::from(state == self.left))
    }
}
