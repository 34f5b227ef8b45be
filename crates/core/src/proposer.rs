//! Guesses at what follows, for speculation without a second model.
//!
//! A guess costs next to nothing and binds nobody: whoever verifies it evaluates the model over the guessed tokens in one
//! pass, draws as it would have drawn without them, and goes on for as long as the draws agree. So a guess changes how many
//! passes an output takes, and never its distribution.

use crate::{Constraint, TokenId};

/// Proposes tokens that may follow a state of a constraint.
///
/// # Contract
///
/// What is proposed can be appended to the state, token by token. (Otherwise it is only useless, not wrong.)
pub trait Proposer<C: Constraint> {
    /// Appends to `tokens` up to `most` tokens that it expects after `state`, each after those before. `text` is all that leads to
    /// the state: the prompt, and the output so far.
    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        text: &[TokenId],
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    );

    /// Takes note that `token` followed `state`.
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
