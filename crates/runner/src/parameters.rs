//! The parameters of a model: their list, their names, and random values.
//!
//! One table, [`table`], fixes the order, the Hugging Face names and the shapes. The loader, the writer, the trainer and
//! the decoders all go through this table, so that none of them spells a name a second time.
//!
//! Shapes and random values are those of a linear map as `[in, out]`, the transpose of the matrix in a file: so the trainer and
//! burn have them. A product of one row with an `[out, in]` tensor takes a strided path of burn's CPU backend, measured at 6 to
//! 15 times slower.

use rand_core::Rng;

use crate::config::ModelConfig;
use crate::matrix::Matrix;

/// The kind of a parameter: it decides the orientation and the initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One row per token: `[vocab, hidden]` in files and here.
    Embedding,
    /// A linear map: `[out, in]` in files, `[in, out]` here.
    Linear,
    /// A linear map that writes into the residual stream. It starts smaller, and is otherwise as [`Kind::Linear`].
    Residual,
    /// Scales of a normalisation: `[hidden]` in files, `[1, hidden]` here.
    Norm,
}

/// One row of the table of parameters.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The Hugging Face name.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The shape; that of the transpose of a file's matrix, where [`is_transposed`](Self::is_transposed) says so.
    pub(crate) shape: [usize; 2],
}

impl Parameter {
    /// The shape in a checkpoint.
    pub(crate) fn file_shape(&self) -> Vec<usize> {
        let [rows, columns] = self.shape;
        match self.kind {
            Kind::Embedding => vec![rows, columns],
            Kind::Linear | Kind::Residual => vec![columns, rows],
            Kind::Norm => vec![columns],
        }
    }

    /// The outputs and inputs of the parameter as a matrix; scales are a column.
    pub(crate) fn matrix(&self) -> [usize; 2] {
        let [rows, columns] = self.shape;
        match self.kind {
            Kind::Embedding => [rows, columns],
            Kind::Linear | Kind::Residual | Kind::Norm => [columns, rows],
        }
    }

    /// Whether the values are the transpose of those in a checkpoint.
    #[cfg(feature = "burn")]
    pub(crate) fn is_transposed(&self) -> bool {
        matches!(self.kind, Kind::Linear | Kind::Residual)
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.shape[0] * self.shape[1]
    }
}

/// The number of parameters of one layer in [`table`].
pub(crate) const PER_LAYER: usize = 9;

/// Every parameter of a model: the embedding, then [`PER_LAYER`] for each layer, the last normalisation, and the
/// head unless it is tied to the embedding.
pub(crate) fn table(config: &ModelConfig) -> Vec<Parameter> {
    let hidden = config.hidden_size;
    let query = config.num_attention_heads * config.head_dim;
    let value = config.num_key_value_heads * config.head_dim;
    let inner = config.intermediate_size;
    let new = |name: String, kind, shape| Parameter { name, kind, shape };
    let mut all =
        vec![new("model.embed_tokens.weight".to_owned(), Kind::Embedding, [config.vocab_size, hidden])];
    for layer in 0..config.num_hidden_layers {
        let parts: [(&str, Kind, [usize; 2]); PER_LAYER] = [
            ("input_layernorm", Kind::Norm, [1, hidden]),
            ("self_attn.q_proj", Kind::Linear, [hidden, query]),
            ("self_attn.k_proj", Kind::Linear, [hidden, value]),
            ("self_attn.v_proj", Kind::Linear, [hidden, value]),
            ("self_attn.o_proj", Kind::Residual, [query, hidden]),
            ("post_attention_layernorm", Kind::Norm, [1, hidden]),
            ("mlp.gate_proj", Kind::Linear, [hidden, inner]),
            ("mlp.up_proj", Kind::Linear, [hidden, inner]),
            ("mlp.down_proj", Kind::Residual, [inner, hidden]),
        ];
        all.extend(
            parts.map(|(part, kind, shape)| new(format!("model.layers.{layer}.{part}.weight"), kind, shape)),
        );
    }
    all.push(new("model.norm.weight".to_owned(), Kind::Norm, [1, hidden]));
    if !config.tie_word_embeddings {
        all.push(new("lm_head.weight".to_owned(), Kind::Linear, [hidden, config.vocab_size]));
    }
    all
}

/// Initial values for training: normal with a standard deviation of 0.02; the maps into the residual stream smaller by
/// `sqrt(2 * layers)`, so that the stream's variance does not grow with depth; norms one. A function of the configuration
/// and of the numbers that `random` yields.
#[cfg(feature = "train")]
pub(crate) fn initial(config: &ModelConfig, random: &mut impl Rng) -> Vec<Vec<f32>> {
    let small = 0.02 / (2.0 * config.num_hidden_layers as f64).sqrt();
    table(config)
        .iter()
        .map(|parameter| match parameter.kind {
            Kind::Norm => vec![1.0; parameter.len()],
            Kind::Residual => normal(parameter.len(), small, random),
            Kind::Embedding | Kind::Linear => normal(parameter.len(), 0.02, random),
        })
        .collect()
}

/// Values for tests: their size makes logits vary by about one, and makes every part of the model matter.
pub(crate) fn random(config: &ModelConfig, random: &mut impl Rng) -> Vec<Matrix> {
    let values = |parameter: &Parameter, random: &mut _| match parameter.kind {
        Kind::Norm => normal(parameter.len(), 0.2, random).iter().map(|value| 1.0 + value).collect(),
        Kind::Embedding => normal(parameter.len(), 1.0 / (parameter.shape[1] as f64).sqrt(), random),
        Kind::Linear | Kind::Residual => {
            normal(parameter.len(), 1.0 / (parameter.shape[0] as f64).sqrt(), random)
        }
    };
    let matrix = |parameter: &Parameter| {
        let values: Vec<f32> = values(parameter, random);
        let [outputs, inputs] = parameter.matrix();
        let is_transposed = matches!(parameter.kind, Kind::Linear | Kind::Residual);
        Matrix::from_fn(outputs, inputs, |index| match is_transposed {
            true => values[index % inputs * outputs + index / inputs],
            false => values[index],
        })
    };
    table(config).iter().map(matrix).collect()
}

/// `count` values from a normal distribution with mean zero, by the Box-Muller transform.
pub(crate) fn normal(count: usize, deviation: f64, random: &mut impl Rng) -> Vec<f32> {
    // Uniform on (0, 1], because the logarithm of zero is infinite.
    let mut uniform = || ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            ((std::f64::consts::TAU * uniform()).cos() * radius * deviation) as f32
        })
        .collect()
}

/// The transpose of a row-major `[rows, columns]` matrix. The loop goes in square blocks so that both sides stay in cache.
#[cfg(feature = "burn")]
pub(crate) fn transposed<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    const BLOCK: usize = 32;
    debug_assert_eq!(values.len(), rows * columns);
    let mut result = vec![T::default(); values.len()];
    for top in (0..rows).step_by(BLOCK) {
        for left in (0..columns).step_by(BLOCK) {
            for row in top..rows.min(top + BLOCK) {
                for column in left..columns.min(left + BLOCK) {
                    result[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    result
}

#[cfg(all(test, feature = "burn"))]
mod tests {
    use super::transposed;

    #[test]
    fn transposing_moves_rows_to_columns() {
        for (rows, columns) in [(1, 1), (1, 70), (70, 1), (33, 65)] {
            let values: Vec<usize> = (0..rows * columns).collect();
            let turned = transposed(&values, rows, columns);
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(turned[column * rows + row], values[row * columns + column]);
                }
            }
        }
    }
}
