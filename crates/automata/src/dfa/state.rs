//! The id of a state: a newtype, so that a state is never mistaken for a count, a byte or a token.

use std::{
    fmt,
    ops::{Index, IndexMut},
};

/// A state of a [`Dfa`](crate::Dfa): its position in the DFA's tables, from 0. The start is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct StateId(pub(crate) u32);

impl StateId {
    /// The id as an index into a slice.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id of position `index`. The caller must know that the DFA has such a state.
    ///
    /// # Panics
    ///
    /// If `index` does not fit in 32 bits; limits keep every DFA below that.
    #[inline]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("state ids are 32 bits wide"))
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One value for each state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct StateVec<T>(Vec<T>);

impl<T> FromIterator<T> for StateVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T> Index<StateId> for StateVec<T> {
    type Output = T;

    #[inline]
    fn index(&self, state: StateId) -> &T {
        &self.0[state.index()]
    }
}

impl<T> IndexMut<StateId> for StateVec<T> {
    #[inline]
    fn index_mut(&mut self, state: StateId) -> &mut T {
        &mut self.0[state.index()]
    }
}
