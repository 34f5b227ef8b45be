//! The shape of a model, read from a Hugging Face `config.json`.
//!
//! The code reads the file field by field from a [`serde_json::Value`]. Tried instead: a derived `Deserialize`. Its
//! errors say *that* a file is wrong, but they name neither the field's value nor the supported values. A derive also
//! needs a custom visitor for every field that has two spellings (`eos_token_id` is a number or a list; the RoPE base
//! is `rope_theta` or, since transformers 5, `rope_parameters.rope_theta`).
//!
//! The reader refuses, by the field's name, every model that this runner does not compute exactly, and ignores no
//! such field. A model that loads is a model that runs as its authors meant. The parts in which families of models
//! differ are data ([`architecture`]); [`families`] and [`rope`] read them.

mod architecture;
mod families;
mod fields;
pub(crate) mod gguf;
pub(crate) mod parameters;
mod rope;

use serde_json::{Map, Value, json};

pub use architecture::{
    Activation, Architecture, Biases, Family, HeadNorm, LayerKind, LayerRotary, LocalRope, Norm, Placement,
    Scaling,
};

pub use gguf::GgufModelError;

use fields::{Object, invalid, present, root, tokens, unsupported};

/// The largest values that a configuration may hold. They are far above those of any published model. With them a
/// corrupt or hostile file ends in an error and not in an allocation of terabytes.
mod limit {
    pub(super) const HIDDEN: usize = 1 << 16;
    pub(super) const INTERMEDIATE: usize = 1 << 20;
    pub(super) const LAYERS: usize = 1 << 10;
    pub(super) const HEADS: usize = 1 << 12;
    pub(super) const VOCAB: usize = 1 << 24;
    pub(super) const CONTEXT: usize = 1 << 24;
    pub(super) const PARAMETERS: u128 = 1 << 38;
}

/// The value of a field that leaves the computation unchanged.
enum Neutral {
    False,
    Zero,
    One,
    /// Only `null`.
    Absent,
}

/// Fields of some published decoders that change the computation, with the value that leaves it unchanged. A family
/// reads those that it knows ([`Family::reads`]); the others must be neutral.
const FOREIGN: &[(&str, Neutral)] = &[
    // Biases.
    ("bias", Neutral::False),
    ("use_bias", Neutral::False),
    ("qkv_bias", Neutral::False),
    ("attention_out_bias", Neutral::False),
    ("lm_head_bias", Neutral::False),
    // Positions.
    ("partial_rotary_factor", Neutral::One),
    ("rotary_pct", Neutral::One),
    ("rope_interleaved", Neutral::False),
    ("rope_local_base_freq", Neutral::Absent),
    ("no_rope_layers", Neutral::Absent),
    ("alibi", Neutral::False),
    ("use_rope", Neutral::Absent),
    ("rotary_dim", Neutral::Absent),
    // Attention.
    ("attention_chunk_size", Neutral::Absent),
    ("attn_logit_softcapping", Neutral::Absent),
    ("query_pre_attn_scalar", Neutral::Absent),
    ("attention_multiplier", Neutral::Absent),
    ("clip_qkv", Neutral::Absent),
    ("qk_norm", Neutral::False),
    ("use_qk_norm", Neutral::False),
    ("qk_layernorm", Neutral::False),
    ("use_bidirectional_attention", Neutral::False),
    ("multi_query", Neutral::False),
    ("q_lora_rank", Neutral::Absent),
    ("kv_lora_rank", Neutral::Absent),
    ("num_kv_shared_layers", Neutral::Zero),
    ("attn_temperature_tuning", Neutral::False),
    ("is_encoder_decoder", Neutral::False),
    ("add_cross_attention", Neutral::False),
    // Scales.
    ("embedding_multiplier", Neutral::One),
    ("residual_multiplier", Neutral::One),
    ("scale_emb", Neutral::One),
    ("scale_depth", Neutral::Absent),
    ("logits_scaling", Neutral::One),
    ("logit_scale", Neutral::One),
    ("logit_softcapping", Neutral::Absent),
    ("final_logit_softcapping", Neutral::Absent),
    // Blocks.
    ("parallel_attn", Neutral::False),
    ("use_parallel_residual", Neutral::False),
    ("layer_norm_type", Neutral::Absent),
    ("hidden_activation", Neutral::Absent),
    ("activation_function", Neutral::Absent),
    ("scale_attn_weights", Neutral::Absent),
    ("scale_attn_by_inverse_layer_idx", Neutral::False),
    ("num_experts", Neutral::Zero),
    ("num_local_experts", Neutral::Zero),
    ("n_routed_experts", Neutral::Zero),
    ("moe_num_experts", Neutral::Zero),
    ("activation_sparsity_pattern", Neutral::Absent),
    // Weights, and parts that this runner does not read.
    ("compression_config", Neutral::Absent),
    ("text_config", Neutral::Absent),
    ("vision_config", Neutral::Absent),
];

/// The shape of a decoder.
///
/// [`ModelConfig::from_json`] checks the file that it reads. A configuration built by hand is checked by
/// [`ModelConfig::validate`], and whenever a model is made from it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The width of the residual stream.
    pub hidden_size: usize,
    /// The width inside the feed-forward block.
    pub intermediate_size: usize,
    /// The number of decoder layers.
    pub num_hidden_layers: usize,
    /// The number of query heads.
    pub num_attention_heads: usize,
    /// The number of key and value heads; divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// The width of one head. `heads * head_dim` need not be `hidden_size`.
    pub head_dim: usize,
    /// The number of rows of the embedding: the length of a row of logits.
    pub vocab_size: usize,
    /// The number that each normalisation adds to the mean square.
    pub rms_norm_eps: f64,
    /// The base of the rotary embedding's wavelengths.
    pub rope_theta: f64,
    /// The positions of training; [`ModelConfig::context_len`] is the most tokens of a sequence.
    pub max_position_embeddings: usize,
    /// Whether the output head is the embedding, transposed.
    pub tie_word_embeddings: bool,
    /// The token that starts a text, if the model has one.
    pub bos_token_id: Option<u32>,
    /// The tokens that end a text; may be empty.
    pub eos_token_ids: Vec<u32>,
    /// How it computes, apart from sizes.
    pub architecture: Architecture,
}

/// An error of a `config.json`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not a JSON object.
    #[error(
        "config.json is not a JSON object: {reason}; pass the file that transformers wrote next to the weights"
    )]
    Json {
        /// The JSON reader's message.
        reason: String,
    },
    /// A field that has no default is absent.
    #[error("config.json has no field `{field}`, which has no default; add it")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// A field asks for a computation that this runner does not have.
    #[error("config.json asks for `{field}` = {value}, which is not supported; supported: {supported}")]
    Unsupported {
        /// Name of the field.
        field: String,
        /// Its value, as JSON.
        value: String,
        /// The supported values.
        supported: String,
    },
    /// A family without windows has one that is shorter than the context.
    #[error(
        "config.json asks for `sliding_window` = {window}, which is not supported: models of this type attend to all of the context \
         (`max_position_embeddings` = {context}); write {window} there, for within the window the model is the same"
    )]
    Window {
        /// The window, in tokens.
        window: usize,
        /// The context, in tokens.
        context: usize,
    },
    /// A field's value is out of range, alone or next to another field.
    #[error("config.json has `{field}` = {value}, but it must be {expected}")]
    Invalid {
        /// Name of the field.
        field: String,
        /// Its value, as JSON.
        value: String,
        /// The valid values, with the limit or the other value that this one conflicts with.
        expected: String,
    },
}

/// Refuses a field of other decoders that would change the computation. The table has the value that leaves it
/// unchanged.
fn refuse_foreign(object: &Object, family: Family) -> Result<(), ConfigError> {
    for (field, neutral) in FOREIGN {
        let Some(value) = present(object, field) else { continue };
        if family.reads().contains(field) {
            continue;
        }
        let (is_neutral, supported) = match neutral {
            Neutral::False => (value == &json!(false), "false, or no such field"),
            Neutral::One => (value.as_f64() == Some(1.0), "1, or no such field"),
            Neutral::Zero => (value.as_f64() == Some(0.0), "0, or no such field"),
            Neutral::Absent => (false, "no such field, or null"),
        };
        if !is_neutral {
            return Err(unsupported(*field, value, supported));
        }
    }
    Ok(())
}

impl ModelConfig {
    /// Reads a `config.json` of one of the families in [`Family`]. Unknown fields are ignored, except those of
    /// published decoders that would change the computation. In families without windows a `sliding_window` of at
    /// least `max_position_embeddings` tokens changes nothing and is allowed. So is one that `use_sliding_window`
    /// turns off.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the field's name, when the text is not a JSON object, lacks a field, asks for a computation
    /// that is not supported, or holds sizes that do not fit each other or exceed the limits.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let root = root(text)?;
        let family = families::family(&root)?;
        if let Some(value) = present(&root, "quantization_config") {
            return Err(unsupported("quantization_config", value, "none: weights in F32, F16 or BF16"));
        }
        refuse_foreign(&root, family)?;
        let read = families::read(&root, family).and_then(|config| config.validate().map(|()| config));
        read.map_err(|error| families::as_written(error, family))
    }

    /// Refuses what plain Llama does not have.
    #[cfg(feature = "train")]
    pub(crate) fn check_plain(&self) -> Result<(), ConfigError> {
        match self.architecture.beyond_llama() {
            Some((field, value, supported)) => Err(unsupported(field, value, supported)),
            None => Ok(()),
        }
    }

    /// The tokens that end a text, from the `config.json` of any model: masks need no other field.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the text is not a JSON object, or `eos_token_id` is no id and no list of ids.
    pub fn eos_token_ids_from_json(text: &str) -> Result<Vec<u32>, ConfigError> {
        tokens(&root(text)?, "eos_token_id")
    }

    /// Checks every size and every relation between them.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the name of the first field that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, value, most) in [
            ("hidden_size", self.hidden_size, limit::HIDDEN),
            ("intermediate_size", self.intermediate_size, limit::INTERMEDIATE),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("num_attention_heads", self.num_attention_heads, limit::HEADS),
            ("num_key_value_heads", self.num_key_value_heads, limit::HEADS),
            ("head_dim", self.head_dim, limit::HIDDEN),
            ("vocab_size", self.vocab_size, limit::VOCAB),
            ("max_position_embeddings", self.max_position_embeddings, limit::CONTEXT),
        ] {
            if value == 0 || value > most {
                return Err(invalid(field, value, format!("from 1 to {most}")));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let expected = format!("a divisor of num_attention_heads = {}", self.num_attention_heads);
            return Err(invalid("num_key_value_heads", self.num_key_value_heads, expected));
        }
        let architecture = &self.architecture;
        if !architecture.learned_positions && !self.head_dim.is_multiple_of(2) {
            return Err(invalid("head_dim", self.head_dim, "even: rotary embeddings turn pairs"));
        }
        let width = architecture.rotary_width.unwrap_or(self.head_dim);
        if width == 0
            || width > self.head_dim
            || (!architecture.learned_positions && !width.is_multiple_of(2))
        {
            let expected = format!("such that an even number of head_dim = {} is turned", self.head_dim);
            return Err(invalid("partial_rotary_factor", width, expected));
        }
        if !architecture.layers.is_empty() && architecture.layers.len() != self.num_hidden_layers {
            let expected = format!("none, or num_hidden_layers = {}", self.num_hidden_layers);
            return Err(invalid("the length of layer_types", architecture.layers.len(), expected));
        }
        if architecture.layers.iter().any(|layer| layer.rotary == LayerRotary::Local)
            && architecture.local_rope.is_none()
        {
            return Err(invalid("rope_parameters", "null", "a second base, for layers that use it"));
        }
        if let Scaling::LongRope { short, long, .. } = &architecture.scaling
            && (short.len() != width / 2 || long.len() != width / 2)
        {
            return Err(invalid("rope_scaling", short.len(), format!("{} divisors of each kind", width / 2)));
        }
        if let Some(local) = &architecture.local_rope
            && !(local.theta >= 1.0 && local.theta <= 1e12)
        {
            return Err(invalid("rope_local_base_freq", local.theta, "from 1 to 1e12"));
        }
        if self.num_attention_heads * self.head_dim > limit::HIDDEN {
            let expected =
                format!("at most {} / num_attention_heads = {}", limit::HIDDEN, self.num_attention_heads);
            return Err(invalid("head_dim", self.head_dim, expected));
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            return Err(invalid("rms_norm_eps", self.rms_norm_eps, "above 0 and below 1"));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta <= 1e12) {
            return Err(invalid("rope_theta", self.rope_theta, "from 1 to 1e12"));
        }
        let below = format!("below vocab_size = {}", self.vocab_size);
        for (field, id) in self
            .bos_token_id
            .iter()
            .map(|id| ("bos_token_id", *id))
            .chain(self.eos_token_ids.iter().map(|id| ("eos_token_id", *id)))
        {
            if id as usize >= self.vocab_size {
                return Err(invalid(field, id, below));
            }
        }
        let parameters = self.parameters();
        if parameters > limit::PARAMETERS {
            let expected = format!(
                "smaller: the model would have {parameters} parameters, and {} is the limit",
                limit::PARAMETERS
            );
            return Err(invalid("num_hidden_layers", self.num_hidden_layers, expected));
        }
        Ok(())
    }

    /// The number of parameters: every weight that a checkpoint of this shape stores; a tied head counts once.
    #[must_use]
    pub fn parameters(&self) -> u128 {
        parameters::count(self)
    }

    /// The most tokens of a sequence: the positions of training, and where rotary embeddings are scaled beyond these,
    /// those that the scaling is for.
    #[must_use]
    pub fn context_len(&self) -> usize {
        let trained = self.max_position_embeddings;
        let scaled = match self.architecture.scaling {
            Scaling::Linear { factor } | Scaling::Dynamic { factor } => trained as f64 * factor,
            Scaling::Yarn { factor, original, .. } => original as f64 * factor,
            _ => 0.0,
        };
        trained.max((scaled as usize).min(limit::CONTEXT))
    }

    /// The `config.json` of this shape, as transformers reads it, indented by two spaces. [`ModelConfig::from_json`]
    /// reads it back to an equal configuration, up to the last bit of the two numbers that are not whole. The norms of
    /// a Gemma in a GGUF file hold the one that is added to those of a checkpoint, and a `config.json` cannot say so.
    #[must_use]
    pub fn to_json(&self) -> String {
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [id] => json!(id),
            ids => json!(ids),
        };
        let mut value = Map::new();
        value.insert("bos_token_id".to_owned(), json!(self.bos_token_id));
        value.insert("eos_token_id".to_owned(), eos);
        value.insert("tie_word_embeddings".to_owned(), json!(self.tie_word_embeddings));
        value.insert("torch_dtype".to_owned(), json!("float16"));
        value.insert("vocab_size".to_owned(), json!(self.vocab_size));
        families::write(self, &mut value);
        serde_json::to_string_pretty(&value).expect("a tree of JSON values has no failing part")
    }
}
