//! The constraint: a regular language, over the tokenizer's own sequences only. CartesianMerge, whole.
//!
//! The set of allowed tokens is the intersection of two automata's: the product of the constraint with the splitting
//! ([`super::product`]), read by tokens, and the automaton of neighbours. That the intersection can always be completed is
//! seen to beforehand ([`super::completion`]) and depends on the state that a token leads to, not on the one that it comes
//! from; so the tokens of a state are one row, the same for all tokens in front, from which the forbidden neighbours of the
//! token in front are taken off.
//!
//! A position is a set of configurations, nearly always one: a state of the product and what stands in front of it in its
//! piece. There are two while it is open whether a piece has ended.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use smallvec::SmallVec;
use unskew_core::{Constraint, MaskMut, MaskRef, Rejected, TokenId, TokenTrie, Vocabulary, words_for};

use super::{
    CanonicalError,
    automaton::{Role, TokenizerAutomaton},
    completion::{Before, Completion, Search, bits},
    error::NothingCanonical,
    product::Product,
    vegas::{Shared, VegasLibrary},
    whole::WholePieces,
};
use crate::{Dfa, Limits, RegexError, table::DEAD};

/// Rows with at most so many tokens are kept as lists.
const SHORT: usize = 64;

/// Token sequences whose text is in a regular language and that the tokenizer itself would write for it:
/// `encode(decode(ids)) = ids`.
///
/// Exact for byte-pair tokenizers with their pre-tokenizers and normalisers; what cannot be followed exactly is a
/// [`CanonicalError`]. The output counts as a text by itself, as it is encoded behind a prompt: without the space that some
/// tokenizers put in front of whole texts.
pub struct CanonicalConstraint {
    tokenizer: Arc<TokenizerAutomaton>,
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    product: Product,
    completion: Completion,
    /// By state: the tokens that lead on from it, whatever stands in front.
    rows: Vec<OnceLock<Row>>,
    /// How many more rows may be kept.
    rows_left: AtomicUsize,
    /// How many masks a scratch may keep.
    masks: usize,
    /// What a library has of the states, where one is used.
    shared: Option<Shared>,
}

/// The tokens of a state.
#[derive(Clone, Debug)]
pub(super) enum Row {
    Short(Box<[u32]>),
    Long(Box<[u32]>),
}

/// What stands in front of a state in its piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Front {
    /// Nothing: the state is fresh.
    Nothing,
    /// A token of this class.
    Class(u32),
    /// A node of the pieces that are looked up as a whole, and with it a token.
    Node(u32),
    /// A token that is only written as a whole piece.
    Whole,
}

/// A position that a sequence may be in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Configuration {
    state: u32,
    front: Front,
}

/// The position of a sequence in a [`CanonicalConstraint`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CanonicalState(SmallVec<[Configuration; 2]>);

/// Masks that were computed, by position.
#[derive(Debug, Default)]
pub struct CanonicalScratch {
    masks: HashMap<CanonicalState, Kept>,
}

#[derive(Debug)]
struct Kept {
    words: Box<[u32]>,
    /// The only token of the mask.
    only: Option<TokenId>,
}

impl CanonicalConstraint {
    /// The constraint that the whole output matches `pattern`; for the syntax see [`Dfa::from_pattern`].
    ///
    /// `trie` is the trie of `vocabulary`, and `tokenizer` was built for it; both are shared by all constraints.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn new(
        pattern: &str,
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::from_dfa(&Dfa::from_pattern(pattern, limits)?, tokenizer, vocabulary, trie, limits)
    }

    /// The constraint that the whole output is one of `choices`.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`]; for an empty list or an empty choice too.
    pub fn from_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::from_dfa(&Dfa::from_literals(choices, limits)?, tokenizer, vocabulary, trie, limits)
    }

    /// No constraint but that the sequence is the tokenizer's own.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn any_text(
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::new("(?s:.*)", tokenizer, vocabulary, trie, limits)
    }

    /// The constraint that `dfa` accepts the whole output.
    ///
    /// Cost: O(n k) for n states of the product and k byte classes, and for each state a walk through the trie that ends
    /// when it is clear which tokens may stand in front of the state.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`] if no sequence is left, [`CanonicalError::TooManyProductStates`],
    /// [`CanonicalError::VocabularyMismatch`].
    pub fn from_dfa(
        dfa: &Dfa,
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::from_parts(dfa, tokenizer, vocabulary, trie, None, limits)
    }

    /// As [`from_dfa`](Self::from_dfa), with what `library` has of the parts of the product; what it has not, it gets.
    /// The masks are the same. For a pattern see [`Dfa::from_pattern`].
    ///
    /// # Errors
    ///
    /// As for [`from_dfa`](Self::from_dfa), and [`CanonicalError::LibraryMismatch`].
    pub fn with_library(
        dfa: &Dfa,
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        library: &VegasLibrary,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        if !library.is_of(&tokenizer, &vocabulary) {
            return Err(CanonicalError::LibraryMismatch);
        }
        Self::from_parts(dfa, tokenizer, vocabulary, trie, Some(library), limits)
    }

    fn from_parts(
        dfa: &Dfa,
        tokenizer: Arc<TokenizerAutomaton>,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        library: Option<&VegasLibrary>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        if tokenizer.vocab_len() > vocabulary.len() {
            let (automaton, vocabulary) = (tokenizer.vocab_len(), vocabulary.len());
            return Err(CanonicalError::VocabularyMismatch { automaton, vocabulary });
        }
        if trie.vocab_len() != vocabulary.len() {
            let (trie, vocabulary) = (trie.vocab_len(), vocabulary.len());
            return Err(RegexError::TrieMismatch { trie, vocabulary }.into());
        }
        let product = Product::new(dfa, &tokenizer, limits)?;
        let by_blocks =
            library.and_then(|library| library.complete(&product, &tokenizer, &vocabulary, &trie));
        let (completion, shared) = match by_blocks {
            Some((completion, shared)) => (completion, Some(shared)),
            None => (Completion::new(&product, &tokenizer, &vocabulary, &trie), None),
        };
        let start = product.start as usize;
        if completion.before[start] == Before::None {
            return Err(CanonicalError::NothingCanonical {
                reason: unspellable(dfa, &tokenizer, &vocabulary),
            });
        }
        let row_bytes = (words_for(vocabulary.len()) * size_of::<u32>()).max(1);
        let kept = limits.mask_cache_bytes / row_bytes;
        Ok(Self {
            rows: (0..product.len()).map(|_| OnceLock::new()).collect(),
            rows_left: AtomicUsize::new(kept),
            masks: kept,
            shared,
            tokenizer,
            vocabulary,
            trie,
            product,
            completion,
        })
    }

    /// The tokenizer's automaton.
    pub fn tokenizer(&self) -> &Arc<TokenizerAutomaton> {
        &self.tokenizer
    }

    /// The number of states of the product of the constraint with the tokenizer's splitting.
    pub fn states(&self) -> usize {
        self.product.len()
    }

    /// The memory of the product and of the rows kept so far, in bytes; what is shared, and the masks that a scratch keeps,
    /// are not counted.
    pub fn memory_usage(&self) -> usize {
        let rows = self.rows.iter().filter_map(OnceLock::get).map(|row| match row {
            Row::Short(list) | Row::Long(list) => size_of_val(&list[..]),
        });
        self.product.memory_usage()
            + self.completion.memory_usage()
            + self.rows.len() * size_of::<OnceLock<Row>>()
            + rows.sum::<usize>()
    }

    fn search(&self) -> Search<'_> {
        Search {
            product: &self.product,
            tokenizer: &self.tokenizer,
            vocabulary: &self.vocabulary,
            trie: &self.trie,
            completion: &self.completion,
        }
    }

    /// The row of a state: kept, or made now.
    fn with_row<T>(&self, state: u32, read: impl FnOnce(&Row) -> T) -> T {
        let place = &self.rows[state as usize];
        if let Some(row) = place.get() {
            return read(row);
        }
        let kept = self.shared.as_ref().and_then(|shared| shared.row(state));
        if let Some(row) = kept {
            return read(row);
        }
        let row = match (&self.shared, self.compute_row(state)) {
            (Some(shared), row) => match shared.keep(state, row) {
                Ok(row) => return read(row),
                Err(row) => row,
            },
            (None, row) => row,
        };
        let room = matches!(row, Row::Short(_))
            || self
                .rows_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        if room { read(place.get_or_init(|| row)) } else { read(&row) }
    }

    fn compute_row(&self, state: u32) -> Row {
        let words = self.search().row(state);
        let count: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        if count <= SHORT { Row::Short(bits(&words).collect()) } else { Row::Long(words.into()) }
    }

    /// Makes the rows of the states that are asked for now, and not when they are first needed.
    /// `wanted` is told whether the state is fresh or a boundary.
    pub(super) fn make_rows(&self, wanted: impl Fn(u32, bool) -> bool) {
        let is_boundary =
            self.completion.boundary.iter().zip(&self.product.fresh).map(|(end, fresh)| *end || *fresh);
        for (state, _) in
            (0u32..).zip(is_boundary).filter(|(state, is_boundary)| wanted(*state, *is_boundary))
        {
            self.with_row(state, |_| ());
        }
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// The state behind `token` read from `state`.
    fn read(&self, state: u32, token: TokenId) -> Option<u32> {
        let text = self.vocabulary.text(token)?;
        match self.role(token) {
            Role::Made | Role::Whole => self.product.run(state, text),
            Role::Fallback => {
                Some(self.product.step_fallback(state, *text.first()?)).filter(|state| *state != DEAD)
            }
            Role::Never | Role::Added => None,
        }
    }

    fn role(&self, token: TokenId) -> Role {
        // A vocabulary may have more ids than its tokenizer.
        self.tokenizer.roles.get(token.index()).copied().unwrap_or(Role::Never)
    }

    /// The token in front, where its neighbours are bound by it.
    fn token_in_front(&self, front: Front) -> Option<u32> {
        match front {
            Front::Class(class) => Some(self.tokenizer.neighbours.class_token[class as usize]),
            Front::Node(node) => Some(self.tokenizer.whole.token(node)),
            Front::Nothing | Front::Whole => None,
        }
    }

    /// Whether the piece may end where this stands in front.
    fn may_end(&self, front: Front) -> bool {
        match front {
            Front::Node(node) => !self.tokenizer.whole.is_complete(node),
            Front::Nothing | Front::Class(_) | Front::Whole => true,
        }
    }

    /// The fresh state behind a boundary at `at`, if the piece may end there and something follows.
    fn behind_boundary(&self, at: Configuration) -> Option<u32> {
        let fresh = self.product.mark[at.state as usize];
        (fresh != DEAD && self.may_end(at.front) && self.completion.before[fresh as usize] == Before::Any)
            .then_some(fresh)
    }

    /// The added tokens that may follow, and the states behind them.
    fn added_behind(&self, at: Configuration) -> impl Iterator<Item = (u32, u32)> {
        let added = self.product.added(at.state).filter(move |_| self.may_end(at.front));
        added.filter(|(_, behind)| self.completion.before[*behind as usize] == Before::Any)
    }

    /// The configuration behind `token` as the first of a piece that begins in `state`.
    fn begin(&self, state: u32, token: TokenId) -> Option<Configuration> {
        let behind = self.read(state, token)?;
        self.search().may_begin(token.0, behind).then(|| {
            let front = match self.tokenizer.whole.child(WholePieces::ROOT, token.0) {
                _ if self.role(token) == Role::Whole => Front::Whole,
                Some(node) => Front::Node(node),
                None => Front::Class(self.tokenizer.neighbours.class[token.index()]),
            };
            Configuration { state: behind, front }
        })
    }

    /// The configuration behind `token` in the piece of `at`.
    fn go_on(&self, at: Configuration, token: TokenId) -> Option<Configuration> {
        if at.front == Front::Nothing {
            return self.begin(at.state, token);
        }
        let last = self.token_in_front(at.front)?;
        if self.role(token) == Role::Whole {
            return None;
        }
        let behind = self.read(at.state, token)?;
        if !self.tokenizer.neighbours.may_follow(last, token.0) {
            return None;
        }
        let child = match at.front {
            Front::Node(node) => self.tokenizer.whole.child(node, token.0),
            _ => None,
        };
        let (leads_on, front) = match child {
            Some(child) => (self.search().may_precede_node(child, behind), Front::Node(child)),
            None => {
                let class = self.tokenizer.neighbours.class[token.index()];
                (self.search().may_precede(token.0, behind), Front::Class(class))
            }
        };
        leads_on.then_some(Configuration { state: behind, front })
    }

    /// Allows the tokens that may follow in the piece of `at`.
    fn add_piece(&self, at: Configuration, mask: &mut MaskMut<'_>) {
        if at.front == Front::Whole {
            return;
        }
        let last = self.token_in_front(at.front);
        self.with_row(at.state, |row| match (row, last) {
            (Row::Short(tokens), _) => {
                for token in tokens {
                    if last.is_none_or(|last| self.tokenizer.neighbours.may_follow(last, *token)) {
                        mask.insert(TokenId(*token));
                    }
                }
            }
            (Row::Long(words), None) => mask.union(MaskRef::new(words, self.vocab_len())),
            (Row::Long(words), Some(last)) => {
                let mut allowed = words.clone();
                self.tokenizer.neighbours.forbidden(last, |token| {
                    allowed[token as usize / 32] &= !(1 << (token % 32));
                });
                mask.union(MaskRef::new(&allowed, self.vocab_len()));
            }
        });
        // Sequences that are written as one token go their own way.
        if let Front::Node(node) = at.front {
            for (token, _) in self.tokenizer.whole.children(node) {
                let token = TokenId(*token);
                if self.go_on(at, token).is_some() {
                    mask.insert(token);
                } else {
                    mask.remove(token);
                }
            }
        }
    }

    fn compute_mask(&self, state: &CanonicalState, mut mask: MaskMut<'_>) {
        mask.clear();
        for at in &state.0 {
            // A removal above is about this configuration alone, so it comes before what others add.
            if matches!(at.front, Front::Node(_)) && state.0.len() > 1 {
                let mut own = unskew_core::TokenMask::new(self.vocab_len());
                self.add_piece(*at, &mut own.as_mut());
                mask.union(own.as_ref());
            } else {
                self.add_piece(*at, &mut mask);
            }
        }
        for at in &state.0 {
            if let Some(fresh) = self.behind_boundary(*at) {
                self.add_piece(Configuration { state: fresh, front: Front::Nothing }, &mut mask);
            }
            self.added_behind(*at).for_each(|(token, _)| mask.insert(TokenId(token)));
        }
    }
}

impl Constraint for CanonicalConstraint {
    type State = CanonicalState;
    type Scratch = CanonicalScratch;

    fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    fn start(&self) -> CanonicalState {
        let start = Configuration { state: self.product.start, front: Front::Nothing };
        CanonicalState(SmallVec::from_iter([start]))
    }

    fn scratch(&self) -> CanonicalScratch {
        CanonicalScratch::default()
    }

    /// O(b + d) for a token of b bytes and merge trees d deep.
    fn advance(
        &self,
        _: &mut CanonicalScratch,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let mut next = SmallVec::new();
        for at in &state.0 {
            next.extend(self.go_on(*at, token));
            next.extend(self.behind_boundary(*at).and_then(|fresh| self.begin(fresh, token)));
            if self.role(token) == Role::Added {
                let behind = self.added_behind(*at).filter(|(added, _)| *added == token.0);
                next.extend(behind.map(|(_, state)| Configuration { state, front: Front::Nothing }));
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
        state.0.iter().any(|at| self.product.accepting[at.state as usize] && self.may_end(at.front))
    }

    /// O(v) for v ids if the mask is kept in `scratch`. Otherwise a walk through the trie for a state that no mask was
    /// asked for before, and a step for each token that the one in front forbids.
    fn fill_mask(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, mut mask: MaskMut<'_>) {
        if let Some(kept) = self.ready_mask(scratch, state) {
            mask.copy_from(kept);
            return;
        }
        self.compute_mask(state, mask.reborrow());
        if self.masks > 0 {
            if scratch.masks.len() >= self.masks {
                scratch.masks.clear();
            }
            let mut ids = mask.as_ref().into_ids();
            let only = ids.next().filter(|_| ids.next().is_none());
            drop(ids);
            let words = mask.as_ref().words().into();
            scratch.masks.insert(state.clone(), Kept { words, only });
        }
    }

    fn ready_mask<'a>(
        &'a self,
        scratch: &'a CanonicalScratch,
        state: &CanonicalState,
    ) -> Option<MaskRef<'a>> {
        let kept = scratch.masks.get(state)?;
        Some(MaskRef::new(&kept.words, self.vocab_len()))
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, token: TokenId) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    fn forced(&self, scratch: &mut CanonicalScratch, state: &CanonicalState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        if let Some(kept) = scratch.masks.get(state) {
            return kept.only;
        }
        let mut mask = unskew_core::TokenMask::new(self.vocab_len());
        self.fill_mask(scratch, state, mask.as_mut());
        let mut ids = mask.ids();
        ids.next().filter(|_| ids.next().is_none())
    }
}

impl fmt::Debug for CanonicalConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalConstraint")
            .field("states", &self.product.len())
            .field("vocabulary", &self.vocabulary)
            .finish_non_exhaustive()
    }
}

/// Why tokens spell no text of `dfa` that the encoder takes as it is.
fn unspellable(dfa: &Dfa, tokenizer: &TokenizerAutomaton, vocabulary: &Vocabulary) -> NothingCanonical {
    let mut spelled = [false; 256];
    for (token, text) in vocabulary.text_tokens() {
        if tokenizer.roles.get(token.index()).is_some_and(|role| *role != Role::Never) {
            text.iter().for_each(|byte| spelled[usize::from(*byte)] = true);
        }
    }
    NothingCanonical::Unspellable {
        missing: dfa.bytes().filter(|byte| !spelled[usize::from(*byte)]).collect(),
    }
}
