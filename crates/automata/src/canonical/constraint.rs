//! The canonical constraint: a regular language, restricted to the tokenizer's own sequences (CartesianMerge).
//!
//! The allowed tokens are the intersection of two automata. One is the product of the constraint's DFA with the
//! splitting, read by tokens ([`super::viability::position`]). The other is the bigram relation of tokens. Whether a
//! sequence can be completed after a token depends on the position that the token leads to, not on the position
//! before it. So each position has one token set that is valid for every left context. The mask is that set without
//! the tokens that the last token forbids as its right neighbours.
//!
//! Two engines decide which positions are live. [`super::viability::lazy_product`] explores the product lazily, and
//! [`super::viability::whole_product`] computes the whole product when the constraint is built.
//!
//! A state is a set of configurations: a position and its left context within the piece. Nearly every state has one
//! configuration. It has two as long as it is undecided whether a piece has ended.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;
use unskew_core::{
    Constraint, Generations, MaskMut, MaskRef, Rejected, TokenId, TokenMask, hashed_key, words_for,
};

use super::{
    CanonicalError,
    error::NothingCanonical,
    index::CanonicalIndex,
    token_set::TokenSet,
    tokenizer::automaton::{Role, TokenizerAutomaton},
    vegas::{Shared, VegasLibrary},
    viability::{
        context::Context,
        engine::{Ask, Engine},
        lazy_product::{LazyProduct, OVERHEAD},
        memo::Memo,
        position::Position,
        whole_product::WholeProduct,
    },
};
use crate::{
    Dfa, Limits, Pattern,
    ids::{ProductState, TokenClass, WholeNode},
};

/// Token sequences whose text is in a regular language and that the tokenizer itself writes for that text:
/// `encode(decode(ids)) = ids`.
///
/// Exact for byte-pair tokenizers with their pre-tokenizers and normalisers. A tokenizer that cannot be followed
/// exactly is refused with a [`CanonicalError`]. The output is a text by itself, encoded as the continuation of a
/// prompt: without the space that some tokenizers write before whole texts.
///
/// # Example
///
/// Two spellings of one text, of which the tokenizer writes one. The example of [`CanonicalIndex`] shows the way from a
/// tokenizer to a mask.
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{CanonicalConstraint, CanonicalIndex, Limits, RegexConstraint, TokenizerAutomaton};
/// use unskew_core::{Constraint, Merge, MergeTable, Tokenization, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// let [a, b, c] = ["a", "b", "c"].map(|text| builder.text(text.as_bytes()));
/// let [ab, bc] = ["ab", "bc"].map(|text| builder.text(text.as_bytes()));
/// let vocabulary = builder.build()?;
/// let mut tokenization = Tokenization::default();
/// let merges = [(a, b, ab), (b, c, bc)].map(|(left, right, result)| Merge { left, right, result });
/// tokenization.merges = MergeTable::new(merges.into())?;
/// let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization)?);
/// let trie = Arc::new(TokenTrie::new(vocabulary)?);
/// let index = Arc::new(CanonicalIndex::new(automaton, Arc::clone(&trie))?);
///
/// // The encoder merges `a b` first, so "abc" is `ab c` and never `a bc`.
/// let canonical = CanonicalConstraint::from_choices(["abc"], &index, &Limits::default())?;
/// let mut scratch = canonical.scratch();
/// let start = canonical.start();
/// assert!(canonical.allows(&mut scratch, &start, ab) && !canonical.allows(&mut scratch, &start, a));
/// // Over all spellings, both are allowed.
/// let every = RegexConstraint::from_choices(["abc"], trie, &Limits::default())?;
/// assert!(every.allows(&mut (), &every.start(), ab) && every.allows(&mut (), &every.start(), a));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CanonicalConstraint {
    context: Context,
    engine: Engine,
    /// The initial content of each scratch: the mask of the start, which every output needs, and the facts found
    /// while it was computed.
    initial: CanonicalScratch,
}

/// The left context of a position within its piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum LeftContext {
    /// No token: a piece starts in the position.
    Nothing,
    /// A token of this class.
    Class(TokenClass),
    /// A node of the trie of whole pieces; the node determines the token.
    Node(WholeNode),
    /// A token that the encoder writes only as a whole piece.
    Whole,
}

/// One hypothesis about a sequence: a position with its left context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Configuration {
    position: Position,
    left: LeftContext,
}

/// The state of a sequence in a [`CanonicalConstraint`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CanonicalState(SmallVec<[Configuration; 2]>);

/// Cache of one thread: masks by state, and the liveness of positions that was found on the way. The masks take up
/// to [`Limits::mask_cache_bytes`], the rest about [`Limits::lazy_bytes`]. When one of the two limits is reached,
/// the older half of that cache is dropped.
#[derive(Clone)]
pub struct CanonicalScratch {
    masks: Generations<CanonicalState, CachedMask>,
    memo: Memo,
}

/// A scratch with the default limits.
impl Default for CanonicalScratch {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

#[derive(Clone, Debug)]
struct CachedMask {
    words: Box<[u32]>,
    /// The token, if the mask has exactly one.
    only: Option<TokenId>,
}

impl CanonicalScratch {
    fn new(limits: &Limits) -> Self {
        Self { masks: Generations::new(limits.mask_cache_bytes), memo: Memo::default() }
    }

    /// The memory of the masks and of the cached liveness, in bytes: at most about the sum of the two limits.
    pub fn memory_usage(&self) -> usize {
        self.memo.bytes() + self.masks.bytes()
    }
}

impl CanonicalConstraint {
    /// The constraint that the whole output matches `pattern`. The syntax is that of [`Dfa::from_pattern`].
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn new<'t>(
        pattern: impl Into<Pattern<'t>>,
        index: &Arc<CanonicalIndex>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::from_parts(Dfa::from_pattern(pattern, limits)?, index, None, limits)
    }

    /// The constraint that the whole output is one of `choices`.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`]; also for an empty list and an empty choice.
    pub fn from_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        index: &Arc<CanonicalIndex>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::from_parts(Dfa::of_choices(choices, limits)?, index, None, limits)
    }

    /// The constraint that the sequence is canonical. Any text is accepted.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn any_text(index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
        Self::new("(?s:.*)", index, limits)
    }

    /// The constraint that `dfa` accepts the whole output.
    ///
    /// Cost: O(n k) at most for n states of `dfa` and k byte classes, plus the mask of the start. That mask is kept
    /// together with the liveness that its computation found. The liveness of other positions is computed when a
    /// mask needs it.
    ///
    /// In some cases the lazy search might not end: tokenizers that cannot spell all bytes that `dfa` reads, texts
    /// that are not UTF-8, and texts that need a character which the tokenizer may rewrite. In these cases the whole
    /// product of `dfa` with the tokenizer's splitting is built and completed at once.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`] if no sequence is left, and [`CanonicalError::TooManyProductStates`] if
    /// the product is built and exceeds its limit.
    pub fn from_dfa(dfa: &Dfa, index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
        Self::from_parts(dfa.clone(), index, None, limits)
    }

    /// As [`from_dfa`](Self::from_dfa), with the parts of the product that `library` has. Missing parts are added to
    /// the library. The masks are the same. For a pattern, build the DFA with [`Dfa::from_pattern`].
    ///
    /// # Errors
    ///
    /// As for [`from_dfa`](Self::from_dfa), and [`CanonicalError::LibraryMismatch`].
    pub fn with_library(
        dfa: &Dfa,
        index: &Arc<CanonicalIndex>,
        library: &VegasLibrary,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        if !library.is_of(index) {
            return Err(CanonicalError::LibraryMismatch);
        }
        Self::from_parts(dfa.clone(), index, Some(library), limits)
    }

    fn from_parts(
        dfa: Dfa,
        index: &Arc<CanonicalIndex>,
        library: Option<&VegasLibrary>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        let context = Context::new(dfa, Arc::clone(index));
        let set_bytes = (words_for(index.vocabulary.len()) * size_of::<u32>()).max(1);
        let masks = limits.mask_cache_bytes / set_bytes;
        let lazy = match library {
            None => LazyProduct::new(&context, limits),
            Some(_) => None,
        };
        let engine = match lazy {
            Some(lazy) => Engine::Lazy(lazy),
            None => Engine::Whole(Box::new(WholeProduct::new(&context, library, limits, masks)?)),
        };
        let mut constraint = Self { context, engine, initial: CanonicalScratch::new(limits) };
        let mut initial = CanonicalScratch::new(limits);
        let start = constraint.context.automata().start();
        if !constraint.ask(&mut initial.memo).is_live(start) {
            return Err(CanonicalError::NothingCanonical { reason: constraint.why_nothing() });
        }
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(&mut initial, &constraint.start(), mask.as_mut());
        constraint.initial = initial;
        Ok(constraint)
    }

    /// The index that the constraint was built from.
    pub fn index(&self) -> &Arc<CanonicalIndex> {
        &self.context.index
    }

    /// The number of states that were built with the constraint: the states of its DFA, or the states of the DFA's
    /// whole product with the tokenizer's splitting.
    pub fn states(&self) -> usize {
        match &self.engine {
            Engine::Lazy(_) => self.context.dfa.len(),
            Engine::Whole(whole) => whole.states(),
        }
    }

    /// The memory in bytes of the DFA, of the whole product if it was built, of the token sets kept with it, and of
    /// the initial scratch. Shared data and the scratches of callers are not counted.
    pub fn memory_usage(&self) -> usize {
        let own = match &self.engine {
            Engine::Lazy(lazy) => lazy.memory_usage(),
            Engine::Whole(whole) => whole.memory_usage(),
        };
        self.context.dfa.memory_usage() + own + self.initial.memory_usage()
    }

    /// Computes the token sets of the wanted states now instead of at their first use. `wanted` receives the state's
    /// number and whether the state is a piece start or a boundary. Does nothing if the whole product was not built.
    pub(super) fn compute_token_sets(&self, wanted: impl Fn(ProductState, bool) -> bool) {
        if let Engine::Whole(whole) = &self.engine {
            whole.compute_token_sets(&self.context, wanted);
        }
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        match &self.engine {
            Engine::Lazy(_) => None,
            Engine::Whole(whole) => whole.shared(),
        }
    }

    fn ask<'a>(&'a self, memo: &'a mut Memo) -> Ask<'a> {
        self.engine.ask(&self.context, memo)
    }

    /// The reason why the start is not live.
    fn why_nothing(&self) -> NothingCanonical {
        match &self.engine {
            // The lazy engine is used only if tokens spell all bytes of the constraint.
            Engine::Lazy(_) => NothingCanonical::Rewritten,
            Engine::Whole(_) => unspellable(&self.context),
        }
    }

    /// The position after `token` is read from `at`.
    fn read(&self, at: Position, token: TokenId) -> Option<Position> {
        let text = self.context.index.vocabulary.text(token)?;
        match self.role(token) {
            Role::Merged | Role::Whole => self.context.automata().run(at, text),
            Role::Fallback => self.context.automata().step_fallback(at, *text.first()?),
            Role::Never => None,
        }
    }

    fn role(&self, token: TokenId) -> Role {
        // A vocabulary may have more ids than its tokenizer.
        self.context.index.automaton.roles.get(token.index()).copied().unwrap_or(Role::Never)
    }

    /// The last token, if it restricts the next one.
    fn previous_token(&self, left: LeftContext) -> Option<u32> {
        let TokenizerAutomaton { bigrams, whole, .. } = &*self.context.index.automaton;
        match left {
            LeftContext::Class(class) => Some(bigrams.class_token[class]),
            LeftContext::Node(node) => Some(whole.token(node)),
            LeftContext::Nothing | LeftContext::Whole => None,
        }
    }

    /// Whether the piece may end after this left context.
    fn may_end(&self, left: LeftContext) -> bool {
        match left {
            LeftContext::Node(node) => !self.context.index.automaton.whole.is_complete(node),
            LeftContext::Nothing | LeftContext::Class(_) | LeftContext::Whole => true,
        }
    }

    /// The piece start after a boundary at `at`, if the piece may end there and the new position is live.
    fn after_boundary(&self, ask: &mut Ask<'_>, at: Configuration) -> Option<Position> {
        let piece_start = self.context.automata().mark(at.position).filter(|_| self.may_end(at.left));
        piece_start.filter(|piece_start| ask.is_live(*piece_start))
    }

    /// The added tokens that may follow, each with the position after it.
    fn added_after(&self, ask: &mut Ask<'_>, at: Configuration) -> SmallVec<[(u32, Position); 4]> {
        if self.context.index.automaton.added.is_empty() || !self.may_end(at.left) {
            return SmallVec::new();
        }
        let added = self.context.automata().added(at.position);
        added.filter(|(_, after)| ask.is_live(*after)).collect()
    }

    /// The configuration after `token`, which is the first token of a piece that begins in `position`.
    fn begin_piece(&self, ask: &mut Ask<'_>, position: Position, token: TokenId) -> Option<Configuration> {
        let after = self.read(position, token)?;
        ask.may_begin(token.0, after).then(|| {
            let TokenizerAutomaton { whole, bigrams, .. } = &*self.context.index.automaton;
            let left = match whole.child(WholeNode::ROOT, token.0) {
                _ if self.role(token) == Role::Whole => LeftContext::Whole,
                Some(node) => LeftContext::Node(node),
                None => LeftContext::Class(bigrams.class(token.0)),
            };
            Configuration { position: after, left }
        })
    }

    /// The configuration after `token` in the piece of `at`.
    fn continue_piece(&self, ask: &mut Ask<'_>, at: Configuration, token: TokenId) -> Option<Configuration> {
        if at.left == LeftContext::Nothing {
            return self.begin_piece(ask, at.position, token);
        }
        let last = self.previous_token(at.left)?;
        if self.role(token) == Role::Whole {
            return None;
        }
        let after = self.read(at.position, token)?;
        let TokenizerAutomaton { whole, bigrams, .. } = &*self.context.index.automaton;
        if !bigrams.may_follow(last, token.0) {
            return None;
        }
        let child = match at.left {
            LeftContext::Node(node) => whole.child(node, token.0),
            _ => None,
        };
        let (is_viable, left) = match child {
            Some(child) => (ask.may_precede_node(child, after), LeftContext::Node(child)),
            None => {
                let class = bigrams.class(token.0);
                (ask.may_precede(token.0, after), LeftContext::Class(class))
            }
        };
        is_viable.then_some(Configuration { position: after, left })
    }

    /// Allows the tokens that may follow in the piece of `at`.
    fn add_piece(&self, ask: &mut Ask<'_>, at: Configuration, mask: &mut MaskMut<'_>) {
        if at.left == LeftContext::Whole {
            return;
        }
        let last = self.previous_token(at.left);
        let bigrams = &self.context.index.automaton.bigrams;
        ask.with_token_set(at.position, |tokens| match (tokens, last) {
            (TokenSet::Short(tokens), _) => {
                for token in tokens {
                    if last.is_none_or(|last| bigrams.may_follow(last, *token)) {
                        mask.insert(TokenId(*token));
                    }
                }
            }
            (TokenSet::Long(words), None) => mask.union(MaskRef::new(words, self.vocab_len())),
            (TokenSet::Long(words), Some(last)) => {
                let mut allowed = words.clone();
                self.context.index.remove_forbidden(last, &mut allowed);
                mask.union(MaskRef::new(&allowed, self.vocab_len()));
            }
        });
        // A sequence that the encoder writes as one token is followed node by node.
        if let LeftContext::Node(node) = at.left {
            for (token, _) in self.context.index.automaton.whole.children(node) {
                let token = TokenId(*token);
                if self.continue_piece(ask, at, token).is_some() {
                    mask.insert(token);
                } else {
                    mask.remove(token);
                }
            }
        }
    }

    fn compute_mask(&self, memo: &mut Memo, state: &CanonicalState, mut mask: MaskMut<'_>) {
        let ask = &mut self.ask(memo);
        mask.clear();
        for at in &state.0 {
            // The removal above concerns this configuration alone, so it happens before other configurations add
            // their tokens.
            if matches!(at.left, LeftContext::Node(_)) && state.0.len() > 1 {
                let mut own = TokenMask::new(self.vocab_len());
                self.add_piece(ask, *at, &mut own.as_mut());
                mask.union(own.as_ref());
            } else {
                self.add_piece(ask, *at, &mut mask);
            }
        }
        for at in &state.0 {
            if let Some(position) = self.after_boundary(ask, *at) {
                self.add_piece(ask, Configuration { position, left: LeftContext::Nothing }, &mut mask);
            }
            self.added_after(ask, *at).iter().for_each(|(token, _)| mask.insert(TokenId(*token)));
        }
    }
}

impl Constraint for CanonicalConstraint {
    type State = CanonicalState;
    type Scratch = CanonicalScratch;

    fn vocab_len(&self) -> usize {
        self.context.index.vocabulary.len()
    }

    fn start(&self) -> CanonicalState {
        let start = Configuration { position: self.context.automata().start(), left: LeftContext::Nothing };
        CanonicalState(SmallVec::from_iter([start]))
    }

    fn scratch(&self) -> CanonicalScratch {
        self.initial.clone()
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is precomputed.
    fn advance(
        &self,
        scratch: &mut CanonicalScratch,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let mut next = SmallVec::new();
        let ask = &mut self.ask(&mut scratch.memo);
        for at in &state.0 {
            next.extend(self.continue_piece(ask, *at, token));
            let piece_start = self.after_boundary(ask, *at);
            next.extend(piece_start.and_then(|piece_start| self.begin_piece(ask, piece_start, token)));
            let number = self.context.index.automaton.number_of_added(token.0);
            if let Some(number) = number.filter(|_| self.may_end(at.left)) {
                let after = self.context.automata().added_one(at.position, number);
                let after = after.filter(|(_, after)| ask.is_live(*after));
                next.extend(
                    after.map(|(_, position)| Configuration { position, left: LeftContext::Nothing }),
                );
            }
        }
        if next.is_empty() {
            return Err(Rejected::new(token));
        }
        next.sort_unstable();
        next.dedup();
        state.0 = next;
        Ok(())
    }

    fn is_accepting(&self, state: &CanonicalState) -> bool {
        let automata = self.context.automata();
        state.0.iter().any(|at| automata.is_accepting(at.position) && self.may_end(at.left))
    }

    /// O(v) for v ids if the mask is in `scratch`. Otherwise one walk through the trie for a position that no mask
    /// was asked for before, and one step for each token that the last token forbids.
    fn fill_mask(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, mut mask: MaskMut<'_>) {
        if let Some(kept) = scratch.masks.get(state) {
            mask.copy_from(MaskRef::new(&kept.words, self.vocab_len()));
            return;
        }
        self.compute_mask(&mut scratch.memo, state, mask.reborrow());
        let mut ids = mask.as_ref().into_ids();
        let only = ids.next().filter(|_| ids.next().is_none());
        drop(ids);
        let words: Box<[u32]> = mask.as_ref().words().into();
        let bytes = OVERHEAD + size_of_val(&words[..]);
        scratch.masks.insert(state.clone(), CachedMask { words, only }, bytes);
    }

    fn ready_mask<'a>(
        &'a self,
        scratch: &'a CanonicalScratch,
        state: &CanonicalState,
    ) -> Option<MaskRef<'a>> {
        let kept = scratch.masks.peek(state)?;
        Some(MaskRef::new(&kept.words, self.vocab_len()))
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, token: TokenId) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    /// A hash of the configurations.
    fn state_key(&self, _scratch: &mut CanonicalScratch, state: &CanonicalState) -> Option<u64> {
        Some(hashed_key(state))
    }

    fn forced(&self, scratch: &mut CanonicalScratch, state: &CanonicalState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        if let Some(kept) = scratch.masks.get(state) {
            return kept.only;
        }
        let mut mask = TokenMask::new(self.vocab_len());
        self.fill_mask(scratch, state, mask.as_mut());
        let mut ids = mask.ids();
        ids.next().filter(|_| ids.next().is_none())
    }
}

impl fmt::Debug for CanonicalConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalConstraint")
            .field("states", &self.states())
            .field("vocabulary", &self.context.index.vocabulary)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CanonicalScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalScratch").field("masks", &self.masks.len()).finish_non_exhaustive()
    }
}

/// The bytes that `dfa` reads and no token of the tokenizer has.
fn unspellable(context: &Context) -> NothingCanonical {
    let CanonicalIndex { automaton: tokenizer, vocabulary, .. } = &*context.index;
    let mut spelled = [false; 256];
    for (token, text) in vocabulary.text_tokens() {
        if tokenizer.roles.get(token.index()).is_some_and(|role| *role != Role::Never) {
            text.iter().for_each(|byte| spelled[usize::from(*byte)] = true);
        }
    }
    NothingCanonical::Unspellable {
        missing: context.dfa.bytes().filter(|byte| !spelled[usize::from(*byte)]).collect(),
    }
}
