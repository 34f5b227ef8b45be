//! Any text as a `config.json`, and small checkpoints with changed fields and bytes. The result is an error
//! of one line, or a model that satisfies the contract of models.

#![no_main]

use std::fmt::Write as _;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use unskew_core::conformance;
use unskew_runner::{Llama, ModelConfig};

#[derive(Arbitrary, Debug)]
enum Case<'a> {
    Config(&'a str),
    Changed { fields: Vec<(u8, u8)>, header: Vec<(u16, u8)>, cut: Option<u8> },
}

/// The values for fields: extreme values of each type, and values small enough for a model.
fn values() -> [Value; 34] {
    [
        json!(0),
        json!(1),
        json!(2),
        json!(4),
        json!(7),
        json!(16),
        json!(-1),
        json!(1u64 << 24),
        json!(u64::MAX),
        json!(0.5),
        json!(1e308),
        json!(1e-320),
        json!(true),
        json!(null),
        json!("llama"),
        json!([0, 1]),
        json!({"rope_type": "default", "rope_theta": 1e4}),
        json!({"rope_type": "yarn", "factor": 2.0}),
        json!({"rope_type": "linear", "factor": 2.0}),
        json!({"rope_type": "dynamic", "factor": 3.0}),
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}),
        json!({"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [3, 1e9]}),
        json!({"full_attention": {"rope_theta": 5.0}, "sliding_attention": {"rope_type": "linear", "factor": 2.0}}),
        json!(1_000_000_000_000_u64),
        json!("mistral"),
        json!("qwen2"),
        json!("qwen3"),
        json!("smollm3"),
        json!("gemma2"),
        json!("gemma3_text"),
        json!("phi3"),
        json!("gpt2"),
        json!("olmo2"),
        json!("gelu"),
    ]
}

fn good() -> Value {
    json!({
        "architectures": null, "model_type": "llama", "hidden_act": "silu",
        "attention_bias": false, "mlp_bias": false, "bos_token_id": 0, "eos_token_id": 0, "head_dim": 4,
        "hidden_size": 8, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": true,
        "vocab_size": 7, "max_position_embeddings": 16, "rope_scaling": null, "rope_parameters": null,
        "quantization_config": null, "sliding_window": null, "use_sliding_window": null, "logit_scale": null,
        "num_experts": null, "torch_dtype": "float16", "original_max_position_embeddings": null, "layer_types": null,
        "no_rope_layers": null, "query_pre_attn_scalar": null, "attn_logit_softcapping": null, "partial_rotary_factor": null,
    })
}

/// The weights of the valid configuration, as safetensors in half precision, each with its own value.
fn weights() -> Vec<u8> {
    let layer = "model.layers.0.";
    let tensors: [(&str, &str, &[usize]); 11] = [
        ("model.", "embed_tokens", &[7, 8]),
        (layer, "input_layernorm", &[8]),
        (layer, "self_attn.q_proj", &[8, 8]),
        (layer, "self_attn.k_proj", &[4, 8]),
        (layer, "self_attn.v_proj", &[4, 8]),
        (layer, "self_attn.o_proj", &[8, 8]),
        (layer, "post_attention_layernorm", &[8]),
        (layer, "mlp.gate_proj", &[4, 8]),
        (layer, "mlp.up_proj", &[4, 8]),
        (layer, "mlp.down_proj", &[8, 4]),
        ("model.", "norm", &[8]),
    ];
    let (mut header, mut values) = ("{".to_owned(), Vec::new());
    for (prefix, name, shape) in tensors {
        let begin = values.len();
        // 0.5 to 1.5 in f16.
        values.extend(
            (0..shape.iter().product::<usize>())
                .flat_map(|at| (0x3800 + at as u16 * 37 % 0x600).to_le_bytes()),
        );
        let comma = if begin == 0 { "" } else { "," };
        let _ = write!(
            header,
            r#"{comma}"{prefix}{name}.weight":{{"dtype":"F16","shape":{shape:?},"data_offsets":[{begin},{}]}}"#,
            values.len()
        );
    }
    header += "}";
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat()
}

fuzz_target!(|case: Case<'_>| {
    let (config, weights) = match case {
        Case::Config(text) => (text.to_owned(), weights()),
        Case::Changed { fields, header, cut } => {
            let (mut config, values, mut weights) = (good(), values(), weights());
            let names: Vec<String> = config.as_object().unwrap().keys().cloned().collect();
            for (field, value) in fields {
                let name = &names[usize::from(field) % names.len()];
                config[name] = values[usize::from(value) % values.len()].clone();
            }
            for (at, byte) in header {
                let at = usize::from(at) % weights.len();
                weights[at] = byte;
            }
            weights.truncate(weights.len() - usize::from(cut.unwrap_or(0)));
            (config.to_string(), weights)
        }
    };
    match ModelConfig::from_json(&config) {
        Ok(read) => {
            let again = ModelConfig::from_json(&read.to_json()).expect("what was written is read");
            assert_eq!(again, read, "{config}");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    match Llama::from_bytes(&config, &weights) {
        Ok(mut model) => {
            // Weights that are NaN or overflow give no distribution. The contract applies to rows of numbers.
            let texts = [vec![0, 1, 2], vec![3]];
            if let Err(error) = conformance::check_model(&mut model, &texts, 1e-2) {
                let error = error.to_string();
                assert!(!error.contains("panicked"), "{error}");
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
