//! A set as a constraint: the output is one of its items.
//!
//! The position of a sequence is an interval of the set, and a second interval of the items that a [`Delta`] adds: a
//! few integers, copied to fork. A subset, and the items that a delta removes, are a filter over the items: a token
//! is allowed while it leads to an item that the filter leaves.
//!
//! # Candidates
//!
//! The paper verifies the M most probable tokens and takes the valid ones as the mask (Parallel Prefix-Verification).
//! In this crate [`SetConstraint::candidates`] offers that verification, for parity with the paper; the default is
//! the exact mask. With M candidates an item is lost as soon as one of its tokens is not among the M best. When none
//! of the M candidates is valid, the published algorithm cannot continue; samplers then take the exact mask.

use std::sync::Arc;

use unskew_core::{Constraint, MaskBatch, MaskMut, MaskRef, Rejected, TokenId, TokenMask, hashed_key};

use crate::{Cursor, Delta, ItemSet, SetError, Subset};

/// The number of sequences of a batch that are read ahead: their lines fit in the first cache many times.
const AHEAD: usize = 64;

/// A set of items, or the items of the set that a filter leaves.
#[derive(Clone, Debug)]
struct Layer {
    set: Arc<ItemSet>,
    live: Option<Arc<Subset>>,
}

/// The tokens that may follow, as far as [`Constraint::forced`] has to know them.
#[derive(Clone, Copy, PartialEq)]
enum Followers {
    None,
    One(TokenId),
    Many,
}

impl Followers {
    fn and(self, token: TokenId) -> Self {
        match self {
            Self::None => Self::One(token),
            Self::One(other) if other == token => self,
            Self::One(_) | Self::Many => Self::Many,
        }
    }
}

impl Layer {
    /// Whether the filter leaves an item with this prefix.
    #[inline]
    fn lives(&self, cursor: &Cursor) -> bool {
        match &self.live {
            Some(live) => live.first_in(cursor.range()).is_some(),
            None => cursor.items() > 0,
        }
    }

    #[inline]
    fn step(&self, cursor: &Cursor, token: TokenId) -> Option<Cursor> {
        self.set.step(cursor, token).filter(|after| self.lives(after))
    }

    #[inline]
    fn allows(&self, cursor: &Cursor, token: TokenId) -> bool {
        match self.live {
            Some(_) => self.step(cursor, token).is_some(),
            None => self.set.has_child(cursor, token),
        }
    }

    fn accepts(&self, cursor: &Cursor) -> bool {
        cursor.item().is_some_and(|item| self.live.as_ref().is_none_or(|live| live.contains(item)))
    }

    fn insert(&self, cursor: &Cursor, mask: &mut MaskMut<'_>) {
        match &self.live {
            None => self.set.insert_children(cursor, mask),
            Some(live) => self.living_runs(live, cursor, &mut |token| {
                mask.insert(token);
                true
            }),
        }
    }

    /// Calls `each` with the tokens that lead to an item that the filter leaves, until `each` returns `false`.
    fn living_runs(&self, live: &Subset, cursor: &Cursor, each: &mut dyn FnMut(TokenId) -> bool) {
        let items = cursor.range();
        let (place_of_first, vocab_len) = (cursor.item_at(cursor.lo), self.set.vocab_len());
        self.set.runs(cursor, &mut |token, begin, end| {
            // The first item that is left may come after this run: then all runs in front of that item are skipped.
            match live.first_in(cursor.item_at(begin)..items.end) {
                None => cursor.hi,
                Some(item) if item >= cursor.item_at(end) => cursor.lo + (item - place_of_first),
                Some(_) if (token as usize) < vocab_len && !each(TokenId(token)) => cursor.hi,
                Some(_) => end,
            }
        });
    }

    fn followers(&self, cursor: &Cursor, mut found: Followers) -> Followers {
        match &self.live {
            None if cursor.hi > cursor.lo => {
                self.set.only_child(cursor).map_or(Followers::Many, |token| found.and(token))
            }
            None => found,
            Some(live) => {
                self.living_runs(live, cursor, &mut |token| {
                    found = found.and(token);
                    found != Followers::Many
                });
                found
            }
        }
    }
}

/// The position of an output among the items: a prefix in the set and a prefix in the added items; one of the two may
/// be missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetState {
    base: Option<Cursor>,
    added: Option<Cursor>,
}

impl SetState {
    /// The prefix in the set itself; `None` where only added items have the prefix.
    #[cfg(feature = "wgpu")]
    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.base.as_ref()
    }
}

/// The output is one of the items of a set, spelled by the item's own token sequence.
///
/// A state is 48 bytes and is copied. There is no scratch and no cache, so that the first mask costs as much as later
/// ones. The mask of the empty prefix is made once, by the constructor.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{Constraint, TokenId, TokenMask};
/// use unskew_sets::{SetBuilder, SetConstraint};
///
/// let mut builder = SetBuilder::new(10);
/// builder.push(&[TokenId(3), TokenId(1)])?;
/// builder.push(&[TokenId(3), TokenId(7), TokenId(7)])?;
/// let set = Arc::new(builder.build()?.0);
/// let constraint = SetConstraint::new(set, 10)?;
///
/// let mut state = constraint.start();
/// assert_eq!(constraint.forced(&mut (), &state), Some(TokenId(3)));
/// constraint.advance(&mut (), &mut state, TokenId(3)).unwrap();
/// let mut mask = TokenMask::new(10);
/// constraint.fill_mask(&mut (), &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(1), TokenId(7)]);
/// # Ok::<(), unskew_sets::SetError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SetConstraint {
    base: Layer,
    added: Option<Layer>,
    start: SetState,
    /// The mask of the start.
    root: TokenMask,
}

impl SetConstraint {
    /// The memory of the sets and of the mask of the start, in bytes. Sets may be shared. The pages of a set in a
    /// file are memory that the system takes back when it needs to.
    pub fn memory_usage(&self) -> usize {
        let layers = [Some(&self.base), self.added.as_ref()];
        let sets = layers.into_iter().flatten().map(|layer| {
            size_of::<ItemSet>()
                + layer.set.memory_usage()
                + layer.live.as_ref().map_or(0, |live| live.memory_usage())
        });
        size_of::<Self>() + sets.sum::<usize>() + size_of_val(self.root.words())
    }

    /// The items of `set`, with masks over `vocab_len` ids; `vocab_len` may be larger than that of the set.
    /// [`ItemSet::check_vocabulary`] says whether the ids have the same meaning.
    ///
    /// # Errors
    ///
    /// [`SetError::Empty`], and [`SetError::Masks`].
    pub fn new(set: Arc<ItemSet>, vocab_len: usize) -> Result<Self, SetError> {
        Self::from_layers(Layer { set, live: None }, None, vocab_len)
    }

    /// The items of `subset` alone.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`SetError::OtherSet`] where the length of the subset is not that of `set`.
    pub fn with_subset(set: Arc<ItemSet>, subset: Arc<Subset>, vocab_len: usize) -> Result<Self, SetError> {
        let (found, expected) = (subset.set_len() as u64, set.len() as u64);
        if found != expected {
            return Err(SetError::OtherSet { what: "subset", found, expected });
        }
        Self::from_layers(Layer { set, live: Some(subset) }, None, vocab_len)
    }

    /// The items of `set` as `delta` changes them.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`SetError::OtherSet`] where the delta belongs to another set.
    pub fn with_delta(set: Arc<ItemSet>, delta: &Delta, vocab_len: usize) -> Result<Self, SetError> {
        let (live, added) = delta.layers(&set)?;
        let added = added.map(|set| Layer { set: Arc::new(set), live: None });
        Self::from_layers(Layer { set, live: live.map(Arc::new) }, added, vocab_len)
    }

    /// The items of `subset` that `delta` leaves. The items that `delta` adds are in no subset, also after
    /// [`Delta::compact`].
    ///
    /// # Errors
    ///
    /// As [`with_subset`](Self::with_subset), and as [`with_delta`](Self::with_delta).
    pub fn with_delta_and_subset(
        set: Arc<ItemSet>,
        delta: &Delta,
        subset: &Subset,
        vocab_len: usize,
    ) -> Result<Self, SetError> {
        let subset = delta.left_of(&set, subset)?;
        Self::with_subset(set, Arc::new(subset), vocab_len)
    }

    fn from_layers(base: Layer, added: Option<Layer>, vocab_len: usize) -> Result<Self, SetError> {
        if base.set.vocab_len() > vocab_len {
            return Err(SetError::Masks { set: base.set.vocab_len(), masks: vocab_len });
        }
        let start = |layer: &Layer| Some(layer.set.start()).filter(|start| layer.lives(start));
        let start = SetState { base: start(&base), added: added.as_ref().and_then(start) };
        if start.base.is_none() && start.added.is_none() {
            return Err(SetError::Empty);
        }
        let mut constraint = Self { base, added, start, root: TokenMask::default() };
        let mut root = TokenMask::new(vocab_len);
        for (layer, cursor) in constraint.at(&start) {
            layer.insert(cursor, &mut root.as_mut());
        }
        constraint.root = root;
        Ok(constraint)
    }

    /// The set, without filters and additions.
    pub fn set(&self) -> &ItemSet {
        &self.base.set
    }

    /// Whether there are neither filters nor additions.
    #[cfg(feature = "wgpu")]
    pub(crate) fn is_plain(&self) -> bool {
        self.base.live.is_none() && self.added.is_none()
    }

    /// The layers of a state, each with its prefix.
    #[inline]
    fn at<'a>(&'a self, state: &'a SetState) -> impl Iterator<Item = (&'a Layer, &'a Cursor)> {
        let base = state.base.as_ref().map(|cursor| (&self.base, cursor));
        base.into_iter().chain(self.added.as_ref().zip(state.added.as_ref()))
    }

    /// Whether each of `candidates` is allowed in `state`: verification of the M most probable tokens (the paper,
    /// algorithm 2).
    ///
    /// # Panics
    ///
    /// If `valid` and `candidates` have different lengths.
    pub fn candidates(&self, state: &SetState, candidates: &[TokenId], valid: &mut [bool]) {
        assert_eq!(candidates.len(), valid.len(), "one answer for each candidate");
        match (state, &self.base.live) {
            (SetState { base: Some(cursor), added: None }, None) => {
                self.base.set.have_children(cursor, candidates, valid);
            }
            _ => {
                let allows =
                    |token: &TokenId| self.at(state).any(|(layer, cursor)| layer.allows(cursor, *token));
                valid.iter_mut().zip(candidates).for_each(|(valid, token)| *valid = allows(token));
            }
        }
    }

    /// [`candidates`](Self::candidates) of many sequences, with equally many candidates each.
    ///
    /// # Panics
    ///
    /// If `candidates` or `valid` cannot be divided among the states.
    pub fn candidate_batch(&self, states: &[SetState], candidates: &[TokenId], valid: &mut [bool]) {
        assert_eq!(candidates.len(), valid.len(), "one answer for each candidate");
        let Some(each) = candidates.len().checked_div(states.len()).filter(|each| *each > 0) else { return };
        assert_eq!(each * states.len(), candidates.len(), "as many candidates for each state");
        let rows = candidates.chunks(AHEAD * each).zip(valid.chunks_mut(AHEAD * each));
        for (states, (candidates, valid)) in states.chunks(AHEAD).zip(rows) {
            self.touch(states);
            let rows = candidates.chunks(each).zip(valid.chunks_mut(each));
            states.iter().zip(rows).for_each(|(state, (row, valid))| self.candidates(state, row, valid));
        }
    }

    /// Reads a token of each interval: the processor then waits for all of them at once, and not for one after the
    /// other.
    fn touch<'a>(&self, states: impl IntoIterator<Item = &'a SetState>) {
        states
            .into_iter()
            .filter_map(|state| state.base.as_ref())
            .for_each(|cursor| self.base.set.touch(cursor));
    }
}

impl Constraint for SetConstraint {
    type State = SetState;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.root.len()
    }

    fn start(&self) -> SetState {
        self.start
    }

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), state: &mut SetState, token: TokenId) -> Result<(), Rejected> {
        let base = state.base.as_ref().and_then(|cursor| self.base.step(cursor, token));
        let added = self.added.as_ref().zip(state.added.as_ref());
        let added = added.and_then(|(layer, cursor)| layer.step(cursor, token));
        if base.is_none() && added.is_none() {
            return Err(Rejected::new(token));
        }
        *state = SetState { base, added };
        Ok(())
    }

    fn is_accepting(&self, state: &SetState) -> bool {
        self.at(state).any(|(layer, cursor)| layer.accepts(cursor))
    }

    fn fill_mask(&self, (): &mut (), state: &SetState, mut mask: MaskMut<'_>) {
        if *state == self.start {
            return mask.copy_from(self.root.as_ref());
        }
        // The memory loads overlap with the clearing of the mask.
        self.touch([state]);
        mask.clear();
        for (layer, cursor) in self.at(state) {
            layer.insert(cursor, &mut mask);
        }
    }

    fn ready_mask<'a>(&'a self, (): &'a (), state: &SetState) -> Option<MaskRef<'a>> {
        (*state == self.start).then(|| self.root.as_ref())
    }

    fn allows(&self, (): &mut (), state: &SetState, token: TokenId) -> bool {
        self.at(state).any(|(layer, cursor)| layer.allows(cursor, token))
    }

    fn verify(
        &self,
        (): &mut (),
        states: &mut dyn Iterator<Item = &SetState>,
        _each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let states: Vec<SetState> = states.copied().collect();
        self.candidate_batch(&states, candidates, valid);
    }

    fn fill_masks(&self, (): &mut (), states: &mut dyn Iterator<Item = &SetState>, masks: &mut MaskBatch) {
        let states: Vec<&SetState> = states.collect();
        for (ahead, states) in states.chunks(AHEAD).enumerate() {
            self.touch(states.iter().copied());
            for (row, state) in states.iter().enumerate() {
                self.fill_mask(&mut (), state, masks.row_mut(ahead * AHEAD + row));
            }
        }
    }

    /// A hash of the intervals.
    fn state_key(&self, (): &mut (), state: &SetState) -> Option<u64> {
        Some(hashed_key(state))
    }

    fn forced(&self, (): &mut (), state: &SetState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let followers = |found, (layer, cursor): (&Layer, &Cursor)| layer.followers(cursor, found);
        match self.at(state).fold(Followers::None, followers) {
            Followers::One(token) => Some(token),
            Followers::None | Followers::Many => None,
        }
    }
}
