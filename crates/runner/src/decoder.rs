//! The decoder on the CPU: embedding, layers of attention and feed-forward, final normalisation, head.
//!
//! All rows of all sequences are one row-major matrix, because every part but attention treats rows alike. So a batch goes
//! through the weights once. Buffers of a pass are kept for the next one.

use crate::cache::{Cache, Heads, Run, attend};
use crate::config::ModelConfig;
use crate::functions::{gated, normalise};
use crate::matrix::{Matrix, Product, compute, for_rows};
use crate::parameters::PER_LAYER;
use crate::rotary::Rotary;

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct Decoder {
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None` where the embedding is the head, too.
    head: Option<Matrix>,
    heads: Heads,
    hidden: usize,
    eps: f64,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    output: Matrix,
    feed_norm: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
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
}

/// New rows of one sequence in a pass.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) cache: &'a mut Cache,
    /// The positions of the rows.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A buffer of `len` numbers, whose content is that of an earlier pass.
fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.resize(len, 0.0);
    buffer
}

impl Decoder {
    /// Assembles a decoder from its parameters, in the order of [`crate::parameters::table`].
    pub(crate) fn new(config: &ModelConfig, parameters: Vec<Matrix>) -> Self {
        debug_assert_eq!(
            parameters.len(),
            2 + PER_LAYER * config.num_hidden_layers + usize::from(!config.tie_word_embeddings)
        );
        let mut rest = parameters.into_iter();
        let mut next = || rest.next().expect("the caller passes a matrix for each row of the table");
        let embedding = next();
        let layers = (0..config.num_hidden_layers)
            .map(|_| Layer {
                attention_norm: next().to_vec(),
                query: next(),
                key: next(),
                value: next(),
                output: next(),
                feed_norm: next().to_vec(),
                gate: next(),
                up: next(),
                down: next(),
            })
            .collect();
        let norm = next().to_vec();
        let head = (!config.tie_word_embeddings).then(next);
        let (hidden, eps) = (config.hidden_size, config.rms_norm_eps);
        Self { embedding, layers, norm, head, heads: Heads::new(config), hidden, eps }
    }

    /// The values of all parameters in f32, in the order of [`crate::parameters::table`], each as in a checkpoint.
    #[cfg(feature = "burn")]
    pub(crate) fn values(&self) -> Vec<Vec<f32>> {
        let mut all = vec![self.embedding.to_vec()];
        for layer in &self.layers {
            let Layer { attention_norm, query, key, value, output, feed_norm, gate, up, down } = layer;
            all.push(attention_norm.clone());
            all.extend([query, key, value, output].map(Matrix::to_vec));
            all.push(feed_norm.clone());
            all.extend([gate, up, down].map(Matrix::to_vec));
        }
        all.push(self.norm.clone());
        all.extend(self.head.as_ref().map(Matrix::to_vec));
        all
    }

    /// Runs all layers over the rows `tokens`, those of the pieces one after the other. The caches hold their keys and values
    /// afterwards, and `buffers` the last hidden states.
    pub(crate) fn forward(
        &self,
        tokens: &[usize],
        pieces: &mut [Piece<'_>],
        rotary: &mut Rotary,
        buffers: &mut Buffers,
    ) {
        let (rows, hidden, heads) = (tokens.len(), self.hidden, &self.heads);
        let positions: Vec<usize> = pieces.iter().flat_map(|piece| piece.start..piece.end).collect();
        rotary.reach(positions.iter().max().map_or(0, |last| last + 1));
        for piece in &mut *pieces {
            piece.cache.reserve(piece.start, piece.end, heads);
        }
        let Buffers { stream, normed, queries, keys, values, mixed, gate, up } = buffers;
        let stream = sized(stream, rows * hidden);
        for (row, token) in stream.chunks_exact_mut(hidden).zip(tokens) {
            self.embedding.row(*token, row);
        }
        let normed = sized(normed, rows * hidden);
        let scale = 1.0 / (heads.width() as f64).sqrt();
        for (index, layer) in self.layers.iter().enumerate() {
            self.normalise(stream, &layer.attention_norm, normed);
            let queries = sized(queries, rows * layer.query.outputs());
            let keys = sized(keys, rows * layer.key.outputs());
            let values = sized(values, rows * layer.value.outputs());
            compute(
                normed,
                [
                    Product::new(&layer.query, queries),
                    Product::new(&layer.key, keys),
                    Product::new(&layer.value, values),
                ],
            );
            for_rows(queries, layer.query.outputs(), |row, values| {
                rotary.turn(positions[row], values);
                values.iter_mut().for_each(|value| *value *= scale as f32);
            });
            for_rows(keys, layer.key.outputs(), |row, values| rotary.turn(positions[row], values));
            let mut first = 0;
            for Piece { cache, start, end } in &mut *pieces {
                let of = first * layer.key.outputs()..(first + *end - *start) * layer.key.outputs();
                cache.store(index, *start, &keys[of.clone()], &values[of], heads);
                first += *end - *start;
            }
            let runs: Vec<Run<'_>> = pieces
                .iter()
                .map(|piece| Run { cache: piece.cache, start: piece.start, len: piece.end - piece.start })
                .collect();
            let mixed = sized(mixed, queries.len());
            attend(index, &runs, queries, mixed, heads);
            compute(mixed, [Product { adds: true, ..Product::new(&layer.output, stream) }]);

            self.normalise(stream, &layer.feed_norm, normed);
            let inner = layer.gate.outputs();
            let gate = sized(gate, rows * inner);
            let up = sized(up, rows * inner);
            compute(normed, [Product::new(&layer.gate, gate), Product::new(&layer.up, up)]);
            for_rows(gate, inner, |row, gate| gated(gate, &up[row * inner..][..inner]));
            compute(gate, [Product { adds: true, ..Product::new(&layer.down, stream) }]);
        }
    }

    /// The logits of some rows of the last [`forward`](Self::forward), row-major.
    pub(crate) fn logits(&self, rows: &[usize], buffers: &mut Buffers, logits: &mut [f32]) {
        if rows.is_empty() {
            return;
        }
        let hidden = self.hidden;
        let normed = sized(&mut buffers.normed, rows.len() * hidden);
        for (row, normed) in rows.iter().zip(normed.chunks_exact_mut(hidden)) {
            normalise(&buffers.stream[row * hidden..][..hidden], &self.norm, self.eps, normed);
        }
        compute(normed, [Product::new(self.head.as_ref().unwrap_or(&self.embedding), logits)]);
    }

    fn normalise(&self, rows: &[f32], scale: &[f32], out: &mut [f32]) {
        let width = self.hidden;
        for_rows(out, width, |row, out| normalise(&rows[row * width..][..width], scale, self.eps, out));
    }
}
