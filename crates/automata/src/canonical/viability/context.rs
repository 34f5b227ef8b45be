//! The parts of a constraint that both engines read.

use std::sync::Arc;

use super::position::Automata;
use crate::{
    Dfa,
    canonical::{index::CanonicalIndex, texts::added::TextDfa},
};

/// The parts of a constraint.
pub(crate) struct Context {
    pub(crate) dfa: Dfa,
    /// The texts that the normaliser leaves unchanged.
    pub(crate) form: &'static TextDfa,
    pub(crate) index: Arc<CanonicalIndex>,
}

impl Context {
    pub(crate) fn automata(&self) -> Automata<'_> {
        Automata { dfa: &self.dfa, tokenizer: &self.index.automaton, form: self.form }
    }
}
