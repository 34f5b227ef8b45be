//! The constraint: which tokens may follow, for a grammar over a vocabulary.
//!
//! A mask is a walk over the vocabulary through [places](crate::parser::places), which are made as the walk needs them; so it holds
//! every token that leads on, however many terminals end inside it. That is DOMINO's mask without a limit of lookahead
//! (Beurer-Kellner, Fischer, Vechev: "Guiding LLMs The Right Way", 2024), which the paper calls minimally invasive.
//!
//! Whatever has been read can be completed: rules hold only what has a text, terminals likewise, and every byte that the
//! grammar uses is a token by itself. So a mask needs no look ahead, and there are no dead ends.

mod scratch;
mod state;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::{HashMap, HashSet};
use unskew_core::{Constraint, MaskMut, MaskRef, Rejected, TokenId, TokenKind, TokenMask, Vocabulary};
use unskew_trie::TokenTrie;

pub use self::{scratch::GrammarScratch, state::GrammarState};
use self::{
    scratch::{Made, Tracking},
    state::{At, Since},
};
use crate::{
    GrammarError, GrammarLimits,
    grammar::data::Grammar,
    mask::{
        contexts::Contexts,
        maker::{Buffers, KnownNodes, Maker, Trees, Walk},
        pieces::Pieces,
        tracked::{Distinct, OnUsedWays, goes_on, on_used_ways},
    },
    munch,
    network::{
        end_tokens,
        rules::{Position, Rules},
        terminals::{Scanner, Terminals, names},
    },
    parser::{
        places::{Compiled, DEAD, Place, Places},
        portable::Exchange,
        untracked::{Both, Untracked},
    },
    stats::GrammarStats,
    trees::{holding::Holding, nodes::TreeLibrary},
    unique::ends,
};

/// Token sequences whose text is a word of a grammar.
///
/// Every spelling is allowed, and a token may end any number of terminals. The grammar may be ambiguous, left-recursive and
/// cyclic.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
/// use unskew_trie::TokenTrie;
/// use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits};
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
    /// Where a library is used.
    trees: Option<Trees>,
    start: GrammarState,
    /// Where texts may not come twice: what is known of them.
    distinct: Option<Distinct>,
    scratch_bytes: usize,
    state_items: usize,
}

/// Where a parse is, without what encloses it: by reading, the terminal, how far it is read, and the positions behind it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) readings: Vec<(u32, u32, Vec<Position>)>,
}

/// How texts are cut into terminals.
enum Cut {
    /// In every way.
    Every,
    /// With at most so many ends of terminals inside a token.
    Lookahead(u32),
    /// By maximal munch.
    Longest,
}

static STAMPS: AtomicU64 = AtomicU64::new(1);

impl GrammarConstraint {
    /// The constraint that the whole output is a word of `grammar`, over the vocabulary of `trie`.
    ///
    /// Cost: O(n) for n symbols in the rules; nothing is done for each token.
    ///
    /// # Errors
    ///
    /// [`GrammarError`]: no text is accepted, a limit, a control token or a byte that the vocabulary does not have, or an
    /// end-of-sequence token behind which something may follow.
    pub fn new(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        Self::compile(grammar, trie, limits, Cut::Every)
    }

    /// As [`new`](Self::new), with subterminal trees that are shared with other grammars over the same vocabulary. Masks are
    /// the same.
    ///
    /// A library also keeps what the masks of this grammar are made of, as long as there is room: who compiles it again, for another
    /// request, begins with what was found out before.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_library(
        grammar: &Grammar,
        library: &Arc<TreeLibrary>,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let mut constraint = Self::compile(grammar, Arc::clone(library.trie()), limits, Cut::Every)?;
        constraint.trees = Some(Trees::new(library, &constraint.compiled));
        Ok(constraint)
    }

    /// As [`new`](Self::new), but a token is allowed only if at most `lookahead` terminals end inside it, not counting one
    /// that ended in front of it.
    ///
    /// That is **lossy**: what the model would have written with longer tokens is refused, and the distribution of its outputs
    /// changes. It is here to measure by how much (DOMINO, table 4). There are no dead ends, since single bytes end nothing.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_lookahead(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
        lookahead: u32,
    ) -> Result<Self, GrammarError> {
        Self::compile(grammar, trie, limits, Cut::Lookahead(lookahead))
    }

    /// As [`new`](Self::new), but texts are cut into terminals by **maximal munch**, as by the scanner of a compiler.
    ///
    /// A text is cut from left to right. All terminals that may follow where one is begun are read side by side from there.
    /// In front of a byte with which any of them goes on, none of them ends; in front of any other byte, all of them end whose
    /// text is complete. Several that end together, a keyword and a name, are all kept: there are no priorities. The end of
    /// the output ends a terminal wherever its text may end. Nothing is taken back: where `"list" | "listen"` and then `"ed"`
    /// may follow, `listed` is refused, for behind `list` the `e` goes on with `listen`.
    ///
    /// The words are some of those of [`new`](Self::new), so a language model writes less freely; it is for outputs that
    /// a program with such a scanner is to read. Terminals are those of the grammar's language: in Lark its terminals, texts
    /// and regexes; in GBNF and EBNF each text and each class, so that a name there is many terminals of one character.
    ///
    /// There are no dead ends here either. Whether a grammar comes to one is checked when it is compiled, by a way that may
    /// refuse more than it must; what grammars of programming languages do, names and keywords, white space between terminals
    /// and operators that begin with others, passes.
    ///
    /// Cost: masks are walks over the vocabulary; trees, which [`with_library`](Self::with_library) shares, know nothing of
    /// this. The check takes about the square of what may follow in one place, within [`GrammarLimits::munch_steps`].
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and [`GrammarError::MunchDeadEnd`], [`GrammarError::NoMunch`] for distinct and counted
    /// terminals, differences of texts and members in any order, and [`GrammarError::MunchTooCostly`].
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_core::{Constraint, TokenId, Vocabulary};
    /// use unskew_trie::TokenTrie;
    /// use unskew_grammars::{Grammar, GrammarConstraint, GrammarError, GrammarLimits, LarkOptions};
    ///
    /// let mut vocabulary = Vocabulary::builder();
    /// for byte in 0..=255 {
    ///     vocabulary.text(&[byte]);
    /// }
    /// let trie = Arc::new(TokenTrie::new(vocabulary.build()?)?);
    /// let munch = |text: &str| {
    ///     let limits = GrammarLimits::default();
    ///     let grammar = Grammar::from_lark(text, &LarkOptions::default(), &limits)?;
    ///     GrammarConstraint::with_maximal_munch(&grammar, trie.clone(), &limits)
    /// };
    /// let constraint = munch("start: \"let\" NAME\nNAME: /[a-z]+/\n%ignore \" \"")?;
    /// let accepts = |text: &[u8]| {
    ///     let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    ///     let mut tokens = text.iter().map(|byte| TokenId(u32::from(*byte)));
    ///     tokens.all(|token| constraint.advance(&mut scratch, &mut state, token).is_ok())
    ///         && constraint.is_accepting(&state)
    /// };
    /// assert!(accepts(b"let x") && accepts(b"letx")); // no name may stand where `let` does
    ///
    /// // Behind a name only a name may follow, and it never ends in front of one.
    /// let refused = munch("start: NAME NAME\nNAME: /[a-z]+/").unwrap_err();
    /// assert!(matches!(refused, GrammarError::MunchDeadEnd { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_maximal_munch(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        Self::compile(grammar, trie, limits, Cut::Longest)
    }

    fn compile(
        grammar: &Grammar,
        trie: Arc<TokenTrie>,
        limits: &GrammarLimits,
        cut: Cut,
    ) -> Result<Self, GrammarError> {
        let names = names(grammar);
        let rules = Rules::new(grammar, &names, limits)?;
        ends::check(grammar)?;
        let used = rules.used_terminals(names.len());
        let terminals = Terminals::new(grammar, &names, &used, &trie)?;
        end_tokens::check(grammar, &names, &rules, &terminals)?;
        if let Cut::Longest = cut {
            munch::check(grammar, &names, &rules, &terminals, limits)?;
        }
        let lookahead = if let Cut::Lookahead(lookahead) = cut { Some(lookahead) } else { None };
        let munches = matches!(cut, Cut::Longest);
        let compiled = Compiled { rules, terminals, start: grammar.start().0, lookahead, munches };
        let distinct = Distinct::new(&compiled);
        let mut places = match distinct {
            Some(_) => Places::tracking(&compiled),
            None => Places::new(&compiled),
        };
        let start = GrammarState {
            portable: Exchange::default().export(&places, &compiled, Places::START),
            since: Since::default(),
            may_end: places.may_end(&compiled, Places::START),
            stamp: 0,
            at: At { place: Places::START, tracked: None },
        };
        let GrammarLimits { scratch_bytes, state_items, .. } = *limits;
        let vocabulary = Arc::clone(trie.vocabulary());
        Ok(Self { compiled, vocabulary, trie, trees: None, start, distinct, scratch_bytes, state_items })
    }

    /// The memory that the compiled grammar takes, in bytes: rules, literals and automata, of which a [`Grammar`] or a
    /// [`TreeLibrary`] may hold the same. Vocabulary, trie and library are not counted. O(n) for n terminals.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.compiled.rules.memory_usage() + self.compiled.terminals.memory_usage()
    }

    /// Whether a state depends on the text alone, and not on the tokens that spell it: no terminal is
    /// [one token of a set](crate::GrammarBuilder::one_of).
    pub fn is_of_text(&self) -> bool {
        !self.compiled.terminals.has_sets()
    }

    pub(crate) fn context(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Context {
        let At { place, .. } = self.at(scratch, state);
        let Places { parser, .. } = &scratch.places;
        let readings = scratch.places.readings(place).iter().map(|reading| {
            let mut positions: Vec<Position> =
                parser.items(reading.todo).iter().map(|(position, ..)| parser.name(*position)).collect();
            positions.dedup();
            (reading.terminal, reading.state, positions)
        });
        let mut readings: Vec<_> = readings.collect();
        // Their order was that of numbers of this scratch.
        readings.sort_unstable();
        Context { readings }
    }

    /// How `state` is called in `scratch`.
    fn at(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> At {
        let bytes = scratch.memory_usage();
        scratch.is_half_full = bytes > self.scratch_bytes / 2;
        if bytes > self.scratch_bytes {
            self.renew(scratch);
        }
        if let Some(trees) = &self.trees {
            scratch.follow(trees.library.kept.turns());
        }
        if state.stamp == scratch.stamp {
            return state.at;
        }
        let place = match &mut scratch.tracking {
            Some(Tracking { places, exchange, .. }) => {
                exchange.import(places, &self.compiled, &state.portable)
            }
            None => scratch.exchange.import(&mut scratch.places, &self.compiled, &state.portable),
        };
        let mut at = self.named(scratch, place);
        for token in state.since.tokens() {
            let next = self.behind(scratch, at, *token).expect("it was read before");
            at = self.named(scratch, next);
        }
        at
    }

    /// Empties the tables, but for the masks that were asked for since they were half full: their places are spelled out and read
    /// again, as far as that fills no more than half.
    fn renew(&self, scratch: &mut GrammarScratch) {
        let mut new = GrammarScratch {
            stats: GrammarStats { emptied: scratch.stats.emptied + 1, ..scratch.stats() },
            ..self.scratch()
        };
        let mut masks: Vec<(Place, Made)> = scratch.masks.drain().filter(|(_, made)| made.is_young).collect();
        masks.sort_unstable_by_key(|(place, _)| *place);
        for (place, Made { pieces, .. }) in masks {
            if new.memory_usage() + pieces.memory_usage() > self.scratch_bytes / 2 {
                break;
            }
            let portable = scratch.exchange.export(&scratch.places, &self.compiled, place);
            let place = new.exchange.import(&mut new.places, &self.compiled, &portable);
            new.mask_bytes += pieces.memory_usage();
            new.masks.insert(place, Made { pieces, is_young: false });
        }
        *scratch = new;
    }

    /// The names of `place`, which if texts are tracked is one of those that do.
    fn named(&self, scratch: &mut GrammarScratch, place: Place) -> At {
        let GrammarScratch { places, tracking, .. } = scratch;
        let Some(Tracking { places: tracking, untracked, .. }) = tracking else {
            return At { place, tracked: None };
        };
        // Only what can still be read counts in the mask, so it is read off here and not read beside.
        let left = untracked.place(&mut Both { compiled: &self.compiled, tracking, places }, place);
        At { place: left, tracked: Some(place) }
    }

    /// Whether a state is beyond [`GrammarLimits::state_items`], so that nothing follows.
    fn is_beyond(&self, scratch: &GrammarScratch, at: At) -> bool {
        let tracked = at.tracked.zip(scratch.tracking.as_ref());
        scratch.places.has_more_than(self.state_items, at.place)
            || tracked.is_some_and(|(place, tracking)| tracking.places.has_more_than(self.state_items, place))
    }

    /// Whether `token` leads anywhere, and where: if texts are tracked, there, and else as places that track none.
    fn behind(&self, scratch: &mut GrammarScratch, at: At, token: TokenId) -> Option<Place> {
        let mut next = DEAD;
        // What is tracked is the whole truth but for the number of terminals in a token.
        if at.tracked.is_none() || self.compiled.lookahead.is_some() {
            next = self.behind_in(&mut scratch.places, at.place, token);
            if next == DEAD {
                return None;
            }
        }
        if let Some((place, tracking)) = at.tracked.zip(scratch.tracking.as_mut()) {
            next = self.behind_in(&mut tracking.places, place, token);
        }
        (next != DEAD).then_some(next)
    }

    /// The place behind `token`, or [`DEAD`].
    fn behind_in(&self, places: &mut Places, place: Place, token: TokenId) -> Place {
        if token.index() >= self.vocabulary.len() {
            return DEAD;
        }
        match self.vocabulary.kind(token) {
            TokenKind::Text => match self.vocabulary.text(token) {
                Some([]) | None => DEAD,
                Some(text) => {
                    let of_text = places.run(&self.compiled, place, text);
                    if !self.compiled.terminals.has_sets() {
                        return of_text;
                    }
                    let of_token = places.by_id(&self.compiled, place, token);
                    places.both(&self.compiled, of_text, of_token)
                }
            },
            TokenKind::Control => places.by_id(&self.compiled, place, token),
            _ => DEAD,
        }
    }

    /// Whether anything is behind `token`. For a text no places are made, of which thousands would be met once.
    fn reads_in(&self, places: &mut Places, place: Place, token: TokenId) -> bool {
        match self.vocabulary.kind(token) {
            TokenKind::Text => {
                let text = self.vocabulary.text(token).unwrap_or_default();
                !text.is_empty()
                    && (places.reads(&self.compiled, place, text)
                        || self.compiled.terminals.has_sets()
                            && places.by_id(&self.compiled, place, token) != DEAD)
            }
            _ => self.behind_in(places, place, token) != DEAD,
        }
    }

    /// The tokens that the mask of `at` has too many, the mask being made.
    fn removed(&self, scratch: &mut GrammarScratch, at: At) -> Option<Arc<[TokenId]>> {
        let (place, tracking) = at.tracked.zip(scratch.tracking.as_mut())?;
        if let Some(known) = tracking.removed.get(&place) {
            return Some(Arc::clone(known));
        }
        let pieces = &scratch.masks[&at.place].pieces;
        let buffer = scratch.buffer.get_or_insert_with(|| TokenMask::new(self.vocab_len()));
        let ways = on_used_ways(&self.compiled, &mut tracking.places, place, &self.trie);
        let OnUsedWays { mut doubtful, certain, others, used } = ways;
        if let Some(begun) = used {
            let mut mask = TokenMask::new(self.vocab_len());
            pieces.write(mask.as_mut());
            let goes_on = |token: &TokenId| {
                let text = self.vocabulary.text(*token).filter(|text| !text.is_empty());
                text.is_some_and(|text| goes_on(&self.compiled, begun, text))
            };
            doubtful.extend(mask.ids().filter(|token| !goes_on(token)));
        }
        if let Some((distinct, all)) = self.distinct.as_ref().zip(tracking.places.texts()) {
            for text in tracking.untracked.take_used() {
                tracking.holding_used.extend(distinct.holding_text(all.of(text)));
            }
        }
        doubtful.extend(&tracking.holding_used);
        doubtful = pieces.added_among(&doubtful, buffer);
        doubtful.extend_from_slice(&pieces.doubtful);
        doubtful.sort_unstable();
        doubtful.dedup();
        doubtful.retain(|token| !self.reads_in(&mut tracking.places, place, *token));
        let mut removed = pieces.added_among(&certain, buffer);
        removed.retain(|token| others == DEAD || !self.reads_in(&mut tracking.places, others, *token));
        if self.compiled.terminals.has_sets() {
            // A token may count as itself where its text is used.
            removed.retain(|token| tracking.places.by_id(&self.compiled, place, *token) == DEAD);
        }
        removed.append(&mut doubtful);
        let removed: Arc<[TokenId]> = removed.into();
        // Of a thousand places each may have a thousand of them.
        if tracking.removed_bytes > self.scratch_bytes / 4 {
            tracking.removed.clear();
            tracking.removed_bytes = 0;
        }
        tracking.removed_bytes += size_of_val(&removed[..]) + 64;
        tracking.removed.insert(place, Arc::clone(&removed));
        Some(removed)
    }

    /// Makes the mask of `place`, if it is not there.
    fn make_mask(&self, scratch: &mut GrammarScratch, place: Place) {
        let is_young = scratch.is_half_full;
        if let Some(made) = scratch.masks.get_mut(&place) {
            made.is_young |= is_young;
            return;
        }
        scratch.stats.made += 1;
        let mut pieces = Pieces::new(std::mem::take(&mut scratch.ids));
        let buffer = scratch.buffer.get_or_insert_with(|| TokenMask::new(self.vocab_len()));
        match &self.trees {
            Some(trees) => Maker {
                compiled: &self.compiled,
                trees,
                trie: &self.trie,
                pieces: &mut pieces,
                buffer,
                places: &mut scratch.places,
                known: &mut scratch.known,
                buffers: &mut scratch.buffers,
                doubtful: &mut scratch.doubtful,
                general: Vec::new(),
                contexts: &mut scratch.contexts,
                walks: &mut scratch.stats.walks,
            }
            .add(place),
            None => {
                scratch.stats.walks += 1;
                let mut walk = Walk { compiled: &self.compiled, places: &mut scratch.places };
                self.trie.fill(&mut walk, place, buffer.as_mut());
                pieces.add_mask(buffer.as_ref());
                buffer.as_mut().clear();
            }
        }
        if let Some(distinct) = &self.distinct {
            distinct.holding(&self.compiled, &self.vocabulary, |except, remaining| match &self.trees {
                Some(trees) => trees.holding(except, remaining),
                None => Arc::new(Holding::new(except, remaining, self.vocabulary.text_tokens())),
            });
            let places = &mut scratch.places;
            let doubtful =
                distinct.doubtful(&self.compiled, places, place, &self.vocabulary, |tokens, beyond| {
                    pieces.among(tokens, beyond)
                });
            pieces.doubtful = doubtful;
        }
        // After the others, which take away tokens whose text is refused.
        scratch.places.each_of_tokens(&self.compiled, place, |terminal, _| {
            match self.compiled.terminals.scanner(terminal) {
                Scanner::Token(token) => pieces.add_token(*token),
                Scanner::OneOf(tokens) => pieces.add_set(TokenMask::as_ref(tokens)),
                _ => {}
            }
        });
        scratch.ids = pieces.fit();
        scratch.mask_bytes += pieces.memory_usage();
        scratch.masks.insert(place, Made { pieces, is_young });
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
            places: Places::new(&self.compiled),
            exchange: Exchange::default(),
            known: KnownNodes::default(),
            buffers: Buffers::default(),
            contexts: Contexts::default(),
            ids: Vec::new(),
            doubtful: Vec::new(),
            masks: HashMap::new(),
            buffer: None,
            mask_bytes: 0,
            tracking: self.distinct.as_ref().map(|_| Tracking {
                places: Places::tracking(&self.compiled),
                exchange: Exchange::default(),
                untracked: Untracked::default(),
                removed: HashMap::new(),
                removed_bytes: 0,
                holding_used: HashSet::new(),
            }),
            turns: self.trees.as_ref().map_or(0, |trees| trees.library.kept.turns()),
            is_half_full: false,
            stats: GrammarStats::default(),
        }
    }

    /// O(b) for a token of b bytes where the sequence went the same way before.
    fn advance(
        &self,
        scratch: &mut GrammarScratch,
        state: &mut GrammarState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let at = self.at(scratch, state);
        if self.is_beyond(scratch, at) {
            return Err(Rejected::beyond(token, "GrammarLimits::state_items"));
        }
        let Some(next) = self.behind(scratch, at, token) else { return Err(Rejected::new(token)) };
        let at = self.named(scratch, next);
        let (places, exchange) = match &mut scratch.tracking {
            Some(Tracking { places, exchange, .. }) => (places, exchange),
            None => (&mut scratch.places, &mut scratch.exchange),
        };
        match state.since.with(token) {
            Some(since) => state.since = since,
            None => {
                state.portable = exchange.export(places, &self.compiled, next);
                state.since = Since::default();
            }
        }
        state.may_end = places.may_end(&self.compiled, next) && !self.is_beyond(scratch, at);
        (state.stamp, state.at) = (scratch.stamp, at);
        Ok(())
    }

    fn is_accepting(&self, state: &GrammarState) -> bool {
        state.may_end
    }

    /// O(v) for v ids where the mask was made before.
    fn fill_mask(&self, scratch: &mut GrammarScratch, state: &GrammarState, mask: MaskMut<'_>) {
        let at = self.at(scratch, state);
        scratch.stats.masks += 1;
        let mut mask = mask;
        if self.is_beyond(scratch, at) {
            mask.clear();
            return;
        }
        self.make_mask(scratch, at.place);
        scratch.masks[&at.place].pieces.write(mask.reborrow());
        if let Some(removed) = self.removed(scratch, at) {
            removed.iter().for_each(|token| mask.remove(*token));
        }
    }

    fn ready_mask<'a>(&'a self, scratch: &'a GrammarScratch, state: &GrammarState) -> Option<MaskRef<'a>> {
        let At { place, tracked } = state.known(scratch)?;
        if let Some((tracked, tracking)) = tracked.zip(scratch.tracking.as_ref()) {
            // It is ready if it is known that nothing has to be removed.
            if !tracking.removed.get(&tracked)?.is_empty() {
                return None;
            }
        }
        let words = scratch.masks.get(&place)?.pieces.ready()?;
        Some(MaskRef::new(words, self.vocab_len()))
    }

    /// Reads the token's bytes; no mask is made. DOMINO calls that opportunistic masking.
    fn allows(&self, scratch: &mut GrammarScratch, state: &GrammarState, token: TokenId) -> bool {
        let at = self.at(scratch, state);
        !self.is_beyond(scratch, at) && self.behind(scratch, at, token).is_some()
    }

    fn forced(&self, scratch: &mut GrammarScratch, state: &GrammarState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let at = self.at(scratch, state);
        if self.is_beyond(scratch, at) {
            return None;
        }
        self.make_mask(scratch, at.place);
        match self.removed(scratch, at) {
            Some(removed) if !removed.is_empty() => {
                let mut mask = TokenMask::new(self.vocab_len());
                scratch.masks[&at.place].pieces.write(mask.as_mut());
                removed.iter().for_each(|token| mask.as_mut().remove(*token));
                let mut ids = mask.ids();
                ids.next().filter(|_| ids.next().is_none())
            }
            _ => scratch.masks[&at.place].pieces.only(),
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
