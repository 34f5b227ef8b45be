//! The types of the numbers that the canonical engine passes around, and the tables that they index.
//!
//! States of four automata, classes of tokens and keys of merges are all 32-bit numbers, and a call takes several of
//! them at once. Each kind has a type of its own (macro `id`), so that the compiler refuses one in the place of
//! another. A table of transitions stores [`DEAD`] where there is no target; [`Id::of_entry`] is the one place that
//! reads it.
//!
//! Tried instead: `u32` throughout. `closes(token, state, place)` could be called in six wrong orders. Tried too:
//! [`unskew_core::id`], which makes `Option` as small as the id. It stores each number plus one, and the rows of these
//! automata are read more often than they are kept.

pub(crate) use unskew_core::ids::{Id, Table};

use crate::dfa::table::DEAD;

/// Declares an id type.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub(crate) struct $name(u32);

        impl Id for $name {
            #[inline]
            fn of(raw: u32) -> Self {
                debug_assert!(raw != DEAD, "no target");
                Self(raw)
            }

            #[inline]
            fn raw(self) -> u32 {
                self.0
            }
        }
    };
}

id! {
    /// A state of the splitter ([`SplitDfa`](crate::split::SplitDfa)).
    SplitState
}

id! {
    /// A state of the automaton of texts without added tokens (`TextDfa`).
    TextState
}

id! {
    /// A state of the automaton of texts in a normalisation form (`texts`).
    FormState
}

id! {
    /// A state of an automaton of single characters: within a character, or between two.
    CharacterState
}

impl CharacterState {
    /// The state between two characters.
    pub(crate) const BETWEEN: Self = Self(0);
}

id! {
    /// A class of tokens that forbid the same right neighbours.
    TokenClass
}

id! {
    /// A node of the trie of whole pieces (`WholePieces`).
    WholeNode
}

impl WholeNode {
    /// The start of a piece.
    pub(crate) const ROOT: Self = Self(0);
}

#[cfg(feature = "published")]
id! {
    /// A state of a product that is built whole (`Product`).
    ProductState
}

/// The position of a merge in the order of merges. It is also a time: a token exists from the key of its latest merge
/// on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub(crate) struct MergeKey(u32);

impl MergeKey {
    /// Before all merges: the key of a symbol.
    pub(crate) const SYMBOL: Self = Self(0);

    /// After all merges: the key of a token that no merge creates, and the end of a token that no merge consumes.
    pub(crate) const NEVER: Self = Self(u32::MAX);

    /// The key of the merge of this rank. Ranks are below `u32::MAX - 1`.
    #[inline]
    pub(crate) fn of_rank(rank: u32) -> Self {
        Self(rank + 1)
    }

    /// The next key; [`NEVER`](Self::NEVER) after itself.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_target_is_no_id() {
        assert_eq!(SplitState::of_entry(DEAD), None);
        assert_eq!(SplitState::of_entry(7), Some(SplitState::of(7)));
        assert_eq!(size_of::<SplitState>(), size_of::<u32>());
    }

    #[test]
    fn keys_of_merges_are_between_symbols_and_the_end() {
        let keys = [MergeKey::SYMBOL, MergeKey::of_rank(0), MergeKey::of_rank(1), MergeKey::NEVER];
        assert!(keys.is_sorted());
        assert_eq!((keys[0].next(), keys[3].next()), (keys[1], keys[3]));
    }
}
