//! Groups whose members come in any order: positions that are made when they are reached.
//!
//! Written out as a rule, a group of n members is an automaton of 2^n places, one for each set of members that were read. A
//! text goes through n of them. So they are made as the parser comes to them, and named by the set: `a` before `b` and `b`
//! before `a` lead to one **state**. A state has a block of neighbouring positions, so that finding one takes a search
//! among the states and no table.
//!
//! Tried instead: the group as a product of n counters beside the parser. It would have to be carried through every reading
//! of every place; as a position it is one number, and everything that merges equal futures merges these too.

use super::rules::Position;
use crate::ids::Ids;

/// A position with this bit is one of a group's.
const GROUP: Position = 1 << 31;

/// Whether it is a position of a group.
#[inline]
pub(crate) fn is_of_group(position: Position) -> bool {
    position & GROUP != 0
}

/// A group, compiled: what can be completed of it.
#[derive(Debug)]
pub(crate) struct Group {
    /// Rules, and whether they must come.
    pub(crate) members: Vec<(u32, bool)>,
    /// What may come any number of times.
    pub(crate) others: Option<u32>,
    pub(crate) separator: Option<u32>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    /// Its first position; see [`State::base`].
    pub(crate) base: Position,
}

impl Group {
    /// The positions of one of its states: in front of a member; behind each; behind one of the others; and in front of all.
    pub(crate) fn width(&self) -> u32 {
        u32::try_from(self.members.len()).expect("limited") + 3
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> Position {
        GROUP | (self.base + self.width() - 1)
    }

    fn required(&self) -> u32 {
        u32::try_from(self.members.iter().filter(|(_, required)| *required).count()).expect("limited")
    }

    /// Whether the number of members so far makes a difference.
    fn counts(&self) -> bool {
        self.min > 0 || self.max.is_some()
    }

    fn more(&self, count: u32) -> u32 {
        match (self.counts(), self.max) {
            (false, _) => 0,
            (true, None) => (count + 1).min(self.min),
            (true, Some(_)) => count + 1,
        }
    }

    /// Whether a member that need not come may.
    fn has_room(&self, count: u32, missing: u32) -> bool {
        self.max.is_none_or(|max| u64::from(count) + u64::from(missing) < u64::from(max))
    }
}

/// What was read of a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Seen {
    pub(crate) group: u32,
    /// A bit for each member.
    pub(crate) members: Box<[u64]>,
    /// The number of members and others, as far as it matters.
    pub(crate) count: u32,
}

#[derive(Debug)]
struct State {
    seen: Seen,
    /// Its first position, without the bit.
    base: Position,
    /// How many must still come.
    missing: u32,
    /// How many may still come.
    left: u32,
    /// That of the separator. Nothing refers to it where there is none.
    entry: Edge,
    /// In `edges`: what may come next, once it was asked for.
    next: Option<(u32, u32)>,
}

/// All states of groups that were made so far.
#[derive(Debug)]
pub(crate) struct States {
    /// In ascending order of their positions. The first state of each group comes first.
    states: Vec<State>,
    ids: Ids,
    edges: Vec<Edge>,
    end: Position,
}

/// What may come next in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Edge {
    pub(crate) rule: u32,
    /// The position behind it.
    pub(crate) to: Position,
    /// Whether nothing but the end of the group follows there.
    pub(crate) is_last: bool,
}

/// Where a position stands in its state.
#[derive(Clone, Copy)]
enum Stand {
    /// In front of a member that must come, because a separator was read.
    Before,
    /// Behind a member.
    Behind(usize),
    BehindOther,
    /// In front of all.
    Start,
}

impl State {
    /// Whether nothing but the end of the group follows where this stands in it.
    fn is_final(&self, group: &Group, stand: Stand) -> bool {
        let Self { missing, left, .. } = *self;
        let (missing, left, count) = match stand {
            Stand::Before => return false,
            Stand::Start => (missing, left, self.seen.count),
            Stand::Behind(member) => {
                (missing - u32::from(group.members[member].1), left - 1, group.more(self.seen.count))
            }
            Stand::BehindOther => (missing, left, group.more(self.seen.count)),
        };
        let optional = (left > missing || group.others.is_some()) && group.has_room(count, missing);
        missing == 0 && count >= group.min && !optional
    }
}

impl States {
    pub(crate) fn new(groups: &[Group]) -> Self {
        let mut states = Self { states: Vec::new(), ids: Ids::default(), edges: Vec::new(), end: 0 };
        for (group, index) in groups.iter().zip(0u32..) {
            let members = vec![0; group.members.len().div_ceil(64)].into();
            let base = states.state(groups, Seen { group: index, members, count: 0 });
            debug_assert_eq!(states.states[base].base, group.base);
        }
        states
    }

    /// Whether the group may end here.
    pub(crate) fn is_accepting(&self, groups: &[Group], position: Position) -> bool {
        let (state, group, stand) = self.find(groups, position);
        let (missing, count) = match stand {
            Stand::Before => return false,
            Stand::Start => (state.missing, state.seen.count),
            Stand::Behind(member) => {
                (state.missing - u32::from(group.members[member].1), group.more(state.seen.count))
            }
            Stand::BehindOther => (state.missing, group.more(state.seen.count)),
        };
        missing == 0 && count >= group.min
    }

    /// Whether nothing but the end of the group follows.
    pub(crate) fn is_final(&self, groups: &[Group], position: Position) -> bool {
        let (state, group, stand) = self.find(groups, position);
        state.is_final(group, stand)
    }

    /// What may come next, in ascending order of rules.
    pub(crate) fn edges(&mut self, groups: &[Group], position: Position) -> &[Edge] {
        let index = self.index(position);
        let (state, group, stand) = self.find(groups, position);
        if let Stand::Before | Stand::Start = stand {
            return self.next(groups, index);
        }
        if group.separator.is_some() && state.is_final(group, stand) {
            return &[];
        }
        let mut seen = state.seen.clone();
        if let Stand::Behind(member) = stand {
            seen.members[member / 64] |= 1 << (member % 64);
        }
        seen.count = group.more(seen.count);
        let state = self.state(groups, seen);
        match group.separator {
            Some(_) => std::slice::from_ref(&self.states[state].entry),
            None => self.next(groups, state),
        }
    }

    /// What may come next in `state`.
    fn next(&mut self, groups: &[Group], index: usize) -> &[Edge] {
        let state = &mut self.states[index];
        let (first, end) = match state.next {
            Some(range) => range,
            None => {
                let group = &groups[state.seen.group as usize];
                let room = group.has_room(state.seen.count, state.missing);
                let behind = |offset: u32| GROUP | (state.base + offset);
                let first = self.edges.len();
                for ((member, (rule, required)), offset) in group.members.iter().enumerate().zip(1u32..) {
                    let is_seen = state.seen.members[member / 64] >> (member % 64) & 1 != 0;
                    if !is_seen && (*required || room) {
                        let is_last = state.is_final(group, Stand::Behind(member));
                        self.edges.push(Edge { rule: *rule, to: behind(offset), is_last });
                    }
                }
                if let Some(rule) = group.others.filter(|_| room) {
                    let is_last = state.is_final(group, Stand::BehindOther);
                    self.edges.push(Edge { rule, to: behind(group.width() - 2), is_last });
                }
                self.edges[first..].sort_unstable();
                let number = |at: usize| u32::try_from(at).expect("bounded memory");
                let range = (number(first), number(self.edges.len()));
                state.next = Some(range);
                range
            }
        };
        &self.edges[first as usize..end as usize]
    }

    /// The position's group, which is the same in all tables.
    pub(crate) fn group(&self, position: Position) -> u32 {
        self.states[self.index(position)].seen.group
    }

    /// What stands behind the position's number: what was read, and where it stands in that state.
    pub(crate) fn spelled_out(&self, position: Position) -> (Seen, u32) {
        let state = &self.states[self.index(position)];
        (state.seen.clone(), (position & !GROUP) - state.base)
    }

    /// The position that is spelled out.
    pub(crate) fn position(&mut self, groups: &[Group], seen: &Seen, offset: u32) -> Position {
        let state = self.state(groups, seen.clone());
        GROUP | (self.states[state].base + offset)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let words: usize = self.states.iter().map(|state| state.seen.members.len()).sum();
        self.states.len() * (size_of::<State>() + 8) + words * 8 + self.edges.len() * size_of::<Edge>()
    }

    fn index(&self, position: Position) -> usize {
        let position = position & !GROUP;
        self.states.partition_point(|state| state.base <= position) - 1
    }

    fn find<'g>(&self, groups: &'g [Group], position: Position) -> (&State, &'g Group, Stand) {
        let state = &self.states[self.index(position)];
        let group = &groups[state.seen.group as usize];
        let offset = (position & !GROUP) - state.base;
        let stand = match group.width() - offset {
            1 => Stand::Start,
            2 => Stand::BehindOther,
            _ if offset == 0 => Stand::Before,
            _ => Stand::Behind(offset as usize - 1),
        };
        (state, group, stand)
    }

    fn state(&mut self, groups: &[Group], seen: Seen) -> usize {
        let states = &self.states;
        let next = states.len();
        let number = u32::try_from(next).expect("bounded memory");
        let known =
            self.ids.get_or_insert(self.ids.hash(&seen), number, |id| states[id as usize].seen == seen);
        if known != number {
            return known as usize;
        }
        let group = &groups[seen.group as usize];
        let is_seen = |member: usize| seen.members[member / 64] >> (member % 64) & 1 != 0;
        let taken = group.members.iter().enumerate().filter(|(member, _)| is_seen(*member));
        let (mut missing, mut left) = (group.required(), group.width() - 3);
        for (_, (_, required)) in taken {
            missing -= u32::from(*required);
            left -= 1;
        }
        let base = self.end;
        self.end += group.width();
        assert!(self.end < GROUP, "bounded memory");
        let entry = Edge { rule: group.separator.unwrap_or_default(), to: GROUP | base, is_last: false };
        self.states.push(State { seen, base, missing, left, entry, next: None });
        next
    }
}
