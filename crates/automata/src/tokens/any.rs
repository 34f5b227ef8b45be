//! The constraint of a pattern: its whole DFA if that is within the limits, else a DFA that is built lazily.

use std::sync::Arc;

use unskew_core::AnyConstraint;
use unskew_trie::TokenTrie;

use super::{LazyRegexConstraint, RegexConstraint};
use crate::{
    Dfa, Limits, Pattern, RegexError,
    dfa::{determinize::determinize, nfa::Nfa},
    regex::parse,
};

/// A pattern as a constraint of one of two kinds.
#[derive(Clone, Debug)]
pub enum AnyRegex {
    /// The pattern's DFA is within the limits.
    Dfa(Arc<RegexConstraint>),
    /// The states are built when they are reached.
    Lazy(Arc<LazyRegexConstraint>),
}

impl AnyRegex {
    /// The constraint of either kind.
    pub fn into_any(self) -> AnyConstraint {
        match self {
            Self::Dfa(constraint) => AnyConstraint::new(constraint),
            Self::Lazy(constraint) => AnyConstraint::new(constraint),
        }
    }
}

/// The constraint that the whole output matches `pattern`: a [`RegexConstraint`] if the pattern's DFA is within the
/// limits, else a [`LazyRegexConstraint`].
///
/// # Errors
///
/// [`RegexError`]. If the vocabulary lacks a token for some single byte of the pattern, a [`LazyRegexConstraint`] is
/// impossible too, and the error is the DFA's.
pub fn regex<'t>(
    pattern: impl Into<Pattern<'t>>,
    trie: Arc<TokenTrie>,
    limits: &Limits,
) -> Result<AnyRegex, RegexError> {
    let parsed = parse(pattern, limits)?;
    if parsed.look.is_some() {
        // The lazy automaton has no look-around.
        let dfa = Arc::new(Dfa::of_parsed(&parsed, limits)?);
        return RegexConstraint::from_dfa(dfa, trie, limits).map(|made| AnyRegex::Dfa(Arc::new(made)));
    }
    let nfa = Nfa::new(&parsed.hir, limits.nfa_size)?;
    let error = match determinize(&nfa, limits) {
        Ok(table) => {
            drop(nfa);
            let dfa = Arc::new(Dfa::from_table(table).ok_or(RegexError::MatchesNothing)?);
            return RegexConstraint::from_dfa(dfa, trie, limits)
                .map(|constraint| AnyRegex::Dfa(Arc::new(constraint)));
        }
        Err(error) => error,
    };
    if !matches!(
        error,
        RegexError::TooManyDfaStates { .. }
            | RegexError::DfaTooLarge { .. }
            | RegexError::DfaTooCostly { .. }
    ) {
        return Err(error);
    }
    match LazyRegexConstraint::from_nfa(nfa, trie, limits) {
        Ok(constraint) => Ok(AnyRegex::Lazy(Arc::new(constraint))),
        Err(RegexError::SpellingTooCostly { .. }) => Err(error),
        Err(other) => Err(other),
    }
}
