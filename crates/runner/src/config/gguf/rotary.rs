//! Rotary embeddings of a GGUF file: base, width, scaling by keys, and divisors of frequencies in tensors.

use unskew_gguf::GgufValue;

use super::{
    GgufModelError, Result,
    keys::{Keys, shown},
};
use crate::config::{Family, LocalRope, ModelConfig, Scaling, limit};

/// Tensors of divisors of rotary frequencies, which are no matrices of the decoder.
pub(super) const DIVISORS: [&str; 3] =
    ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];

/// The divisors of rotary frequencies of a file, in the order of [`DIVISORS`].
pub(crate) type Divisors = [Option<Vec<f64>>; 3];

/// The names of the tensors in [`Divisors`].
pub(crate) fn divisors() -> [&'static str; 3] {
    DIVISORS
}

/// The context length before the frequencies were scaled.
const ORIGINAL: &str = "rope.scaling.original_context_length";

fn original(keys: &Keys<'_>, length: usize) -> Result<usize> {
    match (2..=limit::CONTEXT).contains(&length) {
        true => Ok(length),
        false => Err(keys.invalid(ORIGINAL, length, format!("from 2 to {}", limit::CONTEXT))),
    }
}

/// Rotary embeddings.
pub(super) fn read(keys: &Keys<'_>, config: &mut ModelConfig, divisors: &Divisors) -> Result<()> {
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
            let original = original(keys, keys.size(ORIGINAL)?.unwrap_or(context))?;
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
            let original = original(keys, keys.required(ORIGINAL)?)?;
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
