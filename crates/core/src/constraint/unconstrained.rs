//! The constraint that allows any text.

use crate::{Constraint, MaskMut, MaskRef, Rejected, TokenId, TokenMask, Vocabulary};

/// Allows every text token of a vocabulary, at any length. Control tokens, unused ids and tokens without bytes stay
/// forbidden.
#[derive(Clone, Debug)]
pub struct Unconstrained {
    mask: TokenMask,
}

impl Unconstrained {
    /// Any text over `vocabulary`.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let mut mask = TokenMask::new(vocabulary.len());
        for (id, _) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            mask.as_mut().insert(id);
        }
        Self { mask }
    }
}

impl Constraint for Unconstrained {
    type State = ();
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.mask.len()
    }

    fn start(&self) {}

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), (): &mut (), token: TokenId) -> Result<(), Rejected> {
        if self.mask.contains(token) { Ok(()) } else { Err(Rejected::new(token)) }
    }

    fn is_accepting(&self, (): &()) -> bool {
        true
    }

    fn fill_mask(&self, (): &mut (), (): &(), mut mask: MaskMut<'_>) {
        mask.copy_from(self.mask.as_ref());
    }

    /// There is one state.
    fn state_key(&self, (): &mut (), (): &()) -> Option<u64> {
        Some(0)
    }

    fn ready_mask<'a>(&'a self, (): &'a (), (): &()) -> Option<MaskRef<'a>> {
        Some(self.mask.as_ref())
    }
}
