//! The model against a second forward pass, written from the architecture's formulas in plain f64 loops: no tensor
//! library, no cache, no batch, no shared code.

use crate::common::{Checkpoint, Stored, all_rows, checkpoint, config, distance, load, tokens};
use unskew_core::TokenId;
use unskew_runner::ModelConfig;

fn tensor<'a>(checkpoint: &'a Checkpoint, name: &str) -> &'a Stored {
    checkpoint.get(name).unwrap_or_else(|| panic!("the test's checkpoint lacks {name}"))
}

/// `W x` for `W` as stored, `[out, in]`.
fn apply(weight: &Stored, input: &[f64]) -> Vec<f64> {
    let inputs = weight.shape[1];
    assert_eq!(inputs, input.len());
    weight
        .values
        .chunks_exact(inputs)
        .map(|row| row.iter().zip(input).map(|(weight, value)| f64::from(*weight) * value).sum())
        .collect()
}

fn normalised(input: &[f64], scale: &Stored, eps: f64) -> Vec<f64> {
    let mean = input.iter().map(|value| value * value).sum::<f64>() / input.len() as f64;
    let factor = 1.0 / (mean + eps).sqrt();
    input.iter().zip(&scale.values).map(|(value, scale)| value * factor * f64::from(*scale)).collect()
}

/// Turns one head: coordinates `i` and `i + width / 2` by `position / theta^(2 i / width)`.
fn turn(head: &mut [f64], position: usize, theta: f64) {
    let width = head.len();
    for pair in 0..width / 2 {
        let angle = position as f64 / theta.powf(2.0 * pair as f64 / width as f64);
        let (low, high) = (head[pair], head[pair + width / 2]);
        head[pair] = low * angle.cos() - high * angle.sin();
        head[pair + width / 2] = high * angle.cos() + low * angle.sin();
    }
}

/// The logits after each token.
fn forward(config: &ModelConfig, checkpoint: &Checkpoint, tokens: &[TokenId]) -> Vec<Vec<f64>> {
    let (hidden, width) = (config.hidden_size, config.head_dim);
    let group = config.num_attention_heads / config.num_key_value_heads;
    let embedding = tensor(checkpoint, "model.embed_tokens.weight");
    let mut stream: Vec<Vec<f64>> = tokens
        .iter()
        .map(|token| {
            let row = &embedding.values[token.0 as usize * hidden..][..hidden];
            row.iter().map(|value| f64::from(*value)).collect()
        })
        .collect();
    for layer in 0..config.num_hidden_layers {
        let weight = |part: &str| tensor(checkpoint, &format!("model.layers.{layer}.{part}.weight"));
        let mut keys: Vec<Vec<f64>> = Vec::new();
        let mut values: Vec<Vec<f64>> = Vec::new();
        for (position, row) in stream.iter_mut().enumerate() {
            let input = normalised(row, weight("input_layernorm"), config.rms_norm_eps);
            let mut query = apply(weight("self_attn.q_proj"), &input);
            let mut key = apply(weight("self_attn.k_proj"), &input);
            query.chunks_exact_mut(width).for_each(|head| turn(head, position, config.rope_theta));
            key.chunks_exact_mut(width).for_each(|head| turn(head, position, config.rope_theta));
            keys.push(key);
            values.push(apply(weight("self_attn.v_proj"), &input));

            let mut mixed = vec![0.0; query.len()];
            for head in 0..config.num_attention_heads {
                let from = head / group * width;
                let query = &query[head * width..][..width];
                let scores: Vec<f64> = keys
                    .iter()
                    .map(|key| {
                        let dot: f64 = query.iter().zip(&key[from..]).map(|(q, k)| q * k).sum();
                        dot / (width as f64).sqrt()
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                for (score, value) in scores.iter().zip(&values) {
                    let share = (score - most).exp() / total;
                    for (sum, value) in mixed[head * width..][..width].iter_mut().zip(&value[from..]) {
                        *sum += share * value;
                    }
                }
            }
            for (sum, value) in row.iter_mut().zip(apply(weight("self_attn.o_proj"), &mixed)) {
                *sum += value;
            }
            let input = normalised(row, weight("post_attention_layernorm"), config.rms_norm_eps);
            let gate = apply(weight("mlp.gate_proj"), &input);
            let up = apply(weight("mlp.up_proj"), &input);
            let inner: Vec<f64> =
                gate.iter().zip(&up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
            for (sum, value) in row.iter_mut().zip(apply(weight("mlp.down_proj"), &inner)) {
                *sum += value;
            }
        }
    }
    let head = if config.tie_word_embeddings { embedding } else { tensor(checkpoint, "lm_head.weight") };
    let norm = tensor(checkpoint, "model.norm.weight");
    stream.iter().map(|row| apply(head, &normalised(row, norm, config.rms_norm_eps))).collect()
}

#[test]
fn logits_equal_the_reference() {
    // heads, key and value heads, width of a head, hidden size, layers
    for (sizes, tied) in [
        ([4, 4, 8, 32, 1], false),
        ([6, 2, 6, 36, 2], true),
        ([3, 1, 10, 24, 2], false),
        ([5, 5, 2, 7, 3], true),
        ([4, 2, 16, 20, 2], false),
        ([1, 1, 64, 64, 1], true),
    ] {
        let config = config(sizes, tied);
        let checkpoint = checkpoint(&config, sizes.iter().sum::<usize>() as u64);
        let text = tokens(23, 7);
        let expected = forward(&config, &checkpoint, &text);
        let spread = expected.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
        assert!(spread > 1.0, "the logits of {sizes:?} are too even to tell anything: {spread}");
        let apart = distance(&all_rows(&mut load(&config, &checkpoint), &text), &expected);
        assert!(apart <= 1e-4, "{sizes:?}, tied {tied}: {apart}");
    }
}

#[test]
fn rotary_base_and_epsilon_are_read() {
    let mut config = config([4, 2, 8, 32, 2], true);
    config.rope_theta = 500.0;
    config.rms_norm_eps = 0.1;
    let checkpoint = checkpoint(&config, 3);
    let text = tokens(40, 8);
    let apart =
        distance(&all_rows(&mut load(&config, &checkpoint), &text), &forward(&config, &checkpoint, &text));
    assert!(apart <= 1e-4, "{apart}");
}

#[test]
fn far_positions_equal_the_reference() {
    // Past one pass of rows and several growths of the cache.
    let config = config([2, 1, 4, 8, 1], true);
    let checkpoint = checkpoint(&config, 4);
    let text = tokens(700, 9);
    let apart =
        distance(&all_rows(&mut load(&config, &checkpoint), &text), &forward(&config, &checkpoint, &text));
    assert!(apart <= 1e-4, "{apart}");
}
