//! The families of models: their fields in a `config.json`, and the defaults of transformers for them.

use serde_json::{Map, Value, json};

use super::{
    ConfigError, ModelConfig,
    architecture::{Activation, Architecture, Biases, Family, LayerKind, LayerRotary, Scaling},
    fields::{
        Object, flag, invalid, list, number, present, required, size, text, token, tokens, unsupported,
    },
    limit, rope,
};

/// Every family, with `model_type` and the architecture with a head.
const FAMILIES: &[(Family, &str, &str)] = &[
    (Family::Llama, "llama", "LlamaForCausalLM"),
    (Family::Mistral, "mistral", "MistralForCausalLM"),
    (Family::Qwen2, "qwen2", "Qwen2ForCausalLM"),
    (Family::Qwen3, "qwen3", "Qwen3ForCausalLM"),
    (Family::SmolLm3, "smollm3", "SmolLM3ForCausalLM"),
    (Family::Gemma2, "gemma2", "Gemma2ForCausalLM"),
    (Family::Gemma3, "gemma3_text", "Gemma3ForCausalLM"),
    (Family::Phi3, "phi3", "Phi3ForCausalLM"),
    (Family::Gpt2, "gpt2", "GPT2LMHeadModel"),
    (Family::Olmo2, "olmo2", "Olmo2ForCausalLM"),
];

const MODEL_TYPES: &str = "\"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"smollm3\", \"gemma2\", \"gemma3_text\", \
                           \"phi3\", \"gpt2\" or \"olmo2\"";

impl Family {
    /// The value of `model_type`.
    #[must_use]
    pub fn model_type(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> &'static (Family, &'static str, &'static str) {
        FAMILIES.iter().find(|(family, ..)| *family == self).expect("every family has a row")
    }

    /// The fields that this family reads and others do not.
    pub(super) fn reads(self) -> &'static [&'static str] {
        match self {
            Self::SmolLm3 => &["no_rope_layers"],
            Self::Gemma2 => &[
                "attn_logit_softcapping",
                "final_logit_softcapping",
                "query_pre_attn_scalar",
                "hidden_activation",
            ],
            // The cap of scores is in the configurations of Gemma 3, and its model does not apply it.
            Self::Gemma3 => &[
                "attn_logit_softcapping",
                "final_logit_softcapping",
                "query_pre_attn_scalar",
                "hidden_activation",
                "rope_local_base_freq",
            ],
            Self::Phi3 => &["partial_rotary_factor"],
            Self::Gpt2 => &["activation_function", "scale_attn_by_inverse_layer_idx", "scale_attn_weights"],
            _ => &[],
        }
    }
}

/// The family of a configuration. The checkpoint must have a decoder with its head; older files capitalise names
/// differently.
pub(super) fn family(root: &Object) -> Result<Family, ConfigError> {
    let Some(value) = present(root, "model_type") else {
        return Err(ConfigError::Missing { field: "model_type" });
    };
    let Some((family, _, architecture)) = FAMILIES.iter().find(|(_, name, _)| value == name) else {
        return Err(unsupported("model_type", value, MODEL_TYPES));
    };
    let names = list(root, "architectures")?.unwrap_or_default();
    let is_ours = |name: &Value| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case(architecture));
    if names.is_empty() || names.iter().any(is_ours) {
        return Ok(*family);
    }
    Err(unsupported("architectures", json!(names), &format!("[\"{architecture}\"]")))
}

/// The sizes that a family has where a file has none.
struct Defaults {
    shared_heads: Option<usize>,
    head_dim: Option<usize>,
    eps: f64,
    context: usize,
    tied: bool,
}

fn defaults(family: Family) -> Defaults {
    let plain = Defaults { shared_heads: None, head_dim: None, eps: 1e-6, context: 2048, tied: false };
    match family {
        Family::Llama => plain,
        Family::Mistral => Defaults { shared_heads: Some(8), context: 131_072, ..plain },
        Family::Qwen2 => Defaults { shared_heads: Some(32), context: 32_768, ..plain },
        Family::Qwen3 => Defaults { shared_heads: Some(32), head_dim: Some(128), context: 32_768, ..plain },
        Family::SmolLm3 => Defaults { shared_heads: Some(4), context: 32_768, tied: true, ..plain },
        Family::Gemma2 => {
            Defaults { shared_heads: Some(4), head_dim: Some(256), context: 8192, tied: true, ..plain }
        }
        Family::Gemma3 => {
            Defaults { shared_heads: Some(4), head_dim: Some(256), context: 131_072, tied: true, ..plain }
        }
        Family::Phi3 => Defaults { eps: 1e-5, context: 4096, ..plain },
        Family::Gpt2 => Defaults { eps: 1e-5, context: 1024, tied: true, ..plain },
        Family::Olmo2 => Defaults { eps: 1e-5, ..plain },
    }
}

/// The names that GPT-2 has for fields of other families.
const OF_GPT2: [(&str, &str); 6] = [
    ("hidden_size", "n_embd"),
    ("intermediate_size", "n_inner"),
    ("num_hidden_layers", "n_layer"),
    ("num_attention_heads", "n_head"),
    ("max_position_embeddings", "n_positions"),
    ("rms_norm_eps", "layer_norm_epsilon"),
];

/// The error, with the names that the file has.
pub(super) fn as_written(mut error: ConfigError, family: Family) -> ConfigError {
    if let (ConfigError::Invalid { field, expected, .. }, Family::Gpt2) = (&mut error, family) {
        for (usual, of_gpt2) in OF_GPT2 {
            (*field, *expected) = (field.replace(usual, of_gpt2), expected.replace(usual, of_gpt2));
        }
    }
    error
}

/// Reads a configuration of a family; the result is not validated yet.
pub(super) fn read(root: &Object, family: Family) -> Result<ModelConfig, ConfigError> {
    let gpt2 = family == Family::Gpt2;
    let named = |usual: &'static str| {
        let other = OF_GPT2.iter().find(|(name, _)| gpt2 && *name == usual);
        other.map_or(usual, |(_, of_gpt2)| of_gpt2)
    };
    let defaults = defaults(family);
    let hidden_size = required(root, named("hidden_size"))?;
    let num_attention_heads = required(root, named("num_attention_heads"))?;
    let head_dim = match if gpt2 { None } else { size(root, "head_dim")? } {
        Some(head_dim) => head_dim,
        None if defaults.head_dim.is_some() && !root.contains_key("head_dim") => {
            defaults.head_dim.unwrap_or_default()
        }
        None if num_attention_heads == 0 => return Err(invalid("num_attention_heads", 0, "1 or more")),
        None if !hidden_size.is_multiple_of(num_attention_heads) => {
            let expected = format!("a multiple of num_attention_heads = {num_attention_heads}");
            return Err(invalid("hidden_size", hidden_size, expected));
        }
        None => hidden_size / num_attention_heads,
    };
    let num_key_value_heads = match size(root, "num_key_value_heads")? {
        Some(heads) if !gpt2 => heads,
        None if !root.contains_key("num_key_value_heads") => {
            defaults.shared_heads.unwrap_or(num_attention_heads)
        }
        _ => num_attention_heads,
    };
    let intermediate_size = if gpt2 {
        size(root, "n_inner")?.unwrap_or_else(|| hidden_size.saturating_mul(4))
    } else {
        required(root, "intermediate_size")?
    };
    let num_hidden_layers = required(root, named("num_hidden_layers"))?;
    if num_hidden_layers > limit::LAYERS {
        let expected = format!("from 1 to {}", limit::LAYERS);
        return Err(invalid("num_hidden_layers", num_hidden_layers, expected));
    }
    let mut config = ModelConfig {
        hidden_size,
        intermediate_size,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        vocab_size: required(root, "vocab_size")?,
        rms_norm_eps: number(root, named("rms_norm_eps"))?.unwrap_or(defaults.eps),
        rope_theta: 10_000.0,
        max_position_embeddings: size(root, named("max_position_embeddings"))?.unwrap_or(defaults.context),
        tie_word_embeddings: flag(root, "tie_word_embeddings")?.unwrap_or(defaults.tied),
        bos_token_id: present(root, "bos_token_id").map(|id| token("bos_token_id", id)).transpose()?,
        eos_token_ids: tokens(root, "eos_token_id")?,
        architecture: Architecture::of(family),
    };
    if gpt2 {
        read_gpt2(root, &mut config)?;
    } else {
        read_blocks(root, &mut config)?;
        rope::read(root, &mut config)?;
        config.architecture.layers = layers(root, &config)?;
    }
    Ok(config)
}

fn read_gpt2(root: &Object, config: &mut ModelConfig) -> Result<(), ConfigError> {
    let architecture = &mut config.architecture;
    let name = text(root, "activation_function")?.unwrap_or("gelu_new");
    architecture.activation = activation("activation_function", name)?;
    architecture.scale_by_layer = flag(root, "scale_attn_by_inverse_layer_idx")?.unwrap_or(false);
    if flag(root, "scale_attn_weights")? == Some(false) {
        architecture.attention_scalar = Some(1.0);
    }
    Ok(())
}

/// The parts of attention and feed-forward blocks.
fn read_blocks(root: &Object, config: &mut ModelConfig) -> Result<(), ConfigError> {
    use Family::{Gemma2, Gemma3, Llama, Olmo2, Qwen3, SmolLm3};
    let architecture = &mut config.architecture;
    let family = architecture.family;
    let gemma = matches!(family, Gemma2 | Gemma3);
    let field = if gemma { "hidden_activation" } else { "hidden_act" };
    // Gemma's other field is for older code, which read it wrongly.
    let default = if gemma { "gelu_pytorch_tanh" } else { "silu" };
    architecture.activation = activation(field, text(root, field)?.unwrap_or(default))?;

    let attention_bias = flag(root, "attention_bias")?.unwrap_or(false);
    let mlp_bias = flag(root, "mlp_bias")?.unwrap_or(false);
    if attention_bias {
        if !matches!(family, Llama | Qwen3 | SmolLm3 | Gemma2 | Gemma3 | Olmo2) {
            return Err(unsupported("attention_bias", true, "false with this model_type"));
        }
        let attention = Biases { attention_inputs: true, attention_output: true, feed_forward: false };
        architecture.biases = attention;
    }
    if mlp_bias {
        if !matches!(family, Llama | SmolLm3) {
            return Err(unsupported("mlp_bias", true, "false with this model_type"));
        }
        architecture.biases.feed_forward = true;
    }
    if gemma {
        let scalar = number(root, "query_pre_attn_scalar")?.unwrap_or(256.0);
        if !(scalar > 0.0 && scalar <= 1e9) {
            return Err(invalid("query_pre_attn_scalar", scalar, "above 0 and at most 1e9"));
        }
        architecture.attention_scalar = Some(scalar);
        let cap = |field: &'static str, default| match number(root, field)? {
            Some(cap) if cap > 0.0 && cap <= 1e9 => Ok(Some(cap)),
            Some(cap) => Err(invalid(field, cap, "above 0 and at most 1e9")),
            None if root.contains_key(field) => Ok(None),
            None => Ok(default),
        };
        if family == Gemma2 {
            architecture.attention_softcap = cap("attn_logit_softcapping", Some(50.0))?;
            architecture.logit_softcap = cap("final_logit_softcapping", Some(30.0))?;
        } else {
            architecture.logit_softcap = cap("final_logit_softcapping", None)?;
        }
    }
    Ok(())
}

fn activation(field: &'static str, name: &str) -> Result<Activation, ConfigError> {
    Ok(match name {
        "silu" | "swish" => Activation::Silu,
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_fast" | "gelu_accurate" => {
            Activation::GeluTanh
        }
        "quick_gelu" => Activation::QuickGelu,
        "relu" => Activation::Relu,
        _ => {
            let supported =
                "\"silu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"quick_gelu\" or \"relu\"";
            return Err(unsupported(field, json!(name), supported));
        }
    })
}

/// The names of kinds of layers in files.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The window and the rotary embedding of each layer; none, where every layer is plain.
fn layers(root: &Object, config: &ModelConfig) -> Result<Vec<LayerKind>, ConfigError> {
    use Family::{Gemma2, Gemma3, Llama, Mistral, Olmo2, Phi3, Qwen2, Qwen3, SmolLm3};
    let family = config.architecture.family;
    let count = config.num_hidden_layers;
    let default = match family {
        Mistral | Gemma2 | Gemma3 if !root.contains_key("sliding_window") => Some(4096),
        _ => None,
    };
    let window = size(root, "sliding_window")?.or(default);
    if window == Some(0) {
        return Err(invalid("sliding_window", 0, "1 or more"));
    }
    // Windows that the family's model does not have: files hold them where they change nothing.
    let is_used = flag(root, "use_sliding_window")?;
    if matches!(family, Llama | Olmo2) {
        refuse_window(root, config.max_position_embeddings, window, is_used.unwrap_or(true))?;
        return Ok(Vec::new());
    }
    if matches!(family, Mistral | Phi3) {
        let kind = LayerKind { window, ..LayerKind::default() };
        return Ok(if window.is_some() { vec![kind; count] } else { Vec::new() });
    }
    let window = match family {
        // In Qwen's files the field is there and switched off.
        Qwen2 | Qwen3 if !is_used.unwrap_or(false) => None,
        Qwen2 | Qwen3 if !root.contains_key("sliding_window") => Some(4096),
        _ => window,
    };
    let turns = rotary_layers(root, config)?;
    let slides: Vec<bool> = match list(root, "layer_types")? {
        Some(names) => {
            if names.len() != count {
                let expected = format!("{count}, one for each of num_hidden_layers");
                return Err(invalid("the length of layer_types", names.len(), expected));
            }
            let read = |name: &Value| match name.as_str() {
                Some(FULL) => Ok(false),
                Some(SLIDING) => Ok(true),
                _ => Err(unsupported("layer_types", name, "\"full_attention\" and \"sliding_attention\"")),
            };
            names.iter().map(read).collect::<Result<_, _>>()?
        }
        None => match family {
            Qwen2 | Qwen3 => {
                let first = size(root, "max_window_layers")?.unwrap_or(28);
                (0..count).map(|layer| window.is_some() && layer >= first).collect()
            }
            SmolLm3 => {
                let slides = is_used.unwrap_or(false) && window.is_some();
                turns.iter().map(|turns| slides && !turns).collect()
            }
            Gemma2 => (0..count).map(|layer| layer % 2 == 0).collect(),
            _ => {
                let pattern = match size(root, "sliding_window_pattern")? {
                    Some(pattern) => Some(pattern),
                    None => size(root, "_sliding_window_pattern")?,
                };
                let pattern = pattern.unwrap_or(6);
                if pattern == 0 {
                    return Err(invalid("sliding_window_pattern", 0, "1 or more"));
                }
                (0..count).map(|layer| (layer + 1) % pattern != 0).collect()
            }
        },
    };
    if window.is_none() && slides.contains(&true) {
        let expected = "a number of tokens, for layers with \"sliding_attention\" in `layer_types`";
        return Err(invalid("sliding_window", "null", expected));
    }
    let kinds = slides.iter().zip(&turns).map(|(slides, turns)| LayerKind {
        window: window.filter(|_| *slides),
        rotary: match (turns, family) {
            (false, _) => LayerRotary::None,
            (true, Gemma3) if *slides => LayerRotary::Local,
            _ => LayerRotary::Global,
        },
    });
    let kinds: Vec<LayerKind> = kinds.collect();
    let is_plain = kinds.iter().all(|kind| *kind == LayerKind::default());
    Ok(if is_plain { Vec::new() } else { kinds })
}

/// Which layers turn queries and keys.
fn rotary_layers(root: &Object, config: &ModelConfig) -> Result<Vec<bool>, ConfigError> {
    let count = config.num_hidden_layers;
    if config.architecture.family != Family::SmolLm3 {
        return Ok(vec![true; count]);
    }
    if let Some(flags) = list(root, "no_rope_layers")? {
        if flags.len() < count {
            let expected = format!("{count} or more, one for each of num_hidden_layers");
            return Err(invalid("the length of no_rope_layers", flags.len(), expected));
        }
        let read = |flag: &Value| match flag.as_u64() {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(invalid("no_rope_layers", flag, "0 (without) and 1 (with rotary embeddings)")),
        };
        return flags.iter().take(count).map(read).collect();
    }
    let interval = size(root, "no_rope_layer_interval")?.unwrap_or(4);
    if interval == 0 {
        return Err(invalid("no_rope_layer_interval", 0, "1 or more"));
    }
    Ok((0..count).map(|layer| (layer + 1) % interval != 0).collect())
}

/// Refuses a window that a family's model does not have, where it is shorter than the context.
fn refuse_window(
    root: &Object,
    context: usize,
    window: Option<usize>,
    is_used: bool,
) -> Result<(), ConfigError> {
    let layers = list(root, "layer_types")?.unwrap_or_default();
    let is_known = |layer: &&Value| *layer == FULL || *layer == SLIDING;
    if let Some(other) = layers.iter().find(|layer| !is_known(layer)) {
        return Err(unsupported("layer_types", other, "\"full_attention\" in every layer"));
    }
    if is_used && let Some(window) = window.filter(|window| *window < context) {
        return Err(ConfigError::Window { window, context });
    }
    if layers.iter().any(|layer| layer == SLIDING) && window.is_none_or(|window| window < context) {
        return Err(unsupported("layer_types", json!(SLIDING), "\"full_attention\" in every layer"));
    }
    Ok(())
}

/// The fields of a configuration that are not those of every family.
pub(super) fn write(config: &ModelConfig, out: &mut Map<String, Value>) {
    let architecture = &config.architecture;
    let family = architecture.family;
    let (_, model_type, name) = family.row();
    let mut set = |field: &str, value: Value| out.insert(field.to_owned(), value);
    set("architectures", json!([name]));
    set("model_type", json!(model_type));
    let activation = match architecture.activation {
        Activation::Silu => "silu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
        Activation::QuickGelu => "quick_gelu",
        Activation::Relu => "relu",
    };
    if family == Family::Gpt2 {
        set("n_embd", json!(config.hidden_size));
        set("n_inner", json!(config.intermediate_size));
        set("n_layer", json!(config.num_hidden_layers));
        set("n_head", json!(config.num_attention_heads));
        set("n_positions", json!(config.max_position_embeddings));
        set("layer_norm_epsilon", json!(config.rms_norm_eps));
        set("activation_function", json!(activation));
        set("scale_attn_weights", json!(architecture.attention_scalar.is_none()));
        set("scale_attn_by_inverse_layer_idx", json!(architecture.scale_by_layer));
        return;
    }
    set("hidden_size", json!(config.hidden_size));
    set("intermediate_size", json!(config.intermediate_size));
    set("num_hidden_layers", json!(config.num_hidden_layers));
    set("num_attention_heads", json!(config.num_attention_heads));
    set("num_key_value_heads", json!(config.num_key_value_heads));
    set("head_dim", json!(config.head_dim));
    set("max_position_embeddings", json!(config.max_position_embeddings));
    set("rms_norm_eps", json!(config.rms_norm_eps));
    set("rope_theta", json!(config.rope_theta));
    set("attention_bias", json!(architecture.biases.attention_output));
    set("mlp_bias", json!(architecture.biases.feed_forward));
    let gemma = matches!(family, Family::Gemma2 | Family::Gemma3);
    set(if gemma { "hidden_activation" } else { "hidden_act" }, json!(activation));
    if let Some(scaling) = architecture.scaling.to_json() {
        if let Scaling::LongRope { original, .. } = &architecture.scaling {
            set("original_max_position_embeddings", json!(original));
        }
        if family != Family::Gemma3 {
            set("rope_scaling", scaling);
        }
    }
    if let Some(width) = architecture.rotary_width {
        // Rounded up, so that its product with the width is not rounded below.
        set("partial_rotary_factor", json!((width as f64 + 0.5) / config.head_dim as f64));
    }
    if let Some(local) = &architecture.local_rope {
        let kind = |theta: f64, scaling: &Scaling| {
            let mut kind = scaling.to_json().unwrap_or_else(|| json!({"rope_type": "default"}));
            kind["rope_theta"] = json!(theta);
            kind
        };
        let full = kind(config.rope_theta, &architecture.scaling);
        set(
            "rope_parameters",
            json!({"full_attention": full, "sliding_attention": kind(local.theta, &local.scaling)}),
        );
    }
    if gemma {
        set("query_pre_attn_scalar", json!(architecture.attention_scalar.unwrap_or(config.head_dim as f64)));
        set("attn_logit_softcapping", json!(architecture.attention_softcap));
        set("final_logit_softcapping", json!(architecture.logit_softcap));
    }
    let kinds: Vec<LayerKind> =
        (0..config.num_hidden_layers).map(|layer| architecture.layer(layer)).collect();
    let window = kinds.iter().find_map(|kind| kind.window);
    if family != Family::Llama {
        set("sliding_window", json!(window));
        set("use_sliding_window", json!(window.is_some()));
    }
    if matches!(family, Family::Qwen2 | Family::Qwen3 | Family::SmolLm3 | Family::Gemma2 | Family::Gemma3) {
        let names = kinds.iter().map(|kind| if kind.window.is_some() { SLIDING } else { FULL });
        set("layer_types", names.collect());
    }
    if family == Family::SmolLm3 {
        let flags = kinds.iter().map(|kind| u8::from(kind.rotary != LayerRotary::None));
        set("no_rope_layers", flags.collect());
    }
}
