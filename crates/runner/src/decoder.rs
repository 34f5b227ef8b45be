//! The decoder on the CPU: embedding, layers of attention and feed-forward, final normalisation, head.
//!
//! All rows of all sequences are one row-major matrix, because every part but attention treats rows alike. So a batch
//! goes through the weights once. Buffers of a pass are kept for the next one. The parts in which families of models
//! differ are asked of [`Architecture`], so that there is one decoder.

use std::collections::HashMap;

use crate::cache::{Cache, Heads, Run, View, attend};
use crate::config::parameters::{self, Part};
use crate::config::{Activation, Architecture, HeadNorm, LayerRotary, ModelConfig, Norm};
use crate::math::functions::{activate, gated, normalise, soft_cap, standardise};
use crate::math::matrix::{Matrix, Product, compute, for_rows};
use crate::math::rotary::{Regime, Rotary};

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct Decoder {
    embedding: Matrix,
    /// The factor of embeddings.
    embedding_scale: Option<f32>,
    positions: Option<Matrix>,
    layers: Vec<Layer>,
    norm: Scales,
    /// `None` where the embedding is the head, too.
    head: Option<Matrix>,
    heads: Heads,
    architecture: Architecture,
    hidden: usize,
    eps: f64,
}

/// A linear map with its bias.
#[derive(Debug)]
struct Linear {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
}

/// The parameters of a normalisation.
#[derive(Debug)]
struct Scales {
    scale: Vec<f32>,
    /// With a mean of zero.
    bias: Option<Vec<f32>>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Option<Scales>,
    query: Linear,
    key: Linear,
    value: Linear,
    query_norm: Option<Scales>,
    key_norm: Option<Scales>,
    output: Linear,
    attention_after: Option<Scales>,
    feed_norm: Option<Scales>,
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    feed_after: Option<Scales>,
    view: View,
    rotary: LayerRotary,
    /// The factor of queries.
    scale: f32,
}

/// Buffers of a pass, each a row-major matrix of the pass's rows.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The residual stream.
    stream: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    mixed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    /// The output of a block that is changed before it is added to the stream.
    block: Vec<f32>,
}

/// New rows of one sequence in a pass.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) cache: &'a mut Cache,
    /// The positions of the rows.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) regime: Regime,
}

/// A buffer of `len` numbers, whose content is that of an earlier pass.
fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.resize(len, 0.0);
    buffer
}

/// The matrices of a model, to be taken by their places.
struct Parts {
    matrices: HashMap<(Option<usize>, Part), Matrix>,
    norm: Norm,
}

impl Parts {
    fn has(&mut self, layer: Option<usize>, part: Part) -> Option<Matrix> {
        self.matrices.remove(&(layer, part))
    }

    fn take(&mut self, layer: Option<usize>, part: Part) -> Matrix {
        self.has(layer, part).expect("the caller passes a matrix for each row of the table")
    }

    fn linear(&mut self, layer: usize, part: Part, bias: Part) -> Linear {
        let layer = Some(layer);
        Linear { matrix: self.take(layer, part), bias: self.has(layer, bias).map(|bias| bias.to_vec()) }
    }

    fn scales(&mut self, layer: Option<usize>, part: Part, bias: Option<Part>) -> Option<Scales> {
        let mut scale = self.has(layer, part)?.to_vec();
        if self.norm == Norm::RmsPlusOne {
            scale.iter_mut().for_each(|scale| *scale += 1.0);
        }
        let bias = bias.and_then(|bias| self.has(layer, bias)).map(|bias| bias.to_vec());
        Some(Scales { scale, bias })
    }
}

impl Decoder {
    /// Assembles a decoder from its parameters, in the order of [`crate::config::parameters::table`].
    pub(crate) fn new(config: &ModelConfig, matrices: Vec<Matrix>) -> Self {
        let architecture = config.architecture.clone();
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
            heads: Heads::new(config),
            architecture,
            hidden: config.hidden_size,
            eps: config.rms_norm_eps,
        }
    }

    /// The sizes of attention.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The matrices of all layers.
    fn maps(&self) -> impl Iterator<Item = &Matrix> {
        self.layers.iter().flat_map(|layer| {
            let Layer { query, key, value, output, gate, up, down, .. } = layer;
            let maps =
                [Some(query), Some(key), Some(value), Some(output), gate.as_ref(), Some(up), Some(down)];
            maps.into_iter().flatten().map(|linear| &linear.matrix)
        })
    }

    /// The bytes of all matrices, a tied one once.
    pub(crate) fn bytes(&self) -> usize {
        let ends = [Some(&self.embedding), self.positions.as_ref(), self.head.as_ref()];
        ends.into_iter().flatten().chain(self.maps()).map(Matrix::bytes).sum()
    }

    /// The bytes of the matrices that a pass goes through.
    pub(crate) fn step_bytes(&self) -> usize {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        head.bytes() + self.maps().map(Matrix::bytes).sum::<usize>()
    }

    /// The type in which most weights are kept.
    pub(crate) fn kept_as(&self) -> &'static str {
        self.layers[0].down.matrix.kept_as()
    }

    /// The values of all parameters in f32, in the order of [`crate::config::parameters::table`], each as in a
    /// checkpoint. The model is plain Llama.
    #[cfg(feature = "burn")]
    pub(crate) fn values(&self) -> Vec<Vec<f32>> {
        let scale = |scales: &Option<Scales>| scales.as_ref().expect("plain Llama").scale.clone();
        let mut all = vec![self.embedding.to_vec()];
        for layer in &self.layers {
            let Layer { query, key, value, output, gate, up, down, .. } = layer;
            let gate = gate.as_ref().expect("plain Llama");
            all.push(scale(&layer.attention_norm));
            all.extend([query, key, value, output].map(|linear| linear.matrix.to_vec()));
            all.push(scale(&layer.feed_norm));
            all.extend([gate, up, down].map(|linear| linear.matrix.to_vec()));
        }
        all.push(self.norm.scale.clone());
        all.extend(self.head.as_ref().map(Matrix::to_vec));
        all
    }

    /// Runs all layers over the rows `tokens`, those of the pieces one after the other. The caches hold their keys
    /// and values afterwards, and `buffers` the last hidden states.
    pub(crate) fn forward(
        &self,
        tokens: &[usize],
        pieces: &mut [Piece<'_>],
        rotary: &mut Rotary,
        buffers: &mut Buffers,
    ) {
        let (rows, hidden, heads) = (tokens.len(), self.hidden, &self.heads);
        let places: Vec<(Regime, usize)> = pieces
            .iter()
            .flat_map(|piece| (piece.start..piece.end).map(|position| (piece.regime, position)))
            .collect();
        rotary.begin();
        for piece in &mut *pieces {
            rotary.reach(piece.regime, piece.end);
            piece.cache.reserve(piece.start, piece.end, heads);
        }
        let Buffers { stream, normed, queries, keys, values, mixed, gate, up, block } = buffers;
        let stream = sized(stream, rows * hidden);
        let normed = sized(normed, rows * hidden);
        self.embed(tokens, &places, stream, normed);
        for layer in &self.layers {
            let input = self.before(&layer.attention_norm, stream, normed);
            let queries = sized(queries, rows * layer.query.matrix.outputs());
            let keys = sized(keys, rows * layer.key.matrix.outputs());
            let values = sized(values, rows * layer.value.matrix.outputs());
            compute(
                input,
                [
                    Product::new(&layer.query.matrix, queries),
                    Product::new(&layer.key.matrix, keys),
                    Product::new(&layer.value.matrix, values),
                ],
            );
            let head = |scales: &Option<Scales>, row: &mut [f32], place: (Regime, usize)| {
                self.normalise_heads(scales, row);
                rotary.turn(layer.rotary, place.0, place.1, row);
            };
            layer.query.add_bias(queries);
            for_rows(queries, layer.query.matrix.outputs(), |row, values| {
                head(&layer.query_norm, values, places[row]);
                values.iter_mut().for_each(|value| *value *= layer.scale);
            });
            layer.key.add_bias(keys);
            for_rows(keys, layer.key.matrix.outputs(), |row, values| {
                head(&layer.key_norm, values, places[row]);
            });
            layer.value.add_bias(values);
            let mut first = 0;
            let width = layer.key.matrix.outputs();
            for Piece { cache, start, end, .. } in &mut *pieces {
                let of = first * width..(first + *end - *start) * width;
                cache.store(layer.view.layer, *start, &keys[of.clone()], &values[of], heads);
                first += *end - *start;
            }
            let runs: Vec<Run<'_>> = pieces
                .iter()
                .map(|piece| Run { cache: piece.cache, start: piece.start, len: piece.end - piece.start })
                .collect();
            let mixed = sized(mixed, queries.len());
            attend(layer.view, &runs, queries, mixed, heads);
            self.add(&layer.output, &layer.attention_after, mixed, stream, block);

            let input = self.before(&layer.feed_norm, stream, normed);
            self.feed(layer, input, rows, [gate, up]);
            self.add(
                &layer.down,
                &layer.feed_after,
                if layer.gate.is_some() { gate } else { up },
                stream,
                block,
            );
        }
    }

    /// Writes the embeddings of tokens at their positions. `room` is as large as the stream.
    fn embed(&self, tokens: &[usize], places: &[(Regime, usize)], stream: &mut [f32], room: &mut [f32]) {
        let hidden = self.hidden;
        for (row, token) in stream.chunks_exact_mut(hidden).zip(tokens) {
            self.embedding.row(*token, row);
            if let Some(scale) = self.embedding_scale {
                row.iter_mut().for_each(|value| *value *= scale);
            }
        }
        if let Some(positions) = &self.positions {
            let rows = stream.chunks_exact_mut(hidden).zip(room.chunks_exact_mut(hidden));
            for ((row, own), (_, position)) in rows.zip(places) {
                positions.row(*position, own);
                row.iter_mut().zip(own).for_each(|(value, own)| *value += *own);
            }
        }
    }

    /// The input of a block: the stream, normalised where the architecture says so.
    fn before<'a>(&self, scales: &Option<Scales>, stream: &'a [f32], normed: &'a mut [f32]) -> &'a [f32] {
        let Some(scales) = scales else { return stream };
        let width = self.hidden;
        for_rows(normed, width, |row, out| self.normalise(&stream[row * width..][..width], scales, out));
        normed
    }

    /// The inner rows of the feed-forward block: in `gate` where there is one, otherwise in `up`.
    fn feed(&self, layer: &Layer, input: &[f32], rows: usize, [gate, up]: [&mut Vec<f32>; 2]) {
        let inner = layer.up.matrix.outputs();
        let activation: Activation = self.architecture.activation;
        let up = sized(up, rows * inner);
        let Some(gate_map) = &layer.gate else {
            compute(input, [Product::new(&layer.up.matrix, up)]);
            layer.up.add_bias(up);
            return for_rows(up, inner, |_, row| activate(activation, row));
        };
        let gate = sized(gate, rows * inner);
        compute(input, [Product::new(&gate_map.matrix, gate), Product::new(&layer.up.matrix, up)]);
        gate_map.add_bias(gate);
        layer.up.add_bias(up);
        for_rows(gate, inner, |row, gate| gated(activation, gate, &up[row * inner..][..inner]));
    }

    /// Adds a map of `input` to the stream, after its bias and a normalisation where there are such.
    fn add(
        &self,
        map: &Linear,
        after: &Option<Scales>,
        input: &[f32],
        stream: &mut [f32],
        block: &mut Vec<f32>,
    ) {
        let Some(scales) = after else {
            compute(input, [Product { adds: true, ..Product::new(&map.matrix, stream) }]);
            return map.add_bias(stream);
        };
        let width = self.hidden;
        let block = sized(block, stream.len());
        compute(input, [Product::new(&map.matrix, block)]);
        map.add_bias(block);
        for_rows(stream, width, |row, stream| {
            let mut out = vec![0.0; width];
            self.normalise(&block[row * width..][..width], scales, &mut out);
            stream.iter_mut().zip(out).for_each(|(value, own)| *value += own);
        });
    }

    /// The logits of some rows of the last [`forward`](Self::forward), row-major.
    pub(crate) fn logits(&self, rows: &[usize], buffers: &mut Buffers, logits: &mut [f32]) {
        if rows.is_empty() {
            return;
        }
        let hidden = self.hidden;
        let normed = sized(&mut buffers.normed, rows.len() * hidden);
        for (row, normed) in rows.iter().zip(normed.chunks_exact_mut(hidden)) {
            self.normalise(&buffers.stream[row * hidden..][..hidden], &self.norm, normed);
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        compute(normed, [Product::new(head, logits)]);
        if let Some(cap) = self.architecture.logit_softcap {
            for_rows(logits, head.outputs(), |_, row| soft_cap(cap as f32, row));
        }
    }

    fn normalise(&self, row: &[f32], scales: &Scales, out: &mut [f32]) {
        match &scales.bias {
            Some(bias) => standardise(row, &scales.scale, bias, self.eps, out),
            None => normalise(row, &scales.scale, self.eps, out),
        }
    }

    /// Normalises queries or keys, where the architecture says so.
    fn normalise_heads(&self, scales: &Option<Scales>, row: &mut [f32]) {
        let Some(scales) = scales else { return };
        debug_assert_ne!(self.architecture.head_norm, HeadNorm::None);
        // As wide as a head, or as the row.
        for part in row.chunks_exact_mut(scales.scale.len()) {
            let own = part.to_vec();
            normalise(&own, &scales.scale, self.eps, part);
        }
    }
}

impl Linear {
    fn add_bias(&self, rows: &mut [f32]) {
        let Some(bias) = &self.bias else { return };
        for_rows(rows, bias.len(), |_, row| {
            row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
        });
    }
}
