//! `config.json`: the fields that are read, and the refusals with their words.

use proptest::prelude::*;
use serde_json::{Value, json};
use unskew_runner::{Architecture, ConfigError, ModelConfig};

fn base() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "rope_scaling": null,
        "hidden_act": "silu",
        "attention_bias": false,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": true,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "torch_dtype": "bfloat16",
        "is_llama_config": true
    })
}

/// The base with some fields set; `null` removes a field's default.
fn with(changes: &Value) -> Result<ModelConfig, ConfigError> {
    let mut config = base();
    let fields = config.as_object_mut().unwrap();
    for (field, value) in changes.as_object().unwrap() {
        fields.insert(field.clone(), value.clone());
    }
    ModelConfig::from_json(&config.to_string())
}

fn without(field: &str) -> Result<ModelConfig, ConfigError> {
    let mut config = base();
    config.as_object_mut().unwrap().remove(field);
    ModelConfig::from_json(&config.to_string())
}

#[test]
fn a_published_configuration_is_read() {
    let config = with(&json!({})).unwrap();
    assert_eq!(config.head_dim, 64);
    assert_eq!(config.num_key_value_heads, 3);
    assert_eq!(config.rope_theta, 100_000.0);
    assert_eq!(config.eos_token_ids, [0]);
    assert_eq!(config.parameters(), 134_515_008);
    assert!(config.tie_word_embeddings);
}

#[test]
fn defaults_are_those_of_transformers() {
    let config = ModelConfig::from_json(
        r#"{"model_type": "llama", "hidden_size": 8, "intermediate_size": 9, "num_hidden_layers": 1,
            "num_attention_heads": 4, "vocab_size": 10}"#,
    )
    .unwrap();
    assert_eq!((config.num_key_value_heads, config.head_dim), (4, 2));
    assert_eq!((config.rms_norm_eps, config.rope_theta), (1e-6, 10_000.0));
    assert_eq!(config.max_position_embeddings, 2048);
    assert!(!config.tie_word_embeddings);
    assert_eq!((config.bos_token_id, config.eos_token_ids.len()), (None, 0));
}

#[test]
fn both_spellings_of_the_rotary_base_and_of_end_tokens() {
    let new = json!({"rope_theta": null, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}});
    assert_eq!(with(&new).unwrap().rope_theta, 5e5);
    assert_eq!(with(&json!({"rope_scaling": {"type": "default"}})).unwrap().rope_theta, 1e5);
    assert_eq!(with(&json!({"eos_token_id": [1, 7]})).unwrap().eos_token_ids, [1, 7]);
    assert!(with(&json!({"eos_token_id": null})).unwrap().eos_token_ids.is_empty());
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for (changes, words) in [
        (
            json!({"model_type": "qwen2_moe"}),
            ["`model_type` = \"qwen2_moe\"", "supported: \"llama\", \"mistral\""],
        ),
        (
            json!({"model_type": "qwen2"}),
            ["`architectures` = [\"LlamaForCausalLM\"]", "[\"Qwen2ForCausalLM\"]"],
        ),
        (json!({"hidden_act": "mish"}), ["`hidden_act` = \"mish\"", "supported: \"silu\", \"gelu\""]),
        (
            json!({"model_type": "mistral", "architectures": null, "attention_bias": true}),
            ["`attention_bias` = true", "supported: false"],
        ),
        (
            json!({"model_type": "qwen3", "architectures": null, "mlp_bias": true}),
            ["`mlp_bias` = true", "supported: false"],
        ),
        (
            json!({"rope_scaling": {"rope_type": "mrope"}}),
            ["`rope_scaling.rope_type` = \"mrope\"", "\"yarn\""],
        ),
        (json!({"rope_scaling": {"type": "ntk", "factor": 2.0}}), ["\"ntk\"", "\"linear\", \"dynamic\""]),
        (
            json!({"rope_parameters": {"mrope_section": [1, 2]}}),
            ["`rope_parameters.mrope_section`", "rope_type"],
        ),
        (json!({"rope_parameters": {"partial_rotary_factor": 0.5}}), ["0.5", "supported: 1"]),
        (json!({"quantization_config": {"bits": 4}}), ["`quantization_config`", "F16"]),
        (json!({"compression_config": {}}), ["`compression_config`", "null"]),
        (json!({"rope_scaling": {"factor": 8.0}}), ["`rope_scaling` = {", "default"]),
        (
            json!({"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}}),
            ["`rope_parameters.full_attention` = {", "rotary embedding"],
        ),
        (
            json!({"architectures": ["LlamaForSequenceClassification"]}),
            ["`architectures`", "LlamaForCausalLM"],
        ),
        (
            json!({"architectures": ["MixtralForCausalLM"]}),
            ["MixtralForCausalLM", "supported: [\"LlamaForCausalLM\"]"],
        ),
        (json!({"partial_rotary_factor": 0.5}), ["`partial_rotary_factor` = 0.5", "supported: 1"]),
        (json!({"final_logit_softcapping": 30.0}), ["`final_logit_softcapping` = 30.0", "no such field"]),
        (json!({"attn_logit_softcapping": 50.0}), ["`attn_logit_softcapping` = 50.0", "no such field"]),
        (json!({"logits_scaling": 8}), ["`logits_scaling` = 8", "supported: 1"]),
        (json!({"embedding_multiplier": 12.0}), ["`embedding_multiplier` = 12.0", "supported: 1"]),
        (json!({"qkv_bias": true}), ["`qkv_bias` = true", "supported: false"]),
        (json!({"use_qk_norm": true}), ["`use_qk_norm` = true", "supported: false"]),
        (json!({"num_local_experts": 8}), ["`num_local_experts` = 8", "supported: 0"]),
        (json!({"hidden_activation": "gelu_pytorch_tanh"}), ["`hidden_activation`", "no such field"]),
        (
            json!({"layer_types": ["full_attention", "linear_attention"]}),
            ["\"linear_attention\"", "full_attention"],
        ),
        (json!({"layer_types": ["sliding_attention"]}), ["\"sliding_attention\"", "full_attention"]),
    ] {
        let error = with(&changes).unwrap_err();
        assert!(matches!(error, ConfigError::Unsupported { .. }), "{error}");
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn a_window_counts_where_it_is_shorter_than_the_context() {
    let refusal = |changes: Value| with(&changes).unwrap_err().to_string();
    for changes in [
        json!({"sliding_window": 4096}),
        json!({"sliding_window": 4096, "use_sliding_window": true}),
        json!({"sliding_window": 4096, "layer_types": ["sliding_attention"]}),
    ] {
        assert_eq!(
            refusal(changes),
            "config.json asks for `sliding_window` = 4096, which is not supported: models of this type attend to all of the context \
             (`max_position_embeddings` = 8192); write 4096 there, for within the window the model is the same"
        );
    }
    assert!(refusal(json!({"sliding_window": "long"})).contains("`sliding_window` = \"long\""));
    // Longer windows, and windows that are turned off, change nothing.
    let plain = with(&json!({})).unwrap();
    for changes in [
        json!({"sliding_window": null}),
        json!({"sliding_window": 8192}),
        json!({"sliding_window": 4096, "use_sliding_window": false}),
        json!({"sliding_window": 8192, "layer_types": ["sliding_attention", "full_attention"]}),
        json!({"layer_types": ["full_attention"], "sliding_window": null}),
        json!({"architectures": ["LLaMAForCausalLM"], "logits_scaling": 1, "num_experts": 0, "qkv_bias": false}),
        json!({"architectures": null, "final_logit_softcapping": null, "partial_rotary_factor": 1.0}),
    ] {
        assert_eq!(with(&changes).unwrap(), plain, "{changes}");
    }
}

#[test]
fn end_tokens_are_read_of_any_model() {
    let ids = |text: &str| ModelConfig::eos_token_ids_from_json(text);
    assert_eq!(
        ids(r#"{"model_type": "mistral", "sliding_window": 5, "eos_token_id": [2, 3]}"#).unwrap(),
        [2, 3]
    );
    assert_eq!(ids("{}").unwrap(), [0u32; 0]);
    assert!(ids(r#"{"eos_token_id": "a"}"#).is_err() && ids("[]").is_err());
}

#[test]
fn senseless_values_are_refused_with_both_sides() {
    for (changes, words) in [
        (json!({"hidden_size": 0}), ["`hidden_size` = 0", "from 1 to 65536"]),
        (json!({"hidden_size": -3}), ["`hidden_size` = -3", "whole number"]),
        (json!({"hidden_size": "576"}), ["`hidden_size` = \"576\"", "whole number"]),
        (json!({"hidden_size": 577}), ["`hidden_size` = 577", "num_attention_heads = 9"]),
        (json!({"num_attention_heads": 0}), ["`num_attention_heads` = 0", "1 or more"]),
        (json!({"num_attention_heads": 9, "num_key_value_heads": 2}), ["`num_key_value_heads` = 2", "= 9"]),
        (json!({"num_key_value_heads": 0}), ["`num_key_value_heads` = 0", "from 1"]),
        (json!({"head_dim": 7}), ["`head_dim` = 7", "even"]),
        (json!({"head_dim": 65_536}), ["`head_dim` = 65536", "num_attention_heads = 9"]),
        (json!({"num_hidden_layers": 100_000}), ["`num_hidden_layers` = 100000", "1024"]),
        (json!({"vocab_size": 0}), ["`vocab_size` = 0", "16777216"]),
        (json!({"vocab_size": 1_u64 << 40}), ["`vocab_size` = 1099511627776", "16777216"]),
        (json!({"max_position_embeddings": 0}), ["`max_position_embeddings` = 0", "from 1"]),
        (json!({"rms_norm_eps": 0}), ["`rms_norm_eps` = 0", "above 0"]),
        (json!({"rope_theta": -1.0}), ["`rope_theta` = -1", "from 1"]),
        (json!({"rope_theta": "big"}), ["`rope_theta` = \"big\"", "a number"]),
        (json!({"tie_word_embeddings": "yes"}), ["`tie_word_embeddings` = \"yes\"", "true or false"]),
        (json!({"eos_token_id": 49_152}), ["`eos_token_id` = 49152", "vocab_size = 49152"]),
        (json!({"eos_token_id": [0, -1]}), ["`eos_token_id` = -1", "token id"]),
        (json!({"bos_token_id": 1.5}), ["`bos_token_id` = 1.5", "token id"]),
        (json!({"rope_parameters": 3}), ["`rope_parameters` = 3", "object"]),
        (
            json!({"hidden_size": 65_536, "head_dim": 64, "intermediate_size": 1_048_576, "num_hidden_layers": 1024}),
            ["`num_hidden_layers` = 1024", "is the limit"],
        ),
    ] {
        let error = with(&changes).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn absent_fields_and_other_documents_are_refused() {
    for field in [
        "model_type",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
    ] {
        let error = without(field).unwrap_err();
        assert!(error.to_string().contains(&format!("no field `{field}`")), "{error}");
    }
    for text in ["", "{", "[]", "3", "null", "{\"model_type\": }"] {
        let error = ModelConfig::from_json(text).unwrap_err();
        assert!(matches!(error, ConfigError::Json { .. }), "{text}: {error}");
    }
}

/// A checkpoint of each family with 10^12 in a field: an error that names the field, or a model of the same size.
#[test]
fn ten_to_the_twelve_in_a_field_makes_no_model_larger() {
    let (mut refused, mut accepted) = (0, 0);
    for folder in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parity")).unwrap() {
        let text = std::fs::read_to_string(folder.unwrap().path().join("config.json")).unwrap();
        let before = ModelConfig::from_json(&text).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        for (field, value) in config.as_object().unwrap().iter().filter(|(_, value)| value.is_number()) {
            let mut changed = config.clone();
            changed[field] = json!(1_000_000_000_000_u64);
            match ModelConfig::from_json(&changed.to_string()) {
                Ok(read) => {
                    accepted += 1;
                    let size = |config: &ModelConfig| (config.parameters(), config.context_len());
                    assert_eq!(size(&read), size(&before), "{field} = {value} in {text}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(field), "{field} = {value}: {error}");
                }
            }
        }
    }
    assert!(refused > 100 && accepted > 10, "{refused} refused, {accepted} accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Writing and reading back gives the same configuration (the JSON reader rounds reals to within a bit).
    #[test]
    fn writing_and_reading_is_the_identity(
        (shared, group, half, hidden, inner) in (1_usize..9, 1_usize..5, 1_usize..70, 1_usize..900, 1_usize..5000),
        (layers, vocab, context) in (1_usize..90, 300_usize..200_000, 1_usize..100_000),
        eps in 1e-9_f64..1e-2,
        theta in 1.0_f64..1e7,
        tied: bool,
        bos in proptest::option::of(0_u32..300),
        eos in proptest::collection::vec(0_u32..300, 0..4),
    ) {
        let config = ModelConfig {
            hidden_size: hidden,
            intermediate_size: inner,
            num_hidden_layers: layers,
            num_attention_heads: shared * group,
            num_key_value_heads: shared,
            head_dim: 2 * half,
            vocab_size: vocab,
            rms_norm_eps: eps,
            rope_theta: theta,
            max_position_embeddings: context,
            tie_word_embeddings: tied,
            bos_token_id: bos,
            eos_token_ids: eos,
            architecture: Architecture::llama(),
        };
        let mut read = ModelConfig::from_json(&config.to_json()).unwrap();
        let near = |left: f64, right: f64| (left / right - 1.0).abs() < 1e-15;
        prop_assert!(near(read.rope_theta, config.rope_theta) && near(read.rms_norm_eps, config.rms_norm_eps));
        (read.rope_theta, read.rms_norm_eps) = (config.rope_theta, config.rms_norm_eps);
        prop_assert_eq!(read, config);
    }

    /// Any value in any field ends in a configuration that validates, or in an error.
    #[test]
    fn no_value_of_a_field_panics(field in 0_usize..20, value in prop_oneof![
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(|flag| json!(flag)),
        ".{0,8}".prop_map(|text| json!(text)),
        Just(json!([])), Just(json!({})), Just(json!([{}])), Just(Value::Null),
    ]) {
        let mut config = base();
        let fields = config.as_object_mut().unwrap();
        let name = fields.keys().nth(field % fields.len()).unwrap().clone();
        fields.insert(name, value);
        if let Ok(config) = ModelConfig::from_json(&config.to_string()) {
            config.validate().unwrap();
        }
    }
}
