//! Finds the tokens of a mask that would repeat a used key; see [`keys`](crate::unique::keys).
//!
//! A mask is made without knowledge of the used keys. It then has too many tokens, of two kinds:
//!
//! - Tokens that end a used key which was begun before them, or that reach a prefix with used keys alone after it.
//!   They are on the way of a used key through the trie of the vocabulary.
//! - Tokens in which a key begins, and ends or reaches a prefix with few keys after it. For each terminal it is known
//!   which tokens contain which key, and which end with a prefix of few keys: the tokens of a used key are looked up,
//!   and those in which a key ends and another begins are always in question. Where a key was begun before the token,
//!   the mask's tokens in which another key may begin and end are found when the mask is made.
//!
//! The tracking parser reads each of these tokens, and those that it cannot read are removed. All others are right:
//! up to the first point where a key ends or few keys are left, both parsers agree.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::Dfa;
use unskew_core::{TokenId, Vocabulary};
use unskew_grammar::{
    Difference,
    kit::terminal::{
        ScanState,
        remaining::{MANY, Remaining},
    },
};
use unskew_trie::TokenTrie;

use crate::{
    ids::COUNTS,
    network::terminals::ScanTerminal,
    parser::{
        configurations::{Compiled, Configuration, Configurations},
        hypotheses::Hypothesis,
    },
    trees::key_tokens::{KeyTokens, Span, SparseTokens, TokensByText, holds_two, spans},
    unique::{key_effects::Hit, keys::KeySet},
};

/// The terminals of a compiled grammar whose texts are keys.
#[derive(Debug)]
pub(crate) struct DistinctTerminals {
    /// Their numbers.
    terminals: Box<[ScanTerminal]>,
    /// The tokens that contain keys of them, once they were asked for.
    key_tokens: OnceLock<Arc<KeyTokens>>,
}

impl DistinctTerminals {
    /// `None` if there are no such terminals.
    pub(crate) fn new(compiled: &Compiled) -> Option<Self> {
        let all = compiled.terminals.without_literals();
        let terminals: Box<[ScanTerminal]> =
            all.filter(|terminal| compiled.terminals.is_distinct(*terminal)).collect();
        (!terminals.is_empty()).then(|| Self { terminals, key_tokens: OnceLock::new() })
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let tokens =
            self.key_tokens.get().map(|tokens| tokens.memory_usage() + size_of::<KeyTokens>() + COUNTS);
        size_of_val(&self.terminals[..]) + tokens.unwrap_or(0)
    }

    /// The tokens that contain keys of the terminals; more of them where some texts are left out. `of` finds those of
    /// an automaton.
    pub(crate) fn key_tokens(
        &self,
        compiled: &Compiled,
        vocabulary: &Vocabulary,
        of: impl Fn(&Difference, &Remaining) -> Arc<KeyTokens>,
    ) -> &KeyTokens {
        self.key_tokens.get_or_init(|| {
            let languages =
                self.terminals.iter().filter_map(|terminal| compiled.terminals.remaining(*terminal));
            let mut lists: Vec<Arc<KeyTokens>> = Vec::new();
            let mut counted: Vec<(&Arc<Dfa>, &Remaining)> = Vec::new();
            for (difference, remaining) in languages {
                let list = of(difference, remaining);
                if !lists.iter().any(|other| Arc::ptr_eq(other, &list)) {
                    lists.push(list);
                    counted.push((difference.base(), remaining));
                }
            }
            if let [list] = &lists[..] {
                return Arc::clone(list);
            }
            // A token may contain one key of each of two terminals.
            let of_several =
                |token: &TokenId| lists.iter().filter(|list| list.all.contains(*token)).count() > 1;
            let both = |token: &TokenId| {
                let text = vocabulary.text(*token).unwrap_or_default();
                let of = |(base, remaining): &(&Arc<Dfa>, &Remaining)| spans(base, remaining, text);
                let spans: Vec<Span> = counted.iter().flat_map(of).collect();
                holds_two(&spans)
            };
            let mut all: Vec<TokenId> = lists.iter().flat_map(|list| list.all.ids()).collect();
            let mut twice: Vec<TokenId> = lists.iter().flat_map(|list| list.twice.ids()).collect();
            all.sort_unstable();
            all.dedup();
            twice.extend(all.iter().copied().filter(|token| of_several(token) && both(token)));
            let merged = |of: fn(&KeyTokens) -> &TokensByText| {
                let mut merged = TokensByText::new();
                for (text, tokens) in lists.iter().flat_map(|list| of(list)) {
                    merged.entry(text.clone()).or_default().extend_from_slice(tokens);
                }
                merged
            };
            let mut begins: HashMap<TokenId, SmallVec<[u32; 4]>> = HashMap::new();
            for (token, more) in lists.iter().flat_map(|list| &list.begins) {
                let begins = begins.entry(*token).or_default();
                begins.extend_from_slice(more);
                begins.sort_unstable();
                begins.dedup();
            }
            Arc::new(KeyTokens {
                all: SparseTokens::new(all),
                twice: SparseTokens::new(twice),
                by_text: merged(|list| &list.by_text),
                by_prefix: merged(|list| &list.by_prefix),
                begins,
            })
        })
    }

    /// The tokens [of](KeyTokens::of) this key, once [`key_tokens`](Self::key_tokens) was called.
    pub(crate) fn containing(&self, key: &[u8]) -> impl Iterator<Item = TokenId> {
        self.key_tokens.get().into_iter().flat_map(move |tokens| tokens.of(key))
    }

    /// The tokens of a mask in which a key may end that is not used yet, and then occur again. `configurations` track
    /// nothing; `among` says which of some tokens the mask has, and, if asked, which of them do more than to continue
    /// a terminal that was begun.
    pub(crate) fn to_verify(
        &self,
        compiled: &Compiled,
        configurations: &mut Configurations,
        configuration: Configuration,
        vocabulary: &Vocabulary,
        among: impl Fn(&SparseTokens, bool) -> Vec<TokenId>,
    ) -> Vec<TokenId> {
        let Some(key_tokens) = self.key_tokens.get() else { return Vec::new() };
        let is_distinct = |terminal: ScanTerminal| compiled.terminals.is_distinct(terminal);
        let hypotheses = configurations.hypotheses(configuration);
        if !hypotheses.iter().any(|hypothesis| hypothesis.terminal.is_some_and(is_distinct)) {
            return among(&key_tokens.twice, false);
        }
        // The key that was begun before the token may occur again in it.
        let mut tokens = among(&key_tokens.all, true);
        // By the bytes before a key: the terminals that may begin after them.
        let mut beginning: HashMap<&[u8], SmallVec<[ScanTerminal; 8]>> = HashMap::new();
        tokens.retain(|token| {
            let text = vocabulary.text(*token).unwrap_or_default();
            let begins = key_tokens.begins.get(token).map_or(&[][..], |begins| begins);
            begins.iter().any(|begin| {
                let (before, text) = text.split_at(*begin as usize);
                let beginning = beginning
                    .entry(before)
                    .or_insert_with(|| configurations.beginning(compiled, configuration, before));
                let mut distinct = beginning.iter().filter(|terminal| is_distinct(**terminal));
                distinct.any(|terminal| may_end(compiled, *terminal, text))
            })
        });
        tokens
    }
}

/// Whether `text` begins with a key of `terminal`, or is a prefix of few of them.
fn may_end(compiled: &Compiled, terminal: ScanTerminal, text: &[u8]) -> bool {
    let terminals = &compiled.terminals;
    let Some((first, rest)) = text.split_first() else { return false };
    let mut state = terminals.first(terminal, terminals.class(*first));
    let mut rest = rest.iter();
    while let Some(at) = state {
        if terminals.is_accepting(terminal, at) {
            return true;
        }
        let Some(byte) = rest.next() else {
            let remaining = terminals.remaining(terminal);
            return remaining.is_some_and(|(of, remaining)| remaining.of(of.state(at)) < MANY);
        };
        state = terminals.step(terminal, at, terminals.class(*byte));
    }
    false
}

/// Tokens on the ways of used keys. Some of them may not be in the mask.
#[derive(Default, Debug)]
pub(crate) struct RepeatCandidates {
    /// Tokens that pass the end of a used key, or a prefix of few keys.
    pub(crate) to_verify: Vec<TokenId>,
    /// Tokens that pass the end of a used key, and that one hypothesis cannot read in any way.
    pub(crate) to_reject: Vec<TokenId>,
    /// The configuration of all other hypotheses, if there are any.
    pub(crate) others: Option<Configuration>,
    /// A terminal and its state, if a used key of it may end before the token. All tokens that do not
    /// [continue](goes_on) it are in question.
    pub(crate) used: Option<(ScanTerminal, ScanState)>,
}

/// Whether the terminal reads all of `bytes` from this state on.
pub(crate) fn goes_on(
    compiled: &Compiled,
    (terminal, state): (ScanTerminal, ScanState),
    bytes: &[u8],
) -> bool {
    let terminals = &compiled.terminals;
    let step = |state, byte: &u8| terminals.step(terminal, state, terminals.class(*byte));
    bytes.iter().try_fold(state, step).is_some()
}

/// The tokens on the ways of used keys, from `configuration`, in which keys are tracked. O(log n) for n used keys,
/// and a look at each of these tokens.
pub(crate) fn repeat_candidates(
    compiled: &Compiled,
    configurations: &mut Configurations,
    configuration: Configuration,
    trie: &TokenTrie,
) -> RepeatCandidates {
    let terminals = &compiled.terminals;
    let mut found = RepeatCandidates::default();
    for at in 0..configurations.hypotheses(configuration).len() {
        let Hypothesis { terminal, progress, parser_state, .. } =
            configurations.hypotheses(configuration)[at];
        let Some(terminal) = terminal.filter(|terminal| terminals.is_distinct(*terminal)) else { continue };
        let prefix = progress.prefix();
        let Some(pending) = configurations.pending(compiled, parser_state, terminal) else { continue };
        let mut sets: SmallVec<[KeySet; 4]> = configurations.parser.keys_before(pending).collect();
        sets.sort_unstable();
        sets.dedup();
        let Some(texts) = configurations.texts_mut() else { continue };
        let state = texts.state(prefix);
        if terminals.is_accepting(terminal, state) {
            let key = texts.whole(prefix);
            if sets.iter().any(|set| configurations.parser.key_sets.contains(*set, key)) {
                found.used = Some((terminal, state));
            }
        }
        let is_first = found.to_reject.is_empty();
        let Some((mut tables, effects)) = configurations.key_effects(compiled) else { continue };
        for set in &sets {
            for Hit { at, is_last } in effects.hits(&mut tables, trie, (terminal, prefix), *set) {
                let rest = tables.texts.bytes(Some(prefix), at);
                let tokens = trie.beginning_with(&rest);
                if !is_last {
                    // The used key does not end in the tokens that continue it.
                    let used = (terminal, tables.texts.state(at));
                    let after =
                        |token: TokenId| &trie.vocabulary().text(token).unwrap_or_default()[rest.len()..];
                    let ends = |token: &&TokenId| !goes_on(compiled, used, after(**token));
                    found.to_verify.extend(tokens.iter().filter(ends));
                    continue;
                }
                let mut before =
                    tables.texts.since(Some(prefix), at).filter_map(|(at, _)| tables.texts.last(at).0);
                let has_ended = before.any(|at| terminals.is_accepting(terminal, tables.texts.state(at)));
                // If all items have the same used keys, no item reads these tokens.
                let is_rejected = is_first && sets.len() == 1 && !has_ended;
                let list = if is_rejected { &mut found.to_reject } else { &mut found.to_verify };
                list.extend_from_slice(tokens);
            }
        }
        if is_first && !found.to_reject.is_empty() {
            found.others = configurations.without(configuration, at);
        }
    }
    found
}
