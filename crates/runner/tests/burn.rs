//! The decoder on the CPU beside burn's, over random models with every switch of a configuration: batches of prompts
//! and of single tokens, forks and truncations. The two share the reading of checkpoints and the angles of rotations,
//! and no product.

#[path = "integration/common/mod.rs"]
mod common;

use common::{checkpoint, config, load, safetensors_bytes, tokens};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use safetensors::tensor::Dtype;
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId, conformance};
use unskew_runner::{Llama, ModelConfig, burn};

const TOLERANCE: f32 = 2e-4;

/// A model with its sequences, which grow and shrink in step with those of the other one.
struct Side<M: LanguageModel> {
    model: M,
    sequences: Vec<M::Sequence>,
}

impl<M: LanguageModel> Side<M> {
    fn new(mut model: M) -> Self {
        let sequences = vec![model.start()];
        Self { model, sequences }
    }

    fn extend(&mut self, pieces: &[Vec<TokenId>], wanted: &[Rows]) -> Logits {
        let items = self.sequences.iter_mut().zip(pieces).zip(wanted);
        let mut batch: Vec<_> =
            items.map(|((sequence, tokens), rows)| Extension { sequence, tokens, rows: *rows }).collect();
        let mut logits = Logits::new();
        self.model.extend(&mut batch, &mut logits).unwrap();
        logits
    }

    fn fork(&mut self, of: usize) {
        let copy = self.model.fork(&self.sequences[of]);
        self.sequences.push(copy);
    }

    fn truncate(&mut self, of: usize, len: usize) {
        self.model.truncate(&mut self.sequences[of], len);
    }
}

/// Walks through both models, and returns the largest difference of two logits.
fn walk(cpu: Llama, seed: u64) -> f32 {
    let on_burn = cpu.to_burn(burn::Backend::Cpu).unwrap();
    let (mut cpu, mut on_burn) = (Side::new(cpu), Side::new(on_burn));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |end: usize| random.next_u32() as usize % end;
    let (mut most, mut largest) = (0.0_f32, 0.0_f32);
    for step in 0..25 {
        let count = cpu.sequences.len();
        let of = below(count);
        match below(4) {
            0 if count < 7 => {
                cpu.fork(of);
                on_burn.fork(of);
            }
            1 => {
                let len = below(cpu.model.len(&cpu.sequences[of]) + 1);
                cpu.truncate(of, len);
                on_burn.truncate(of, len);
            }
            _ => {}
        }
        let mut pieces = Vec::new();
        let mut wanted = Vec::new();
        for sequence in &cpu.sequences {
            let most = [1, 2, 5, 70][below(4)];
            let len = below(most);
            pieces.push(tokens(len.max(usize::from(cpu.model.is_empty(sequence))), step * 31 + len as u64));
            wanted.push([Rows::Last, Rows::All, Rows::From(1)][below(3)]);
        }
        let (left, right) = (cpu.extend(&pieces, &wanted), on_burn.extend(&pieces, &wanted));
        assert_eq!(left.len(), right.len());
        for (left, right) in left.rows().zip(right.rows()) {
            assert_eq!(left.len(), right.len());
            for (left, right) in left.iter().zip(right) {
                most = most.max((left - right).abs());
                largest = largest.max(left.abs());
            }
        }
    }
    assert!(largest > 1.0, "the logits are too even to tell anything: {largest}");
    most
}

/// Heads, key and value heads, width of a head, hidden size, layers.
const SIZES: [[usize; 5]; 7] = [
    [4, 4, 8, 32, 1],
    [6, 2, 6, 36, 2],
    [3, 1, 10, 24, 2],
    [5, 5, 2, 7, 3],
    [4, 2, 34, 20, 2],
    [1, 1, 64, 64, 1],
    [9, 3, 32, 96, 2],
];

fn configs() -> impl Iterator<Item = (ModelConfig, u64)> {
    (0..2).flat_map(|tied| SIZES.map(|sizes| (sizes, tied == 1))).zip(1..).map(|((sizes, tied), seed)| {
        let mut config = config(sizes, tied);
        config.rope_theta = [1e4, 500.0, 1e6][seed as usize % 3];
        config.rms_norm_eps = [1e-5, 0.1][seed as usize % 2];
        (config, seed)
    })
}

#[test]
fn logits_are_those_of_burn() {
    for (config, seed) in configs() {
        let stored = checkpoint(&config, seed);
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let bytes = safetensors_bytes(&stored, dtype);
            let apart = walk(Llama::from_bytes(&config.to_json(), &bytes).unwrap(), seed);
            assert!(apart <= TOLERANCE, "{config:?} in {dtype:?}: {apart}");
        }
    }
}

#[test]
fn random_models_are_those_of_burn() {
    for (config, seed) in configs() {
        let apart = walk(Llama::random(&config, seed).unwrap(), seed);
        assert!(apart <= TOLERANCE, "{config:?}: {apart}");
    }
}

#[test]
fn models_on_burn_keep_the_contract_of_models() {
    let config = config([6, 2, 6, 36, 2], true);
    let texts = [vec![3], vec![1, 7], tokens(9, 9).iter().map(|token| token.0).collect()];
    let mut model = load(&config, &checkpoint(&config, 1)).to_burn(burn::Backend::Cpu).unwrap();
    conformance::check_model(&mut model, &texts, 1e-5).unwrap();
}

#[test]
fn what_burn_does_not_compute_is_named() {
    for (fields, words) in [
        (r#""model_type": "qwen2""#, "`model_type` = \"qwen2\""),
        (r#""model_type": "llama", "attention_bias": true"#, "`attention_bias` = true"),
        (r#""model_type": "llama", "mlp_bias": true"#, "`mlp_bias` = true"),
        (r#""model_type": "llama", "hidden_act": "gelu""#, "`hidden_act` = Gelu"),
        (
            r#""model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2.0}"#,
            "`rope_scaling` = Linear",
        ),
    ] {
        let text = format!(
            r#"{{{fields}, "hidden_size": 8, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
                "num_key_value_heads": 1, "vocab_size": 7}}"#
        );
        let model = Llama::random(&ModelConfig::from_json(&text).unwrap(), 1).unwrap();
        let error = model.to_burn(burn::Backend::Cpu).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("on burn"), "{error}");
    }
}
