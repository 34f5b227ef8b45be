//! From a state to its configurations in a scratch, and from there to the configuration after a token.

use unskew_core::{Constraint, Reach, Rejected, TokenId, TokenKind};

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

/// The limit on the work of a mask.
pub(super) const MASK_STEPS: &str = "GrammarLimits::mask_steps";

/// The items and frames of a state from which on it is one that grows with the text. Those of programs have a few
/// hundred.
const LARGE: usize = 1 << 10;

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
        let (configurations, snapshots) = scratch.of_text();
        let configuration = snapshots.import(configurations, &self.compiled, &state.snapshot);
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
        for (configuration, CachedMask { union, is_beyond, .. }) in masks {
            if new.memory_usage() + union.memory_usage() > self.scratch_bytes / 2 {
                break;
            }
            let snapshot = scratch.snapshots.export(&scratch.configurations, &self.compiled, configuration);
            let configuration = new.snapshots.import(&mut new.configurations, &self.compiled, &snapshot);
            new.mask_bytes += union.memory_usage();
            new.masks.insert(configuration, CachedMask { union, is_young: is_beyond, is_beyond });
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

    /// The limit that a state is beyond, so that nothing follows.
    pub(super) fn beyond(&self, scratch: &GrammarScratch, at: ConfigurationPair) -> Option<&'static str> {
        let tracked = at.tracked.zip(scratch.tracking.as_ref());
        let tracked =
            tracked.map_or(0, |(configuration, tracking)| tracking.configurations.weight(configuration));
        if scratch.configurations.weight(at.for_mask).max(tracked) > self.state_items {
            return Some("GrammarLimits::state_items");
        }
        scratch.masks.get(&at.for_mask).filter(|mask| mask.is_beyond).map(|_| MASK_STEPS)
    }

    /// As [`beyond`](Self::beyond), of a state that a token has led to. A state that grows with the text has its mask
    /// made here, where the state learns whether it may accept: the next question is for that mask.
    pub(super) fn grows_beyond(&self, scratch: &mut GrammarScratch, at: ConfigurationPair) -> bool {
        if self.beyond(scratch, at).is_none() && scratch.configurations.weight(at.for_mask) > LARGE {
            self.make_mask(scratch, at.for_mask);
        }
        self.beyond(scratch, at).is_some()
    }

    /// The configuration after `token`, if there is one: of the tracking parser, if there is one.
    pub(super) fn after(
        &self,
        scratch: &mut GrammarScratch,
        at: ConfigurationPair,
        token: TokenId,
    ) -> Option<Configuration> {
        self.after_within(scratch, at, token, u64::MAX).ok().flatten()
    }

    /// As [`after`](Self::after); an error if that takes more than `most` steps.
    pub(super) fn after_within(
        &self,
        scratch: &mut GrammarScratch,
        at: ConfigurationPair,
        token: TokenId,
        most: u64,
    ) -> Result<Option<Configuration>, Rejected> {
        let (configurations, configuration) = match at.tracked.zip(scratch.tracking.as_mut()) {
            Some((configuration, tracking)) => (&mut tracking.configurations, configuration),
            None => (&mut scratch.configurations, at.for_mask),
        };
        configurations.parser.meter.begin(most);
        let after = self.after_in(configurations, configuration, token);
        match configurations.parser.meter.end() {
            true => Err(Rejected::beyond(token, MASK_STEPS)),
            false => Ok(after),
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

    /// How far a text goes on, read as text and not as a token. Beyond the steps of a mask it goes on to its end.
    pub(super) fn reach_of(&self, scratch: &mut GrammarScratch, at: ConfigurationPair, text: &[u8]) -> Reach {
        let (configurations, configuration) = match at.tracked.zip(scratch.tracking.as_mut()) {
            Some((configuration, tracking)) => (&mut tracking.configurations, configuration),
            None => (&mut scratch.configurations, at.for_mask),
        };
        configurations.parser.meter.begin(self.mask_steps);
        let len = configurations.reach(&self.compiled, configuration, text);
        let after = configurations.run(&self.compiled, configuration, &text[..len]);
        let is_accepting = after.is_some_and(|after| configurations.may_end(&self.compiled, after));
        match configurations.parser.meter.end() {
            true => Reach { len: text.len(), is_accepting: false },
            false => Reach { len, is_accepting },
        }
    }

    /// Whether there is a configuration after `token`. For a text none is created, of which thousands would occur
    /// once.
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
