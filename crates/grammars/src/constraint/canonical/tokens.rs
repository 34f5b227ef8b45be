//! The tokens of a state: those of the grammar's own mask, and those of them that are certain by their terminals.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::canonical::TextPart;
use unskew_core::{TokenId, TokenMask};
use unskew_grammar::{
    CountedUnits,
    kit::terminal::{ScanState, counted::FREE, reading::Scan},
};

use super::{
    super::GrammarScratch,
    facts::{CountedFacts, TerminalFacts, Ways},
    language::{At, Found, GrammarLanguage, Parts, configurations},
};
use crate::{network::terminals::ScanTerminal, parser::configurations::Configuration};

impl<'a> GrammarLanguage<'a> {
    /// The tokens of text in the grammar's own mask.
    pub(super) fn readable(
        &self,
        scratch: &mut GrammarScratch,
        found: &mut Found,
        configuration: Configuration,
    ) -> TokenMask {
        let constraint = self.constraint;
        let at = constraint.pair_of(scratch, configuration);
        constraint.make_mask(scratch, at.for_mask);
        let mut mask = TokenMask::new(constraint.vocabulary.len());
        let made = &scratch.masks[&at.for_mask];
        found.is_beyond |= made.is_beyond;
        made.union.write(mask.as_mut());
        if let Some(removed) = constraint.removed(scratch, at) {
            removed.iter().for_each(|token| mask.as_mut().remove(*token));
        }
        mask
    }

    /// The tokens that are certain by the terminals alone.
    pub(super) fn parts(
        &self,
        scratch: &mut GrammarScratch,
        found: &mut Found,
        At { configuration, is_erased }: At,
    ) -> Parts {
        let (compiled, configurations) = (self.compiled(), configurations(scratch, is_erased));
        let Found { parsers, counted, .. } = found;
        let found = &mut parsers[usize::from(is_erased)];
        let terminals = &compiled.terminals;
        let mut parts = Parts::new();
        for at in 0..configurations.hypotheses(configuration).len() {
            let hypothesis = configurations.hypotheses(configuration)[at];
            if let Some(state) = configurations.after(compiled, hypothesis) {
                for (terminal, rest) in self.followers(configurations, state) {
                    let rest = self.rest_of(configurations, found, rest);
                    if let Some(scan) = self.certain_scan(terminal, rest) {
                        self.add_parts(&mut parts, counted, (terminal, scan, scan.start()));
                    }
                }
            }
            let Some(terminal) = hypothesis.terminal.filter(|terminal| !terminals.is_literal(*terminal))
            else {
                continue;
            };
            let Some((rest, state)) = self.inside(configurations, hypothesis) else { continue };
            let rest = self.rest_of(configurations, found, rest);
            if let Some(scan) = self.certain_scan(terminal, rest) {
                self.add_parts(&mut parts, counted, (terminal, scan, state));
            }
        }
        parts
    }

    /// How `terminal` is scanned, if it is text that may come before `rest` whatever its last byte is.
    pub(super) fn certain_scan(&self, terminal: ScanTerminal, rest: Ways) -> Option<Scan<'a>> {
        match self.facts.of(terminal) {
            TerminalFacts::Text(_, ends_calm) | TerminalFacts::Counted(_, ends_calm, _)
                if Ways::leads(*ends_calm, rest) =>
            {
                self.compiled().terminals.scan(terminal)
            }
            _ => None,
        }
    }

    /// Adds the certain tokens of a terminal in a state.
    fn add_parts(
        &self,
        parts: &mut Parts,
        counted: &mut HashMap<(ScanTerminal, ScanState), Parts>,
        (terminal, scan, state): (ScanTerminal, Scan<'_>, ScanState),
    ) {
        match self.facts.of(terminal) {
            TerminalFacts::Text(part, _) => parts.push(self.index.part_tokens(part, scan.at(state))),
            TerminalFacts::Counted(part, _, facts) if facts.is_as_uncounted => {
                let Some(count) = scan.count else { return };
                let known = counted.entry((terminal, state));
                let known = known.or_insert_with(|| self.counted(part, facts, count, state));
                parts.extend(known.iter().cloned());
            }
            _ => {}
        }
    }

    /// The certain tokens of a terminal with a count: those that leave room for more, and, where too few units were
    /// read, those after which there are still too few.
    fn counted(
        &self,
        part: &TextPart,
        facts: &CountedFacts,
        count: &CountedUnits,
        state: ScanState,
    ) -> Parts {
        let at = count.at(state);
        let tokens = self.index.part_tokens(part, at);
        // A byte after the token may end one unit more, and need as many as any state does.
        let more = 1 + count.units().greatest();
        let longest = u32::try_from(self.constraint.trie.longest()).unwrap_or(u32::MAX);
        let bounds = count.left(state, longest.saturating_add(more));
        if bounds == FREE {
            return Parts::from_iter([tokens]);
        }
        let (min, max) = bounds;
        let ended = |token: TokenId| {
            let text = self.constraint.vocabulary.text(token).unwrap_or_default();
            let (ended, fewest) = count.units().ended(at, text);
            let most = ended.saturating_add(fewest).saturating_add(more);
            Some(ended).filter(|_| max.is_none_or(|max| most <= max))
        };
        let enough = tokens.filtered(|token| ended(token).is_some_and(|ended| ended >= min));
        let mut parts = Parts::from_iter([Arc::new(enough)]);
        if let Some(early) = facts.early.as_ref().filter(|_| min > 0) {
            // Of these none ends the text.
            let tokens = self.index.part_tokens(early, at);
            let is_open = |token: TokenId| {
                let text = self.constraint.vocabulary.text(token).unwrap_or_default();
                let after = count.dfa().run(at, text);
                after.is_some_and(|after| !count.is_last(after))
            };
            let few =
                tokens.filtered(|token| ended(token).is_some_and(|ended| ended < min) && is_open(token));
            parts.push(Arc::new(few));
        }
        parts
    }
}
