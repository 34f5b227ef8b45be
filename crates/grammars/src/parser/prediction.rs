//! The terminals that follow a parser state: Earley's completion and prediction, and the continuations of the rules
//! that are called.
//!
//! First the items at positions where their rules may end are completed: the frames of their continuations become
//! items. Then every position is looked at: its terminals are read, and the rules that it calls are looked at from
//! their first positions, each once. The callers of a rule are the frames of its continuation. Rules that may begin
//! with each other have continuations that refer to each other, so these are created together; continuations of
//! callers are created before those of the rules that they begin with ([`Rules::order`]).
//!
//! An object with fifty members in any order calls fifty rules, each with a continuation of its own, and a text reads
//! one of them. So a rule that begins with a literal has its continuation *later*: with the state after the literal,
//! when that is asked for.

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use unskew_grammar::RuleId;

use super::{
    continuations::Continuation,
    states::{Edge, Followers, Item, LaterState, Parser, ParserState, Target, inheriting},
};
use crate::{
    ids::{Id, Table, id, number},
    network::{
        rules::{END, Position, Rules},
        terminals::ScanTerminal,
        unordered::{GroupStates, MemberEdge, is_of_group},
    },
    unique::keys::KeySet,
};

/// The steps of a parser state, beside those of its items.
const STATE: usize = 8;

id! {
    /// A call in the work at hand.
    CallId
}

/// A continuation that may not exist yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ContinuationRef {
    Existing(Continuation),
    /// That of a rule which is called here.
    OfCall(CallId),
}

/// A frame whose continuation may not exist yet.
type FrameRef = (Position, ContinuationRef, KeySet);

/// A rule that is called by the state at hand, with the same used keys.
#[derive(Debug)]
struct Call {
    rule: RuleId,
    /// The keys that were used before.
    keys: KeySet,
    frames: SmallVec<[FrameRef; 4]>,
    /// The continuations of callers that end with this call: their frames are frames of this call too. With the keys
    /// that these frames inherit.
    also: SmallVec<[(ContinuationRef, KeySet); 2]>,
    continuation: Option<Continuation>,
    /// Whether the continuation is created when a literal has been read.
    is_later: bool,
    /// The next call of the same rule.
    next: Option<CallId>,
}

/// A call, by its rule's order, its keys and its rule.
type OrderedCall = (u32, KeySet, RuleId, CallId);

/// Buffers.
#[derive(Debug, Default)]
pub(super) struct Work {
    items: Vec<Item>,
    /// Those in use come first.
    calls: Vec<Call>,
    /// How many of `calls` are in use.
    called: usize,
    /// By rule: the last of its calls.
    call_of: Table<RuleId, Option<CallId>>,
    /// The terminals that are read, and the items after them.
    read: Vec<(ScanTerminal, Position, ContinuationRef, KeySet)>,
    /// For the items of one state.
    state: Vec<Item>,
    /// For [`Parser::union`].
    pub(super) union: Vec<Item>,
    edges: Vec<Edge>,
    /// Calls in the order in which their continuations are created.
    order: Vec<OrderedCall>,
    /// The frames of continuations that are created together; those in use come first.
    members: Vec<Vec<Item>>,
}

impl Parser {
    /// Finds the followers of a state.
    pub(super) fn predict(&mut self, state: ParserState, rules: &Rules) -> Followers {
        let mut work = std::mem::take(&mut self.work);
        work.items.clear();
        work.items.extend_from_slice(self.item_sets.get(state));
        let looked_at = self.looked_at;
        self.complete(&mut work.items, rules);
        let ends = work.items.iter().any(|(position, ..)| *position == END);
        let placeholders = work.items.iter().filter_map(|(position, ..)| rules.placeholder_of(*position));
        let placeholders =
            placeholders.fold(0, |placeholders, placeholder| placeholders | 1 << placeholder.raw());
        work.call(rules, &mut self.groups, self.tracks);
        work.read.sort_unstable();
        work.find_later(rules);
        self.create_continuations(&mut work, rules);

        // The target of each terminal.
        let mut later_steps = 0;
        let mut edges = std::mem::take(&mut work.edges);
        edges.clear();
        // A thousand literals that may follow here all lead to the same item, and so do most kinds of values.
        let mut before: [Option<(Item, ParserState)>; 4] = [None; 4];
        for group in work.read.chunk_by(|left, right| left.0 == right.0) {
            if let [(terminal, position, ContinuationRef::OfCall(call), keys)] = *group
                && work.calls[call.index()].is_later
            {
                let Call { frames, .. } = &work.calls[call.index()];
                let first = number(self.later_frames.len());
                let existing = frames.iter().map(|(position, continuation, keys)| {
                    (*position, existing(&work.calls, *continuation), *keys)
                });
                self.later_frames.extend(existing);
                // As many as its continuation and its items take.
                later_steps += 1 + frames.len();
                let frames = (first, number(self.later_frames.len()));
                let later = self.later.push(LaterState { position, keys, frames, made: None });
                edges.push((terminal, Target::later(later)));
                continue;
            }
            work.state.clear();
            work.state.extend(group.iter().map(|(_, position, continuation, keys)| {
                (*position, existing(&work.calls, *continuation), *keys)
            }));
            let terminal = group[0].0;
            if self.tracks && rules.is_distinct(terminal) {
                work.state.sort_unstable();
                work.state.dedup();
                self.continuations.leave_out_covered(&mut work.state);
                edges.push((terminal, Target::pending_items(self.pending.insert(&work.state).0)));
                continue;
            }
            let only = if let [only] = &work.state[..] { Some(*only) } else { None };
            let known = before.iter().flatten().find(|(item, _)| only == Some(*item));
            let next = match known {
                Some((_, next)) => *next,
                None => {
                    let next = self.state(&mut work.state, rules);
                    if let Some(only) = only {
                        before.rotate_right(1);
                        before[0] = Some((only, next));
                    }
                    next
                }
            };
            edges.push((terminal, next.into()));
        }
        for call in &work.calls[..work.called] {
            work.call_of[call.rule] = None;
        }
        let first = number(self.edges.len());
        self.edges.extend_from_slice(&edges);
        work.edges = edges;
        let looked_at = usize::try_from(self.looked_at - looked_at).unwrap_or(usize::MAX);
        let steps = STATE + self.weight(state) + work.called + work.read.len() + later_steps;
        let steps = looked_at.saturating_add(steps);
        let steps = steps.try_into().unwrap_or(u32::MAX);
        let followers = Followers { first, end: number(self.edges.len()), ends, placeholders, steps };
        self.followers[state] = Some(followers);
        self.work = work;
        followers
    }

    /// Adds the frames of rules that may end, but for covered ones: where many symbols may be empty, each
    /// continuation leads to all that came before it.
    fn complete(&mut self, items: &mut Vec<Item>, rules: &Rules) {
        self.continuations.begin_set();
        let mut seen: HashSet<Item> = HashSet::new();
        let mut alike: HashMap<(Position, KeySet), SmallVec<[Continuation; 2]>> = HashMap::new();
        let mut at = 0;
        while let Some((position, continuation, keys)) = items.get(at).copied() {
            let accepting = match is_of_group(position) {
                true => self.groups.is_accepting(&rules.groups, position),
                false => rules.is_accepting(position),
            };
            let frames = if accepting { self.continuations.frames(continuation).len() } else { 0 };
            self.looked_at += frames as u64;
            for index in 0..frames {
                let item = inheriting(self.continuations.frames(continuation)[index], keys);
                let letter = (item.0, item.2);
                if seen.is_empty() {
                    seen.extend(items.iter().copied());
                    items.iter().for_each(|item| add_alike(&mut alike, *item));
                }
                let others = alike.get(&letter).into_iter().flatten();
                let is_new = seen.insert(item)
                    && !others.copied().any(|other| self.continuations.covers(other, item.1));
                if is_new {
                    add_alike(&mut alike, item);
                    items.push(item);
                }
            }
            at += 1;
        }
    }

    /// Creates the continuations of all calls that do not have theirs later, those of callers before those of the
    /// rules that they begin with.
    fn create_continuations(&mut self, work: &mut Work, rules: &Rules) {
        let calls = work.calls[..work.called].iter().zip(0u32..);
        // Rules that begin with each other have used the same keys, for none of them is a scope.
        let mut order = std::mem::take(&mut work.order);
        order.clear();
        let ordered =
            |(call, at): (&Call, u32)| (rules.order[call.rule], call.keys, call.rule, CallId::of(at));
        order.extend(calls.filter(|(call, _)| !call.is_later).map(ordered));
        order.sort_unstable();
        for group in order.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1)) {
            self.add_frames_of_callers(&mut work.calls, group);
            self.create_group(work, group);
        }
        work.order = order;
    }

    /// Adds the frames of the callers that end with the calls of `group`. Callers outside of the group are complete.
    fn add_frames_of_callers(&mut self, calls: &mut [Call], group: &[OrderedCall]) {
        let is_member = |call: CallId| group.iter().any(|(.., member)| *member == call);
        for (.., call) in group {
            // Callers in the group, of which each may end with the next.
            let mut open: SmallVec<[CallId; 4]> = SmallVec::from_slice(&[*call]);
            let mut frames = std::mem::take(&mut calls[call.index()].frames);
            let mut at = 0;
            while let Some(member) = open.get(at).copied() {
                if member != *call {
                    frames.extend_from_slice(&calls[member.index()].frames);
                }
                for (other, inherited) in &calls[member.index()].also {
                    let inherit = |(position, continuation, keys): FrameRef| {
                        (position, continuation, if keys == KeySet::INHERITED { *inherited } else { keys })
                    };
                    match *other {
                        ContinuationRef::Existing(caller) => {
                            let existing = self.continuations.frames(caller).iter();
                            let existing = existing.map(|(position, continuation, keys)| {
                                (*position, ContinuationRef::Existing(*continuation), *keys)
                            });
                            frames.extend(existing.map(inherit));
                        }
                        ContinuationRef::OfCall(other) if group.len() > 1 && is_member(other) => {
                            if !open.contains(&other) {
                                open.push(other);
                            }
                        }
                        ContinuationRef::OfCall(other) if other == *call => {}
                        ContinuationRef::OfCall(other) => {
                            frames.extend(calls[other.index()].frames.iter().copied().map(inherit));
                        }
                    }
                }
                at += 1;
            }
            self.looked_at += frames.len() as u64;
            frames.sort_unstable();
            frames.dedup();
            calls[call.index()].frames = frames;
        }
    }

    /// Creates the continuations of the calls of `group`.
    fn create_group(&mut self, work: &mut Work, group: &[OrderedCall]) {
        let Work { calls, members, .. } = work;
        if members.len() < group.len() {
            members.resize_with(group.len(), Vec::new);
        }
        for ((.., call), member) in group.iter().zip(members.iter_mut()) {
            member.clear();
            member.extend(calls[call.index()].frames.iter().map(|(position, continuation, keys)| {
                let in_group = match continuation {
                    ContinuationRef::OfCall(other) => group.iter().position(|(.., call)| call == other),
                    ContinuationRef::Existing(_) => None,
                };
                let continuation = match in_group {
                    Some(member) => Continuation::member(number(member)),
                    None => existing(calls, *continuation),
                };
                (*position, continuation, *keys)
            }));
        }
        let first = self.continuations.insert(&mut members[..group.len()]);
        for ((.., call), continuation) in group.iter().zip(first.raw()..) {
            calls[call.index()].continuation = Some(Continuation::of(continuation));
        }
    }
}

impl Work {
    pub(super) fn new(rules: &Rules) -> Self {
        Self { call_of: Table::filled(None, rules.all()), ..Self::default() }
    }

    /// Finds the terminals and the calls of `items`, and of the first positions of the called rules.
    fn call(&mut self, rules: &Rules, groups: &mut GroupStates, tracks: bool) {
        self.called = 0;
        self.read.clear();
        for at in 0..self.items.len() {
            let (position, continuation, keys) = self.items[at];
            self.look(rules, groups, (position, ContinuationRef::Existing(continuation), keys), tracks);
        }
        let mut at = 0;
        while at < self.called {
            let Call { rule, keys, .. } = self.calls[at];
            let of_call = ContinuationRef::OfCall(CallId::from_index(at));
            self.look(rules, groups, (rules.start(rule), of_call, keys), tracks);
            at += 1;
        }
    }

    /// Finds the calls that have their continuation later: the rule begins with literals, nothing else begins with
    /// these, and no caller ends with the call.
    fn find_later(&mut self, rules: &Rules) {
        for call in &mut self.calls[..self.called] {
            call.is_later = call.also.is_empty() && rules.begins_with_literals(call.rule);
        }
        for group in self.read.chunk_by(|left, right| left.0 == right.0).filter(|group| group.len() > 1) {
            for (.., continuation, _) in group {
                if let ContinuationRef::OfCall(call) = continuation {
                    self.calls[call.index()].is_later = false;
                }
            }
        }
    }

    fn look(
        &mut self,
        rules: &Rules,
        groups: &mut GroupStates,
        (position, continuation, keys): FrameRef,
        tracks: bool,
    ) {
        let around = |rule: RuleId| match tracks && rules.is_scope(rule) {
            true => (KeySet::EMPTY, keys),
            false => (keys, KeySet::INHERITED),
        };
        if is_of_group(position) {
            for MemberEdge { rule, to, is_last } in groups.edges(&rules.groups, position).iter().copied() {
                self.add_call(rule, around(rule), to, is_last, continuation);
            }
            return;
        }
        let read = rules.terminals(position).iter();
        self.read.extend(read.map(|(terminal, to)| (*terminal, *to, continuation, keys)));
        for (rule, to) in rules.calls(position) {
            self.add_call(*rule, around(*rule), *to, rules.is_final(*to), continuation);
        }
    }

    /// Adds a call of `rule`, after which the caller is at `to`; with the used keys before the call, and those of its
    /// frame.
    fn add_call(
        &mut self,
        rule: RuleId,
        (keys, keys_after): (KeySet, KeySet),
        to: Position,
        is_final: bool,
        caller: ContinuationRef,
    ) {
        let first = self.call_of[rule];
        let mut found = first;
        while let Some(call) = found
            && self.calls[call.index()].keys != keys
        {
            found = self.calls[call.index()].next;
        }
        let call = found.unwrap_or_else(|| {
            let new = CallId::from_index(self.called);
            self.call_of[rule] = Some(new);
            match self.calls.get_mut(self.called) {
                Some(call) => {
                    (call.rule, call.keys, call.next, call.continuation) = (rule, keys, first, None);
                    call.frames.clear();
                    call.also.clear();
                }
                None => self.calls.push(Call {
                    rule,
                    keys,
                    frames: SmallVec::new(),
                    also: SmallVec::new(),
                    continuation: None,
                    is_later: false,
                    next: first,
                }),
            }
            self.called += 1;
            new
        });
        let call = &mut self.calls[call.index()];
        if is_final {
            call.also.push((caller, keys_after));
        } else {
            call.frames.push((to, caller, keys_after));
        }
    }
}

/// The continuation, which exists by now.
fn existing(calls: &[Call], continuation: ContinuationRef) -> Continuation {
    match continuation {
        ContinuationRef::Existing(continuation) => continuation,
        ContinuationRef::OfCall(call) => {
            calls[call.index()].continuation.expect("callers come before the rules that they begin with")
        }
    }
}

/// Adds `item` to the first few of its letter, which are the most likely to cover others: they came last in the text.
fn add_alike(
    alike: &mut HashMap<(Position, KeySet), SmallVec<[Continuation; 2]>>,
    (position, continuation, keys): Item,
) {
    let continuations = alike.entry((position, keys)).or_default();
    if continuations.len() < continuations.inline_size() {
        continuations.push(continuation);
    }
}
