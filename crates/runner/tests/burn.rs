//! The decoder on the CPU beside burn's, over random models and over tiny checkpoints of every family: batches of
//! prompts and of single tokens, forks and truncations. The two share the reading of checkpoints, the places of
//! weights and the angles of rotations, and no product.

#[path = "integration/common/mod.rs"]
mod common;
/// Here each model of a GGUF file is compared on burn, too.
#[path = "integration/gguf/mod.rs"]
mod gguf;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{checkpoint, config, load, safetensors_bytes, tokens};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use safetensors::tensor::Dtype;
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId, conformance};
use unskew_runner::{Activation, Llama, LoadOptions, ModelConfig, Quantization, burn};

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
    let on_burn = cpu.to_burn(burn::Backend::Cpu);
    let (vocab, context) = (cpu.vocab_len() as u32, cpu.context_len().unwrap());
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
            let room = context - cpu.model.len(sequence);
            let len = below(most).max(usize::from(cpu.model.is_empty(sequence))).min(room);
            let ids = tokens(len, step * 31 + len as u64);
            pieces.push(ids.iter().map(|id| TokenId(id.0 % vocab)).collect());
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
    let mut model = load(&config, &checkpoint(&config, 1)).to_burn(burn::Backend::Cpu);
    conformance::check_model(&mut model, &texts, 1e-5).unwrap();
}

/// The checkpoints that transformers judges for the CPU.
fn folders() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity");
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
#[allow(clippy::print_stderr, reason = "a report of what was measured")]
fn every_family_is_that_of_the_cpu() {
    let mut families = BTreeSet::new();
    for (folder, seed) in folders().iter().zip(1..) {
        // Weights of eight bits reach burn as the numbers that they are.
        for quantization in [Quantization::None, Quantization::Q8_0] {
            let load = || {
                let mut options = LoadOptions::default();
                options.quantization = quantization;
                Llama::from_dir_with(folder, &mut options).unwrap()
            };
            families.insert(load().config().architecture.family.model_type());
            let apart = (0..4).map(|walks| walk(load(), 100 * walks + seed)).fold(0.0, f32::max);
            eprintln!("{}, {quantization:?}: {apart:.1e}", folder.file_name().unwrap().display());
            assert!(apart <= TOLERANCE, "{folder:?}, {quantization:?}: {apart}");
        }
    }
    assert_eq!(families.len(), 10, "{families:?}");
}

/// Switches that no checkpoint above turns on.
#[test]
fn every_activation_is_that_of_the_cpu() {
    for activation in
        [Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::QuickGelu, Activation::Relu]
    {
        for gated in [true, false] {
            let mut config = config([6, 2, 6, 36, 2], gated);
            config.architecture.activation = activation;
            config.architecture.gated = gated;
            config.architecture.biases.feed_forward = gated;
            let apart = walk(Llama::random(&config, 3).unwrap(), 3);
            assert!(apart <= TOLERANCE, "{activation:?}, gated: {gated}: {apart}");
        }
    }
}

#[test]
fn families_on_burn_keep_the_contract_of_models() {
    // Longer than the windows, and than the length at which frequencies change.
    let text: Vec<u32> = tokens(36, 4).iter().map(|id| id.0 % 40).collect();
    for name in ["gemma3", "gpt2", "llama-dynamic", "phi3"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity").join(name);
        let mut model = Llama::from_dir(folder).unwrap().to_burn(burn::Backend::Cpu);
        conformance::check_model(&mut model, &[vec![3], vec![1, 7], text.clone()], 1e-5).unwrap();
    }
}
