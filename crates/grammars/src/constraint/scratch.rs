//! The tables of a constraint: configurations, masks and their fragments, within a limit in bytes.

use std::{fmt, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_core::{TokenId, TokenMask};

use crate::{
    mask::{
        builder::{Buffers, ScratchNodes},
        fragments::Fragments,
        union::MaskUnion,
    },
    parser::{
        configurations::{Configuration, Configurations, Work},
        erasure::Erasure,
        snapshot::SnapshotTable,
    },
    stats::GrammarStats,
};

/// The tables of a [`GrammarConstraint`](crate::GrammarConstraint), which grow with its use. When they pass
/// [`GrammarLimits::scratch_bytes`](unskew_grammar::GrammarLimits::scratch_bytes), they are emptied, but for masks that
/// were asked for since the tables were half full.
pub struct GrammarScratch {
    /// Unique among scratches; a scratch gets another stamp when it is emptied.
    pub(super) stamp: u64,
    pub(super) configurations: Configurations,
    pub(super) snapshots: SnapshotTable,
    pub(super) known: ScratchNodes,
    pub(super) buffers: Buffers,
    pub(super) fragments: Fragments,
    /// Buffers for the tokens of a mask under construction.
    pub(super) ids: Vec<TokenId>,
    pub(super) to_verify: Vec<TokenId>,
    pub(super) masks: HashMap<Configuration, CachedMask>,
    /// An empty mask, created when it is first needed.
    pub(super) buffer: Option<TokenMask>,
    pub(super) mask_bytes: usize,
    pub(super) tracking: Option<Tracking>,
    /// The turns of the library when the scratch last forgot nodes.
    pub(super) turns: u64,
    /// Whether the tables took more than half of their limit when a state was last looked up.
    pub(super) is_half_full: bool,
    pub(super) stats: GrammarStats,
}

/// A mask of a scratch.
pub(super) struct CachedMask {
    pub(super) union: MaskUnion,
    /// Whether it was asked for since the tables were half full.
    pub(super) is_young: bool,
    /// Whether it takes more than [`GrammarLimits::mask_steps`](unskew_grammar::GrammarLimits::mask_steps). No token is
    /// in it.
    pub(super) is_beyond: bool,
}

/// The tables of the parser that tracks keys.
pub(super) struct Tracking {
    pub(super) configurations: Configurations,
    pub(super) snapshots: SnapshotTable,
    pub(super) erasure: Erasure,
    /// By configuration: the tokens that used keys remove from the mask.
    pub(super) removed: HashMap<Configuration, Arc<[TokenId]>>,
    pub(super) removed_bytes: usize,
    /// The tokens that contain a key that was used in some configuration.
    pub(super) containing_used: HashSet<TokenId>,
}

impl GrammarScratch {
    /// The configurations and snapshots of texts: of the parser that tracks keys, if there is one.
    pub(super) fn of_text(&mut self) -> (&mut Configurations, &mut SnapshotTable) {
        match &mut self.tracking {
            Some(Tracking { configurations, snapshots, .. }) => (configurations, snapshots),
            None => (&mut self.configurations, &mut self.snapshots),
        }
    }

    /// Drops the nodes of a library that has dropped a generation since the last call. The scratch looks for them
    /// again, so that the library sees which nodes are in use, and the dropped nodes are freed.
    pub(super) fn follow(&mut self, turns: u64) {
        if self.turns == turns {
            return;
        }
        self.turns = turns;
        self.known = ScratchNodes::default();
        self.fragments = Fragments::default();
        self.masks.clear();
        self.mask_bytes = 0;
    }

    /// Counts of the work so far.
    pub fn stats(&self) -> GrammarStats {
        let Work { reads, mut steps, mut hypotheses } = self.configurations.work;
        let mut items = self.configurations.parser.looked_at();
        let mut used_texts = 0;
        if let Some(tracking) = &self.tracking {
            used_texts = tracking.configurations.looks();
            steps += tracking.configurations.work.steps;
            hypotheses += tracking.configurations.work.hypotheses;
            items += tracking.configurations.parser.looked_at();
        }
        let before = &self.stats;
        GrammarStats {
            reads: before.reads + reads,
            steps: before.steps + steps,
            hypotheses: before.hypotheses + hypotheses,
            items: before.items + items,
            used_texts: before.used_texts + used_texts,
            ..*before
        }
    }

    /// The memory of the tables, in bytes. O(1).
    pub fn memory_usage(&self) -> usize {
        self.configurations.memory_usage()
            + self.snapshots.memory_usage()
            + self.known.memory_usage()
            + self.fragments.memory_usage()
            + self.mask_bytes
            + self.tracking.as_ref().map_or(0, |tracking| {
                tracking.configurations.memory_usage()
                    + tracking.snapshots.memory_usage()
                    + tracking.erasure.memory_usage()
                    + tracking.removed_bytes
            })
    }

    /// The numbers of configurations, parser states and continuations that were created.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let (parser_states, continuations) = self.configurations.parser.created();
        (self.configurations.len(), parser_states, continuations)
    }
}

impl fmt::Debug for GrammarScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarScratch").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
