//! The architectures that are known here, and the keys of their metadata: those that are read, those that change
//! nothing, and all others, which are refused.

use unskew_gguf::{Gguf, GgufValue};

use super::{GgufModelError, Result};
use crate::config::Family;

/// An architecture of llama.cpp that is a family here.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) family: Family,
    /// Whether the rows of queries and keys take turns.
    pub(super) turns: bool,
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

pub(super) const WINDOW: &str = "attention.sliding_window";
pub(super) const WINDOW_PATTERN: &str = "attention.sliding_window_pattern";

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

/// The architecture of a file that holds one whole model.
pub(super) fn known(gguf: &Gguf) -> Result<&'static Known> {
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
pub(super) struct Keys<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) known: &'static Known,
}

impl Keys<'_> {
    pub(super) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.known.name)
    }

    pub(super) fn invalid(
        &self,
        key: &str,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> GgufModelError {
        GgufModelError::Invalid { key: self.full(key), value: value.to_string(), expected: expected.into() }
    }

    pub(super) fn unsupported(
        &self,
        key: &str,
        value: impl ToString,
        supported: impl Into<String>,
    ) -> GgufModelError {
        // It may be a key that only the file knows, with any character.
        GgufModelError::Unsupported {
            key: self.full(key).escape_debug().collect(),
            value: value.to_string(),
            supported: supported.into(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&GgufValue> {
        self.gguf.get(&self.full(key))
    }

    pub(super) fn size(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = self.gguf.number(&self.full(key)).and_then(|number| usize::try_from(number).ok());
        let is_list = matches!(value, GgufValue::Unsigneds(_) | GgufValue::Signeds(_));
        match number {
            Some(number) => Ok(Some(number)),
            None if is_list => Err(self.unsupported(key, "a list", "one number for all layers")),
            None => Err(self.invalid(key, shown(value), "a whole number, zero or more")),
        }
    }

    pub(super) fn required(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| GgufModelError::Missing { key: self.full(key) })
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = self.gguf.float(&self.full(key)).filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.invalid(key, shown(value), "a finite number"))
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(number) if !(number > 0.0 && number <= 1e9) => {
                Err(self.invalid(key, number, "above 0 and at most 1e9"))
            }
            number => Ok(number),
        }
    }

    /// Refuses every key of the architecture that is neither read nor known to change nothing.
    pub(super) fn refuse_others(&self, context: usize) -> Result<()> {
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
pub(super) fn shown(value: &GgufValue) -> String {
    match value {
        GgufValue::Unsigned(number) => number.to_string(),
        GgufValue::Signed(number) => number.to_string(),
        GgufValue::Float(number) => number.to_string(),
        GgufValue::Bool(flag) => flag.to_string(),
        GgufValue::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        _ => "a list".to_owned(),
    }
}
