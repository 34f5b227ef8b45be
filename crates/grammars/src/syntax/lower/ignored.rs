//! The ignored text between terminals, as one terminal.
//!
//! A run of ignored terminals is one automaton, so that a place between two terminals costs one optional terminal and
//! no rule. Only ignored terminals with look-around are a repetition, since conditions on the text around are no part
//! of an automaton.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use unskew_automata::{Dfa, DfaBuilder, StateId};

use super::Lowering;
use crate::syntax::{options::GrammarOptions, text::error::excerpt, tree::NodeId};
use crate::{ExprId, GrammarError, ids::number, looks::Condition};

/// The terminals that may be ignored.
#[derive(Debug)]
pub(crate) struct Ignored {
    /// The alternatives.
    pub(crate) nodes: Vec<NodeId>,
    /// The directive that names them, for reports.
    pub(crate) directive: &'static str,
    /// Whether an ignored text ends only where it cannot continue.
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
        let run = self.regulars.builder.repetition(&any, 1, max_ignored);
        let run = self.regulars.make(first, run)?;
        let mut run = self.regulars.automaton(first, run)?;
        if ignored.longest {
            return Ok(Some(self.longest(first, &run)?));
        }
        if let Some(most) = max_ignored_chars {
            let short = self.regulars.pattern(first, &format!("(?s).{{0,{most}}}"))?;
            let short = self.regulars.automaton(first, short)?;
            match self.regulars.builder.intersection(&run, &short) {
                // Every ignored text is longer.
                Err(unskew_automata::RegexError::MatchesNothing) => return Ok(None),
                cut => {
                    let cut = self.regulars.make(first, cut)?;
                    run = self.regulars.automaton(first, cut)?;
                }
            }
        }
        let run = self.builder.shared_automaton("%ignore", &run);
        if is_outside {
            self.builder.ignore(run);
        }
        Ok(Some(self.builder.optional(run)))
    }

    /// The texts of `run`, or none. One ends only before a byte that it cannot have next, or that begins a text of
    /// `run`: a comment ends where its line does. In the second case no terminal follows but one that begins so too.
    fn longest(&mut self, node: NodeId, run: &Dfa) -> Result<ExprId, GrammarError> {
        let bytes = |state| -> BTreeSet<u8> { run.edges(state).flat_map(|edge| edge.bytes).collect() };
        let first = bytes(run.start());
        let mut ends: BTreeMap<BTreeSet<u8>, HashSet<StateId>> = BTreeMap::new();
        for state in run.states().filter(|state| run.is_accepting(*state)) {
            let next = Some(bytes(state)).filter(|next| !next.is_subset(&first)).unwrap_or_default();
            ends.entry(next).or_default().insert(state);
        }
        let mut ways = vec![self.builder.empty()];
        for (next, ends) in ends {
            let text = Arc::new(self.ending(node, run, &ends)?);
            self.regulars.count(node, text.memory_usage())?;
            let made = self.builder.shared_automaton("@pass", &text);
            ways.push(made);
            if !next.is_empty() {
                let (at, after) = (self.tree.place(node), Some(Arc::new(self.unless(node, &next)?)));
                self.looks.insert(made, Condition { before: None, after, at });
            }
        }
        Ok(self.builder.choice(ways))
    }

    /// The texts of `dfa` that lead to one of `ends`.
    fn ending(&self, node: NodeId, dfa: &Dfa, ends: &HashSet<StateId>) -> Result<Dfa, GrammarError> {
        let error = |source| self.regulars.error(node, source);
        let mut made = DfaBuilder::new(&self.limits.regex);
        for state in dfa.states() {
            made.state(ends.contains(&state)).map_err(error)?;
        }
        for state in dfa.states() {
            for edge in dfa.edges(state) {
                made.edge(number(state.index()), edge.bytes, number(edge.target.index()));
            }
        }
        made.build().map_err(error)
    }

    /// All texts that do not begin with one of these bytes.
    fn unless(&self, node: NodeId, bytes: &BTreeSet<u8>) -> Result<Dfa, GrammarError> {
        let error = |source| self.regulars.error(node, source);
        let mut made = DfaBuilder::new(&self.limits.regex);
        let start = made.state(true).map_err(error)?;
        let any = made.state(true).map_err(error)?;
        made.edge(any, 0..=u8::MAX, any);
        for byte in (0..=u8::MAX).filter(|byte| !bytes.contains(byte)) {
            made.edge(start, byte..=byte, any);
        }
        made.build().map_err(error)
    }
}
