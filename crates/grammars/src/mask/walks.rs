//! Walks over the vocabulary through configurations: the general way to a mask, which is always right.
//!
//! Tried instead: walks through [truncated](crate::parser::truncation) configurations, which recur, with the tokens
//! that come to a placeholder read in the configuration itself. On Python's grammar of lark the parser looked at as
//! many items, and after a line break up to 57,000 tokens came to a placeholder.

use unskew_trie::{ByteAutomaton, DEAD, SafeBytes};

use crate::{
    ids::Id,
    parser::configurations::{Compiled, Configuration, Configurations},
};

/// Configurations, as a walk over the vocabulary sees them: its states are their numbers.
pub(crate) struct ConfigurationWalk<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) configurations: &'a mut Configurations,
}

impl ConfigurationWalk<'_> {
    /// The state of the walk in a configuration.
    pub(crate) fn state(configuration: Configuration) -> u32 {
        configuration.raw()
    }
}

impl ByteAutomaton for ConfigurationWalk<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.compiled.terminals.class(byte)
    }

    #[inline]
    fn safe(&mut self, state: u32) -> Option<SafeBytes> {
        self.configurations.safe(self.compiled, Configuration::of(state))
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.configurations.work.reads += 1;
        let next = self.configurations.step_of_mask(self.compiled, Configuration::of(state), byte);
        next.map_or(DEAD, Id::raw)
    }
}
