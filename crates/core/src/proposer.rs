//! Guesses at the next tokens, for speculation without a second model.
//!
//! A guess costs next to nothing and commits a sampler to nothing. The sampler evaluates the model over the guessed
//! tokens in one pass, draws as it would have drawn without them, and goes on while the draws agree. So a guess
//! changes the number of passes of an output, and never its distribution.

use crate::{Constraint, TokenId};

/// Proposes tokens that may follow a state of a constraint.
///
/// # Contract
///
/// The proposed tokens can be appended to the state, one after the other. (A proposal that cannot is useless, not
/// wrong.)
pub trait Proposer<C: Constraint> {
    /// Appends to `tokens` up to `most` tokens that it expects after `state`, each after those before it. `text` is
    /// the whole text before the state: the prompt, and the output so far.
    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        text: &[TokenId],
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    );

    /// Records that `token` followed `state`.
    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId);
}

impl<C: Constraint, P: Proposer<C> + ?Sized> Proposer<C> for &mut P {
    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        text: &[TokenId],
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        (**self).propose(constraint, scratch, text, state, most, tokens);
    }

    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId) {
        (**self).observe(constraint, scratch, state, token);
    }
}
