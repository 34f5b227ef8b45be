//! The ignored text between terminals, as one terminal.
//!
//! A run of ignored terminals is one automaton, so that a place between two terminals costs one optional terminal and
//! no rule. Only ignored terminals with look-around are a repetition, since conditions on the text around are no part
//! of an automaton.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use unskew_automata::{
    Dfa, RegexError, StateId,
    dfa::{Explored, strata},
};
use unskew_grammar::{ExprId, GrammarError};
use unskew_trie::ByteSet;

use super::Lowering;
use crate::{
    looks::Condition,
    syntax::{options::GrammarOptions, text::error::excerpt, tree::NodeId},
};

/// The terminals that may be ignored.
#[derive(Debug)]
pub(crate) struct Ignored {
    /// The alternatives.
    pub(crate) nodes: Vec<NodeId>,
    /// The directive that names them, for reports.
    pub(crate) directive: &'static str,
    /// Whether an ignored text ends only where it could not be longer.
    pub(crate) longest: bool,
    /// Whether they stand after terminals alone, and not before the first one too.
    pub(crate) only_after: bool,
    pub(crate) options: GrammarOptions,
}

impl Ignored {
    /// None yet.
    pub(crate) fn new(directive: &'static str, options: &GrammarOptions) -> Self {
        Self { nodes: vec![], directive, longest: false, only_after: false, options: options.clone() }
    }
}

impl Lowering<'_, '_> {
    /// Any number of ignored terminals, within the options, as one terminal. `newline` is one of them between brackets.
    pub(super) fn ignored(
        &mut self,
        ignored: &Ignored,
        newline: Option<Arc<Dfa>>,
    ) -> Result<Option<ExprId>, GrammarError> {
        let body = self.newline.as_ref().map(|(definition, _)| self.tree.definitions[*definition].body);
        let first = ignored.nodes.first().copied().or(newline.as_ref().and(body));
        let Some(first) = first else { return Ok(None) };
        let GrammarOptions { max_ignored, max_ignored_chars, .. } = ignored.options;
        let is_outside = newline.is_none();
        let mut terminals: Vec<Arc<Dfa>> = newline.into_iter().collect();
        // Terminals with conditions on the text around them are no part of an automaton.
        let mut conditional: Vec<ExprId> = vec![];
        for node in &ignored.nodes {
            let value = self.regulars.node(*node)?;
            match self.conditional(*node, &excerpt(self.text, self.tree.place(*node)), &value)? {
                Some(made) => conditional.push(made),
                None => terminals.push(self.regulars.automaton(*node, value)?),
            }
        }
        if max_ignored == Some(0) || max_ignored_chars == Some(0) {
            return Ok(None);
        }
        if !conditional.is_empty() && max_ignored_chars.is_some() {
            let construct =
                "a bound on ignored characters beside look-around in ignored terminals".to_owned();
            let way_out = "bound the number of ignored terminals";
            return Err(self.regulars.unsupported(first, construct, way_out));
        }
        if terminals.is_empty() {
            let run = self.builder.choice(conditional);
            return Ok(Some(self.builder.repeat(run, 0, max_ignored)));
        }
        let any = self.regulars.builder.union(terminals.iter().map(|terminal| &**terminal));
        let any = self.regulars.make(first, any)?;
        let any = self.regulars.automaton(first, any)?;
        if !conditional.is_empty() {
            let any = self.builder.shared_automaton("%ignore", &any);
            let run = self.builder.choice(conditional.into_iter().chain([any]));
            return Ok(Some(self.builder.repeat(run, 0, max_ignored)));
        }
        if self.source.longest {
            // The first time it is not known what may follow. Within a run the longest counts all the same.
            let follow = self.follow.unwrap_or_default();
            return Ok(Some(self.longest(first, &any, &follow)?));
        }
        let run = self
            .regulars
            .builder
            .repetition(&any, 1, max_ignored)
            .map_err(|error| self.regulars.error(first, error))?;
        // Without one every ignored text is longer.
        let Some(run) = self.short(first, run, max_ignored_chars)? else { return Ok(None) };
        let run = self.builder.shared_automaton("%ignore", &run);
        if is_outside {
            self.builder.ignore(run);
        }
        Ok(Some(self.builder.optional(run)))
    }

    /// Any number of texts of `any`, each as long as possible, or none, as `most` and `most_chars` bound them.
    ///
    /// The longest is the longest text of `any` from the same place on. Where a text ends that could go on, the text
    /// after it owes something: no beginning of it may make a longer text. What a run still owes at its end is a
    /// condition on the text after the run, unless nothing that may follow (`follow`) begins so.
    fn longest(&mut self, node: NodeId, any: &Dfa, follow: &ByteSet) -> Result<ExprId, GrammarError> {
        let GrammarOptions { max_ignored: most, max_ignored_chars: most_chars, .. } = self.source.options;
        let bytes = strata([any]);
        let next = |state: &StateId| any.edges(*state).flat_map(|edge| edge.bytes);
        // What may follow, by state of the run; `None` where it does not end.
        let mut ends: Vec<Option<Owed>> = vec![];
        let mut extending = ByteSet::default();
        let mut run: Explored<BTreeSet<Place>> = Explored::new(BTreeSet::from([(0, None, vec![])]));
        while let Some(places) = run.next_state() {
            let is_begun = !ends.is_empty();
            let between = places.iter().filter(|(_, within, _)| within.is_none() && is_begun);
            let owed: Owed = between
                .map(|(.., owed)| {
                    owed.iter().flat_map(next).for_each(|byte| extending.insert(byte));
                    let may_go_on = |state: &StateId| next(state).any(|byte| follow.contains(byte));
                    owed.iter().copied().filter(may_go_on).collect()
                })
                .collect();
            ends.push((!owed.is_empty()).then_some(owed));
            for range in &bytes {
                let next = self.stepped(any, &places, *range.start(), most);
                if next.is_empty() {
                    continue;
                }
                let limit = self.limits.regex.dfa_states;
                if next.len() > MOST_PLACES || run.len() > limit {
                    return Err(self.regulars.error(node, RegexError::too_many_dfa_states(limit)));
                }
                run.edge(range.clone(), next);
            }
        }
        self.extending = Some(extending);
        let mut classes: BTreeMap<&Owed, HashSet<usize>> = BTreeMap::new();
        for (state, owed) in ends.iter().enumerate() {
            if let Some(owed) = owed {
                classes.entry(owed).or_default().insert(state);
            }
        }
        // Where something may be owed and nothing is, nothing is.
        let mut found: Vec<(Option<Dfa>, HashSet<usize>)> = vec![];
        for (owed, states) in classes {
            let condition = match owed.contains(&vec![]) {
                true => None,
                false => Some(self.unless(node, any, owed)?),
            };
            match found.iter_mut().find(|(known, _)| *known == condition) {
                Some((_, known)) => known.extend(states),
                None => found.push((condition, states)),
            }
        }
        let is_one = matches!(&found[..], [(None, _)]);
        let mut ways = vec![self.builder.empty()];
        for (condition, states) in found {
            let made = run.graph().automaton(|state| states.contains(&state), &self.limits.regex);
            let made = made.map_err(|source| self.regulars.error(node, source))?;
            let Some(text) = self.short(node, made, most_chars)? else { continue };
            let made = self.builder.shared_automaton(self.source.directive, &text);
            ways.push(made);
            if is_one {
                self.builder.ignore(made);
                return Ok(self.builder.optional(made));
            }
            if let Some(after) = condition {
                let after = Some(Arc::new(after));
                self.looks.insert(made, Condition { before: None, after, at: self.tree.place(node) });
            }
        }
        Ok(self.builder.choice(ways))
    }

    /// The places of a run after a byte.
    fn stepped(&self, any: &Dfa, places: &BTreeSet<Place>, byte: u8, most: Option<u32>) -> BTreeSet<Place> {
        let mut next = BTreeSet::new();
        for (count, within, owed) in places {
            let mut owed: Vec<StateId> = owed.iter().filter_map(|state| any.step(*state, byte)).collect();
            if owed.iter().any(|state| any.is_accepting(*state)) {
                continue;
            }
            // The number counts where there is a bound.
            let count = match (within, most) {
                (None, Some(most)) if *count >= most => continue,
                (None, Some(_)) => count + 1,
                _ => *count,
            };
            let Some(state) = any.step(within.unwrap_or(any.start()), byte) else { continue };
            next.insert((count, Some(state), owed.clone()));
            if any.is_accepting(state) {
                if any.edges(state).next().is_some() {
                    owed.push(state);
                    owed.sort_unstable();
                    owed.dedup();
                }
                next.insert((count, None, owed));
            }
        }
        next
    }

    /// The texts of `run` of at most so many characters; `None` if there are none.
    fn short(&mut self, node: NodeId, run: Dfa, most: Option<u32>) -> Result<Option<Arc<Dfa>>, GrammarError> {
        let made = self.regulars.make(node, Ok(run))?;
        let run = self.regulars.automaton(node, made)?;
        let Some(most) = most else { return Ok(Some(run)) };
        let short = self.regulars.pattern(node, &format!("(?s).{{0,{most}}}"))?;
        let short = self.regulars.automaton(node, short)?;
        match self.regulars.builder.intersection(&run, &short) {
            Err(RegexError::MatchesNothing) => Ok(None),
            cut => {
                let cut = self.regulars.make(node, cut)?;
                Ok(Some(self.regulars.automaton(node, cut)?))
            }
        }
    }

    /// All texts of which no beginning makes a longer text, where one of these is owed.
    fn unless(&self, node: NodeId, any: &Dfa, owed: &Owed) -> Result<Dfa, GrammarError> {
        let step = |owed: &Owed, byte: u8| {
            let after = |way: &Vec<StateId>| way.iter().filter_map(|state| any.step(*state, byte)).collect();
            let mut next: Owed = owed.iter().map(after).collect();
            next.retain(|way: &Vec<StateId>| !way.iter().any(|state| any.is_accepting(*state)));
            // Where a way owes nothing any text may follow.
            if next.contains(&vec![]) {
                next = Owed::from([vec![]]);
            }
            (!next.is_empty()).then_some(next)
        };
        let made = Dfa::explored(&strata([any]), owed.clone(), step, |_| true, &self.limits.regex);
        made.map_err(|source| self.regulars.error(node, source))
    }
}

/// The most ways to divide a text into ignored ones that are followed.
const MOST_PLACES: usize = 256;

/// A place in a run: how many texts have begun, where in a text it is (`None` between two), and the states of texts
/// that have ended and must not go on.
type Place = (u32, Option<StateId>, Vec<StateId>);

/// For each way to divide a run, the states of texts that have ended and must not go on.
type Owed = BTreeSet<Vec<StateId>>;
