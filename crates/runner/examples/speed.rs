//! Measures prefill and decoding of a random model.
//!
//! `cargo run --release -p unskew-runner --example speed -- [batch] [prompt] [steps] [2m|135m]`

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;
use std::time::Instant;

use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::{Llama, ModelConfig};

/// Two million parameters: the shape of a model that a CPU trains within the hour.
const SMALL: &str = r#"{"model_type": "llama", "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 65536,
    "tie_word_embeddings": true}"#;
/// 135 million parameters: a small published shape.
const MEDIUM: &str = r#"{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
    "max_position_embeddings": 65536, "tie_word_embeddings": true}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (batch, prompt, steps) = (number(0, 1)?.max(1), number(1, 16)?.max(1), number(2, 200)?.max(1));
    let shape = if arguments.get(3).is_some_and(|shape| shape == "135m") { MEDIUM } else { SMALL };

    let config = ModelConfig::from_json(shape)?;
    let mut model = Llama::random(&config, 1)?;
    let mut sequences: Vec<_> = (0..batch).map(|_| model.start()).collect();
    let mut logits = Logits::new();
    let text: Vec<TokenId> = (0..prompt).map(|index| TokenId((index * 7 % 2048) as u32)).collect();
    let started = Instant::now();
    let mut extensions: Vec<_> = sequences
        .iter_mut()
        .map(|sequence| Extension { sequence, tokens: &text, rows: Rows::Last })
        .collect();
    model.extend(&mut extensions, &mut logits)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("prefill: {} tokens, {:.0} tokens/s", batch * prompt, (batch * prompt) as f64 / seconds);

    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        let started = Instant::now();
        let next: Vec<[TokenId; 1]> = logits.rows().map(|row| [most_likely(row)]).collect();
        let mut extensions: Vec<_> = sequences
            .iter_mut()
            .zip(&next)
            .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
            .collect();
        model.extend(&mut extensions, &mut logits)?;
        times.push(started.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (least, median) = (times[0], times[steps / 2]);
    println!(
        "decode: batch {batch} after {prompt} tokens: median {:.3} ms, least {:.3} ms a step; median {:.0} tokens/s",
        1e3 * median,
        1e3 * least,
        batch as f64 / median
    );
    Ok(())
}

fn most_likely(row: &[f32]) -> TokenId {
    let best = row.iter().enumerate().max_by(|left, right| left.1.total_cmp(right.1));
    TokenId(best.map_or(0, |(id, _)| id as u32))
}
