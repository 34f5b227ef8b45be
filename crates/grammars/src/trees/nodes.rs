//! Nodes of subterminal trees: the tokens of a path of terminals.
//!
//! From a state of a terminal's automaton, a token stays inside the terminal, or it leaves it and continues in the
//! next one, and so on. That is a path of *subterminals*, and the tokens of one path are a node of the tree of that
//! state (DOMINO, section 3.3). A node depends on nothing but the automata on its path. A mask asks the parser which
//! paths it can take, and is the union of their nodes' tokens.

use unskew_automata::Dfa;
use unskew_core::{MaskRef, TokenId};
use unskew_trie::ByteSet;

use super::{
    cache::LibraryId,
    suffixes::{Entered, Exits, SuffixGroup, SuffixNode, SuffixTrie},
};
use crate::{BoundedLength, BoundedRepetition, terminal::ScanState};

/// The most tokens of a set that is a list: 512 tokens are written into a mask in less time than a mask of 128,000
/// bits is copied twice.
pub(super) const FEW: usize = 512;

/// The bytes of a scratch that refers to a node, which the library counts.
pub(crate) const ENTRY: usize = 128;

/// Tokens of a node.
#[derive(Debug)]
pub(crate) enum Tokens {
    Few(Box<[TokenId]>),
    Many(Box<[u32]>),
}

/// The tokens of a path of terminals, and those that leave it.
#[derive(Debug)]
pub(crate) struct TreeNode {
    /// Among all groups and nodes of a library.
    pub(crate) id: LibraryId,
    /// The tokens that end inside the last terminal.
    pub(crate) inside: Tokens,
    pub(crate) exits: Exits,
    /// The bytes that the last terminal may read in a state in which it may also end.
    pub(crate) extending: ByteSet,
}

/// An automaton of a library, by its number; of a bounded repetition, the automaton without bounds, and the bounds as
/// far as a token can distinguish them.
pub(crate) type LanguageKey = (LibraryId, Option<(u32, Option<u32>)>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NodeKey {
    /// A state of an automaton, or of a mark of a bounded repetition.
    Root(LanguageKey, ScanState),
    /// The language that comes next.
    Child(ParentKey, LanguageKey),
    /// A state of the unit of a bounded repetition.
    Inside(LanguageKey, ScanState),
}

/// The language that reads suffixes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SuffixReader<'a> {
    /// An automaton, with its number.
    Automaton(LibraryId, &'a Dfa),
    /// A bounded repetition, with the number of its automaton without bounds, and the bounds as far as a token can
    /// distinguish them.
    BoundedRepetition(LibraryId, &'a BoundedRepetition, (u32, Option<u32>)),
    /// An automaton with a bounded length, with its [number](crate::TreeLibrary::measured), and the length.
    BoundedLength(LibraryId, &'a BoundedLength, u32),
}

impl SuffixReader<'_> {
    pub(super) fn language(&self) -> LanguageKey {
        match self {
            Self::Automaton(number, _) => (*number, None),
            Self::BoundedRepetition(number, _, bounds) => (*number, Some(*bounds)),
            Self::BoundedLength(number, _, left) => (*number, Some((0, Some(*left)))),
        }
    }

    /// Reads the suffixes of a trie, from the children of `at` on or from the first byte on, beginning in `state` of
    /// a bounded repetition or in the start of an automaton.
    pub(super) fn enter(
        &self,
        trie: &SuffixTrie,
        at: Option<SuffixNode>,
        state: Option<ScanState>,
        entered: &mut Entered,
    ) {
        match *self {
            Self::Automaton(_, dfa) => trie.enter(
                at,
                dfa.start(),
                |state, byte| dfa.step(state, byte),
                |state| dfa.is_accepting(state),
                entered,
            ),
            Self::BoundedRepetition(_, repetition, _) => trie.enter(
                at,
                state.unwrap_or_else(|| repetition.start()),
                |state, byte| repetition.step(state, byte),
                |state| repetition.is_accepting(state),
                entered,
            ),
            Self::BoundedLength(_, length, _) => trie.enter(
                at,
                length.start(),
                |state, byte| length.step(state, byte),
                |state| length.is_accepting(state),
                entered,
            ),
        }
    }

    /// Whether a text begins with `byte`.
    pub(super) fn begins(&self, byte: u8) -> bool {
        match self {
            Self::Automaton(_, dfa) => dfa.step(dfa.start(), byte).is_some(),
            Self::BoundedRepetition(_, repetition, _) => repetition.step(repetition.start(), byte).is_some(),
            Self::BoundedLength(_, length, _) => length.step(length.start(), byte).is_some(),
        }
    }
}

/// The node that a path leaves, and the suffix node from which the next automaton reads, if it is not the root.
pub(crate) type ParentKey = (LibraryId, Option<SuffixNode>);

/// The point of a path from which the next automaton reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent<'a> {
    /// The exits of a node.
    Exits(&'a TreeNode),
    /// After literals: a suffix node among the exits of a node, or among all tokens.
    Suffix(&'a SuffixGroup, SuffixNode),
}

impl Parent<'_> {
    pub(crate) fn key(&self) -> ParentKey {
        match self {
            Self::Exits(node) => (node.id, None),
            Self::Suffix(group, at) => (group.id, Some(*at)),
        }
    }
}

impl TreeNode {
    /// The tokens inside as a mask, if they are many.
    pub(crate) fn words(&self) -> Option<&[u32]> {
        match &self.inside {
            Tokens::Many(words) => Some(words),
            Tokens::Few(_) => None,
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let inside = match &self.inside {
            Tokens::Few(tokens) => size_of_val(&tokens[..]),
            Tokens::Many(words) => size_of_val(&words[..]),
        };
        size_of::<Self>() + inside + self.exits.memory_usage()
    }
}

impl Tokens {
    /// The tokens of `mask`.
    pub(crate) fn of(mask: MaskRef<'_>) -> Self {
        if mask.into_ids().nth(FEW).is_none() {
            Self::Few(mask.into_ids().collect())
        } else {
            Self::Many(mask.words().into())
        }
    }
}
