//! Rotary embeddings in a `config.json`: base, width, scaling.
//!
//! Files of transformers 5 have `rope_parameters`, older ones `rope_theta` and `rope_scaling`; a description may be
//! one for all layers, or one for each kind of layer. The defaults are those of transformers.

use serde_json::Value;

use super::{
    ConfigError, ModelConfig,
    architecture::{Family, LocalRope, Scaling},
    fields::{Object, invalid, list, number, present, size, text, unsupported},
};

/// The types of scaling, by their names in files.
const TYPES: &str = "\"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\" or \"longrope\"";

/// The divisors of a LongRoPE are those of at most this many coordinates.
const MOST_DIVISORS: usize = 1 << 15;

/// The keys of a description that are read, for every type.
const KEYS: &[&str] = &[
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
    // Older files of Phi 3, which transformers does not read.
    "short_mscale",
    "long_mscale",
];

/// Reads the rotary embedding into a configuration whose sizes are known.
pub(super) fn read(root: &Object, config: &mut ModelConfig) -> Result<(), ConfigError> {
    let family = config.architecture.family;
    let default = match family {
        Family::SmolLm3 => 2_000_000.0,
        Family::Gemma3 => 1_000_000.0,
        _ => 10_000.0,
    };
    let theta = number(root, "rope_theta")?.unwrap_or(default);
    let (field, description) = match (present(root, "rope_scaling"), present(root, "rope_parameters")) {
        (Some(scaling), _) if scaling.as_object().is_none_or(|object| !object.is_empty()) => {
            ("rope_scaling", Some(scaling))
        }
        (_, parameters) => ("rope_parameters", parameters),
    };
    let empty = Object::new();
    let object = match description {
        Some(value) => value.as_object().ok_or_else(|| invalid(field, value, "an object or null"))?,
        None => &empty,
    };
    if family == Family::Gemma3 {
        return gemma3(root, config, theta, field, object);
    }
    let root_partial = number(root, "partial_rotary_factor")?;
    let Description { theta, width, scaling } =
        describe(root, config, field, object, Defaults { theta, partial: root_partial })?;
    config.rope_theta = theta;
    config.architecture.rotary_width = width;
    config.architecture.scaling = scaling;
    Ok(())
}

/// One description for full attention and one for windows.
fn gemma3(
    root: &Object,
    config: &mut ModelConfig,
    theta: f64,
    field: &'static str,
    object: &Object,
) -> Result<(), ConfigError> {
    let local_theta = number(root, "rope_local_base_freq")?.unwrap_or(10_000.0);
    let nested = |kind: &str| match present(object, kind) {
        Some(value) => {
            value.as_object().ok_or_else(|| invalid(format!("{field}.{kind}"), value, "an object or null"))
        }
        None => Ok(NO_FIELDS.get_or_init(Object::new)),
    };
    let (global, local) = if field == "rope_scaling" {
        // It scales the layers without a window.
        (object, nested("sliding_attention")?)
    } else {
        if let Some((key, value)) = object.iter().find(|(_, value)| !value.is_object() && !value.is_null()) {
            let supported = "one object for \"full_attention\" and one for \"sliding_attention\"";
            return Err(unsupported(format!("{field}.{key}"), value, supported));
        }
        (nested("full_attention")?, nested("sliding_attention")?)
    };
    let partial = number(root, "partial_rotary_factor")?;
    let global = describe(root, config, field, global, Defaults { theta, partial })?;
    let local = describe(root, config, field, local, Defaults { theta: local_theta, partial })?;
    if matches!(local.scaling, Scaling::Dynamic { .. } | Scaling::LongRope { .. }) {
        let value = present(object, "sliding_attention").unwrap_or(&Value::Null);
        let supported = "\"default\", \"linear\", \"llama3\" or \"yarn\" in layers with a window";
        return Err(unsupported(format!("{field}.sliding_attention"), value, supported));
    }
    config.rope_theta = global.theta;
    config.architecture.scaling = global.scaling;
    config.architecture.local_rope = Some(LocalRope { theta: local.theta, scaling: local.scaling });
    Ok(())
}

static NO_FIELDS: std::sync::OnceLock<Object> = std::sync::OnceLock::new();

struct Defaults {
    theta: f64,
    partial: Option<f64>,
}

struct Description {
    theta: f64,
    width: Option<usize>,
    scaling: Scaling,
}

fn describe(
    root: &Object,
    config: &ModelConfig,
    field: &'static str,
    object: &Object,
    defaults: Defaults,
) -> Result<Description, ConfigError> {
    let family = config.architecture.family;
    let name = |key: &str| format!("{field}.{key}");
    for (key, value) in object {
        let is_known = KEYS.contains(&key.as_str());
        if !is_known && !value.is_null() {
            return Err(unsupported(
                name(key),
                value,
                "the fields of one rotary embedding with a known `rope_type`",
            ));
        }
    }
    let theta = number(object, "rope_theta")?.unwrap_or(defaults.theta);
    let partial = number(object, "partial_rotary_factor")?.or(defaults.partial).unwrap_or(1.0);
    if !(partial > 0.0 && partial <= 1.0) {
        return Err(invalid("partial_rotary_factor", partial, "above 0 and at most 1"));
    }
    let width = (config.head_dim as f64 * partial) as usize;
    if width != config.head_dim && family != Family::Phi3 {
        return Err(unsupported(
            "partial_rotary_factor",
            partial,
            "1, or no such field (less with model_type \"phi3\")",
        ));
    }
    // A whole head that is odd or empty is refused by its own name.
    if width != config.head_dim && (width == 0 || !width.is_multiple_of(2)) {
        let expected = format!("such that it leaves an even part of head_dim = {}", config.head_dim);
        return Err(invalid("partial_rotary_factor", partial, expected));
    }
    let kind = match text(object, "rope_type")? {
        Some(kind) => kind,
        None => match text(object, "type")? {
            Some(kind) => kind,
            // A factor without a type says not how it scales.
            None if present(object, "factor").is_some() => {
                return Err(unsupported(
                    field,
                    Value::Object(object.clone()),
                    &format!("a `rope_type`: {TYPES}"),
                ));
            }
            None => "default",
        },
    };
    let kind = match (family, kind) {
        (Family::Phi3, "su" | "yarn") => "longrope",
        (Family::Phi3, "default" | "longrope") => kind,
        (Family::Phi3, _) => return Err(unsupported(name("rope_type"), kind, "\"default\" or \"longrope\"")),
        _ => kind,
    };
    let scaling = scaling(root, config, field, object, kind, width)?;
    Ok(Description { theta, width: (width != config.head_dim).then_some(width), scaling })
}

fn scaling(
    root: &Object,
    config: &ModelConfig,
    field: &'static str,
    object: &Object,
    kind: &str,
    width: usize,
) -> Result<Scaling, ConfigError> {
    let name = |key: &str| format!("{field}.{key}");
    let context = config.max_position_embeddings;
    let positive = |key: &str, value: f64| match value.is_finite() && value > 0.0 && value <= 1e9 {
        true => Ok(value),
        false => Err(invalid(name(key), value, "above 0 and at most 1e9")),
    };
    let needed = |key: &str| match number(object, key)? {
        Some(value) => positive(key, value),
        None => Err(invalid(name(key), "null", format!("a number, which rope_type \"{kind}\" needs"))),
    };
    let optional = |key: &str| number(object, key)?.map(|value| positive(key, value)).transpose();
    // transformers prefers the field beside the description, and Phi 3 has it always.
    let original = || -> Result<usize, ConfigError> {
        let outer = size(root, "original_max_position_embeddings")?;
        let own = size(object, "original_max_position_embeddings")?;
        let value = match config.architecture.family {
            Family::Phi3 => outer.unwrap_or(4096),
            _ => outer.or(own).unwrap_or(context),
        };
        let most = 1 << 24;
        match value {
            2.. if value <= most => Ok(value),
            _ => Err(invalid("original_max_position_embeddings", value, format!("from 2 to {most}"))),
        }
    };
    Ok(match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: needed("factor")? },
        "dynamic" => {
            if width < 4 {
                return Err(invalid("head_dim", width, "4 or more, for rope_type \"dynamic\""));
            }
            let factor = needed("factor")?;
            if factor < 1.0 {
                return Err(invalid(name("factor"), factor, "1 or more"));
            }
            Scaling::Dynamic { factor }
        }
        "llama3" => {
            let (low, high) = (needed("low_freq_factor")?, needed("high_freq_factor")?);
            if low >= high {
                let expected = format!("below high_freq_factor = {high}");
                return Err(invalid(name("low_freq_factor"), low, expected));
            }
            Scaling::Llama3 { factor: needed("factor")?, low, high, original: original()? }
        }
        "yarn" => {
            let original = original()?;
            let factor = match optional("factor")? {
                Some(factor) => factor,
                None => context as f64 / original as f64,
            };
            let magnitude = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
            let attention = match (
                optional("attention_factor")?,
                number(object, "mscale")?,
                number(object, "mscale_all_dim")?,
            ) {
                (Some(attention), ..) => attention,
                (None, Some(own), Some(all)) if own != 0.0 && all != 0.0 => {
                    positive("mscale", magnitude(own) / magnitude(all))?
                }
                _ => magnitude(1.0),
            };
            let truncate = super::fields::flag(object, "truncate")?.unwrap_or(true);
            // Zero is as absent.
            let turns = |key: &str, default| {
                Ok(match number(object, key)? {
                    None | Some(0.0) => default,
                    Some(value) => positive(key, value)?,
                })
            };
            let (fast, slow) = (turns("beta_fast", 32.0)?, turns("beta_slow", 1.0)?);
            Scaling::Yarn { factor, attention, fast, slow, original, truncate }
        }
        "longrope" => {
            let original = original()?;
            let factor = match optional("factor")? {
                Some(factor) => factor,
                None => context as f64 / original as f64,
            };
            let attention = match optional("attention_factor")? {
                Some(attention) => attention,
                None if factor <= 1.0 => 1.0,
                None => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
            };
            let divisors = |key: &str| -> Result<Vec<f64>, ConfigError> {
                let Some(values) = list(object, key)? else {
                    return Err(invalid(name(key), "null", "a list, which rope_type \"longrope\" needs"));
                };
                if values.len() != width / 2 || values.len() > MOST_DIVISORS {
                    let expected = format!("{}, one for each pair of coordinates that are turned", width / 2);
                    return Err(invalid(format!("the length of {}", name(key)), values.len(), expected));
                }
                let read = |value: &Value| match value.as_f64() {
                    Some(number) => positive(key, number),
                    None => Err(invalid(name(key), value, "numbers")),
                };
                values.iter().map(read).collect()
            };
            let (short, long) = (divisors("short_factor")?, divisors("long_factor")?);
            Scaling::LongRope { short, long, attention, original }
        }
        _ => return Err(unsupported(name("rope_type"), Value::from(kind), TYPES)),
    })
}

impl Scaling {
    /// The description in a file.
    pub(super) fn to_json(&self) -> Option<Value> {
        use serde_json::json;
        Some(match self {
            Self::None => return None,
            Self::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            Self::Dynamic { factor } => json!({"rope_type": "dynamic", "factor": factor}),
            Self::Llama3 { factor, low, high, original } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }),
            Self::Yarn { factor, attention, fast, slow, original, truncate } => json!({
                "rope_type": "yarn", "factor": factor, "attention_factor": attention, "beta_fast": fast,
                "beta_slow": slow, "original_max_position_embeddings": original, "truncate": truncate,
            }),
            Self::LongRope { short, long, attention, original } => json!({
                "rope_type": "longrope", "short_factor": short, "long_factor": long,
                "attention_factor": attention, "original_max_position_embeddings": original,
            }),
        })
    }
}
