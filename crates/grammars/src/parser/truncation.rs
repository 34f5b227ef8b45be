//! Parser states without the continuations that enclose them.
//!
//! After `(` an expression is read in the same way wherever in a program it occurs; only the continuation after the
//! `)` differs. A parser state includes all enclosing continuations, so it recurs at the same nesting only. Here
//! continuations are **cut** where they lead out, and a **placeholder** takes the place of each cut one: a
//! continuation whose position reads nothing. The truncated state is the same at every nesting. The results for
//! it serve all of them, up to the points where a placeholder is reached; there the computation continues with the
//! continuation that the placeholder stands for.
//!
//! A continuation is cut where few tokens pass: where a terminal must follow, as after the expression in parentheses,
//! and where a list continues with its next element. Placeholders differ only by the order in which they occur: a
//! condition and an argument are read alike.
//!
//! XGrammar (Dong et al. 2024, section 3.1) cuts at the end of every rule, ahead of time and for all states, and
//! looks one by one at the tokens that pass, in every mask. Expressions end at a dozen rules at once, so most tokens
//! pass.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    continuations::Continuation,
    states::{Item, Parser, ParserState},
};
use crate::{
    ids::{Id, Table, id, number},
    network::{
        rules::{Placeholder, Position, Rules},
        unordered::is_of_group,
    },
};

/// The continuations that placeholders stand for, by placeholder.
pub(crate) type Placeholders = SmallVec<[Continuation; 4]>;

id! {
    /// The cuts of a group of continuations.
    CutsId
}

id! {
    /// A truncated state, or the finding that there is none.
    TruncatedId
}

/// A parser state without the continuations that enclose it.
#[derive(Clone, Debug)]
pub(crate) struct Truncated {
    pub(crate) state: ParserState,
    pub(crate) placeholders: Placeholders,
}

/// The cuts and truncated states that were computed so far.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    /// By continuation, those that were asked for.
    by_continuation: Table<Continuation, Option<CutsId>>,
    /// The continuations that are cut in a continuation, in the order in which they occur, and how many levels are
    /// above them; `None` where these are too many.
    cuts: Table<CutsId, Option<(Placeholders, u32)>>,
    /// By a continuation and the placeholders that take the places of its cuts: the continuation with placeholders.
    with_placeholders: HashMap<(Continuation, SmallVec<[Placeholder; 4]>), Continuation>,
    /// By state, those that were asked for.
    by_state: Table<ParserState, Option<TruncatedId>>,
    truncated: Table<TruncatedId, Option<Truncated>>,
}

impl Truncations {
    /// `state` without the continuations that enclose it; `None` where they are too many or too deep.
    pub(crate) fn truncated(
        &mut self,
        parser: &mut Parser,
        rules: &Rules,
        state: ParserState,
    ) -> Option<&Truncated> {
        let id = match *self.by_state.grown_to(state) {
            Some(known) => known,
            None => {
                let truncated = self.truncate(parser, rules, state);
                let id = self.truncated.push(truncated);
                self.by_state[state] = Some(id);
                id
            }
        };
        self.truncated[id].as_ref()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        (self.by_continuation.len() + self.by_state.len()) * size_of::<u32>()
            + self.cuts.len() * size_of::<Option<(Placeholders, u32)>>()
            + self.truncated.len() * size_of::<Option<Truncated>>()
            + self.with_placeholders.len()
                * 2
                * size_of::<((Continuation, SmallVec<[Placeholder; 4]>), Continuation)>()
    }

    fn truncate(&mut self, parser: &mut Parser, rules: &Rules, state: ParserState) -> Option<Truncated> {
        // Placeholders are numbered in the order of their occurrence, so that the enclosing continuations make no
        // difference.
        let mut placeholders = Placeholders::new();
        let mut items: Vec<Item> = parser.items(state).to_vec();
        for (position, continuation, _) in &mut items {
            *continuation = self.replace_cuts(parser, rules, *continuation, &mut placeholders)?;
            follow_placeholder(parser, rules, position, *continuation);
        }
        Some(Truncated { state: parser.state(&mut items, rules), placeholders })
    }

    /// `continuation` with placeholders, which are added to `placeholders` if they are new.
    fn replace_cuts(
        &mut self,
        parser: &mut Parser,
        rules: &Rules,
        continuation: Continuation,
        placeholders: &mut Placeholders,
    ) -> Option<Continuation> {
        if continuation == Continuation::ROOT {
            return Some(continuation);
        }
        if is_cut(parser, rules, continuation) {
            let placeholder = add_placeholder(placeholders, continuation);
            return placeholder.map(|placeholder| parser.placeholder(rules, placeholder));
        }
        let (cuts, _) = self.cuts(parser, rules, continuation, 0)?;
        let key: Option<SmallVec<[Placeholder; 4]>> =
            cuts.iter().map(|cut| add_placeholder(placeholders, *cut)).collect();
        let key = (continuation, key?);
        if let Some(known) = self.with_placeholders.get(&key) {
            return Some(*known);
        }
        let group = parser.continuations().group(continuation).ids();
        let members: SmallVec<[Continuation; 4]> =
            group.filter(|member| !is_cut(parser, rules, *member)).collect();
        let mut groups: Vec<Vec<Item>> = Vec::with_capacity(members.len());
        for member in &members {
            let mut frames: Vec<Item> = parser.continuations().frames(*member).to_vec();
            for (position, target, _) in &mut frames {
                if let Some(member) = members.iter().position(|member| member == target) {
                    *target = Continuation::member(number(member));
                } else {
                    *target = self.replace_cuts(parser, rules, *target, placeholders)?;
                    follow_placeholder(parser, rules, position, *target);
                }
            }
            groups.push(frames);
        }
        let first = parser.continuations_mut().insert(&mut groups);
        let created = parser.continuations().group(first).ids();
        for (member, created) in members.iter().zip(created) {
            self.with_placeholders.insert((*member, key.1.clone()), created);
        }
        self.with_placeholders.get(&key).copied()
    }

    /// The continuations that are cut in `continuation`, which is not cut itself. All continuations of its group have
    /// the same cuts.
    fn cuts(
        &mut self,
        parser: &Parser,
        rules: &Rules,
        continuation: Continuation,
        depth: u32,
    ) -> Option<(Placeholders, u32)> {
        let most = parser.tuning.truncated_levels;
        if let Some(known) = *self.by_continuation.grown_to(continuation) {
            return self.cuts[known].clone();
        }
        let group = parser.continuations().group(continuation);
        let mut found = if depth < most { Some((Placeholders::new(), 1)) } else { None };
        for member in group.ids().filter(|member| !is_cut(parser, rules, *member)) {
            for (_, target, _) in parser.continuations().frames(member) {
                let Some((placeholders, levels)) = &mut found else { break };
                if *target == Continuation::ROOT || group.contains(*target) && !is_cut(parser, rules, *target)
                {
                    continue;
                }
                if is_cut(parser, rules, *target) {
                    add(placeholders, *target);
                    continue;
                }
                match self.cuts(parser, rules, *target, depth + 1) {
                    Some((more, below)) if below < most => {
                        more.iter().for_each(|cut| add(placeholders, *cut));
                        *levels = below.max(*levels - 1) + 1;
                    }
                    _ => found = None,
                }
            }
        }
        let id = self.cuts.push(found.clone());
        for member in group.ids() {
            *self.by_continuation.grown_to(member) = Some(id);
        }
        found
    }
}

/// The number of the placeholder that stands for `continuation`, if there are not too many.
fn add_placeholder(placeholders: &mut Placeholders, continuation: Continuation) -> Option<Placeholder> {
    add(placeholders, continuation);
    let placeholder = placeholders.iter().position(|other| *other == continuation)?;
    (placeholder < Rules::PLACEHOLDERS as usize).then(|| Placeholder::from_index(placeholder))
}

/// Where `position` is a placeholder, `continuation` is its continuation, which may have another number than before.
fn follow_placeholder(parser: &Parser, rules: &Rules, position: &mut Position, continuation: Continuation) {
    if rules.placeholder_of(*position).is_some() {
        *position = parser.continuations().frames(continuation)[0].0;
    }
}

fn add(placeholders: &mut Placeholders, continuation: Continuation) {
    if !placeholders.contains(&continuation) {
        placeholders.push(continuation);
    }
}

/// Whether `continuation` is cut: all of its positions are narrow, or one is in a list. Placeholders are narrow.
fn is_cut(parser: &Parser, rules: &Rules, continuation: Continuation) -> bool {
    let frames = parser.continuations().frames(continuation);
    frames.iter().all(|(position, ..)| is_narrow(rules, *position))
        || frames.iter().any(|(position, ..)| is_list(rules, *position))
}

/// Whether few tokens pass `position`: a terminal must follow.
fn is_narrow(rules: &Rules, position: Position) -> bool {
    !is_of_group(position) && rules.calls(position).is_empty() && !rules.is_accepting(position)
}

/// Whether a list continues at `position`.
fn is_list(rules: &Rules, position: Position) -> bool {
    is_of_group(position) || rules.calls(position).iter().any(|(_, to)| *to == position)
}
