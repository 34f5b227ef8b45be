//! A constraint as a sampler sees it: a machine that reads tokens and says which may come next.
//!
//! The compiled constraint is immutable and shared. The position of one sequence is a `State`, which is cloned to
//! fork the sequence. Caches and buffers are a `Scratch`, which is an argument. That separation is regex-automata's.
//! With the caches inside the state, a clone either copies them or shares a lock.
//!
//! The end of the sequence is not a token here. A constraint answers [`is_accepting`](Constraint::is_accepting), and
//! its masks hold the tokens that continue the output. The sampler allows the end-of-sequence ids exactly in
//! accepting states. So a constraint needs no knowledge of how a model ends its outputs, and a cached mask serves
//! both cases. A mask is empty in a state that does not accept only where the state is beyond a limit on its work:
//! [`beyond`](Constraint::beyond) names it then.

mod end;
mod erased;
mod output_end;
mod text_order;
mod unconstrained;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::{MaskBatch, MaskMut, MaskRef, TokenId, TokenMask};

pub(crate) use end::reach_by_masks;
pub use end::{EndCache, EndScratch, EndState, Reach, WithEnd, with_tail};
pub use erased::{AnyConstraint, AnyScratch, AnyState};
pub use output_end::{OutputEnd, UnknownEnd};
pub use text_order::{TextOrder, cuts_word};
pub use unconstrained::Unconstrained;

/// The token is not allowed in this state. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("token {token} is not allowed here{}", beyond(*limit))]
#[non_exhaustive]
pub struct Rejected {
    /// The token.
    pub token: TokenId,
    /// The name of the limit that the state is beyond, if that is the reason. No token is allowed then, masks are
    /// empty, and the state does not accept.
    pub limit: Option<&'static str>,
}

impl Rejected {
    /// The rejection of `token`.
    pub const fn new(token: TokenId) -> Self {
        Self { token, limit: None }
    }

    /// The rejection of `token` in a state that is beyond `limit`.
    pub const fn beyond(token: TokenId, limit: &'static str) -> Self {
        Self { token, limit: Some(limit) }
    }
}

/// A [key](Constraint::state_key) of a state that is larger than 64 bits: a hash, the same in every run of a program.
///
/// ```
/// assert_eq!(unskew_core::hashed_key(&[1, 2]), unskew_core::hashed_key(&[1, 2]));
/// assert_ne!(unskew_core::hashed_key(&[1, 2]), unskew_core::hashed_key(&[2, 1]));
/// ```
pub fn hashed_key(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Calls `answer` for each candidate of each state, with the place of its answer.
///
/// # Panics
///
/// As [`Constraint::verify`].
fn each_candidate<'a, S: 'a>(
    states: &mut dyn Iterator<Item = &'a S>,
    each: usize,
    candidates: &[TokenId],
    valid: &mut [bool],
    answer: &mut dyn FnMut(&'a S, TokenId, &mut bool),
) {
    assert_eq!(candidates.len(), valid.len(), "an answer for each candidate");
    let rows = candidates.chunks(each.max(1)).zip(valid.chunks_mut(each.max(1)));
    let mut served = 0;
    for (state, (candidates, valid)) in states.zip(rows) {
        for (token, valid) in candidates.iter().zip(valid) {
            answer(state, *token, valid);
        }
        served += each;
    }
    assert_eq!(served, candidates.len(), "as many candidates for each state");
}

fn beyond(limit: Option<&'static str>) -> String {
    limit.map_or_else(String::new, |limit| format!(": the state is beyond `{limit}`, which can be raised"))
}

/// A set of token sequences, as a machine that reads one token at a time.
///
/// # Contract
///
/// [`conformance::check_constraint`](crate::conformance::check_constraint) tests these rules over any implementation:
///
/// 1. The mask of a state has a bit set exactly for the tokens that [`advance`](Self::advance) takes.
/// 2. From every reachable state an accepting one can be reached: an allowed token can be completed. The exception is a
///    state that is [`beyond`](Self::beyond) a limit: it does not accept, and its mask is empty.
/// 3. A rejected `advance` changes nothing, and a clone of a state is independent of it.
/// 4. [`fill_masks`](Self::fill_masks), [`ready_mask`](Self::ready_mask), [`allows`](Self::allows),
///    [`verify`](Self::verify) and [`forced`](Self::forced) agree with [`fill_mask`](Self::fill_mask).
/// 5. A scratch is never part of the meaning: a fresh one and a used one give the same answers.
/// 6. Tail bits are zero.
/// 7. States with equal [keys](Self::state_key) have equal futures, and a state has the same key in every scratch.
/// 8. A text goes on as far as [`reach`](Self::reach) says, if it says anything:
///    [`conformance::check_reach`](crate::conformance::check_reach).
///
/// # Example
///
/// A constraint written by hand: at most two tokens, all of them `a`.
///
/// ```
/// use unskew_core::{Constraint, MaskMut, Rejected, TokenId, conformance};
///
/// struct AtMostTwo;
///
/// impl Constraint for AtMostTwo {
///     type State = u8; // how many tokens there are
///     type Scratch = ();
///
///     fn vocab_len(&self) -> usize {
///         2
///     }
///     fn start(&self) -> u8 {
///         0
///     }
///     fn scratch(&self) {}
///     fn advance(&self, (): &mut (), state: &mut u8, token: TokenId) -> Result<(), Rejected> {
///         if token == TokenId(0) && *state < 2 {
///             *state += 1;
///             Ok(())
///         } else {
///             Err(Rejected::new(token))
///         }
///     }
///     fn is_accepting(&self, _state: &u8) -> bool {
///         true
///     }
///     fn fill_mask(&self, (): &mut (), state: &u8, mut mask: MaskMut<'_>) {
///         mask.clear();
///         if *state < 2 {
///             mask.insert(TokenId(0));
///         }
///     }
/// }
///
/// conformance::check_constraint(&AtMostTwo, 4).unwrap();
/// ```
pub trait Constraint: Send + Sync {
    /// The position of one sequence. Cloning it forks the sequence.
    type State: Clone + Send + Sync + 'static;
    /// Caches and buffers: they never change an answer. One scratch per thread is enough.
    type Scratch: Send + 'static;

    /// The number of ids that a mask covers.
    fn vocab_len(&self) -> usize;

    /// The state before the first token.
    fn start(&self) -> Self::State;

    /// A fresh scratch.
    fn scratch(&self) -> Self::Scratch;

    /// Appends `token`.
    ///
    /// # Errors
    ///
    /// [`Rejected`] when the token is not allowed; the state is then unchanged.
    fn advance(
        &self,
        scratch: &mut Self::Scratch,
        state: &mut Self::State,
        token: TokenId,
    ) -> Result<(), Rejected>;

    /// Whether the sequence may end in this state.
    fn is_accepting(&self, state: &Self::State) -> bool;

    /// Replaces the content of `mask` by the tokens that are allowed next. In a state that does not accept it is empty
    /// only where the state is [`beyond`](Self::beyond) a limit.
    ///
    /// # Panics
    ///
    /// May panic if the mask does not cover [`vocab_len`](Self::vocab_len) ids.
    fn fill_mask(&self, scratch: &mut Self::Scratch, state: &Self::State, mask: MaskMut<'_>);

    /// The name of the limit that `state` is beyond, so that it does not accept and its mask, which `scratch` has
    /// filled, is empty. `None` in all other states. The caller's work ends there, and a higher limit goes on.
    fn beyond(&self, scratch: &mut Self::Scratch, state: &Self::State) -> Option<&'static str> {
        // Each token is rejected for the same reason there.
        self.advance(scratch, &mut state.clone(), TokenId(0)).err()?.limit
    }

    /// The mask of `state` where it lies ready, so that the caller needs no copy. `None` says nothing about the mask.
    fn ready_mask<'a>(&'a self, scratch: &'a Self::Scratch, state: &Self::State) -> Option<MaskRef<'a>> {
        let _ = (scratch, state);
        None
    }

    /// Whether `token` is allowed, without the work of a whole mask.
    fn allows(&self, scratch: &mut Self::Scratch, state: &Self::State, token: TokenId) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    /// The only continuation: `Some(token)` exactly when the sequence may not end here and only this token is allowed.
    fn forced(&self, scratch: &mut Self::Scratch, state: &Self::State) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let mut mask = TokenMask::new(self.vocab_len());
        self.fill_mask(scratch, state, mask.as_mut());
        let mut ids = mask.ids();
        ids.next().filter(|_| ids.next().is_none())
    }

    /// A key of `state`: states with equal keys accept the same continuations. Two states with the same future may
    /// have different keys. A key belongs to the compiled constraint and means nothing to another one. `None` where
    /// the constraint has no keys.
    ///
    /// Samplers keep what they learn about a state under its key, so that a prefix profits from the other prefixes of
    /// its state. A key is a hash where a state is larger than 64 bits. A collision misleads a proposal and changes
    /// no distribution; a [`WithEnd`] keeps the tokens that end an output by it too, and would mistake one state for
    /// another.
    fn state_key(&self, scratch: &mut Self::Scratch, state: &Self::State) -> Option<u64> {
        let _ = (scratch, state);
        None
    }

    /// Whether each of some candidates is allowed: `each` of them for each state, in order. Samplers call it where
    /// the most probable tokens are verified and no mask is made: Parallel Prefix-Verification for sets.
    ///
    /// # Panics
    ///
    /// If the number of candidates is not `each` for each state, or the number of answers is not that of the
    /// candidates.
    fn verify(
        &self,
        scratch: &mut Self::Scratch,
        states: &mut dyn Iterator<Item = &Self::State>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let mut allows = |state, token, valid: &mut bool| *valid = self.allows(scratch, state, token);
        each_candidate(states, each, candidates, valid, &mut allows);
    }

    /// The masks of many sequences, row by row.
    ///
    /// # Panics
    ///
    /// If there are more states than rows. Rows beyond the states are not changed.
    fn fill_masks(
        &self,
        scratch: &mut Self::Scratch,
        states: &mut dyn Iterator<Item = &Self::State>,
        masks: &mut MaskBatch,
    ) {
        for (row, state) in states.enumerate() {
            self.fill_mask(scratch, state, masks.row_mut(row));
        }
    }

    /// How far `text` goes on from `state`, read byte by byte. `None`: the constraint reads tokens alone, and
    /// [`WithEnd`] finds out by masks.
    fn reach(&self, scratch: &mut Self::Scratch, state: &Self::State, text: &[u8]) -> Option<Reach> {
        let _ = (scratch, state, text);
        None
    }

    /// Whether some accepted text ends with `byte`; true where the constraint does not know. [`WithEnd`] looks for ends
    /// behind such bytes alone.
    fn may_end_with(&self, byte: u8) -> bool {
        let _ = byte;
        true
    }

    /// Who ends the outputs: the model, but for a [`WithEnd`].
    fn end(&self) -> OutputEnd {
        OutputEnd::Model
    }

    /// Whether the output ends here whatever the model writes next, so that no row of it is needed.
    fn is_over(&self, scratch: &mut Self::Scratch, state: &Self::State) -> bool {
        let _ = (scratch, state);
        false
    }

    /// Replaces the content of `mask` by the tokens that end the output in a state that accepts. It may cover more ids
    /// than the vocabulary. False, and the mask has no meaning, where the ids that end a sequence of the model do.
    fn fill_ends(&self, scratch: &mut Self::Scratch, state: &Self::State, mask: MaskMut<'_>) -> bool {
        let _ = (scratch, state, mask);
        false
    }

    /// The tokens that stand for the last one, where that has passed the end of the output: they spell its part.
    fn tail<'a>(&self, state: &'a Self::State) -> Option<&'a [TokenId]> {
        let _ = state;
        None
    }
}

/// Methods that hand their arguments on.
macro_rules! forward {
    ($self:ident => $to:expr; $($name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&$self, $($argument: $type),*) $(-> $answer)? {
            $to.$name($($argument),*)
        })*
    };
}

/// A pointer to a constraint behaves as the constraint does.
macro_rules! delegate {
    ([$($generic:ident)?] $pointer:ty, $of:ty, $self:ident => $constraint:expr) => {
        impl $(<$generic: Constraint + ?Sized>)? Constraint for $pointer {
            type State = <$of as Constraint>::State;
            type Scratch = <$of as Constraint>::Scratch;

            forward! { $self => $constraint;
                vocab_len() -> usize;
                start() -> Self::State;
                scratch() -> Self::Scratch;
                advance(scratch: &mut Self::Scratch, state: &mut Self::State, token: TokenId) -> Result<(), Rejected>;
                is_accepting(state: &Self::State) -> bool;
                fill_mask(scratch: &mut Self::Scratch, state: &Self::State, mask: MaskMut<'_>);
                beyond(scratch: &mut Self::Scratch, state: &Self::State) -> Option<&'static str>;
                allows(scratch: &mut Self::Scratch, state: &Self::State, token: TokenId) -> bool;
                forced(scratch: &mut Self::Scratch, state: &Self::State) -> Option<TokenId>;
                state_key(scratch: &mut Self::Scratch, state: &Self::State) -> Option<u64>;
                verify(
                    scratch: &mut Self::Scratch,
                    states: &mut dyn Iterator<Item = &Self::State>,
                    each: usize,
                    candidates: &[TokenId],
                    valid: &mut [bool]
                );
                fill_masks(
                    scratch: &mut Self::Scratch,
                    states: &mut dyn Iterator<Item = &Self::State>,
                    masks: &mut MaskBatch
                );
                reach(scratch: &mut Self::Scratch, state: &Self::State, text: &[u8]) -> Option<Reach>;
                may_end_with(byte: u8) -> bool;
                end() -> OutputEnd;
                is_over(scratch: &mut Self::Scratch, state: &Self::State) -> bool;
                fill_ends(scratch: &mut Self::Scratch, state: &Self::State, mask: MaskMut<'_>) -> bool;
            }

            fn ready_mask<'a>(
                &'a $self,
                scratch: &'a Self::Scratch,
                state: &Self::State,
            ) -> Option<MaskRef<'a>> {
                $constraint.ready_mask(scratch, state)
            }

            fn tail<'a>(&$self, state: &'a Self::State) -> Option<&'a [TokenId]> {
                $constraint.tail(state)
            }
        }
    };
}

delegate!([C] &C, C, self => (**self));
delegate!([C] Arc<C>, C, self => (**self));
delegate!([] AnyConstraint, erased::Erased, self => self.0);
