//! The decoder: embedding, layers of attention and feed-forward, final normalisation, head.
//!
//! One definition serves training and inference. All rows of all sequences are one matrix `[rows, hidden]`, because
//! every part but attention treats rows alike. The two uses differ in the earlier rows that a row may look at, so
//! each caller passes attention as a closure to [`Decoder::forward`]. Not taken: two definitions, one padded to
//! `[batch, time, hidden]` for training and one with a cache. Two definitions drift apart, and padding wastes work on
//! ragged batches.
//!
//! What the layers of a model do is asked of the [`Network`], as in the decoder on the CPU.
//!
//! The parameters are plain tensors rather than burn modules. Modules bring records, parameter ids and lazily
//! initialised weights, and this crate needs none of them: names and files belong to [`crate::config::parameters`].

use ::burn::tensor::{Int, Tensor, activation};

use super::rotary::Places;
use crate::cache::View;
use crate::config::Activation;
use crate::network::{self, Network, Weight};

type Layer = network::Layer<Tensor<2>>;
type Linear = network::Linear<Tensor<2>>;
type Scales = network::Scales<Tensor<2>>;

/// Tables are `[rows, hidden]`, linear maps `[in, out]`, scales and biases `[1, width]`.
impl Weight for Tensor<2> {
    type Vector = Self;

    fn into_vector(self, added: f32) -> Self {
        if added == 0.0 { self } else { self.add_scalar(added) }
    }

    fn rounded(&self, value: f32) -> f32 {
        value
    }
}

/// The queries, keys and values of some rows in one layer, rotated to their positions.
#[derive(Debug)]
pub(crate) struct Attention {
    /// `[rows, heads, head_dim]`, already scaled.
    pub(crate) queries: Tensor<3>,
    /// `[rows, key_value_heads, head_dim]`
    pub(crate) keys: Tensor<3>,
    /// `[rows, key_value_heads, head_dim]`
    pub(crate) values: Tensor<3>,
}

/// A decoder on some device.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) network: Network<Tensor<2>>,
    pub(crate) head_dim: usize,
}

impl Decoder {
    /// Runs all layers over the rows `tokens` and returns their last hidden states, normalised: `[rows, hidden]`.
    ///
    /// `attend(view, attention)` mixes the rows of one layer and returns `[rows, heads * head_dim]`.
    pub(crate) fn forward(
        &self,
        tokens: Tensor<1, Int>,
        places: &Places,
        mut attend: impl FnMut(View, Attention) -> Tensor<2>,
    ) -> Tensor<2> {
        let network = &self.network;
        let mut stream = network.embedding.clone().select(0, tokens);
        if let Some(scale) = network.embedding_scale {
            stream = stream.mul_scalar(scale);
        }
        if let (Some(table), Some(positions)) = (&network.positions, &places.learned) {
            stream = stream + table.clone().select(0, positions.clone());
        }
        for layer in &network.layers {
            let input = self.normalised(&layer.attention_norm, stream.clone());
            let attention = self.project(layer, input, places);
            let block = linear(&layer.output, attend(layer.view, attention));
            stream = stream + self.normalised(&layer.attention_after, block);
            let input = self.normalised(&layer.feed_norm, stream.clone());
            let block = linear(&layer.down, self.feed(layer, input));
            stream = stream + self.normalised(&layer.feed_after, block);
        }
        self.normalise(&network.norm, stream)
    }

    /// The logits `[rows, vocab]` of hidden states `[rows, hidden]`.
    pub(crate) fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        let network = &self.network;
        let logits = match &network.head {
            Some(head) => hidden.matmul(head.clone()),
            None => hidden.matmul(network.embedding.clone().transpose()),
        };
        match network.cap {
            Some(cap) => soft_cap(cap, logits),
            None => logits,
        }
    }

    fn project(&self, layer: &Layer, input: Tensor<2>, places: &Places) -> Attention {
        let heads = |map: &Linear, scales: &Option<Scales>| {
            let mut all = linear(map, input.clone());
            let [rows, width] = all.dims();
            if let Some(scales) = scales {
                // As wide as a head, or as the row.
                let part = scales.scale.dims()[1];
                all = self.normalise(scales, all.reshape([rows * width / part, part]));
            }
            all.reshape([rows, width / self.head_dim, self.head_dim])
        };
        let turned = |map, scales| places.turn(layer.rotary, heads(map, scales));
        Attention {
            queries: turned(&layer.query, &layer.query_norm).mul_scalar(layer.scale),
            keys: turned(&layer.key, &layer.key_norm),
            values: heads(&layer.value, &None),
        }
    }

    /// The inner rows of the feed-forward block.
    fn feed(&self, layer: &Layer, input: Tensor<2>) -> Tensor<2> {
        let activation = self.network.activation;
        let up = linear(&layer.up, input.clone());
        match &layer.gate {
            Some(gate) => activate(activation, linear(gate, input)) * up,
            None => activate(activation, up),
        }
    }

    /// Normalises rows, where the architecture says so.
    fn normalised(&self, scales: &Option<Scales>, rows: Tensor<2>) -> Tensor<2> {
        match scales {
            Some(scales) => self.normalise(scales, rows),
            None => rows,
        }
    }

    /// Divides each row by its root mean square and scales it. A bias takes away the mean first.
    fn normalise(&self, scales: &Scales, rows: Tensor<2>) -> Tensor<2> {
        let rows = match scales.bias {
            Some(_) => rows.clone() - rows.mean_dim(1),
            None => rows,
        };
        let square = (rows.clone() * rows.clone()).mean_dim(1);
        let inverse = square.add_scalar(self.network.eps).sqrt().recip();
        let rows = rows * inverse * scales.scale.clone();
        match &scales.bias {
            Some(bias) => rows + bias.clone(),
            None => rows,
        }
    }
}

fn linear(map: &Linear, input: Tensor<2>) -> Tensor<2> {
    let output = input.matmul(map.matrix.clone());
    match &map.bias {
        Some(bias) => output + bias.clone(),
        None => output,
    }
}

/// Values `x` become `cap * tanh(x / cap)`.
pub(crate) fn soft_cap<const D: usize>(cap: f32, values: Tensor<D>) -> Tensor<D> {
    values.div_scalar(cap).tanh().mul_scalar(cap)
}

fn activate(activation: Activation, x: Tensor<2>) -> Tensor<2> {
    match activation {
        Activation::Silu => activation::silu(x),
        Activation::Gelu => activation::gelu(x),
        // Not burn's own, whose third power is a general one: WGSL leaves that of numbers below zero undefined.
        Activation::GeluTanh => {
            let cube = x.clone() * x.clone() * x.clone();
            let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            let inner = (x.clone() + cube.mul_scalar(0.044_715)).mul_scalar(root);
            x.mul_scalar(0.5) * inner.tanh().add_scalar(1.0)
        }
        Activation::QuickGelu => x.clone() * activation::sigmoid(x.mul_scalar(1.702)),
        Activation::Relu => activation::relu(x),
    }
}
