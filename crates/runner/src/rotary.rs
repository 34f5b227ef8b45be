//! Rotary position embeddings: each pair of a head's coordinates is rotated by an angle that grows with position.
//!
//! The convention is Hugging Face's "rotate half": coordinate `i` is paired with `i + head_dim / 2`. The angles are rounded
//! as transformers rounds them (frequency and angle in f32), because the weights were trained with those angles. At
//! position 8000 exact angles would differ by up to 5e-4.
//!
//! The tables live on the host and grow by doubling when later positions come. Tried instead: a device table for the whole
//! context. At a context of 131072 the table costs 130 MB before the first token, and the gather that it saves is a copy of
//! a few kilobytes per call.

use burn::tensor::{Device, Tensor, TensorData};

use crate::config::ModelConfig;

/// Cosines and sines by position, for one model.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// The rotation per position of each pair, in radians; `head_dim / 2` values.
    frequencies: Vec<f32>,
    /// `head_dim` values for each position so far; the second half repeats the first.
    cosines: Vec<f32>,
    /// As `cosines`, with the first half negated: a rotation is then `x * cos + swap_halves(x) * sin`.
    sines: Vec<f32>,
}

/// The cosines and sines of some rows, `[rows, 1, head_dim]` each: they broadcast over heads.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    cosines: Tensor<3>,
    sines: Tensor<3>,
}

impl Rotary {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let pairs = config.head_dim / 2;
        let frequencies = (0..pairs)
            .map(|pair| (1.0 / config.rope_theta.powf(pair as f64 / pairs as f64)) as f32)
            .collect();
        Self { frequencies, cosines: Vec::new(), sines: Vec::new() }
    }

    /// The rotation for rows at the given positions, in order.
    pub(crate) fn at(&mut self, positions: impl Iterator<Item = usize> + Clone, device: &Device) -> Rotation {
        let width = 2 * self.frequencies.len();
        self.reach(positions.clone().max().map_or(0, |last| last + 1));
        let rows = positions.clone().count();
        let gather = |table: &[f32]| {
            let mut values = Vec::with_capacity(rows * width);
            for position in positions.clone() {
                values.extend_from_slice(&table[position * width..][..width]);
            }
            Tensor::from_data(TensorData::new(values, [rows, 1, width]), device)
        };
        Rotation { cosines: gather(&self.cosines), sines: gather(&self.sines) }
    }

    /// Extends the tables to at least the first `count` positions.
    fn reach(&mut self, count: usize) {
        let known = self.cosines.len() / (2 * self.frequencies.len());
        if count <= known {
            return;
        }
        for position in known..count.max(2 * known).max(64) {
            let angles = self.frequencies.iter().map(|frequency| f64::from(position as f32 * frequency));
            for half in [-1.0, 1.0] {
                self.cosines.extend(angles.clone().map(|angle| angle.cos() as f32));
                self.sines.extend(angles.clone().map(|angle| (half * angle.sin()) as f32));
            }
        }
    }
}

impl Rotation {
    /// Rotates every head of `[rows, heads, head_dim]`.
    pub(crate) fn turn(&self, heads: Tensor<3>) -> Tensor<3> {
        let half = heads.dims()[2] / 2;
        let low = heads.clone().narrow(2, 0, half);
        let high = heads.clone().narrow(2, half, half);
        let swapped = Tensor::cat(vec![high, low], 2);
        heads * self.cosines.clone() + swapped * self.sines.clone()
    }
}
