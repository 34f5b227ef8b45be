//! The state of a sequence: a snapshot that every scratch can import, and its configurations in the scratch that
//! created it.

use std::{fmt, sync::Arc};

use unskew_core::TokenId;

use super::scratch::GrammarScratch;
use crate::parser::{configurations::Configuration, snapshot::Snapshot};

/// The state of a sequence in a [`GrammarConstraint`](crate::GrammarConstraint). A clone copies about 70 bytes and
/// counts one reference.
#[derive(Clone)]
pub struct GrammarState {
    /// A snapshot of an earlier configuration of the sequence, so that another scratch can rebuild this one. It
    /// includes the used keys.
    pub(super) snapshot: Arc<Snapshot>,
    /// The tokens that were read after the snapshot.
    pub(super) recent: RecentTokens,
    /// Whether the output may end here.
    pub(super) may_end: bool,
    /// The stamp of the scratch that knows the state, and the configurations there.
    pub(super) stamp: u64,
    pub(super) at: ConfigurationPair,
}

/// The tokens since the last snapshot. To read a few tokens again in another scratch, which is rare, takes less than
/// a snapshot for every token.
#[derive(Clone, Copy, Default)]
pub(super) struct RecentTokens {
    pub(super) tokens: [TokenId; Self::MOST],
    pub(super) len: u8,
}

impl RecentTokens {
    const MOST: usize = 7;

    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.tokens[..usize::from(self.len)]
    }

    /// The tokens with one more, if there is room.
    pub(super) fn with(mut self, token: TokenId) -> Option<Self> {
        *self.tokens.get_mut(usize::from(self.len))? = token;
        self.len += 1;
        Some(self)
    }
}

/// The configurations of a sequence in a scratch.
#[derive(Clone, Copy)]
pub(super) struct ConfigurationPair {
    /// Without used keys: masks belong to it.
    pub(super) for_mask: Configuration,
    /// With used keys, where they are tracked.
    pub(super) tracked: Option<Configuration>,
}

impl ConfigurationPair {
    /// The configuration of the text that was read: with used keys, where they are tracked.
    pub(super) fn of_text(self) -> Configuration {
        self.tracked.unwrap_or(self.for_mask)
    }
}

impl GrammarState {
    /// The configurations of the state in this scratch, if it knows them.
    pub(super) fn known(&self, scratch: &GrammarScratch) -> Option<ConfigurationPair> {
        (self.stamp == scratch.stamp).then_some(self.at)
    }
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState").field("may_end", &self.may_end).finish_non_exhaustive()
    }
}
