//! The texts of a constraint as the canonical engine reads them: an automaton whose states are made when they are
//! asked for, and all lead to an accepted text.
//!
//! A DFA is one ([`DfaLanguage`]). The engine asks for one state at a time: its steps, its end, and whether ordinary
//! text leads from it to acceptance.

use std::sync::Arc;

use unskew_core::TokenId;
use unskew_trie::ByteSet;

use super::{
    context::{Context, texts_of},
    first_bytes::FirstBytes,
    liveness::distances,
    lookahead::TokensByLookahead,
};
use crate::{
    Dfa, Limits, RegexError, StateId,
    canonical::{
        CanonicalError, NothingCanonical,
        index::{
            CanonicalIndex,
            split_liveness::{Safety, places_of},
        },
    },
    dfa::DfaAlgebra,
};

/// A deterministic automaton over bytes whose states are made when they are asked for. The canonical engine asks
/// nothing else of a constraint.
///
/// Its texts are UTF-8, and from each of its states some text is accepted. One state has one number as long as a
/// [`CanonicalMemo`](super::super::CanonicalMemo) is in use.
pub trait LazyDfa {
    /// The state before the text.
    fn start(&self) -> StateId;

    /// The state after `byte`, if a text goes on so.
    fn step(&self, state: StateId, byte: u8) -> Option<StateId>;

    /// The state after `bytes`.
    #[inline]
    fn run(&self, state: StateId, bytes: &[u8]) -> Option<StateId> {
        bytes.iter().try_fold(state, |state, byte| self.step(state, *byte))
    }

    /// Whether a text may end here.
    fn is_accepting(&self, state: StateId) -> bool;

    /// The class of `byte`: no state tells bytes of one class apart.
    fn class(&self, byte: u8) -> u8;

    /// The bytes of all texts.
    fn bytes(&self) -> ByteSet;

    /// The bytes that may follow.
    fn read(&self, state: StateId) -> ByteSet;

    /// ASCII bytes that lead to a [safe](Safety) state, after any text.
    fn live(&self, state: StateId) -> ByteSet;

    /// Whether ordinary text leads from the state to acceptance.
    fn safety(&self, state: StateId) -> Safety;

    /// About how far a safe state is away. Searches begin with the nearest.
    fn distance(&self, state: StateId) -> u32;

    /// The UTF-8 states in which the state is reached, one bit each.
    fn places(&self, state: StateId) -> u8;

    /// The number of positions that the searches of one question may visit.
    fn most_positions(&self) -> usize;

    /// Whether each completion of a character can be read from `state`, which is inside of one in UTF-8 state
    /// `place`, and ordinary text goes on in another piece after it; `None` if that is to be found step by step.
    fn completes(&self, _: StateId, _place: u8) -> Option<bool> {
        None
    }

    /// Whether a step takes much longer than a look at a table, and the states have no limit.
    fn is_costly(&self) -> bool {
        self.most_positions() < usize::MAX
    }

    /// Whether some state reads tokens by their ids.
    fn has_ids(&self) -> bool {
        false
    }

    /// The tokens that are read by their ids and not by their texts, with the states after them. The text before such
    /// a token ends there, and another text begins after it.
    fn by_id(&self, _: StateId) -> Vec<(TokenId, StateId)> {
        Vec::new()
    }

    /// The tokens of text that are read from `state`, if that is known without a walk over the vocabulary.
    fn tokens(&self, _: StateId) -> Option<TokensByLookahead> {
        None
    }
}

/// A DFA with the facts about its states that the engine asks for.
pub(crate) struct DfaLanguage {
    pub(crate) dfa: Arc<Dfa>,
    /// By state: the UTF-8 states in which it is reached, one bit each. Empty if all bytes are ASCII.
    pub(crate) places: Vec<u8>,
    safety: Vec<Safety>,
    /// By state: the number of bytes to the next safe state. Empty if all states are safe.
    distance: Vec<u32>,
    first_bytes: FirstBytes,
    /// How many states between characters are not safe.
    pub(crate) unknown: usize,
}

impl DfaLanguage {
    /// Texts that are not UTF-8 are left out of `dfa`.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`] if no text is left, and the limits of a DFA.
    pub(crate) fn new(dfa: Dfa, index: &CanonicalIndex, limits: &Limits) -> Result<Self, CanonicalError> {
        let (dfa, places) = match places_of(&dfa) {
            Some(places) => (dfa, places),
            None => {
                let mut algebra = DfaAlgebra::new(limits);
                let all = algebra.pattern("(?s:.*)")?;
                let dfa = algebra.intersection(&dfa, &all).map_err(|error| match error {
                    RegexError::MatchesNothing => {
                        CanonicalError::NothingCanonical { reason: NothingCanonical::Rewritten }
                    }
                    error => error.into(),
                })?;
                let places = places_of(&dfa).expect("its texts are UTF-8");
                (dfa, places)
            }
        };
        Ok(Self::of(Arc::new(dfa), places, index))
    }

    /// The texts of `dfa`, whose states are reached in these UTF-8 states.
    pub(crate) fn of(dfa: Arc<Dfa>, places: Vec<u8>, index: &CanonicalIndex) -> Self {
        let (safety, distance, first_bytes) = (Vec::new(), Vec::new(), FirstBytes::default());
        let mut language = Self { dfa, places, safety, distance, first_bytes, unknown: 0 };
        let liveness = index.liveness();
        let (safety, unknown) = liveness.safety(&language, language.context(index).automata());
        language.first_bytes = FirstBytes::new(liveness, &language.dfa, &safety);
        if unknown > 0 {
            let is_safe = |state: StateId| safety[state.index()] != Safety::Unknown;
            language.distance = distances(&language.dfa, is_safe);
        }
        (language.safety, language.unknown) = (safety, unknown);
        language
    }

    /// The same texts, where only the states of `kept` are safe.
    pub(crate) fn with_safe(mut self, kept: &[bool], index: &CanonicalIndex) -> Self {
        for (safety, _) in self.safety.iter_mut().zip(kept).filter(|(_, kept)| !**kept) {
            *safety = Safety::Unknown;
        }
        self.first_bytes = FirstBytes::new(index.liveness(), &self.dfa, &self.safety);
        self
    }

    /// The texts with the tokenizer that writes them.
    pub(crate) fn context<'a>(&'a self, index: &'a CanonicalIndex) -> Context<'a, Self> {
        // ASCII texts are in every form.
        Context { language: self, form: texts_of(index, self.places.is_empty()), index }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.dfa.memory_usage()
            + self.places.len()
            + size_of_val(&self.safety[..])
            + size_of_val(&self.distance[..])
            + self.first_bytes.memory_usage()
    }
}

impl LazyDfa for DfaLanguage {
    #[inline]
    fn start(&self) -> StateId {
        self.dfa.start()
    }

    #[inline]
    fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
        self.dfa.step(state, byte)
    }

    #[inline]
    fn is_accepting(&self, state: StateId) -> bool {
        self.dfa.is_accepting(state)
    }

    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.dfa.classes().get(byte)
    }

    fn bytes(&self) -> ByteSet {
        self.dfa.bytes().collect()
    }

    #[inline]
    fn read(&self, state: StateId) -> ByteSet {
        *self.first_bytes.read(state)
    }

    #[inline]
    fn live(&self, state: StateId) -> ByteSet {
        *self.first_bytes.live(state)
    }

    #[inline]
    fn safety(&self, state: StateId) -> Safety {
        self.safety[state.index()]
    }

    #[inline]
    fn distance(&self, state: StateId) -> u32 {
        self.distance.get(state.index()).copied().unwrap_or(0)
    }

    #[inline]
    fn places(&self, state: StateId) -> u8 {
        self.places.get(state.index()).copied().unwrap_or(1)
    }

    #[inline]
    fn most_positions(&self) -> usize {
        usize::MAX
    }
}
