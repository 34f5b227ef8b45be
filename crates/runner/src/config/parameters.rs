//! The parameters of a model: their list, their names and their shapes.
//!
//! One table, [`table`], fixes the order, the Hugging Face names and the shapes, for every family of models. The
//! loader, the writer, the trainer and the decoders all go through this table, so that none of them spells a name a
//! second time.
//!
//! Shapes and random values are those of a linear map as `[in, out]`, the transpose of the matrix in a file: so the
//! trainer and burn have them. A product of one row with an `[out, in]` tensor takes a strided path of burn's CPU
//! backend, measured at 6 to 15 times slower.

use super::{Family, HeadNorm, ModelConfig, Norm, Placement};

/// The kind of a parameter: it decides the orientation and the initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One row per token, or per position: `[rows, hidden]` in files and here.
    Embedding,
    /// A linear map: `[out, in]` in files, `[in, out]` here.
    Linear,
    /// A linear map that writes into the residual stream. It starts smaller, and is otherwise as [`Kind::Linear`].
    Residual,
    /// Scales of a normalisation: `[width]` in files, `[1, width]` here.
    Norm,
    /// Biases, stored as scales are.
    Bias,
}

/// The place of a parameter in a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Embedding,
    Positions,
    AttentionNorm,
    AttentionNormBias,
    Query,
    QueryBias,
    Key,
    KeyBias,
    Value,
    ValueBias,
    QueryNorm,
    KeyNorm,
    Output,
    OutputBias,
    AttentionAfter,
    FeedNorm,
    FeedNormBias,
    Gate,
    GateBias,
    Up,
    UpBias,
    Down,
    DownBias,
    FeedAfter,
    Norm,
    NormBias,
    Head,
}

/// Where the values of a parameter are in a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The Hugging Face name.
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    /// The first output of the tensor that is one of the parameter: tensors of fused maps hold several parameters.
    pub(crate) first: usize,
    /// Whether a linear map is `[in, out]`, as in GPT-2.
    pub(crate) is_transposed: bool,
    /// The number of heads whose first and second halves take turns in the rows, as in some GGUF files.
    pub(crate) turns: Option<usize>,
}

/// One row of the table of parameters.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The layer, for parameters of layers.
    pub(crate) layer: Option<usize>,
    pub(crate) part: Part,
    pub(crate) kind: Kind,
    /// The shape; that of the transpose, where a file has a matrix transposed (`is_transposed`).
    pub(crate) shape: [usize; 2],
    pub(crate) stored: Stored,
}

impl Parameter {
    /// The outputs and inputs of the parameter as a matrix; scales and biases are a column.
    pub(crate) fn matrix(&self) -> [usize; 2] {
        let [rows, columns] = self.shape;
        match self.kind {
            Kind::Embedding => [rows, columns],
            Kind::Linear | Kind::Residual | Kind::Norm | Kind::Bias => [columns, rows],
        }
    }

    /// Whether the values are the transpose of those in a checkpoint.
    #[cfg(feature = "train")]
    pub(crate) fn is_transposed(&self) -> bool {
        matches!(self.kind, Kind::Linear | Kind::Residual)
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.shape[0] * self.shape[1]
    }
}

/// A parameter of a layer: its place, its tensor without the number of the layer, its kind, its shape, and the first
/// of the tensor's outputs with their number, where others share the tensor.
struct Row {
    part: Part,
    tensor: &'static str,
    kind: Kind,
    shape: [usize; 2],
    fused: Option<(usize, usize)>,
}

/// The parameters of a layer.
fn layer_rows(config: &ModelConfig) -> Vec<Row> {
    let architecture = &config.architecture;
    let hidden = config.hidden_size;
    let query = config.num_attention_heads * config.head_dim;
    let value = config.num_key_value_heads * config.head_dim;
    let inner = config.intermediate_size;
    let names = names(architecture.family);
    let mut rows = Vec::new();
    let mut add = |part, kind, shape: [usize; 2], tensor: &'static str, fused| {
        rows.push(Row { part, tensor, kind, shape, fused });
    };
    let biases = architecture.biases;
    let before = architecture.placement != Placement::After;
    let after = architecture.placement != Placement::Before;
    let layer_norm = architecture.norm == Norm::Layer;
    // The first outputs of maps that are stored in one tensor.
    let qkv = |first: usize| names.fused_attention.then_some((first, query + 2 * value));
    let gate = |first: usize| names.fused_gate.then_some((first, 2 * inner));
    if before {
        add(Part::AttentionNorm, Kind::Norm, [1, hidden], names.attention_norm, None);
        if layer_norm {
            add(Part::AttentionNormBias, Kind::Bias, [1, hidden], names.attention_norm, None);
        }
    }
    add(Part::Query, Kind::Linear, [hidden, query], names.query, qkv(0));
    add(Part::Key, Kind::Linear, [hidden, value], names.key, qkv(query));
    add(Part::Value, Kind::Linear, [hidden, value], names.value, qkv(query + value));
    if biases.attention_inputs {
        add(Part::QueryBias, Kind::Bias, [1, query], names.query, qkv(0));
        add(Part::KeyBias, Kind::Bias, [1, value], names.key, qkv(query));
        add(Part::ValueBias, Kind::Bias, [1, value], names.value, qkv(query + value));
    }
    match architecture.head_norm {
        HeadNorm::None => {}
        HeadNorm::Head => {
            add(Part::QueryNorm, Kind::Norm, [1, config.head_dim], "self_attn.q_norm", None);
            add(Part::KeyNorm, Kind::Norm, [1, config.head_dim], "self_attn.k_norm", None);
        }
        HeadNorm::Row => {
            add(Part::QueryNorm, Kind::Norm, [1, query], "self_attn.q_norm", None);
            add(Part::KeyNorm, Kind::Norm, [1, value], "self_attn.k_norm", None);
        }
    }
    add(Part::Output, Kind::Residual, [query, hidden], names.output, None);
    if biases.attention_output {
        add(Part::OutputBias, Kind::Bias, [1, hidden], names.output, None);
    }
    if after {
        add(Part::AttentionAfter, Kind::Norm, [1, hidden], "post_attention_layernorm", None);
    }
    if before {
        let name = if after { "pre_feedforward_layernorm" } else { names.feed_norm };
        add(Part::FeedNorm, Kind::Norm, [1, hidden], name, None);
        if layer_norm {
            add(Part::FeedNormBias, Kind::Bias, [1, hidden], name, None);
        }
    }
    if architecture.gated {
        add(Part::Gate, Kind::Linear, [hidden, inner], names.gate, gate(0));
    }
    add(Part::Up, Kind::Linear, [hidden, inner], names.up, gate(inner));
    add(Part::Down, Kind::Residual, [inner, hidden], names.down, None);
    if biases.feed_forward {
        if architecture.gated {
            add(Part::GateBias, Kind::Bias, [1, inner], names.gate, gate(0));
        }
        add(Part::UpBias, Kind::Bias, [1, inner], names.up, gate(inner));
        add(Part::DownBias, Kind::Bias, [1, hidden], names.down, None);
    }
    if after {
        add(Part::FeedAfter, Kind::Norm, [1, hidden], "post_feedforward_layernorm", None);
    }
    rows
}

/// The names of tensors of a family.
struct Names {
    embedding: &'static str,
    layer: &'static str,
    attention_norm: &'static str,
    query: &'static str,
    key: &'static str,
    value: &'static str,
    output: &'static str,
    feed_norm: &'static str,
    gate: &'static str,
    up: &'static str,
    down: &'static str,
    norm: &'static str,
    fused_attention: bool,
    fused_gate: bool,
    is_transposed: bool,
}

fn names(family: Family) -> Names {
    let usual = Names {
        embedding: "model.embed_tokens",
        layer: "model.layers",
        attention_norm: "input_layernorm",
        query: "self_attn.q_proj",
        key: "self_attn.k_proj",
        value: "self_attn.v_proj",
        output: "self_attn.o_proj",
        feed_norm: "post_attention_layernorm",
        gate: "mlp.gate_proj",
        up: "mlp.up_proj",
        down: "mlp.down_proj",
        norm: "model.norm",
        fused_attention: false,
        fused_gate: false,
        is_transposed: false,
    };
    match family {
        Family::Phi3 => Names {
            query: "self_attn.qkv_proj",
            key: "self_attn.qkv_proj",
            value: "self_attn.qkv_proj",
            gate: "mlp.gate_up_proj",
            up: "mlp.gate_up_proj",
            fused_attention: true,
            fused_gate: true,
            ..usual
        },
        Family::Gpt2 => Names {
            embedding: "transformer.wte",
            layer: "transformer.h",
            attention_norm: "ln_1",
            query: "attn.c_attn",
            key: "attn.c_attn",
            value: "attn.c_attn",
            output: "attn.c_proj",
            feed_norm: "ln_2",
            up: "mlp.c_fc",
            down: "mlp.c_proj",
            norm: "transformer.ln_f",
            fused_attention: true,
            is_transposed: true,
            ..usual
        },
        _ => usual,
    }
}

/// The number of parameters; of a configuration of any size.
pub(crate) fn count(config: &ModelConfig) -> u128 {
    let [hidden, vocab, context, layers] =
        [config.hidden_size, config.vocab_size, config.max_position_embeddings, config.num_hidden_layers]
            .map(|size| size as u128);
    let layer: u128 = layer_rows(config).iter().map(|row| row.shape[0] as u128 * row.shape[1] as u128).sum();
    let architecture = &config.architecture;
    let ends = if config.tie_word_embeddings { 1 } else { 2 };
    let positions = if architecture.learned_positions { context * hidden } else { 0 };
    let norm = if architecture.norm == Norm::Layer { 2 * hidden } else { hidden };
    layer * layers + ends * vocab * hidden + positions + norm
}

/// Every parameter of a model: the embedding, then those of each layer, the last normalisation, and the head unless
/// it is tied to the embedding.
pub(crate) fn table(config: &ModelConfig) -> Vec<Parameter> {
    let hidden = config.hidden_size;
    let architecture = &config.architecture;
    let names = names(architecture.family);
    let new = |layer, name: String, row: &Row| {
        let is_vector = matches!(row.kind, Kind::Norm | Kind::Bias);
        let is_linear = matches!(row.kind, Kind::Linear | Kind::Residual);
        let is_transposed = names.is_transposed && is_linear && row.part != Part::Head;
        let [rows, columns] = row.shape;
        let outputs = row.fused.map_or(columns, |(_, all)| all);
        let shape = match row.kind {
            Kind::Embedding => vec![rows, columns],
            _ if is_vector => vec![outputs],
            _ if is_transposed => vec![rows, outputs],
            _ => vec![outputs, rows],
        };
        let suffix = if row.kind == Kind::Bias { "bias" } else { "weight" };
        let first = row.fused.map_or(0, |(first, _)| first);
        let stored = Stored { name: format!("{name}.{suffix}"), shape, first, is_transposed, turns: None };
        Parameter { layer, part: row.part, kind: row.kind, shape: row.shape, stored }
    };
    let one = |part, kind, shape, name: &str| {
        new(None, name.to_owned(), &Row { part, tensor: "", kind, shape, fused: None })
    };
    let mut all = vec![one(Part::Embedding, Kind::Embedding, [config.vocab_size, hidden], names.embedding)];
    if architecture.learned_positions {
        let shape = [config.max_position_embeddings, hidden];
        all.push(one(Part::Positions, Kind::Embedding, shape, "transformer.wpe"));
    }
    let rows = layer_rows(config);
    for layer in 0..config.num_hidden_layers {
        let prefix = names.layer;
        all.extend(rows.iter().map(|row| new(Some(layer), format!("{prefix}.{layer}.{}", row.tensor), row)));
    }
    all.push(one(Part::Norm, Kind::Norm, [1, hidden], names.norm));
    if architecture.norm == Norm::Layer {
        all.push(one(Part::NormBias, Kind::Bias, [1, hidden], names.norm));
    }
    if !config.tie_word_embeddings {
        all.push(one(Part::Head, Kind::Linear, [hidden, config.vocab_size], "lm_head"));
    }
    all
}
