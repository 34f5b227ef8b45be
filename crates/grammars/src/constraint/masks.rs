//! The mask of a configuration, made once in a scratch, and the tokens that used keys remove from it.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, TokenMask};

use super::{GrammarConstraint, GrammarScratch, scratch::CachedMask, state::ConfigurationPair};
use crate::{
    mask::{
        builder::MaskBuilder,
        repeats::{RepeatCandidates, goes_on, repeat_candidates},
        union::MaskUnion,
        walks::ConfigurationWalk,
    },
    network::terminals::Scanner,
    parser::configurations::Configuration,
    trees::key_tokens::KeyTokens,
};

impl GrammarConstraint {
    /// Makes the mask of `configuration`, if the scratch does not have it.
    pub(super) fn make_mask(&self, scratch: &mut GrammarScratch, configuration: Configuration) {
        let is_young = scratch.is_half_full;
        if let Some(cached) = scratch.masks.get_mut(&configuration) {
            cached.is_young |= is_young;
            return;
        }
        scratch.stats.made += 1;
        let mut union = MaskUnion::new(std::mem::take(&mut scratch.ids));
        let configurations = &mut scratch.configurations;
        configurations.parser.meter.begin(self.mask_steps);
        let buffer = scratch.buffer.get_or_insert_with(|| TokenMask::new(self.vocab_len()));
        match &self.trees {
            Some(trees) => MaskBuilder {
                compiled: &self.compiled,
                trees,
                trie: &self.trie,
                union: &mut union,
                buffer,
                configurations,
                known: &mut scratch.known,
                buffers: &mut scratch.buffers,
                to_verify: &mut scratch.to_verify,
                fragments: &mut scratch.fragments,
                walks: &mut scratch.stats.walks,
            }
            .add(configuration),
            None => {
                scratch.stats.walks += 1;
                let mut walk = ConfigurationWalk { compiled: &self.compiled, configurations };
                self.trie.fill(&mut walk, ConfigurationWalk::state(configuration), buffer.as_mut());
                union.add_mask(buffer.as_ref());
                buffer.as_mut().clear();
            }
        }
        if let Some(distinct) = &self.distinct {
            distinct.key_tokens(&self.compiled, &self.vocabulary, |difference, remaining| {
                match &self.trees {
                    Some(trees) => trees.key_tokens(difference, remaining),
                    None => {
                        Arc::new(KeyTokens::new(difference.base(), remaining, self.vocabulary.text_tokens()))
                    }
                }
            });
            let configurations = &mut scratch.configurations;
            let to_verify = distinct.to_verify(
                &self.compiled,
                configurations,
                configuration,
                &self.vocabulary,
                |tokens, beyond| union.among(tokens, beyond),
            );
            union.to_verify = to_verify;
        }
        // After the others, which take away tokens whose text is refused.
        scratch.configurations.each_of_tokens(&self.compiled, configuration, |terminal, _| {
            match self.compiled.terminals.scanner(terminal) {
                Scanner::Token(token) => union.add_token(*token),
                Scanner::OneOf(tokens) => union.add_set(TokenMask::as_ref(tokens)),
                _ => {}
            }
        });
        let meter = &mut scratch.configurations.parser.meter;
        scratch.stats.mask_steps = scratch.stats.mask_steps.max(meter.spent());
        let is_beyond = meter.end();
        if is_beyond {
            union = MaskUnion::new(std::mem::take(&mut union.ids));
            union.ids.clear();
        }
        scratch.ids = union.fit();
        scratch.mask_bytes += union.memory_usage();
        scratch.masks.insert(configuration, CachedMask { union, is_young: is_young || is_beyond, is_beyond });
    }

    /// The tokens that used keys remove from the mask of `at`, which was made. `None` if keys are not tracked.
    pub(super) fn removed(
        &self,
        scratch: &mut GrammarScratch,
        at: ConfigurationPair,
    ) -> Option<Arc<[TokenId]>> {
        let (configuration, tracking) = at.tracked.zip(scratch.tracking.as_mut())?;
        if let Some(known) = tracking.removed.get(&configuration) {
            return Some(Arc::clone(known));
        }
        let union = &scratch.masks[&at.for_mask].union;
        let buffer = scratch.buffer.get_or_insert_with(|| TokenMask::new(self.vocab_len()));
        let RepeatCandidates { mut to_verify, to_reject, others, used } =
            repeat_candidates(&self.compiled, &mut tracking.configurations, configuration, &self.trie);
        if let Some(used) = used {
            let mut mask = TokenMask::new(self.vocab_len());
            union.write(mask.as_mut());
            let goes_on = |token: &TokenId| {
                let text = self.vocabulary.text(*token).filter(|text| !text.is_empty());
                text.is_some_and(|text| goes_on(&self.compiled, used, text))
            };
            to_verify.extend(mask.ids().filter(|token| !goes_on(token)));
        }
        if let Some((distinct, texts)) = self.distinct.as_ref().zip(tracking.configurations.texts()) {
            for key in tracking.erasure.take_keys() {
                tracking.containing_used.extend(distinct.containing(texts.of(key)));
            }
        }
        to_verify.extend(&tracking.containing_used);
        to_verify = union.added_among(&to_verify, buffer);
        to_verify.extend_from_slice(&union.to_verify);
        to_verify.sort_unstable();
        to_verify.dedup();
        to_verify.retain(|token| !self.reads_in(&mut tracking.configurations, configuration, *token));
        let mut removed = union.added_among(&to_reject, buffer);
        removed.retain(|token| {
            others.is_none_or(|others| !self.reads_in(&mut tracking.configurations, others, *token))
        });
        if self.compiled.terminals.has_sets() {
            // A token may count as itself where its text is used.
            removed.retain(|token| {
                tracking.configurations.by_id(&self.compiled, configuration, *token).is_none()
            });
        }
        removed.append(&mut to_verify);
        let removed: Arc<[TokenId]> = removed.into();
        // Each of a thousand configurations may remove a thousand tokens.
        if tracking.removed_bytes > self.scratch_bytes / 4 {
            tracking.removed.clear();
            tracking.removed_bytes = 0;
        }
        tracking.removed_bytes += size_of_val(&removed[..]) + 64;
        tracking.removed.insert(configuration, Arc::clone(&removed));
        Some(removed)
    }
}
