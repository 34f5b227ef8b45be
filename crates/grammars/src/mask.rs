//! Masks out of subterminal trees: the union of the tokens of all paths that the parser can take.
//!
//! For each reading of a place the tree of its terminal's state is walked down, as far as the parser follows: the tokens
//! that stay inside are one set that lies ready, and of those that leave the terminal the remainders are read on. Literals
//! are read along the ordered list of all tokens, of which a few bytes leave a few. Only terminals that might end as well as
//! go on where what follows begins with the same byte take the general way, a walk over the vocabulary through places.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::StateId;
use unskew_core::{ByteAutomaton, DEAD, MaskMut, MaskRef, TokenId, TokenMask, TokenTrie};

use crate::{
    Except,
    counted::Horizon,
    distinct::Remaining,
    parser::Todo,
    places::{BOUNDARY, Compiled, Place, Places},
    rules::NONE,
    terminals::Scanner,
    tracked::{Holding, SparseTokens, marks},
    trees::{Bytes, Exits, Group, Node, Tokens, TreeLibrary, contains, insert, meet},
};

/// Not looked up yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// A library, as a compiled grammar uses it.
#[derive(Debug)]
pub(crate) struct Trees {
    library: Arc<TreeLibrary>,
    /// By terminal, literals not counted: its automaton's number in the library.
    automata: Vec<u32>,
    /// By terminal, literals not counted: the tokens that contain a text that it leaves out, once it was asked for.
    containing: Vec<OnceLock<Box<[TokenId]>>>,
}

/// The nodes that a scratch has met.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes {
    /// By terminal and state.
    roots: HashMap<(u32, u32), Arc<Node>>,
    /// By node and terminal.
    children: HashMap<(usize, u32), Arc<Node>>,
    bytes: usize,
}

impl KnownNodes {
    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes
    }
}

/// A mask in pieces, most of which are shared: a twentieth of the memory of its bits, and less work to make.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Nodes with many tokens inside.
    nodes: SmallVec<[Arc<Node>; 2]>,
    /// Single tokens, which may repeat.
    ids: Vec<TokenId>,
    /// Tokens that a walk found.
    words: Option<Box<[u32]>>,
    /// Tokens that are none of all these, whatever the others say.
    removed: Vec<TokenId>,
    /// Of the tokens, those in which a text that may not come twice may come twice.
    pub(crate) doubtful: Vec<TokenId>,
}

impl Pieces {
    /// Adds the tokens of `mask`.
    pub(crate) fn add_mask(&mut self, mask: MaskRef<'_>) {
        match Tokens::of(mask) {
            Tokens::Few(tokens) => self.ids.extend_from_slice(&tokens),
            Tokens::Many(words) => match &mut self.words {
                Some(kept) => kept.iter_mut().zip(&words).for_each(|(kept, word)| *kept |= word),
                None => self.words = Some(words),
            },
        }
    }

    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.ids.push(token);
    }

    fn add_node(&mut self, node: &Arc<Node>) {
        match &node.inside {
            Tokens::Few(tokens) => self.ids.extend_from_slice(tokens),
            Tokens::Many(_) if self.nodes.iter().any(|other| Arc::ptr_eq(other, node)) => {}
            Tokens::Many(_) => self.nodes.push(Arc::clone(node)),
        }
    }

    /// The words of all sets that it is made of, besides single tokens.
    fn sets(&self) -> impl Iterator<Item = &[u32]> {
        let nodes = self.nodes.iter().filter_map(|node| match &node.inside {
            Tokens::Many(words) => Some(&words[..]),
            Tokens::Few(_) => None,
        });
        nodes.chain(self.words.as_deref())
    }

    /// Makes `mask` what this is.
    pub(crate) fn write(&self, mut mask: MaskMut<'_>) {
        let len = mask.as_ref().len();
        let mut sets = self.sets().map(|words| MaskRef::new(words, len));
        match sets.next() {
            Some(first) => mask.copy_from(first),
            None => mask.clear(),
        }
        sets.for_each(|set| mask.union(set));
        self.ids.iter().for_each(|token| mask.insert(*token));
        self.removed.iter().for_each(|token| mask.remove(*token));
    }

    /// Whether the mask has this token. O(n) for n single ones.
    pub(crate) fn contains(&self, token: TokenId) -> bool {
        let is_in = |words: &[u32]| words[token.index() / 32] >> (token.index() % 32) & 1 != 0;
        !self.removed.contains(&token) && (self.sets().any(is_in) || self.ids.contains(&token))
    }

    /// Of `tokens`, those that are in the mask.
    pub(crate) fn among(&self, tokens: &SparseTokens) -> Vec<TokenId> {
        let mut found: Vec<TokenId> = Vec::new();
        self.sets().for_each(|words| tokens.add_common(words, &mut found));
        found.extend(self.ids.iter().copied().filter(|token| tokens.contains(*token)));
        found.sort_unstable();
        found.dedup();
        found.retain(|token| !self.removed.contains(token));
        found
    }

    /// The only token, if there is no other.
    pub(crate) fn only(&self) -> Option<TokenId> {
        let (first, others) = self.ids.split_first()?;
        let is_only = self.nodes.is_empty() && self.words.is_none();
        (is_only && others.iter().all(|other| other == first)).then_some(*first)
    }

    /// The words of the mask, where they lie ready.
    pub(crate) fn ready(&self) -> Option<&[u32]> {
        if !self.removed.is_empty() {
            return None;
        }
        match (&self.nodes[..], &self.words, &self.ids[..]) {
            ([], Some(words), []) => Some(words),
            ([node], None, []) => match &node.inside {
                Tokens::Many(words) => Some(words),
                Tokens::Few(_) => None,
            },
            _ => None,
        }
    }

    /// What is its own, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + (self.ids.len() + self.removed.len() + self.doubtful.len()) * size_of::<TokenId>()
            + self.words.as_ref().map_or(0, |words| size_of_val(&words[..]))
    }
}

/// Makes one mask.
pub(crate) struct Maker<'a> {
    pub(crate) pieces: &'a mut Pieces,
    /// A buffer for walks, empty.
    pub(crate) buffer: &'a mut TokenMask,
    pub(crate) compiled: &'a Compiled,
    pub(crate) trees: &'a Trees,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) places: &'a mut Places,
    pub(crate) known: &'a mut KnownNodes,
    pub(crate) stack: &'a mut Vec<u32>,
    /// Tokens that may have been added though a terminal leaves them out; empty.
    pub(crate) doubtful: &'a mut Vec<TokenId>,
    /// How many walks over the vocabulary there were.
    pub(crate) walks: &'a mut u64,
}

impl Trees {
    pub(crate) fn new(library: &Arc<TreeLibrary>, compiled: &Compiled) -> Self {
        let (literals, others) = compiled.terminals.len();
        let automata = (literals..literals + others).map(|terminal| {
            match compiled.terminals.scanner(u32::try_from(terminal).expect("limited")) {
                Scanner::Automaton(dfa, _) => library.automaton(dfa),
                Scanner::Except(except, _) => library.automaton(except.base()),
                // One for each pair of bounds.
                Scanner::Counted(_) | Scanner::Token(_) => UNKNOWN,
            }
        });
        let containing = (0..others).map(|_| OnceLock::new()).collect();
        Self { library: Arc::clone(library), automata: automata.collect(), containing }
    }

    /// The tokens that hold a text of the automaton that `except` leaves some out of.
    pub(crate) fn holding(&self, except: &Except, remaining: &Remaining) -> Arc<Holding> {
        let library = &self.library;
        library.holding(library.automaton(except.base()), || {
            let vocabulary = library.vocabulary();
            match marks(except.base()).filter(|_| !remaining.is_scarce) {
                Some((first, last)) => {
                    let tokens = library.around(first, last, true);
                    let text = |token: &TokenId| (*token, vocabulary.text(*token).unwrap_or_default());
                    Holding::new(except, remaining, tokens.iter().map(text))
                }
                None => Holding::new(except, remaining, vocabulary.text_tokens()),
            }
        })
    }

    /// The number of the automaton of `terminal` in the library.
    fn number(&self, compiled: &Compiled, terminal: u32) -> u32 {
        let (literals, _) = compiled.terminals.len();
        self.automata[terminal as usize - literals]
    }

    /// The tokens in which a text that `except` leaves out may end behind its beginning.
    fn containing(&self, terminal: usize, except: &Except) -> &[TokenId] {
        self.containing[terminal].get_or_init(|| {
            let vocabulary = self.library.vocabulary();
            let ends = |token: &TokenId| {
                let text = vocabulary.text(*token).unwrap_or_default();
                (0..text.len()).any(|from| {
                    let mut state = except.start();
                    text[from..].iter().any(|byte| match except.below(state, *byte) {
                        Some((next, doubtful)) => {
                            state = next;
                            doubtful
                        }
                        None => {
                            // Behind the trie there is nothing below.
                            state = 0;
                            false
                        }
                    })
                })
            };
            let lists =
                except.ends().into_iter().map(|(first, last, two)| self.library.around(first, last, two));
            let mut found: Vec<TokenId> = lists.flat_map(|list| list.to_vec()).collect();
            found.sort_unstable();
            found.dedup();
            found.retain(ends);
            found.into()
        })
    }
}

impl Maker<'_> {
    /// Adds the tokens that may follow in `place`, control tokens not counted.
    pub(crate) fn add(&mut self, place: Place) {
        self.add_readings(place);
        // Each may be there for another reason.
        self.doubtful.sort_unstable();
        self.doubtful.dedup();
        for token in self.doubtful.drain(..) {
            let text = self.trees.library.vocabulary().text(token).unwrap_or_default();
            if self.places.run(self.compiled, place, text) == DEAD {
                self.pieces.removed.push(token);
            }
        }
        if !self.pieces.removed.is_empty() {
            let Pieces { ids, removed, .. } = &mut *self.pieces;
            ids.retain(|token| removed.binary_search(token).is_err());
        }
    }

    fn add_readings(&mut self, place: Place) {
        for index in 0..self.places.readings(place).len() {
            let reading = self.places.readings(place)[index];
            if reading.terminal == BOUNDARY {
                self.add_followers(reading.todo);
            } else if self.compiled.terminals.is_literal(reading.terminal) {
                let single = self.places.single(reading);
                self.add_by_lists(single);
            } else {
                self.doubt_below(reading.terminal, reading.state);
                let node = self.root(reading.terminal, reading.state);
                if !self.add_paths(node, reading.todo) {
                    let single = self.places.single(reading);
                    self.add_by_walk(single);
                } else if self.compiled.terminals.is_accepting(reading.terminal, reading.state) {
                    self.add_followers(reading.todo);
                }
            }
        }
    }

    /// The general way.
    fn add_by_walk(&mut self, place: Place) {
        *self.walks += 1;
        let mut walk = Walk { compiled: self.compiled, places: self.places };
        self.trie.fill(&mut walk, place, self.buffer.as_mut());
        self.take_buffer();
    }

    fn take_buffer(&mut self) {
        self.pieces.add_mask(self.buffer.as_ref());
        self.buffer.as_mut().clear();
    }

    /// The way for places behind which few tokens go on: all tokens are tried, in order.
    fn add_by_lists(&mut self, place: Place) {
        let library = Arc::clone(&self.trees.library);
        for group in &library.all().groups {
            let behind = self.places.step(self.compiled, place, group.byte);
            self.add_group(group, behind);
        }
    }

    /// Adds the tokens of `group` that go on from `behind`, which is behind their first byte.
    fn add_group(&mut self, group: &Group, behind: Place) {
        if behind == DEAD {
            return;
        }
        let (places, compiled) = (&mut *self.places, self.compiled);
        let step = |place: u32, byte: u8| places.step(compiled, place, byte);
        let vocabulary = self.trees.library.vocabulary();
        let ids = &mut self.pieces.ids;
        group.read(vocabulary, behind, self.stack, step, |tokens| ids.extend_from_slice(tokens));
    }

    /// Adds the tokens that begin with what is left to do.
    fn add_followers(&mut self, todo: Todo) {
        let library = Arc::clone(&self.trees.library);
        let mut general = Vec::new();
        let mut open = Vec::new();
        self.add_exits(library.all(), None, todo, &mut open);
        for (node, terminal, behind) in open {
            if !self.add_paths(node, behind) {
                general.push((terminal, behind));
            }
        }
        if !general.is_empty() {
            // Behind their first byte they are places.
            let mut route = Route::new(self.compiled, self.places, todo, general);
            *self.walks += 1;
            self.trie.fill(&mut route, Route::START, self.buffer.as_mut());
            self.take_buffer();
        }
    }

    /// Adds the tokens that read the path of `node`, behind which `todo` is left, and whatever follows. Answers false if
    /// there are others: then those that were added are right, but not all.
    fn add_paths(&mut self, node: Arc<Node>, todo: Todo) -> bool {
        let mut open = vec![(node, NONE, todo)];
        while let Some((node, _, todo)) = open.pop() {
            let first = self.places.first_bytes(self.compiled, todo);
            if meet(&first, &node.extending) {
                return false;
            }
            self.pieces.add_node(&node);
            self.add_exits(&node.exits, Some(&node), todo, &mut open);
        }
        true
    }

    /// Adds the tokens that left a path by `exits` and go on with what follows `todo`. Where that are many, the nodes that
    /// hold them are added to `open`, with their terminal and what is left behind it.
    fn add_exits(
        &mut self,
        exits: &Exits,
        node: Option<&Arc<Node>>,
        todo: Todo,
        open: &mut Vec<(Arc<Node>, u32, Todo)>,
    ) {
        let terminals = &self.compiled.terminals;
        let first = self.places.first_bytes(self.compiled, todo);
        let boundary = self.places.boundary(todo);
        let mut large: Bytes = [0; 4];
        for group in exits.groups.iter().filter(|group| contains(&first, group.byte)) {
            if group.len() <= self.trees.library.listed() {
                let behind = self.places.step(self.compiled, boundary, group.byte);
                self.add_group(group, behind);
            } else {
                insert(&mut large, group.byte);
                let behind = self.places.begin_literals(self.compiled, todo, group.byte);
                self.add_group(group, behind);
            }
        }
        if large == [0; 4] {
            return;
        }
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let others: SmallVec<[(u32, Todo); 16]> =
            terminals.others(self.places.parser.edges(followers)).into();
        for (terminal, behind) in others {
            if meet(&large, terminals.first_bytes(terminal)) {
                let child = match node {
                    Some(node) => self.child(node, terminal),
                    None => self.root_at_start(terminal),
                };
                if let Some(except) = terminals.except(terminal) {
                    let (literals, _) = terminals.len();
                    let tokens = self.trees.containing(terminal as usize - literals, except);
                    self.doubtful.extend_from_slice(tokens);
                }
                open.push((child, terminal, behind));
            }
        }
    }

    /// Doubts the tokens with which a text may come to be one that `terminal` leaves out.
    fn doubt_below(&mut self, terminal: u32, state: u32) {
        let Some(except) = self.compiled.terminals.except(terminal) else { return };
        // Where it leaves the trie's inner nodes, nothing is in doubt; where it ends one, all that go on are.
        let step = |state: Option<u32>, byte: u8| match state {
            Some(state) => except.below(state, byte).map(|(next, doubtful)| (!doubtful).then_some(next)),
            None => Some(None),
        };
        let visit = |token: TokenId, state: Option<u32>| {
            if state.is_none() {
                self.doubtful.push(token);
            }
        };
        self.trie.walk(Some(state), step, visit);
    }

    fn root(&mut self, terminal: u32, state: u32) -> Arc<Node> {
        let Self { compiled, trees, known, doubtful, .. } = self;
        let KnownNodes { roots, bytes, .. } = &mut **known;
        let library = &trees.library;
        if let Scanner::Counted(_) = compiled.terminals.scanner(terminal) {
            doubtful.extend_from_slice(library.longest().1);
        }
        let node = roots.entry((terminal, state)).or_insert_with(|| {
            let node = match compiled.terminals.scanner(terminal) {
                Scanner::Automaton(dfa, _) => {
                    library.root(trees.number(compiled, terminal), dfa, StateId::from_index(state as usize))
                }
                Scanner::Except(except, _) => {
                    library.root(trees.number(compiled, terminal), except.base(), except.state(state))
                }
                Scanner::Counted(counted) => {
                    let Horizon { min, max, text } = counted.horizon(state, library.longest().0);
                    let (number, dfa) = library.counted(counted, min, max);
                    let state = dfa.run(dfa.start(), &text).expect("a beginning of its texts");
                    library.root(number, &dfa, state)
                }
                Scanner::Token(_) => unreachable!("it reads no bytes"),
            };
            *bytes += node.memory_in_scratch();
            node
        });
        Arc::clone(node)
    }

    /// The tree of the beginning of `terminal`.
    fn root_at_start(&mut self, terminal: u32) -> Arc<Node> {
        let start = match self.compiled.terminals.scanner(terminal) {
            Scanner::Automaton(dfa, _) => u32::try_from(dfa.start().index()).expect("limited"),
            Scanner::Except(except, _) => except.start(),
            Scanner::Counted(counted) => counted.start(),
            Scanner::Token(_) => unreachable!("it reads no bytes"),
        };
        self.root(terminal, start)
    }

    fn child(&mut self, node: &Arc<Node>, terminal: u32) -> Arc<Node> {
        let Self { compiled, trees, known, doubtful, .. } = self;
        let KnownNodes { children, bytes, .. } = &mut **known;
        let library = &trees.library;
        if let Scanner::Counted(_) = compiled.terminals.scanner(terminal) {
            doubtful.extend_from_slice(library.longest().1);
        }
        // The node is kept by the tables that it was found in, for as long as this entry.
        let child = children.entry((Arc::as_ptr(node).addr(), terminal)).or_insert_with(|| {
            let child = match compiled.terminals.scanner(terminal) {
                Scanner::Automaton(dfa, _) => library.child(node, trees.number(compiled, terminal), dfa),
                Scanner::Except(except, _) => {
                    library.child(node, trees.number(compiled, terminal), except.base())
                }
                Scanner::Counted(counted) => {
                    let (min, max) = counted.left(0, library.longest().0);
                    let (number, dfa) = library.counted(counted, min, max);
                    library.child(node, number, &dfa)
                }
                Scanner::Token(_) => unreachable!("it reads no bytes"),
            };
            *bytes += child.memory_in_scratch();
            child
        });
        Arc::clone(child)
    }
}

/// Places, as a walk over the vocabulary sees them.
pub(crate) struct Walk<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) places: &'a mut Places,
}

impl ByteAutomaton for Walk<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.compiled.terminals.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.places.work.reads += 1;
        self.places.step(self.compiled, state, byte)
    }
}

/// Certain edges, then places: states are places, one higher, and [`Route::START`].
struct Route<'a> {
    compiled: &'a Compiled,
    places: &'a mut Places,
    todo: Todo,
    edges: Vec<(u32, Todo)>,
    /// By class: the place behind the first byte of the edges.
    begun: Vec<Place>,
}

impl<'a> Route<'a> {
    const START: u32 = 0;

    /// From `edges` of `todo`, none of them literals.
    fn new(compiled: &'a Compiled, places: &'a mut Places, todo: Todo, edges: Vec<(u32, Todo)>) -> Self {
        let begun = vec![UNKNOWN; compiled.terminals.width()];
        Self { compiled, places, todo, edges, begun }
    }
}

impl ByteAutomaton for Route<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.compiled.terminals.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.places.work.reads += 1;
        let next = if state == Self::START {
            let class = self.compiled.terminals.class(byte);
            let begun = &mut self.begun[usize::from(class)];
            if *begun == UNKNOWN {
                *begun = self.places.begin(self.compiled, self.todo, &[], &self.edges, byte);
            }
            *begun
        } else {
            self.places.step(self.compiled, state - 1, byte)
        };
        if next == DEAD { DEAD } else { next + 1 }
    }
}
