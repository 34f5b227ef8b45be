//! Small random checkpoints, made here from scratch. Names, shapes and bytes are spelled out a second time, so that a
//! mistake in the crate's own table of parameters shows.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unreachable_pub, reason = "shared between test files")]

use std::collections::{BTreeMap, HashMap};

use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use safetensors::tensor::{Dtype, TensorView};
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::{Architecture, Llama, ModelConfig};

/// A tensor as in a checkpoint, linear maps `[out, in]`.
#[derive(Clone, Debug)]
pub struct Stored {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

pub type Checkpoint = BTreeMap<String, Stored>;

/// `[heads, key_value_heads, head_dim, hidden, layers]` and whether the head is tied.
pub fn config(sizes: [usize; 5], tied: bool) -> ModelConfig {
    let [heads, shared, width, hidden, layers] = sizes;
    ModelConfig {
        hidden_size: hidden,
        intermediate_size: 2 * hidden + 3,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: shared,
        head_dim: width,
        vocab_size: 41,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        max_position_embeddings: 2000,
        tie_word_embeddings: tied,
        bos_token_id: Some(1),
        eos_token_ids: vec![2],
        architecture: Architecture::llama(),
    }
}

/// Random weights for a configuration. Values are multiples of 1/64 below 2: exact in f16 and bf16.
pub fn checkpoint(config: &ModelConfig, seed: u64) -> Checkpoint {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Checkpoint::new();
    let mut add = |name: String, shape: &[usize], centre: f32, spread: f32| {
        let count = shape.iter().product();
        let values = (0..count)
            .map(|_| {
                let unit = (random.next_u32() >> 8) as f32 / (1 << 24) as f32;
                ((centre + spread * (2.0 * unit - 1.0)) * 64.0).round() / 64.0
            })
            .collect();
        all.insert(name, Stored { shape: shape.to_vec(), values });
    };
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let query = config.num_attention_heads * config.head_dim;
    let value = config.num_key_value_heads * config.head_dim;
    let spread = |inputs: usize| 1.7 / (inputs as f32).sqrt();
    add("model.embed_tokens.weight".into(), &[config.vocab_size, hidden], 0.0, 1.0);
    for layer in 0..config.num_hidden_layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        add(name("input_layernorm"), &[hidden], 1.0, 0.5);
        add(name("self_attn.q_proj"), &[query, hidden], 0.0, spread(hidden));
        add(name("self_attn.k_proj"), &[value, hidden], 0.0, spread(hidden));
        add(name("self_attn.v_proj"), &[value, hidden], 0.0, spread(hidden));
        add(name("self_attn.o_proj"), &[hidden, query], 0.0, spread(query));
        add(name("post_attention_layernorm"), &[hidden], 1.0, 0.5);
        add(name("mlp.gate_proj"), &[inner, hidden], 0.0, spread(hidden));
        add(name("mlp.up_proj"), &[inner, hidden], 0.0, spread(hidden));
        add(name("mlp.down_proj"), &[hidden, inner], 0.0, spread(inner));
    }
    add("model.norm.weight".into(), &[hidden], 1.0, 0.5);
    if !config.tie_word_embeddings {
        add("lm_head.weight".into(), &[config.vocab_size, hidden], 0.0, spread(hidden));
    }
    all
}

/// The bytes of a safetensors file with these tensors, rounded to `dtype`.
pub fn safetensors_bytes(checkpoint: &Checkpoint, dtype: Dtype) -> Vec<u8> {
    let encoded: Vec<(&String, &Stored, Vec<u8>)> = checkpoint
        .iter()
        .map(|(name, stored)| {
            let values = stored.values.iter().copied();
            let bytes: Vec<u8> = match dtype {
                Dtype::F32 => values.flat_map(f32::to_le_bytes).collect(),
                Dtype::F16 => values.flat_map(|value| f16::from_f32(value).to_le_bytes()).collect(),
                Dtype::BF16 => values.flat_map(|value| bf16::from_f32(value).to_le_bytes()).collect(),
                Dtype::F64 => values.flat_map(|value| f64::from(value).to_le_bytes()).collect(),
                other => panic!("no test writes {other:?}"),
            };
            (name, stored, bytes)
        })
        .collect();
    let views = encoded.iter().map(|(name, stored, bytes)| {
        (name.as_str(), TensorView::new(dtype, stored.shape.clone(), bytes).expect("lengths agree"))
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(views, Some(metadata)).expect("valid tensors")
}

/// The model of a checkpoint.
pub fn load(config: &ModelConfig, checkpoint: &Checkpoint) -> Llama {
    Llama::from_bytes(&config.to_json(), &safetensors_bytes(checkpoint, Dtype::F32))
        .expect("a valid checkpoint")
}

/// `count` token ids below the test vocabulary.
pub fn tokens(count: usize, seed: u64) -> Vec<TokenId> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| TokenId(random.next_u32() % 41)).collect()
}

/// Appends to one sequence and returns the rows.
pub fn extend<M: LanguageModel>(
    model: &mut M,
    sequence: &mut M::Sequence,
    tokens: &[TokenId],
    rows: Rows,
) -> Vec<Vec<f32>> {
    let mut logits = Logits::new();
    model.extend(&mut [Extension { sequence, tokens, rows }], &mut logits).expect("a valid batch");
    logits.rows().map(<[f32]>::to_vec).collect()
}

/// The rows after each token of a fresh sequence.
pub fn all_rows(model: &mut impl LanguageModel, tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let mut sequence = model.start();
    extend(model, &mut sequence, tokens, Rows::All)
}

/// Largest absolute difference; rows must agree in number and length.
pub fn distance<A: Copy + Into<f64>, B: Copy + Into<f64>>(left: &[Vec<A>], right: &[Vec<B>]) -> f64 {
    assert_eq!(left.len(), right.len(), "number of rows");
    let mut most = 0.0_f64;
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.len(), right.len(), "length of a row");
        for (left, right) in left.iter().zip(right) {
            let difference = ((*left).into() - (*right).into()).abs();
            assert!(!difference.is_nan(), "a logit is not a number");
            most = most.max(difference);
        }
    }
    most
}
