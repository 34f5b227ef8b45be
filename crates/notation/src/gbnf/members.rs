//! Members in any order, as rules.
//!
//! A group is an automaton whose states are the sets of members that were read, and the number of all that was read
//! where the group bounds it. A state is a rule. Where the states are too many, members are read without a memory:
//! first the optional ones, then all. The text has more outputs then, which is reported.

use indexmap::IndexSet;
use unskew_grammar::{RuleId, Unordered};

use super::forms::{FormId, Forms, Written};

/// The most states of a group.
const MAX_STATES: usize = 2048;

/// The members that were read, as bits, and the number of all that was read, up to the greatest that matters.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    read: Box<[u64]>,
    count: u32,
}

impl State {
    fn has(&self, member: usize) -> bool {
        self.read[member / 64] >> (member % 64) & 1 == 1
    }
}

/// Which members are remembered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Memory {
    All,
    Required,
    None,
}

struct Group<'g> {
    group: &'g Unordered,
    memory: Memory,
    is_counted: bool,
}

impl Group<'_> {
    fn is_remembered(&self, member: usize) -> bool {
        match self.memory {
            Memory::All => true,
            Memory::Required => self.group.members[member].1,
            Memory::None => false,
        }
    }

    fn counts(&self) -> u32 {
        self.group.max.unwrap_or(self.group.min)
    }

    fn may_end(&self, state: &State) -> bool {
        let mut members = self.group.members.iter().enumerate();
        members.all(|(member, (_, required))| !required || !self.is_remembered(member) || state.has(member))
            && (!self.is_counted || state.count >= self.group.min)
            && (self.memory != Memory::All
                || self.group.choices.iter().all(|choice| {
                    choice.ways.iter().any(|way| {
                        way.required.iter().all(|member| state.has(*member as usize))
                            && choice
                                .members()
                                .all(|member| !state.has(member as usize) || way.allowed.contains(&member))
                    })
                }))
    }

    /// The state after a member, or after one of the others.
    fn after(&self, state: &State, member: Option<usize>) -> Option<State> {
        let mut next = state.clone();
        if self.is_counted {
            if self.group.max.is_some_and(|max| state.count >= max) {
                return None;
            }
            next.count = (state.count + 1).min(self.counts());
        }
        if let Some(member) = member.filter(|member| self.is_remembered(*member)) {
            if state.has(member) {
                return None;
            }
            next.read[member / 64] |= 1 << (member % 64);
        }
        Some(next)
    }
}

impl Forms {
    /// The texts of `group`, whose rules are those that `rules` returns, and which members the text remembers. `None`
    /// if the group has no text.
    pub(super) fn group(
        &mut self,
        group: &Unordered,
        most: Memory,
        mut rules: impl FnMut(RuleId) -> Written,
    ) -> (Option<FormId>, Memory) {
        let mut call = |forms: &mut Self, rule: RuleId| forms.call(rules(rule));
        let separator = group.separator.map(|rule| call(self, rule));
        let separator = separator.unwrap_or_else(|| self.empty());
        let others = group.others.map(|rule| call(self, rule));
        let members: Vec<FormId> = group.members.iter().map(|(rule, _)| call(self, *rule)).collect();
        let (min, max) = (group.min, group.max);
        if let (true, true, Some(item)) = (members.is_empty(), group.choices.is_empty(), others) {
            return (self.list(item, separator, min, max), Memory::All);
        }
        for memory in [Memory::All, Memory::Required, Memory::None] {
            if memory < most {
                continue;
            }
            // The set of members says how many they are.
            let is_free = min <= 1 && max.is_none() && min <= group.required();
            let group = Group { group, memory, is_counted: !is_free };
            if memory == Memory::None {
                let all: Vec<FormId> = members.iter().copied().chain(others).collect();
                let item = self.choice(all);
                return (
                    self.list(item, separator, min.max(u32::from(group.group.required() > 0)), max),
                    memory,
                );
            }
            if let Some(made) = self.states(&group, &members, others, separator) {
                return (made, memory);
            }
        }
        unreachable!("a group without memory has one state")
    }

    /// `item` any number of times within the bounds, with `separator` between neighbours.
    fn list(&mut self, item: FormId, separator: FormId, min: u32, max: Option<u32>) -> Option<FormId> {
        if max.is_some_and(|max| max < min) {
            return None;
        }
        if max == Some(0) {
            return Some(self.empty());
        }
        let next = self.sequence([separator, item]);
        let more = self.repeat(next, min.saturating_sub(1), max.map(|max| max - 1));
        let all = self.sequence([item, more]);
        Some(if min == 0 { self.optional(all) } else { all })
    }

    /// One rule for each state; `None` if there are too many.
    fn states(
        &mut self,
        group: &Group<'_>,
        members: &[FormId],
        others: Option<FormId>,
        separator: FormId,
    ) -> Option<Option<FormId>> {
        let start = State { read: vec![0; members.len().div_ceil(64)].into(), count: 0 };
        let (mut states, mut edges) = (IndexSet::from([start]), vec![]);
        while let Some(state) = states.get_index(edges.len()).cloned() {
            let mut own: Vec<(FormId, usize)> = vec![];
            let items = members.iter().copied().enumerate().map(|(member, form)| (Some(member), form));
            for (member, form) in items.chain(others.map(|others| (None, others))) {
                let Some(next) = group.after(&state, member) else { continue };
                own.push((form, states.insert_full(next).0));
            }
            edges.push(own);
            if states.len() > MAX_STATES {
                return None;
            }
        }
        // States from which no end is reached are left out.
        let mut is_live: Vec<bool> = states.iter().map(|state| group.may_end(state)).collect();
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for at in (0..states.len()).rev() {
                if !is_live[at] && edges[at].iter().any(|(_, next)| is_live[*next]) {
                    (is_live[at], is_settled) = (true, false);
                }
            }
        }
        if !is_live[0] {
            return Some(None);
        }
        let rules: Vec<Option<Written>> =
            is_live.iter().map(|live| live.then(|| self.rule("more"))).collect();
        let mut first = None;
        for (at, state) in states.iter().enumerate() {
            let Some(rule) = rules[at] else { continue };
            let mut by_target: Vec<(Written, Vec<FormId>)> = vec![];
            for (form, next) in &edges[at] {
                let Some(next) = rules[*next] else { continue };
                match by_target.iter_mut().find(|(target, _)| *target == next) {
                    Some((_, forms)) => forms.push(*form),
                    None => by_target.push((next, vec![*form])),
                }
            }
            let mut ways = vec![];
            for (next, forms) in by_target {
                let (item, rest) = (self.choice(forms), self.call(next));
                ways.push(self.sequence([item, rest]));
            }
            let may_end = group.may_end(state);
            let body = if ways.is_empty() {
                self.empty()
            } else {
                let items = self.choice(ways);
                if at == 0 {
                    let first_body = if may_end { self.optional(items) } else { items };
                    first = Some(first_body);
                }
                let next = self.sequence([separator, items]);
                if may_end { self.optional(next) } else { next }
            };
            self.define(rule, body);
        }
        let first = match first {
            Some(first) => first,
            None => self.empty(),
        };
        Some(Some(first))
    }
}
