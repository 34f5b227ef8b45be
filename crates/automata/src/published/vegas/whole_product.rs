//! A constraint with its whole product: the product, the tokens that may precede each state, and the token sets.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use rustc_hash::FxHashMap as Map;

use super::{
    completion::{Before, Completion, Search},
    library::{Shared, VegasLibrary},
    product::Product,
};
use crate::{
    CanonicalError, CanonicalIndex, Limits,
    canonical::{
        token_set::TokenSet,
        viability::{
            context::Context,
            language::DfaLanguage,
            position::Position,
            sequence::{Configuration, LeftContext, Viability},
        },
    },
    ids::{Id, ProductState, Table},
};

/// A product with its completion and its token sets.
pub(crate) struct WholeProduct {
    product: Product,
    completion: Completion,
    /// The number of each position.
    ids: Map<Position, ProductState>,
    /// By state: the tokens that lead from it to live states, for any left context.
    token_sets: Table<ProductState, OnceLock<TokenSet>>,
    /// The number of further long token sets that may be kept.
    sets_left: AtomicUsize,
    /// The blocks of the library, if the product can be cut.
    shared: Option<Shared>,
}

impl WholeProduct {
    /// Cost: O(n k) for n states of the product and k byte classes, and for each state a walk through the trie that
    /// ends when the set of tokens that may precede the state is known.
    ///
    /// # Errors
    ///
    /// As for [`Product::new`].
    pub(crate) fn new(
        context: Context<'_, DfaLanguage>,
        library: &VegasLibrary,
        limits: &Limits,
        kept: usize,
    ) -> Result<Self, CanonicalError> {
        let product = Product::new(context, limits)?;
        let (completion, shared) = match library.complete(&product, context.index) {
            Some((completion, shared)) => (completion, Some(shared)),
            None => (Completion::new(&product, context.index, library.backward(context.index)), None),
        };
        if completion.before[ProductState::of(product.start)] != Before::Any {
            return Err(CanonicalError::NothingCanonical { reason: context.why_nothing() });
        }
        Ok(Self {
            token_sets: (0..product.len()).map(|_| OnceLock::new()).collect(),
            sets_left: AtomicUsize::new(kept),
            ids: product.positions.iter().copied().zip(product.states()).collect(),
            shared,
            product,
            completion,
        })
    }

    pub(crate) fn states(&self) -> usize {
        self.product.len()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let token_sets =
            self.token_sets.entries().iter().filter_map(OnceLock::get).map(|token_set| match token_set {
                TokenSet::Short(list) | TokenSet::Long(list) => size_of_val(&list[..]),
            });
        self.product.memory_usage()
            + self.completion.memory_usage()
            + self.ids.len() * (size_of::<Position>() + size_of::<ProductState>())
            + self.token_sets.len() * size_of::<OnceLock<TokenSet>>()
            + token_sets.sum::<usize>()
    }

    /// The number of states of the block that `state` belongs to.
    pub(crate) fn block_len(&self, state: ProductState) -> Option<usize> {
        Some(self.shared.as_ref()?.block_len(state))
    }

    /// The state of a position; `None` if no accepted text continues from it.
    fn state(&self, at: Position) -> Option<ProductState> {
        self.ids.get(&at).copied()
    }

    fn search<'a>(&'a self, index: &'a CanonicalIndex) -> Search<'a> {
        let Self { product, completion, .. } = self;
        Search { product, index, completion }
    }

    pub(crate) fn questions<'a>(&'a self, index: &'a CanonicalIndex) -> Questions<'a> {
        Questions { whole: self, index }
    }

    fn with_token_set_of<T>(
        &self,
        index: &CanonicalIndex,
        state: ProductState,
        read: impl FnOnce(&TokenSet) -> T,
    ) -> T {
        let place = &self.token_sets[state];
        if let Some(token_set) = place.get() {
            return read(token_set);
        }
        let kept = self.shared.as_ref().and_then(|shared| shared.token_set(state));
        if let Some(token_set) = kept {
            return read(token_set);
        }
        let token_set = TokenSet::new(self.search(index).token_set(state));
        let token_set = match &self.shared {
            Some(shared) => match shared.keep(state, token_set) {
                Ok(token_set) => return read(token_set),
                Err(token_set) => token_set,
            },
            None => token_set,
        };
        let room = matches!(token_set, TokenSet::Short(_))
            || self
                .sets_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        if room { read(place.get_or_init(|| token_set)) } else { read(&token_set) }
    }

    /// Computes the token sets of the wanted states now instead of at their first use. `wanted` receives the state's
    /// number and whether it is a piece start or a boundary.
    pub(crate) fn compute_token_sets(
        &self,
        index: &CanonicalIndex,
        wanted: impl Fn(ProductState, bool) -> bool,
    ) {
        let is_boundary = self
            .completion
            .boundary
            .entries()
            .iter()
            .zip(&self.product.at_piece_start)
            .map(|(end, piece_start)| *end || *piece_start);
        for (state, _) in
            self.product.states().zip(is_boundary).filter(|(state, is_boundary)| wanted(*state, *is_boundary))
        {
            self.with_token_set_of(index, state, |_| ());
        }
    }
}

/// A whole product with its constraint: answers from tables.
pub(crate) struct Questions<'a> {
    whole: &'a WholeProduct,
    index: &'a CanonicalIndex,
}

impl Viability for Questions<'_> {
    fn is_live_start(&mut self, piece_start: Position) -> bool {
        let Self { whole, .. } = self;
        whole.state(piece_start).is_some_and(|state| whole.completion.before[state] == Before::Any)
    }

    fn is_viable(&mut self, token: u32, after: Configuration) -> bool {
        let Self { whole, index } = self;
        let Some(state) = whole.state(after.position) else { return false };
        match after.left {
            LeftContext::Nothing => whole.completion.before[state] == Before::Any,
            LeftContext::Class(_) => whole.search(index).may_precede(token, state),
            LeftContext::Node(node) => whole.search(index).may_precede_node(node, state),
            LeftContext::Whole => whole.completion.boundary[state],
        }
    }

    fn with_token_set<T>(&mut self, at: Position, read: impl FnOnce(&TokenSet) -> T) -> T {
        match self.whole.state(at) {
            Some(state) => self.whole.with_token_set_of(self.index, state, read),
            None => read(&TokenSet::Short(Box::default())),
        }
    }
}
