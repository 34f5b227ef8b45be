//! Guesses at what follows, for speculation without a second model.
//!
//! A guess costs next to nothing and binds nobody: whoever verifies it evaluates the model over the guessed tokens in one
//! pass, draws as it would have drawn without them, and goes on for as long as the draws agree. So a guess changes how many
//! passes an output takes, and never its law.

use crate::{Constraint, TokenId};

/// Proposes tokens that may follow a state of a constraint.
///
/// # Laws
///
/// What is proposed can be appended to the state, token by token. (Otherwise it is only useless, not wrong.)
pub trait Proposer<C: Constraint> {
    /// A new output begins after `prompt`. Whoever guesses from the state alone need not know.
    fn begin(&mut self, prompt: &[TokenId]) {
        let _ = prompt;
    }

    /// Appends to `tokens` up to `most` tokens that it expects behind `state`, each behind those before. What `tokens` holds
    /// already stands between the last token that was observed and `state`.
    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    );

    /// Takes note that `token` came behind `state`.
    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId);
}

impl<C: Constraint, P: Proposer<C> + ?Sized> Proposer<C> for &mut P {
    fn begin(&mut self, prompt: &[TokenId]) {
        (**self).begin(prompt);
    }

    fn propose(
        &mut self,
        constraint: &C,
        scratch: &mut C::Scratch,
        state: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        (**self).propose(constraint, scratch, state, most, tokens);
    }

    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId) {
        (**self).observe(constraint, scratch, state, token);
    }
}
