//! Rotations as tensors, out of the tables on the host. Tried instead: a device table for the whole context. The
//! gather that it saves is a copy of a few kilobytes per call.

use ::burn::tensor::{Device, Tensor, TensorData};

use crate::math::rotary::Rotary;

/// The cosines and sines of some rows, `[rows, 1, head_dim]` each: they broadcast over heads.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    cosines: Tensor<3>,
    /// The first half is negated: a rotation is then `x * cos + swap_halves(x) * sin`.
    sines: Tensor<3>,
}

impl Rotation {
    /// The rotation for rows at the given positions, in order.
    pub(crate) fn at(
        rotary: &mut Rotary,
        positions: impl Iterator<Item = usize> + Clone,
        device: &Device,
    ) -> Self {
        rotary.reach(0, positions.clone().max().map_or(0, |last| last + 1));
        let (mut cosines, mut sines, mut rows) = (Vec::new(), Vec::new(), 0);
        for position in positions {
            let (of_cosine, of_sine) = rotary.at(position);
            cosines.extend(of_cosine.iter().chain(of_cosine));
            sines.extend(of_sine.iter().map(|sine| -sine));
            sines.extend(of_sine);
            rows += 1;
        }
        let upload = |values: Vec<f32>| {
            let width = values.len() / rows.max(1);
            Tensor::from_data(TensorData::new(values, [rows, 1, width]), device)
        };
        Self { cosines: upload(cosines), sines: upload(sines) }
    }

    /// Rotates every head of `[rows, heads, head_dim]`.
    pub(crate) fn turn(&self, heads: Tensor<3>) -> Tensor<3> {
        let half = heads.dims()[2] / 2;
        let low = heads.clone().narrow(2, 0, half);
        let high = heads.clone().narrow(2, half, half);
        let swapped = Tensor::cat(vec![high, low], 2);
        heads * self.cosines.clone() + swapped * self.sines.clone()
    }
}
