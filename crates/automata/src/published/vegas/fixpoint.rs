//! Computes which tokens may precede each state of a product: the fixpoint of [`super::completion`].
//!
//! The sets grow from empty sets until nothing changes. In a state, viable tokens are tried one by one until every
//! token that can arrive there may be followed by one of them. Most states are settled by their first few tokens. A
//! wide state inside a word takes more: there the sets of tokens that forbid a viable symbol are intersected over
//! all viable symbols. A handful of tokens or none remains.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use unskew_core::{TokenId, words_for};

use super::{
    backward::Backward,
    block::Blocks,
    completion::{Before, Completion, Search},
    product::{Product, Sources},
};
use crate::{
    canonical::{
        index::CanonicalIndex,
        merges::derivation::NONE,
        token_set::{bits, set},
        tokenizer::automaton::Role,
    },
    ids::{Id, ProductState, Table, WholeNode},
};

/// The most viable tokens that are stored as a list.
const LISTED: usize = 16;

/// The most unsettled states that one state may depend on in a hasty round. Beyond that, it is left for the next
/// round.
const PATIENCE: u32 = 32;

/// The most hasty rounds.
const HASTY_ROUNDS: u32 = 64;

/// The most incoming bytes of a state whose tokens are tested at each query. A state with more incoming bytes has
/// many tokens before it, so their tests are done once, here.
const WIDE_SOURCES: u32 = 8;

/// The most sets of tokens that are cached.
const CACHED_SETS: usize = 512;

impl Completion {
    /// Cost: for each state a walk through the trie that ends as soon as the state is settled.
    pub(super) fn new(product: &Product, index: &CanonicalIndex, backward: &Backward) -> Self {
        // If tokens spell every byte of the product, most states are known without a search.
        let (known, boundary) = match Blocks::new(product, &index.automaton, index.bigram_facts()) {
            Some(blocks) => (blocks.known, blocks.boundary),
            None => (vec![false; product.len()], product.accepting.clone()),
        };
        Self::knowing(product, index, backward, known, boundary)
    }

    /// As [`new`](Self::new), with the states `known` to be preceded by any token. For these, `boundary` holds
    /// whether the piece may end there.
    pub(super) fn knowing(
        product: &Product,
        index: &CanonicalIndex,
        backward: &Backward,
        known: Vec<bool>,
        boundary: Vec<bool>,
    ) -> Self {
        let before = known.iter().map(|known| if *known { Before::Any } else { Before::None });
        let mut completion = Self { before: before.collect(), boundary: boundary.into() };
        let mut open = product.by_distance.clone();
        open.retain(|state| !known[state.index()]);
        let mut rounds = Rounds {
            product,
            index,
            backward,
            sources: product.sources(),
            settled: known.into(),
            forbidden_prev: HashMap::new(),
            forbidden: HashMap::new(),
            forbid_all: HashMap::new(),
        };
        // A hasty round may find a smaller set than a thorough round before it. If the two alternated, each could
        // undo the other forever. So no hasty round follows a thorough one. Thorough rounds only add tokens.
        let mut hasty = true;
        for round in 0_u32.. {
            if open.is_empty() {
                break;
            }
            let mut changed = false;
            for state in &open {
                let at = *state;
                let unsettled = Cell::new(0);
                let (boundary, before) = rounds.state(*state, &completion, &unsettled, hasty);
                changed |= before != completion.before[at] || boundary != completion.boundary[at];
                // Whether the piece may end here matters separately, for tokens that are written as whole pieces.
                let may_end_later =
                    !boundary && (product.mark(at).is_some() || product.added(at).next().is_some());
                rounds.settled[at] = unsettled.get() == 0 || (before == Before::Any && !may_end_later);
                completion.before[at] = before;
                completion.boundary[at] = boundary;
            }
            open.retain(|state| !rounds.settled[*state]);
            if !changed && !hasty {
                break;
            }
            hasty &= changed && round < HASTY_ROUNDS;
        }
        completion
    }
}

/// The bytes that lead into a state, and the viable tokens from it.
type Viable = ([u64; 4], Vec<u32>);

struct Rounds<'a> {
    product: &'a Product,
    index: &'a CanonicalIndex,
    backward: &'a Backward,
    sources: Sources,
    /// States that are final: all states that they depend on are settled.
    settled: Table<ProductState, bool>,
    /// By token: the tokens that it must not follow, one bit each.
    forbidden_prev: HashMap<u32, Box<[u32]>>,
    /// By token: the tokens that must not follow it, one bit each.
    forbidden: HashMap<u32, Box<[u32]>>,
    /// By the bytes that lead into a state and the viable tokens from it: the tokens that end in one of these bytes
    /// and forbid all viable ones. The states of a repetition share these entries.
    forbid_all: HashMap<Viable, Rc<[u32]>>,
}

impl Rounds<'_> {
    /// Whether the piece may end in `state`, and the tokens that may precede it, as far as the next states are
    /// known. `unsettled` counts the next states that are not settled. In a `hasty` round, too many of them end the
    /// search.
    fn state(
        &mut self,
        state: ProductState,
        completion: &Completion,
        unsettled: &Cell<u32>,
        hasty: bool,
    ) -> (bool, Before) {
        let Self { product, index, .. } = *self;
        let CanonicalIndex { automaton: tokenizer, vocabulary, .. } = index;
        let search = Search { product, index, completion };
        let count = |is_settled: bool| unsettled.set(unsettled.get() + u32::from(!is_settled));
        let depends = |other: ProductState| count(self.settled[other]);
        let tired = || hasty && unsettled.get() > PATIENCE;

        let start_is_live = |piece_start: ProductState| {
            depends(piece_start);
            completion.before[piece_start] == Before::Any
        };
        let boundary = product.accepting[state.index()]
            || product.mark(state).is_some_and(start_is_live)
            || product.added(state).any(|(_, after)| start_is_live(after));
        if boundary {
            // The text may also end at the start, where no token was written, or after an added token.
            return (true, Before::Any);
        }
        if product.at_piece_start[state.index()] {
            let is_viable = Cell::new(false);
            let is_node = |token: u32| tokenizer.whole.child(WholeNode::ROOT, token).is_some();
            search.any_token(state, |token, after| {
                // Sequences that are written as one token are followed over several states, so they come last.
                count(!is_node(token));
                depends(after);
                is_viable.set(!is_node(token) && search.may_begin(token, after));
                is_viable.get() || tired()
            });
            if !is_viable.get() && !tired() {
                is_viable.set(
                    search.any_token(state, |token, after| is_node(token) && search.may_begin(token, after)),
                );
            }
            return (false, if is_viable.get() { Before::Any } else { Before::None });
        }

        let is_viable = |token: u32, after: ProductState| {
            depends(after);
            tokenizer.roles[token as usize] != Role::Whole && search.may_precede(token, after)
        };
        let mut viable: Vec<u32> = Vec::new();
        search.any_token(state, |token, after| {
            if is_viable(token, after) {
                viable.push(token);
            }
            viable.len() > LISTED || tired()
        });
        let few = viable.len() <= LISTED;
        if viable.is_empty() {
            return (false, Before::None);
        }
        let bytes = self.sources.bytes(product, state);
        let width: u32 = bytes.iter().map(|word| word.count_ones()).sum();
        if few && (width <= WIDE_SOURCES || tired()) {
            return (false, Before::FollowedBy(viable.into()));
        }
        if !few {
            // Use the symbols instead: a token that forbids all viable symbols is rare.
            viable.clear();
            for (byte, symbol) in (0..=255u8).zip(&tokenizer.symbols).filter(|(_, symbol)| **symbol != NONE) {
                if product.step(state, byte).is_some_and(|after| is_viable(*symbol, after)) {
                    viable.push(*symbol);
                }
            }
        }
        // The tokens that can end here at all and that forbid every viable symbol.
        let except = self.forbid_all(viable, bytes);
        let arrives = |token: &u32| {
            let text = vocabulary.text(TokenId(*token));
            text.is_some_and(|text| self.sources.arrives(product, state, text))
        };
        let mut except: Vec<u32> = except.iter().copied().filter(arrives).collect();
        let later = hasty && unsettled.get() > 0;
        if !few && !later && !except.is_empty() {
            // Of these, keep the tokens that forbid all longer viable tokens too. Tokens to unsettled states may
            // become viable later.
            let unsettled_ends = Cell::new(false);
            let token_set = search.token_set_seeing(state, |after| {
                unsettled_ends.set(unsettled_ends.get() | !self.settled[after]);
            });
            count(!unsettled_ends.get());
            except.retain(|token| {
                let forbidden = self.forbidden_after(*token);
                token_set.iter().zip(forbidden).all(|(token_set, forbidden)| token_set & !forbidden == 0)
            });
        }
        (false, if except.is_empty() { Before::Any } else { Before::Except(except.into()) })
    }

    /// The tokens that end in one of `bytes` and that forbid all of `viable`.
    fn forbid_all(&mut self, viable: Vec<u32>, bytes: [u64; 4]) -> Rc<[u32]> {
        let key = (bytes, viable);
        if let Some(found) = self.forbid_all.get(&key) {
            return Rc::clone(found);
        }
        let tokenizer = &self.index.automaton;
        let mut all = self.backward.ending_in(&bytes, tokenizer.vocab_len);
        for token in &key.1 {
            if self.forbidden_prev.len() > CACHED_SETS {
                self.forbidden_prev.clear();
            }
            let forbidden_prev = self.forbidden_prev.entry(*token).or_insert_with(|| {
                let mut words = vec![0u32; words_for(tokenizer.vocab_len)];
                self.backward.forbidden_prev(&tokenizer.bigrams, *token, |token| set(&mut words, token));
                words.into()
            });
            let mut left = 0;
            for (word, forbidden_prev) in all.iter_mut().zip(&forbidden_prev[..]) {
                *word &= forbidden_prev;
                left |= *word;
            }
            if left == 0 {
                break;
            }
        }
        let found: Rc<[u32]> = bits(&all).collect();
        if self.forbid_all.len() > CACHED_SETS {
            self.forbid_all.clear();
        }
        self.forbid_all.insert(key, Rc::clone(&found));
        found
    }

    /// The tokens that must not follow `token`, one bit each, over the ids of the vocabulary.
    fn forbidden_after(&mut self, token: u32) -> &[u32] {
        if self.forbidden.len() > CACHED_SETS {
            self.forbidden.clear();
        }
        let (tokenizer, len) = (&self.index.automaton, words_for(self.index.vocabulary.len()));
        self.forbidden.entry(token).or_insert_with(|| {
            let mut words = vec![0u32; len];
            tokenizer.bigrams.forbidden_next(token, |next| words[next as usize / 32] |= 1 << (next % 32));
            words.into()
        })
    }
}
