//! The canonical constraint over a whole product: [`VegasConstraint`].

use std::{fmt, sync::Arc};

use unskew_core::{Constraint, MaskMut, Rejected, TokenId, hashed_key, words_for};

use super::{library::VegasLibrary, whole_product::WholeProduct};
use crate::{
    CanonicalIndex, Dfa, Limits,
    canonical::CanonicalState,
    canonical::viability::{context::Context, language::DfaLanguage},
    ids::ProductState,
    published::PublishedError,
};

/// The same sequences as those of a [`CanonicalConstraint`](crate::CanonicalConstraint), by the published way: the
/// product of the constraint with the tokenizer's splitting is built whole, and completed before the first mask. Parts
/// of it are those of a [`VegasLibrary`].
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{CanonicalIndex, Dfa, Limits, TokenizerAutomaton};
/// use unskew_automata::published::{VegasConstraint, VegasLibrary};
/// use unskew_core::{Constraint, Merge, MergeTable, TokenMask, Tokenization, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// let [n, o, dot] = ["n", "o", "."].map(|text| builder.text(text.as_bytes()));
/// let no = builder.text(b"no");
/// let vocabulary = builder.build()?;
/// let mut tokenization = Tokenization::default();
/// tokenization.merges = MergeTable::new(vec![Merge { left: n, right: o, result: no }])?;
/// let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization)?);
/// let index = Arc::new(CanonicalIndex::new(automaton, Arc::new(TokenTrie::new(vocabulary)?))?);
///
/// let library = VegasLibrary::new(&index, VegasLibrary::DEFAULT_BYTES);
/// let dfa = Dfa::from_pattern(r"(no|n)\.", &Limits::default())?;
/// let constraint = VegasConstraint::new(&dfa, &index, &library, &Limits::default())?;
/// let mut mask = TokenMask::new(constraint.vocab_len());
/// constraint.fill_mask(&mut (), &constraint.start(), mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [n, no]);
/// // Another constraint finds its blocks in the library.
/// VegasConstraint::new(&dfa, &index, &library, &Limits::default())?;
/// assert!(library.stats().hits.0 > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VegasConstraint {
    language: DfaLanguage,
    index: Arc<CanonicalIndex>,
    whole: WholeProduct,
}

impl VegasConstraint {
    /// The constraint that `dfa` accepts the whole output. Parts of the product that `library` does not have are added
    /// to it.
    ///
    /// # Errors
    ///
    /// [`PublishedError::LibraryMismatch`], and as for
    /// [`CanonicalConstraint::from_dfa`](crate::CanonicalConstraint::from_dfa).
    pub fn new(
        dfa: &Dfa,
        index: &Arc<CanonicalIndex>,
        library: &VegasLibrary,
        limits: &Limits,
    ) -> Result<Self, PublishedError> {
        if !library.is_of(index) {
            return Err(PublishedError::LibraryMismatch);
        }
        let language = DfaLanguage::new(dfa.clone(), index, limits)?;
        let set_bytes = (words_for(index.vocabulary().len()) * size_of::<u32>()).max(1);
        let kept = limits.mask_cache_bytes / set_bytes;
        let whole = WholeProduct::new(language.context(index), library, limits, kept)?;
        Ok(Self { language, index: Arc::clone(index), whole })
    }

    fn context(&self) -> Context<'_, DfaLanguage> {
        self.language.context(&self.index)
    }

    /// The number of states of the product.
    pub fn states(&self) -> usize {
        self.whole.states()
    }

    /// The memory in bytes of the DFA, and of the product with its token sets. The library is not counted.
    pub fn memory_usage(&self) -> usize {
        self.language.memory_usage() + self.whole.memory_usage()
    }

    /// Computes the token sets of the wanted states now instead of at their first use. `wanted` receives the number of
    /// states of a state's block, and whether the state is a piece start or a boundary.
    pub(super) fn compute_token_sets(&self, wanted: impl Fn(Option<usize>, bool) -> bool) {
        let wanted = |state: ProductState, is_boundary| wanted(self.whole.block_len(state), is_boundary);
        self.whole.compute_token_sets(&self.index, wanted);
    }
}

impl Constraint for VegasConstraint {
    type State = CanonicalState;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.index.vocabulary.len()
    }

    fn start(&self) -> CanonicalState {
        self.context().start()
    }

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), state: &mut CanonicalState, token: TokenId) -> Result<(), Rejected> {
        self.context().advance(&mut self.whole.questions(&self.index), state, token)
    }

    fn is_accepting(&self, state: &CanonicalState) -> bool {
        self.context().is_accepting(state)
    }

    fn fill_mask(&self, (): &mut (), state: &CanonicalState, mask: MaskMut<'_>) {
        self.context().fill_mask(&mut self.whole.questions(&self.index), state, mask);
    }

    fn allows(&self, scratch: &mut (), state: &CanonicalState, token: TokenId) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    /// A hash of the configurations.
    fn state_key(&self, (): &mut (), state: &CanonicalState) -> Option<u64> {
        Some(hashed_key(state))
    }
}

impl fmt::Debug for VegasConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VegasConstraint")
            .field("states", &self.states())
            .field("vocabulary", &self.index.vocabulary)
            .finish_non_exhaustive()
    }
}
