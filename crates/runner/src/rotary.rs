//! Rotary position embeddings: each pair of a head's coordinates is rotated by an angle that grows with position.
//!
//! The convention is Hugging Face's "rotate half": coordinate `i` is paired with `i + head_dim / 2`. The angles are rounded
//! as transformers rounds them (frequency and angle in f32), because the weights were trained with those angles. At
//! position 8000 exact angles would differ by up to 5e-4.
//!
//! The tables grow by doubling when later positions come. Tried instead: a table for the whole context. At a context of
//! 131072 the table costs 130 MB before the first token.

use crate::config::ModelConfig;

/// Cosines and sines by position, for one model.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// The rotation per position of each pair, in radians; `head_dim / 2` values.
    frequencies: Vec<f32>,
    /// `head_dim / 2` values for each position so far.
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotary {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let pairs = config.head_dim / 2;
        let frequencies = (0..pairs)
            .map(|pair| (1.0 / config.rope_theta.powf(pair as f64 / pairs as f64)) as f32)
            .collect();
        Self { frequencies, cosines: Vec::new(), sines: Vec::new() }
    }

    /// Extends the tables to at least the first `count` positions.
    pub(crate) fn reach(&mut self, count: usize) {
        let known = self.cosines.len() / self.frequencies.len();
        if count <= known {
            return;
        }
        for position in known..count.max(2 * known).max(64) {
            let angles = self.frequencies.iter().map(|frequency| f64::from(position as f32 * frequency));
            self.cosines.extend(angles.clone().map(|angle| angle.cos() as f32));
            self.sines.extend(angles.map(|angle| angle.sin() as f32));
        }
    }

    /// The cosines and the sines of a position that [`reach`](Self::reach) was called for.
    pub(crate) fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let pairs = self.frequencies.len();
        let of = position * pairs..(position + 1) * pairs;
        (&self.cosines[of.clone()], &self.sines[of])
    }

    /// Rotates the heads of a row to a position.
    pub(crate) fn turn(&self, position: usize, row: &mut [f32]) {
        let (cosines, sines) = self.at(position);
        let pairs = self.frequencies.len();
        for head in row.chunks_exact_mut(2 * pairs) {
            let (low, high) = head.split_at_mut(pairs);
            for ((low, high), (cosine, sine)) in low.iter_mut().zip(high).zip(cosines.iter().zip(sines)) {
                (*low, *high) = (*low * cosine - *high * sine, *high * cosine + *low * sine);
            }
        }
    }
}
