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
//!   [quotients](unskew_core::TokenTrie::fill), some tens of microseconds.
//! - **Shared.** Nodes are kept in a [`TreeLibrary`] by the terminal's minimal automaton, so the body of a string is the same
//!   node in ten thousand grammars.
//! - **Only exits.** A path leaves a terminal where the terminal cannot go on. Where it could go on as well as leave (two
//!   names side by side), the readings are ambiguous; that depends on what may follow, which a node does not know. Whoever
//!   asks compares the bytes and takes the general way where they meet.
//! - **The end of the path is a list.** What is left of the tokens that leave a terminal is kept in order, by first byte.
//!   Where few go on with a byte, they are read through the parser's places, and so are all that a literal may begin with;
//!   only where many do and an automaton reads them is there a next node.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use unskew_automata::{Dfa, StateId};
use unskew_core::{ByteAutomaton, DEAD, MaskRef, TokenId, TokenMask, TokenTrie, Verdict, Vocabulary};

use crate::{Counted, tracked::Holding};

/// Sets with at most so many tokens are lists: 512 are written into a mask in less time than a mask of 128,000 bits is
/// copied twice.
const FEW: usize = 512;

/// See [`TreeLibrary::listing`].
const LISTED: usize = 256;

/// What the table of a library takes for an entry, beside the node.
const ENTRY: usize = 128;

/// A set of bytes, one bit each.
pub(crate) type Bytes = [u64; 4];

pub(crate) fn insert(bytes: &mut Bytes, byte: u8) {
    bytes[usize::from(byte / 64)] |= 1 << (byte % 64);
}

pub(crate) fn contains(bytes: &Bytes, byte: u8) -> bool {
    bytes[usize::from(byte / 64)] >> (byte % 64) & 1 != 0
}

pub(crate) fn meet(left: &Bytes, right: &Bytes) -> bool {
    left.iter().zip(right).any(|(left, right)| left & right != 0)
}

/// Tokens of a node.
#[derive(Debug)]
pub(crate) enum Tokens {
    Few(Box<[TokenId]>),
    Many(Box<[u32]>),
}

/// The tokens that leave the last terminal of a path, by the byte with which they do.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// In ascending order of bytes.
    pub(crate) groups: Box<[Group]>,
}

/// Tokens that leave a path with the same byte.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) byte: u8,
    /// Tokens, and how many of their bytes are on the path.
    tokens: Box<[(TokenId, u32)]>,
    /// What is left of them, once it was asked for.
    remainders: OnceLock<Remainders>,
}

/// Texts that are left of tokens and begin with the same byte, as a trie: depth-first, without the first byte.
#[derive(Debug)]
struct Remainders {
    nodes: Box<[TrieNode]>,
    /// In the order of the nodes that they end in; those that end with the first byte come first.
    tokens: Box<[TokenId]>,
    /// How many end with the first byte.
    at_once: usize,
    /// The length of the longest.
    longest: usize,
}

#[derive(Clone, Copy, Debug)]
struct TrieNode {
    byte: u8,
    /// The number of bytes in front of `byte`.
    depth: u32,
    /// Behind the nodes that begin like this one.
    end: u32,
    /// The tokens that end here.
    tokens: (u32, u32),
}

/// The tokens of a path, and how it goes on.
#[derive(Debug)]
pub(crate) struct Node {
    id: u32,
    is_kept: bool,
    /// Automata and the states in which they are entered.
    path: Box<[(Arc<Dfa>, StateId)]>,
    /// The tokens that end inside the last terminal.
    pub(crate) inside: Tokens,
    pub(crate) exits: Exits,
    /// The bytes with which the last terminal may go on where it might also end.
    pub(crate) extending: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    /// An automaton and a state of it.
    Root(u32, u32),
    /// A node and an automaton.
    Child(u32, u32),
}

/// Subterminal trees of a vocabulary, shared by all grammars over it.
///
/// It grows as grammars are used and stops growing at its limit. Threads may share it: it is locked for a look-up when a
/// grammar is compiled and when a scratch meets a terminal's state for the first time.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{TokenTrie, Vocabulary};
/// use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, TreeLibrary};
///
/// let mut vocabulary = Vocabulary::builder();
/// for text in ["a", "b", "ab", "\"", "a\""] {
///     vocabulary.text(text.as_bytes());
/// }
/// let vocabulary = Arc::new(vocabulary.build()?);
/// let trie = Arc::new(TokenTrie::new(&vocabulary)?);
/// let library = Arc::new(TreeLibrary::new(vocabulary, trie, 64 << 20));
///
/// let limits = GrammarLimits::default();
/// let grammar = Grammar::from_gbnf(r#"root ::= "\"" [ab]+ "\"" "#, &limits)?;
/// let constraint = GrammarConstraint::with_library(&grammar, &library, &limits)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TreeLibrary {
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    limit: usize,
    listed: usize,
    next_id: AtomicU32,
    all: OnceLock<Exits>,
    longest: OnceLock<(u32, Box<[TokenId]>)>,
    kept: Mutex<KeptNodes>,
}

#[derive(Default)]
struct KeptNodes {
    automata: HashMap<Arc<Dfa>, u32>,
    nodes: HashMap<Key, Arc<Node>>,
    /// By two bytes: see [`TreeLibrary::around`].
    around: HashMap<(u8, u8, bool), Arc<[TokenId]>>,
    /// By marks, unit and bounds: see [`TreeLibrary::counted`].
    counted: HashMap<Bounded, (u32, Arc<Dfa>)>,
    /// By automaton: the tokens that hold a text of it.
    holding: HashMap<u32, Arc<Holding>>,
    bytes: usize,
}

/// The marks, the number of the unit's automaton, and the bounds of units between marks.
type Bounded = (Box<[u8]>, u32, Box<[u8]>, u32, Option<u32>);

impl TreeLibrary {
    /// An empty library of at most about `limit` bytes. `trie` is the trie of `vocabulary`.
    pub fn new(vocabulary: Arc<Vocabulary>, trie: Arc<TokenTrie>, limit: usize) -> Self {
        Self {
            vocabulary,
            trie,
            limit,
            listed: LISTED,
            next_id: AtomicU32::new(0),
            all: OnceLock::new(),
            longest: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// Reads what is left of the tokens that leave a terminal one by one where at most so many go on with the same byte, and
    /// makes trees of them where they are more. Default: 256. Masks do not depend on it.
    pub fn listing(self, most: usize) -> Self {
        Self { listed: most, ..self }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The trie of the vocabulary.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// How many nodes there are, and what they take, in bytes.
    pub fn size(&self) -> (usize, usize) {
        let kept = self.lock();
        (kept.nodes.len(), kept.bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KeptNodes> {
        // What is kept is whole at any time, whatever another thread was doing.
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// All tokens, as if they had left an empty path.
    pub(crate) fn all(&self) -> &Exits {
        self.all.get_or_init(|| {
            let texts = self.vocabulary.text_tokens().filter(|(_, text)| !text.is_empty());
            Exits::new(texts.map(|(token, _)| (token, 0)), &self.vocabulary)
        })
    }

    /// Up to how many tokens that go on with the same byte are read one by one.
    pub(crate) fn listed(&self) -> usize {
        self.listed
    }

    /// The number of `dfa` in this library.
    pub(crate) fn automaton(&self, dfa: &Arc<Dfa>) -> u32 {
        let mut kept = self.lock();
        let next = u32::try_from(kept.automata.len()).expect("bounded memory");
        if let Some(id) = kept.automata.get(dfa) {
            return *id;
        }
        kept.bytes += dfa.memory_usage() + ENTRY;
        kept.automata.insert(Arc::clone(dfa), next);
        next
    }

    /// The root of the tree of `state`, which `dfa` of number `automaton` is in.
    pub(crate) fn root(&self, automaton: u32, dfa: &Arc<Dfa>, state: StateId) -> Arc<Node> {
        let key = Key::Root(automaton, u32::try_from(state.index()).expect("limited"));
        self.node(Some(key), || vec![(Arc::clone(dfa), state)])
    }

    /// The node behind `parent` where `dfa` comes next.
    pub(crate) fn child(&self, parent: &Node, automaton: u32, dfa: &Arc<Dfa>) -> Arc<Node> {
        let key = parent.is_kept.then_some(Key::Child(parent.id, automaton));
        self.node(key, || {
            let mut path = parent.path.to_vec();
            path.push((Arc::clone(dfa), dfa.start()));
            path
        })
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

    /// The automaton of `counted` with other bounds, and its number.
    pub(crate) fn counted(&self, counted: &Counted, min: u32, max: Option<u32>) -> (u32, Arc<Dfa>) {
        let (open, close) = counted.marks();
        let key = (open.into(), self.automaton(counted.unit()), close.into(), min, max);
        if let Some((number, dfa)) = self.lock().counted.get(&key) {
            return (*number, Arc::clone(dfa));
        }
        let made = Arc::new(counted.automaton(min, max));
        let number = self.automaton(&made);
        let mut kept = self.lock();
        kept.bytes += ENTRY;
        let (number, dfa) = kept.counted.entry(key).or_insert((number, made));
        (*number, Arc::clone(dfa))
    }

    /// The tokens in which `first` comes before `last`; or, where these are not two but one place, in which it comes.
    pub(crate) fn around(&self, first: u8, last: u8, are_two: bool) -> Arc<[TokenId]> {
        let key = (first, last, are_two);
        if let Some(known) = self.lock().around.get(&key) {
            return Arc::clone(known);
        }
        let found = self.vocabulary.text_tokens().filter(|(_, text)| {
            let begin = text.iter().position(|byte| *byte == first);
            begin.is_some_and(|begin| !are_two || text[begin + 1..].contains(&last))
        });
        let found: Arc<[TokenId]> = found.map(|(token, _)| token).collect();
        let mut kept = self.lock();
        kept.bytes += size_of_val(&found[..]) + ENTRY;
        Arc::clone(kept.around.entry(key).or_insert(found))
    }

    /// The tokens that hold a text of the automaton of this number, as `made` says.
    pub(crate) fn holding(&self, automaton: u32, made: impl FnOnce() -> Holding) -> Arc<Holding> {
        if let Some(known) = self.lock().holding.get(&automaton) {
            return Arc::clone(known);
        }
        let made = Arc::new(made());
        let mut kept = self.lock();
        kept.bytes += made.memory_usage() + ENTRY;
        Arc::clone(kept.holding.entry(automaton).or_insert(made))
    }

    fn node(&self, key: Option<Key>, path: impl FnOnce() -> Vec<(Arc<Dfa>, StateId)>) -> Arc<Node> {
        let is_full = {
            let kept = self.lock();
            if let Some(node) = key.and_then(|key| kept.nodes.get(&key)) {
                return Arc::clone(node);
            }
            kept.bytes >= self.limit
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let key = key.filter(|_| !is_full);
        let node = Arc::new(self.make(id, key.is_some(), path()));
        match key {
            Some(key) => {
                let mut kept = self.lock();
                kept.bytes += node.memory_usage() + ENTRY;
                // Another thread may have made the same node: the first one stays.
                Arc::clone(kept.nodes.entry(key).or_insert(node))
            }
            None => node,
        }
    }

    fn make(&self, id: u32, is_kept: bool, path: Vec<(Arc<Dfa>, StateId)>) -> Node {
        let Self { vocabulary, trie, .. } = self;
        let path = Path::new(path);
        let (last, _) = &path.automata[path.automata.len() - 1];
        let extending = extending(last);
        let mut mask = TokenMask::new(vocabulary.len());
        trie.fill(&mut Reader { path: &path, exits: false }, Path::START, mask.as_mut());
        let inside = Tokens::of(mask.as_ref());
        mask.as_mut().clear();
        trie.fill(&mut Reader { path: &path, exits: true }, Path::START, mask.as_mut());
        let tokens = mask.ids().map(|token| {
            let exit = path.exit(vocabulary.text(token).unwrap_or_default());
            (token, exit)
        });
        let exits = Exits::new(tokens, vocabulary);
        Node { id, is_kept, path: path.automata, inside, exits, extending }
    }
}

impl fmt::Debug for TreeLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, bytes) = self.size();
        f.debug_struct("TreeLibrary").field("nodes", &nodes).field("bytes", &bytes).finish_non_exhaustive()
    }
}

impl Node {
    /// What a scratch that refers to it takes for it: what a library keeps is counted there.
    pub(crate) fn memory_in_scratch(&self) -> usize {
        if self.is_kept { ENTRY } else { self.memory_usage() }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let inside = match &self.inside {
            Tokens::Few(tokens) => size_of_val(&tokens[..]),
            Tokens::Many(words) => size_of_val(&words[..]),
        };
        // With what is left of the tokens written out: about three nodes for each.
        let per_token = 3 * size_of::<TrieNode>() + 4 * size_of::<u32>();
        let exits: usize = self.exits.groups.iter().map(|group| per_token * group.len()).sum();
        size_of::<Self>() + inside + exits + size_of_val(&self.path[..])
    }
}

/// A path of terminals as one automaton. It leaves a terminal where that cannot go on and may end.
#[derive(Debug)]
struct Path {
    automata: Box<[(Arc<Dfa>, StateId)]>,
    /// By place on the path: the number of its first state; and the number of states.
    first: Vec<u32>,
    /// By byte: its class among those that no automaton of the path tells apart.
    classes: Box<[u8; 256]>,
}

impl Path {
    /// Before the first byte. (The first terminal is then not left, even where it might end.)
    const START: u32 = 0;

    fn new(automata: Vec<(Arc<Dfa>, StateId)>) -> Self {
        let mut first = vec![1];
        for (dfa, _) in &automata {
            first.push(first[first.len() - 1] + u32::try_from(dfa.len()).expect("limited"));
        }
        let mut ids: HashMap<Vec<u8>, u8> = HashMap::new();
        let classes = (0..=255).map(|byte| {
            let key = automata.iter().map(|(dfa, _)| dfa.classes().get(byte)).collect();
            let next = ids.len();
            *ids.entry(key).or_insert_with(|| u8::try_from(next).expect("256 bytes, 256 classes"))
        });
        let classes: Vec<u8> = classes.collect();
        let classes = classes.try_into().map(Box::new).expect("there are 256 bytes");
        Self { automata: automata.into(), first, classes }
    }

    /// The number of states. This number itself stands for having left the last terminal.
    fn len(&self) -> u32 {
        self.first[self.automata.len()]
    }

    /// The place on the path of `state`, and the state of the automaton there.
    fn split(&self, state: u32) -> (usize, StateId) {
        let place = self.first.partition_point(|first| *first <= state) - 1;
        (place, StateId::from_index((state - self.first[place]) as usize))
    }

    fn join(&self, place: usize, state: StateId) -> u32 {
        self.first[place] + u32::try_from(state.index()).expect("limited")
    }

    /// The state behind `byte`: [`len`](Self::len) if the byte leaves the last terminal.
    #[inline]
    fn step(&self, state: u32, byte: u8) -> u32 {
        if state == Self::START {
            let (dfa, start) = &self.automata[0];
            return dfa.step(*start, byte).map_or(DEAD, |next| self.join(0, next));
        }
        let (place, state) = self.split(state);
        let (dfa, _) = &self.automata[place];
        if let Some(next) = dfa.step(state, byte) {
            return self.join(place, next);
        }
        if !dfa.is_accepting(state) {
            return DEAD;
        }
        match self.automata.get(place + 1) {
            Some((dfa, start)) => dfa.step(*start, byte).map_or(DEAD, |next| self.join(place + 1, next)),
            None => self.len(),
        }
    }

    fn is_inside_last(&self, state: u32) -> bool {
        state >= self.first[self.automata.len() - 1]
    }

    /// Where `text` leaves the last terminal.
    fn exit(&self, text: &[u8]) -> usize {
        let mut state = Self::START;
        for (at, byte) in text.iter().enumerate() {
            state = self.step(state, *byte);
            if state == self.len() {
                return at;
            }
        }
        unreachable!("the text leaves the path")
    }
}

/// A path, as a walk over the vocabulary sees it: the tokens that end inside its last terminal, or those that leave it.
struct Reader<'p> {
    path: &'p Path,
    exits: bool,
}

impl ByteAutomaton for Reader<'_> {
    fn class(&self, byte: u8) -> u8 {
        self.path.classes[usize::from(byte)]
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if state == self.path.len() {
            return state;
        }
        let next = self.path.step(state, byte);
        if next == self.path.len() && !self.exits { DEAD } else { next }
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        let is_allowed = if self.exits { state == self.path.len() } else { self.path.is_inside_last(state) };
        if is_allowed { Verdict::All } else { Verdict::None }
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

impl Exits {
    /// Of `tokens`, each with the number of its bytes that are on the path. At least one is not.
    fn new(tokens: impl Iterator<Item = (TokenId, usize)>, vocabulary: &Vocabulary) -> Self {
        let mut by_byte: Vec<Vec<(TokenId, u32)>> = vec![Vec::new(); 256];
        for (token, exit) in tokens {
            let byte = vocabulary.text(token).unwrap_or_default()[exit];
            by_byte[usize::from(byte)].push((token, u32::try_from(exit).expect("tokens are short")));
        }
        let groups = (0..=255u8)
            .zip(by_byte)
            .filter(|(_, tokens)| !tokens.is_empty())
            .map(|(byte, tokens)| Group { byte, tokens: tokens.into(), remainders: OnceLock::new() });
        Self { groups: groups.collect() }
    }
}

impl Group {
    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Reads what is left of all tokens, where `behind` is behind their first byte and `step` says what is behind another,
    /// or [`DEAD`]. Calls `found` with the tokens that are read to their end. `stack` is a buffer.
    #[inline]
    pub(crate) fn read(
        &self,
        vocabulary: &Vocabulary,
        behind: u32,
        stack: &mut Vec<u32>,
        mut step: impl FnMut(u32, u8) -> u32,
        mut found: impl FnMut(&[TokenId]),
    ) {
        let Remainders { nodes, tokens, at_once, longest } =
            self.remainders.get_or_init(|| Remainders::new(&self.tokens, vocabulary));
        found(&tokens[..*at_once]);
        if stack.len() < *longest {
            stack.resize(*longest, DEAD);
        }
        // What is behind each byte of the text at hand.
        stack[0] = behind;
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            let depth = node.depth as usize;
            let next = step(stack[depth - 1], node.byte);
            if next == DEAD {
                at = node.end as usize;
                continue;
            }
            stack[depth] = next;
            found(&tokens[node.tokens.0 as usize..node.tokens.1 as usize]);
            at += 1;
        }
    }
}

impl Remainders {
    fn new(tokens: &[(TokenId, u32)], vocabulary: &Vocabulary) -> Self {
        let mut texts: Vec<(&[u8], TokenId)> = tokens
            .iter()
            .map(|(token, exit)| (&vocabulary.text(*token).unwrap_or_default()[*exit as usize..], *token))
            .collect();
        texts.sort_unstable();
        let id = |index: usize| u32::try_from(index).expect("bounded");
        let mut nodes: Vec<TrieNode> = Vec::new();
        // The nodes that the text at hand goes through.
        let mut open: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (at, (text, _)) in texts.iter().enumerate() {
            let shared = before[before.len().min(1)..]
                .iter()
                .zip(&text[1..])
                .take_while(|(left, right)| left == right)
                .count();
            let end = nodes.len();
            open.drain(shared..).for_each(|node| nodes[node].end = id(end));
            for (depth, byte) in text.iter().enumerate().skip(1 + shared) {
                open.push(nodes.len());
                nodes.push(TrieNode { byte: *byte, depth: id(depth), end: 0, tokens: (id(at), id(at)) });
            }
            if let Some(node) = open.last() {
                nodes[*node].tokens.1 = id(at + 1);
            }
            before = text;
        }
        let end = id(nodes.len());
        open.into_iter().for_each(|node| nodes[node].end = end);
        Self {
            nodes: nodes.into(),
            at_once: texts.iter().take_while(|(text, _)| text.len() == 1).count(),
            longest: texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0),
            tokens: texts.into_iter().map(|(_, token)| token).collect(),
        }
    }
}

/// The bytes with which `dfa` goes on in some state in which it may end.
fn extending(dfa: &Dfa) -> Bytes {
    let mut bytes = [0; 4];
    let representatives: Vec<u8> = dfa.classes().representatives().collect();
    let mut classes = vec![false; representatives.len()];
    for state in dfa.states().filter(|state| dfa.is_accepting(*state)) {
        for (class, byte) in classes.iter_mut().zip(&representatives) {
            *class |= dfa.step(state, *byte).is_some();
        }
    }
    for byte in 0..=255 {
        if classes[usize::from(dfa.classes().get(byte))] {
            insert(&mut bytes, byte);
        }
    }
    bytes
}
