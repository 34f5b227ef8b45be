//! The configuration of a model in the metadata of a GGUF file, and the names of its tensors there.
//!
//! The reader knows the architectures of llama.cpp that are families here, and fills the same description as
//! [`super::families`] does from a `config.json`. Where a file leaves a number out, the default is that of llama.cpp:
//! the converters write what differs from it. Tried instead: the metadata as a `config.json`, for the reader of those.
//! Its defaults are those of transformers, and its errors name fields that a user does not find in the file.
//!
//! Every key of the architecture is read, or known to change nothing, or refused by its name. So is every tensor that
//! is no part of the model: an expert, a bias or a norm of another kind of model would otherwise be left out silently.
//!
//! In two places a file differs from a checkpoint of Hugging Face. The norms of Gemma are stored with the one that
//! is added to them, so that the normalisation is [`Norm::Rms`]. And the rows of queries and keys of a llama take turns
//! between the halves of a head ([`super::parameters::Stored`]), because llama.cpp rotates neighbours there.

mod error;
mod keys;
mod rotary;
mod tensors;

use unskew_gguf::{Gguf, GgufValue};

pub use error::GgufModelError;
pub(crate) use rotary::{Divisors, divisors};
pub(crate) use tensors::parameters;

use super::{Architecture, ConfigError, Family, LayerKind, LayerRotary, ModelConfig, Norm, limit};
use keys::{Keys, WINDOW, WINDOW_PATTERN, known};

type Result<T, E = GgufModelError> = std::result::Result<T, E>;

/// The configuration of the model of a file.
pub(crate) fn read(gguf: &Gguf, divisors: &Divisors) -> Result<ModelConfig> {
    let known = known(gguf)?;
    let keys = Keys { gguf, known };
    let family = known.family;
    let hidden_size = keys.required("embedding_length")?;
    let num_hidden_layers = keys.required("block_count")?;
    if num_hidden_layers > limit::LAYERS {
        return Err(keys.invalid("block_count", num_hidden_layers, format!("from 1 to {}", limit::LAYERS)));
    }
    let heads = "attention.head_count";
    let num_attention_heads = keys.required(heads)?;
    let head_dim = match (keys.size("attention.key_length")?, hidden_size.checked_div(num_attention_heads)) {
        (Some(own), _) | (None, Some(own)) => own,
        (None, None) => return Err(keys.invalid(heads, 0, "1 or more")),
    };
    if let Some(value) = keys.size("attention.value_length")?.filter(|value| *value != head_dim) {
        let supported = format!("the width of keys, {head_dim}");
        return Err(keys.unsupported("attention.value_length", value, supported));
    }
    let eps = if family == Family::Gpt2 { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
    let eps = format!("attention.{eps}");
    let rms_norm_eps = keys.number(&eps)?.ok_or_else(|| GgufModelError::Missing { key: keys.full(&eps) })?;
    let max_position_embeddings = keys.required("context_length")?;
    keys.refuse_others(max_position_embeddings)?;
    let embedding = "token_embd.weight";
    let vocab_size = gguf.tensor(embedding).and_then(|tensor| tensor.shape.get(1));
    let vocab_size = vocab_size.and_then(|rows| usize::try_from(*rows).ok()).unwrap_or(0);
    let id = |name: &str| {
        let id = gguf.number(&format!("tokenizer.ggml.{name}_token_id"));
        id.and_then(|id| u32::try_from(id).ok()).filter(|id| *id != u32::MAX)
    };
    let mut eos_token_ids: Vec<u32> = Vec::new();
    for end in ["eos", "eot", "eom"].into_iter().filter_map(id) {
        if !eos_token_ids.contains(&end) {
            eos_token_ids.push(end);
        }
    }
    let mut config = ModelConfig {
        hidden_size,
        intermediate_size: keys.required("feed_forward_length")?,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads: keys.size("attention.head_count_kv")?.unwrap_or(num_attention_heads),
        head_dim,
        vocab_size,
        rms_norm_eps,
        rope_theta: 10_000.0,
        max_position_embeddings,
        tie_word_embeddings: gguf.tensor("output.weight").is_none(),
        bos_token_id: id("bos"),
        eos_token_ids,
        architecture: Architecture::of(family),
    };
    let has = |tensor: &str| gguf.tensor(&format!("blk.0.{tensor}.bias")).is_some();
    let architecture = &mut config.architecture;
    if architecture.norm == Norm::RmsPlusOne {
        architecture.norm = Norm::Rms;
    }
    architecture.biases.attention_inputs = has("attn_q") || has("attn_qkv");
    architecture.biases.attention_output = has("attn_output");
    architecture.biases.feed_forward = has("ffn_down");
    blocks(&keys, &mut config)?;
    if family != Family::Gpt2 {
        rotary::read(&keys, &mut config, divisors)?;
    }
    config.validate().map_err(|error| match error {
        ConfigError::Invalid { field, value, expected } => {
            GgufModelError::Invalid { key: field, value, expected }
        }
        other => GgufModelError::Invalid {
            key: known.name.to_owned(),
            value: other.to_string(),
            expected: "a model whose sizes fit each other".to_owned(),
        },
    })?;
    Ok(config)
}

/// Scores, caps, and the windows of layers.
fn blocks(keys: &Keys<'_>, config: &mut ModelConfig) -> Result<()> {
    let layers = config.num_hidden_layers;
    let architecture = &mut config.architecture;
    let family = architecture.family;
    if let Family::Gemma2 | Family::Gemma3 = family {
        // No key has this number: llama.cpp knows the largest model of each generation by its layers.
        let largest = if family == Family::Gemma2 { 46 } else { 62 };
        let by_width = config.hidden_size.checked_div(config.num_attention_heads);
        let scalar = by_width.filter(|_| layers == largest).unwrap_or(config.head_dim);
        architecture.attention_scalar = Some(scalar as f64);
        let cap = |key: &str, default: f64| match keys.number(key)?.unwrap_or(default) {
            0.0 => Ok(None),
            cap if cap > 0.0 && cap <= 1e9 => Ok(Some(cap)),
            cap => Err(keys.invalid(key, cap, "from 0 to 1e9")),
        };
        let is_second = family == Family::Gemma2;
        if is_second {
            architecture.attention_softcap = cap("attn_logit_softcapping", 50.0)?;
        }
        architecture.logit_softcap = cap("final_logit_softcapping", if is_second { 30.0 } else { 0.0 })?;
    }
    let window = match (family, keys.size(WINDOW)?) {
        (Family::Gemma2, None) => Some(4096),
        // Files without it are of another model, whose layers differ.
        (Family::Gemma3, None | Some(0)) => {
            return Err(keys.unsupported(WINDOW, "absent", "a number of tokens"));
        }
        (Family::Gemma2 | Family::Gemma3 | Family::Phi3, window) => window.filter(|window| *window > 0),
        _ => None,
    };
    let slides: Vec<bool> = match (family, keys.get(WINDOW_PATTERN)) {
        (Family::Gemma2 | Family::Gemma3, Some(GgufValue::Bools(slides))) => {
            if slides.len() != layers {
                let expected = format!("a list of {layers}, one for each layer");
                return Err(keys.invalid(WINDOW_PATTERN, format!("a list of {}", slides.len()), expected));
            }
            slides.clone()
        }
        (Family::Gemma2 | Family::Gemma3, _) => {
            let default = if family == Family::Gemma2 { 2 } else { 6 };
            let pattern = keys.size(WINDOW_PATTERN)?.unwrap_or(default);
            (0..layers).map(|layer| pattern == 0 || layer % pattern + 1 < pattern).collect()
        }
        (Family::Phi3, _) => vec![true; layers],
        _ => vec![false; layers],
    };
    let kind = |(layer, slides): (usize, &bool)| LayerKind {
        window: window.filter(|_| *slides),
        rotary: match family {
            Family::Gemma3 if *slides => LayerRotary::Local,
            Family::SmolLm3 if (layer + 1) % 4 == 0 => LayerRotary::None,
            _ => LayerRotary::Global,
        },
    };
    let kinds: Vec<LayerKind> = slides.iter().enumerate().map(kind).collect();
    if kinds.iter().any(|kind| *kind != LayerKind::default()) {
        architecture.layers = kinds;
    }
    Ok(())
}
