//! The shape of a model, read from a Hugging Face `config.json` of the Llama family.
//!
//! The code reads the file field by field from a [`serde_json::Value`]. Tried instead: a derived `Deserialize`. Its errors
//! say *that* a file is wrong, but they name neither the field's value nor the supported values. A derive also needs a
//! custom visitor for every field that has two spellings (`eos_token_id` is a number or a list; the RoPE base is
//! `rope_theta` or, since transformers 5, `rope_parameters.rope_theta`).
//!
//! The reader refuses, by the field's name, every model that this runner does not compute exactly, and ignores no such
//! field: another architecture, another activation, biases, scaled rotary embeddings, quantised weights. A model that loads
//! is a model that runs as its authors meant.

use serde_json::{Map, Value, json};

/// The largest values that a configuration may hold. They are far above those of any published model. With them a corrupt
/// or hostile file ends in an error and not in an allocation of terabytes.
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
    Silu,
    /// Only `null`.
    Absent,
}

/// Fields of other published decoders that change the computation, with the value that leaves it unchanged.
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
    // Attention.
    ("attention_chunk_size", Neutral::Absent),
    ("attn_logit_softcapping", Neutral::Absent),
    ("query_pre_attn_scalar", Neutral::Absent),
    ("attention_multiplier", Neutral::Absent),
    ("clip_qkv", Neutral::Absent),
    ("qk_norm", Neutral::False),
    ("use_qk_norm", Neutral::False),
    ("qk_layernorm", Neutral::False),
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
    // Feed-forward blocks.
    ("hidden_activation", Neutral::Silu),
    ("num_experts", Neutral::Zero),
    ("num_local_experts", Neutral::Zero),
    ("n_routed_experts", Neutral::Zero),
    // Weights, and parts that this runner does not read.
    ("compression_config", Neutral::Absent),
    ("text_config", Neutral::Absent),
    ("vision_config", Neutral::Absent),
];

/// The shape of a decoder of the Llama family.
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
    /// The width of one head, even. `heads * head_dim` need not be `hidden_size`.
    pub head_dim: usize,
    /// The number of rows of the embedding: the length of a row of logits.
    pub vocab_size: usize,
    /// The number that each normalisation adds to the mean square.
    pub rms_norm_eps: f64,
    /// The base of the rotary embedding's wavelengths.
    pub rope_theta: f64,
    /// The most tokens of a sequence.
    pub max_position_embeddings: usize,
    /// Whether the output head is the embedding, transposed.
    pub tie_word_embeddings: bool,
    /// The token that starts a text, if the model has one.
    pub bos_token_id: Option<u32>,
    /// The tokens that end a text; may be empty.
    pub eos_token_ids: Vec<u32>,
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
        field: &'static str,
        /// Its value, as JSON.
        value: String,
        /// The supported values.
        supported: &'static str,
    },
    /// The window of attention is shorter than the context.
    #[error(
        "config.json asks for `sliding_window` = {window}, which is not supported: this runner attends to all of the context \
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
        field: &'static str,
        /// Its value, as JSON.
        value: String,
        /// The valid values, with the limit or the other value that this one conflicts with.
        expected: String,
    },
}

fn invalid(field: &'static str, value: impl ToString, expected: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { field, value: value.to_string(), expected: expected.into() }
}

/// A field that is present and not `null`.
fn present<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

fn size(object: &Map<String, Value>, field: &'static str) -> Result<Option<usize>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .map(Some)
        .ok_or_else(|| invalid(field, value, "a whole number, zero or more"))
}

fn required(object: &Map<String, Value>, field: &'static str) -> Result<usize, ConfigError> {
    size(object, field)?.ok_or(ConfigError::Missing { field })
}

fn number(object: &Map<String, Value>, field: &'static str) -> Result<Option<f64>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value.as_f64().map(Some).ok_or_else(|| invalid(field, value, "a number"))
}

fn flag(object: &Map<String, Value>, field: &'static str) -> Result<bool, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(false) };
    value.as_bool().ok_or_else(|| invalid(field, value, "true or false"))
}

fn token(field: &'static str, value: &Value) -> Result<u32, ConfigError> {
    value
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| invalid(field, value, "a token id from 0 to 4294967295"))
}

/// Refuses a field whose value is neither absent, `null` nor the one supported value.
fn only(
    object: &Map<String, Value>,
    field: &'static str,
    accepted: &Value,
    supported: &'static str,
) -> Result<(), ConfigError> {
    match present(object, field) {
        Some(value) if value != accepted => {
            Err(ConfigError::Unsupported { field, value: value.to_string(), supported })
        }
        _ => Ok(()),
    }
}

/// Refuses a field of other decoders that would change the computation. The table has the value that leaves it unchanged.
fn refuse_foreign(object: &Map<String, Value>) -> Result<(), ConfigError> {
    for (field, neutral) in FOREIGN {
        let Some(value) = present(object, field) else { continue };
        let (is_neutral, supported) = match neutral {
            Neutral::False => (value == &json!(false), "false, or no such field"),
            Neutral::One => (value.as_f64() == Some(1.0), "1, or no such field"),
            Neutral::Zero => (value.as_f64() == Some(0.0), "0, or no such field"),
            Neutral::Silu => (value == "silu", "\"silu\", or no such field"),
            Neutral::Absent => (false, "no such field, or null"),
        };
        if !is_neutral {
            return Err(ConfigError::Unsupported { field, value: value.to_string(), supported });
        }
    }
    Ok(())
}

/// Refuses a window of attention that is shorter than the context. A longer window changes nothing.
fn refuse_window(object: &Map<String, Value>, context: usize) -> Result<(), ConfigError> {
    let full = json!("full_attention");
    let sliding = json!("sliding_attention");
    let layers = match present(object, "layer_types") {
        None => &[],
        Some(Value::Array(layers)) => &layers[..],
        Some(other) => return Err(invalid("layer_types", other, "a list")),
    };
    if let Some(other) = layers.iter().find(|layer| **layer != full && **layer != sliding) {
        let supported = "\"full_attention\" in every layer";
        return Err(ConfigError::Unsupported { field: "layer_types", value: other.to_string(), supported });
    }
    // Some families have the field, and another field that switches it on.
    let is_used = present(object, "use_sliding_window").is_none() || flag(object, "use_sliding_window")?;
    let window = size(object, "sliding_window")?;
    if is_used && let Some(window) = window.filter(|window| *window < context) {
        return Err(ConfigError::Window { window, context });
    }
    if layers.contains(&sliding) && window.is_none_or(|window| window < context) {
        let supported = "\"full_attention\" in every layer";
        return Err(ConfigError::Unsupported { field: "layer_types", value: sliding.to_string(), supported });
    }
    Ok(())
}

/// Refuses a checkpoint of another model than a decoder with its head. Older files capitalise the names differently.
fn refuse_architecture(object: &Map<String, Value>) -> Result<(), ConfigError> {
    let Some(value) = present(object, "architectures") else { return Ok(()) };
    let names = value.as_array().ok_or_else(|| invalid("architectures", value, "a list of names"))?;
    let is_ours =
        |name: &Value| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("LlamaForCausalLM"));
    if names.is_empty() || names.iter().any(is_ours) {
        return Ok(());
    }
    let supported = "[\"LlamaForCausalLM\"]";
    Err(ConfigError::Unsupported { field: "architectures", value: value.to_string(), supported })
}

/// Refuses a description of rotary embeddings other than the plain one. `type` is the older name of `rope_type`.
fn plain_rope(value: &Value, field: &'static str) -> Result<(), ConfigError> {
    let object = value.as_object().ok_or_else(|| invalid(field, value, "an object or null"))?;
    let kind = present(object, "rope_type").or_else(|| present(object, "type"));
    let partial = number(object, "partial_rotary_factor")?.unwrap_or(1.0);
    // There is one description for each kind of layer, or a factor without a type that says how it scales.
    let is_nested = object.values().any(Value::is_object);
    let is_plain = match kind {
        Some(kind) => kind == "default",
        None => present(object, "factor").is_none(),
    };
    if is_plain && !is_nested && partial == 1.0 {
        return Ok(());
    }
    Err(ConfigError::Unsupported {
        field,
        value: value.to_string(),
        supported: "rope_type \"default\" over the whole head (no scaling)",
    })
}

fn root(text: &str) -> Result<Map<String, Value>, ConfigError> {
    match serde_json::from_str(text).map_err(|error| ConfigError::Json { reason: error.to_string() })? {
        Value::Object(root) => Ok(root),
        _ => Err(ConfigError::Json { reason: "it is another kind of JSON value".to_owned() }),
    }
}

fn end_of_sequence(object: &Map<String, Value>) -> Result<Vec<u32>, ConfigError> {
    match present(object, "eos_token_id") {
        None => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(|id| token("eos_token_id", id)).collect(),
        Some(id) => Ok(vec![token("eos_token_id", id)?]),
    }
}

impl ModelConfig {
    /// Reads a `config.json`. Unknown fields are ignored, except those of published decoders that would change the
    /// computation. A `sliding_window` of at least `max_position_embeddings` tokens changes nothing and is allowed. So is
    /// one that `use_sliding_window` turns off.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the field's name, when the text is not a JSON object, lacks a field, asks for a computation
    /// that is not supported, or holds sizes that do not fit each other or exceed the limits.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let root = root(text)?;
        if present(&root, "model_type").is_none() {
            return Err(ConfigError::Missing { field: "model_type" });
        }
        only(&root, "model_type", &json!("llama"), "\"llama\"")?;
        only(&root, "hidden_act", &json!("silu"), "\"silu\"")?;
        only(&root, "attention_bias", &json!(false), "false")?;
        only(&root, "mlp_bias", &json!(false), "false")?;
        only(&root, "quantization_config", &Value::Null, "none: weights in F32, F16 or BF16")?;
        refuse_architecture(&root)?;
        refuse_foreign(&root)?;
        if let Some(scaling) = present(&root, "rope_scaling") {
            plain_rope(scaling, "rope_scaling")?;
        }
        let mut rope_theta = number(&root, "rope_theta")?;
        if let Some(rope) = present(&root, "rope_parameters") {
            plain_rope(rope, "rope_parameters")?;
            rope_theta =
                number(rope.as_object().expect("checked by plain_rope"), "rope_theta")?.or(rope_theta);
        }

        let hidden_size = required(&root, "hidden_size")?;
        let num_attention_heads = required(&root, "num_attention_heads")?;
        let head_dim = match size(&root, "head_dim")? {
            Some(head_dim) => head_dim,
            None if num_attention_heads == 0 => return Err(invalid("num_attention_heads", 0, "1 or more")),
            None if !hidden_size.is_multiple_of(num_attention_heads) => {
                let expected = format!("a multiple of num_attention_heads = {num_attention_heads}");
                return Err(invalid("hidden_size", hidden_size, expected));
            }
            None => hidden_size / num_attention_heads,
        };
        let config = Self {
            hidden_size,
            intermediate_size: required(&root, "intermediate_size")?,
            num_hidden_layers: required(&root, "num_hidden_layers")?,
            num_attention_heads,
            num_key_value_heads: size(&root, "num_key_value_heads")?.unwrap_or(num_attention_heads),
            head_dim,
            vocab_size: required(&root, "vocab_size")?,
            rms_norm_eps: number(&root, "rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta: rope_theta.unwrap_or(10_000.0),
            max_position_embeddings: size(&root, "max_position_embeddings")?.unwrap_or(2048),
            tie_word_embeddings: flag(&root, "tie_word_embeddings")?,
            bos_token_id: present(&root, "bos_token_id").map(|id| token("bos_token_id", id)).transpose()?,
            eos_token_ids: end_of_sequence(&root)?,
        };
        config.validate()?;
        refuse_window(&root, config.max_position_embeddings)?;
        Ok(config)
    }

    /// The tokens that end a text, from the `config.json` of any model: masks need no other field.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the text is not a JSON object, or `eos_token_id` is no id and no list of ids.
    pub fn eos_token_ids_from_json(text: &str) -> Result<Vec<u32>, ConfigError> {
        end_of_sequence(&root(text)?)
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
        if !self.head_dim.is_multiple_of(2) {
            return Err(invalid("head_dim", self.head_dim, "even: rotary embeddings turn pairs"));
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
        let [hidden, inner, vocab] =
            [self.hidden_size, self.intermediate_size, self.vocab_size].map(|size| size as u128);
        let query = (self.num_attention_heads * self.head_dim) as u128;
        let value = (self.num_key_value_heads * self.head_dim) as u128;
        let layer = hidden * (2 * query + 2 * value + 3 * inner + 2);
        let ends = if self.tie_word_embeddings { 1 } else { 2 };
        layer * self.num_hidden_layers as u128 + ends * vocab * hidden + hidden
    }

    /// The `config.json` of this shape, as transformers reads it, indented by two spaces. [`ModelConfig::from_json`] reads
    /// it back to an equal configuration, up to the last bit of the two numbers that are not whole.
    #[must_use]
    pub fn to_json(&self) -> String {
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [id] => json!(id),
            ids => json!(ids),
        };
        let value = json!({
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": false,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "mlp_bias": false,
            "model_type": "llama",
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": "float16",
            "vocab_size": self.vocab_size,
        });
        serde_json::to_string_pretty(&value).expect("a tree of JSON values has no failing part")
    }
}
