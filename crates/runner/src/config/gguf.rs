//! The configuration of a model in the metadata of a GGUF file, and the names of its tensors there.
//!
//! The reader knows the architectures of llama.cpp that are families here, and fills the same description as
//! [`super::families`] does from a `config.json`. Where a file leaves a number out, the default is that of llama.cpp: the
//! converters write what differs from it. Tried instead: the metadata as a `config.json`, for the reader of those.
//! Its defaults are those of transformers, and its errors name fields that a user does not find in the file.
//!
//! Every key of the architecture is read, or known to change nothing, or refused by its name. So is every tensor that
//! is no part of the model: an expert, a bias or a norm of another kind of model would otherwise be left out silently.
//!
//! In two places a file differs from a checkpoint of Hugging Face. The norms of Gemma are stored with the one that
//! is added to them, so that the normalisation is [`Norm::Rms`]. And the rows of queries and keys of a llama take turns
//! between the halves of a head ([`super::parameters::Stored::turns`]), because llama.cpp rotates neighbours there.

use unskew_gguf::{Gguf, GgufError, GgufValue};

use super::{
    Architecture, ConfigError, Family, LayerKind, LayerRotary, LocalRope, ModelConfig, Norm, Scaling, limit,
    parameters::{Kind, Parameter, Part, table},
};

/// Why a GGUF file is no model that is computed here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufModelError {
    /// The file is no GGUF file, or a damaged one.
    #[error(transparent)]
    File(#[from] GgufError),
    /// An architecture that no family here is.
    #[error("the architecture \"{name}\" is not computed here; {known} are")]
    Architecture {
        /// The name.
        name: String,
        /// Those that are.
        known: String,
    },
    /// The model is in several files.
    #[error(
        "the model is split into {count} files, and one is read here; join them (llama-gguf-split --merge)"
    )]
    Split {
        /// The number of files.
        count: u64,
    },
    /// A key that has no default is absent, or its value is of another type.
    #[error("there is no key `{key}` of the right type; convert the model again")]
    Missing {
        /// The key.
        key: String,
    },
    /// A value is out of range, alone or beside another one.
    #[error("`{key}` is {value}, but it must be {expected}")]
    Invalid {
        /// The key, or the size of the model that follows from some.
        key: String,
        /// The value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// A key asks for a computation that is not known here.
    #[error("`{key}` is {value}, which is not computed here; computed is {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The supported values.
        supported: String,
    },
    /// A tensor that is no part of a model of this architecture here.
    #[error("the tensor `{tensor}` is no part of a \"{architecture}\" that is computed here")]
    Tensor {
        /// The tensor.
        tensor: String,
        /// The architecture.
        architecture: String,
    },
    /// A type of weights that is not read.
    #[error("the tensor `{tensor}` has the type {found}, which is not read here; {known} are")]
    Type {
        /// The tensor.
        tensor: String,
        /// The type in the file.
        found: String,
        /// Those that are read.
        known: &'static str,
    },
}

impl GgufModelError {
    /// Whether the file is whole, and llama.cpp may run it.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        matches!(
            self,
            Self::Architecture { .. }
                | Self::Split { .. }
                | Self::Unsupported { .. }
                | Self::Tensor { .. }
                | Self::Type { .. }
        )
    }
}

type Result<T, E = GgufModelError> = std::result::Result<T, E>;

/// An architecture of llama.cpp that is a family here.
struct Known {
    name: &'static str,
    family: Family,
    /// Whether the rows of queries and keys take turns.
    turns: bool,
    /// The keys that this architecture reads and others do not.
    reads: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known { name: "llama", family: Family::Llama, turns: true, reads: &[] },
    Known { name: "qwen2", family: Family::Qwen2, turns: false, reads: &[] },
    Known { name: "qwen3", family: Family::Qwen3, turns: false, reads: &[] },
    Known { name: "smollm3", family: Family::SmolLm3, turns: true, reads: &[] },
    Known {
        name: "gemma2",
        family: Family::Gemma2,
        turns: false,
        reads: &[WINDOW, WINDOW_PATTERN, "attn_logit_softcapping", "final_logit_softcapping"],
    },
    Known {
        name: "gemma3",
        family: Family::Gemma3,
        turns: false,
        reads: &[WINDOW, WINDOW_PATTERN, "final_logit_softcapping", "rope.freq_base_swa"],
    },
    Known {
        name: "phi3",
        family: Family::Phi3,
        turns: false,
        reads: &[WINDOW, "rope.scaling.attn_factor", "rope.scaling.original_context_length"],
    },
    Known { name: "gpt2", family: Family::Gpt2, turns: false, reads: &["attention.layer_norm_epsilon"] },
    Known { name: "olmo2", family: Family::Olmo2, turns: false, reads: &[] },
];

const WINDOW: &str = "attention.sliding_window";
const WINDOW_PATTERN: &str = "attention.sliding_window_pattern";

/// The keys that every architecture reads.
const READ: &[&str] = &[
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
];

/// The keys of rotary embeddings.
const ROTARY: &[&str] = &[
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
];

/// The keys that say something about a file and nothing about the computation.
const SILENT: &[&str] = &["vocab_size", "tensor_data_layout", "rope.scaling.finetuned"];

/// The keys that may change the computation, each with the number at which it does not; truth values are 0 and 1.
const NEUTRAL: &[(&str, f64)] = &[
    ("attention.causal", 1.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    (WINDOW, 0.0),
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("leading_dense_block_count", 0.0),
    ("logit_scale", 1.0),
    ("nextn_predict_layers", 0.0),
    ("rope.scaling.attn_factor", 1.0),
    ("rope.scaling.yarn_attn_factor", 1.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
    ("use_parallel_residual", 0.0),
];

/// Tensors of divisors of rotary frequencies, which are no matrices of the decoder.
const DIVISORS: [&str; 3] = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];

/// The divisors of rotary frequencies of a file, in the order of [`DIVISORS`].
pub(crate) type Divisors = [Option<Vec<f64>>; 3];

/// The names of the tensors in [`Divisors`].
pub(crate) fn divisors() -> [&'static str; 3] {
    DIVISORS
}

/// The architecture of a file that holds one whole model.
fn known(gguf: &Gguf) -> Result<&'static Known> {
    if let Some(count) = gguf.number("split.count").filter(|count| *count > 1) {
        return Err(GgufModelError::Split { count });
    }
    if let Some(kind) = gguf.text("general.type").filter(|kind| *kind != "model") {
        return Err(GgufModelError::Unsupported {
            key: "general.type".to_owned(),
            value: format!("{kind:?}"),
            supported: "\"model\"".to_owned(),
        });
    }
    let name = gguf.architecture();
    let name = name.ok_or_else(|| GgufModelError::Missing { key: "general.architecture".to_owned() })?;
    KNOWN.iter().find(|known| known.name == name).ok_or_else(|| GgufModelError::Architecture {
        name: name.escape_debug().collect(),
        known: KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", "),
    })
}

/// The metadata under the name of an architecture.
struct Keys<'a> {
    gguf: &'a Gguf,
    known: &'static Known,
}

impl Keys<'_> {
    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.known.name)
    }

    fn invalid(&self, key: &str, value: impl ToString, expected: impl Into<String>) -> GgufModelError {
        GgufModelError::Invalid { key: self.full(key), value: value.to_string(), expected: expected.into() }
    }

    fn unsupported(&self, key: &str, value: impl ToString, supported: impl Into<String>) -> GgufModelError {
        GgufModelError::Unsupported {
            key: self.full(key),
            value: value.to_string(),
            supported: supported.into(),
        }
    }

    fn get(&self, key: &str) -> Option<&GgufValue> {
        self.gguf.get(&self.full(key))
    }

    fn size(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = self.gguf.number(&self.full(key)).and_then(|number| usize::try_from(number).ok());
        let is_list = matches!(value, GgufValue::Unsigneds(_) | GgufValue::Signeds(_));
        match number {
            Some(number) => Ok(Some(number)),
            None if is_list => Err(self.unsupported(key, "a list", "one number for all layers")),
            None => Err(self.invalid(key, shown(value), "a whole number, zero or more")),
        }
    }

    fn required(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| GgufModelError::Missing { key: self.full(key) })
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = self.gguf.float(&self.full(key)).filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.invalid(key, shown(value), "a finite number"))
    }

    /// A number above zero.
    fn positive(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(number) if !(number > 0.0 && number <= 1e9) => {
                Err(self.invalid(key, number, "above 0 and at most 1e9"))
            }
            number => Ok(number),
        }
    }

    /// Refuses every key of the architecture that is neither read nor known to change nothing.
    fn refuse_others(&self, context: usize) -> Result<()> {
        let prefix = format!("{}.", self.known.name);
        let rotary = if self.known.family == Family::Gpt2 { &[] } else { ROTARY };
        for (full, value) in self.gguf.metadata() {
            let Some(key) = full.strip_prefix(&prefix) else { continue };
            if [self.known.reads, READ, rotary, SILENT].iter().any(|keys| keys.contains(&key)) {
                continue;
            }
            let Some((_, neutral)) = NEUTRAL.iter().find(|(known, _)| *known == key) else {
                return Err(self.unsupported(key, shown(value), "a file without this key"));
            };
            let number = match value {
                GgufValue::Bool(flag) => Some(f64::from(u8::from(*flag))),
                _ => self.gguf.float(full),
            };
            let is_wide = key == WINDOW && number.is_some_and(|window| window >= context as f64);
            if number != Some(*neutral) && !is_wide {
                return Err(self.unsupported(key, shown(value), format!("{neutral}, or no such key")));
            }
        }
        Ok(())
    }
}

/// A value of the metadata in an error.
fn shown(value: &GgufValue) -> String {
    match value {
        GgufValue::Unsigned(number) => number.to_string(),
        GgufValue::Signed(number) => number.to_string(),
        GgufValue::Float(number) => number.to_string(),
        GgufValue::Bool(flag) => flag.to_string(),
        GgufValue::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        _ => "a list".to_owned(),
    }
}

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
        rotary(&keys, &mut config, divisors)?;
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
        let by_width = config.hidden_size / config.num_attention_heads;
        let scalar = if layers == largest { by_width } else { config.head_dim };
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

/// Rotary embeddings.
fn rotary(keys: &Keys<'_>, config: &mut ModelConfig, divisors: &Divisors) -> Result<()> {
    let (context, head_dim) = (config.max_position_embeddings, config.head_dim);
    let architecture = &mut config.architecture;
    let family = architecture.family;
    let base = "rope.freq_base";
    config.rope_theta = match (keys.positive(base)?, family) {
        (Some(theta), _) => theta,
        (None, Family::Gemma3) => return Err(GgufModelError::Missing { key: keys.full(base) }),
        (None, _) => 10_000.0,
    };
    if family == Family::Gemma3 {
        let theta = keys.positive("rope.freq_base_swa")?.unwrap_or(10_000.0);
        architecture.local_rope = Some(LocalRope { theta, scaling: Scaling::None });
    }
    let count = "rope.dimension_count";
    let width = keys.size(count)?.unwrap_or(head_dim);
    if width != head_dim {
        if keys.known.turns || width > head_dim || width == 0 || !width.is_multiple_of(2) {
            return Err(keys.unsupported(count, width, format!("the width of a head, {head_dim}")));
        }
        architecture.rotary_width = Some(width);
    }
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.positive("rope.scale_linear")?,
    };
    let key = "rope.scaling.type";
    let kind = match keys.get(key) {
        None => None,
        Some(GgufValue::Text(kind)) => Some(kind.as_str()),
        Some(other) => return Err(keys.invalid(key, shown(other), "a text")),
    };
    let scaling = match (kind, factor) {
        (Some("none"), _) | (None | Some("linear"), None | Some(1.0)) => Scaling::None,
        (None | Some("linear"), Some(factor)) => Scaling::Linear { factor },
        (Some("yarn"), factor) => {
            let original = keys.size("rope.scaling.original_context_length")?.unwrap_or(context);
            if !(2..=limit::CONTEXT).contains(&original) {
                let key = "rope.scaling.original_context_length";
                return Err(keys.invalid(key, original, format!("from 2 to {}", limit::CONTEXT)));
            }
            let factor = factor.unwrap_or(1.0);
            let attention = if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 };
            let fast = keys.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
            let slow = keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
            Scaling::Yarn { factor, attention, fast, slow, original, truncate: true }
        }
        (Some("longrope"), _) if family == Family::Phi3 => Scaling::None,
        (Some(other), _) => {
            return Err(keys.unsupported(key, format!("{other:?}"), "\"none\", \"linear\" or \"yarn\""));
        }
    };
    let pairs = width / 2;
    let checked = |name: &str, divisors: &Vec<f64>| {
        let is_divisor = |divisor: &f64| *divisor > 0.0 && *divisor <= 1e9;
        match divisors.len() == pairs && divisors.iter().all(is_divisor) {
            true => Ok(divisors.clone()),
            false => Err(GgufModelError::Invalid {
                key: name.to_owned(),
                value: format!("{} numbers", divisors.len()),
                expected: format!("{pairs} numbers above 0, one for each pair of coordinates"),
            }),
        }
    };
    let [all, short, long] = divisors;
    let divided = match (all, short, long) {
        (None, None, None) => None,
        (Some(all), None, None) => {
            let all = checked(DIVISORS[0], all)?;
            // One set for all lengths.
            Some(Scaling::LongRope {
                short: all.clone(),
                long: all,
                attention: 1.0,
                original: context.max(2),
            })
        }
        (None, Some(short), Some(long)) if family == Family::Phi3 => {
            let key = "rope.scaling.original_context_length";
            let original = keys.required(key)?;
            if !(2..=limit::CONTEXT).contains(&original) {
                return Err(keys.invalid(key, original, format!("from 2 to {}", limit::CONTEXT)));
            }
            Some(Scaling::LongRope {
                short: checked(DIVISORS[1], short)?,
                long: checked(DIVISORS[2], long)?,
                attention: keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
                original,
            })
        }
        _ => {
            let tensor = DIVISORS[1..].iter().find(|name| keys.gguf.tensor(name).is_some());
            return Err(GgufModelError::Tensor {
                tensor: (*tensor.unwrap_or(&DIVISORS[0])).to_owned(),
                architecture: keys.known.name.to_owned(),
            });
        }
    };
    architecture.scaling = match (divided, scaling) {
        (None, scaling) => scaling,
        (Some(divided), Scaling::None) => divided,
        (Some(_), _) => {
            let supported = "none beside divisors of frequencies in a tensor";
            return Err(keys.unsupported(key, format!("{kind:?}"), supported));
        }
    };
    if let (Family::Phi3, Scaling::None) = (family, &architecture.scaling) {
        let attention = "rope.scaling.attn_factor";
        if let Some(factor) = keys.number(attention)?.filter(|factor| *factor != 1.0) {
            return Err(keys.unsupported(attention, factor, "1, in a file without divisors"));
        }
    }
    Ok(())
}

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
    let names: std::collections::HashSet<&str> =
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
