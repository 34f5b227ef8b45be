//! [`LiftedDfa`]: all states and edges, as a table.

use std::sync::Arc;

use unskew_automata::{
    Dfa, Limits, TokenDfa,
    published::{LiftedDfa, PublishedLimits},
};

use super::{Allows, Builder, ConstraintMatcher, EAGER, Engine, Matcher, Place};
use crate::Subject;

/// The engine, which is measured as its peer is.
pub(super) fn builder() -> Builder {
    Builder { name: EAGER, build: Eager::build, allows: Allows::AllSpellings, place: Place::Apart }
}

struct Eager {
    subject: Subject,
}

impl Eager {
    /// The trie is that of the lifted engine, which is timed there.
    fn build(subject: &Subject) -> Result<Box<dyn Engine>, String> {
        Ok(Box::new(Self { subject: subject.clone() }))
    }
}

impl Engine for Eager {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let trie = Arc::clone(&self.subject.trie);
        let limits = Limits::default();
        let tokens = Dfa::from_pattern(pattern, &limits)
            .and_then(|dfa| TokenDfa::new(Arc::new(dfa), trie, &limits))
            .map_err(|error| error.to_string())?;
        let lifted =
            LiftedDfa::new(&tokens, &PublishedLimits::default()).map_err(|error| error.to_string())?;
        Ok(Box::new(ConstraintMatcher::new(lifted, LiftedDfa::memory_usage)))
    }

    fn ahead_of_time(&self) -> bool {
        true
    }
}
