//! What comes after a state of the parser: whether ordinary text leads from it to the end of the output, and how many
//! bytes that takes at least.
//!
//! The end of a rule is a fact of the grammar ([`facts`](super::facts)). Behind it come the rules that have called,
//! which are a chain of continuations, found along a text and kept by their numbers.

use hashbrown::{HashMap, HashSet};
use unskew_automata::canonical::Safety;

use super::{
    facts::{FAR, Rest, Ways},
    language::{GrammarLanguage, OfParser},
};
use crate::{
    network::rules::Position,
    parser::{configurations::Configurations, continuations::Continuation, states::ParserState},
};

impl GrammarLanguage<'_> {
    /// The ways from a parser state to the end of the output.
    pub(super) fn rest_of(
        &self,
        configurations: &Configurations,
        found: &mut OfParser,
        state: ParserState,
    ) -> Ways {
        if self.facts.all_end {
            return Ways::of(Safety::Always, false);
        }
        let items = configurations.parser.items(state).iter();
        items.fold(Ways::NONE, |ways, (position, continuation, _)| {
            let rest = self.rest(configurations, *position).ways;
            ways.or(rest.then(self.callers(configurations, found, *continuation)))
        })
    }

    fn rest(&self, configurations: &Configurations, position: Position) -> Rest {
        self.facts.rest(&self.compiled().rules, configurations.parser.groups(), position)
    }

    /// The ways from the callers of a rule to the end of the output. Without recursion: a text may be nested deep.
    pub(super) fn callers(
        &self,
        configurations: &Configurations,
        found: &mut OfParser,
        continuation: Continuation,
    ) -> Ways {
        if let Some(known) = found.ways.get(&continuation) {
            return *known;
        }
        let continuations = configurations.parser.continuations();
        // Those that can be reached, and then their ways, until nothing changes.
        let mut open = vec![continuation];
        let mut reached: Vec<Continuation> = Vec::new();
        found.ways.insert(Continuation::ROOT, Ways::EMPTY);
        let mut seen: HashSet<Continuation> = HashSet::from_iter([continuation]);
        while let Some(next) = open.pop() {
            reached.push(next);
            let callers = continuations.frames(next).iter().map(|(_, after, _)| *after);
            open.extend(callers.filter(|after| !found.ways.contains_key(after) && seen.insert(*after)));
        }
        let mut ways: HashMap<Continuation, Ways> = reached.iter().map(|one| (*one, Ways::NONE)).collect();
        loop {
            let mut changed = false;
            for one in reached.iter().rev() {
                let of_frame = |(position, after, _): &(Position, Continuation, _)| {
                    let after = found.ways.get(after).or_else(|| ways.get(after)).copied();
                    self.rest(configurations, *position).ways.then(after.unwrap_or(Ways::NONE))
                };
                let frames = continuations.frames(*one).iter();
                let new = frames.map(of_frame).fold(Ways::NONE, Ways::or);
                changed |= ways.insert(*one, new) != Some(new);
            }
            if !changed {
                break;
            }
        }
        found.ways.extend(ways);
        found.ways[&continuation]
    }

    /// The number of bytes from a parser state to the end of the output, at least.
    pub(super) fn bytes_to_end(
        &self,
        configurations: &Configurations,
        found: &mut OfParser,
        state: ParserState,
    ) -> u32 {
        let items = configurations.parser.items(state).iter();
        let of_item = |(position, continuation, _): &(_, Continuation, _)| {
            let rest = self.rest(configurations, *position).bytes;
            (rest + self.bytes_of_callers(configurations, found, *continuation)).min(FAR)
        };
        items.map(of_item).min().unwrap_or(FAR)
    }

    /// The same of the callers of a rule. Without recursion: a text may be nested deep.
    pub(super) fn bytes_of_callers(
        &self,
        configurations: &Configurations,
        found: &mut OfParser,
        continuation: Continuation,
    ) -> u32 {
        let continuations = configurations.parser.continuations();
        let distance = &mut found.callers;
        distance.insert(Continuation::ROOT, 0);
        let mut open = vec![(continuation, false)];
        // A caller that is under way calls itself, and is no shorter way.
        let mut under_way: HashSet<Continuation> = HashSet::new();
        while let Some((next, is_seen)) = open.pop() {
            if distance.contains_key(&next) {
                continue;
            }
            let frames = continuations.frames(next);
            if is_seen {
                let of_frame = |(position, after, _): &(_, Continuation, _)| {
                    let after = distance.get(after).copied().unwrap_or(FAR);
                    (self.rest(configurations, *position).bytes + after).min(FAR)
                };
                let bytes = frames.iter().map(of_frame).min().unwrap_or(FAR);
                distance.insert(next, bytes);
            } else if under_way.insert(next) {
                open.push((next, true));
                let callers = frames.iter().map(|(_, after, _)| *after);
                open.extend(
                    callers.filter(|after| !distance.contains_key(after)).map(|after| (after, false)),
                );
            }
        }
        distance.get(&continuation).copied().unwrap_or(FAR)
    }
}
