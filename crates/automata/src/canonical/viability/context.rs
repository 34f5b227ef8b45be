//! A constraint's texts with the tokenizer that writes them.

use std::collections::HashSet;

use super::{
    language::{DfaLanguage, LazyDfa},
    position::Automata,
};
use crate::{
    canonical::{
        NothingCanonical, SplitLimits,
        index::CanonicalIndex,
        texts::{added::TextDfa, form::texts},
        tokenizer::automaton::Role,
    },
    ids::FormState,
    split::{SplitDfa, SplitOptions},
};

/// A constraint's texts with the tokenizer that writes them.
pub(crate) struct Context<'a, L> {
    pub(crate) language: &'a L,
    /// The texts that the normaliser leaves unchanged.
    pub(crate) form: &'static TextDfa<FormState>,
    pub(crate) index: &'a CanonicalIndex,
}

impl<L> Clone for Context<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Context<'_, L> {}

/// The texts that the normaliser leaves unchanged.
pub(crate) fn texts_of(index: &CanonicalIndex, is_ascii: bool) -> &'static TextDfa<FormState> {
    index.automaton.form.filter(|_| !is_ascii).map_or_else(TextDfa::all, texts)
}

impl<'a, L: LazyDfa> Context<'a, L> {
    pub(crate) fn automata(&self) -> Automata<'a, L> {
        let Self { language, form, index } = *self;
        Automata { language, tokenizer: &index.automaton, form, few_added: index.tuning.few_added }
    }
}

impl Context<'_, DfaLanguage> {
    /// The reason why no sequence is left: some accepted text has only characters that tokens spell, or none has.
    pub(crate) fn why_nothing(&self) -> NothingCanonical {
        let (dfa, CanonicalIndex { automaton: tokenizer, vocabulary, .. }) = (&self.language.dfa, self.index);
        let Some(spelled) = &tokenizer.spelled else { return NothingCanonical::Rewritten };
        let options = SplitOptions { kept: std::slice::from_ref(spelled), ..SplitOptions::default() };
        let Ok(texts) = SplitDfa::new(&[], &options, &SplitLimits::default()) else {
            return NothingCanonical::Rewritten;
        };
        let mut open = vec![(dfa.start(), texts.start())];
        let mut seen: HashSet<_> = open.iter().copied().collect();
        while let Some((state, text)) = open.pop() {
            if dfa.is_accepting(state) && texts.is_accepting(text) {
                return NothingCanonical::Rewritten;
            }
            for edge in dfa.edges(state) {
                let after = edge.bytes.filter_map(|byte| Some((edge.target, texts.step(text, byte)?)));
                open.extend(after.filter(|next| seen.insert(*next)));
            }
        }
        let mut is_written = [false; 256];
        for (token, text) in vocabulary.text_tokens() {
            if tokenizer.roles.get(token.index()).is_some_and(|role| *role != Role::Never) {
                text.iter().for_each(|byte| is_written[usize::from(*byte)] = true);
            }
        }
        let missing = dfa.bytes().filter(|byte| !is_written[usize::from(*byte)]).collect();
        NothingCanonical::Unspellable { missing }
    }
}
