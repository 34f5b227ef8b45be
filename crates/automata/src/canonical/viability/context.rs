//! The parts of a constraint that both engines read.

use std::sync::Arc;

use super::position::Automata;
use crate::{
    Dfa,
    canonical::{
        index::CanonicalIndex,
        texts::{added::TextDfa, form::texts},
    },
    ids::FormState,
};

/// The parts of a constraint.
pub(crate) struct Context {
    pub(crate) dfa: Dfa,
    /// The texts that the normaliser leaves unchanged.
    pub(crate) form: &'static TextDfa<FormState>,
    pub(crate) index: Arc<CanonicalIndex>,
}

impl Context {
    pub(crate) fn new(dfa: Dfa, index: Arc<CanonicalIndex>) -> Self {
        // ASCII texts are in every form.
        let form = index.automaton.form.filter(|_| dfa.bytes().any(|byte| !byte.is_ascii()));
        Self { dfa, form: form.map_or_else(TextDfa::all, texts), index }
    }

    pub(crate) fn automata(&self) -> Automata<'_> {
        let CanonicalIndex { automaton, tuning, .. } = &*self.index;
        Automata { dfa: &self.dfa, tokenizer: automaton, form: self.form, few_added: tuning.few_added }
    }
}
