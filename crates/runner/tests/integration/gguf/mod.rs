//! GGUF files beside the same weights in safetensors, which transformers judges ([`crate::parity`]): every family,
//! every type of weights, and the files that are refused.
//!
//! The files are written here, by the rules of llama.cpp's converter as these are documented, and blocks are packed
//! from numbers whose products are formed here: no line is shared with the reader. Real files are read where
//! `UNSKEW_REAL_GGUF` names one and `UNSKEW_REAL_MODEL` the folder that transformers made of it.

mod blocks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::bf16;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use unskew_core::TokenId;
#[cfg(feature = "burn")]
use unskew_runner::burn::Backend;
use unskew_runner::{GgufModelError, Llama, LoadError, LoadOptions, Quantization};
use unskew_testdata::gguf::GgufWriter;

use crate::common::{Checkpoint, Stored, all_rows, checkpoint, config, distance, load, tokens};

/// A file that lives as long as this does.
struct File(tempfile::TempDir);

impl File {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.gguf"), bytes).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("model.gguf")
    }

    fn load(&self) -> Result<Llama, LoadError> {
        Llama::from_gguf(self.path())
    }
}

/// The tensors of a folder, and whether its matrices are of 16 bits.
fn tensors(folder: &Path) -> (Checkpoint, bool) {
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut is_short = false;
    let mut all = BTreeMap::new();
    for (name, view) in file.tensors() {
        let data = view.data();
        let values = match view.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            _ => {
                is_short = true;
                data.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect()
            }
        };
        all.insert(name, Stored { shape: view.shape().to_vec(), values });
    }
    (all, is_short)
}

/// The rows of each head in the order in which its halves take turns.
fn interleaved(values: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let half = values.len() / columns / heads / 2;
    let row = |row: usize| values[row * columns..][..columns].to_vec();
    (0..heads)
        .flat_map(|head| (0..half).flat_map(move |at| [0, half].map(|side| head * 2 * half + side + at)))
        .flat_map(row)
        .collect()
}

/// Names of parts: those of Hugging Face, and those of GGUF where norms follow the blocks or not.
const NAMES: &[(&str, &str, &str)] = &[
    ("self_attn.q_proj", "attn_q", "attn_q"),
    ("self_attn.k_proj", "attn_k", "attn_k"),
    ("self_attn.v_proj", "attn_v", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv", "attn_qkv"),
    ("attn.c_attn", "attn_qkv", "attn_qkv"),
    ("self_attn.o_proj", "attn_output", "attn_output"),
    ("attn.c_proj", "attn_output", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm", "attn_k_norm"),
    ("input_layernorm", "attn_norm", "attn_norm"),
    ("ln_1", "attn_norm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm", "post_attention_norm"),
    ("ln_2", "ffn_norm", "ffn_norm"),
    ("pre_feedforward_layernorm", "", "ffn_norm"),
    ("post_feedforward_layernorm", "", "post_ffw_norm"),
    ("mlp.gate_proj", "ffn_gate", "ffn_gate"),
    ("mlp.up_proj", "ffn_up", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up", "ffn_up"),
    ("mlp.c_fc", "ffn_up", "ffn_up"),
    ("mlp.down_proj", "ffn_down", "ffn_down"),
    ("mlp.c_proj", "ffn_down", "ffn_down"),
    ("embed_tokens", "token_embd", "token_embd"),
    ("wte", "token_embd", "token_embd"),
    ("wpe", "position_embd", "position_embd"),
    ("norm", "output_norm", "output_norm"),
    ("ln_f", "output_norm", "output_norm"),
    ("lm_head", "output", "output"),
];

/// The name of a tensor in a GGUF file.
fn renamed(name: &str, after: bool) -> String {
    let (part, suffix) = name.rsplit_once('.').unwrap();
    let part = part.trim_start_matches("model.").trim_start_matches("transformer.");
    let (layer, part) = match part.strip_prefix("layers.").or(part.strip_prefix("h.")) {
        Some(rest) => rest.split_once('.').map(|(layer, part)| (format!("blk.{layer}."), part)).unwrap(),
        None => (String::new(), part),
    };
    let (_, plain, other) = NAMES.iter().find(|(known, ..)| *known == part).unwrap();
    format!("{layer}{}.{suffix}", if after { other } else { plain })
}

/// How the matrices of a file are written: the number of the type, and its bytes of rows of some length.
type Write<'a> = &'a dyn Fn(&[f32]) -> (u32, Vec<u8>);

fn f32s(values: &[f32]) -> (u32, Vec<u8>) {
    (0, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn bf16s(values: &[f32]) -> (u32, Vec<u8>) {
    (30, values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect())
}

/// Writes a checkpoint as llama.cpp's converter does: with keys of sizes, and the tensors.
fn converted(architecture: &str, config: &Value, all: &Checkpoint, write: Write<'_>) -> GgufWriter {
    let mut file = GgufWriter::new();
    file.text("general.architecture", architecture).text("general.type", "model");
    let gpt2 = architecture == "gpt2";
    let size = |names: [&str; 2]| config[names[usize::from(gpt2)]].as_u64().map(|size| size as u32);
    let heads = size(["num_attention_heads", "n_head"]).unwrap();
    let shared = size(["num_key_value_heads", "n_head"]).unwrap();
    let width = size(["head_dim", "none"]);
    for (key, value) in [
        ("context_length", size(["max_position_embeddings", "n_positions"])),
        ("embedding_length", size(["hidden_size", "n_embd"])),
        ("block_count", size(["num_hidden_layers", "n_layer"])),
        ("feed_forward_length", size(["intermediate_size", "n_inner"])),
        ("attention.head_count", Some(heads)),
        ("attention.head_count_kv", Some(shared)),
        ("attention.key_length", width),
        ("attention.value_length", width),
    ] {
        if let Some(value) = value {
            file.number(&format!("{architecture}.{key}"), value);
        }
    }
    let eps = if gpt2 { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
    file.float(&format!("{architecture}.attention.{eps}"), 1e-5);
    if let Some(theta) = config["rope_theta"].as_f64() {
        file.float(&format!("{architecture}.rope.freq_base"), theta as f32);
    }
    let gemma = architecture.starts_with("gemma");
    for (name, Stored { shape, values }) in all {
        let mut values = values.clone();
        let mut shape = shape.clone();
        let is_norm = name.contains("norm");
        if gemma && is_norm {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        if matches!(architecture, "llama" | "smollm3") {
            let columns = shape.get(1).copied().unwrap_or(1);
            if name.contains("q_proj") {
                values = interleaved(&values, heads as usize, columns);
            } else if name.contains("k_proj") {
                values = interleaved(&values, shared as usize, columns);
            }
        }
        if gpt2 && shape.len() == 2 && name.contains("c_") {
            let (rows, columns) = (shape[0], shape[1]);
            values = (0..values.len()).map(|at| values[at % rows * columns + at / rows]).collect();
            shape.reverse();
        }
        shape.reverse();
        let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
        let (kind, data) = if shape.len() == 1 { f32s(&values) } else { write(&values) };
        file.tensor(&renamed(name, gemma || architecture == "olmo2"), &shape, kind, data);
    }
    file
}

/// The checkpoints of [`crate::parity`] with what their family has in GGUF files: other switches of a configuration
/// are fixed there.
#[test]
fn every_family_is_that_of_its_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity");
    let text = tokens(100, 3).into_iter().map(|id| TokenId(id.0 % 40)).collect::<Vec<_>>();
    for (name, architecture) in [
        ("llama", "llama"),
        ("llama-bf16", "llama"),
        ("llama-linear", "llama"),
        ("llama-yarn", "llama"),
        ("llama-llama3", "llama"),
        ("mistral", "llama"),
        ("qwen2", "qwen2"),
        ("qwen3", "qwen3"),
        ("smollm3", "smollm3"),
        ("gemma2", "gemma2"),
        ("gemma2-bf16", "gemma2"),
        ("gemma3", "gemma3"),
        ("phi3", "phi3"),
        ("gpt2", "gpt2"),
        ("gpt2-bf16", "gpt2"),
        ("olmo2", "olmo2"),
    ] {
        let folder = folder.join(name);
        let text_of = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&text_of).unwrap();
        let (all, is_short) = tensors(&folder);
        let rope = config["rope_parameters"].clone();
        let key = |key: &str| format!("{architecture}.{key}");
        match name {
            "llama-llama3" => config["hidden_act"] = json!("silu"),
            "mistral" => config["sliding_window"] = Value::Null,
            "qwen2" | "qwen3" | "smollm3" => {
                config["use_sliding_window"] = json!(false);
                config["layer_types"] = Value::Null;
                if name == "smollm3" {
                    config["no_rope_layers"] = json!([1, 1, 1, 0]);
                }
            }
            "gpt2" | "gpt2-bf16" => config["scale_attn_by_inverse_layer_idx"] = json!(false),
            _ if architecture.starts_with("gemma") => {
                config["query_pre_attn_scalar"] = config["head_dim"].clone();
            }
            _ => {}
        }
        // Files hold it in 32 bits.
        let eps = if architecture == "gpt2" { "layer_norm_epsilon" } else { "rms_norm_eps" };
        config[eps] = json!(f64::from(1e-5f32));
        let expected = {
            let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
            all_rows(&mut Llama::from_bytes(&config.to_string(), &bytes).unwrap(), &text)
        };
        let theta =
            if name == "gemma3" { &rope["full_attention"]["rope_theta"] } else { &rope["rope_theta"] };
        config["rope_theta"] = theta.clone();
        let write: Write<'_> = if is_short { &bf16s } else { &f32s };
        let mut file = converted(architecture, &config, &all, write);
        match name {
            "llama-linear" => {
                file.text(&key("rope.scaling.type"), "linear").float(&key("rope.scaling.factor"), 4.0);
            }
            "llama-yarn" => {
                file.text(&key("rope.scaling.type"), "yarn").float(&key("rope.scaling.factor"), 4.0);
                file.number(&key("rope.scaling.original_context_length"), 32);
                file.float(&key("rope.scaling.yarn_beta_fast"), 16.0);
                file.float(&key("rope.scaling.yarn_beta_slow"), 2.0);
            }
            "llama-llama3" => {
                // As the converter computes them.
                let divisors: Vec<f32> = (0..4)
                    .map(|pair| {
                        let wave = std::f64::consts::TAU * 500f64.powf(f64::from(pair) / 4.0);
                        let smooth = (32.0 / wave - 1.0) / (4.0 - 1.0);
                        match wave {
                            _ if wave < 32.0 / 4.0 => 1.0,
                            _ if wave > 32.0 => 8.0,
                            _ => (1.0 / ((1.0 - smooth) / 8.0 + smooth)) as f32,
                        }
                    })
                    .collect();
                file.tensor("rope_freqs.weight", &[4], 0, f32s(&divisors).1);
            }
            "gemma2" | "gemma2-bf16" | "gemma3" => {
                file.number(&key("attention.sliding_window"), 10);
                file.float(&key("final_logit_softcapping"), 1.5);
                if name == "gemma3" {
                    file.number(&key("attention.sliding_window_pattern"), 2);
                    file.float(&key("rope.freq_base_swa"), 90.0);
                    file.text(&key("rope.scaling.type"), "linear").float(&key("rope.scaling.factor"), 4.0);
                } else {
                    file.float(&key("attn_logit_softcapping"), 2.0);
                }
            }
            "phi3" => {
                file.number(&key("attention.sliding_window"), 40).number(&key("rope.dimension_count"), 4);
                file.number(&key("rope.scaling.original_context_length"), 32);
                let attention = (1.0 + 4f64.ln() / 32f64.ln()).sqrt();
                file.float(&key("rope.scaling.attn_factor"), attention as f32);
                file.tensor("rope_factors_long.weight", &[2], 0, f32s(&[1.5, 3.0]).1);
                file.tensor("rope_factors_short.weight", &[2], 0, f32s(&[1.0, 1.3]).1);
            }
            _ => {}
        }
        let mut model = File::new(&file.bytes()).load().unwrap_or_else(|error| panic!("{name}: {error}"));
        let apart = distance(&all_rows(&mut model, &text), &expected);
        // Divisors of frequencies are rounded, and the one of Gemma's norms was added.
        assert!(apart <= 2e-5, "{name}: {apart}");
        let exact = !matches!(name, "llama-llama3" | "phi3" | "gemma3") && !name.starts_with("gemma2");
        assert!(!exact || apart == 0.0, "{name}: {apart}");
        #[cfg(feature = "burn")]
        {
            let apart = distance(&all_rows(&mut model.to_burn(Backend::Cpu), &text), &expected);
            assert!(apart <= 2e-4, "{name} on burn: {apart}");
        }
        assert_eq!(model.config().tie_word_embeddings, config["tie_word_embeddings"] == true, "{name}");
    }
}

/// A model whose matrices are all of one type of blocks, and the same in f32.
#[test]
fn every_type_of_weights_is_the_model_of_its_values() {
    let mut shape = config([4, 2, 64, 256, 1], false);
    shape.intermediate_size = 512;
    shape.rms_norm_eps = f64::from(1e-5f32);
    let text = tokens(12, 5);
    let json: Value = serde_json::from_str(&shape.to_json()).unwrap();
    for (kind, kept) in [
        (2, "q8_0"),
        (3, "q8_affine"),
        (6, "q8_0"),
        (7, "q8_affine"),
        (8, "q8_0"),
        (10, "f32"),
        (11, "f32"),
        (12, "q8_affine"),
        (13, "q8_affine"),
        (14, "f32"),
        (20, "q8_0"),
    ] {
        let mut random = ChaCha8Rng::seed_from_u64(u64::from(kind));
        let mut all = checkpoint(&shape, 1);
        let mut packed = BTreeMap::new();
        for (name, stored) in &mut all {
            if stored.shape.len() == 2 {
                let (mut bytes, mut values) = (Vec::new(), Vec::new());
                while values.len() < stored.values.len() {
                    let (block, numbers) = blocks::block(kind, &mut random);
                    bytes.extend(block);
                    values.extend(numbers);
                }
                stored.values.clone_from(&values);
                packed.insert(name.clone(), bytes);
            }
        }
        // Rows take turns in the file, so that the same blocks stand for other rows of the checkpoint.
        let mut file = converted("llama", &json, &all, &f32s);
        let mut quantised = GgufWriter::new();
        let mut expected = all.clone();
        quantised.clone_from(&file);
        quantised.replace_tensors(|name| {
            let of = all.keys().find(|of| renamed(of, false) == name).unwrap();
            Some((kind, packed.get(of)?.clone()))
        });
        for (name, heads) in [("q_proj", 4), ("k_proj", 2)] {
            let name = format!("model.layers.0.self_attn.{name}.weight");
            let stored = expected.get_mut(&name).unwrap();
            let (rows, columns) = (stored.shape[0], stored.shape[1]);
            let half = rows / heads / 2;
            let rows = (0..rows).flat_map(|row| {
                let (head, side, at) = (row / (2 * half), row / half % 2, row % half);
                all[&name].values[(head * 2 * half + 2 * at + side) * columns..][..columns].to_vec()
            });
            stored.values = rows.collect();
        }
        file = quantised;
        let file = File::new(&file.bytes());
        let mut model = file.load().unwrap();
        assert_eq!(model.kept_as(), kept, "type {kind}");
        let expected = all_rows(&mut load(&shape, &expected), &text);
        let rows = all_rows(&mut model, &text);
        let largest = expected.iter().flatten().fold(0.0f32, |most, value| most.max(value.abs()));
        let apart = distance(&rows, &expected);
        // In eight bits the sums are rounded in another order.
        let limit = if kept == "f32" { 0.0 } else { 1e-5 * f64::from(largest.max(1.0)) };
        assert!(apart <= limit, "type {kind}: {apart} of {largest}");
        #[cfg(feature = "burn")]
        {
            let apart = distance(&all_rows(&mut model.to_burn(Backend::Cpu), &text), &expected);
            let limit = 1e-5 * f64::from(largest.max(1.0));
            assert!(apart <= limit, "type {kind} on burn: {apart} of {largest}");
        }
        let mut options = LoadOptions::default();
        options.quantization = Quantization::Q8_0;
        let model = Llama::from_gguf_with(file.path(), &mut options).unwrap();
        assert_eq!(model.kept_as(), "q8_0", "type {kind}");
    }
}

/// A small file, to be changed.
fn small() -> GgufWriter {
    let shape = config([4, 2, 8, 32, 2], true);
    let json: Value = serde_json::from_str(&shape.to_json()).unwrap();
    converted("llama", &json, &checkpoint(&shape, 1), &f32s)
}

fn refused(file: &GgufWriter) -> LoadError {
    File::new(&file.bytes()).load().expect_err("the file is refused")
}

type Change<'a> = &'a dyn Fn(&mut GgufWriter) -> &mut GgufWriter;

#[test]
fn models_of_other_kinds_are_refused_by_name() {
    File::new(&small().bytes()).load().unwrap();
    let other = |change: Change<'_>| {
        let mut file = small();
        change(&mut file);
        let error = refused(&file);
        assert!(error.is_beyond(), "{error}");
        error.to_string()
    };
    let cases: [(Change<'_>, &str); 8] = [
        (
            &|file| file.number("llama.expert_count", 8),
            "`llama.expert_count` is 8, which is not computed here; computed is 0, or no such key",
        ),
        (&|file| file.number("llama.attention.sliding_window", 64), "sliding_window` is 64"),
        (&|file| file.float("llama.residual_scale", 0.5), "`llama.residual_scale` is 0.5"),
        (&|file| file.text("llama.rope.scaling.type", "su"), "rope.scaling.type` is \"su\""),
        (&|file| file.number("llama.rope.dimension_count", 4), "rope.dimension_count` is 4"),
        (&|file| file.number("split.count", 3), "split into 3 files"),
        (
            &|file| file.tensor("blk.1.ffn_gate_inp.weight", &[4], 0, vec![0; 16]),
            "the tensor `blk.1.ffn_gate_inp.weight` is no part of a \"llama\"",
        ),
        (
            &|file| file.tensor("output.weight", &[32, 41], 26, vec![0; 4 * 32 * 41]),
            "the tensor `output.weight` has the type I32, which is not read here; F32, F16,",
        ),
    ];
    for (change, words) in cases {
        let message = other(change);
        assert!(message.contains("model.gguf: ") && message.contains(words), "{message}");
    }
    let error = refused(GgufWriter::new().text("general.architecture", "mamba"));
    assert!(error.is_beyond() && error.to_string().contains("the architecture \"mamba\" is not"), "{error}");
}

#[test]
fn faults_of_files_are_no_other_models() {
    let check = |error: LoadError, words: &str| {
        assert!(!error.is_beyond(), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let error = Llama::from_gguf("no such file.gguf").unwrap_err();
    assert!(matches!(error, LoadError::Io { .. }), "{error}");
    check(File::new(b"GGML").load().unwrap_err(), "not a GGUF file");
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama");
    check(refused(&file), "there is no key `llama.embedding_length`");
    let bytes = small().bytes();
    check(File::new(&bytes[..bytes.len() - 4000]).load().unwrap_err(), "model.gguf: the tensor");
    let mut file = small();
    file.replace_tensors(|name| (name == "blk.1.ffn_up.weight").then(|| (0, vec![0; 4])));
    check(refused(&file), "model.gguf: the tensor");
    let mut file = small();
    file.tensor("blk.0.attn_q.bias", &[32], 0, f32s(&[0.0; 32]).1);
    // Biases of one layer are those of all.
    let error = refused(&file);
    assert!(matches!(&error, LoadError::Missing { tensor, .. } if tensor == "blk.0.attn_k.bias"), "{error}");
    let mut file = small();
    file.tensor("output.weight", &[32, 40], 0, vec![0; 4 * 32 * 40]);
    let error = refused(&file);
    assert!(matches!(&error, LoadError::Shape { found, .. } if *found == [40, 32]), "{error}");
    let mut file = small();
    file.tensor("output.weight", &[32, 41], 0, f32s(&[f32::NAN; 32 * 41]).1);
    check(refused(&file), "`output.weight` holds NaN at 0");
    let mut file = small();
    file.number("tokenizer.ggml.eos_token_id", 99);
    let error = refused(&file);
    assert!(
        matches!(&error, LoadError::Gguf { source, .. } if matches!(**source, GgufModelError::Invalid { .. })),
        "{error}"
    );
}

/// Changed bytes in front of the weights give a model or an error of one line.
#[test]
fn damaged_files_never_panic() {
    let mut bytes = small().bytes();
    let header = unskew_gguf::Gguf::from_bytes(&bytes).unwrap().data_start() as usize;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..1500 {
        let changes: Vec<(usize, u8)> = (0..1 + random.next_u32() % 3)
            .map(|_| (random.next_u32() as usize % header, (random.next_u32() >> 8) as u8))
            .collect();
        let old: Vec<u8> =
            changes.iter().map(|(at, byte)| std::mem::replace(&mut bytes[*at], *byte)).collect();
        if let Err(error) = File::new(&bytes).load() {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        for ((at, _), old) in changes.iter().zip(old).rev() {
            bytes[*at] = old;
        }
    }
}

/// A real file beside the folder that transformers made of it.
#[test]
#[allow(clippy::print_stderr, reason = "the difference of a real model")]
fn a_real_file_is_the_model_of_its_folder() {
    let [file, folder] = ["UNSKEW_REAL_GGUF", "UNSKEW_REAL_MODEL"].map(std::env::var_os);
    let (Some(file), Some(folder)) = (file, folder) else {
        eprintln!("skipped: UNSKEW_REAL_GGUF and UNSKEW_REAL_MODEL name no file and no folder");
        return;
    };
    let (mut ours, mut expected) = (Llama::from_gguf(file).unwrap(), Llama::from_dir(folder).unwrap());
    let rows = ours.config().vocab_size as u32;
    let mut most = 0.0f64;
    for seed in 0..3 {
        let text: Vec<TokenId> = tokens(24, seed).iter().map(|id| TokenId(id.0 * 997 % rows)).collect();
        most = most.max(distance(&all_rows(&mut ours, &text), &all_rows(&mut expected, &text)));
    }
    eprintln!("largest difference of logits: {most:.1e}");
    assert!(most <= 2e-3, "{most}");
}
