//! Subterminal trees: which tokens read which sequence of terminals, found once per tokenizer and not once per grammar.
//!
//! From a state of a terminal's automaton, a token stays inside the terminal, or it leaves it and goes on in the next one,
//! and so on: that is a path of *subterminals*, and the tokens of one path are a node of the tree of that state (DOMINO,
//! section 3.3). A node depends on nothing but the automata on its path. A mask then asks the parser which paths it can
//! take, and is the union of their nodes' tokens.
//!
//! What differs from the paper:
//!
//! - **By need.** The paper builds the trees of all states and all paths ahead of time (1 to 5 seconds for a grammar). Here
//!   a node is made when a parser first takes its path, by a walk over the vocabulary's
//!   [quotients](unskew_trie::TokenTrie::fill), some tens of microseconds.
//! - **Shared.** Nodes are kept in a [`TreeLibrary`] by the terminal's minimal automaton, so the body of a string is the same
//!   node in ten thousand grammars.
//! - **Only exits.** A path leaves a terminal where the terminal cannot go on. Where it could go on as well as leave (two
//!   names side by side), the readings are ambiguous; that depends on what may follow, which a node does not know. Whoever
//!   asks compares the bytes and takes the general way where they meet.
//! - **The end of a path is a trie** of what is left of the tokens that leave it ([`remainders`](crate::trees::remainders)). Literals are
//!   read along it, and where an automaton reads on, the next node is made from it and not by a walk over the vocabulary.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unskew_automata::{Dfa, StateId};
use unskew_core::{MaskRef, TokenId, TokenMask, Vocabulary};
use unskew_trie::{ByteAutomaton, ByteSet, DEAD, KindTokens, TokenTrie, Verdict};

use super::holding::Holding;
use super::{
    bodies::Bodies,
    joined::{Next, join},
    kept::{BodiesOf, ExtendingOf, HoldingOf, Kept, LibraryId, LibraryIds, LibraryStats},
    remainders::{At, Entered, Exits, Group, PER_TOKEN, Trie},
    wide::{ByteLists, Wide},
};
use crate::{Counted, ids::NONE, terminal::extending::extending};

/// Sets with at most so many tokens are lists: 512 are written into a mask in less time than a mask of 128,000 bits is
/// copied twice.
const FEW: usize = 512;

/// See [`TreeLibrary::worth_keeping`].
const WORTH_KEEPING: usize = 64;

/// What a scratch takes for a node that a library keeps.
const ENTRY: usize = 128;

/// Tokens of a node.
#[derive(Debug)]
pub(crate) enum Tokens {
    Few(Box<[TokenId]>),
    Many(Box<[u32]>),
}

/// The tokens of a path, and how it goes on.
#[derive(Debug)]
pub(crate) struct Node {
    /// Among all groups and nodes of a library.
    pub(crate) id: LibraryId,
    /// Whether a library keeps it, or has kept it.
    pub(crate) is_kept: bool,
    /// The tokens that end inside the last terminal.
    pub(crate) inside: Tokens,
    pub(crate) exits: Exits,
    /// The bytes with which the last terminal may go on where it might also end.
    pub(crate) extending: ByteSet,
}

/// An automaton of a library, by its number; of counted units, that without bounds, and the bounds as far as a token can tell.
pub(crate) type Language = (LibraryId, Option<(u32, Option<u32>)>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// An automaton and a state of it.
    Root(Language, u32),
    /// [`Parent::key`] and the automaton behind it.
    Child((LibraryId, At), Language),
    /// Counted units and a state of one.
    Inside(Language, u32),
}

/// What reads what is left of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads<'a> {
    /// An automaton, with its number.
    Automaton(LibraryId, &'a Dfa),
    /// Counted units, with the number of their automaton without bounds, and the bounds as far as a token can tell.
    Counted(LibraryId, &'a Counted, (u32, Option<u32>)),
}

impl Reads<'_> {
    fn language(&self) -> Language {
        match self {
            Self::Automaton(number, _) => (*number, None),
            Self::Counted(number, _, bounds) => (*number, Some(*bounds)),
        }
    }

    /// Reads what is left of the tokens of `group`, from `at` on or from the first byte, from `state` of counted units or from
    /// the start of an automaton.
    fn enter(&self, trie: &Trie, at: Option<At>, state: Option<u32>, entered: &mut Entered) {
        match *self {
            Self::Automaton(_, dfa) => trie.enter(
                at,
                dfa.start(),
                |state, byte| dfa.step(state, byte),
                |state| dfa.is_accepting(state),
                entered,
            ),
            Self::Counted(_, counted, _) => trie.enter(
                at,
                state.unwrap_or_else(|| counted.start()),
                |state, byte| Some(counted.step(state, byte)).filter(|next| *next != NONE),
                |state| counted.is_accepting(state),
                entered,
            ),
        }
    }

    fn begins(&self, byte: u8) -> bool {
        match self {
            Self::Automaton(_, dfa) => dfa.step(dfa.start(), byte).is_some(),
            Self::Counted(_, counted, _) => counted.step(counted.start(), byte) != NONE,
        }
    }
}

/// Where a path goes on with another automaton.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent<'a> {
    /// Where it is left.
    Exits(&'a Node),
    /// Behind literals, that is at a place of a trie among the exits of a node, or of all tokens.
    Behind(Option<&'a Node>, &'a Group, At),
}

impl Parent<'_> {
    /// Which one it is.
    pub(crate) fn key(&self) -> (LibraryId, At) {
        match self {
            Self::Exits(node) => (node.id, At::MAX),
            Self::Behind(_, group, at) => (group.id, *at),
        }
    }
}

/// Subterminal trees of a vocabulary, shared by all grammars over it.
///
/// It grows as grammars are used, up to its limit; then entries that nobody has asked for lately are evicted. Threads may share it:
/// it is locked for a look-up when a grammar is compiled and when a scratch meets a terminal's state for the first time, and
/// not while a node is made. With the trees it keeps parts of masks, each for one grammar. Masks do not depend on what it holds.
///
/// A scratch refers to the nodes that it has met. It lets go of them at its first mask after the library has evicted entries; until
/// then an idle scratch keeps what it refers to in memory.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::Vocabulary;
/// use unskew_trie::TokenTrie;
/// use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, TreeLibrary};
///
/// let mut vocabulary = Vocabulary::builder();
/// for text in ["a", "b", "ab", "\"", "a\""] {
///     vocabulary.text(text.as_bytes());
/// }
/// let trie = Arc::new(TokenTrie::new(vocabulary.build()?)?);
/// let library = Arc::new(TreeLibrary::new(trie, 64 << 20));
///
/// let limits = GrammarLimits::default();
/// let grammar = Grammar::from_gbnf(r#"root ::= "\"" [ab]+ "\"" "#, &limits)?;
/// let constraint = GrammarConstraint::with_library(&grammar, &library, &limits)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TreeLibrary {
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    least_work: usize,
    pub(crate) ids: LibraryIds,
    all: Exits,
    byte_lists: ByteLists,
    longest: OnceLock<(u32, Box<[TokenId]>)>,
    pub(crate) kept: Kept,
}

/// An automaton and its number.
pub(crate) type Numbered = (LibraryId, Arc<Dfa>);

/// The marks, and the number of the unit's automaton between them.
pub(crate) type Marked = (Box<[u8]>, LibraryId, Box<[u8]>);

impl TreeLibrary {
    /// An empty library of at most about `limit` bytes, besides what it knows of all tokens of `trie`.
    /// O(b) for b bytes of tokens: some 10 ms for 128,000 of them.
    pub fn new(trie: Arc<TokenTrie>, limit: usize) -> Self {
        let vocabulary = Arc::clone(trie.vocabulary());
        let ids = LibraryIds::new();
        let mut tokens: Vec<(u8, TokenId, u32)> = Vec::with_capacity(vocabulary.len());
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
        let all = Exits::new(&tokens, false, &ids);
        // Nobody waits for them while a mask is made.
        all.groups.iter().for_each(|group| {
            group.make_trie(&vocabulary);
        });
        let byte_lists = ByteLists::new(&vocabulary);
        Self {
            vocabulary,
            trie,
            least_work: WORTH_KEEPING,
            ids,
            all,
            byte_lists,
            longest: OnceLock::new(),
            kept: Kept::new(limit),
        }
    }

    /// Keeps a node behind others only if it takes at least so many steps to make it from what is left of their tokens. Those
    /// that take fewer are made by each scratch that meets them, which is no more work than to look for them. Default: 64. With 0,
    /// a scratch also keeps all parts of masks, and not only those that take long. Masks do not depend on it.
    #[must_use]
    pub fn worth_keeping(self, least: usize) -> Self {
        Self { least_work: least, ..self }
    }

    /// Whether everything is kept that can be.
    pub(crate) fn keeps_all(&self) -> bool {
        self.least_work == 0
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The trie of the vocabulary.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// What the library holds within its limit, and how often it was asked. O(1).
    pub fn stats(&self) -> LibraryStats {
        self.kept.stats()
    }

    /// The memory that the library takes, in bytes: its entries, and what it knows of all tokens. Vocabulary and trie are not
    /// counted. O(1).
    pub fn memory_usage(&self) -> usize {
        self.stats().bytes + self.all.memory_usage() + self.byte_lists.memory_usage()
    }

    /// All tokens, as if they had left an empty path.
    pub(crate) fn all(&self) -> &Exits {
        &self.all
    }

    /// The number of `dfa` in this library.
    pub(crate) fn automaton(&self, dfa: &Arc<Dfa>) -> LibraryId {
        self.kept.get(dfa).unwrap_or_else(|| self.kept.keep(Arc::clone(dfa), self.ids.next()))
    }

    /// The root of the tree of `state`, which `dfa` of number `automaton` is in.
    pub(crate) fn root(&self, automaton: LibraryId, dfa: &Arc<Dfa>, state: StateId) -> Arc<Node> {
        let key = Key::Root((automaton, None), u32::try_from(state.index()).expect("limited"));
        self.kept.get(&key).unwrap_or_else(|| self.keep(key, self.make_root(automaton, dfa, state)))
    }

    /// The node behind `parent` where `reads` comes next.
    pub(crate) fn child(&self, parent: &Parent<'_>, reads: Reads<'_>) -> Arc<Node> {
        let key = Key::Child(parent.key(), reads.language());
        let is_kept = match parent {
            Parent::Exits(node) => node.is_kept,
            Parent::Behind(node, ..) => node.is_none_or(|node| node.is_kept),
        };
        let known = if is_kept { self.kept.get(&key) } else { None };
        known.unwrap_or_else(|| self.keep(key, self.make_child(parent, reads, is_kept)))
    }

    /// The root of the tree of counted units in `state`, which is in one of their marks. `number` is that of their automaton
    /// without bounds.
    pub(crate) fn mark(
        &self,
        counted: &Counted,
        number: LibraryId,
        state: u32,
        bounds: (u32, Option<u32>),
    ) -> Arc<Node> {
        let reads = Reads::Counted(number, counted, bounds);
        let key = Key::Root(reads.language(), state);
        if let Some(known) = self.kept.get(&key) {
            return known;
        }
        let mut entered = Entered::default();
        for group in &self.all.groups {
            if counted.step(state, group.byte) != NONE {
                reads.enter(group.trie(self), None, Some(state), &mut entered);
            }
        }
        self.keep(key, self.entered(entered, reads, true))
    }

    /// The root of the tree in the state `at` of a unit, behind which so many units may follow. `unbounded` is the automaton of
    /// `counted` without bounds, with its number.
    pub(crate) fn inside(
        &self,
        counted: &Counted,
        (number, unbounded): (LibraryId, &Arc<Dfa>),
        at: StateId,
        (min, max): (u32, Option<u32>),
    ) -> Arc<Node> {
        let unit_state = u32::try_from(at.index()).expect("limited");
        let key = Key::Inside((number, Some((min, max))), unit_state);
        if let Some(known) = self.kept.get(&key) {
            return known;
        }
        let state = unbounded.run(unbounded.start(), &counted.text_to(at)).expect("a beginning of its texts");
        let root = self.root(number, unbounded, state);
        if (min, max) == (0, None) {
            return root;
        }
        let bodies = self.bodies((number, unit_state), || Bodies::new(counted, at, &root, &self.vocabulary));
        let inside = bodies.inside(min, max);
        let exits = Exits::new(&bodies.exits(min, max), true, &self.ids);
        let extending = self.extending(number, unbounded);
        self.keep(key, Node { id: self.ids.next(), is_kept: true, inside, exits, extending })
    }

    fn bodies(&self, key: BodiesOf, made: impl FnOnce() -> Bodies) -> Arc<Bodies> {
        self.kept.get(&key).unwrap_or_else(|| self.kept.keep(key, Arc::new(made())))
    }

    /// The length of the longest token that is not out of the ordinary; and those that are.
    pub(crate) fn longest(&self) -> (u32, &[TokenId]) {
        /// Beyond this many bytes a token is looked at by itself where it makes a difference. Real ones have up to 256.
        const ORDINARY: usize = 256;
        let (longest, others) = self.longest.get_or_init(|| {
            let lens = self.vocabulary.text_tokens().map(|(_, text)| text.len());
            let longest = lens.max().unwrap_or(0).min(ORDINARY);
            let others = self.vocabulary.text_tokens().filter(|(_, text)| text.len() > ORDINARY);
            (u32::try_from(longest).expect("it is small"), others.map(|(token, _)| token).collect())
        });
        (*longest, others)
    }

    /// The automaton of `counted` without bounds, and its number.
    pub(crate) fn unbounded(&self, counted: &Counted) -> Numbered {
        let (open, close) = counted.marks();
        let key: Marked = (open.into(), self.automaton(counted.unit()), close.into());
        self.kept.get(&key).unwrap_or_else(|| {
            let made = Arc::new(counted.unbounded());
            let number = self.automaton(&made);
            self.kept.keep(key, (number, made))
        })
    }

    /// What `dfa` of this number reads from `state` on and then `next`, as one automaton with its number. `None` where that is too
    /// large.
    pub(crate) fn joined(
        &self,
        (number, dfa): (LibraryId, &Dfa),
        state: StateId,
        next: &Next<'_>,
    ) -> Option<Numbered> {
        let key = (number, u32::try_from(state.index()).expect("limited"), next.key());
        self.kept.get(&key).unwrap_or_else(|| {
            let made = join(dfa, state, next).map(|dfa| {
                let dfa = Arc::new(dfa);
                (self.automaton(&dfa), dfa)
            });
            self.kept.keep(key, made)
        })
    }

    /// The tokens in which `first` comes before `last`; or, where these are not two but one place, in which it comes.
    pub(crate) fn around(&self, first: u8, last: u8, are_two: bool) -> Arc<[TokenId]> {
        let key = (first, last, are_two);
        if let Some(known) = self.kept.get(&key) {
            return known;
        }
        let found = self.vocabulary.text_tokens().filter(|(_, text)| {
            let begin = text.iter().position(|byte| *byte == first);
            begin.is_some_and(|begin| !are_two || text[begin + 1..].contains(&last))
        });
        self.kept.keep(key, found.map(|(token, _)| token).collect())
    }

    /// The tokens that hold a text of the automaton of this number, as `made` says.
    pub(crate) fn holding(&self, automaton: LibraryId, made: impl FnOnce() -> Holding) -> Arc<Holding> {
        let key = HoldingOf(automaton);
        self.kept.get(&key).unwrap_or_else(|| self.kept.keep(key, Arc::new(made())))
    }

    /// As [`extending`] says.
    fn extending(&self, automaton: LibraryId, dfa: &Dfa) -> ByteSet {
        let key = ExtendingOf(automaton);
        self.kept.get(&key).unwrap_or_else(|| self.kept.keep(key, extending(dfa)))
    }

    fn keep(&self, key: Key, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        if !node.is_kept {
            return node;
        }
        self.kept.keep(key, node)
    }

    fn make_root(&self, automaton: LibraryId, dfa: &Dfa, state: StateId) -> Node {
        let (inside, exits) = match self.byte_lists.root(dfa, state, &self.vocabulary) {
            Some(Wide { inside, exits }) => {
                (Tokens::of(inside.as_ref()), Exits::new(&exits, true, &self.ids))
            }
            None => {
                let (inside, exits) = self.walk(dfa, state);
                let inside = inside.map_or(Tokens::Few(Box::default()), |mask| Tokens::of(mask.as_ref()));
                (inside, Exits::new(&exits, true, &self.ids))
            }
        };
        let extending = self.extending(automaton, dfa);
        Node { id: self.ids.next(), is_kept: true, inside, exits, extending }
    }

    /// The tokens that end in `dfa`, which begins in `state`, and those that leave it: with which byte, and how many bytes are left
    /// with that one. By a walk over the vocabulary.
    fn walk(&self, dfa: &Dfa, state: StateId) -> (Option<TokenMask>, Vec<(u8, TokenId, u32)>) {
        let mut reader = Reader::new(dfa, state);
        let mut kinds = self.trie.fill_kinds(&mut reader, Reader::START).into_iter();
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
    pub(crate) fn walked(&self, dfa: &Dfa, state: StateId) -> (Vec<TokenId>, Vec<(u8, TokenId, u32)>) {
        let (inside, exits) = self.walk(dfa, state);
        (inside.iter().flat_map(TokenMask::ids).collect(), exits)
    }

    /// By reading what is left of tokens.
    fn make_child(&self, parent: &Parent<'_>, reads: Reads<'_>, is_kept: bool) -> Node {
        let mut entered = Entered::default();
        match parent {
            Parent::Exits(node) => {
                for group in node.exits.groups.iter().filter(|group| reads.begins(group.byte)) {
                    reads.enter(group.trie(self), None, None, &mut entered);
                }
            }
            Parent::Behind(_, group, at) => {
                reads.enter(group.trie(self), Some(*at), None, &mut entered);
            }
        }
        let is_kept = is_kept && entered.work >= self.least_work;
        self.entered(entered, reads, is_kept)
    }

    fn entered(&self, entered: Entered, reads: Reads<'_>, is_kept: bool) -> Node {
        let Entered { inside, exits, .. } = entered;
        let inside = if inside.len() <= FEW {
            Tokens::Few(inside.into())
        } else {
            let mut mask = TokenMask::new(self.vocabulary.len());
            inside.iter().for_each(|token| mask.as_mut().insert(*token));
            Tokens::of(mask.as_ref())
        };
        let exits = Exits::new(&exits, is_kept, &self.ids);
        let extending = match reads {
            Reads::Automaton(number, dfa) => self.extending(number, dfa),
            // Where they may end, they must.
            Reads::Counted(..) => ByteSet::default(),
        };
        Node { id: self.ids.next(), is_kept, inside, exits, extending }
    }
}

impl fmt::Debug for TreeLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeLibrary").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Node {
    /// What a scratch that refers to it takes for it: what a library keeps is counted there.
    pub(crate) fn memory_in_scratch(&self) -> usize {
        // Tries of exits may come later.
        if self.is_kept { ENTRY } else { self.memory_usage() + self.exits.len() * PER_TOKEN }
    }

    /// The tokens inside as a mask, if they are many.
    pub(crate) fn words(&self) -> Option<&[u32]> {
        match &self.inside {
            Tokens::Many(words) => Some(words),
            Tokens::Few(_) => None,
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let inside = match &self.inside {
            Tokens::Few(tokens) => size_of_val(&tokens[..]),
            Tokens::Many(words) => size_of_val(&words[..]),
        };
        size_of::<Self>() + inside + self.exits.memory_usage()
    }
}

/// An automaton from one of its states on, as a walk over the vocabulary sees it. It is left where it cannot go on and may end,
/// but not in front of a token.
struct Reader<'d> {
    dfa: &'d Dfa,
    start: StateId,
    /// The state behind it.
    left: u32,
}

impl<'d> Reader<'d> {
    /// Before the first byte. A state of the automaton is one higher.
    const START: u32 = 0;

    fn new(dfa: &'d Dfa, start: StateId) -> Self {
        Self { dfa, start, left: u32::try_from(dfa.len()).expect("limited") + 1 }
    }

    /// How much of `text`, which leaves it, it reads.
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

impl ByteAutomaton for Reader<'_> {
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
            Some(next) => u32::try_from(next.index()).expect("limited") + 1,
            None if state != Self::START && self.dfa.is_accepting(at) => self.left,
            None => DEAD,
        }
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        Verdict::Kind(u8::from(state == self.left))
    }
}

impl Tokens {
    /// The tokens of `mask`.
    pub(crate) fn of(mask: MaskRef<'_>) -> Self {
        if mask.into_ids().nth(FEW).is_none() {
            Self::Few(mask.into_ids().collect())
        } else {
            Self::Many(mask.words().into())
        }
    }
}
