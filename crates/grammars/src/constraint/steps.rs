//! From a state to its configurations in a scratch, and from there to the configuration after a token.

use unskew_core::{Constraint, TokenId, TokenKind};

use super::{
    GrammarConstraint, GrammarScratch, GrammarState,
    scratch::{CachedMask, Tracking},
    state::ConfigurationPair,
};
use crate::{
    parser::{
        configurations::{Configuration, Configurations},
        erasure::BothParsers,
    },
    stats::GrammarStats,
};

impl GrammarConstraint {
    /// The configurations of `state` in `scratch`. Empties the scratch first if it is full.
    pub(super) fn at(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> ConfigurationPair {
        let bytes = scratch.memory_usage();
        scratch.is_half_full = bytes > self.scratch_bytes / 2;
        if bytes > self.scratch_bytes {
            self.renew(scratch);
        }
        if let Some(trees) = &self.trees {
            scratch.follow(trees.library.cache.turns());
        }
        if state.stamp == scratch.stamp {
            return state.at;
        }
        let configuration = match &mut scratch.tracking {
            Some(Tracking { configurations, snapshots, .. }) => {
                snapshots.import(configurations, &self.compiled, &state.snapshot)
            }
            None => scratch.snapshots.import(&mut scratch.configurations, &self.compiled, &state.snapshot),
        };
        let mut at = self.pair_of(scratch, configuration);
        for token in state.recent.tokens() {
            let next = self.after(scratch, at, *token).expect("it was read before");
            at = self.pair_of(scratch, next);
        }
        at
    }

    /// Empties the tables, but for the masks that were asked for since the tables were half full: their
    /// configurations are exported and imported, as long as that fills at most half.
    fn renew(&self, scratch: &mut GrammarScratch) {
        let mut new = GrammarScratch {
            stats: GrammarStats { emptied: scratch.stats.emptied + 1, ..scratch.stats() },
            ..self.scratch()
        };
        let mut masks: Vec<(Configuration, CachedMask)> =
            scratch.masks.drain().filter(|(_, cached)| cached.is_young).collect();
        masks.sort_unstable_by_key(|(configuration, _)| *configuration);
        for (configuration, CachedMask { union, .. }) in masks {
            if new.memory_usage() + union.memory_usage() > self.scratch_bytes / 2 {
                break;
            }
            let snapshot = scratch.snapshots.export(&scratch.configurations, &self.compiled, configuration);
            let configuration = new.snapshots.import(&mut new.configurations, &self.compiled, &snapshot);
            new.mask_bytes += union.memory_usage();
            new.masks.insert(configuration, CachedMask { union, is_young: false });
        }
        *scratch = new;
    }

    /// Both configurations of a sequence. `configuration` is that of the tracking parser, if there is one.
    pub(super) fn pair_of(
        &self,
        scratch: &mut GrammarScratch,
        configuration: Configuration,
    ) -> ConfigurationPair {
        let GrammarScratch { configurations, tracking, .. } = scratch;
        let Some(Tracking { configurations: tracking, erasure, .. }) = tracking else {
            return ConfigurationPair { for_mask: configuration, tracked: None };
        };
        // The erased parser does not read the tokens: it would keep hypotheses that have ended here.
        let mut both = BothParsers { compiled: &self.compiled, tracking, erased: configurations };
        let for_mask = erasure.configuration(&mut both, configuration);
        ConfigurationPair { for_mask, tracked: Some(configuration) }
    }

    /// Whether a state is beyond [`GrammarLimits::state_items`](crate::GrammarLimits::state_items), so that nothing
    /// follows.
    pub(super) fn is_beyond(&self, scratch: &GrammarScratch, at: ConfigurationPair) -> bool {
        let tracked = at.tracked.zip(scratch.tracking.as_ref());
        scratch.configurations.has_more_than(self.state_items, at.for_mask)
            || tracked.is_some_and(|(configuration, tracking)| {
                tracking.configurations.has_more_than(self.state_items, configuration)
            })
    }

    /// The configuration after `token`, if there is one: of the tracking parser, if there is one.
    pub(super) fn after(
        &self,
        scratch: &mut GrammarScratch,
        at: ConfigurationPair,
        token: TokenId,
    ) -> Option<Configuration> {
        match at.tracked.zip(scratch.tracking.as_mut()) {
            Some((configuration, tracking)) => {
                self.after_in(&mut tracking.configurations, configuration, token)
            }
            None => self.after_in(&mut scratch.configurations, at.for_mask, token),
        }
    }

    /// The configuration after `token`, if there is one.
    fn after_in(
        &self,
        configurations: &mut Configurations,
        configuration: Configuration,
        token: TokenId,
    ) -> Option<Configuration> {
        if token.index() >= self.vocabulary.len() {
            return None;
        }
        match self.vocabulary.kind(token) {
            TokenKind::Text => match self.vocabulary.text(token) {
                Some([]) | None => None,
                Some(text) => {
                    let of_text = configurations.run(&self.compiled, configuration, text);
                    if !self.compiled.terminals.has_sets() {
                        return of_text;
                    }
                    let of_token = configurations.by_id(&self.compiled, configuration, token);
                    configurations.both(&self.compiled, of_text, of_token)
                }
            },
            TokenKind::Control => configurations.by_id(&self.compiled, configuration, token),
            _ => None,
        }
    }

    /// Whether there is a configuration after `token`. For a text none is created, of which thousands would occur once.
    pub(super) fn reads_in(
        &self,
        configurations: &mut Configurations,
        configuration: Configuration,
        token: TokenId,
    ) -> bool {
        match self.vocabulary.kind(token) {
            TokenKind::Text => {
                let text = self.vocabulary.text(token).unwrap_or_default();
                !text.is_empty()
                    && (configurations.reads(&self.compiled, configuration, text)
                        || self.compiled.terminals.has_sets()
                            && configurations.by_id(&self.compiled, configuration, token).is_some())
            }
            _ => self.after_in(configurations, configuration, token).is_some(),
        }
    }
}
