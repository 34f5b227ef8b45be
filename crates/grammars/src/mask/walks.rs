//! Walks over the vocabulary through configurations: the general way to a mask, which is always right.

use unskew_trie::{ByteAutomaton, DEAD};

use crate::{
    ids::Id,
    network::terminals::ScanTerminal,
    parser::{
        configurations::{Compiled, Configuration, Configurations},
        states::ParserState,
    },
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
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.configurations.work.reads += 1;
        let next = self.configurations.step(self.compiled, Configuration::of(state), byte);
        next.map_or(DEAD, Id::raw)
    }
}

/// Some edges, and then configurations. The states are the numbers of configurations plus one, and [`EdgeWalk::START`].
pub(crate) struct EdgeWalk<'a> {
    compiled: &'a Compiled,
    configurations: &'a mut Configurations,
    edges: Vec<(ScanTerminal, ParserState)>,
    /// By class: the state after the first byte of the edges, once it was asked for.
    begun: Vec<Option<u32>>,
}

impl<'a> EdgeWalk<'a> {
    pub(crate) const START: u32 = 0;

    /// From `edges`, none of which reads a literal.
    pub(crate) fn new(
        compiled: &'a Compiled,
        configurations: &'a mut Configurations,
        edges: Vec<(ScanTerminal, ParserState)>,
    ) -> Self {
        let begun = vec![None; compiled.terminals.width()];
        Self { compiled, configurations, edges, begun }
    }
}

impl ByteAutomaton for EdgeWalk<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.compiled.terminals.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.configurations.work.reads += 1;
        let number = |configuration: Option<Configuration>| configuration.map_or(DEAD, |next| next.raw() + 1);
        if state != Self::START {
            return number(self.configurations.step(self.compiled, Configuration::of(state - 1), byte));
        }
        let class = self.compiled.terminals.class(byte);
        *self.begun[usize::from(class)]
            .get_or_insert_with(|| number(self.configurations.begin(self.compiled, &self.edges, byte)))
    }
}
