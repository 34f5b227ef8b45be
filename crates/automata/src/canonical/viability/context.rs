//! The parts of a constraint.

use std::{collections::HashSet, sync::Arc};

use super::position::Automata;
use crate::{
    Dfa, DfaAlgebra, Limits, RegexError, SplitLimits,
    canonical::{
        CanonicalError, NothingCanonical,
        index::{CanonicalIndex, split_liveness::places_of},
        texts::{added::TextDfa, form::texts},
        tokenizer::automaton::Role,
    },
    ids::FormState,
    split::{SplitDfa, SplitOptions},
};

/// The parts of a constraint.
pub(crate) struct Context {
    pub(crate) dfa: Dfa,
    /// By state of the DFA: the UTF-8 states in which it is reached, one bit each. Empty if all bytes are ASCII.
    pub(crate) places: Vec<u8>,
    /// The texts that the normaliser leaves unchanged.
    pub(crate) form: &'static TextDfa<FormState>,
    pub(crate) index: Arc<CanonicalIndex>,
}

impl Context {
    /// Texts that are not UTF-8 are left out of `dfa`.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`] if no text is left, and the limits of a DFA.
    pub(crate) fn new(dfa: Dfa, index: Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
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
        // ASCII texts are in every form.
        let form = index.automaton.form.filter(|_| !places.is_empty());
        Ok(Self { dfa, places, form: form.map_or_else(TextDfa::all, texts), index })
    }

    pub(crate) fn automata(&self) -> Automata<'_> {
        let CanonicalIndex { automaton, tuning, .. } = &*self.index;
        Automata { dfa: &self.dfa, tokenizer: automaton, form: self.form, few_added: tuning.few_added }
    }

    /// The reason why no sequence is left: some accepted text has only characters that tokens spell, or none has.
    pub(crate) fn why_nothing(&self) -> NothingCanonical {
        let CanonicalIndex { automaton: tokenizer, vocabulary, .. } = &*self.index;
        let Some(spelled) = &tokenizer.spelled else { return NothingCanonical::Rewritten };
        let options = SplitOptions { kept: std::slice::from_ref(spelled), ..SplitOptions::default() };
        let Ok(texts) = SplitDfa::new(&[], &options, &SplitLimits::default()) else {
            return NothingCanonical::Rewritten;
        };
        let mut open = vec![(self.dfa.start(), texts.start())];
        let mut seen: HashSet<_> = open.iter().copied().collect();
        while let Some((state, text)) = open.pop() {
            if self.dfa.is_accepting(state) && texts.is_accepting(text) {
                return NothingCanonical::Rewritten;
            }
            for edge in self.dfa.edges(state) {
                let after = edge.bytes.filter_map(|byte| Some((edge.target, texts.step(text, byte)?)));
                open.extend(after.filter(|next| seen.insert(*next)));
            }
        }
        let mut is_written = [false; 256];
        for (token, text) in vocabulary.text_tokens() {
            if tokenizer.roles.get(token.index()).is_some_and(|role| *role != Role::Never) {
                text.iter().for_each(|byte| is_written[usize::from(*byte)] = true);
            }
        }
        let missing = self.dfa.bytes().filter(|byte| !is_written[usize::from(*byte)]).collect();
        NothingCanonical::Unspellable { missing }
    }
}
