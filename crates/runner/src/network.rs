//! The parameters of a model in their places, and what each layer does beside its products: the description of an
//! architecture made concrete.
//!
//! The decoder on the CPU and that on burn are two computations over one [`Network`]. Which norms a layer has, its
//! window, its rotary embedding and its scale are decided here, once for both. Tried instead: a list of places in each
//! decoder. The second list was that of plain Llama alone.

use std::{collections::HashMap, fmt};

use crate::cache::View;
use crate::config::parameters::{self, Part};
use crate::config::{Activation, LayerRotary, ModelConfig, Norm};

/// A matrix of weights.
pub(crate) trait Weight {
    /// Scales and biases.
    type Vector: fmt::Debug;

    /// The values of scales or biases, each with `added`.
    fn into_vector(self, added: f32) -> Self::Vector;

    /// A number, rounded to the type in which the weights are stored in the file.
    fn rounded(&self, value: f32) -> f32;
}

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct Network<M: Weight> {
    pub(crate) embedding: M,
    /// The factor of embeddings.
    pub(crate) embedding_scale: Option<f32>,
    pub(crate) positions: Option<M>,
    pub(crate) layers: Vec<Layer<M>>,
    pub(crate) norm: Scales<M>,
    /// `None` where the embedding is the head, too.
    pub(crate) head: Option<M>,
    pub(crate) activation: Activation,
    /// The soft cap of logits.
    pub(crate) cap: Option<f32>,
    pub(crate) eps: f64,
}

/// A linear map with its bias.
#[derive(Debug)]
pub(crate) struct Linear<M: Weight> {
    pub(crate) matrix: M,
    pub(crate) bias: Option<M::Vector>,
}

/// The parameters of a normalisation.
#[derive(Debug)]
pub(crate) struct Scales<M: Weight> {
    pub(crate) scale: M::Vector,
    /// With a mean of zero.
    pub(crate) bias: Option<M::Vector>,
}

#[derive(Debug)]
pub(crate) struct Layer<M: Weight> {
    pub(crate) attention_norm: Option<Scales<M>>,
    pub(crate) query: Linear<M>,
    pub(crate) key: Linear<M>,
    pub(crate) value: Linear<M>,
    /// As wide as a head, or as the row.
    pub(crate) query_norm: Option<Scales<M>>,
    pub(crate) key_norm: Option<Scales<M>>,
    pub(crate) output: Linear<M>,
    pub(crate) attention_after: Option<Scales<M>>,
    pub(crate) feed_norm: Option<Scales<M>>,
    pub(crate) gate: Option<Linear<M>>,
    pub(crate) up: Linear<M>,
    pub(crate) down: Linear<M>,
    pub(crate) feed_after: Option<Scales<M>>,
    pub(crate) view: View,
    pub(crate) rotary: LayerRotary,
    /// The factor of queries.
    pub(crate) scale: f32,
}

/// The matrices of a model, to be taken by their places.
struct Parts<M> {
    matrices: HashMap<(Option<usize>, Part), M>,
    norm: Norm,
}

impl<M: Weight> Parts<M> {
    fn has(&mut self, layer: Option<usize>, part: Part) -> Option<M> {
        self.matrices.remove(&(layer, part))
    }

    fn take(&mut self, layer: Option<usize>, part: Part) -> M {
        self.has(layer, part).expect("the caller passes a matrix for each row of the table")
    }

    fn bias(&mut self, layer: Option<usize>, part: Part) -> Option<M::Vector> {
        self.has(layer, part).map(|bias| bias.into_vector(0.0))
    }

    fn linear(&mut self, layer: usize, part: Part, bias: Part) -> Linear<M> {
        let layer = Some(layer);
        Linear { matrix: self.take(layer, part), bias: self.bias(layer, bias) }
    }

    fn scales(&mut self, layer: Option<usize>, part: Part, bias: Option<Part>) -> Option<Scales<M>> {
        let added = if self.norm == Norm::RmsPlusOne { 1.0 } else { 0.0 };
        let scale = self.has(layer, part)?.into_vector(added);
        Some(Scales { scale, bias: bias.and_then(|bias| self.bias(layer, bias)) })
    }
}

impl<M: Weight> Network<M> {
    /// Puts parameters in their places. They come in the order of [`crate::config::parameters::table`].
    pub(crate) fn new(config: &ModelConfig, matrices: Vec<M>) -> Self {
        let architecture = &config.architecture;
        let table = parameters::table(config);
        debug_assert_eq!(table.len(), matrices.len());
        let places = table.iter().map(|parameter| (parameter.layer, parameter.part));
        let mut parts = Parts { matrices: places.zip(matrices).collect(), norm: architecture.norm };
        let scale = 1.0 / architecture.attention_scalar.unwrap_or(config.head_dim as f64).sqrt();
        let layer = |index: usize| {
            let kind = architecture.layer(index);
            let at = Some(index);
            let by_layer = if architecture.scale_by_layer { (index + 1) as f64 } else { 1.0 };
            let gate = architecture.gated.then(|| parts.linear(index, Part::Gate, Part::GateBias));
            Layer {
                attention_norm: parts.scales(at, Part::AttentionNorm, Some(Part::AttentionNormBias)),
                query: parts.linear(index, Part::Query, Part::QueryBias),
                key: parts.linear(index, Part::Key, Part::KeyBias),
                value: parts.linear(index, Part::Value, Part::ValueBias),
                query_norm: parts.scales(at, Part::QueryNorm, None),
                key_norm: parts.scales(at, Part::KeyNorm, None),
                output: parts.linear(index, Part::Output, Part::OutputBias),
                attention_after: parts.scales(at, Part::AttentionAfter, None),
                feed_norm: parts.scales(at, Part::FeedNorm, Some(Part::FeedNormBias)),
                gate,
                up: parts.linear(index, Part::Up, Part::UpBias),
                down: parts.linear(index, Part::Down, Part::DownBias),
                feed_after: parts.scales(at, Part::FeedAfter, None),
                view: View {
                    layer: index,
                    window: kind.window,
                    cap: architecture.attention_softcap.map(|cap| cap as f32),
                },
                rotary: if architecture.learned_positions { LayerRotary::None } else { kind.rotary },
                scale: (scale / by_layer) as f32,
            }
        };
        let layers = (0..config.num_hidden_layers).map(layer).collect();
        let embedding = parts.take(None, Part::Embedding);
        let root = (config.hidden_size as f64).sqrt() as f32;
        Self {
            embedding_scale: architecture.scaled_embedding.then(|| embedding.rounded(root)),
            embedding,
            positions: parts.has(None, Part::Positions),
            layers,
            norm: parts.scales(None, Part::Norm, Some(Part::NormBias)).expect("every model has one"),
            head: parts.has(None, Part::Head),
            activation: architecture.activation,
            cap: architecture.logit_softcap.map(|cap| cap as f32),
            eps: config.rms_norm_eps,
        }
    }

    /// The same network over other matrices: `lookup` makes those whose rows are looked up, `map` those of linear
    /// maps, and `vector` scales and biases.
    #[cfg(feature = "burn")]
    pub(crate) fn convert<N: Weight>(
        &self,
        lookup: impl Fn(&M) -> N,
        map: impl Fn(&M) -> N,
        vector: impl Fn(&M::Vector) -> N::Vector,
    ) -> Network<N> {
        let scales =
            |from: &Scales<M>| Scales { scale: vector(&from.scale), bias: from.bias.as_ref().map(&vector) };
        let some = |from: &Option<Scales<M>>| from.as_ref().map(&scales);
        let linear =
            |from: &Linear<M>| Linear { matrix: map(&from.matrix), bias: from.bias.as_ref().map(&vector) };
        let layer = |from: &Layer<M>| Layer {
            attention_norm: some(&from.attention_norm),
            query: linear(&from.query),
            key: linear(&from.key),
            value: linear(&from.value),
            query_norm: some(&from.query_norm),
            key_norm: some(&from.key_norm),
            output: linear(&from.output),
            attention_after: some(&from.attention_after),
            feed_norm: some(&from.feed_norm),
            gate: from.gate.as_ref().map(linear),
            up: linear(&from.up),
            down: linear(&from.down),
            feed_after: some(&from.feed_after),
            view: from.view,
            rotary: from.rotary,
            scale: from.scale,
        };
        Network {
            embedding: lookup(&self.embedding),
            embedding_scale: self.embedding_scale,
            positions: self.positions.as_ref().map(&lookup),
            layers: self.layers.iter().map(layer).collect(),
            norm: scales(&self.norm),
            head: self.head.as_ref().map(&map),
            activation: self.activation,
            cap: self.cap,
            eps: self.eps,
        }
    }
}
