//! Synthetic drafts and targets.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::TokenId;

use crate::rows::{RowModel, RowOf};

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (-2.0 * uniform(rng).ln()).sqrt() * (std::f64::consts::TAU * uniform(rng)).cos()
}

/// Two rows of logits over a large vocabulary: the target's fall with the logarithm of the rank, `steep` times and
/// with noise, and the draft's are those with more noise, of standard deviation `apart`.
pub(crate) fn language_pair(len: usize, steep: f64, apart: f64, rng: &mut ChaCha8Rng) -> [Vec<f64>; 2] {
    let mut target: Vec<f64> = (0..len).map(|rank| -steep * ((rank + 1) as f64).ln() + normal(rng)).collect();
    // In no order, as tokens are.
    for index in (1..len).rev() {
        target.swap(index, rng.next_u32() as usize % (index + 1));
    }
    let draft = target.iter().map(|logit| logit + apart * normal(rng)).collect();
    [draft, target]
}

/// A model whose next-token distribution depends on the last two tokens, and is drawn from a hash of them.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    vocab_len: usize,
    steep: f64,
    /// Noise on every logit that the model with `apart` 0 has not.
    apart: f64,
}

impl Hashed {
    /// The last of its tokens ends a sequence, rarely.
    pub(crate) fn model(vocab_len: usize, steep: f64, apart: f64) -> RowModel<Self> {
        RowModel(Self { vocab_len, steep, apart })
    }
}

impl RowOf for Hashed {
    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn row(&self, sequence: &[TokenId], out: &mut [f32]) {
        let last = |back: usize| {
            sequence
                .len()
                .checked_sub(back)
                .and_then(|at| sequence.get(at))
                .map_or(0, |id| u64::from(id.0) + 1)
        };
        let mut rng = ChaCha8Rng::seed_from_u64(last(1) << 32 | last(2));
        let [draft, target] = language_pair(self.vocab_len, self.steep, 1.0, &mut rng);
        for ((out, draft), target) in out.iter_mut().zip(draft).zip(target) {
            *out = (target + self.apart * (draft - target)) as f32;
        }
        out[self.vocab_len - 1] = f32::NEG_INFINITY;
    }
}
