//! Masks out of subterminal trees: the union of the tokens of all paths that the parser can take.
//!
//! For each reading of a place the tree of its terminal's state is walked down, as far as the parser follows: the tokens
//! that stay inside are one set that lies ready, and what is left of those that leave the terminal is read on. Literals are met
//! with what is left byte by byte; an automaton's next node lies ready or is made from it; the parser is asked for nothing but
//! what follows where a terminal ended. Terminals that might end as well as go on where what follows begins with the same byte are
//! [joined](crate::joined) with that. Only where this becomes too large is the general way taken, a walk through places over what
//! is left of tokens, or over the vocabulary.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use hashbrown::HashMap;
use unskew_automata::{Dfa, StateId};
use unskew_core::{ByteAutomaton, DEAD, TokenId, TokenMask, TokenTrie};

use crate::{
    Counted, Except,
    counted::Horizon,
    distinct::Remaining,
    except::Below,
    joined::Next,
    parser::{Followers, Todo},
    pieces::Pieces,
    places::{BOUNDARY, Compiled, Place, Places, Reading},
    remainders::{At, Exits, Group, Trie},
    terminals::Scanner,
    tracked::{Holding, marks},
    trees::{Bytes, Node, Parent, Reads, TreeLibrary, common, contains, insert, meet},
};

/// Up to how many nodes are looked at for one reading, before the general way is taken. Each is another sequence of terminals
/// that are no literals, and tokens of hundreds of bytes may have as many as there are ways to cut them.
const MOST_NODES: usize = 1000;

/// Up to how many terminals and loops are joined into one, and how many ways to join one there may be.
const MOST_JOINED: (u32, usize) = (4, 8);

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
    /// By terminal, literals not counted: of counted units, their automaton without bounds and its number, once it was asked for.
    unbounded: Vec<OnceLock<(u32, Arc<Dfa>)>>,
}

/// The nodes that a scratch has met.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes {
    /// By terminal and state.
    roots: HashMap<(u32, u32), Arc<Node>>,
    /// By [`Parent::key`] and terminal.
    children: HashMap<((u32, At), u32), Arc<Node>>,
    /// By [`Parent::key`], if it is no root, what is joined and what it is joined with. `None` where that is too large.
    joined: HashMap<(Option<(u32, At)>, LastKey, Behind), Option<Joined>>,
    bytes: usize,
}

/// Terminals that are one automaton; see [`joined`](crate::joined).
#[derive(Clone, Debug)]
struct Joined {
    /// Behind its origin.
    node: Arc<Node>,
    dfa: Arc<Dfa>,
    /// Of the automaton, in the library.
    number: u32,
}

/// What a path reads since its origin: a terminal from a state on, or an automaton of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum LastKey {
    Terminal(u32, u32),
    Joined(u32),
}

/// With what it is joined: a terminal, or all those that lead back to the same todo.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Behind {
    Terminal(u32),
    Loop(Todo),
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
    literals: Vec<(At, u32, u32, u32)>,
    /// Where literals have ended in a trie, and what is left to do there.
    ended: Vec<(At, Todo)>,
    open: Vec<Open>,
    /// For [`Trie::walk`].
    walk: Vec<u32>,
}

/// A node that is to be looked at.
#[derive(Debug)]
struct Open {
    node: Arc<Node>,
    last: Last,
    /// What is left to do behind that.
    todo: Todo,
    origin: Origin,
    /// The first terminal behind the origin, and what is left to do behind that.
    edge: (u32, Todo),
}

/// What a path reads since its origin.
#[derive(Clone, Debug)]
enum Last {
    /// A terminal, from a state on.
    Terminal(u32, u32),
    Joined {
        joined: Joined,
        /// How many they are.
        parts: u32,
        /// Whether it ends with any number of terminals that lead back to the todo behind it.
        is_loop: bool,
    },
}

/// Where a node comes from.
#[derive(Clone, Debug)]
enum Origin {
    /// It is the root of a terminal that begins with the token.
    Root,
    /// It is that of one that was begun before.
    Begun,
    /// From the exits of a node.
    Exits(Arc<Node>),
    /// From a place among the exits of a node, or among all tokens: in the group at this index.
    Behind(Option<Arc<Node>>, usize, At),
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
                // Of counted units it is that without bounds, made by need.
                Scanner::Counted(_) | Scanner::Token(_) => UNKNOWN,
            }
        });
        let containing = (0..others).map(|_| OnceLock::new()).collect();
        let unbounded = (0..others).map(|_| OnceLock::new()).collect();
        Self { library: Arc::clone(library), automata: automata.collect(), containing, unbounded }
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

    /// Of counted units, their automaton without bounds and its number.
    fn unbounded(&self, compiled: &Compiled, terminal: u32, counted: &Counted) -> &(u32, Arc<Dfa>) {
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
            let (last, edge) = (Last::Terminal(terminal, state), (terminal, todo));
            self.buffers.open.push(Open { node, last, todo, origin: Origin::Begun, edge });
            terminals.is_accepting(terminal, state).then_some(todo)
        };
        if !self.add_paths().is_empty() {
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
        let library = Arc::clone(&self.trees.library);
        self.add_literals(library.all(), None, followers, first..end, depth);
        ended
    }

    /// Adds the tokens that begin with what is left to do.
    fn add_followers(&mut self, todo: Todo) {
        let library = Arc::clone(&self.trees.library);
        self.add_exits(library.all(), None, Origin::Root, todo, None);
        let general = self.add_paths();
        if !general.is_empty() {
            // Behind their first byte they are places.
            let mut route = Route::new(self.compiled, self.places, general);
            *self.walks += 1;
            self.trie.fill(&mut route, Route::START, self.buffer.as_mut());
            self.take_buffer();
        }
    }

    /// Adds the tokens that read the paths of the open nodes and whatever follows. Answers the terminals of roots for which there
    /// are others, and what is left to do behind them: for these, the tokens that were added are right, but not all.
    fn add_paths(&mut self) -> Vec<(u32, Todo)> {
        let (mut general, mut looked_at) = (Vec::new(), 0);
        while let Some(open) = self.buffers.open.pop() {
            let first = self.places.first_bytes(self.compiled, open.todo);
            looked_at += 1;
            let flows = meet(&first, &open.node.extending);
            if looked_at > MOST_NODES || flows && !self.open_joined(&open) {
                match open.origin {
                    Origin::Root | Origin::Begun => general.push(open.edge),
                    Origin::Exits(parent) => self.add_by_places(&parent.exits, None, open.edge),
                    Origin::Behind(Some(holder), group, at) => {
                        self.add_by_places(&holder.exits, Some((group, at)), open.edge);
                    }
                    Origin::Behind(None, group, at) => {
                        let library = Arc::clone(&self.trees.library);
                        self.add_by_places(library.all(), Some((group, at)), open.edge);
                    }
                }
                continue;
            }
            let Open { node, last, todo, origin, .. } = open;
            let goes_on = matches!((origin, &last), (Origin::Begun, Last::Terminal(..)));
            self.pieces.add_node(&node, goes_on);
            self.add_exits(&node.exits, Some(&node), Origin::Exits(Arc::clone(&node)), todo, Some(&last));
        }
        general
    }

    /// Opens the nodes of what is read by `open` joined with what it flows into. Answers whether that is all of this.
    fn open_joined(&mut self, open: &Open) -> bool {
        let (most_parts, most_ways) = MOST_JOINED;
        let parts = match open.last {
            Last::Terminal(..) => 1,
            Last::Joined { parts, .. } => parts,
        };
        let followers = self.places.parser.followers(open.todo, &self.compiled.rules);
        let (mut ways, mut loops) = (0, false);
        for index in 0..self.places.parser.edges(followers).len() {
            let edge = self.places.parser.edges(followers)[index];
            if !self.flows(&open.node, edge.0) || self.is_in_loop(&open.last, open.todo, edge) {
                continue;
            }
            let is_loop = self.leads_back(open.todo, edge);
            if is_loop && std::mem::replace(&mut loops, true) {
                continue;
            }
            ways += 1;
            if ways > most_ways || parts == most_parts {
                return false;
            }
            let behind = if is_loop { Behind::Loop(open.todo) } else { Behind::Terminal(edge.0) };
            let Some(joined) = self.join(open, behind) else { return false };
            self.buffers.open.push(Open {
                node: Arc::clone(&joined.node),
                last: Last::Joined { joined, parts: parts + 1, is_loop },
                todo: edge.1,
                origin: open.origin.clone(),
                edge: open.edge,
            });
        }
        true
    }

    /// Whether `terminal` begins with a byte with which that of `node` might go on where it might also end.
    fn flows(&self, node: &Node, terminal: u32) -> bool {
        let terminals = &self.compiled.terminals;
        if terminals.is_literal(terminal) {
            contains(&node.extending, terminals.literal(terminal)[0])
        } else {
            meet(terminals.first_bytes(terminal), &node.extending)
        }
    }

    /// Whether an edge from `todo` leads there again and can be joined with others.
    fn leads_back(&self, todo: Todo, (terminal, behind): (u32, Todo)) -> bool {
        let terminals = &self.compiled.terminals;
        let is_automaton = || matches!(terminals.scanner(terminal), Scanner::Automaton(..) | Scanner::Except(..));
        todo == behind && !terminals.is_literal(terminal) && is_automaton()
    }

    /// Whether the terminal of an edge is read by `last` already, any number of times.
    fn is_in_loop(&self, last: &Last, todo: Todo, edge: (u32, Todo)) -> bool {
        matches!(last, Last::Joined { is_loop: true, .. }) && self.leads_back(todo, edge)
    }

    /// What `open` reads joined with what is `behind`.
    fn join(&mut self, open: &Open, behind: Behind) -> Option<Joined> {
        let terminals = &self.compiled.terminals;
        let followers = self.places.parser.followers(open.todo, &self.compiled.rules);
        let others: Vec<u32> = match behind {
            Behind::Terminal(terminal) => vec![terminal],
            Behind::Loop(todo) => {
                let edges = terminals.others(self.places.parser.edges(followers));
                edges.iter().filter(|edge| self.leads_back(todo, **edge)).map(|(terminal, _)| *terminal).collect()
            }
        };
        others.iter().filter(|other| !terminals.is_literal(**other)).for_each(|other| self.doubt_inside(*other));
        let library = Arc::clone(&self.trees.library);
        let parent = open.origin.parent(&library);
        let key = match &open.last {
            Last::Terminal(terminal, state) => LastKey::Terminal(*terminal, *state),
            Last::Joined { joined, .. } => LastKey::Joined(joined.number),
        };
        let key = (parent.as_ref().map(Parent::key), key, behind);
        if let Some(known) = self.known.joined.get(&key) {
            return known.clone();
        }
        let terminals = &self.compiled.terminals;
        let automaton = |terminal: u32| match terminals.scanner(terminal) {
            Scanner::Automaton(dfa, _) => Some((self.trees.number(self.compiled, terminal), dfa)),
            Scanner::Except(except, _) => Some((self.trees.number(self.compiled, terminal), except.base())),
            Scanner::Counted(_) | Scanner::Token(_) => None,
        };
        let (number, dfa, state) = match &open.last {
            Last::Terminal(terminal, state) => {
                let state = match terminals.except(*terminal) {
                    Some(except) => except.state(*state),
                    None => StateId::from_index(*state as usize),
                };
                automaton(*terminal).map(|(number, dfa)| (number, &**dfa, state))?
            }
            Last::Joined { joined, .. } => (joined.number, &*joined.dfa, joined.dfa.start()),
        };
        let next = match behind {
            Behind::Terminal(terminal) if terminals.is_literal(terminal) => {
                Some(Next::Literal(terminals.literal(terminal)))
            }
            Behind::Terminal(terminal) => automaton(terminal).map(|(number, dfa)| Next::Once(number, dfa)),
            Behind::Loop(_) => {
                let parts = others.iter().filter_map(|terminal| automaton(*terminal));
                Some(Next::Many(parts.map(|(number, dfa)| (number, &**dfa)).collect()))
            }
        };
        let joined = next.and_then(|next| library.joined((number, dfa), state, &next)).map(|(number, dfa)| {
            let node = match &parent {
                None => library.root(number, &dfa, dfa.start()),
                Some(parent) => library.child(parent, Reads::Automaton(number, &dfa)),
            };
            self.known.bytes += node.memory_in_scratch();
            Joined { node, dfa, number }
        });
        self.known.joined.insert(key, joined.clone());
        joined
    }

    /// Adds the tokens that leave by `exits` and go on with what follows `todo`, and opens the nodes behind them, which come from
    /// `origin`. `holder` has the exits; if none has, they are all tokens. `last` was read up to there, and is
    /// joined with what it flows into.
    fn add_exits(
        &mut self,
        exits: &Exits,
        holder: Option<&Arc<Node>>,
        origin: Origin,
        todo: Todo,
        last: Option<&Last>,
    ) {
        let common = common(&self.places.first_bytes(self.compiled, todo), &exits.bytes);
        if common == [0; 4] {
            return;
        }
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let literals = self.compiled.terminals.literals(self.places.parser.edges(followers)).len();
        self.add_literals(exits, holder, followers, 0..literals, 0);
        self.open_children(&origin, &common, todo, last.zip(holder));
    }

    /// Adds the tokens that leave by `exits` and go on in `literals`, which are edges and agree in their first `depth` bytes, which
    /// were read; and opens the nodes behind those.
    fn add_literals(
        &mut self,
        exits: &Exits,
        holder: Option<&Arc<Node>>,
        followers: Followers,
        Range { start: mut first, end }: Range<usize>,
        depth: usize,
    ) {
        let terminals = &self.compiled.terminals;
        while first < end {
            let literals = &self.places.parser.edges(followers)[first..end];
            let next = |(literal, _): &(u32, Todo)| terminals.literal(*literal)[depth];
            let byte = next(&literals[0]);
            let going_on = first..first + literals.partition_point(|literal| next(literal) == byte);
            first = going_on.end;
            if let Some((index, group)) = exits.group(byte) {
                self.meet(group, Trie::FIRST, depth + 1, followers, going_on);
                self.go_on(holder, group, index);
            }
        }
    }

    /// Where among the edges those are that read literals which begin with `byte`.
    fn beginning(&self, followers: Followers, byte: u8) -> Range<usize> {
        let terminals = &self.compiled.terminals;
        let literals = terminals.literals(self.places.parser.edges(followers));
        let next = |(literal, _): &(u32, Todo)| terminals.literal(*literal)[0];
        let first = literals.partition_point(|literal| next(literal) < byte);
        first..first + literals[first..].partition_point(|literal| next(literal) == byte)
    }

    /// Adds the tokens of `group` that go on from `at` in `literals`, which are edges and were read to their first `depth` bytes.
    fn meet(&mut self, group: &Group, at: At, depth: usize, followers: Followers, literals: Range<usize>) {
        let Self { pieces, places, compiled, trees, buffers, .. } = self;
        let Buffers { literals: open, ended, .. } = &mut **buffers;
        group.trie(trees.library.vocabulary()).meet(
            (at, depth),
            &places.parser.edges(followers)[literals],
            |(literal, _)| compiled.terminals.literal(literal),
            |tokens| pieces.ids.extend_from_slice(tokens),
            |at, (_, behind)| ended.push((at, behind)),
            open,
        );
    }

    /// Goes on where literals have ended in `group`, which is at this index of its exits.
    fn go_on(&mut self, holder: Option<&Arc<Node>>, group: &Group, index: usize) {
        // Places in depth-first order: what is left to do at one of them is known when it is its turn.
        while let Some(at) = self.buffers.ended.iter().map(|(at, _)| *at).min() {
            let mut todo = None;
            while let Some(found) = self.buffers.ended.iter().position(|(other, _)| *other == at) {
                let (_, behind) = self.buffers.ended.swap_remove(found);
                todo = Some(match todo {
                    Some(todo) => self.places.parser.union(todo, behind, &self.compiled.rules),
                    None => behind,
                });
            }
            if let Some(todo) = todo {
                self.add_behind(holder, (group, index), at, todo);
            }
        }
    }

    /// Adds the tokens that go on from `at` with what follows `todo`, and opens nodes.
    fn add_behind(
        &mut self,
        holder: Option<&Arc<Node>>,
        (group, index): (&Group, usize),
        at: At,
        todo: Todo,
    ) {
        let first = self.places.first_bytes(self.compiled, todo);
        let library = Arc::clone(&self.trees.library);
        let trie = group.trie(library.vocabulary());
        let mut bytes = [0; 4];
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        for (byte, child) in trie.children(at).filter(|(byte, _)| contains(&first, *byte)) {
            insert(&mut bytes, byte);
            let literals = self.beginning(followers, byte);
            if !literals.is_empty() {
                self.meet(group, child, 1, followers, literals);
            }
        }
        if bytes != [0; 4] {
            self.open_children(&Origin::Behind(holder.cloned(), index, at), &bytes, todo, None);
        }
    }

    /// Opens the nodes behind `origin` of the automata that follow `todo` and begin with one of `bytes`; not of those that the last
    /// one, of this node, is joined with.
    fn open_children(
        &mut self,
        origin: &Origin,
        bytes: &Bytes,
        todo: Todo,
        last: Option<(&Last, &Arc<Node>)>,
    ) {
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        let edges = self.places.parser.edges(followers);
        let others = edges.len() - self.compiled.terminals.others(edges).len()..edges.len();
        let loops_flow = last.is_some_and(|(_, node)| {
            edges[others.clone()].iter().any(|edge| self.leads_back(todo, *edge) && self.flows(node, edge.0))
        });
        for index in others {
            let edge = self.places.parser.edges(followers)[index];
            let (terminal, todo_behind) = edge;
            let is_joined = |(last, node): (&Last, &Arc<Node>)| {
                self.flows(node, terminal)
                    || loops_flow && self.leads_back(todo, edge)
                    || self.is_in_loop(last, todo, edge)
            };
            if meet(bytes, self.compiled.terminals.first_bytes(terminal)) && !last.is_some_and(is_joined) {
                self.doubt_inside(terminal);
                let (node, state) = self.child(origin, terminal);
                let last = Last::Terminal(terminal, state);
                self.buffers.open.push(Open { node, last, todo: todo_behind, origin: origin.clone(), edge });
            }
        }
    }

    /// Adds the tokens that leave by `exits`, or those that come through a place of one of their groups, and go on with the
    /// terminal and what is left to do behind it. By places, as a walk over the vocabulary would.
    fn add_by_places(&mut self, exits: &Exits, at: Option<(usize, At)>, edge: (u32, Todo)) {
        let Self { pieces, places, compiled, trees, buffers, .. } = self;
        let vocabulary = trees.library.vocabulary();
        let mut read = |trie: &Trie, at: At, byte: u8| {
            let behind = places.begin(compiled, &[edge], byte);
            if behind != DEAD {
                let step = |place: Place, byte: u8| places.step(compiled, place, byte);
                trie.walk(at, behind, &mut buffers.walk, step, |tokens| pieces.ids.extend_from_slice(tokens));
            }
        };
        match at {
            None => {
                let first = compiled.terminals.first_bytes(edge.0);
                for group in exits.groups.iter().filter(|group| contains(first, group.byte)) {
                    read(group.trie(vocabulary), Trie::FIRST, group.byte);
                }
            }
            Some((group, at)) => {
                let trie = exits.groups[group].trie(vocabulary);
                trie.children(at).for_each(|(byte, child)| read(trie, child, byte));
            }
        }
    }

    /// Doubts the tokens in which a text of `terminal` may come to be one that it leaves out.
    fn doubt_inside(&mut self, terminal: u32) {
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
                        group.map(|(_, group)| (group.trie(library.vocabulary()), Trie::FIRST))
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
                    let (number, unbounded) = trees.unbounded(compiled, terminal, counted);
                    match counted.horizon(state, library.longest().0) {
                        Horizon::Mark { min, max } => library.mark(counted, *number, state, (min, max)),
                        Horizon::Inside { min, max, at } => {
                            library.inside(counted, (*number, unbounded), at, (min, max))
                        }
                    }
                }
                Scanner::Token(_) => unreachable!("it reads no bytes"),
            };
            *bytes += node.memory_in_scratch();
            node
        });
        Arc::clone(node)
    }

    /// The state in which `terminal` begins.
    fn start(&self, terminal: u32) -> u32 {
        match self.compiled.terminals.scanner(terminal) {
            Scanner::Automaton(dfa, _) => u32::try_from(dfa.start().index()).expect("limited"),
            Scanner::Except(except, _) => except.start(),
            Scanner::Counted(counted) => counted.start(),
            Scanner::Token(_) => unreachable!("it reads no bytes"),
        }
    }

    /// The node behind `origin` where `terminal` comes next, and the state in which that begins.
    fn child(&mut self, origin: &Origin, terminal: u32) -> (Arc<Node>, u32) {
        let start = self.start(terminal);
        let library = Arc::clone(&self.trees.library);
        let Some(parent) = origin.parent(&library) else { return (self.root(terminal, start), start) };
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
                Scanner::Token(_) => unreachable!("it reads no bytes"),
            };
            let child = library.child(&parent, reads);
            *bytes += child.memory_in_scratch();
            child
        });
        (Arc::clone(child), start)
    }
}

impl Origin {
    /// Where nodes come from that are no roots.
    fn parent<'o>(&'o self, library: &'o TreeLibrary) -> Option<Parent<'o>> {
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
