//! Erasure: from the parser that tracks keys to the parser that does not.
//!
//! Each of the two [parsers](crate::unique::keys) has tables of its own. So a configuration is translated hypothesis
//! by hypothesis, with the items of its parser states and their continuations, and the keys are dropped. Translations
//! are kept by their numbers: along a text little is new.

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::{
    configurations::{Compiled, Configuration, Configurations},
    continuations::Continuation,
    hypotheses::Hypothesis,
    states::{Item, ParserState},
};
use crate::{
    ids::Id,
    network::{rules::Position, unordered::is_of_group},
    unique::keys::{KeySet, KeyText},
};

/// From numbers of the tracking parser to numbers of the erased one.
#[derive(Debug, Default)]
pub(crate) struct Erasure {
    configurations: HashMap<Configuration, Configuration>,
    states: HashMap<ParserState, ParserState>,
    /// By the first continuation of a group.
    groups: HashMap<Continuation, Continuation>,
    /// Positions of groups with members in any order.
    positions: HashMap<Position, Position>,
    /// The sets of keys that occurred.
    sets: HashSet<KeySet>,
    /// The keys of these sets, and those that were added since they were last asked for.
    keys: HashSet<KeyText>,
    new_keys: Vec<KeyText>,
}

/// The configurations of both parsers.
pub(crate) struct BothParsers<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) tracking: &'a Configurations,
    pub(crate) erased: &'a mut Configurations,
}

impl Erasure {
    /// `configuration` without used keys.
    pub(crate) fn configuration(
        &mut self,
        both: &mut BothParsers<'_>,
        configuration: Configuration,
    ) -> Configuration {
        if let Some(known) = self.configurations.get(&configuration) {
            return *known;
        }
        let terminals = &both.compiled.terminals;
        let mut hypotheses = Vec::new();
        let tracking = both.tracking;
        for hypothesis in tracking.hypotheses(configuration).iter().copied() {
            let Hypothesis { terminal, progress, parser_state } = hypothesis;
            let state = self.state(both, parser_state);
            let Some(terminal) = terminal.filter(|terminal| terminals.is_distinct(*terminal)) else {
                hypotheses.push(Hypothesis { parser_state: state, ..hypothesis });
                continue;
            };
            // The tracking parser has the state before the key there, and the erased one the state after it.
            let Some(texts) = tracking.texts() else { continue };
            let Some(after) = both.erased.target(both.compiled, state, terminal) else { continue };
            let scanner = texts.state(progress.prefix());
            hypotheses.push(Hypothesis::scanning(terminal, scanner, after.state()));
        }
        let erased = both.erased.configuration(&mut hypotheses, both.compiled);
        let erased = erased.expect("each hypothesis has an erased one");
        self.configurations.insert(configuration, erased);
        erased
    }

    /// The keys that were used in some configuration, without those of earlier calls.
    pub(crate) fn take_keys(&mut self) -> Vec<KeyText> {
        std::mem::take(&mut self.new_keys)
    }

    /// The memory that its tables take, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 16;
        let numbers =
            self.configurations.len() + self.states.len() + self.groups.len() + self.positions.len();
        (numbers + self.sets.len() + self.keys.len()) * ENTRY
    }

    fn state(&mut self, both: &mut BothParsers<'_>, state: ParserState) -> ParserState {
        if let Some(known) = self.states.get(&state) {
            return *known;
        }
        let mut items: Vec<Item> = Vec::new();
        let tracking = both.tracking;
        for (position, continuation, keys) in tracking.parser.items(state).iter().copied() {
            self.collect(both, keys);
            let continuation = self.continuation(both, continuation);
            items.push((self.position(both, position), continuation, KeySet::EMPTY));
        }
        let erased = both.erased.parser.state(&mut items, &both.compiled.rules);
        self.states.insert(state, erased);
        erased
    }

    fn position(&mut self, both: &mut BothParsers<'_>, position: Position) -> Position {
        if !is_of_group(position) {
            return position;
        }
        *self.positions.entry(position).or_insert_with(|| {
            let (seen, offset) = both.tracking.parser.groups().spelled_out(position);
            both.erased.parser.position(&both.compiled.rules, &seen, offset)
        })
    }

    /// Without recursion: a text may be nested deeper than a thread has stack.
    fn continuation(&mut self, both: &mut BothParsers<'_>, continuation: Continuation) -> Continuation {
        let tracking = both.tracking;
        let continuations = tracking.parser.continuations();
        let first_of = |continuation: Continuation| continuations.group(continuation).first;
        let mut open: SmallVec<[Continuation; 8]> = SmallVec::from_slice(&[first_of(continuation)]);
        while let Some(first) = open.last().copied() {
            if self.groups.contains_key(&first) {
                open.pop();
                continue;
            }
            let group = continuations.group(first);
            let known = open.len();
            for (_, target, _) in group.ids().flat_map(|member| continuations.frames(member)) {
                if !group.contains(*target) && !self.groups.contains_key(&first_of(*target)) {
                    open.push(first_of(*target));
                }
            }
            if open.len() > known {
                continue;
            }
            let mut members: Vec<Vec<Item>> = Vec::with_capacity(group.len());
            for member in group.ids() {
                let frames = continuations.frames(member).iter().map(|(position, target, keys)| {
                    self.collect(both, *keys);
                    let target = match group.offset_of(*target) {
                        Some(member) => Continuation::member(member),
                        None => self.erased_member(first_of(*target), *target),
                    };
                    (self.position(both, *position), target, KeySet::INHERITED)
                });
                members.push(frames.collect());
            }
            let erased = both.erased.parser.continuations_mut().insert(&mut members);
            self.groups.insert(first, erased);
            open.pop();
        }
        self.erased_member(first_of(continuation), continuation)
    }

    /// The erased continuation of a member of the group that begins with `first` and was translated.
    fn erased_member(&self, first: Continuation, member: Continuation) -> Continuation {
        Continuation::of(self.groups[&first].raw() + (member.raw() - first.raw()))
    }

    /// Collects the keys of `set`, the last ones first: those of a set that occurred before are known.
    fn collect(&mut self, both: &BothParsers<'_>, set: KeySet) {
        let mut at = set;
        while at != KeySet::INHERITED && self.sets.insert(at) {
            let Some((others, key)) = both.tracking.parser.key_sets.last(at) else { break };
            if self.keys.insert(key) {
                self.new_keys.push(key);
            }
            at = others;
        }
    }
}
