//! The constraint: which tokens may follow, for a grammar over a vocabulary.
//!
//! Without a library, a mask is a walk over the vocabulary through [configurations](crate::parser::configurations),
//! which are created as the walk needs them. So it holds every token that can be continued, however many terminals
//! end inside it. That is DOMINO's mask without a limit of lookahead (Beurer-Kellner, Fischer, Vechev: "Guiding LLMs
//! The Right Way", 2024), which the paper calls minimally invasive. With a library, a mask is a union of paths
//! through [subterminal trees](crate::mask), bit for bit the same.
//!
//! Every text that was read can be completed: rules hold only symbols that have a text, and every byte that the
//! grammar uses is a token by itself. So a mask needs no look ahead, and there are no dead ends.
//!
//! | file | contents |
//! |---|---|
//! | `state` | the state of a sequence |
//! | `budgets` | the states of a grammar with a budget of tokens |
//! | `scratch` | the tables of a constraint |
//! | `steps` | from a state to its configurations, and the configuration after a token |
//! | `masks` | the mask of a configuration |
//! | `canonical/` | the sequences that the tokenizer itself writes |

mod budgets;
#[cfg(feature = "canonical")]
pub(crate) mod canonical;
mod masks;
mod scratch;
mod state;
mod steps;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::{HashMap, HashSet};
use unskew_core::{Constraint, MaskMut, MaskRef, Reach, Rejected, TokenId, TokenMask, Vocabulary};
use unskew_trie::{ByteSet, TokenTrie};

pub use self::{scratch::GrammarScratch, state::GrammarState};
use unskew_grammar::{
    Grammar, GrammarError, GrammarLimits,
    kit::budget::{self, Left},
};

use self::{
    scratch::Tracking,
    state::{ConfigurationPair, RecentTokens},
};
use crate::{
    Capture, CaptureError,
    captures::Captures,
    ids::Id,
    mask::{
        builder::{Buffers, ScratchNodes},
        fragments::Fragments,
        grammar_trees::GrammarTrees,
        repeats::DistinctTerminals,
    },
    network::{
        end_tokens,
        last_bytes::last_bytes,
        rules::Rules,
        terminals::{Terminals, numbering},
        written::{Changed, LeftOut, nothing_written, written},
    },
    parser::{
        configurations::{Compiled, Configuration, Configurations},
        erasure::Erasure,
        snapshot::SnapshotTable,
    },
    stats::GrammarStats,
    trees::library::TreeLibrary,
    tuning::Tuning,
    unique::follow_check,
};

/// Token sequences whose text is a word of a grammar.
///
/// Every spelling is allowed, and a token may end any number of terminals. The grammar may be ambiguous,
/// left-recursive and cyclic.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
/// use unskew_grammar::{Grammar, GrammarLimits};
/// use unskew_grammars::GrammarConstraint;
/// use unskew_trie::TokenTrie;
///
/// // value = "[" value* "]"
/// let limits = GrammarLimits::default();
/// let mut builder = Grammar::builder(&limits);
/// let value = builder.rule("value");
/// let inner = builder.call(value);
/// let inner = builder.repeat(inner, 0, None);
/// let (open, close) = (builder.literal("["), builder.literal("]"));
/// let body = builder.sequence([open, inner, close]);
/// builder.define(value, body);
/// let grammar = builder.build(value)?;
///
/// let mut vocabulary = Vocabulary::builder();
/// let [open, close, pair, many] = ["[", "]", "[]", "]]]"].map(|text| vocabulary.text(text.as_bytes()));
/// let trie = Arc::new(TokenTrie::new(vocabulary.build()?)?);
/// let constraint = GrammarConstraint::new(&grammar, trie, &limits)?;
///
/// let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
/// for token in [open, open] {
///     constraint.advance(&mut scratch, &mut state, token)?;
/// }
/// let mut mask = TokenMask::new(4);
/// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [open, close, pair]); // three brackets would be too many
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GrammarConstraint {
    compiled: Compiled,
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    /// The trees of the library, if one is used.
    trees: Option<GrammarTrees>,
    start: GrammarState,
    /// The terminals whose texts are keys, if there are some.
    distinct: Option<DistinctTerminals>,
    scratch_bytes: usize,
    state_items: usize,
    mask_steps: u64,
    /// The rules once more, where some of them are captures.
    captures: Option<Arc<Captures>>,
    /// The bytes with which outputs end, and perhaps more, once they were asked for.
    last_bytes: OnceLock<ByteSet>,
    /// The terminals that have lost texts which no tokens write.
    changed: Changed,
}

/// A configuration without enclosing continuations: by hypothesis, the terminal, its progress, and the positions of
/// its parser state.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) hypotheses: Vec<(u32, u32, Vec<u32>)>,
}

static STAMPS: AtomicU64 = AtomicU64::new(1);

impl GrammarConstraint {
    /// The constraint that the whole output is a word of `grammar`, over the vocabulary of `trie`.
    ///
    /// Cost: O(n) for n symbols in the rules, independent of the vocabulary.
    ///
    /// # Errors
    ///
    /// [`GrammarError`]: no text is accepted, a limit is passed, the vocabulary lacks a control token or a byte, or a
    /// text may follow an end-of-sequence token.
    pub fn new(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        Self::compile(grammar, trie, limits, Tuning::default())
    }

    /// As [`new`](Self::new), with subterminal trees that grammars over the same vocabulary share. Masks are the
    /// same.
    ///
    /// A library also keeps fragments of the masks of this grammar, as long as there is room. When the grammar is
    /// compiled again, for another request, its masks are put together from them.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_library(
        grammar: &Grammar,
        library: &Arc<TreeLibrary>,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let mut constraint = Self::compile(grammar, Arc::clone(library.trie()), limits, library.tuning)?;
        constraint.trees = Some(GrammarTrees::new(library, &constraint.compiled));
        Ok(constraint)
    }

    fn compile(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
        tuning: Tuning,
    ) -> Result<Self, GrammarError> {
        let walk = |grammar: &Grammar, tokens, left: &mut Left<'_>| {
            budgets::walk(grammar, tokens, &trie, limits, left)
        };
        let whole = &*budget::written_out(grammar, trie.vocabulary(), limits, &walk)?;
        let (grammar, changed) = written(whole, &trie, limits)?;
        let grammar = &*grammar;
        let numbering = numbering(grammar);
        let rules = match Rules::new(grammar, &numbering, limits) {
            Err(error @ GrammarError::Empty { .. }) => {
                return Err(nothing_written(whole, &changed, &trie).unwrap_or(error));
            }
            rules => rules?,
        };
        let changed = Changed::new(whole, &changed);
        follow_check::check(grammar)?;
        let used = rules.used_terminals(numbering.len());
        let terminals = Terminals::new(grammar, &numbering, &used, &trie)?;
        end_tokens::check(grammar, &numbering, &rules, &terminals)?;
        let compiled = Compiled { rules, terminals, start: grammar.start(), tuning };
        let distinct = DistinctTerminals::new(&compiled);
        let mut configurations = match distinct {
            Some(_) => Configurations::tracking(&compiled),
            None => Configurations::new(&compiled),
        };
        let start = GrammarState {
            snapshot: SnapshotTable::default().export(&configurations, &compiled, Configurations::START),
            recent: RecentTokens::default(),
            may_end: configurations.may_end(&compiled, Configurations::START),
            stamp: 0,
            at: ConfigurationPair { for_mask: Configurations::START, tracked: None },
        };
        let GrammarLimits { scratch_bytes, state_items, mask_steps, .. } = *limits;
        let vocabulary = Arc::clone(trie.vocabulary());
        let captures = Captures::new(grammar, &vocabulary, limits)?.map(Arc::new);
        Ok(Self {
            compiled,
            vocabulary,
            trie,
            trees: None,
            start,
            distinct,
            scratch_bytes,
            state_items,
            mask_steps,
            captures,
            last_bytes: OnceLock::new(),
            changed,
        })
    }

    /// The characters of the grammar that no tokens write; `None`: they write all of them. O(n) for the characters of
    /// Unicode.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.changed.left_out(&self.trie)
    }

    /// Whether the grammar names parts of its outputs.
    pub fn has_captures(&self) -> bool {
        self.captures.as_ref().is_some_and(|captures| captures.has_names())
    }

    /// The temperature that the grammar asks for at the token after `output`, the tokens so far: the highest one of
    /// the terminals that may go on there, where a terminal has that of the innermost rule around it with one. `None`
    /// if no such rule has one.
    ///
    /// It is for samplers that want it, and changes no mask. A sampler that follows it draws from another
    /// distribution than the model's at one temperature. Cost: as for [`captures`](Self::captures).
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the output has too many readings, or lazy terminals compete with others.
    pub fn temperature(&self, output: &[TokenId]) -> Result<Option<f64>, CaptureError> {
        match &self.captures {
            Some(captures) => captures.temperature(output),
            None => Ok(None),
        }
    }

    /// The reader of captures and temperatures, where the grammar has any: it outlives the constraint.
    pub fn capture_reader(&self) -> Option<&Arc<Captures>> {
        self.captures.as_ref()
    }

    /// The parts of a whole output that the grammar names, with their places: by where they begin, and the outer ones
    /// first.
    ///
    /// Of several readings the first one counts. A rule takes its first alternative that reads the text. In a
    /// sequence each part, and in a repetition each round, takes as much text as the rest allows, from the left; a
    /// round has a text, and a part that may be left out is there if it can be. Where lazy terminals compete with
    /// others, or terminals look around, the rules are rewritten first, and the reading is one of those that the
    /// output has.
    ///
    /// Cost: O(n) steps for most grammars of data and code and n tokens, and O(n^3) for ambiguous ones.
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the output is not whole, has too many readings, or has no first one.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_core::{TokenId, Vocabulary};
    /// use unskew_grammar::GrammarLimits;
    /// use unskew_grammars::GrammarConstraint;
    /// use unskew_notation::{GrammarOptions, from_lark};
    /// use unskew_trie::TokenTrie;
    ///
    /// let text = r#"
    /// start: "call " name "(" arg ("," arg)* ")"
    /// name[capture]: /[a-z]+/
    /// arg[capture="argument"]: /[0-9]+/
    /// "#;
    /// let limits = GrammarLimits::default();
    /// let grammar = from_lark(text, &GrammarOptions::default(), &limits)?;
    /// let mut bytes = Vocabulary::builder();
    /// (0..=255u8).for_each(|byte| _ = bytes.text(&[byte]));
    /// let trie = Arc::new(TokenTrie::new(bytes.build()?)?);
    /// let constraint = GrammarConstraint::new(&grammar, trie, &limits)?;
    /// let output: Vec<TokenId> = b"call add(1,23)".iter().map(|byte| TokenId(u32::from(*byte))).collect();
    /// let found = constraint.captures(&output)?;
    /// let found: Vec<_> = found.iter().map(|one| (&*one.name, &*one.text, one.bytes.clone())).collect();
    /// assert_eq!(found, [("name", &b"add"[..], 5..8), ("argument", b"1", 9..10), ("argument", b"23", 11..13)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn captures(&self, output: &[TokenId]) -> Result<Vec<Capture>, CaptureError> {
        match &self.captures {
            Some(captures) => captures.read(output),
            None => Ok(Vec::new()),
        }
    }

    /// The memory of the compiled grammar, in bytes: rules, literals and automata, and the tokens that contain keys
    /// or texts which are left out, once a mask has asked for them. A [`Grammar`] or a [`TreeLibrary`] may share
    /// them. Vocabulary, trie and library are not counted. O(n) for n terminals and such tokens.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.compiled.rules.memory_usage()
            + self.compiled.terminals.memory_usage()
            + self.trees.as_ref().map_or(0, GrammarTrees::memory_usage)
            + self.distinct.as_ref().map_or(0, DistinctTerminals::memory_usage)
            + self.captures.as_ref().map_or(0, |captures| captures.memory_usage())
    }

    /// Whether a state depends on the text alone, and not on the tokens that spell it: no terminal is
    /// [one token of a set](unskew_grammar::GrammarBuilder::one_of).
    pub fn is_of_text(&self) -> bool {
        !self.compiled.terminals.has_sets()
    }

    /// The configuration of the state, which is its number as long as the scratch is not emptied.
    fn number(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Configuration {
        self.at(scratch, state).of_text()
    }

    /// Advances `state`, whose configurations in `scratch` are `at`.
    fn advance_at(
        &self,
        scratch: &mut GrammarScratch,
        at: ConfigurationPair,
        state: &mut GrammarState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let next = self.after_within(scratch, at, token, self.mask_steps)?;
        let Some(next) = next else { return Err(Rejected::new(token)) };
        let at = self.pair_of(scratch, next);
        let (configurations, snapshots) = scratch.of_text();
        match state.recent.with(token) {
            Some(recent) => state.recent = recent,
            None => {
                state.snapshot = snapshots.export(configurations, &self.compiled, next);
                state.recent = RecentTokens::default();
            }
        }
        state.may_end = configurations.may_end(&self.compiled, next) && !self.grows_beyond(scratch, at);
        (state.stamp, state.at) = (scratch.stamp, at);
        Ok(())
    }

    /// The state that is `configuration` of `scratch`, in the tracking parser if there is one.
    #[cfg(feature = "canonical")]
    fn state_of(&self, scratch: &mut GrammarScratch, configuration: Configuration) -> GrammarState {
        let at = self.pair_of(scratch, configuration);
        let (configurations, snapshots) = scratch.of_text();
        GrammarState {
            snapshot: snapshots.export(configurations, &self.compiled, configuration),
            recent: RecentTokens::default(),
            may_end: configurations.may_end(&self.compiled, configuration),
            stamp: scratch.stamp,
            at,
        }
    }

    pub(crate) fn context(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Context {
        let ConfigurationPair { for_mask: configuration, .. } = self.at(scratch, state);
        let Configurations { parser, .. } = &scratch.configurations;
        let hypotheses = scratch.configurations.hypotheses(configuration).iter().map(|hypothesis| {
            let mut positions: Vec<u32> = parser
                .items(hypothesis.parser_state)
                .iter()
                .map(|(position, ..)| parser.name(*position))
                .collect();
            positions.dedup();
            (hypothesis.terminal.map_or(u32::MAX, Id::raw), hypothesis.progress.raw(), positions)
        });
        let mut hypotheses: Vec<_> = hypotheses.collect();
        // Their order depended on numbers of this scratch.
        hypotheses.sort_unstable();
        Context { hypotheses }
    }
}

impl Constraint for GrammarConstraint {
    type State = GrammarState;
    type Scratch = GrammarScratch;

    fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    fn start(&self) -> GrammarState {
        self.start.clone()
    }

    fn scratch(&self) -> GrammarScratch {
        GrammarScratch {
            stamp: STAMPS.fetch_add(1, Ordering::Relaxed),
            configurations: Configurations::new(&self.compiled),
            snapshots: SnapshotTable::default(),
            known: ScratchNodes::default(),
            buffers: Buffers::default(),
            fragments: Fragments::default(),
            ids: Vec::new(),
            to_verify: Vec::new(),
            masks: HashMap::new(),
            buffer: None,
            mask_bytes: 0,
            tracking: self.distinct.as_ref().map(|_| Tracking {
                configurations: Configurations::tracking(&self.compiled),
                snapshots: SnapshotTable::default(),
                erasure: Erasure::default(),
                removed: HashMap::new(),
                removed_bytes: 0,
                containing_used: HashSet::new(),
            }),
            turns: self.trees.as_ref().map_or(0, |trees| trees.library.cache.turns()),
            is_half_full: false,
            stats: GrammarStats::default(),
        }
    }

    /// O(b) for a token of b bytes if the scratch has read it here before.
    fn advance(
        &self,
        scratch: &mut GrammarScratch,
        state: &mut GrammarState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let at = self.at(scratch, state);
        if let Some(limit) = self.beyond(scratch, at) {
            return Err(Rejected::beyond(token, limit));
        }
        self.advance_at(scratch, at, state, token)
    }

    fn is_accepting(&self, state: &GrammarState) -> bool {
        state.may_end
    }

    /// O(v) for v ids if the scratch has the mask.
    fn fill_mask(&self, scratch: &mut GrammarScratch, state: &GrammarState, mask: MaskMut<'_>) {
        let at = self.at(scratch, state);
        scratch.stats.masks += 1;
        let mut mask = mask;
        if self.beyond(scratch, at).is_some() {
            mask.clear();
            return;
        }
        self.make_mask(scratch, at.for_mask);
        scratch.masks[&at.for_mask].union.write(mask.reborrow());
        if let Some(removed) = self.removed(scratch, at) {
            removed.iter().for_each(|token| mask.remove(*token));
        }
    }

    fn ready_mask<'a>(&'a self, scratch: &'a GrammarScratch, state: &GrammarState) -> Option<MaskRef<'a>> {
        let ConfigurationPair { for_mask, tracked } = state.known(scratch)?;
        if let Some((tracked, tracking)) = tracked.zip(scratch.tracking.as_ref()) {
            // It is ready if used keys are known to remove nothing.
            if !tracking.removed.get(&tracked)?.is_empty() {
                return None;
            }
        }
        let words = scratch.masks.get(&for_mask).filter(|mask| !mask.is_beyond)?.union.ready()?;
        Some(MaskRef::new(words, self.vocab_len()))
    }

    /// Reads the token's bytes; no mask is made. DOMINO calls that opportunistic masking.
    fn allows(&self, scratch: &mut GrammarScratch, state: &GrammarState, token: TokenId) -> bool {
        let at = self.at(scratch, state);
        self.beyond(scratch, at).is_none()
            && self.after_within(scratch, at, token, self.mask_steps).is_ok_and(|next| next.is_some())
    }

    /// A hash of the hypotheses, with the rules that they are in and the keys that were used. Takes as long as a
    /// snapshot.
    fn state_key(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Option<u64> {
        let at = self.at(scratch, state);
        let (configurations, snapshots) = scratch.of_text();
        Some(snapshots.key(configurations, &self.compiled, at.of_text()))
    }

    fn reach(&self, scratch: &mut GrammarScratch, state: &GrammarState, text: &[u8]) -> Option<Reach> {
        let at = self.at(scratch, state);
        Some(self.reach_of(scratch, at, text))
    }

    fn may_end_with(&self, byte: u8) -> bool {
        let Compiled { rules, terminals, start, .. } = &self.compiled;
        self.last_bytes.get_or_init(|| last_bytes(rules, terminals, *start)).contains(byte)
    }

    fn forced(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let at = self.at(scratch, state);
        if self.beyond(scratch, at).is_some() {
            return None;
        }
        self.make_mask(scratch, at.for_mask);
        match self.removed(scratch, at) {
            Some(removed) if !removed.is_empty() => {
                let mut mask = TokenMask::new(self.vocab_len());
                scratch.masks[&at.for_mask].union.write(mask.as_mut());
                removed.iter().for_each(|token| mask.as_mut().remove(*token));
                let mut ids = mask.ids();
                ids.next().filter(|_| ids.next().is_none())
            }
            _ => scratch.masks[&at.for_mask].union.only(),
        }
    }
}

impl fmt::Debug for GrammarConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarConstraint")
            .field("positions", &self.compiled.rules.len())
            .field("vocabulary", &self.vocabulary)
            .finish_non_exhaustive()
    }
}
