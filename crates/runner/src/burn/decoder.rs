//! The decoder: embedding, layers of attention and feed-forward, final normalisation, head.
//!
//! One definition serves training and inference. All rows of all sequences are one matrix `[rows, hidden]`, because
//! every part but attention treats rows alike. The two uses differ in the earlier rows that a row may look at, so
//! each caller passes attention as a closure to [`Decoder::forward`]. Not taken: two definitions, one padded to
//! `[batch, time, hidden]` for training and one with a cache. Two definitions drift apart, and padding wastes work on
//! ragged batches.
//!
//! The parameters are plain tensors rather than burn modules. Modules bring records, parameter ids and lazily
//! initialised weights, and this crate needs none of them: names and files belong to [`crate::config::parameters`].

use ::burn::tensor::{Int, Tensor, activation};

use crate::config::ModelConfig;
use crate::config::parameters::PER_LAYER;

use super::rotary::Rotation;

/// The queries, keys and values of some rows in one layer, rotated to their positions.
#[derive(Debug)]
pub(crate) struct Attention {
    /// `[rows, heads, head_dim]`, already scaled by `1 / sqrt(head_dim)`.
    pub(crate) queries: Tensor<3>,
    /// `[rows, key_value_heads, head_dim]`
    pub(crate) keys: Tensor<3>,
    /// `[rows, key_value_heads, head_dim]`
    pub(crate) values: Tensor<3>,
}

/// A decoder on some device.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// `[vocab, hidden]`
    embedding: Tensor<2>,
    layers: Vec<Layer>,
    /// `[1, hidden]`
    norm: Tensor<2>,
    /// `[hidden, vocab]`; `None` where the transposed embedding is used in its place.
    head: Option<Tensor<2>>,
    eps: f64,
    head_dim: usize,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor<2>,
    query: Tensor<2>,
    key: Tensor<2>,
    value: Tensor<2>,
    output: Tensor<2>,
    feed_norm: Tensor<2>,
    gate: Tensor<2>,
    up: Tensor<2>,
    down: Tensor<2>,
}

impl Decoder {
    /// Assembles a decoder from its parameters, in the order and shapes of [`crate::config::parameters::table`]. The
    /// head of a tied model is a contiguous `[hidden, vocab]` copy of the embedding, because products of single rows
    /// must be fast.
    pub(crate) fn new(
        config: &ModelConfig,
        parameters: Vec<Tensor<2>>,
        tied_head: Option<Tensor<2>>,
    ) -> Self {
        debug_assert_eq!(
            parameters.len(),
            2 + PER_LAYER * config.num_hidden_layers + usize::from(!config.tie_word_embeddings)
        );
        let mut rest = parameters.into_iter();
        let mut next = || rest.next().expect("the caller passes one tensor for each row of the table");
        let embedding = next();
        let layers = (0..config.num_hidden_layers)
            .map(|_| Layer {
                attention_norm: next(),
                query: next(),
                key: next(),
                value: next(),
                output: next(),
                feed_norm: next(),
                gate: next(),
                up: next(),
                down: next(),
            })
            .collect();
        let norm = next();
        let head = if config.tie_word_embeddings { tied_head } else { Some(next()) };
        Self { embedding, layers, norm, head, eps: config.rms_norm_eps, head_dim: config.head_dim }
    }

    /// Runs all layers over the rows `tokens` and returns their last hidden states, normalised: `[rows, hidden]`.
    ///
    /// `attend(layer, attention)` mixes the rows of one layer and returns `[rows, heads * head_dim]`.
    pub(crate) fn forward(
        &self,
        tokens: Tensor<1, Int>,
        rotation: &Rotation,
        mut attend: impl FnMut(usize, Attention) -> Tensor<2>,
    ) -> Tensor<2> {
        let mut stream = self.embedding.clone().select(0, tokens);
        for (index, layer) in self.layers.iter().enumerate() {
            let input = self.normalised(stream.clone(), &layer.attention_norm);
            let attention = self.project(layer, input, rotation);
            stream = stream + attend(index, attention).matmul(layer.output.clone());
            let input = self.normalised(stream.clone(), &layer.feed_norm);
            let gate = activation::silu(input.clone().matmul(layer.gate.clone()));
            let up = input.matmul(layer.up.clone());
            stream = stream + (gate * up).matmul(layer.down.clone());
        }
        self.normalised(stream, &self.norm)
    }

    /// The logits `[rows, vocab]` of hidden states `[rows, hidden]`.
    pub(crate) fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.head {
            Some(head) => hidden.matmul(head.clone()),
            None => hidden.matmul(self.embedding.clone().transpose()),
        }
    }

    fn project(&self, layer: &Layer, input: Tensor<2>, rotation: &Rotation) -> Attention {
        let rows = input.dims()[0];
        let width = self.head_dim;
        let heads = |weight: &Tensor<2>| {
            let count = weight.dims()[1] / width;
            input.clone().matmul(weight.clone()).reshape([rows, count, width])
        };
        let scale = 1.0 / (width as f64).sqrt();
        Attention {
            queries: rotation.turn(heads(&layer.query)).mul_scalar(scale),
            keys: rotation.turn(heads(&layer.key)),
            values: heads(&layer.value),
        }
    }

    /// Divides each row by its root mean square and scales it.
    fn normalised(&self, rows: Tensor<2>, scale: &Tensor<2>) -> Tensor<2> {
        let square = (rows.clone() * rows.clone()).mean_dim(1);
        let inverse = square.add_scalar(self.eps).sqrt().recip();
        rows * inverse * scale.clone()
    }
}
