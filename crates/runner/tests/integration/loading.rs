//! Checkpoints from files and from memory: every way of storing the same weights gives the same model, and every
//! fault of a file is an error that says where.

use std::fs;
use std::path::Path;

use crate::common::{Checkpoint, all_rows, checkpoint, config, load, safetensors_bytes, tokens};
use safetensors::tensor::Dtype;
use unskew_runner::{Llama, LoadError, ModelConfig};

fn small() -> (ModelConfig, Checkpoint) {
    let config = config([4, 2, 8, 32, 2], false);
    let checkpoint = checkpoint(&config, 1);
    (config, checkpoint)
}

/// Loads a checkpoint that must be refused.
fn refused(config: &ModelConfig, bytes: &[u8]) -> LoadError {
    Llama::from_bytes(&config.to_json(), bytes).expect_err("the checkpoint is wrong")
}

#[test]
fn f32_f16_and_bf16_hold_the_same_model() {
    let (config, checkpoint) = small();
    let text = tokens(9, 1);
    let expected = all_rows(&mut load(&config, &checkpoint), &text);
    for dtype in [Dtype::F16, Dtype::BF16] {
        let bytes = safetensors_bytes(&checkpoint, dtype);
        let mut model = Llama::from_bytes(&config.to_json(), &bytes).unwrap();
        assert_eq!(all_rows(&mut model, &text), expected, "{dtype:?}");
    }
}

#[test]
fn unknown_tensors_are_ignored() {
    let (config, mut checkpoint) = small();
    let text = tokens(9, 1);
    let expected = all_rows(&mut load(&config, &checkpoint), &text);
    let extra = checkpoint["model.norm.weight"].clone();
    checkpoint.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), extra);
    assert_eq!(all_rows(&mut load(&config, &checkpoint), &text), expected);
}

#[test]
fn a_tied_model_ignores_a_stored_head() {
    let (mut config, checkpoint) = small();
    config.tie_word_embeddings = true;
    let mut without = checkpoint.clone();
    without.remove("lm_head.weight");
    let text = tokens(9, 1);
    let rows = all_rows(&mut load(&config, &checkpoint), &text);
    assert_eq!(all_rows(&mut load(&config, &without), &text), rows);
}

/// Writes a folder with two shards and their index.
fn write_shards(folder: &Path, config: &ModelConfig, checkpoint: &Checkpoint) {
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let mut shards = [Checkpoint::new(), Checkpoint::new()];
    let mut map = serde_json::Map::new();
    for (index, (name, stored)) in checkpoint.iter().enumerate() {
        shards[index % 2].insert(name.clone(), stored.clone());
        map.insert(name.clone(), names[index % 2].into());
    }
    for (name, shard) in names.iter().zip(&shards) {
        fs::write(folder.join(name), safetensors_bytes(shard, Dtype::F16)).unwrap();
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    fs::write(folder.join("config.json"), config.to_json()).unwrap();
}

#[test]
fn folders_with_one_file_or_with_shards() {
    let (config, checkpoint) = small();
    let text = tokens(9, 1);
    let expected = all_rows(&mut load(&config, &checkpoint), &text);

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_json()).unwrap();
    fs::write(folder.path().join("model.safetensors"), safetensors_bytes(&checkpoint, Dtype::F32)).unwrap();
    assert_eq!(all_rows(&mut Llama::from_dir(folder.path()).unwrap(), &text), expected);

    let folder = tempfile::tempdir().unwrap();
    write_shards(folder.path(), &config, &checkpoint);
    let mut model = Llama::from_dir(folder.path()).unwrap();
    assert_eq!(all_rows(&mut model, &text), expected);
    assert_eq!(model.config(), &config);
}

#[test]
fn broken_indexes_are_refused() {
    let (config, checkpoint) = small();
    let folder = tempfile::tempdir().unwrap();
    write_shards(folder.path(), &config, &checkpoint);
    let path = folder.path().join("model.safetensors.index.json");
    let index = fs::read_to_string(&path).unwrap();
    let load = |index: &str| {
        fs::write(&path, index).unwrap();
        Llama::from_dir(folder.path()).unwrap_err().to_string()
    };
    let message = load(&index[..index.len() - 2]);
    assert!(message.contains("index.json is damaged"), "{message}");
    let message = load("{}");
    assert!(message.contains("no object `weight_map`"), "{message}");
    let message = load(&index.replace("model.norm.weight", "model.other.weight"));
    assert!(message.contains("no tensor `model.norm.weight`"), "{message}");
    let message = load(&index.replace("model-00001", "../model-00001"));
    assert!(message.contains("\"../model-00001-of-00002.safetensors\", not a file name"), "{message}");
    let message = load(&index.replace("model-00001", "model-00009"));
    assert!(message.contains("model-00009-of-00002.safetensors"), "{message}");
    // The index names one shard, and the tensor is in the other.
    let message = load(&index.replace("model-00001", "model-00002"));
    assert!(message.contains("00002-of-00002.safetensors has no tensor `model."), "{message}");
}

#[test]
fn absent_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Llama::from_dir(folder.path()).unwrap_err();
    assert!(matches!(&error, LoadError::Io { path, .. } if path.ends_with("config.json")), "{error}");
    fs::write(folder.path().join("config.json"), small().0.to_json()).unwrap();
    let error = Llama::from_dir(folder.path()).unwrap_err();
    assert!(matches!(&error, LoadError::Io { path, .. } if path.ends_with("model.safetensors")), "{error}");
}

#[test]
fn a_missing_tensor_is_named() {
    let (config, mut checkpoint) = small();
    checkpoint.remove("model.layers.1.mlp.up_proj.weight");
    let error = refused(&config, &safetensors_bytes(&checkpoint, Dtype::F32));
    assert!(
        matches!(&error, LoadError::Missing { tensor, .. } if tensor == "model.layers.1.mlp.up_proj.weight")
    );
    assert!(error.to_string().contains("no tensor `model.layers.1.mlp.up_proj.weight`"), "{error}");
}

#[test]
fn a_wrong_shape_is_shown_beside_the_right_one() {
    let (mut config, checkpoint) = small();
    let bytes = safetensors_bytes(&checkpoint, Dtype::F32);
    config.num_key_value_heads = 4;
    let error = refused(&config, &bytes);
    assert!(matches!(error, LoadError::Shape { .. }));
    let message = error.to_string();
    assert!(message.contains("`model.layers.0.self_attn.k_proj.weight` has shape [16, 32]"), "{message}");
    assert!(message.contains("[32, 32]"), "{message}");
}

#[test]
fn a_config_far_larger_than_the_file_is_refused_before_it_is_allocated() {
    let (mut config, checkpoint) = small();
    config.vocab_size = 1 << 24;
    let error = refused(&config, &safetensors_bytes(&checkpoint, Dtype::F32));
    assert!(error.to_string().contains("[16777216, 32]"), "{error}");
}

#[test]
fn other_types_are_named() {
    let (config, checkpoint) = small();
    let error = refused(&config, &safetensors_bytes(&checkpoint, Dtype::F64));
    assert!(error.to_string().contains("`model.embed_tokens.weight` has type F64"), "{error}");
    // A type that safetensors itself does not know.
    let bytes = safetensors_bytes(&checkpoint, Dtype::F32);
    let text = bytes.iter().map(|byte| *byte as char).collect::<String>();
    let at = text.find("\"F32\"").unwrap();
    let mut bytes = bytes;
    bytes[at + 1..at + 4].copy_from_slice(b"Q99");
    let error = refused(&config, &bytes);
    assert!(error.to_string().contains("Q99"), "{error}");
}

#[test]
fn weights_must_be_finite() {
    let (config, mut checkpoint) = small();
    checkpoint.get_mut("model.norm.weight").unwrap().values[5] = f32::NAN;
    let error = refused(&config, &safetensors_bytes(&checkpoint, Dtype::BF16));
    assert!(error.to_string().contains("`model.norm.weight` holds NaN at 5"), "{error}");
}

#[test]
fn truncated_and_corrupt_files_are_errors() {
    let (config, checkpoint) = small();
    let bytes = safetensors_bytes(&checkpoint, Dtype::F16);
    for len in [0, 1, 7, 8, 9, 500, bytes.len() / 2, bytes.len() - 1] {
        let error = refused(&config, &bytes[..len]);
        assert!(matches!(error, LoadError::Damaged { .. }), "{len}: {error}");
    }
    // The loader must not trust a header length of many gigabytes.
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    assert!(matches!(refused(&config, &huge), LoadError::Damaged { .. }));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_json()).unwrap();
    fs::write(folder.path().join("model.safetensors"), &bytes[..bytes.len() - 3]).unwrap();
    let error = Llama::from_dir(folder.path()).unwrap_err();
    assert!(error.to_string().contains("model.safetensors is damaged"), "{error}");
}

#[test]
fn a_flipped_byte_of_the_header_never_panics() {
    let (config, checkpoint) = small();
    let bytes = safetensors_bytes(&checkpoint, Dtype::F16);
    for at in 0..600 {
        let mut broken = bytes.clone();
        broken[at] ^= 0x15;
        // Most are errors; a flipped letter of an ignored name is not.
        let _ = Llama::from_bytes(&config.to_json(), &broken);
    }
}
