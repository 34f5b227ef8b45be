//! The decoder on the CPU: embedding, layers of attention and feed-forward, final normalisation, head.
//!
//! All rows of all sequences are one row-major matrix, because every part but attention treats rows alike. So a batch
//! goes through the weights once. Buffers of a pass are kept for the next one. The parts in which families of models
//! differ are asked of the [`Network`], so that there is one decoder.

use crate::cache::{Cache, Heads, Run, attend};
use crate::config::{Activation, ModelConfig};
use crate::math::functions::{activate, gated, normalise, soft_cap, standardise};
use crate::math::matrix::{Matrix, Product, compute, for_rows};
use crate::math::rotary::{Regime, Rotary};
use crate::network::{self, Network, Weight};

type Layer = network::Layer<Matrix>;
type Linear = network::Linear<Matrix>;
type Scales = network::Scales<Matrix>;

/// A model on the CPU.
#[derive(Debug)]
pub(crate) struct Decoder {
    network: Network<Matrix>,
    heads: Heads,
    hidden: usize,
}

impl Weight for Matrix {
    type Vector = Vec<f32>;

    fn into_vector(self, added: f32) -> Vec<f32> {
        let mut values = self.to_vec();
        values.iter_mut().for_each(|value| *value += added);
        values
    }

    fn rounded(&self, value: f32) -> f32 {
        Self::rounded(self, value)
    }
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

impl Decoder {
    /// Assembles a decoder from its parameters, in the order of [`crate::config::parameters::table`].
    pub(crate) fn new(config: &ModelConfig, matrices: Vec<Matrix>) -> Self {
        let network = Network::new(config, matrices);
        Self { network, heads: Heads::new(config), hidden: config.hidden_size }
    }

    /// The weights, in their places.
    #[cfg(feature = "burn")]
    pub(crate) fn network(&self) -> &Network<Matrix> {
        &self.network
    }

    /// The sizes of attention.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The matrices of all layers.
    fn maps(&self) -> impl Iterator<Item = &Matrix> {
        self.network.layers.iter().flat_map(|layer| {
            let Layer { query, key, value, output, gate, up, down, .. } = layer;
            let maps =
                [Some(query), Some(key), Some(value), Some(output), gate.as_ref(), Some(up), Some(down)];
            maps.into_iter().flatten().map(|linear| &linear.matrix)
        })
    }

    /// The bytes of all matrices, a tied one once.
    pub(crate) fn bytes(&self) -> usize {
        let ends =
            [Some(&self.network.embedding), self.network.positions.as_ref(), self.network.head.as_ref()];
        ends.into_iter().flatten().chain(self.maps()).map(Matrix::bytes).sum()
    }

    /// The bytes of the matrices that a pass goes through.
    pub(crate) fn step_bytes(&self) -> usize {
        let head = self.network.head.as_ref().unwrap_or(&self.network.embedding);
        head.bytes() + self.maps().map(Matrix::bytes).sum::<usize>()
    }

    /// The type in which most weights are kept.
    pub(crate) fn kept_as(&self) -> &'static str {
        self.network.layers[0].down.matrix.kept_as()
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
        for layer in &self.network.layers {
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
            self.network.embedding.row(*token, row);
            if let Some(scale) = self.network.embedding_scale {
                row.iter_mut().for_each(|value| *value *= scale);
            }
        }
        if let Some(positions) = &self.network.positions {
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
        let activation: Activation = self.network.activation;
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
            self.normalise(&buffers.stream[row * hidden..][..hidden], &self.network.norm, normed);
        }
        let head = self.network.head.as_ref().unwrap_or(&self.network.embedding);
        compute(normed, [Product::new(head, logits)]);
        if let Some(cap) = self.network.cap {
            for_rows(logits, head.outputs(), |_, row| soft_cap(cap, row));
        }
    }

    fn normalise(&self, row: &[f32], scales: &Scales, out: &mut [f32]) {
        match &scales.bias {
            Some(bias) => standardise(row, &scales.scale, bias, self.network.eps, out),
            None => normalise(row, &scales.scale, self.network.eps, out),
        }
    }

    /// Normalises queries or keys, where the architecture says so.
    fn normalise_heads(&self, scales: &Option<Scales>, row: &mut [f32]) {
        let Some(scales) = scales else { return };
        for part in row.chunks_exact_mut(scales.scale.len()) {
            let own = part.to_vec();
            normalise(&own, &scales.scale, self.network.eps, part);
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
