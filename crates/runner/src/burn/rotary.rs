//! What rows have from their positions, as tensors out of the tables on the host. Tried instead: a device table for
//! the whole context. The gather that it saves is a copy of a few kilobytes per call.

use std::iter::repeat_n;

use ::burn::tensor::{Device, Int, Tensor, TensorData};

use crate::config::{LayerRotary, ModelConfig};
use crate::math::rotary::{Regime, Rotary};

/// The positions of the rows of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// `[rows]`, of a model with learned positions, which turns nothing.
    pub(crate) learned: Option<Tensor<1, Int>>,
    global: Option<Rotation>,
    local: Option<Rotation>,
}

/// The cosines and sines of some rows, `[rows, 1, head_dim]` each: they broadcast over heads. Coordinates that are not
/// turned have the cosine one and the sine zero.
#[derive(Clone, Debug)]
struct Rotation {
    cosines: Tensor<3>,
    /// The first half is negated: a rotation is then `x * cos + swap_halves(x) * sin`.
    sines: Tensor<3>,
    /// Coordinates that are turned.
    width: usize,
}

impl Places {
    /// The regimes and positions of rows, in order.
    pub(crate) fn new(
        config: &ModelConfig,
        rotary: &mut Rotary,
        places: &[(Regime, usize)],
        device: &Device,
    ) -> Self {
        if config.architecture.learned_positions {
            let positions: Vec<i32> = places.iter().map(|(_, position)| *position as i32).collect();
            let learned = Tensor::from_data(TensorData::new(positions, [places.len()]), device);
            return Self { learned: Some(learned), global: None, local: None };
        }
        rotary.begin();
        for (regime, position) in places {
            rotary.reach(*regime, position + 1);
        }
        let rotation = |kind| Rotation::new(config.head_dim, rotary, kind, places, device);
        Self { learned: None, global: rotation(LayerRotary::Global), local: rotation(LayerRotary::Local) }
    }

    /// Rotates every head of `[rows, heads, head_dim]` as layers of this kind do.
    pub(crate) fn turn(&self, kind: LayerRotary, heads: Tensor<3>) -> Tensor<3> {
        let rotation = match kind {
            LayerRotary::Global => &self.global,
            LayerRotary::Local => &self.local,
            LayerRotary::None => &None,
        };
        match rotation {
            Some(rotation) => rotation.turn(heads),
            None => heads,
        }
    }
}

impl Rotation {
    /// `None` where the model has no tables of this kind.
    fn new(
        head: usize,
        rotary: &Rotary,
        kind: LayerRotary,
        places: &[(Regime, usize)],
        device: &Device,
    ) -> Option<Self> {
        let (mut cosines, mut sines, mut width) = (Vec::new(), Vec::new(), 0);
        for (regime, position) in places {
            let (of_cosine, of_sine) = rotary.at(kind, *regime, *position)?;
            width = 2 * of_cosine.len();
            cosines.extend(of_cosine.iter().chain(of_cosine));
            cosines.extend(repeat_n(1.0, head - width));
            sines.extend(of_sine.iter().map(|sine| -sine));
            sines.extend(of_sine);
            sines.extend(repeat_n(0.0, head - width));
        }
        let upload =
            |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [places.len(), 1, head]), device);
        Some(Self { cosines: upload(cosines), sines: upload(sines), width })
    }

    fn turn(&self, heads: Tensor<3>) -> Tensor<3> {
        let (half, rest) = (self.width / 2, heads.dims()[2] - self.width);
        let part = |from, len| heads.clone().narrow(2, from, len);
        let mut swapped = vec![part(half, half), part(0, half)];
        if rest > 0 {
            swapped.push(part(self.width, rest));
        }
        let swapped = Tensor::cat(swapped, 2);
        heads * self.cosines.clone() + swapped * self.sines.clone()
    }
}
