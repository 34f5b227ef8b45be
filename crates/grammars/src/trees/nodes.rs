//! Nodes of subterminal trees: the tokens of a path of terminals.
//!
//! From a state of a terminal's automaton, a token stays inside the terminal, or it leaves it and continues in the
//! next one, and so on. That is a path of *subterminals*, and the tokens of one path are a node of the tree of that
//! state (DOMINO, section 3.3). A node depends on nothing but the automata on its path. A mask asks the parser which
//! paths it can take, and is the union of their nodes' tokens.

use unskew_automata::{Dfa, StateId};
use unskew_core::{MaskRef, TokenId};
use unskew_grammar::{
    CountedUnits,
    kit::terminal::counted::{Bounds, FREE},
};
use unskew_trie::ByteSet;

use super::{
    cache::LibraryId,
    suffixes::{Entered, Exits, SuffixGroup, SuffixNode, SuffixTrie},
};

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

/// An automaton of a library, by its number; or an automaton with units, by
/// [their number](crate::TreeLibrary::measured), and the bounds as far as a token can tell them apart.
pub(crate) type LanguageKey = (LibraryId, Option<Bounds>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NodeKey {
    /// A state of a language.
    Root(LanguageKey, StateId),
    /// The language that comes next.
    Child(ParentKey, LanguageKey),
}

/// The language that reads suffixes, from the start of an automaton on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuffixReader<'a> {
    pub(super) dfa: &'a Dfa,
    /// The number of the automaton.
    pub(super) number: LibraryId,
    /// The units of the automaton, with their [number](crate::TreeLibrary::measured) and their bounds, if a token can
    /// pass these.
    counted: Option<(LibraryId, &'a CountedUnits, Bounds)>,
}

impl<'a> SuffixReader<'a> {
    /// The automaton of this number.
    pub(crate) fn automaton(number: LibraryId, dfa: &'a Dfa) -> Self {
        Self { dfa, number, counted: None }
    }

    /// The automaton of this number with units; `bounds` are those of its start.
    pub(crate) fn counted(
        number: LibraryId,
        measured: LibraryId,
        count: &'a CountedUnits,
        bounds: Bounds,
    ) -> Self {
        let counted = (bounds != FREE).then_some((measured, count, bounds));
        Self { dfa: count.dfa(), number, counted }
    }

    /// The number of the automaton, if that reads all.
    pub(crate) fn free(&self) -> Option<LibraryId> {
        self.counted.is_none().then_some(self.number)
    }

    pub(super) fn language(&self) -> LanguageKey {
        self.counted.map_or((self.number, None), |(measured, _, bounds)| (measured, Some(bounds)))
    }

    /// Reads the suffixes of a trie, from the children of `at` on or from the first byte on.
    pub(super) fn enter(&self, trie: &SuffixTrie, at: Option<SuffixNode>, entered: &mut Entered) {
        let dfa = self.dfa;
        match self.counted {
            None => trie.enter(
                at,
                dfa.start(),
                |state, byte| dfa.step(state, byte),
                |state| dfa.is_accepting(state),
                entered,
            ),
            Some((_, count, _)) => trie.enter(
                at,
                count.start(),
                |state, byte| count.step(state, byte),
                |state| dfa.is_accepting(count.at(state)),
                entered,
            ),
        }
    }

    /// Whether a text begins with `byte`.
    pub(super) fn begins(&self, byte: u8) -> bool {
        self.dfa.step(self.dfa.start(), byte).is_some()
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
    pub(crate) fn contains(&self, token: TokenId) -> bool {
        match self {
            Self::Few(tokens) => tokens.contains(&token),
            Self::Many(words) => words[token.index() / 32] >> (token.index() % 32) & 1 != 0,
        }
    }

    /// The tokens of `mask`.
    pub(crate) fn of(mask: MaskRef<'_>) -> Self {
        if mask.into_ids().nth(FEW).is_none() {
            Self::Few(mask.into_ids().collect())
        } else {
            Self::Many(mask.words().into())
        }
    }
}
