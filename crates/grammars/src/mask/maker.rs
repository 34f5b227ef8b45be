//! Masks out of subterminal trees: the union of the tokens of all paths that the parser can take.
//!
//! For each reading of a place the tree of its terminal's state is walked down, as far as the parser follows: the tokens
//! that stay inside are one set that lies ready, and what is left of those that leave the terminal is read on. Literals are met
//! with what is left byte by byte; an automaton's next node lies ready or is made from it; the parser is asked for nothing but
//! what follows where a terminal ended. Terminals that might end as well as go on where what follows begins with the same byte are
//! [joined](crate::trees::joined) with that. Only where this becomes too large is the general way taken, a walk through places over what
//! is left of tokens, or over the vocabulary.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, OnceLock},
};

use hashbrown::HashMap;
use unskew_automata::StateId;
use unskew_core::{TokenId, TokenMask};
use unskew_trie::{ByteAutomaton, DEAD, TokenTrie};

use super::{
    contexts::Contexts,
    paths::{JoinKey, Joined, Last, LastKey, Open, Origin},
    pieces::Pieces,
    shared::GrammarNumber,
};
use crate::trees::holding::{Holding, marks};
use crate::{
    Counted, Except,
    network::terminals::Scanner,
    parser::{
        engine::Todo,
        places::{BOUNDARY, Compiled, Place, Places, Reading},
    },
    terminal::{counted::Horizon, except::Below, remaining::Remaining},
    trees::{
        kept::LibraryId,
        nodes::{Node, Numbered, TreeLibrary},
        remainders::{At, Trie},
    },
};

/// Not looked up yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// A library, as a compiled grammar uses it.
#[derive(Debug)]
pub(crate) struct Trees {
    pub(crate) library: Arc<TreeLibrary>,
    /// By terminal, literals not counted: its automaton's number in the library.
    automata: Vec<Option<LibraryId>>,
    /// By terminal, literals not counted: the tokens that contain a text that it leaves out, once it was asked for.
    containing: Vec<OnceLock<Box<[TokenId]>>>,
    /// By terminal, literals not counted: of counted units, their automaton without bounds and its number, once it was asked for.
    unbounded: Vec<OnceLock<Numbered>>,
    pub(crate) grammar: GrammarNumber,
}

/// The nodes that a scratch has met.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes {
    /// By terminal and state.
    roots: HashMap<(u32, u32), Arc<Node>>,
    /// By [`Parent::key`](crate::trees::nodes::Parent::key) and terminal.
    pub(crate) children: HashMap<((LibraryId, At), u32), Arc<Node>>,
    /// `None` where that is too large.
    pub(crate) joined: HashMap<JoinKey, Option<Joined>>,
    /// Whether the second reads all that the first reads.
    pub(crate) within: HashMap<(LastKey, LastKey), bool>,
    pub(crate) bytes: usize,
}

impl KnownNodes {
    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes
    }
}

/// Buffers, empty but while they are in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// For [`Trie::meet`].
    pub(crate) literals: Vec<(At, u32, u32, u32)>,
    /// Where literals have ended in a trie, and what is left to do there; the first place first.
    pub(crate) ended: BinaryHeap<Reverse<(At, Todo)>>,
    pub(crate) open: Vec<Open>,
    /// For [`Trie::walk`].
    pub(crate) walk: Vec<u32>,
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
    pub(crate) buffers: &'a mut Buffers,
    /// Tokens that may have been added though a terminal leaves them out; empty.
    pub(crate) doubtful: &'a mut Vec<TokenId>,
    /// Terminals that begin with the token for which there may be other tokens than were added, and what is left to do behind them.
    pub(crate) general: Vec<(u32, Todo)>,
    pub(crate) contexts: &'a mut Contexts,
    /// How many walks over the vocabulary there were.
    pub(crate) walks: &'a mut u64,
}

impl Trees {
    pub(crate) fn new(library: &Arc<TreeLibrary>, compiled: &Compiled) -> Self {
        let (literals, others) = compiled.terminals.len();
        let automata = (literals..literals + others).map(|terminal| {
            match compiled.terminals.scanner(u32::try_from(terminal).expect("limited")) {
                Scanner::Automaton(dfa, _) => Some(library.automaton(dfa)),
                Scanner::Except(except, _) => Some(library.automaton(except.base())),
                // Of counted units it is that without bounds, made by need.
                Scanner::Counted(_) | Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => None,
            }
        });
        let containing = (0..others).map(|_| OnceLock::new()).collect();
        let unbounded = (0..others).map(|_| OnceLock::new()).collect();
        Self {
            library: Arc::clone(library),
            automata: automata.collect(),
            containing,
            unbounded,
            grammar: GrammarNumber::new(),
        }
    }

    /// The tokens that hold a text of the automaton that `except` leaves some out of.
    pub(crate) fn holding(&self, except: &Except, remaining: &Remaining) -> Arc<Holding> {
        let library = &self.library;
        library.holding(library.automaton(except.base()), || {
            let vocabulary = library.vocabulary();
            match marks(except.base()) {
                Some((first, last)) => {
                    // Few may be left behind any byte.
                    let tokens = match remaining.is_scarce {
                        true => library.around(first, first, false),
                        false => library.around(first, last, true),
                    };
                    let text = |token: &TokenId| (*token, vocabulary.text(*token).unwrap_or_default());
                    Holding::new(except, remaining, tokens.iter().map(text))
                }
                None => Holding::new(except, remaining, vocabulary.text_tokens()),
            }
        })
    }

    /// The number of the automaton of `terminal` in the library.
    pub(crate) fn number(&self, compiled: &Compiled, terminal: u32) -> LibraryId {
        let (literals, _) = compiled.terminals.len();
        self.automata[terminal as usize - literals].expect("it is an automaton")
    }

    /// Of counted units, their automaton without bounds and its number.
    pub(crate) fn unbounded(&self, compiled: &Compiled, terminal: u32, counted: &Counted) -> &Numbered {
        let (literals, _) = compiled.terminals.len();
        self.unbounded[terminal as usize - literals].get_or_init(|| self.library.unbounded(counted))
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
                        Some((next, below)) => {
                            state = next;
                            below != Below::Inner
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
        let (_, before) = self.pieces.added();
        self.contexts.begin();
        self.add_all(place);
        if self.contexts.has_failed() {
            let mut ids = std::mem::take(&mut self.pieces.ids);
            ids.truncate(before);
            *self.pieces = Pieces::new(ids);
            self.general.clear();
            self.doubtful.clear();
            self.contexts.turn_off();
            self.add_all(place);
        }
    }

    fn add_all(&mut self, place: Place) {
        // What one reading cannot read though its automaton does is taken away from what it adds, if it comes last.
        let mut certain: Vec<TokenId> = Vec::new();
        let mut last = None;
        for index in 0..self.places.readings(place).len() {
            let Reading { terminal, state, .. } = self.places.readings(place)[index];
            let first = certain.len();
            self.doubt_below(terminal, state, &mut certain);
            if first > 0 && certain.len() > first {
                self.doubtful.append(&mut certain);
                last = None;
                continue;
            }
            if certain.len() > first {
                last = Some(index);
            }
        }
        for index in (0..self.places.readings(place).len()).filter(|index| Some(*index) != last) {
            self.add_reading(self.places.readings(place)[index]);
        }
        if let Some(last) = last {
            let others = self.pieces.added();
            self.add_reading(self.places.readings(place)[last]);
            self.pieces.take_away(&certain, others, self.buffer);
        }
        self.doubtful.sort_unstable();
        self.doubtful.dedup();
        // Each may be there for another reason.
        for token in self.pieces.added_among(self.doubtful, self.buffer) {
            let text = self.trees.library.vocabulary().text(token).unwrap_or_default();
            if self.places.run(self.compiled, place, text) == DEAD {
                self.pieces.remove(token);
            }
        }
        self.doubtful.clear();
    }

    fn add_reading(&mut self, reading: Reading) {
        let Reading { terminal, state, todo, .. } = reading;
        let terminals = &self.compiled.terminals;
        if terminal == BOUNDARY {
            self.add_followers(todo);
            return;
        }
        let ended = if terminals.is_literal(terminal) {
            self.open_literals(terminal, state as usize, todo)
        } else {
            let node = self.root(terminal, state);
            let (last, edge) = (Last::Terminal(terminal, state), Some((terminal, todo)));
            self.buffers.open.push(Open { node, last, todo, origin: Origin::Begun, edge, is_met: false });
            terminals.is_accepting(terminal, state).then_some(todo)
        };
        self.add_paths();
        if !self.general.is_empty() {
            self.general.clear();
            let single = self.places.single(reading);
            self.add_by_walk(single);
        } else if let Some(todo) = ended {
            self.add_followers(todo);
        }
    }

    /// The general way.
    fn add_by_walk(&mut self, place: Place) {
        *self.walks += 1;
        let mut walk = Walk { compiled: self.compiled, places: self.places };
        self.trie.fill(&mut walk, place, self.buffer.as_mut());
        self.take_buffer();
    }

    /// Adds the tokens inside `node`.
    pub(crate) fn add_node(&mut self, node: &Arc<Node>, goes_on: bool) {
        self.contexts.meet(node, goes_on);
        self.pieces.add_node(node, goes_on);
    }

    fn take_buffer(&mut self) {
        self.pieces.add_mask(self.buffer.as_ref());
        self.buffer.as_mut().clear();
    }

    /// Adds the tokens that go on in literals of `todo` that agree with `terminal` in their first `depth` bytes, which were read,
    /// and opens the nodes behind them. Answers what is left to do behind the one that ends here, if one does.
    fn open_literals(&mut self, terminal: u32, depth: usize, todo: Todo) -> Option<Todo> {
        let terminals = &self.compiled.terminals;
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let literals = terminals.literals(self.places.parser.edges(followers));
        let mut first = literals.partition_point(|(other, _)| *other < terminal);
        let end = first + terminals.sharing(literals, terminal, depth).len();
        let ended = literals.get(first).filter(|(literal, _)| terminals.literal_len(*literal) == depth);
        let ended = ended.map(|(_, behind)| *behind);
        first += usize::from(ended.is_some());
        let trees = self.trees;
        while first < end {
            let literals = &self.places.parser.edges(followers)[first..end];
            let next = |(literal, _): &(u32, Todo)| terminals.literal(*literal)[depth];
            let byte = next(&literals[0]);
            let going_on = first..first + literals.partition_point(|literal| next(literal) == byte);
            first = going_on.end;
            if let Some((index, group)) = trees.library.all().group(byte) {
                self.add_literals((group, index), None, followers, going_on, depth + 1);
            }
        }
        ended
    }

    /// Adds the tokens that begin with what is left to do.
    fn add_followers(&mut self, todo: Todo) {
        self.add_from_root(todo);
        self.add_paths();
        let general = std::mem::take(&mut self.general);
        if !general.is_empty() {
            // Behind their first byte they are places.
            let mut route = Route::new(self.compiled, self.places, general);
            *self.walks += 1;
            self.trie.fill(&mut route, Route::START, self.buffer.as_mut());
            self.take_buffer();
        }
    }

    /// Doubts the tokens in which a text of `terminal` may come to be one that it leaves out.
    pub(crate) fn doubt_inside(&mut self, terminal: u32) {
        if let Some(except) = self.compiled.terminals.except(terminal) {
            let (literals, _) = self.compiled.terminals.len();
            let tokens = self.trees.containing(terminal as usize - literals, except);
            self.doubtful.extend_from_slice(tokens);
        }
    }

    /// Finds the tokens with which a text of `terminal` that was begun may come to be one that it leaves out. Those that it cannot
    /// read in any way are added to `certain`, and others are doubted.
    fn doubt_below(&mut self, terminal: u32, state: u32, certain: &mut Vec<TokenId>) {
        if terminal == BOUNDARY || self.compiled.terminals.is_literal(terminal) {
            return;
        }
        let Some(except) = self.compiled.terminals.except(terminal) else { return };
        /// On the way to a text that is left out: where in which trie, and whether another may have ended before.
        struct Way<'t> {
            at: Option<(&'t Trie, At)>,
            state: u32,
            has_ended: bool,
        }
        let library = &self.trees.library;
        let mut open = vec![Way { at: None, state, has_ended: false }];
        while let Some(Way { at, state, has_ended }) = open.pop() {
            let has_ended = has_ended || except.is_accepting(state);
            for (byte, next, below) in except.all_below(state) {
                let behind = match at {
                    Some((trie, at)) => trie.child(at, byte).map(|at| (trie, at)),
                    None => {
                        let group = library.all().group(byte);
                        group.map(|(_, group)| (group.trie(library), Trie::FIRST))
                    }
                };
                let Some((trie, at)) = behind else { continue };
                match below {
                    Below::Inner => open.push(Way { at: behind, state: next, has_ended }),
                    Below::Dead if !has_ended => certain.extend_from_slice(trie.below(at)),
                    Below::Dead | Below::LeftOut => self.doubtful.extend_from_slice(trie.below(at)),
                }
            }
        }
    }

    pub(crate) fn root(&mut self, terminal: u32, state: u32) -> Arc<Node> {
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
                    let (number, unbounded) = trees.unbounded(compiled, terminal, counted);
                    match counted.horizon(state, library.longest().0) {
                        Horizon::Mark { min, max } => library.mark(counted, *number, state, (min, max)),
                        Horizon::Inside { min, max, at } => {
                            library.inside(counted, (*number, unbounded), at, (min, max))
                        }
                    }
                }
                Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => unreachable!("it reads no bytes"),
            };
            *bytes += node.memory_in_scratch();
            node
        });
        Arc::clone(node)
    }

    /// The state in which `terminal` begins.
    pub(crate) fn start(&self, terminal: u32) -> u32 {
        match self.compiled.terminals.scanner(terminal) {
            Scanner::Automaton(dfa, _) => u32::try_from(dfa.start().index()).expect("limited"),
            Scanner::Except(except, _) => except.start(),
            Scanner::Counted(counted) => counted.start(),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => unreachable!("it reads no bytes"),
        }
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
    edges: Vec<(u32, Todo)>,
    /// By class: the place behind the first byte of the edges.
    begun: Vec<Place>,
}

impl<'a> Route<'a> {
    const START: u32 = 0;

    /// From `edges`, none of them literals.
    fn new(compiled: &'a Compiled, places: &'a mut Places, edges: Vec<(u32, Todo)>) -> Self {
        let begun = vec![UNKNOWN; compiled.terminals.width()];
        Self { compiled, places, edges, begun }
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
                *begun = self.places.begin(self.compiled, &self.edges, byte);
            }
            *begun
        } else {
            self.places.step(self.compiled, state - 1, byte)
        };
        if next == DEAD { DEAD } else { next + 1 }
    }
}
