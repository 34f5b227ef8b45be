//! Groups with members in any order. Their positions are created when they are reached.
//!
//! The automaton of a group of n members has 2^n states, one for each set of members that were read, and a text
//! passes n of them. So the parser creates a **state** when it reaches it, and names it by the set: `a` before `b`
//! and `b` before `a` lead to one state. A state has a block of consecutive positions, so a position is found by a
//! search among the states, without a table. Which ways of a [choice](MemberChoice) are left follows from the set
//! too.
//!
//! Tried instead: the group as a product of n counters beside the parser. Every hypothesis would carry it; a position
//! is one number, and all that merges equal continuations merges these too.

use smallvec::SmallVec;
use unskew_grammar::{MemberChoice, MemberWay, RuleId, Unordered};

use super::rules::Position;
use crate::ids::{Id, Interner, Table, id, number};

/// Positions of groups have this bit.
const GROUP: u32 = 1 << 31;

/// Whether a position is one of a group.
#[inline]
pub(crate) fn is_of_group(position: Position) -> bool {
    position.raw() & GROUP != 0
}

/// A compiled group, without members that have no text.
#[derive(Debug)]
pub(crate) struct UnorderedGroup {
    /// Rules, and whether they are required.
    pub(crate) members: Vec<(RuleId, bool)>,
    /// The rule that may occur any number of times.
    pub(crate) others: Option<RuleId>,
    pub(crate) separator: Option<RuleId>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    choices: Vec<Choice>,
    /// By member: its choice. Empty if there are no choices.
    choice_of: Vec<Option<u32>>,
    /// See [`GroupState::base`].
    pub(crate) base: u32,
}

/// Members of a group, one bit each.
type Members = Box<[u64]>;

/// A choice between members.
#[derive(Debug)]
struct Choice {
    members: Members,
    /// The members that each way allows, and those that it requires.
    ways: Vec<(Members, Members)>,
}

impl Choice {
    fn new(choice: &MemberChoice, words: usize) -> Self {
        let set = |members: &mut dyn Iterator<Item = u32>| {
            let mut set = vec![0; words];
            members.for_each(|member| set[member as usize / 64] |= 1 << (member % 64));
            set.into_boxed_slice()
        };
        let mut way = |MemberWay { allowed, required }: &MemberWay| {
            (set(&mut allowed.iter().copied()), set(&mut required.iter().copied()))
        };
        let ways = choice.ways.iter().map(&mut way).collect();
        Self { members: set(&mut choice.members()), ways }
    }

    /// How many members of the choice must be read after those of `seen`, at least, and how many more may be read;
    /// `None` if no way allows all of `seen`.
    fn rest(&self, seen: &[u64]) -> Option<(u32, u32)> {
        let bits = |words: &mut dyn Iterator<Item = u64>| words.map(u64::count_ones).sum::<u32>();
        let is_left = |allowed: &[u64]| {
            let mut words = seen.iter().zip(&self.members).zip(allowed);
            words.all(|((seen, own), allowed)| seen & own & !allowed == 0)
        };
        let left: SmallVec<[_; 4]> = self.ways.iter().filter(|(allowed, _)| is_left(allowed)).collect();
        let missing = left.iter().map(|(_, required)| {
            bits(&mut required.iter().zip(seen).map(|(required, seen)| required & !seen))
        });
        let missing = missing.min()?;
        let may_come = bits(
            &mut seen
                .iter()
                .enumerate()
                .map(|(word, seen)| left.iter().fold(0, |all, (allowed, _)| all | allowed[word]) & !seen),
        );
        Some((missing, may_come))
    }
}

impl UnorderedGroup {
    /// The group with these members, after `before`.
    pub(super) fn new(group: Unordered, before: Option<&Self>) -> Self {
        let Unordered { members, others, separator, min, max, choices } = group;
        let words = members.len().div_ceil(64);
        let mut choice_of = vec![None; if choices.is_empty() { 0 } else { members.len() }];
        for (choice, index) in choices.iter().zip(0u32..) {
            choice.members().for_each(|member| choice_of[member as usize] = Some(index));
        }
        Self {
            members: members.into_vec(),
            others,
            separator,
            min,
            max,
            choices: choices.iter().map(|choice| Choice::new(choice, words)).collect(),
            choice_of,
            base: before.map_or(0, |before| before.base + before.width()),
        }
    }

    /// Whether a text of the group has only members for which `is_fine` holds, as far as the group's start tells:
    /// `others` says it of the rule that may occur any number of times.
    #[cfg(feature = "canonical")]
    pub(crate) fn has_way(&self, is_fine: impl Fn(usize) -> bool, others: bool) -> bool {
        let requires = |required: &Members| {
            let mut members = (0..self.members.len()).filter(|at| required[at / 64] >> (at % 64) & 1 != 0);
            members.all(&is_fine)
        };
        let fine = (0..self.members.len()).filter(|member| is_fine(*member)).count();
        let mut required = self.members.iter().enumerate().filter(|(_, (_, is_required))| *is_required);
        required.all(|(member, _)| is_fine(member))
            && self.choices.iter().all(|choice| choice.ways.iter().any(|(_, required)| requires(required)))
            && (others || fine >= self.min as usize)
    }

    /// The choice of a member.
    fn choice_of(&self, member: usize) -> Option<&Choice> {
        let choice = self.choice_of.get(member).copied().flatten()?;
        Some(&self.choices[choice as usize])
    }

    pub(super) fn memory_usage(&self) -> usize {
        let ways: usize = self.choices.iter().map(|choice| 1 + 2 * choice.ways.len()).sum();
        size_of_val(&*self.members)
            + size_of_val(&*self.choice_of)
            + ways * (self.members.len().div_ceil(64) * size_of::<u64>() + size_of::<Box<[u64]>>())
    }

    /// The number of positions of a state: before a member, after each member, after one of the others, and at the
    /// start.
    pub(crate) fn width(&self) -> u32 {
        number(self.members.len()) + 3
    }

    /// The first position of the group: the start of its first state.
    pub(crate) fn start(&self) -> Position {
        Position::of(GROUP | (self.base + self.width() - 1))
    }

    /// Whether the group has bounds on the number of members.
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

    /// Whether a member that is not required may still come.
    fn has_room(&self, count: u32, missing: u32) -> bool {
        self.max.is_none_or(|max| u64::from(count) + u64::from(missing) < u64::from(max))
    }
}

/// The members of a group that were read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ReadMembers {
    pub(crate) group: GroupId,
    /// A bit for each member.
    pub(crate) members: Box<[u64]>,
    /// The number of members and others, as far as the bounds can distinguish it.
    pub(crate) count: u32,
}

#[derive(Debug)]
struct GroupState {
    seen: ReadMembers,
    /// The number of its first position, without the bit.
    base: u32,
    /// How many members must still be read, at least.
    missing: u32,
    /// How many members may still be read.
    left: u32,
    /// The edge of the separator, if the group has one.
    entry: Option<MemberEdge>,
    /// The range of the next members in `edges`, once it was asked for.
    next: Option<(u32, u32)>,
}

id! {
    /// A group with members in any order.
    GroupId
}

id! {
    /// A state of a group.
    GroupStateId
}

/// All states of groups that were created so far.
#[derive(Debug)]
pub(crate) struct GroupStates {
    /// In ascending order of their positions. The first states of all groups come first.
    states: Table<GroupStateId, GroupState>,
    interner: Interner<GroupStateId>,
    edges: Vec<MemberEdge>,
    /// The number of positions.
    end: u32,
}

/// A member that may come next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct MemberEdge {
    pub(crate) rule: RuleId,
    /// The position after it.
    pub(crate) to: Position,
    /// Whether the group ends there.
    pub(crate) is_last: bool,
}

/// A position in the block of its state.
#[derive(Clone, Copy)]
enum Offset {
    /// Before a member, which is required because a separator was read.
    BeforeMember,
    /// After a member.
    AfterMember(usize),
    AfterOther,
    /// Before all members.
    Start,
}

impl GroupState {
    /// How many members must, and how many may still be read after the state and one more member; `None` if no way of
    /// its choice allows that member here.
    fn after(&self, group: &UnorderedGroup, member: usize) -> Option<(u32, u32)> {
        let Self { missing, left, .. } = *self;
        let Some(choice) = group.choice_of(member) else {
            return Some((missing - u32::from(group.members[member].1), left - 1));
        };
        let mut seen: SmallVec<[u64; 4]> = SmallVec::from_slice(&self.seen.members);
        let (missing_before, left_before) = choice.rest(&seen)?;
        seen[member / 64] |= 1 << (member % 64);
        let (missing_after, left_after) = choice.rest(&seen)?;
        Some((missing - missing_before + missing_after, left - left_before + left_after))
    }

    /// How many members must, and how many may still be read after this offset, and the number of those that were;
    /// `None` where a member has to come.
    fn rest(&self, group: &UnorderedGroup, at: Offset) -> Option<(u32, u32, u32)> {
        match at {
            Offset::BeforeMember => None,
            Offset::Start => Some((self.missing, self.left, self.seen.count)),
            Offset::AfterMember(member) => {
                let (missing, left) = self.after(group, member)?;
                Some((missing, left, group.more(self.seen.count)))
            }
            Offset::AfterOther => Some((self.missing, self.left, group.more(self.seen.count))),
        }
    }

    /// Whether the group must end at this offset.
    fn is_final(&self, group: &UnorderedGroup, at: Offset) -> bool {
        let Some((missing, left, count)) = self.rest(group, at) else { return false };
        let optional = (left > missing || group.others.is_some()) && group.has_room(count, missing);
        missing == 0 && count >= group.min && !optional
    }
}

impl GroupStates {
    pub(crate) fn new(groups: &Table<GroupId, UnorderedGroup>) -> Self {
        let mut states =
            Self { states: Table::default(), interner: Interner::default(), edges: Vec::new(), end: 0 };
        for (index, group) in groups.iter() {
            let members = vec![0; group.members.len().div_ceil(64)].into();
            let base = states.state(groups, ReadMembers { group: index, members, count: 0 });
            debug_assert_eq!(states.states[base].base, group.base);
        }
        states
    }

    /// Whether the group may end at a position.
    pub(crate) fn is_accepting(&self, groups: &Table<GroupId, UnorderedGroup>, position: Position) -> bool {
        let (state, group, at) = self.find(groups, position);
        state.rest(group, at).is_some_and(|(missing, _, count)| missing == 0 && count >= group.min)
    }

    /// Whether the group must end at a position.
    pub(crate) fn is_final(&self, groups: &Table<GroupId, UnorderedGroup>, position: Position) -> bool {
        let (state, group, at) = self.find(groups, position);
        state.is_final(group, at)
    }

    /// The members that may come next, in ascending order of rules.
    pub(crate) fn edges(
        &mut self,
        groups: &Table<GroupId, UnorderedGroup>,
        position: Position,
    ) -> &[MemberEdge] {
        let index = self.index(position);
        let (state, group, at) = self.find(groups, position);
        if let Offset::BeforeMember | Offset::Start = at {
            return self.next(groups, index);
        }
        if group.separator.is_some() && state.is_final(group, at) {
            return &[];
        }
        let mut seen = state.seen.clone();
        if let Offset::AfterMember(member) = at {
            seen.members[member / 64] |= 1 << (member % 64);
        }
        seen.count = group.more(seen.count);
        let state = self.state(groups, seen);
        match self.states[state].entry {
            Some(_) => self.states[state].entry.as_slice(),
            None => self.next(groups, state),
        }
    }

    /// The members that may come next in a state.
    fn next(&mut self, groups: &Table<GroupId, UnorderedGroup>, index: GroupStateId) -> &[MemberEdge] {
        let state = &mut self.states[index];
        let (first, end) = match state.next {
            Some(range) => range,
            None => {
                let group = &groups[state.seen.group];
                let room = group.has_room(state.seen.count, state.missing);
                let after = |offset: u32| Position::of(GROUP | (state.base + offset));
                let first = self.edges.len();
                for ((member, (rule, required)), offset) in group.members.iter().enumerate().zip(1u32..) {
                    let is_seen = state.seen.members[member / 64] >> (member % 64) & 1 != 0;
                    if !is_seen && (*required || room) && state.after(group, member).is_some() {
                        let is_last = state.is_final(group, Offset::AfterMember(member));
                        self.edges.push(MemberEdge { rule: *rule, to: after(offset), is_last });
                    }
                }
                if let Some(rule) = group.others.filter(|_| room) {
                    let is_last = state.is_final(group, Offset::AfterOther);
                    self.edges.push(MemberEdge { rule, to: after(group.width() - 2), is_last });
                }
                self.edges[first..].sort_unstable();
                let range = (number(first), number(self.edges.len()));
                state.next = Some(range);
                range
            }
        };
        &self.edges[first as usize..end as usize]
    }

    /// How many members must still come after a position, and whether nothing of its group was read before it.
    #[cfg(feature = "canonical")]
    pub(crate) fn missing(&self, groups: &Table<GroupId, UnorderedGroup>, position: Position) -> (u32, bool) {
        let (state, group, at) = self.find(groups, position);
        let missing = state.rest(group, at).map_or(state.missing, |(missing, ..)| missing);
        (missing, group.start() == position)
    }

    /// The group of a position. Its number is the same in all tables.
    pub(crate) fn group(&self, position: Position) -> GroupId {
        self.states[self.index(position)].seen.group
    }

    /// The position without numbers of this table: the members that were read, and the offset in the block of that
    /// state.
    pub(crate) fn spelled_out(&self, position: Position) -> (ReadMembers, u32) {
        let state = &self.states[self.index(position)];
        (state.seen.clone(), (position.raw() & !GROUP) - state.base)
    }

    /// The position that was spelled out.
    pub(crate) fn position(
        &mut self,
        groups: &Table<GroupId, UnorderedGroup>,
        seen: &ReadMembers,
        offset: u32,
    ) -> Position {
        let state = self.state(groups, seen.clone());
        Position::of(GROUP | (self.states[state].base + offset))
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let words: usize = self.states.entries().iter().map(|state| state.seen.members.len()).sum();
        self.states.len() * (size_of::<GroupState>() + 8)
            + words * 8
            + self.edges.len() * size_of::<MemberEdge>()
    }

    fn index(&self, position: Position) -> GroupStateId {
        let position = position.raw() & !GROUP;
        GroupStateId::from_index(self.states.entries().partition_point(|state| state.base <= position) - 1)
    }

    fn find<'g>(
        &self,
        groups: &'g Table<GroupId, UnorderedGroup>,
        position: Position,
    ) -> (&GroupState, &'g UnorderedGroup, Offset) {
        let state = &self.states[self.index(position)];
        let group = &groups[state.seen.group];
        let offset = (position.raw() & !GROUP) - state.base;
        let at = match group.width() - offset {
            1 => Offset::Start,
            2 => Offset::AfterOther,
            _ if offset == 0 => Offset::BeforeMember,
            _ => Offset::AfterMember(offset as usize - 1),
        };
        (state, group, at)
    }

    fn state(&mut self, groups: &Table<GroupId, UnorderedGroup>, seen: ReadMembers) -> GroupStateId {
        let states = &self.states;
        let (hash, next) = (self.interner.hash(&seen), states.next_id());
        let known = self.interner.get_or_insert(hash, next, |id| states[id].seen == seen);
        if known != next {
            return known;
        }
        let group = &groups[seen.group];
        let is_seen = |member: usize| seen.members[member / 64] >> (member % 64) & 1 != 0;
        let plain = group.members.iter().enumerate().filter(|(member, _)| group.choice_of(*member).is_none());
        let (mut missing, mut left) = (0, 0);
        for (_, (_, required)) in plain.filter(|(member, _)| !is_seen(*member)) {
            missing += u32::from(*required);
            left += 1;
        }
        for choice in &group.choices {
            let (must, may) = choice.rest(&seen.members).expect("some way allows the members that were read");
            missing += must;
            left += may;
        }
        let base = self.end;
        self.end += group.width();
        assert!(self.end < GROUP, "bounded memory");
        let to = Position::of(GROUP | base);
        let entry = group.separator.map(|rule| MemberEdge { rule, to, is_last: false });
        self.states.push(GroupState { seen, base, missing, left, entry, next: None })
    }
}
