//! The position of a sequence: a place that every scratch can look up, and its name in the scratch that made it.

use std::{fmt, sync::Arc};

use unskew_core::TokenId;

use super::scratch::GrammarScratch;
use crate::parser::{places::Place, portable::PortablePlace};

/// The position of a sequence in a [`GrammarConstraint`](crate::GrammarConstraint). Cloning it copies some 70 bytes, with one pointer that is counted.
#[derive(Clone)]
pub struct GrammarState {
    /// A place that the sequence came through, spelled out for scratches that do not know the state; where texts may not come twice,
    /// with those that were used.
    pub(super) portable: Arc<PortablePlace>,
    /// What was read behind it.
    pub(super) since: Since,
    /// Whether the output may end here.
    pub(super) may_end: bool,
    /// The scratch that knows it, and how it is called there.
    pub(super) stamp: u64,
    pub(super) at: At,
}

/// A few tokens: it takes less to read them again in another scratch, should that ever be, than to spell out every place.
#[derive(Clone, Copy, Default)]
pub(super) struct Since {
    pub(super) tokens: [TokenId; Self::MOST],
    pub(super) len: u8,
}

impl Since {
    const MOST: usize = 7;

    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.tokens[..usize::from(self.len)]
    }

    /// With one more, if there is room.
    pub(super) fn with(mut self, token: TokenId) -> Option<Self> {
        *self.tokens.get_mut(usize::from(self.len))? = token;
        self.len += 1;
        Some(self)
    }
}

/// Where a sequence is in a scratch.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// Without the texts that were used.
    pub(super) place: Place,
    /// With them.
    pub(super) tracked: Option<Place>,
}

impl GrammarState {
    /// The only name of the state in this scratch: two states are equal there exactly when these are.
    pub(super) fn known(&self, scratch: &GrammarScratch) -> Option<At> {
        (self.stamp == scratch.stamp).then_some(self.at)
    }
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState").field("may_end", &self.may_end).finish_non_exhaustive()
    }
}
