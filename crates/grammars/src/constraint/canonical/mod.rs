//! Canonical sequences of a grammar: `encode(decode(ids)) = ids`, and the text is a word of the grammar.
//!
//! The engine is that of regular constraints ([`CanonicalEngine`]); its automaton is the parser
//! ([`language`]).
//!
//! | file | contents |
//! |---|---|
//! | `facts` | what is known of terminals and rules before any text |
//! | `language` | configurations of the parser as the states of an automaton |
//! | `rests` | what comes after a state of the parser |
//! | `tokens` | the tokens of a state, and those that are certain by their terminals |
//!
//! # Tokens by id
//!
//! A token that a grammar names, and does not spell, is written as itself wherever the grammar has it. The text
//! before it ends there, and another begins after it, as the tokenizer reads control tokens. So each text between
//! two such tokens is canonical by itself.

mod facts;
mod language;
mod rests;
mod tokens;

use std::{fmt, sync::Arc};

use hashbrown::HashSet;
use smallvec::SmallVec;
use unskew_automata::{
    Limits,
    canonical::{CanonicalEngine, CanonicalError, CanonicalIndex, CanonicalScratch, CanonicalState},
};
use unskew_core::{Constraint, MaskMut, MaskRef, Reach, Rejected, TokenId, TokenMask, hashed_key};

use self::{
    facts::GrammarFacts,
    language::{Found, GrammarLanguage, configuration_of, state_of},
};
use super::{GrammarConstraint, GrammarScratch, GrammarState, state::ConfigurationPair, steps::MASK_STEPS};

/// The canonical token sequences of a [`GrammarConstraint`].
///
/// Exact for the tokenizers of [`TokenizerAutomaton`](unskew_automata::canonical::TokenizerAutomaton). A token that
/// the grammar names by its id is written as such, and each text between two such tokens is encoded by itself.
pub struct CanonicalGrammar {
    grammar: GrammarConstraint,
    facts: GrammarFacts,
    engine: CanonicalEngine,
    limits: Limits,
    start: CanonicalGrammarState,
}

/// The state of a sequence.
#[derive(Clone)]
pub struct CanonicalGrammarState {
    /// Mostly one: a token that is read by its text, and by its id too, leads to two.
    readings: SmallVec<[Reading; 1]>,
    is_accepting: bool,
}

/// One way to read the tokens so far.
#[derive(Clone)]
struct Reading {
    grammar: GrammarState,
    /// Its automaton's state has the number of the configuration in the scratch that made it.
    canonical: CanonicalState,
}

/// The tables of one thread.
pub struct CanonicalGrammarScratch {
    grammar: GrammarScratch,
    found: Found,
    canonical: CanonicalScratch,
    /// The keys of readings of which a mask takes too many steps.
    beyond: HashSet<u64>,
    /// The stamp of the grammar's scratch when the others were begun.
    stamp: u64,
}

impl CanonicalGrammar {
    /// The canonical sequences of `grammar`, over the vocabulary of `index`, which is that of the grammar.
    ///
    /// Cost: O(n) for n positions of rules, and for each automaton of a terminal that no other grammar over `index`
    /// has had, O(states and classes).
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NotUtf8`], [`CanonicalError::ControlToken`], and [`CanonicalError::NothingCanonical`] if no
    /// sequence is left.
    pub fn new(
        grammar: GrammarConstraint,
        index: &Arc<CanonicalIndex>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        let facts = GrammarFacts::new(&grammar.compiled, index)?;
        let (mut scratch, mut found) = (grammar.scratch(), Found::default());
        let language = GrammarLanguage::new(&grammar, &facts, index, &mut scratch, &mut found);
        let engine = CanonicalEngine::new(&language, index, limits.lazy_bytes);
        let mut canonical = CanonicalScratch::new(limits.mask_cache_bytes);
        let has_any = engine.check_any(&language, &mut canonical.memo);
        let state = engine.start(&language);
        let is_accepting = engine.is_accepting(&language, &state);
        if !language.end() {
            has_any?;
        }
        let reading = Reading { grammar: grammar.start(), canonical: state };
        let start = CanonicalGrammarState { readings: SmallVec::from_iter([reading]), is_accepting };
        Ok(Self { grammar, facts, engine, limits: limits.clone(), start })
    }

    /// The grammar without the demand for canonical sequences.
    pub fn grammar(&self) -> &GrammarConstraint {
        &self.grammar
    }

    /// The memory in bytes, without vocabulary, trie, library and index.
    pub fn memory_usage(&self) -> usize {
        self.grammar.memory_usage()
            + self.facts.memory_usage()
            + self.engine.memory_usage()
            + size_of::<Self>()
    }

    /// Asks the engine about each reading of `state`, in the numbers of `scratch`. Answers false if a question took
    /// too many steps; what was found is then forgotten.
    fn each_reading(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
        mut ask: impl FnMut(&GrammarLanguage<'_>, &mut CanonicalScratch, &CanonicalState) -> bool,
    ) -> bool {
        state.readings.iter().all(|reading| {
            let (at, canonical) = self.at(scratch, reading);
            if self.grammar.beyond(&scratch.grammar, at).is_some() || self.is_beyond(scratch, reading) {
                return false;
            }
            let CanonicalGrammarScratch { grammar, found, canonical: tables, .. } = scratch;
            let language =
                GrammarLanguage::new(&self.grammar, &self.facts, self.engine.index(), grammar, found);
            let is_within = ask(&language, tables, &canonical);
            let is_within = !language.end() && is_within;
            if !is_within {
                scratch.forget(&self.limits);
                let key = self.key(scratch, reading);
                scratch.beyond.extend(key);
            }
            is_within
        })
    }

    /// Whether a mask of the reading took too many steps in this scratch.
    fn is_beyond(&self, scratch: &mut CanonicalGrammarScratch, reading: &Reading) -> bool {
        !scratch.beyond.is_empty()
            && self.key(scratch, reading).is_some_and(|key| scratch.beyond.contains(&key))
    }

    /// A hash of a reading that is the same in each scratch.
    fn key(&self, scratch: &mut CanonicalGrammarScratch, reading: &Reading) -> Option<u64> {
        let grammar = self.grammar.state_key(&mut scratch.grammar, &reading.grammar)?;
        // Numbers of configurations differ from scratch to scratch.
        let canonical = reading.canonical.renumbered(state_of(crate::ids::Id::of(0)));
        Some(hashed_key(&(grammar, canonical)))
    }

    /// The configurations of a reading in `scratch`, and its canonical state in the numbers of `scratch`.
    fn at(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        reading: &Reading,
    ) -> (ConfigurationPair, CanonicalState) {
        let at = self.grammar.at(&mut scratch.grammar, &reading.grammar);
        if scratch.stamp != scratch.grammar.stamp {
            scratch.forget(&self.limits);
            scratch.stamp = scratch.grammar.stamp;
        }
        (at, reading.canonical.renumbered(state_of(at.of_text())))
    }
}

impl CanonicalGrammarScratch {
    fn forget(&mut self, limits: &Limits) {
        self.found = Found::default();
        self.canonical = CanonicalScratch::new(limits.mask_cache_bytes);
    }

    /// The memory of the tables, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.grammar.memory_usage() + self.found.memory_usage() + self.canonical.memory_usage()
    }
}

impl Constraint for CanonicalGrammar {
    type State = CanonicalGrammarState;
    type Scratch = CanonicalGrammarScratch;

    fn vocab_len(&self) -> usize {
        self.grammar.vocab_len()
    }

    fn start(&self) -> CanonicalGrammarState {
        self.start.clone()
    }

    fn scratch(&self) -> CanonicalGrammarScratch {
        let grammar = self.grammar.scratch();
        let stamp = grammar.stamp;
        let canonical = CanonicalScratch::new(self.limits.mask_cache_bytes);
        CanonicalGrammarScratch { grammar, found: Found::default(), canonical, beyond: HashSet::new(), stamp }
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is known.
    fn advance(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &mut CanonicalGrammarState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let mut readings: SmallVec<[Reading; 1]> = SmallVec::new();
        let mut is_accepting = false;
        let mut refused = Rejected::new(token);
        for reading in &state.readings {
            let (at, mut next) = self.at(scratch, reading);
            if let Some(limit) = self.grammar.beyond(&scratch.grammar, at) {
                refused = Rejected::beyond(token, limit);
                continue;
            }
            if self.is_beyond(scratch, reading) {
                refused = Rejected::beyond(token, MASK_STEPS);
                continue;
            }
            let CanonicalGrammarScratch { grammar, found, canonical, .. } = &mut *scratch;
            let language =
                GrammarLanguage::new(&self.grammar, &self.facts, self.engine.index(), grammar, found);
            let read = self.engine.advance(&language, &mut canonical.memo, &mut next, token);
            let accepts = read.is_ok() && self.engine.is_accepting(&language, &next);
            if language.end() || read.is_err_and(|error| error.limit.is_some()) {
                scratch.forget(&self.limits);
                refused = Rejected::beyond(token, MASK_STEPS);
                continue;
            }
            let mut after = reading.grammar.clone();
            if read.is_err() || self.grammar.advance_at(&mut scratch.grammar, at, &mut after, token).is_err()
            {
                continue;
            }
            for (number, canonical) in next.by_number() {
                // The token was read by its text, by its id, or in both ways.
                let grammar = match configuration_of(number) {
                    own if own == after.at.of_text() => after.clone(),
                    own => self.grammar.state_of(&mut scratch.grammar, own),
                };
                readings.push(Reading { grammar, canonical });
            }
            is_accepting |= accepts;
        }
        if readings.is_empty() {
            return Err(refused);
        }
        *state = CanonicalGrammarState { readings, is_accepting };
        Ok(())
    }

    fn is_accepting(&self, state: &CanonicalGrammarState) -> bool {
        state.is_accepting
    }

    /// O(v) for v ids if the mask is in `scratch`.
    fn fill_mask(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
        mut mask: MaskMut<'_>,
    ) {
        mask.clear();
        let mut own = (state.readings.len() > 1).then(|| TokenMask::new(self.vocab_len()));
        let is_within = self.each_reading(scratch, state, |language, scratch, canonical| match &mut own {
            None => self.engine.fill_cached(language, scratch, canonical, mask.reborrow()),
            Some(own) => {
                let is_within = self.engine.fill_cached(language, scratch, canonical, own.as_mut());
                mask.union(TokenMask::as_ref(own));
                is_within
            }
        });
        if !is_within {
            mask.clear();
        }
    }

    fn ready_mask<'a>(
        &'a self,
        scratch: &'a CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
    ) -> Option<MaskRef<'a>> {
        let [reading] = &state.readings[..] else { return None };
        let is_known =
            reading.grammar.stamp == scratch.grammar.stamp && scratch.stamp == scratch.grammar.stamp;
        scratch.canonical.ready_mask(&reading.canonical, self.vocab_len()).filter(|_| is_known)
    }

    /// Reads the token's bytes; no mask is made.
    fn allows(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
        token: TokenId,
    ) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    /// A hash of the grammar's state and of where the text stands in its piece.
    fn state_key(&self, scratch: &mut CanonicalGrammarScratch, state: &CanonicalGrammarState) -> Option<u64> {
        state.readings.iter().try_fold(0, |key, reading| Some(key ^ self.key(scratch, reading)?))
    }

    fn reach(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
        text: &[u8],
    ) -> Option<Reach> {
        let [reading] = &state.readings[..] else { return None };
        self.grammar.reach(&mut scratch.grammar, &reading.grammar, text)
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.grammar.may_end_with(byte)
    }

    fn forced(
        &self,
        scratch: &mut CanonicalGrammarScratch,
        state: &CanonicalGrammarState,
    ) -> Option<TokenId> {
        if state.is_accepting || state.readings.len() > 1 {
            return None;
        }
        let mut forced = None;
        self.each_reading(scratch, state, |language, scratch, canonical| {
            forced = self.engine.only(language, scratch, canonical);
            true
        });
        forced
    }
}

impl fmt::Debug for CanonicalGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalGrammar").field("grammar", &self.grammar).finish_non_exhaustive()
    }
}

impl fmt::Debug for CanonicalGrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalGrammarState")
            .field("readings", &self.readings.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CanonicalGrammarScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalGrammarScratch").field("grammar", &self.grammar).finish_non_exhaustive()
    }
}
