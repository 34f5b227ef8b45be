//! Automata with explicit states and edges as constraints: one implementation of [`Constraint`] for all types that
//! have the methods `start`, `step`, `is_accepting`, `edges` and `forced_token`.
//!
//! It is a macro, because the trait is another crate's and so cannot be implemented for all types with a trait of
//! ours. The five methods are inherent, so that a caller need not import a trait for them.
//!
//! [`Constraint`]: unskew_core::Constraint

/// Implements `Constraint` for an automaton over `$ids` ids.
macro_rules! constraint_by_edges {
    ($automaton:ty, |$this:ident| $ids:expr) => {
        /// The accepted sequences as a constraint; a state is four bytes.
        impl unskew_core::Constraint for $automaton {
            type State = $crate::StateId;
            type Scratch = ();

            fn vocab_len(&self) -> usize {
                let $this = self;
                $ids
            }

            fn start(&self) -> Self::State {
                self.start()
            }

            fn scratch(&self) {}

            fn advance(
                &self,
                (): &mut (),
                state: &mut Self::State,
                token: unskew_core::TokenId,
            ) -> Result<(), unskew_core::Rejected> {
                *state = self.step(*state, token).ok_or(unskew_core::Rejected::new(token))?;
                Ok(())
            }

            fn is_accepting(&self, state: &Self::State) -> bool {
                self.is_accepting(*state)
            }

            /// O(v / 32 + k) for v ids and k edges.
            fn fill_mask(&self, (): &mut (), state: &Self::State, mut mask: unskew_core::MaskMut<'_>) {
                mask.clear();
                for (token, _) in self.edges(*state) {
                    mask.insert(token);
                }
            }

            fn allows(&self, (): &mut (), state: &Self::State, token: unskew_core::TokenId) -> bool {
                self.step(*state, token).is_some()
            }

            /// The number of the state.
            fn state_key(&self, (): &mut (), state: &Self::State) -> Option<u64> {
                Some(u64::from(state.0))
            }

            fn forced(&self, (): &mut (), state: &Self::State) -> Option<unskew_core::TokenId> {
                self.forced_token(*state)
            }
        }
    };
}

pub(crate) use constraint_by_edges;
