//! The lazy engine: which tokens may precede a position, decided when it is asked.
//!
//! A token may precede a position if the token and the position together can be completed. If the encoder writes
//! tokens for all texts of the constraint ([`BigramFacts::is_regular_for`]), the first of these rules that applies
//! decides:
//!
//! 1. No, if the position is not live: no accepted text continues from it.
//! 2. Yes, if the piece may end there: the text ends, an added token follows, or a boundary leads to a live
//!    position. The canonical tokens of the rest of the text then begin after the boundary (proof in
//!    `merges/facts.rs`).
//! 3. Yes, if the text may continue with a byte that forms a hard bigram with the token's last byte, for the same
//!    reason.
//! 4. Otherwise it is a reachability problem: yes, if some token may follow that may itself precede the position
//!    after it.
//!
//! The precomputed liveness ([`crate::canonical::index::split_liveness`]) answers most queries at once. Otherwise a
//! [search](super::search) answers, which stops at the first success and visits only positions whose liveness is not
//! precomputed. [`LazyProduct::check`] refuses a constraint that might have too many of these positions. Answers are
//! kept in a [`Memo`], which belongs to a scratch. It may be dropped between two queries, and masks never wait for
//! each other. For the few constraints with texts for which the encoder may write no token, [`super::by_tokens`]
//! answers instead.

use std::sync::LazyLock;

use rustc_hash::FxHashSet as Set;
use smallvec::SmallVec;
use unskew_core::TokenId;
use unskew_trie::ByteSet;

use super::{
    context::Context,
    language::{DfaLanguage, LazyDfa},
    memo::Memo,
    position::{Automata, Position},
    sequence::{Configuration, LeftContext, Viability},
};
use crate::{
    Limits, StateId,
    canonical::{
        CanonicalError,
        index::{CanonicalIndex, split_liveness::SplitLiveness},
        merges::facts::BigramFacts,
        texts::utf8::utf8,
        token_set::{TokenSet, is_in},
        tokenizer::automaton::{Role, TokenizerAutomaton},
    },
    ids::{TokenClass, WholeNode},
};

/// By [UTF-8 state](utf8): the trailing bytes that may come next; none between characters.
static TRAILING: LazyLock<[ByteSet; 8]> = LazyLock::new(|| {
    let may_come = |place: u8, byte: &u8| place != 0 && utf8(place, *byte).is_some();
    [0, 1, 2, 3, 4, 5, 6, 7].map(|place| (0x80..0xc0u8).filter(|byte| may_come(place, byte)).collect())
});

/// The cost of an allocation without its contents, in bytes.
pub(crate) const OVERHEAD: usize = 32;

/// The most pairs of states that searches may visit. Of a constraint with more, the positions are counted.
const PAIRS: usize = 1 << 24;

/// The precomputed part of a constraint for the lazy engine.
#[derive(Debug)]
pub(crate) struct LazyProduct {
    /// Whether the encoder writes tokens for all texts that the automata read.
    is_regular: bool,
    /// One byte of each class of bytes that no automaton distinguishes, as far as the constraint reads them.
    bytes: Vec<u8>,
    /// The symbols of single bytes that the constraint reads.
    pub(super) symbols: Vec<(u8, u32)>,
    /// See [`SplitLiveness::lookahead2_by_class`].
    pub(crate) lookahead2_lists: Vec<Vec<(u8, ByteSet)>>,
    /// The most bytes that a memo may have.
    limit: usize,
}

/// A constraint with a memo: the object that answers queries.
pub(crate) struct Query<'a, L> {
    pub(crate) product: &'a LazyProduct,
    pub(super) context: Context<'a, L>,
    pub(crate) automata: Automata<'a, L>,
    pub(crate) index: &'a CanonicalIndex,
    pub(crate) liveness: &'a SplitLiveness,
    pub(crate) facts: &'a BigramFacts,
    pub(crate) memo: &'a mut Memo,
}

impl LazyProduct {
    /// `limit`: the most bytes that a memo may have.
    pub(crate) fn new<L: LazyDfa>(context: Context<'_, L>, limit: usize) -> Self {
        let Context { language, index, .. } = context;
        let tokenizer = &index.automaton;
        let used = language.bytes();
        let (_, mut bytes) = context.automata().columns();
        bytes.retain(|byte| used.contains(*byte));
        let symbols = (0..=255u8).zip(tokenizer.symbols.iter().copied());
        let is_read = |(byte, symbol): &(u8, u32)| used.contains(*byte) && tokenizer.is_merged(*symbol);
        Self {
            is_regular: index.bigram_facts().is_regular_for(&used, tokenizer),
            bytes,
            symbols: symbols.filter(is_read).collect(),
            lookahead2_lists: index.liveness().lookahead2_by_class(|byte| language.class(byte)),
            limit,
        }
    }

    /// Counts the positions of searches among the states of a DFA, unless they are certainly few.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::TooManyProductStates`] if searches might visit too many positions.
    pub(crate) fn check(
        &self,
        context: Context<'_, DfaLanguage>,
        limits: &Limits,
    ) -> Result<(), CanonicalError> {
        let DfaLanguage { dfa, unknown, .. } = context.language;
        match context.index.liveness().pairs(dfa.len(), *unknown) > PAIRS || !self.is_regular {
            true => self.count_positions(context, limits),
            false => Ok(()),
        }
    }

    /// Counts the positions that are reached from the start, up to the limit.
    fn count_positions(
        &self,
        context: Context<'_, DfaLanguage>,
        limits: &Limits,
    ) -> Result<(), CanonicalError> {
        let automata = context.automata();
        let mut open = vec![automata.start()];
        let mut seen: Set<Position> = open.iter().copied().collect();
        let mut targets = Vec::new();
        while let Some(from) = open.pop() {
            if seen.len() > limits.product_states {
                return Err(CanonicalError::TooManyProductStates { limit: limits.product_states });
            }
            limits.check_cancelled()?;
            self.targets(context, from, &mut targets);
            open.extend(targets.iter().copied().filter(|target| seen.insert(*target)));
        }
        Ok(())
    }

    pub(crate) fn query<'a, L: LazyDfa>(
        &'a self,
        context: Context<'a, L>,
        memo: &'a mut Memo,
    ) -> Query<'a, L> {
        if memo.young_bytes() > self.limit / 2 {
            memo.turn();
        }
        let index = context.index;
        Query {
            product: self,
            context,
            automata: context.automata(),
            index,
            liveness: index.liveness(),
            facts: index.bigram_facts(),
            memo,
        }
    }

    /// The positions after one byte, a boundary or an added token. Consecutive bytes with one target give one entry.
    pub(super) fn targets<L: LazyDfa>(
        &self,
        context: Context<'_, L>,
        at: Position,
        targets: &mut Vec<Position>,
    ) {
        let automata = context.automata();
        targets.clear();
        targets.extend(automata.mark(at));
        let bytes = possible(&self.bytes, context.language.places(at.regex));
        let read: SmallVec<[u8; 32]>;
        let bytes = match context.language.is_costly() {
            false => bytes,
            true => {
                let is_read = context.language.read(at.regex);
                read = bytes.iter().copied().filter(|byte| is_read.contains(*byte)).collect();
                &read[..]
            }
        };
        automata.steps(at, bytes, |target| {
            if targets.last() != Some(&target) {
                targets.push(target);
            }
        });
        if automata.tokenizer.split.has_fallback() {
            targets.extend(bytes.iter().filter_map(|byte| automata.step_fallback(at, *byte)));
        }
        targets.extend(automata.added(at).map(|(_, after)| after));
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes.len() + size_of_val(&self.symbols[..])
    }
}

/// The subset of `bytes` (ascending) that may be read in these UTF-8 states. Accepted texts are UTF-8, so within a
/// character only trailing bytes can be read.
fn possible(bytes: &[u8], places: u8) -> &[u8] {
    if places & 1 != 0 {
        return bytes;
    }
    let of = |end: u8| bytes.partition_point(|byte| *byte < end);
    &bytes[of(0x80)..of(0xc0)]
}

impl<'a, L: LazyDfa> Query<'a, L> {
    pub(super) fn tokenizer(&self) -> &TokenizerAutomaton {
        self.automata.tokenizer
    }

    /// Whether `at` can certainly continue with a byte that forms a hard bigram with `last`.
    fn is_hard_after(&mut self, last: u8, at: Position) -> bool {
        let live_next = &self.liveness.live_next[at.split];
        let hard = self.facts.hard.hard_after(last);
        !live_next.is_empty() && !self.live_bytes(at.regex).and(live_next).and(&hard).is_empty()
    }

    /// Whether `token` may certainly precede `at`, which is inside a character: the constraint accepts every
    /// completion of the character, and the tokenizer has tokens that complete it after this one.
    fn completes_character(&mut self, token: u32, at: Position) -> bool {
        let place = self.liveness.places[at.split];
        place != 0
            && !self.composes()
            && self.liveness.is_calm_inside
            && self.accepts_completions(at.regex, place)
            && self.index.completes_character(token, at.split)
    }

    /// Whether the DFA reads from `state` every completion of a character in UTF-8 state `place`, and then accepts
    /// or can certainly continue in another piece.
    pub(crate) fn accepts_completions(&mut self, state: StateId, place: u8) -> bool {
        if let Some(known) = self.automata.language.completes(state, place) {
            return known;
        }
        // For most states some byte is not read at all.
        let trailing = &TRAILING[usize::from(place)];
        if self.read_bytes(state).and(trailing) != *trailing {
            return false;
        }
        if let Some(known) = self.memo.completions.get(&(state, place)) {
            return *known;
        }
        let language = self.automata.language;
        let accepts_completions = if place == 0 {
            let live = self.live_bytes(state);
            language.is_accepting(state)
                || self.liveness.after_wide_char.iter().all(|needed| needed.meets(&live))
        } else {
            // Consecutive bytes that lead to the same two states are tested once.
            let mut last = None;
            (0x80..0xc0u8).all(|byte| {
                let Some(place) = utf8(place, byte) else { return true };
                let Some(next) = language.step(state, byte) else { return false };
                last.replace((next, place)) == Some((next, place)) || self.accepts_completions(next, place)
            })
        };
        self.memo.completions.insert((state, place), accepts_completions, 0);
        accepts_completions
    }

    /// Whether `token` may precede `at`, if that can be decided without a search over tokens.
    pub(crate) fn decided(&mut self, token: u32, at: Position) -> Option<bool> {
        if self.is_boundary(at) {
            return Some(true);
        }
        if self.completes_character(token, at) {
            return Some(true);
        }
        // Inside a character so few tokens may follow that a search is faster.
        let is_inside = self.liveness.places[at.split] != 0;
        if !is_inside && !self.is_live(at) {
            return Some(false);
        }
        let last = self.index.vocabulary.text(TokenId(token)).and_then(|text| text.last().copied());
        if last.is_some_and(|last| self.is_hard_after(last, at)) {
            return Some(true);
        }
        self.known(token, at)
    }

    /// The result of earlier searches for `token` before `at`.
    fn known(&mut self, token: u32, at: Position) -> Option<bool> {
        if self.has_viable_successor(token, at) {
            return Some(true);
        }
        let key = (self.class(token), at);
        self.memo.complete.get(&key).copied()
    }

    /// Whether a known viable token from `at` may follow `token`. The last successful one is tried first.
    fn has_viable_successor(&mut self, token: u32, at: Position) -> bool {
        let index = self.index;
        let Memo { viable, pair_tests: [bytes, _], .. } = &mut *self.memo;
        let Some(viable) = viable.get_mut(&at) else { return false };
        let found = viable.iter_mut().position(|successor| successor.may_follow(index, token, bytes));
        found.into_iter().for_each(|found| viable.swap(0, found));
        found.is_some()
    }

    pub(super) fn class(&self, token: u32) -> TokenClass {
        self.tokenizer().bigrams.class(token)
    }

    /// Whether `token` may precede `at`, in the same piece.
    pub(crate) fn may_precede(&mut self, token: u32, at: Position) -> bool {
        match self.decided(token, at) {
            Some(decided) => decided,
            None => self.search(token, at),
        }
    }

    /// As [`may_precede`](Self::may_precede), for a position that only a search can decide. The piece may not end in
    /// `at`. `at` is live, is not inside a character, and continues with no byte that forms a hard bigram with the
    /// token's last byte.
    pub(crate) fn may_precede_by_search(&mut self, token: u32, at: Position) -> bool {
        match self.known(token, at) {
            Some(known) => known,
            None => self.search(token, at),
        }
    }

    /// Whether `next` may follow `token` in a piece of several tokens.
    pub(crate) fn may_follow(&self, token: u32, next: u32) -> bool {
        let TokenizerAutomaton { roles, bigrams, .. } = self.automata.tokenizer;
        roles[next as usize] != Role::Whole && bigrams.may_follow(token, next)
    }

    /// Calls `visit` with the tokens that can be read from `at` and the positions after them, until it returns true.
    /// Returns whether it did. Fallback tokens are included. `visit` decides whether a token is viable.
    pub(super) fn any_token(
        &mut self,
        at: Position,
        mut visit: impl FnMut(&mut Self, u32, Position) -> bool,
    ) -> bool {
        let (trie, automata) = (&self.index.trie, self.automata);
        let tokenizer = automata.tokenizer;
        let fallback: SmallVec<[(u32, Position); 4]> = self.fallback(at).collect();
        if fallback.into_iter().any(|(token, after)| visit(self, token, after)) {
            return true;
        }
        trie.any_reading(
            self,
            at,
            |query, at| query.read_bytes(at.regex),
            |at, byte| automata.step(at, byte),
            |query, token, after| tokenizer.is_merged(token.0) && visit(query, token.0, after),
        )
    }

    /// Whether `at` is live after `node` of the trie of whole pieces.
    pub(crate) fn may_precede_node(&mut self, node: WholeNode, at: Position) -> bool {
        let tokenizer = self.automata.tokenizer;
        let whole = &tokenizer.whole;
        if !whole.is_complete(node) && self.is_boundary(at) {
            return true;
        }
        let last = whole.token(node);
        if !self.may_precede(last, at) {
            return false;
        }
        let byte = self.index.vocabulary.text(TokenId(last)).and_then(|text| text.last().copied());
        if byte.is_some_and(|byte| self.is_hard_after(byte, at)) {
            return true;
        }
        let is_viable = |query: &mut Self, token: u32, after: Position| match whole.child(node, token) {
            Some(child) => query.may_precede_node(child, after),
            None => query.may_precede(token, after),
        };
        let mut fallback = self.fallback(at).filter(|(token, _)| tokenizer.bigrams.may_follow(last, *token));
        let (index, automata) = (self.index, self.automata);
        let successors = index.successors(last, at.split);
        // The runs are lazy, since mostly one of the first succeeds.
        let mut merged = successors.tokens.iter().filter_map(|token| {
            let text = index.vocabulary.text(TokenId(*token)).unwrap_or_default();
            Some((*token, automata.run(at, text)?))
        });
        if fallback.any(|(token, after)| is_viable(self, token, after))
            || merged.any(|(token, after)| is_viable(self, token, after))
        {
            return true;
        }
        if successors.is_all {
            return false;
        }
        let mut others = tokenizer.merged.clone();
        index.remove_forbidden(last, &mut others);
        self.any_token(at, |query, token, after| is_in(&others, token) && is_viable(query, token, after))
    }

    /// Whether `token`, as the first token of a piece, leads to `at` without a dead end.
    pub(crate) fn may_begin(&mut self, token: u32, at: Position) -> bool {
        match self.tokenizer().roles[token as usize] {
            Role::Merged | Role::Fallback => match self.tokenizer().whole.child(WholeNode::ROOT, token) {
                Some(node) => self.may_precede_node(node, at),
                None => self.may_precede(token, at),
            },
            Role::Whole => self.is_boundary(at),
            Role::Never => false,
        }
    }
}

impl<L: LazyDfa> Viability for Query<'_, L> {
    fn is_live_start(&mut self, piece_start: Position) -> bool {
        match self.product.is_regular {
            true => self.is_live(piece_start),
            false => self.ends(Configuration { position: piece_start, left: LeftContext::Nothing }),
        }
    }

    fn is_viable(&mut self, token: u32, after: Configuration) -> bool {
        match after.left {
            _ if !self.product.is_regular => self.ends(after),
            LeftContext::Nothing => self.is_live(after.position),
            LeftContext::Class(_) => self.may_precede(token, after.position),
            LeftContext::Node(node) => self.may_precede_node(node, after.position),
            LeftContext::Whole => self.is_boundary(after.position),
        }
    }

    fn with_token_set<T>(&mut self, at: Position, read: impl FnOnce(&TokenSet) -> T) -> T {
        if let Some(token_set) = self.memo.token_sets.get(&at) {
            return read(token_set);
        }
        let token_set =
            if self.product.is_regular { self.token_set(at) } else { self.token_set_by_tokens(at) };
        let answer = read(&token_set);
        let (TokenSet::Short(list) | TokenSet::Long(list)) = &token_set;
        let bytes = OVERHEAD + size_of_val(&list[..]);
        self.memo.token_sets.insert(at, token_set, bytes);
        answer
    }
}
