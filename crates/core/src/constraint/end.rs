//! Who ends an output: the model, or the constraint.
//!
//! The prompt asks for a letter, and the constraint allows `A` and `B`. The model writes `A`, and goes on: `A: Mars is
//! the largest`. Two questions have two answers:
//!
//! - **`model`**: how probable is the letter, *followed by the end of the sequence*? That is nearly never, and the
//!   letter after which the model stops most often wins, however rarely it is written.
//! - **`free`**: how probable is the letter as the *beginning* of what the model writes? The output is the model's
//!   text up to the place where it leaves the constraint.
//!
//! # The law of `free`
//!
//! Let the model write tokens without a constraint, until its own end. The bytes of its text are read as long as some
//! accepted text begins with them; the first byte that goes on with none, a token without text and the end of the
//! sequence *leave* the constraint. If what was read before is an accepted text, it is the output, and otherwise there
//! is none. Where the place lies inside of a token, the token **passes** the end: `}\n` after `{"a": 1` writes the
//! output `{"a": 1}`. It does not where it would cut a word in two: `Answer` does not say `A`. A place between two
//! tokens never cuts: the model itself has made a cut there.
//!
//! So each token that may follow a prefix belongs to one of four sets, which are functions of the constraint's state:
//!
//! | tokens | |
//! |---|---|
//! | allowed | the mask: the text goes on within the constraint |
//! | passing | its first bytes end an accepted text and no word is cut: the output ends inside of it |
//! | ending | the prefix itself is accepted, and the token leaves at once: it is the end |
//! | others | no output |
//!
//! [`WithEnd`] gives samplers these sets behind the same [`Constraint`]: passing tokens are in its masks and lead to a
//! state that is over, and [`fill_ends`](Constraint::fill_ends) has the ending ones. So a sampler keeps its proof: it
//! draws from a tree of tokens in which the end is one outcome at each prefix, and what makes up that outcome is none
//! of its business. Tried instead: a different outcome "end" with a text of its own for each passing token. Every
//! sampler, the tree and its files would carry texts along, for an event that is a token.
//!
//! Where nothing is allowed after an accepted prefix, the output is over with probability one, and no row of the model
//! is needed.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::{Constraint, OutputEnd, Rejected, TextOrder, each_candidate, text_order::cuts_word};
use crate::{Generations, MaskMut, MaskRef, TokenId, TokenMask};

/// The tokens of an output's own text: `tail` stands for the last one, where that has passed the end.
pub fn with_tail(mut tokens: Vec<TokenId>, tail: Option<&[TokenId]>) -> Vec<TokenId> {
    if let Some(tail) = tail {
        tokens.pop();
        tokens.extend(tail);
    }
    tokens
}

/// How far a text goes on from a state of a constraint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The number of bytes with which some accepted text goes on.
    pub len: usize,
    /// Whether the output may end after these bytes.
    pub is_accepting: bool,
}

/// A constraint, and who ends its outputs.
///
/// With [`model`](Self::model) it is the constraint itself. With [`free`](Self::free) the output is the model's text up
/// to the place where it leaves the constraint. The law:
///
/// - The model writes tokens until its own end. Let `y` be the longest prefix of its bytes with which some accepted
///   text begins. The output is `y`, if `y` is accepted and the place after it cuts no word inside of a token. Tokens
///   without text and the end of the sequence are no bytes of any text.
/// - `P(constraint)` is the probability that there is an output. Samplers tell the probability of an output by the
///   tokens that were drawn: those before its end times all that leave at once there, or, where the last token has
///   passed the end, all of them with that token.
///
/// Samplers see it as a constraint whose masks hold, beside the allowed tokens, those that pass the end. Its last
/// token is then one of these, and [`tail`](Constraint::tail) has the tokens that spell the part of it that belongs to
/// the output.
///
/// # Example
///
/// The constraint allows `a` once. Of three tokens, `a` goes on, `a!` passes the end, and `ab` would cut a word:
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{Constraint, MaskMut, Reach, Rejected, TextOrder, TokenId, TokenMask, Vocabulary, WithEnd};
///
/// #[derive(Clone)]
/// struct OneA;
///
/// impl Constraint for OneA {
///     type State = bool; // whether `a` was read
///     type Scratch = ();
///
///     fn vocab_len(&self) -> usize {
///         3
///     }
///     fn start(&self) -> bool {
///         false
///     }
///     fn scratch(&self) {}
///     fn advance(&self, (): &mut (), state: &mut bool, token: TokenId) -> Result<(), Rejected> {
///         if *state || token != TokenId(0) {
///             return Err(Rejected::new(token));
///         }
///         *state = true;
///         Ok(())
///     }
///     fn is_accepting(&self, state: &bool) -> bool {
///         *state
///     }
///     fn fill_mask(&self, (): &mut (), state: &bool, mut mask: MaskMut<'_>) {
///         mask.clear();
///         if !state {
///             mask.insert(TokenId(0));
///         }
///     }
/// }
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "a!", "ab"] {
///     builder.text(text.as_bytes());
/// }
/// let order = Arc::new(TextOrder::new(Arc::new(builder.build()?)));
/// let constraint = WithEnd::free(OneA, order);
/// let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
///
/// let mut mask = TokenMask::new(3);
/// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]);
///
/// constraint.advance(&mut scratch, &mut state, TokenId(1))?;
/// assert!(constraint.is_over(&mut scratch, &state)); // whatever comes next
/// assert_eq!(constraint.tail(&state), Some(&[TokenId(0)][..])); // the output is `a`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WithEnd<C> {
    constraint: C,
    free: Option<Free>,
}

#[derive(Clone, Debug)]
struct Free {
    order: Arc<TextOrder>,
    cache: Arc<EndCache>,
}

/// The position of a sequence under a [`WithEnd`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum EndState<S> {
    /// Within the constraint.
    Within(S),
    /// After a token that passes the end. The tokens spell its part of the output.
    Passed(Arc<[TokenId]>),
}

impl<S> EndState<S> {
    /// The state of the constraint itself; `None` after a token that has passed the end.
    pub const fn within(&self) -> Option<&S> {
        match self {
            Self::Within(state) => Some(state),
            Self::Passed(_) => None,
        }
    }
}

/// The scratch of a [`WithEnd`].
#[derive(Debug)]
pub struct EndScratch<S> {
    inner: S,
    mask: TokenMask,
}

/// The sets of tokens by which the model leaves a constraint, by the [keys](Constraint::state_key) of states, for all
/// that use the constraint. They take 1 MiB at most.
pub struct EndCache {
    exits: Mutex<Generations<u64, Arc<Exits>>>,
    /// The tokens that pass an end of some text, by their bytes.
    may_pass: OnceLock<Box<[TokenId]>>,
}

impl EndCache {
    /// The most memory, in bytes.
    const BYTES: usize = 1 << 20;

    /// The memory that the sets take, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.lock().bytes() + self.may_pass.get().map_or(0, |tokens| size_of_val(&tokens[..]))
    }

    /// The tokens with a place behind a byte with which some text of `constraint` ends, where no word is cut.
    fn may_pass<C: Constraint>(&self, constraint: &C, order: &TextOrder) -> &[TokenId] {
        self.may_pass
            .get_or_init(|| order.before_cuts((0..=u8::MAX).filter(|byte| constraint.may_end_with(*byte))))
    }

    fn lock(&self) -> MutexGuard<'_, Generations<u64, Arc<Exits>>> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for EndCache {
    fn default() -> Self {
        Self { exits: Mutex::new(Generations::new(Self::BYTES)), may_pass: OnceLock::new() }
    }
}

impl fmt::Debug for EndCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndCache").field("bytes", &self.memory_usage()).finish_non_exhaustive()
    }
}

impl<S> EndScratch<S> {
    /// The scratch of the constraint itself.
    pub const fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

/// The tokens by which the model leaves the constraint in one state.
struct Exits {
    /// The tokens that pass the end, ascending.
    passing: Box<[TokenId]>,
    /// Where the state accepts: the tokens that do not end the output there.
    staying: Option<TokenMask>,
}

/// The key of a state after a token that passes the end.
const PASSED: u64 = u64::MAX;

impl<C> WithEnd<C> {
    /// The constraint as it is: the model ends its outputs.
    pub const fn model(constraint: C) -> Self {
        Self { constraint, free: None }
    }

    /// Outputs end where the model's text leaves the constraint. `order` is made once for a vocabulary, which is that
    /// of the constraint.
    pub fn free(constraint: C, order: Arc<TextOrder>) -> Self {
        Self::free_with(constraint, order, Arc::default())
    }

    /// As [`free`](Self::free), with the sets of tokens that others have found for the same constraint and order.
    pub const fn free_with(constraint: C, order: Arc<TextOrder>, cache: Arc<EndCache>) -> Self {
        Self { constraint, free: Some(Free { order, cache }) }
    }

    /// The constraint itself.
    pub const fn inner(&self) -> &C {
        &self.constraint
    }
}

impl<C: Constraint> WithEnd<C> {
    /// As [`Constraint::reach`]; where the constraint itself does not tell, by its masks.
    fn reach(&self, scratch: &mut C::Scratch, state: &C::State, text: &[u8], order: &TextOrder) -> Reach {
        let told = self.constraint.reach(scratch, state, text);
        told.unwrap_or_else(|| reach_by_masks(&self.constraint, scratch, state, text, order))
    }

    /// The bytes of a token that belong to the output, if the token passes its end. It is not allowed.
    fn passes(
        &self,
        scratch: &mut C::Scratch,
        state: &C::State,
        token: TokenId,
        order: &TextOrder,
    ) -> Option<usize> {
        let text = order.vocabulary().text(token)?;
        let Reach { len, is_accepting } = self.reach(scratch, state, text, order);
        let passes = is_accepting && 0 < len && len < text.len() && !cuts_word(text, len);
        (passes && order.can_spell(&text[..len])).then_some(len)
    }

    fn exits(
        &self,
        scratch: &mut EndScratch<C::Scratch>,
        state: &C::State,
        Free { order, cache }: &Free,
    ) -> Arc<Exits> {
        let key = self.constraint.state_key(&mut scratch.inner, state);
        if let Some(known) = key.and_then(|key| cache.lock().get(&key).map(Arc::clone)) {
            return known;
        }
        let exits = Arc::new(self.find_exits(scratch, state, order, cache));
        if let Some(key) = key {
            let staying = exits.staying.as_ref().map_or(0, |staying| size_of_val(staying.words()));
            let bytes = 128 + size_of_val(&exits.passing[..]) + staying;
            cache.lock().insert(key, Arc::clone(&exits), bytes);
        }
        exits
    }

    /// One question for each first byte, where the state accepts; and one for each place at which tokens leave that may
    /// pass an end: those that share the bytes up to it are neighbours in the order.
    fn find_exits(
        &self,
        scratch: &mut EndScratch<C::Scratch>,
        state: &C::State,
        order: &TextOrder,
        cache: &EndCache,
    ) -> Exits {
        let EndScratch { inner, mask, .. } = scratch;
        self.constraint.fill_mask(inner, state, mask.as_mut());
        let mut staying = self.constraint.is_accepting(state).then(|| mask.clone());
        // Where nothing is allowed, whatever comes is the end.
        if mask.none() {
            return Exits { passing: Box::default(), staying };
        }
        if let Some(staying) = &mut staying {
            for (first, group) in order.by_first_byte() {
                if self.reach(inner, state, &[first], order).len == 1 {
                    group.iter().for_each(|token| staying.as_mut().insert(*token));
                }
            }
            // A token of no bytes leaves nothing.
            let texts = order.vocabulary().text_tokens();
            texts.filter(|(_, text)| text.is_empty()).for_each(|(token, _)| staying.as_mut().insert(token));
        }
        let mut passing = Vec::new();
        let mut rest = cache.may_pass(&self.constraint, order);
        while let [token, after @ ..] = rest {
            if mask.contains(*token) {
                rest = after;
                continue;
            }
            let text = order.text(*token);
            let Reach { len, is_accepting } = self.reach(inner, state, text, order);
            let leaves = len < text.len();
            // A token whose whole text goes on is none that may spell it, and alone in that.
            let same = match leaves {
                true => rest.partition_point(|other| order.text(*other).starts_with(&text[..=len])),
                false => 1,
            };
            let (group, after) = rest.split_at(same);
            rest = after;
            if leaves && is_accepting && 0 < len && order.can_spell(&text[..len]) {
                // The character after the place may have several bytes, and so differ.
                let passes = |token: &TokenId| !mask.contains(*token) && !cuts_word(order.text(*token), len);
                passing.extend(group.iter().copied().filter(passes));
            }
        }
        passing.sort_unstable();
        Exits { passing: passing.into(), staying }
    }
}

/// The reach of a text by the tokens that masks allow, for constraints that read tokens and not bytes. It is also what
/// the answers of others are tested with.
pub(crate) fn reach_by_masks<C: Constraint>(
    constraint: &C,
    scratch: &mut C::Scratch,
    state: &C::State,
    text: &[u8],
    order: &TextOrder,
) -> Reach {
    let mut best = Reach { len: 0, is_accepting: constraint.is_accepting(state) };
    if text.is_empty() {
        return best;
    }
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(scratch, state, mask.as_mut());
    let longer = |best: Reach, other: Reach| match best.len.cmp(&other.len) {
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Equal => Reach { is_accepting: best.is_accepting || other.is_accepting, ..best },
        std::cmp::Ordering::Greater => best,
    };
    // The tokens that go on within the text.
    for len in 1..=text.len() {
        let beginning = order.beginning_with(&text[..len]);
        if !beginning.iter().any(|token| mask.contains(*token)) {
            break;
        }
        best = longer(best, Reach { len, is_accepting: false });
        for token in beginning.iter().take_while(|token| order.text(**token).len() == len) {
            let mut after = state.clone();
            if mask.contains(*token) && constraint.advance(scratch, &mut after, *token).is_ok() {
                let rest = reach_by_masks(constraint, scratch, &after, &text[len..], order);
                best = longer(best, Reach { len: len + rest.len, ..rest });
            }
        }
    }
    best
}

impl<C: Constraint> Constraint for WithEnd<C> {
    type State = EndState<C::State>;
    type Scratch = EndScratch<C::Scratch>;

    fn vocab_len(&self) -> usize {
        self.constraint.vocab_len()
    }

    fn start(&self) -> Self::State {
        EndState::Within(self.constraint.start())
    }

    fn scratch(&self) -> Self::Scratch {
        EndScratch {
            inner: self.constraint.scratch(),
            mask: TokenMask::new(if self.free.is_some() { self.vocab_len() } else { 0 }),
        }
    }

    fn advance(
        &self,
        scratch: &mut Self::Scratch,
        state: &mut Self::State,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let EndState::Within(within) = state else { return Err(Rejected::new(token)) };
        let Err(rejected) = self.constraint.advance(&mut scratch.inner, within, token) else { return Ok(()) };
        let Some(Free { order, .. }) = self.free.as_ref().filter(|_| rejected.limit.is_none()) else {
            return Err(rejected);
        };
        let len = self.passes(&mut scratch.inner, within, token, order).ok_or(rejected)?;
        let spelled = order.spell(&order.text(token)[..len]).map_err(|_| rejected)?;
        *state = EndState::Passed(spelled.into());
        Ok(())
    }

    fn is_accepting(&self, state: &Self::State) -> bool {
        match state {
            EndState::Within(state) => self.constraint.is_accepting(state),
            EndState::Passed(_) => true,
        }
    }

    /// In addition to the constraint's work: with `free`, a look at the places where tokens leave, whose answer is kept
    /// by the [key](Constraint::state_key) of the state.
    fn fill_mask(&self, scratch: &mut Self::Scratch, state: &Self::State, mut mask: MaskMut<'_>) {
        let EndState::Within(state) = state else {
            mask.clear();
            return;
        };
        self.constraint.fill_mask(&mut scratch.inner, state, mask.reborrow());
        if let Some(free) = &self.free {
            self.exits(scratch, state, free).passing.iter().for_each(|token| mask.insert(*token));
        }
    }

    fn ready_mask<'a>(&'a self, scratch: &'a Self::Scratch, state: &Self::State) -> Option<MaskRef<'a>> {
        match state {
            EndState::Within(state) if self.free.is_none() => {
                self.constraint.ready_mask(&scratch.inner, state)
            }
            _ => None,
        }
    }

    fn allows(&self, scratch: &mut Self::Scratch, state: &Self::State, token: TokenId) -> bool {
        let EndState::Within(state) = state else { return false };
        self.constraint.allows(&mut scratch.inner, state, token)
            || self.free.as_ref().is_some_and(|Free { order, .. }| {
                self.passes(&mut scratch.inner, state, token, order).is_some()
            })
    }

    fn forced(&self, scratch: &mut Self::Scratch, state: &Self::State) -> Option<TokenId> {
        let EndState::Within(state) = state else { return None };
        let only = self.constraint.forced(&mut scratch.inner, state)?;
        match &self.free {
            Some(free) if !self.exits(scratch, state, free).passing.is_empty() => None,
            _ => Some(only),
        }
    }

    fn state_key(&self, scratch: &mut Self::Scratch, state: &Self::State) -> Option<u64> {
        match state {
            EndState::Within(state) => self.constraint.state_key(&mut scratch.inner, state),
            EndState::Passed(_) => Some(PASSED),
        }
    }

    fn verify(
        &self,
        scratch: &mut Self::Scratch,
        states: &mut dyn Iterator<Item = &Self::State>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let states: Vec<&Self::State> = states.collect();
        let within: Vec<&C::State> = states.iter().filter_map(|state| state.within()).collect();
        if within.len() < states.len() {
            // Some have passed their end.
            let mut allows = |state, token, valid: &mut bool| *valid = self.allows(scratch, state, token);
            each_candidate(&mut states.into_iter(), each, candidates, valid, &mut allows);
            return;
        }
        self.constraint.verify(&mut scratch.inner, &mut within.iter().copied(), each, candidates, valid);
        let Some(Free { order, .. }) = &self.free else { return };
        let mut passes = |state, token, valid: &mut bool| {
            *valid = *valid || self.passes(&mut scratch.inner, state, token, order).is_some();
        };
        each_candidate(&mut within.into_iter(), each, candidates, valid, &mut passes);
    }

    fn fill_masks(
        &self,
        scratch: &mut Self::Scratch,
        states: &mut dyn Iterator<Item = &Self::State>,
        masks: &mut crate::MaskBatch,
    ) {
        if self.free.is_some() {
            for (row, state) in states.enumerate() {
                self.fill_mask(scratch, state, masks.row_mut(row));
            }
            return;
        }
        let mut within = states.map(|state| state.within().expect("without `free` no token passes the end"));
        self.constraint.fill_masks(&mut scratch.inner, &mut within, masks);
    }

    fn reach(&self, scratch: &mut Self::Scratch, state: &Self::State, text: &[u8]) -> Option<Reach> {
        match state {
            EndState::Within(state) => match &self.free {
                Some(Free { order, .. }) => Some(self.reach(&mut scratch.inner, state, text, order)),
                None => self.constraint.reach(&mut scratch.inner, state, text),
            },
            EndState::Passed(_) => Some(Reach { len: 0, is_accepting: true }),
        }
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.constraint.may_end_with(byte)
    }

    fn end(&self) -> OutputEnd {
        if self.free.is_some() { OutputEnd::Free } else { self.constraint.end() }
    }

    fn is_over(&self, scratch: &mut Self::Scratch, state: &Self::State) -> bool {
        let EndState::Within(state) = state else { return true };
        let EndScratch { inner, mask, .. } = scratch;
        if self.free.is_none() {
            return self.constraint.is_over(inner, state);
        }
        if !self.constraint.is_accepting(state) {
            return false;
        }
        match self.constraint.ready_mask(inner, state) {
            Some(ready) => ready.none(),
            None => {
                self.constraint.fill_mask(inner, state, mask.as_mut());
                mask.none()
            }
        }
    }

    fn fill_ends(&self, scratch: &mut Self::Scratch, state: &Self::State, mut mask: MaskMut<'_>) -> bool {
        let within = state.within();
        let Some(free) = &self.free else {
            return within.is_some_and(|state| self.constraint.fill_ends(&mut scratch.inner, state, mask));
        };
        mask.fill();
        if let Some(state) = within
            && let Some(staying) = &self.exits(scratch, state, free).staying
        {
            // Ids beyond the vocabulary leave every constraint.
            let words = mask.into_words().iter_mut().zip(staying.words());
            words.for_each(|(word, staying)| *word &= !staying);
        }
        true
    }

    fn tail<'a>(&self, state: &'a Self::State) -> Option<&'a [TokenId]> {
        match state {
            EndState::Passed(spelled) => Some(spelled),
            EndState::Within(state) => self.constraint.tail(state),
        }
    }
}
