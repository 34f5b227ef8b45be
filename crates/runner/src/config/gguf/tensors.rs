//! The tensors of a GGUF file: the names of the parts of a model, and the rows that take turns.

use std::collections::HashSet;

use unskew_gguf::Gguf;

use super::{GgufModelError, Result, keys::known, rotary::DIVISORS};
use crate::config::{
    Family, ModelConfig,
    parameters::{Kind, Parameter, Part, table},
};

/// The parameters of a model, as they are stored in a file.
pub(crate) fn parameters(gguf: &Gguf, config: &ModelConfig) -> Result<Vec<Parameter>> {
    let known = known(gguf)?;
    let mut table = table(config);
    for parameter in &mut table {
        let name = name(known.family, parameter.part);
        let suffix = if parameter.kind == Kind::Bias { "bias" } else { "weight" };
        let stored = &mut parameter.stored;
        stored.name = match parameter.layer {
            Some(layer) => format!("blk.{layer}.{name}.{suffix}"),
            None => format!("{name}.{suffix}"),
        };
        if std::mem::take(&mut stored.is_transposed) {
            stored.shape.reverse();
        }
        stored.turns = match parameter.part {
            Part::Query | Part::QueryBias if known.turns => Some(config.num_attention_heads),
            Part::Key | Part::KeyBias if known.turns => Some(config.num_key_value_heads),
            _ => None,
        };
    }
    let names: HashSet<&str> =
        table.iter().map(|parameter| parameter.stored.name.as_str()).chain(DIVISORS).collect();
    match gguf.tensors().iter().find(|tensor| !names.contains(tensor.name.as_str())) {
        None => Ok(table),
        Some(other) => Err(GgufModelError::Tensor {
            tensor: other.name.escape_debug().collect(),
            architecture: known.name.to_owned(),
        }),
    }
}

/// The name of a part, without the layer and without what tells weights from biases.
fn name(family: Family, part: Part) -> &'static str {
    let fused = matches!(family, Family::Phi3 | Family::Gpt2);
    match part {
        Part::Embedding => "token_embd",
        Part::Positions => "position_embd",
        Part::AttentionNorm | Part::AttentionNormBias => "attn_norm",
        Part::Query | Part::QueryBias | Part::Key | Part::KeyBias | Part::Value | Part::ValueBias
            if fused =>
        {
            "attn_qkv"
        }
        Part::Query | Part::QueryBias => "attn_q",
        Part::Key | Part::KeyBias => "attn_k",
        Part::Value | Part::ValueBias => "attn_v",
        Part::QueryNorm => "attn_q_norm",
        Part::KeyNorm => "attn_k_norm",
        Part::Output | Part::OutputBias => "attn_output",
        Part::AttentionAfter => "post_attention_norm",
        Part::FeedNorm | Part::FeedNormBias => "ffn_norm",
        Part::Gate | Part::GateBias if family == Family::Phi3 => "ffn_up",
        Part::Gate | Part::GateBias => "ffn_gate",
        Part::Up | Part::UpBias => "ffn_up",
        Part::Down | Part::DownBias => "ffn_down",
        Part::FeedAfter => "post_ffw_norm",
        Part::Norm | Part::NormBias => "output_norm",
        Part::Head => "output",
    }
}
