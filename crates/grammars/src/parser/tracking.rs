//! Hypotheses of keys, where used keys are [tracked](crate::unique::keys).
//!
//! The progress of such a hypothesis is the prefix of the key, kept once, and its parser state is the one before the
//! key. When the key ends, its pending items lose those whose sets have the key already. Where few keys are left, a
//! prefix that only used keys complete is dropped, so that there is no dead end.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_grammar::kit::terminal::remaining::MANY;
use unskew_trie::ByteSet;

use super::{
    configurations::{Compiled, Configurations},
    hypotheses::{Hypothesis, Progress},
    states::{ParserState, Pending, Target},
};
use crate::{
    network::terminals::ScanTerminal,
    unique::{
        key_effects::{KeyEffects, KeyTables},
        keys::{KeyPrefix, KeySet, KeyTexts},
    },
};

#[derive(Debug, Default)]
pub(super) struct Tracked {
    texts: KeyTexts,
    effects: KeyEffects,
    /// By pending items: the bytes with which the rest may begin.
    first_bytes: HashMap<Pending, ByteSet>,
}

impl Tracked {
    pub(super) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 80;
        self.texts.memory_usage() + self.effects.memory_usage() + self.first_bytes.len() * ENTRY
    }
}

impl Configurations {
    /// The keys that are tracked.
    pub(crate) fn texts(&self) -> Option<&KeyTexts> {
        self.tracked.as_ref().map(|tracked| &tracked.texts)
    }

    /// The same, to add to.
    pub(crate) fn texts_mut(&mut self) -> Option<&mut KeyTexts> {
        self.tracked.as_mut().map(|tracked| &mut tracked.texts)
    }

    /// The effects of used keys, and the tables that they are computed from.
    pub(crate) fn key_effects<'a>(
        &'a mut self,
        compiled: &'a Compiled,
    ) -> Option<(KeyTables<'a>, &'a mut KeyEffects)> {
        let Tracked { texts, effects, .. } = self.tracked.as_mut()?;
        Some((KeyTables { terminals: &compiled.terminals, texts, sets: &self.parser.key_sets }, effects))
    }

    /// How many used keys were looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.parser.key_sets.looks + self.tracked.as_ref().map_or(0, |tracked| tracked.effects.looks)
    }

    /// The target of the edge of `terminal` from a parser state.
    pub(crate) fn target(
        &mut self,
        compiled: &Compiled,
        state: ParserState,
        terminal: ScanTerminal,
    ) -> Option<Target> {
        let followers = self.parser.followers(state, &compiled.rules);
        let edges = self.parser.edges(followers);
        let found = edges.binary_search_by_key(&terminal, |(terminal, _)| *terminal).ok()?;
        Some(edges[found].1)
    }

    /// The pending items after a key of `terminal` that began in a parser state.
    pub(crate) fn pending(
        &mut self,
        compiled: &Compiled,
        state: ParserState,
        terminal: ScanTerminal,
    ) -> Option<Pending> {
        self.target(compiled, state, terminal)?.pending()
    }

    /// Whether texts of `terminal` are tracked here.
    #[inline]
    pub(super) fn tracks(&self, compiled: &Compiled, terminal: ScanTerminal) -> bool {
        self.tracked.is_some() && compiled.terminals.is_distinct(terminal)
    }

    /// The number of `bytes` that the tracked key of `hypothesis` reads without reaching an end, and the progress
    /// after them. Where few keys are left, none: each byte is looked at.
    pub(super) fn read_key(
        &mut self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        hypothesis: Hypothesis,
        bytes: &[u8],
    ) -> (Progress, usize) {
        let progress = hypothesis.progress;
        let terminals = &compiled.terminals;
        let Some(Tracked { texts, .. }) = &mut self.tracked else { return (progress, 0) };
        let mut prefix = progress.prefix();
        let is_scarce = terminals.remaining(terminal).is_some_and(|(_, remaining)| remaining.is_scarce);
        if is_scarce || terminals.is_accepting(terminal, texts.state(prefix)) {
            return (progress, 0);
        }
        for (len, byte) in bytes.iter().enumerate() {
            match texts.step(terminals, prefix, *byte) {
                Some(next) if !terminals.is_accepting(terminal, texts.state(next)) => prefix = next,
                _ => return (Progress::of_key(prefix), len),
            }
        }
        (Progress::of_key(prefix), bytes.len())
    }

    /// Adds the hypothesis of a tracked key after one byte more.
    pub(super) fn step_key(
        &mut self,
        compiled: &Compiled,
        after: &mut Vec<Hypothesis>,
        terminal: ScanTerminal,
        hypothesis: Hypothesis,
        byte: u8,
    ) {
        let Some(Tracked { texts, .. }) = &mut self.tracked else { return };
        let next = texts.step(&compiled.terminals, hypothesis.progress.prefix(), byte);
        if let Some(prefix) = next {
            self.add_prefix(compiled, after, (terminal, prefix), hypothesis.parser_state);
        }
    }

    /// Adds the hypothesis of a tracked key of `terminal` that begins with `byte` in a parser state.
    pub(super) fn begin_key(
        &mut self,
        compiled: &Compiled,
        after: &mut Vec<Hypothesis>,
        terminal: ScanTerminal,
        state: ParserState,
        byte: u8,
    ) {
        let Some(Tracked { texts, .. }) = &mut self.tracked else { return };
        if let Some(prefix) = texts.first(&compiled.terminals, terminal, byte) {
            self.add_prefix(compiled, after, (terminal, prefix), state);
        }
    }

    /// Adds the hypothesis of the prefix of a key of `terminal` that began in a parser state, if an unused key begins
    /// with the prefix.
    fn add_prefix(
        &mut self,
        compiled: &Compiled,
        after: &mut Vec<Hypothesis>,
        (terminal, prefix): (ScanTerminal, KeyPrefix),
        state: ParserState,
    ) {
        let terminals = &compiled.terminals;
        let Some(Tracked { texts, .. }) = &mut self.tracked else { return };
        if terminals.is_final(terminal, texts.state(prefix)) {
            let key = texts.whole(prefix);
            let Some(pending) = self.pending(compiled, state, terminal) else { return };
            if let Some(state) = self.parser.after_key(pending, key, &compiled.rules) {
                after.push(Hypothesis::boundary(state));
            }
        } else if self.goes_on(compiled, (terminal, prefix), state) {
            let progress = Progress::of_key(prefix);
            after.push(Hypothesis { terminal: Some(terminal), progress, parser_state: state });
        }
    }

    /// Whether an unused key begins with `prefix`. It always does but where few keys are left.
    fn goes_on(
        &mut self,
        compiled: &Compiled,
        (terminal, prefix): (ScanTerminal, KeyPrefix),
        state: ParserState,
    ) -> bool {
        let Some((difference, remaining)) = compiled.terminals.remaining(terminal) else { return true };
        if !remaining.is_scarce {
            return true;
        }
        let Some(texts) = self.texts() else { return true };
        if remaining.of(difference.state(texts.state(prefix))) == MANY {
            return true;
        }
        let Some(pending) = self.pending(compiled, state, terminal) else { return false };
        let sets: SmallVec<[KeySet; 4]> = self.parser.keys_before(pending).collect();
        let Some((mut tables, effects)) = self.key_effects(compiled) else { return true };
        sets.into_iter().any(|set| !effects.is_exhausted(&mut tables, terminal, set, prefix))
    }

    /// The parser state after a tracked key, if it may end here.
    pub(super) fn after_key(
        &mut self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        hypothesis: Hypothesis,
    ) -> Option<ParserState> {
        let Hypothesis { progress, parser_state, .. } = hypothesis;
        let Tracked { texts, .. } = self.tracked.as_mut()?;
        if !compiled.terminals.is_accepting(terminal, texts.state(progress.prefix())) {
            return None;
        }
        let key = texts.whole(progress.prefix());
        let pending = self.pending(compiled, parser_state, terminal)?;
        self.parser.after_key(pending, key, &compiled.rules)
    }

    /// Whether a tracked key may end here, and the rest begin with `byte`; true for all other terminals. Tokens
    /// extend thousands of keys, and this keeps those keys out of the sets.
    pub(super) fn may_begin_after(&mut self, compiled: &Compiled, hypothesis: Hypothesis, byte: u8) -> bool {
        let Hypothesis { terminal, progress, parser_state } = hypothesis;
        let Some(terminal) = terminal.filter(|terminal| self.tracks(compiled, *terminal)) else {
            return true;
        };
        let Some(texts) = self.texts() else { return true };
        if !compiled.terminals.is_accepting(terminal, texts.state(progress.prefix())) {
            return false;
        }
        let Some(pending) = self.pending(compiled, parser_state, terminal) else { return false };
        if let Some(bytes) = self.tracked.as_ref().and_then(|tracked| tracked.first_bytes.get(&pending)) {
            return bytes.contains(byte);
        }
        let state = self.parser.after_any_key(pending, &compiled.rules);
        let bytes = self.first_bytes(compiled, state);
        if let Some(tracked) = &mut self.tracked {
            tracked.first_bytes.insert(pending, bytes);
        }
        bytes.contains(byte)
    }
}
