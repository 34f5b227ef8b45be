//! The parser: a general one, as an automaton over terminals. Its states are created when they are reached.
//!
//! A **parser state** is a set of **items**: a position of a rule, and the continuation of that rule. Earley's items
//! hold the index of an input position in place of the continuation, so none of his states ever recurs. Here the
//! [continuation](super::continuations) is a set of such items again, kept once (hash-consed): the same nesting is
//! the same number wherever in the text it occurs. That is the graph-structured stack of GLR and GLL parsers (Tomita
//! 1985; Scott and Johnstone 2010), with nodes that are named by their contents and not by where they were created.
//!
//! - *A call that ends its rule* leaves no frame: the callee continues as its caller would have continued. So lists
//!   that recurse on the right do not grow.
//! - *A rule that may begin with itself* continues in itself: a continuation refers to itself, or to others that are
//!   created with it. Such a group is created and named as a whole. So lists that recurse on the left do not grow
//!   either, and no grammar is rewritten: left recursion, also after symbols that may be empty, and cycles are no
//!   special cases.
//! - *Two hypotheses of one text* with the same terminal in the same state merge: their items become one set.
//!
//! In the number of states after n elements, an Earley parser by positions grows with n for both kinds of recursion,
//! one by sets of origins grows for recursion on the right, and stacks without groups do not terminate on the left.
//!
//! Ambiguity merges too: an item is left out if another item of the same position [covers](super::continuations) it.
//! So the states of `s = s s | "a"` and of operators without levels do not grow with the text; they have O(n) items
//! for Earley. Where nothing can be merged, as in palindromes, a step takes O(n) as there, and O(n^2) at worst;
//! [`GrammarLimits::state_items`](unskew_grammar::GrammarLimits::state_items) and
//! [`GrammarLimits::mask_steps`](unskew_grammar::GrammarLimits::mask_steps) bound that.
//!
//! A parser that [tracks](Parser::tracking) keys also has the set of used keys in every item. A call passes the set
//! to the callee and takes it back as the callee leaves it; the call of a scope begins with the empty set, and after
//! it the parser continues with the set from before. Other parsers have the empty set everywhere.

use hashbrown::HashMap;
use unskew_grammar::RuleId;

use super::{
    continuations::{Continuation, Continuations},
    meter::Meter,
    prediction::Work,
};
use crate::{
    ids::{Id, Lists, Table, id},
    network::{
        rules::{END, Placeholder, Position, Rules},
        terminals::ScanTerminal,
        unordered::{GroupStates, ReadMembers, is_of_group},
    },
    tuning::Tuning,
    unique::keys::{KeySet, KeySets, KeyText},
};

id! {
    /// A state of the parser: a set of items.
    ParserState
}

id! {
    /// The items after a key, while the key is not known.
    Pending
}

/// A position; the continuation of its rule; and the used keys. In the frames of a continuation the keys may be
/// [`KeySet::INHERITED`] from the rule that has ended.
pub(crate) type Item = (Position, Continuation, KeySet);

const _: () = assert!(size_of::<Item>() == 12);

id! {
    /// A state that is not made before it is asked for.
    Later
}

/// The items of a [`Later`] state: one position, whose rule continues with frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaterState {
    pub(super) position: Position,
    pub(super) keys: KeySet,
    /// The range of the frames in [`Parser::later_frames`].
    pub(super) frames: (u32, u32),
    pub(super) made: Option<ParserState>,
}

/// The target of an edge: the parser state after a terminal; or a state that is made when it is asked for; or, after a
/// key in a parser that tracks keys, the pending items.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Target(u32);

/// Pending items have this bit.
const PENDING: u32 = 1 << 31;

/// States that are made later have this bit.
const LATER: u32 = 1 << 30;

impl Target {
    pub(super) fn pending_items(pending: Pending) -> Self {
        Self(PENDING | pending.raw())
    }

    /// The parser state after another terminal than a literal or a tracked key.
    #[inline]
    pub(crate) fn state(self) -> ParserState {
        debug_assert!(self.0 & PENDING == 0, "a key leads to pending items");
        debug_assert!(self.0 & LATER == 0, "the state after a literal is made when it is asked for");
        ParserState::of(self.0)
    }

    pub(super) fn later(later: Later) -> Self {
        Self(LATER | later.raw())
    }

    /// The pending items, of the edge of a key in a parser that tracks keys.
    pub(crate) fn pending(self) -> Option<Pending> {
        (self.0 & PENDING != 0).then(|| Pending::of(self.0 & !PENDING))
    }
}

impl From<ParserState> for Target {
    fn from(state: ParserState) -> Self {
        Self(state.raw())
    }
}

/// A terminal that may follow, and where it leads.
pub(crate) type Edge = (ScanTerminal, Target);

/// The parser's tables: all that was created so far.
#[derive(Debug)]
pub(crate) struct Parser {
    pub(super) tuning: Tuning,
    pub(super) continuations: Continuations,
    /// The items of each state.
    pub(super) item_sets: Lists<ParserState, Item>,
    /// By state: its items, each once, and the frames of their continuations.
    weights: Table<ParserState, u32>,
    /// The followers of each state, once they were asked for.
    pub(super) followers: Table<ParserState, Option<Followers>>,
    pub(super) edges: Vec<Edge>,
    pub(super) later: Table<Later, LaterState>,
    pub(super) later_frames: Vec<Item>,
    /// States of groups with members in any order.
    pub(super) groups: GroupStates,
    /// Whether keys are tracked.
    pub(super) tracks: bool,
    pub(crate) key_sets: KeySets,
    pub(super) pending: Lists<Pending, Item>,
    /// By pending items and key: the state after the key, if it may come.
    after_key: HashMap<(Pending, KeyText), Option<ParserState>>,
    /// The last question to [`simulates`](Self::simulates) and its answer: a list of a thousand terminals asks for
    /// each of them.
    simulated: Option<((ParserState, ParserState), bool)>,
    /// How many items were looked at, in states and among the frames of continuations.
    pub(super) looked_at: u64,
    pub(crate) meter: Meter,
    pub(super) work: Work,
}

/// The terminals that may follow in a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followers {
    /// The first edge in [`Parser::edges`], and the end of the edges.
    pub(super) first: u32,
    pub(super) end: u32,
    /// Whether the output may end here.
    pub(crate) ends: bool,
    /// The [placeholders](super::truncation) that are reached, one bit each.
    pub(crate) placeholders: u64,
    /// What it takes to create the state and to find its followers; see [`meter`](super::meter).
    pub(super) steps: u32,
}

impl Parser {
    pub(crate) fn new(rules: &Rules, start: RuleId, tuning: Tuning) -> Self {
        Self::with(rules, start, tuning, false)
    }

    /// A parser that tracks used keys.
    pub(crate) fn tracking(rules: &Rules, start: RuleId, tuning: Tuning) -> Self {
        Self::with(rules, start, tuning, true)
    }

    fn with(rules: &Rules, start: RuleId, tuning: Tuning, tracks: bool) -> Self {
        let mut parser = Self {
            tuning,
            continuations: Continuations::new(tuning.covered_looks),
            item_sets: Lists::default(),
            weights: Table::default(),
            followers: Table::default(),
            edges: Vec::new(),
            later: Table::default(),
            later_frames: Vec::new(),
            groups: GroupStates::new(&rules.groups),
            tracks,
            key_sets: KeySets::default(),
            pending: Lists::default(),
            after_key: HashMap::new(),
            simulated: None,
            looked_at: 0,
            meter: Meter::new(),
            work: Work::new(rules),
        };
        let root =
            parser.continuations.insert(&mut [vec![(END, Continuation::member(0), KeySet::INHERITED)]]);
        debug_assert_eq!(root, Continuation::ROOT);
        let mut items = vec![(rules.start(start), Continuation::ROOT, KeySet::EMPTY)];
        let start = parser.state(&mut items, rules);
        debug_assert_eq!(start, Self::START);
        parser
    }

    /// The state before anything was read.
    pub(crate) const START: ParserState = ParserState::of(0);

    /// The items of a state, in ascending order.
    pub(crate) fn items(&self, state: ParserState) -> &[Item] {
        self.item_sets.get(state)
    }

    /// The continuation of a placeholder.
    pub(crate) fn placeholder(&mut self, rules: &Rules, placeholder: Placeholder) -> Continuation {
        let frame = (rules.placeholder(placeholder), Continuation::member(0), KeySet::INHERITED);
        self.continuations.insert(&mut [vec![frame]])
    }

    /// The state after the end of a rule with this continuation.
    pub(crate) fn after(&mut self, continuation: Continuation, rules: &Rules) -> ParserState {
        let frames = self.continuations.frames(continuation).iter();
        let mut items = frames.map(|frame| inheriting(*frame, KeySet::EMPTY)).collect();
        self.state(&mut items, rules)
    }

    pub(crate) fn continuations(&self) -> &Continuations {
        &self.continuations
    }

    pub(crate) fn continuations_mut(&mut self) -> &mut Continuations {
        &mut self.continuations
    }

    /// The state of `items`, which may repeat; they are left in order.
    pub(crate) fn state(&mut self, items: &mut Vec<Item>, rules: &Rules) -> ParserState {
        // An item at the end of its rule is replaced by the frames of its continuation.
        let mut at = 0;
        while let Some((position, continuation, keys)) = items.get(at).copied() {
            if is_final(rules, &self.groups, position) {
                items.swap_remove(at);
                // None of the frames is at the end of its rule, so the loop ends.
                let frames = self.continuations.frames(continuation).iter();
                items.extend(frames.map(|frame| inheriting(*frame, keys)));
            } else {
                at += 1;
            }
        }
        items.sort_unstable();
        items.dedup();
        self.looked_at += items.len() as u64;
        self.continuations.leave_out_covered(items);
        let (state, is_new) = self.item_sets.insert(items);
        if is_new {
            self.followers.push(None);
            let frames = |(_, continuation, _): &Item| 1 + self.continuations.frames(*continuation).len();
            let weight: usize = items.iter().map(frames).sum();
            self.weights.push(weight.try_into().unwrap_or(u32::MAX));
            self.meter.push();
        }
        state
    }

    /// The state with the items of both.
    pub(crate) fn union(&mut self, left: ParserState, right: ParserState, rules: &Rules) -> ParserState {
        if left == right {
            return left;
        }
        let mut items = std::mem::take(&mut self.work.union);
        items.clear();
        items.extend_from_slice(self.item_sets.get(left));
        items.extend_from_slice(self.item_sets.get(right));
        self.meter.add(items.len());
        let union = self.state(&mut items, rules);
        self.work.union = items;
        union
    }

    /// The terminals that may follow in `state`, found at the first call for it.
    #[inline]
    pub(crate) fn followers(&mut self, state: ParserState, rules: &Rules) -> Followers {
        let followers = match self.followers[state] {
            Some(followers) => followers,
            None => self.predict(state, rules),
        };
        self.meter.pay(state, followers.steps);
        followers
    }

    /// The edges of a state, in ascending order of terminals. Literals come first, in the order of their texts.
    #[inline]
    pub(crate) fn edges(&self, followers: Followers) -> &[Edge] {
        &self.edges[followers.first as usize..followers.end as usize]
    }

    /// The state of a target that is no pending items. O(1), but for the first question for a state that is made later.
    #[inline]
    pub(crate) fn made(&mut self, target: Target, rules: &Rules) -> ParserState {
        match target.0 & LATER {
            0 => target.state(),
            _ => self.made_later(Later::of(target.0 & !LATER), rules),
        }
    }

    fn made_later(&mut self, later: Later, rules: &Rules) -> ParserState {
        let LaterState { position, keys, frames: (first, end), made } = self.later[later];
        if let Some(made) = made {
            return made;
        }
        let frames = self.later_frames[first as usize..end as usize].to_vec();
        let continuation = self.continuations.insert(&mut [frames]);
        let state = self.state(&mut vec![(position, continuation, keys)], rules);
        self.later[later].made = Some(state);
        state
    }

    /// The edge at this index, of another terminal than a literal or a tracked key.
    #[inline]
    pub(crate) fn edge(&self, followers: Followers, index: usize) -> (ScanTerminal, ParserState) {
        let (terminal, target) = self.edges(followers)[index];
        (terminal, target.state())
    }

    /// Whether `wider` simulates `state`: each edge of `state` is an edge of `wider` with the same target.
    pub(crate) fn simulates(&mut self, wider: ParserState, state: ParserState, rules: &Rules) -> bool {
        if wider == state {
            return true;
        }
        let (wide, narrow) = (self.followers(wider, rules), self.followers(state, rules));
        if let Some((pair, answer)) = self.simulated
            && pair == (wider, state)
        {
            return answer;
        }
        let mut wide_edges = wide.first..wide.end;
        let answer = narrow.ends <= wide.ends
            && narrow.placeholders & !wide.placeholders == 0
            && self.edges(narrow).len() <= wide_edges.len()
            && (narrow.first..narrow.end).all(|at| wide_edges.any(|other| self.are_same(at, other, rules)));
        self.simulated = Some(((wider, state), answer));
        answer
    }

    /// Whether two edges, at these indices, read the same terminal and lead to the same state or pending items.
    fn are_same(&mut self, one: u32, other: u32, rules: &Rules) -> bool {
        let [(terminal, target), (other, other_target)] = [one, other].map(|at| self.edges[at as usize]);
        let is_key = target.pending().or(other_target.pending()).is_some();
        terminal == other
            && (target == other_target
                || !is_key && self.made(target, rules) == self.made(other_target, rules))
    }

    /// The state after `key`, or nothing if the key was used already.
    pub(crate) fn after_key(&mut self, pending: Pending, key: KeyText, rules: &Rules) -> Option<ParserState> {
        if let Some(known) = self.after_key.get(&(pending, key)) {
            return *known;
        }
        let mut items: Vec<Item> = Vec::new();
        for (position, continuation, keys) in self.pending.get(pending) {
            if !self.key_sets.contains(*keys, key) {
                items.push((*position, *continuation, self.key_sets.with(*keys, key)));
            }
        }
        let after = if items.is_empty() { None } else { Some(self.state(&mut items, rules)) };
        self.after_key.insert((pending, key), after);
        after
    }

    /// The state after a key that no set has.
    pub(crate) fn after_any_key(&mut self, pending: Pending, rules: &Rules) -> ParserState {
        let mut items = self.pending.get(pending).to_vec();
        self.state(&mut items, rules)
    }

    /// The sets of keys of the pending items.
    pub(crate) fn keys_before(&self, pending: Pending) -> impl Iterator<Item = KeySet> {
        self.pending.get(pending).iter().map(|(.., keys)| *keys)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.continuations.memory_usage()
            + self.item_sets.memory_usage()
            + self.followers.len() * (size_of::<Option<Followers>>() + size_of::<u32>())
            + self.meter.memory_usage()
            + self.edges.len() * size_of::<Edge>()
            + self.later.len() * size_of::<LaterState>()
            + self.later_frames.len() * size_of::<Item>()
            + self.groups.memory_usage()
            + self.key_sets.memory_usage()
            + self.pending.memory_usage()
            + self.after_key.len() * 2 * size_of::<((Pending, KeyText), Option<ParserState>)>()
    }

    /// A number of the position that is the same in every parser of the rules. All positions of a group have one
    /// number.
    pub(crate) fn name(&self, position: Position) -> u32 {
        if is_of_group(position) { u32::MAX - self.groups.group(position).raw() } else { position.raw() }
    }

    /// The states of groups, whose positions have numbers of this parser.
    pub(crate) fn groups(&self) -> &GroupStates {
        &self.groups
    }

    /// The position of a group that is [spelled out](GroupStates::spelled_out).
    pub(crate) fn position(&mut self, rules: &Rules, seen: &ReadMembers, offset: u32) -> Position {
        self.groups.position(&rules.groups, seen, offset)
    }

    /// The items of a state and the frames of their continuations.
    #[inline]
    pub(super) fn weight(&self, state: ParserState) -> usize {
        self.weights[state] as usize
    }

    /// How many items were looked at so far: in sets, at the ends of rules, and to find which items cover others.
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at + self.continuations.looked_at()
    }

    /// The number of states and continuations that were created so far.
    pub(crate) fn created(&self) -> (usize, usize) {
        (self.followers.len(), self.continuations.len())
    }
}

/// The item of `frame` after the end of a rule that leaves these used keys.
#[inline]
pub(super) fn inheriting((position, continuation, keys): Item, left: KeySet) -> Item {
    (position, continuation, if keys == KeySet::INHERITED { left } else { keys })
}

/// Whether `position` is followed by nothing but the end of its rule.
fn is_final(rules: &Rules, groups: &GroupStates, position: Position) -> bool {
    match is_of_group(position) {
        true => groups.is_final(&rules.groups, position),
        false => rules.is_final(position),
    }
}
