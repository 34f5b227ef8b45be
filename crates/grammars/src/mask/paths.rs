//! The paths that tokens may take through a grammar: nodes of subterminal trees, opened as far as the parser follows.
//!
//! A path begins with a terminal: one that was begun before the token, or one that the token begins with. The tokens inside its
//! node are added. Of those that leave it, some go on with literals, which are met with what is left of them byte by byte;
//! where others go on with an automaton, the next node is opened. Where a terminal flows into the next one, the two are
//! [joined].
//!
//! The order of nodes does not matter, and a token may be found on several paths.

use std::{cmp::Reverse, ops::Range, sync::Arc};

use smallvec::SmallVec;
use unskew_automata::{Dfa, StateId};
use unskew_trie::{ByteSet, DEAD};

use super::{
    contexts::Point,
    maker::{Buffers, KnownNodes, Maker},
};
use crate::{
    ids::NONE,
    network::terminals::Scanner,
    parser::{
        engine::{Followers, Todo},
        places::{Compiled, Place},
    },
    trees::{
        joined::{self, Next},
        kept::{LibraryId, hold_automaton, hold_node},
        nodes::{Node, Parent, Reads, TreeLibrary},
        remainders::{At, Exits, Group, Trie},
    },
};

/// Up to how many nodes are looked at for one reading, before the general way is taken. Each is another sequence of terminals
/// that are no literals, and tokens of hundreds of bytes may have as many as there are ways to cut them.
const MOST_NODES: usize = 1000;

/// From nodes that are left with so many bytes, what follows is found [once for all contexts](crate::mask::contexts).
const MANY_GROUPS: usize = 8;

/// And behind places in front of so many others.
const MANY_PLACES: u32 = 64;

/// Behind places in front of at most so many others, what follows is read place by place: less work than to make a node, or
/// to look for it.
const FEW_PLACES: u32 = 64;

/// Up to how many terminals and loops are joined into one, and how many ways to join one there may be.
const MOST_JOINED: (u32, usize) = (4, 8);

/// Terminals that are one automaton; see [`joined`].
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    /// Behind its origin.
    node: Arc<Node>,
    dfa: Arc<Dfa>,
    /// Of the automaton, in the library.
    number: LibraryId,
}

/// What a path reads since its origin: a terminal from a state on, or an automaton of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LastKey {
    Terminal(u32, u32),
    Joined(LibraryId),
}

/// [`Parent::key`], if it is no root.
pub(crate) type OriginKey = Option<(LibraryId, At)>;

/// Where it begins; what is joined; and what it is joined with.
pub(crate) type JoinKey = (OriginKey, LastKey, Behind);

/// With what it is joined: a terminal, or all those of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Behind {
    Terminal(u32),
    Loop(Loop),
}

/// Terminals that may come again and again: those that lead from a todo to one where all of its own still follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Loop {
    pub(crate) from: Todo,
    pub(crate) to: Todo,
}

/// A node that is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) node: Arc<Node>,
    pub(crate) last: Last,
    /// What is left to do behind that.
    pub(crate) todo: Todo,
    pub(crate) origin: Origin,
    /// The first terminal behind the origin, and what is left to do behind that. None if this is how it goes on behind a
    /// [hole](crate::parser::local).
    pub(crate) edge: Option<(u32, Todo)>,
    /// Whether the tokens inside were added before.
    pub(crate) is_met: bool,
}

/// What a path reads since its origin.
#[derive(Clone, Debug)]
pub(crate) enum Last {
    /// A terminal, from a state on.
    Terminal(u32, u32),
    Joined {
        joined: Joined,
        /// How many they are.
        parts: u32,
        /// The loop with any number of whose terminals it ends.
        loops: Option<Loop>,
    },
}

/// Where a node comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// It is the root of a terminal that begins with the token.
    Root,
    /// It is that of one that was begun before.
    Begun,
    /// From the exits of a node.
    Exits(Arc<Node>),
    /// From a place among the exits of a node, or among all tokens: in the group at this index.
    Behind(Option<Arc<Node>>, usize, At),
}

impl Maker<'_> {
    /// Adds the tokens that read the paths of the open nodes and whatever follows. The terminals of roots for which there are others
    /// are `general` then, with what is left to do behind them: for these, the tokens that were added are right, but not all.
    pub(crate) fn add_paths(&mut self) {
        let mut looked_at = 0;
        while let Some(open) = self.buffers.open.pop() {
            looked_at += 1;
            if looked_at > MOST_NODES {
                self.add_generally(&open);
                continue;
            }
            let todo = open.todo;
            let is_wide = open.node.exits.groups.len() >= MANY_GROUPS || self.trees.library.keeps_all();
            let point = Point::Open(open);
            if is_wide && self.add_by_part(&point, todo) {
                continue;
            }
            if let Point::Open(open) = point {
                self.add_open(&open);
            }
        }
    }

    /// Adds the tokens of a path and those that go on from it.
    pub(crate) fn add_open(&mut self, open: &Open) {
        let Open { node, last, todo, origin, .. } = open;
        let first = self.places.first_bytes(self.compiled, *todo);
        if first.meets(&node.extending) && !self.open_joined(open) {
            self.add_generally(open);
            return;
        }
        self.reach_holes(*todo, || Point::Open(open.clone()));
        if !open.is_met {
            let goes_on = matches!((origin, last), (Origin::Begun, Last::Terminal(..)));
            self.add_node(node, goes_on);
        }
        let behind = Origin::Exits(Arc::clone(node));
        self.add_exits(&node.exits, Some(node), &behind, *todo, Some(last));
    }

    /// As [`add_open`](Self::add_open), the general way.
    fn add_generally(&mut self, open: &Open) {
        let Some(edge) = open.edge.filter(|_| !self.contexts.is_making()) else {
            // A walk would not see through holes, nor begin in the middle.
            self.contexts.fail();
            return;
        };
        match &open.origin {
            Origin::Root | Origin::Begun => self.general.push(edge),
            Origin::Exits(parent) => self.add_by_places(&parent.exits, None, edge),
            Origin::Behind(Some(holder), group, at) => {
                self.add_by_places(&holder.exits, Some((*group, *at)), edge);
            }
            Origin::Behind(None, group, at) => {
                let trees = self.trees;
                self.add_by_places(trees.library.all(), Some((*group, *at)), edge);
            }
        }
    }

    /// Opens the nodes of what is read by `open` joined with what it flows into. Answers whether that is all of this.
    fn open_joined(&mut self, open: &Open) -> bool {
        let (most_parts, most_ways) = MOST_JOINED;
        let parts = match open.last {
            Last::Terminal(..) => 1,
            Last::Joined { parts, .. } => parts,
        };
        let followers = self.places.parser.followers(open.todo, &self.compiled.rules);
        let mut ways = 0;
        let mut loops: SmallVec<[Loop; 2]> = SmallVec::new();
        for index in 0..self.places.parser.edges(followers).len() {
            let edge = self.places.parser.edges(followers)[index];
            if !self.flows(&open.node, edge.0) || self.is_in_loop(&open.last, edge) {
                continue;
            }
            let in_loop = self.loop_of(open.todo, edge);
            if let Some(one) = in_loop {
                if loops.contains(&one) {
                    continue;
                }
                loops.push(one);
            }
            ways += 1;
            if ways > most_ways || parts == most_parts {
                return false;
            }
            let behind = in_loop.map_or(Behind::Terminal(edge.0), Behind::Loop);
            let Some(joined) = self.join(open, behind) else { return false };
            self.buffers.open.push(Open {
                node: Arc::clone(&joined.node),
                last: Last::Joined { joined, parts: parts + 1, loops: in_loop },
                todo: edge.1,
                origin: open.origin.clone(),
                edge: open.edge,
                is_met: false,
            });
        }
        true
    }

    /// Whether `terminal` begins with a byte with which that of `node` might go on where it might also end.
    fn flows(&self, node: &Node, terminal: u32) -> bool {
        let terminals = &self.compiled.terminals;
        if terminals.is_literal(terminal) {
            node.extending.contains(terminals.literal(terminal)[0])
        } else {
            terminals.first_bytes(terminal).meets(&node.extending)
        }
    }

    /// The loop to which an edge from `todo` belongs, if it can be joined with others.
    fn loop_of(&mut self, todo: Todo, (terminal, behind): (u32, Todo)) -> Option<Loop> {
        let loops = self.may_loop(terminal) && self.places.parser.covers(behind, todo, &self.compiled.rules);
        loops.then_some(Loop { from: todo, to: behind })
    }

    /// Whether `terminal` is an automaton that can be joined with others into a loop.
    fn may_loop(&self, terminal: u32) -> bool {
        let terminals = &self.compiled.terminals;
        !terminals.is_literal(terminal)
            && matches!(terminals.scanner(terminal), Scanner::Automaton(..) | Scanner::Except(..))
    }

    /// Whether the terminal of an edge is read by `last` already, any number of times.
    fn is_in_loop(&mut self, last: &Last, edge: (u32, Todo)) -> bool {
        let Last::Joined { loops: Some(Loop { from, to }), .. } = last else { return false };
        edge.1 == *to && self.may_loop(edge.0) && {
            let followers = self.places.parser.followers(*from, &self.compiled.rules);
            let others = self.compiled.terminals.others(self.places.parser.edges(followers));
            others.binary_search(&edge).is_ok()
        }
    }

    /// What `open` reads joined with what is `behind`. `None` where that is too large.
    fn join(&mut self, open: &Open, behind: Behind) -> Option<Joined> {
        let terminals = &self.compiled.terminals;
        let others: SmallVec<[u32; 4]> = match behind {
            Behind::Terminal(terminal) => SmallVec::from_slice(&[terminal]),
            Behind::Loop(Loop { from, to }) => {
                let followers = self.places.parser.followers(from, &self.compiled.rules);
                let edges = terminals.others(self.places.parser.edges(followers)).iter();
                let edges = edges.filter(|(terminal, behind)| *behind == to && self.may_loop(*terminal));
                edges.map(|(terminal, _)| *terminal).collect()
            }
        };
        for other in others.iter().filter(|other| !terminals.is_literal(**other)) {
            self.doubt_inside(*other);
        }
        let last = open.last.key();
        let key = (open.origin.parent(&self.trees.library).map(|parent| parent.key()), last, behind);
        if let Some(known) = self.known.joined.get(&key) {
            return known.clone();
        }
        let joined = self.make_joined(open, behind, &others);
        self.known.bytes += size_of::<(JoinKey, Option<Joined>)>()
            + joined.as_ref().map_or(0, |joined| joined.node.memory_in_scratch());
        self.known.joined.insert(key, joined.clone());
        joined
    }

    /// Whether `right` reads all that `left` reads.
    pub(crate) fn is_within(&mut self, left: &Last, right: &Last) -> bool {
        let key = (left.key(), right.key());
        let Self { compiled, known, .. } = self;
        *known.within.entry(key).or_insert_with(|| {
            known.bytes += size_of::<((LastKey, LastKey), bool)>();
            let automata = automaton_of(compiled, left).zip(automaton_of(compiled, right));
            automata.is_some_and(|(left, right)| joined::is_within(left, right))
        })
    }

    /// As [`join`](Self::join); `others` are the terminals behind.
    fn make_joined(&self, open: &Open, behind: Behind, others: &[u32]) -> Option<Joined> {
        let terminals = &self.compiled.terminals;
        let automaton = |terminal: u32| match terminals.scanner(terminal) {
            Scanner::Automaton(dfa, _) => Some((self.trees.number(self.compiled, terminal), dfa)),
            Scanner::Except(except, _) => Some((self.trees.number(self.compiled, terminal), except.base())),
            Scanner::Counted(_) | Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => None,
        };
        // A text that is left out does not end, though the automaton may. Inside tokens those are doubted, but not in front.
        let hides_end = |terminal: u32, state: u32| {
            let except = terminals.except(terminal);
            except.is_some_and(|except| {
                except.base().is_accepting(except.state(state)) && !except.is_accepting(state)
            })
        };
        let (dfa, state) = automaton_of(self.compiled, &open.last)?;
        let number = match &open.last {
            Last::Terminal(terminal, state) if hides_end(*terminal, *state) => return None,
            Last::Terminal(terminal, _) => self.trees.number(self.compiled, *terminal),
            Last::Joined { joined, .. } => joined.number,
        };
        let next = match behind {
            Behind::Terminal(terminal) if terminals.is_literal(terminal) => {
                Next::Literal(terminals.literal(terminal))
            }
            Behind::Terminal(terminal) if hides_end(terminal, self.start(terminal)) => return None,
            Behind::Terminal(terminal) => {
                let (number, dfa) = automaton(terminal)?;
                Next::Once(number, dfa)
            }
            Behind::Loop(_) => {
                let parts = others.iter().filter_map(|terminal| automaton(*terminal));
                Next::Many(parts.map(|(number, dfa)| (number, &**dfa)).collect())
            }
        };
        let library = &self.trees.library;
        let (number, dfa) = library.joined((number, dfa), state, &next)?;
        let node = match open.origin.parent(library) {
            None => library.root(number, &dfa, dfa.start()),
            Some(parent) => library.child(&parent, Reads::Automaton(number, &dfa)),
        };
        Some(Joined { node, dfa, number })
    }

    /// Adds the tokens that leave by `exits` and go on with what follows `todo`, and opens the nodes behind them, which come from
    /// `origin`. `holder` has the exits; if none has, they are all tokens. `last` was read up to there, and is joined with what it
    /// flows into.
    pub(crate) fn add_exits(
        &mut self,
        exits: &Exits,
        holder: Option<&Arc<Node>>,
        origin: &Origin,
        todo: Todo,
        last: Option<&Last>,
    ) {
        let common = self.places.first_bytes(self.compiled, todo).and(&exits.bytes);
        if common.is_empty() {
            return;
        }
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        for (index, group) in common.iter().filter_map(|byte| exits.group(byte)) {
            let edges = self.places.parser.edges(followers);
            let literals = self.compiled.terminals.beginning(edges, group.byte);
            if !literals.is_empty() {
                self.add_literals((group, index), holder, followers, literals, 1);
            }
        }
        self.open_children(origin, &common, todo, last.zip(holder));
    }

    /// Adds the tokens of a group of exits, at this index, that go on in `literals`, which are edges and agree in their first `depth`
    /// bytes, which were read; and opens the nodes behind those. `holder` has the exits; if none has, they are all tokens.
    pub(crate) fn add_literals(
        &mut self,
        (group, index): (&Group, usize),
        holder: Option<&Arc<Node>>,
        followers: Followers,
        literals: Range<usize>,
        depth: usize,
    ) {
        self.meet(group, Trie::FIRST, depth, followers, literals);
        self.go_on(holder, group, index);
    }

    /// Adds the tokens of `group` that go on from `at` in `literals`, which are edges and were read to their first `depth` bytes.
    fn meet(&mut self, group: &Group, at: At, depth: usize, followers: Followers, literals: Range<usize>) {
        let Self { pieces, places, compiled, trees, buffers, .. } = self;
        let Buffers { literals: open, ended, .. } = &mut **buffers;
        group.trie(&trees.library).meet(
            (at, depth),
            &places.parser.edges(followers)[literals],
            |(literal, _)| compiled.terminals.literal(literal),
            |tokens| pieces.ids.extend_from_slice(tokens),
            |at, (_, behind)| ended.push(Reverse((at, behind))),
            open,
        );
    }

    /// Goes on where literals have ended in `group`, which is at this index of its exits.
    pub(crate) fn go_on(&mut self, holder: Option<&Arc<Node>>, group: &Group, index: usize) {
        let on_heap = self.contexts.on_heap.replace(group.id);
        // Places in depth-first order: what is left to do at one of them is known when it is its turn.
        while let Some(Reverse((at, mut todo))) = self.buffers.ended.pop() {
            while let Some(Reverse((_, other))) = self.buffers.ended.peek().filter(|other| other.0.0 == at) {
                todo = self.places.parser.union(todo, *other, &self.compiled.rules);
                self.buffers.ended.pop();
            }
            let may_be_part = self.contexts.made_in != Some(group.id)
                && (self.trees.library.keeps_all()
                    || group.trie(&self.trees.library).size(at) >= MANY_PLACES);
            if !(may_be_part && self.add_by_part(&Point::Behind(holder.cloned(), index, at), todo)) {
                self.add_behind(holder, (group, index), at, todo);
            }
        }
        self.contexts.on_heap = on_heap;
    }

    /// Adds the tokens that go on from `at` with what follows `todo`, and opens nodes.
    pub(crate) fn add_behind(
        &mut self,
        holder: Option<&Arc<Node>>,
        (group, index): (&Group, usize),
        at: At,
        todo: Todo,
    ) {
        self.reach_holes(todo, || Point::Behind(holder.cloned(), index, at));
        let first = self.places.first_bytes(self.compiled, todo);
        let Self { compiled, trees, .. } = *self;
        let trie = group.trie(&trees.library);
        let mut children: SmallVec<[(u8, At); 8]> = SmallVec::new();
        children.extend(trie.children(at).filter(|(byte, _)| first.contains(*byte)));
        if children.is_empty() {
            return;
        }
        let mut bytes = ByteSet::default();
        let followers = self.places.parser.followers(todo, &compiled.rules);
        for (byte, child) in children.iter().copied() {
            bytes.insert(byte);
            let literals = compiled.terminals.beginning(self.places.parser.edges(followers), byte);
            if !literals.is_empty() {
                self.meet(group, child, 1, followers, literals);
            }
        }
        let few = trie.size(at) <= FEW_PLACES;
        if few {
            let edges = self.places.parser.edges(followers);
            for index in edges.len() - compiled.terminals.others(edges).len()..edges.len() {
                let edge = self.places.parser.edges(followers)[index];
                let first = compiled.terminals.first_bytes(edge.0);
                for (byte, child) in children.iter().filter(|(byte, _)| first.contains(*byte)) {
                    self.read_on(trie, (*byte, *child), edge);
                }
            }
        } else {
            self.open_children(&Origin::Behind(holder.cloned(), index, at), &bytes, todo, None);
        }
    }

    /// Adds the tokens that go on from the place behind `byte` in the terminal of `edge`, no literal, and ends that where it may
    /// end.
    fn read_on(&mut self, trie: &Trie, (byte, at): (u8, At), (terminal, behind): (u32, Todo)) {
        let Self { pieces, compiled, buffers, .. } = self;
        let Buffers { walk, ended, .. } = &mut **buffers;
        let terminals = &compiled.terminals;
        let state = terminals.first(terminal, terminals.class(byte));
        if state == NONE {
            return;
        }
        let step = |state: u32, byte: u8| terminals.step(terminal, state, terminals.class(byte));
        trie.walk(at, state, walk, step, |at, state| {
            pieces.ids.extend_from_slice(trie.tokens(at));
            if trie.size(at) > 1 && terminals.is_accepting(terminal, state) {
                ended.push(Reverse((at, behind)));
            }
        });
    }

    /// Opens the nodes behind `origin` of the automata that follow `todo` and begin with one of `bytes`; not of those that the last
    /// one, of this node, is joined with.
    fn open_children(
        &mut self,
        origin: &Origin,
        bytes: &ByteSet,
        todo: Todo,
        last: Option<(&Last, &Arc<Node>)>,
    ) {
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let edges = self.places.parser.edges(followers);
        let others = edges.len() - self.compiled.terminals.others(edges).len()..edges.len();
        let mut loops: SmallVec<[Loop; 2]> = SmallVec::new();
        if let Some((last, node)) = last {
            for index in others.clone() {
                let edge = self.places.parser.edges(followers)[index];
                // As it is joined: what is in its loop already is not joined with the rest of another one.
                if self.flows(node, edge.0) && !self.is_in_loop(last, edge) {
                    loops.extend(self.loop_of(todo, edge).filter(|one| !loops.contains(one)));
                }
            }
        }
        for index in others {
            let edge = self.places.parser.edges(followers)[index];
            let (terminal, todo_behind) = edge;
            if !bytes.meets(self.compiled.terminals.first_bytes(terminal)) {
                continue;
            }
            let is_joined = |(last, node): (&Last, &Arc<Node>)| {
                self.flows(node, terminal)
                    || !loops.is_empty() && self.loop_of(todo, edge).is_some_and(|one| loops.contains(&one))
                    || self.is_in_loop(last, edge)
            };
            if !last.is_some_and(is_joined) {
                self.doubt_inside(terminal);
                let (node, state) = self.child(origin, terminal);
                let last = Last::Terminal(terminal, state);
                self.buffers.open.push(Open {
                    node,
                    last,
                    todo: todo_behind,
                    origin: origin.clone(),
                    edge: Some(edge),
                    is_met: false,
                });
            }
        }
    }

    /// Adds the tokens that leave by `exits`, or those that come through a place of one of their groups, and go on with the
    /// terminal and what is left to do behind it. By places, as a walk over the vocabulary would.
    fn add_by_places(&mut self, exits: &Exits, at: Option<(usize, At)>, edge: (u32, Todo)) {
        let Self { pieces, places, compiled, trees, buffers, .. } = self;
        let library = &trees.library;
        let mut read = |trie: &Trie, at: At, byte: u8| {
            let behind = places.begin(compiled, &[edge], byte);
            if behind != DEAD {
                let step = |place: Place, byte: u8| {
                    places.work.reads += 1;
                    places.step(compiled, place, byte)
                };
                let each = |at: At, _| pieces.ids.extend_from_slice(trie.tokens(at));
                trie.walk(at, behind, &mut buffers.walk, step, each);
            }
        };
        match at {
            None => {
                let first = compiled.terminals.first_bytes(edge.0);
                for group in exits.groups.iter().filter(|group| first.contains(group.byte)) {
                    read(group.trie(library), Trie::FIRST, group.byte);
                }
            }
            Some((group, at)) => {
                let trie = exits.groups[group].trie(library);
                trie.children(at).for_each(|(byte, child)| read(trie, child, byte));
            }
        }
    }

    /// The node behind `origin` where `terminal` comes next, and the state in which that begins.
    fn child(&mut self, origin: &Origin, terminal: u32) -> (Arc<Node>, u32) {
        let start = self.start(terminal);
        let library = &self.trees.library;
        let Some(parent) = origin.parent(library) else { return (self.root(terminal, start), start) };
        let Self { compiled, trees, known, doubtful, .. } = self;
        let KnownNodes { children, bytes, .. } = &mut **known;
        if let Scanner::Counted(_) = compiled.terminals.scanner(terminal) {
            doubtful.extend_from_slice(library.longest().1);
        }
        let child = children.entry((parent.key(), terminal)).or_insert_with(|| {
            let reads = match compiled.terminals.scanner(terminal) {
                Scanner::Automaton(dfa, _) => Reads::Automaton(trees.number(compiled, terminal), dfa),
                Scanner::Except(except, _) => {
                    Reads::Automaton(trees.number(compiled, terminal), except.base())
                }
                Scanner::Counted(counted) => {
                    let (number, _) = trees.unbounded(compiled, terminal, counted);
                    Reads::Counted(*number, counted, counted.left(0, library.longest().0))
                }
                Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => unreachable!("it reads no bytes"),
            };
            let child = library.child(&parent, reads);
            *bytes += child.memory_in_scratch();
            child
        });
        (Arc::clone(child), start)
    }
}

/// The automaton of what is read, and the state from which on it is; none where units are counted.
fn automaton_of<'l>(compiled: &'l Compiled, last: &'l Last) -> Option<(&'l Dfa, StateId)> {
    match last {
        Last::Joined { joined, .. } => Some((&joined.dfa, joined.dfa.start())),
        Last::Terminal(terminal, state) => match compiled.terminals.scanner(*terminal) {
            Scanner::Automaton(dfa, _) => Some((dfa, StateId::from_index(*state as usize))),
            Scanner::Except(except, _) => Some((except.base(), except.state(*state))),
            Scanner::Counted(_) | Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => None,
        },
    }
}

impl Open {
    /// Calls `each` with every node and automaton that it refers to, and the bytes of that.
    pub(crate) fn each_held(&self, each: &mut dyn FnMut(LibraryId, usize)) {
        hold_node(&self.node, each);
        if let Last::Joined { joined, .. } = &self.last {
            hold_node(&joined.node, each);
            hold_automaton((joined.number, &joined.dfa), each);
        }
        if let Origin::Exits(node) | Origin::Behind(Some(node), ..) = &self.origin {
            hold_node(node, each);
        }
    }
}

impl Last {
    pub(crate) fn key(&self) -> LastKey {
        match self {
            Self::Terminal(terminal, state) => LastKey::Terminal(*terminal, *state),
            Self::Joined { joined, .. } => LastKey::Joined(joined.number),
        }
    }
}

impl Origin {
    /// Where nodes come from that are no roots.
    pub(crate) fn parent<'o>(&'o self, library: &'o TreeLibrary) -> Option<Parent<'o>> {
        match self {
            Self::Root | Self::Begun => None,
            Self::Exits(node) => Some(Parent::Exits(node)),
            Self::Behind(Some(node), group, at) => {
                Some(Parent::Behind(Some(node), &node.exits.groups[*group], *at))
            }
            Self::Behind(None, group, at) => Some(Parent::Behind(None, &library.all().groups[*group], *at)),
        }
    }
}
