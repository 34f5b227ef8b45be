//! The tables of a constraint: places, masks and parts of masks, within a limit in bytes.

use std::{fmt, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_core::{TokenId, TokenMask};

use crate::{
    mask::{
        contexts::Contexts,
        maker::{Buffers, KnownNodes},
        pieces::Pieces,
    },
    parser::{
        places::{Place, Places, Work},
        portable::Exchange,
        untracked::Untracked,
    },
    stats::GrammarStats,
};

/// The tables of a [`GrammarConstraint`](crate::GrammarConstraint): what it has found out on the way. When they pass [`GrammarLimits::scratch_bytes`](crate::GrammarLimits::scratch_bytes), they
/// are emptied, but for masks that were asked for since they were half full.
pub struct GrammarScratch {
    /// No two scratches have the same one, nor has one before and after it was emptied.
    pub(super) stamp: u64,
    pub(super) places: Places,
    pub(super) exchange: Exchange,
    pub(super) known: KnownNodes,
    pub(super) buffers: Buffers,
    pub(super) contexts: Contexts,
    /// For the tokens of a mask in the making.
    pub(super) ids: Vec<TokenId>,
    pub(super) doubtful: Vec<TokenId>,
    pub(super) masks: HashMap<Place, Made>,
    /// An empty mask, once it was needed.
    pub(super) buffer: Option<TokenMask>,
    pub(super) mask_bytes: usize,
    pub(super) tracking: Option<Tracking>,
    /// The turns of the library when the scratch last forgot nodes.
    pub(super) turns: u64,
    /// Whether the tables took more than half of their limit when a state was last looked up.
    pub(super) is_half_full: bool,
    pub(super) stats: GrammarStats,
}

/// A mask that a scratch has made.
pub(super) struct Made {
    pub(super) pieces: Pieces,
    /// Whether it was asked for since the tables were half full.
    pub(super) is_young: bool,
}

/// The tables of the parser that tracks texts.
pub(super) struct Tracking {
    pub(super) places: Places,
    pub(super) exchange: Exchange,
    pub(super) untracked: Untracked,
    /// By place: the tokens that the mask has too many.
    pub(super) removed: HashMap<Place, Arc<[TokenId]>>,
    pub(super) removed_bytes: usize,
    /// The tokens that hold a text which was used in some place.
    pub(super) holding_used: HashSet<TokenId>,
}

impl GrammarScratch {
    /// Forgets the nodes of a library that has dropped a generation since: the scratch looks for them again, so that the library
    /// knows which are in use, and those that it has dropped are freed.
    pub(super) fn follow(&mut self, turns: u64) {
        if self.turns == turns {
            return;
        }
        self.turns = turns;
        self.known = KnownNodes::default();
        self.contexts = Contexts::default();
        self.masks.clear();
        self.mask_bytes = 0;
    }

    /// What it has done so far.
    pub fn stats(&self) -> GrammarStats {
        let Work { reads, mut steps, mut readings } = self.places.work;
        let mut items = self.places.parser.looked_at();
        let mut used_texts = 0;
        if let Some(tracking) = &self.tracking {
            used_texts = tracking.places.looks();
            steps += tracking.places.work.steps;
            readings += tracking.places.work.readings;
            items += tracking.places.parser.looked_at();
        }
        let before = &self.stats;
        GrammarStats {
            reads: before.reads + reads,
            steps: before.steps + steps,
            readings: before.readings + readings,
            items: before.items + items,
            used_texts: before.used_texts + used_texts,
            ..*before
        }
    }

    /// The memory that its tables take, in bytes. O(1).
    pub fn memory_usage(&self) -> usize {
        self.places.memory_usage()
            + self.exchange.memory_usage()
            + self.known.memory_usage()
            + self.contexts.memory_usage()
            + self.mask_bytes
            + self.tracking.as_ref().map_or(0, |tracking| {
                tracking.places.memory_usage()
                    + tracking.exchange.memory_usage()
                    + tracking.untracked.memory_usage()
                    + tracking.removed_bytes
            })
    }

    /// The number of places, states of the parser and returns that were made.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let (todos, returns) = self.places.parser.made();
        (self.places.len(), todos, returns)
    }
}

impl fmt::Debug for GrammarScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarScratch").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
