//! Training on a language small enough to know its entropy, and the promises about checkpoints.

use std::fs;
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::{Llama, ModelConfig, TrainError, TrainEvent, TrainOptions, TrainingData, train};

fn config() -> ModelConfig {
    ModelConfig {
        hidden_size: 24,
        intermediate_size: 40,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 6,
        vocab_size: 17,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        max_position_embeddings: 32,
        tie_word_embeddings: true,
        bos_token_id: None,
        eos_token_ids: Vec::new(),
        architecture: unskew_runner::Architecture::llama(),
    }
}

/// Each token is the one two places before it, plus 0 or 1 at random. The entropy is ln 2 nats per token; a model
/// reaches it only by attention to the right place.
fn data() -> TrainingData {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut stream = vec![1_u32, 2];
    while stream.len() < 6000 {
        let before = stream[stream.len() - 2];
        stream.push((before + random.next_u32() % 2) % 17);
    }
    let valid = stream.split_off(5000);
    TrainingData { train: stream, valid }
}

fn options(folder: &Path, steps: u64) -> TrainOptions {
    TrainOptions {
        batch: 8,
        context: 16,
        steps,
        learning_rate: 1e-2,
        warmup: 5,
        weight_decay: 0.01,
        valid_every: 10,
        valid_windows: 12,
        checkpoint_every: 7,
        seed: 3,
        ..TrainOptions::new(folder.join("run.ckpt"))
    }
}

#[test]
fn a_small_language_is_learned_and_runs_the_same_in_inference() {
    let folder = tempfile::tempdir().unwrap();
    let mut losses = Vec::new();
    let options = TrainOptions { valid_every: 50, checkpoint_every: 500, ..options(folder.path(), 500) };
    let model = train(&config(), &data(), &options, &mut |event| {
        if let TrainEvent::Validated { loss, .. } = event {
            losses.push(loss);
        }
    })
    .unwrap();
    assert_eq!(losses.len(), 10);
    // Without attention the least loss is ln 17 = 2.83. The first row of a window can only guess, so that the least
    // loss with attention is (ln 17 + 15 ln 2) / 16 = 0.83.
    assert!(losses[0] > model.valid_loss() && model.valid_loss() < 1.25, "{losses:?}");
    assert_eq!(losses.last(), Some(&model.valid_loss()));

    // The saved model, through the cache, has the validation loss that the trainer measured on full windows.
    model.save(folder.path().join("model")).unwrap();
    let mut llama = Llama::from_dir(folder.path().join("model")).unwrap();
    let valid = data().valid;
    let starts: Vec<usize> = (0..12).map(|window| (valid.len() - 17) * window / 12).collect();
    // A validation takes whole batches of eight: windows 0 to 11, then 0 to 3 again.
    let order: Vec<usize> = (0..16).map(|window| starts[window % 12]).collect();
    let mut total = 0.0;
    let mut logits = Logits::new();
    for start in order {
        let window: Vec<TokenId> = valid[start..start + 17].iter().map(|id| TokenId(*id)).collect();
        let mut sequence = llama.start();
        let mut batch = [Extension { sequence: &mut sequence, tokens: &window[..16], rows: Rows::All }];
        llama.extend(&mut batch, &mut logits).unwrap();
        for (row, target) in logits.rows().zip(&window[1..]) {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = row.iter().map(|logit| f64::from(logit - most).exp()).sum();
            total += sum.ln() - f64::from(row[target.0 as usize] - most);
        }
    }
    let loss = total / (16.0 * 16.0);
    assert!((loss - model.valid_loss()).abs() < 5e-3, "{loss} against {}", model.valid_loss());
}

#[test]
fn a_resumed_run_ends_where_an_unbroken_one_does() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |options: &TrainOptions, events: &mut Vec<TrainEvent>| {
        train(&config(), &data(), options, &mut |event| events.push(event)).unwrap()
    };
    let mut events = Vec::new();
    let expected = run(&options(whole.path(), 20), &mut events);
    assert!(events.contains(&TrainEvent::Saved { step: 14 }));

    // The run stops in the middle by keeping an early checkpoint: the schedule must be that of the whole run.
    let mut checkpoint = None;
    train(&config(), &data(), &options(broken.path(), 20), &mut |event| {
        if event == (TrainEvent::Saved { step: 7 }) {
            checkpoint = Some(fs::read(broken.path().join("run.ckpt")).unwrap());
        }
    })
    .unwrap();
    fs::write(broken.path().join("run.ckpt"), checkpoint.unwrap()).unwrap();
    let mut events = Vec::new();
    let resumed = run(&options(broken.path(), 20), &mut events);
    assert_eq!(events[0], TrainEvent::Resumed { step: 7 });
    assert_eq!(resumed.to_safetensors(), expected.to_safetensors());
    assert_eq!(resumed.valid_loss(), expected.valid_loss());

    // A finished run trains no further.
    let mut events = Vec::new();
    let again = run(&options(broken.path(), 20), &mut events);
    assert_eq!(events, [TrainEvent::Resumed { step: 20 }]);
    assert_eq!(again.valid_loss(), expected.valid_loss());
    assert!(!broken.path().join("run.ckpt.part").exists());
}

#[test]
fn threads_change_rounding_only() {
    let folder = tempfile::tempdir().unwrap();
    let loss = |threads: usize| {
        let checkpoint = folder.path().join(format!("{threads}.ckpt"));
        let options = TrainOptions { threads, checkpoint, ..options(folder.path(), 5) };
        train(&config(), &data(), &options, &mut |_| {}).unwrap().valid_loss()
    };
    let (one, four) = (loss(1), loss(4));
    assert!((one - four).abs() < 1e-4, "{one} against {four}");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = options(folder.path(), 3);
    let refused = |data: &TrainingData, options: &TrainOptions| {
        train(&config(), data, options, &mut |_| {}).unwrap_err().to_string()
    };
    let all = data();
    for (options, words) in [
        (TrainOptions { batch: 0, ..good.clone() }, "`batch` = 0, but it must be 1 or more"),
        (TrainOptions { context: 33, ..good.clone() }, "`context` = 33, but it must be at most max_position"),
        (TrainOptions { threads: 3, ..good.clone() }, "`threads` = 3, but it must be a divisor of batch = 8"),
        (TrainOptions { learning_rate: f64::NAN, ..good.clone() }, "`learning_rate` = NaN"),
        (TrainOptions { clip: 0.0, ..good.clone() }, "`clip` = 0"),
        (TrainOptions { weight_decay: 1.0, ..good.clone() }, "`weight_decay` = 1"),
        (TrainOptions { learning_rate: 1e30, steps: 50, ..good.clone() }, "diverged at step"),
    ] {
        let message = refused(&all, &options);
        assert!(message.contains(words), "{message}");
    }
    let short = TrainingData { train: all.train.clone(), valid: all.valid[..16].to_vec() };
    let message = refused(&short, &good);
    assert!(message.contains("valid stream holds 16 tokens, but one window takes 17"), "{message}");
    let mut unknown = all.clone();
    unknown.train[12] = 17;
    let message = refused(&unknown, &good);
    assert!(message.contains("token 17 at 12 of the train stream is not below vocab_size = 17"), "{message}");
}

#[test]
fn what_training_does_not_compute_is_named() {
    let folder = tempfile::tempdir().unwrap();
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
                "num_key_value_heads": 1, "vocab_size": 17}}"#
        );
        let config = ModelConfig::from_json(&text).unwrap();
        let error = train(&config, &data(), &options(folder.path(), 1), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("in training"), "{error}");
    }
}

#[test]
fn checkpoints_of_other_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = options(folder.path(), 1);
    train(&config(), &data(), &good, &mut |_| {}).unwrap();
    let refused = |config: &ModelConfig, options: &TrainOptions| {
        train(config, &data(), options, &mut |_| {}).unwrap_err()
    };
    let error = refused(&config(), &TrainOptions { seed: 4, ..good.clone() });
    assert!(error.to_string().contains("made with seed = 3, this run has 4"), "{error}");
    let error = refused(&ModelConfig { rope_theta: 99.0, ..config() }, &good);
    assert!(matches!(&error, TrainError::Mismatch { what, .. } if what == "config"), "{error}");
    let bytes = fs::read(&good.checkpoint).unwrap();
    fs::write(&good.checkpoint, &bytes[..bytes.len() - 10]).unwrap();
    let error = refused(&config(), &good);
    assert!(matches!(error, TrainError::Damaged { .. }), "{error}");
    let nowhere = TrainOptions { checkpoint: folder.path().join("absent/run.ckpt"), ..good };
    let error = refused(&config(), &nowhere);
    assert!(matches!(error, TrainError::Io { action: "write", .. }), "{error}");
}
