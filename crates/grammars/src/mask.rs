//! Masks out of subterminal trees: the union of the tokens of all paths that the parser can take.
//!
//! For each reading of a place the tree of its terminal's state is walked down, as far as the parser follows: the tokens
//! that stay inside are one set that lies ready, and of those that leave the terminal the remainders are read on. Two kinds
//! of readings take the general way, a walk over the vocabulary through places: literals, of which few tokens are ever
//! part, and terminals that might end as well as go on where what follows begins with the same byte.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::StateId;
use unskew_core::{ByteAutomaton, DEAD, MaskMut, TokenTrie, Verdict};

use crate::{
    parser::Todo,
    places::{BOUNDARY, Compiled, Place, Places, Reading, begun},
    trees::{Exits, Node, Path, TreeLibrary, meet},
};

/// Not looked up yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// A library, as a compiled grammar uses it.
#[derive(Debug)]
pub(crate) struct Trees {
    library: Arc<TreeLibrary>,
    /// By terminal, literals not counted: its automaton's number in the library.
    automata: Vec<u32>,
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

/// Makes one mask.
pub(crate) struct Maker<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) trees: &'a Trees,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) places: &'a mut Places,
    pub(crate) known: &'a mut KnownNodes,
    pub(crate) stack: &'a mut Vec<u32>,
    /// How many walks over the vocabulary there were.
    pub(crate) walks: &'a mut u64,
}

impl Trees {
    pub(crate) fn new(library: &Arc<TreeLibrary>, compiled: &Compiled) -> Self {
        let (literals, others) = compiled.terminals.len();
        let automata = (literals..literals + others).map(|terminal| {
            let terminal = u32::try_from(terminal).expect("limited");
            compiled.terminals.automaton(terminal).map_or(UNKNOWN, |dfa| library.automaton(dfa))
        });
        Self { library: Arc::clone(library), automata: automata.collect() }
    }
}

impl Maker<'_> {
    /// Adds the tokens that may follow in `place`, control tokens not counted.
    pub(crate) fn add(&mut self, place: Place, mask: &mut MaskMut<'_>) {
        for index in 0..self.places.readings(place).len() {
            let reading = self.places.readings(place)[index];
            if reading.terminal == BOUNDARY {
                self.add_followers(reading.todo, mask);
            } else if self.compiled.terminals.is_literal(reading.terminal) {
                self.add_by_walk(reading, mask);
            } else {
                let node = self.root(reading.terminal, reading.state);
                if !self.add_paths(node, reading.todo, mask) {
                    self.add_by_walk(reading, mask);
                } else if self.compiled.terminals.is_accepting(reading.terminal, reading.state) {
                    self.add_followers(reading.todo, mask);
                }
            }
        }
    }

    /// The general way.
    fn add_by_walk(&mut self, reading: Reading, mask: &mut MaskMut<'_>) {
        let place = self.places.single(reading);
        *self.walks += 1;
        let mut walk = Walk { compiled: self.compiled, places: self.places };
        self.trie.fill(&mut walk, place, mask.reborrow());
    }

    /// Adds the tokens that begin with what is left to do.
    fn add_followers(&mut self, todo: Todo, mask: &mut MaskMut<'_>) {
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let terminals = &self.compiled.terminals;
        let edges = self.places.parser.edges(followers);
        let literals = terminals.literals(edges).to_vec();
        let others = terminals.others(edges).to_vec();
        let mut general = Vec::new();
        for (terminal, behind) in others {
            let Some(dfa) = terminals.automaton(terminal) else { continue };
            let start = u32::try_from(dfa.start().index()).expect("limited");
            let node = self.root(terminal, start);
            if !self.add_paths(node, behind, mask) {
                general.push((terminal, behind));
            }
        }
        if !literals.is_empty() || !general.is_empty() {
            self.add_by_route(None, todo, literals, general, mask);
        }
    }

    /// Adds the tokens that read the path of `node`, behind which `todo` is left, and whatever follows. Answers false if
    /// there are others: then those that were added are right, but not all.
    fn add_paths(&mut self, node: Arc<Node>, todo: Todo, mask: &mut MaskMut<'_>) -> bool {
        let terminals = &self.compiled.terminals;
        let mut open = vec![(node, todo)];
        while let Some((node, todo)) = open.pop() {
            let followers = self.places.parser.followers(todo, &self.compiled.rules);
            let first = terminals.first_bytes_of(self.places.parser.edges(followers));
            if meet(&first, &node.extending) {
                return false;
            }
            node.inside.add_to(mask);
            match &node.exits {
                Exits::Few(remainders) => {
                    let start = self.places.boundary(todo);
                    let (places, compiled) = (&mut *self.places, self.compiled);
                    let step = |place: u32, byte: u8| places.step(compiled, place, byte);
                    remainders.read(start, self.stack, step, |token| mask.insert(token));
                }
                Exits::Many(bytes) => {
                    let edges = self.places.parser.edges(followers);
                    let literals: Vec<(u32, Todo)> = terminals.literals(edges).to_vec();
                    let others: Vec<(u32, Todo)> = terminals.others(edges).to_vec();
                    for (terminal, behind) in others {
                        if meet(bytes, terminals.first_bytes(terminal)) {
                            open.push((self.child(&node, terminal), behind));
                        }
                    }
                    if meet(bytes, &terminals.first_bytes_of(&literals)) {
                        self.add_by_route(Some(node.path()), todo, literals, Vec::new(), mask);
                    }
                }
            }
        }
        true
    }

    /// Adds the tokens that read `path`, and then one of the edges of `todo` that are given, and whatever follows.
    fn add_by_route(
        &mut self,
        path: Option<Path>,
        todo: Todo,
        literals: Vec<(u32, Todo)>,
        others: Vec<(u32, Todo)>,
        mask: &mut MaskMut<'_>,
    ) {
        *self.walks += 1;
        let begun = vec![UNKNOWN; self.compiled.terminals.width()];
        let first_place = path.as_ref().map_or(1, |path| path.len() + 1);
        let mut route = Route {
            compiled: self.compiled,
            places: self.places,
            path,
            first_place,
            todo,
            literals,
            others,
            begun,
        };
        self.trie.fill(&mut route, Path::START, mask.reborrow());
    }

    fn root(&mut self, terminal: u32, state: u32) -> Arc<Node> {
        let Self { compiled, trees, known, .. } = self;
        let KnownNodes { roots, bytes, .. } = &mut **known;
        let node = roots.entry((terminal, state)).or_insert_with(|| {
            let (automaton, dfa) = of_library(compiled, trees, terminal);
            let node = trees.library.root(automaton, dfa, StateId::from_index(state as usize));
            *bytes += node.memory_usage();
            node
        });
        Arc::clone(node)
    }

    fn child(&mut self, node: &Arc<Node>, terminal: u32) -> Arc<Node> {
        let Self { compiled, trees, known, .. } = self;
        let KnownNodes { children, bytes, .. } = &mut **known;
        // The node is kept by the tables that it was found in, for as long as this entry.
        let child = children.entry((Arc::as_ptr(node).addr(), terminal)).or_insert_with(|| {
            let (automaton, dfa) = of_library(compiled, trees, terminal);
            let child = trees.library.child(node, automaton, dfa);
            *bytes += child.memory_usage();
            child
        });
        Arc::clone(child)
    }
}

/// The number of the automaton of `terminal` in the library, and the automaton.
fn of_library<'a>(
    compiled: &'a Compiled,
    trees: &Trees,
    terminal: u32,
) -> (u32, &'a Arc<unskew_automata::Dfa>) {
    let (literals, _) = compiled.terminals.len();
    let dfa = compiled.terminals.automaton(terminal).expect("a terminal that reads bytes");
    (trees.automata[terminal as usize - literals], dfa)
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
        self.places.step(self.compiled, state, byte)
    }
}

/// A path, then certain edges, then places. States are those of the path, and behind them the places.
struct Route<'a> {
    compiled: &'a Compiled,
    places: &'a mut Places,
    path: Option<Path>,
    /// The number of place 0.
    first_place: u32,
    todo: Todo,
    literals: Vec<(u32, Todo)>,
    others: Vec<(u32, Todo)>,
    /// By class: the place behind the first byte of the edges.
    begun: Vec<Place>,
}

impl Route<'_> {
    fn begin(&mut self, byte: u8) -> u32 {
        let class = self.compiled.terminals.class(byte);
        if self.begun[usize::from(class)] == UNKNOWN {
            let mut readings = Vec::new();
            let terminals = &self.compiled.terminals;
            begun(terminals, &self.literals, &self.others, class, self.todo, &mut readings);
            self.begun[usize::from(class)] =
                if readings.is_empty() { DEAD } else { self.places.place(&mut readings, self.compiled) };
        }
        self.place(self.begun[usize::from(class)])
    }

    fn place(&self, place: Place) -> u32 {
        if place == DEAD { DEAD } else { place + self.first_place }
    }
}

impl ByteAutomaton for Route<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.compiled.terminals.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if let Some(place) = state.checked_sub(self.first_place) {
            let next = self.places.step(self.compiled, place, byte);
            return self.place(next);
        }
        let Some(path) = &self.path else { return self.begin(byte) };
        let next = path.step(state, byte);
        if next == path.len() { self.begin(byte) } else { next }
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        if state < self.first_place { Verdict::None } else { Verdict::All }
    }
}
