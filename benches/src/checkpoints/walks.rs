//! A thousand walks after one prompt, as samplers make them: forks of one sequence, which grow a few at a time.

use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::Llama;

use super::{SMOL_CONFIG, write};
use crate::process::memory_of;

const PROMPT: usize = 2_000;
const WALKS: usize = 1_000;

/// New tokens of a walk: a page of keys and values.
const TOKENS: usize = 8;

/// Walks of a pass.
const BATCH: usize = 50;

pub(super) fn report() -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    write(folder.path(), SMOL_CONFIG)?;
    let mut model = Llama::from_dir(folder.path()).map_err(|error| error.to_string())?;
    let loaded = memory_of("self", "VmHWM:");
    // The walks alone: nothing is remembered of sequences that are gone.
    model.remember(0);
    let vocab_len = model.vocab_len();
    let token = |number: usize| TokenId::from_index(number.wrapping_mul(7919) % vocab_len);
    let mut logits = Logits::new();
    let mut prompt = model.start();
    let tokens: Vec<TokenId> = (0..PROMPT).map(token).collect();
    eprintln!("a prompt of {PROMPT} tokens");
    extend(&mut model, &mut [(&mut prompt, &tokens)], &mut logits)?;
    let mut walks: Vec<_> = (0..WALKS).map(|_| model.fork(&prompt)).collect();
    for (number, part) in walks.chunks_mut(BATCH).enumerate() {
        eprintln!("walks {} to {}", number * BATCH, (number + 1) * BATCH);
        for step in 0..TOKENS {
            let next: Vec<[TokenId; 1]> =
                (0..part.len()).map(|walk| [token((number * BATCH + walk) * 131 + step * 17)]).collect();
            let mut batch: Vec<_> =
                part.iter_mut().zip(&next).map(|(walk, token)| (walk, &token[..])).collect();
            extend(&mut model, &mut batch, &mut logits)?;
        }
    }
    let peak = memory_of("self", "VmHWM:") as f64;
    let weights = model.weight_bytes() as f64;
    let cache = |positions: usize| (positions * model.position_bytes()) as f64;
    let tree = cache(PROMPT + WALKS * TOKENS);
    let copies = cache(WALKS * (PROMPT + TOKENS));
    let gb = |bytes: f64| format!("{:.3}", bytes / 1e9);
    // The walks are alive until here.
    drop(walks);
    Ok(format!(
        "\n## {WALKS} walks of {TOKENS} tokens after a prompt of {PROMPT}, the shape of SmolLM2-135M in bf16\n\n\
         | | GB |\n|---|--:|\n\
         | weights | {} |\n\
         | the process when they were loaded | {} |\n\
         | cache of the prompt | {} |\n\
         | cache of the tree: the prompt once, and the tokens of all walks | {} |\n\
         | caches of as many sequences without forks | {} |\n\
         | peak of the process | {} |\n\
         | weights + 1.2 x the cache of the tree | {} |\n\n\
         Peak - weights = {:.3} x the cache of the tree: {}. The cache is in pages of 8 positions; walks of other lengths waste up to 7 \
         positions each.\n",
        gb(weights),
        gb(loaded as f64),
        gb(cache(PROMPT)),
        gb(tree),
        gb(copies),
        gb(peak),
        gb(weights + 1.2 * tree),
        (peak - weights) / tree,
        if peak <= weights + 1.2 * tree { "within 1.2" } else { "**above 1.2**" }
    ))
}

fn extend(
    model: &mut Llama,
    parts: &mut [(&mut unskew_runner::Sequence, &[TokenId])],
    logits: &mut Logits,
) -> Result<(), String> {
    let mut batch: Vec<_> = parts
        .iter_mut()
        .map(|(sequence, tokens)| Extension { sequence: &mut **sequence, tokens, rows: Rows::Last })
        .collect();
    model.extend(&mut batch, logits).map_err(|error| error.to_string())
}
