//! Shared by the examples with models as tables: shares of outputs, exact and drawn, and how they are printed.

#![allow(clippy::print_stdout, reason = "examples talk to their users")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew::core::{AnyConstraint, ExactDistribution, Sampler, TableModel, TokenId, Vocabulary};

/// The answer of an example.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The share of each output.
pub type Shares = BTreeMap<String, f64>;

/// Shares of `count` outputs of a sampler.
///
/// # Errors
///
/// That of the sampler.
pub fn shares<S: Sampler<Error: 'static>>(
    sampler: &mut S,
    count: usize,
    vocabulary: &Vocabulary,
) -> Result<Shares> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut shares = Shares::new();
    for _ in 0..count {
        let tokens = sampler.draw(&mut rng)?.tokens;
        *shares.entry(text(&tokens, vocabulary)).or_default() += 1.0 / count as f64;
    }
    Ok(shares)
}

fn text(tokens: &[TokenId], vocabulary: &Vocabulary) -> String {
    String::from_utf8_lossy(&vocabulary.decode(tokens)).into_owned()
}

/// The model's own distribution of the outputs that a constraint allows.
///
/// # Errors
///
/// When it has too many outputs to be enumerated, or none.
pub fn exact(model: &TableModel, constraint: &AnyConstraint) -> Result<Shares> {
    let vocabulary = Arc::clone(model.vocabulary());
    let end = vocabulary.end_of_sequence();
    let distribution = ExactDistribution::enumerate(&mut model.clone(), constraint, &[], end, 10, 100_000)?;
    let mut shares = Shares::new();
    for (tokens, probability) in distribution.iter() {
        *shares.entry(text(tokens, &vocabulary)).or_default() += probability;
    }
    Ok(shares)
}

/// Prints shares side by side, the outputs that are most probable under the first first.
pub fn print(columns: &[(&str, &Shares)]) {
    let mut outputs: Vec<&String> = columns.iter().flat_map(|(_, shares)| shares.keys()).collect();
    outputs.sort_unstable();
    outputs.dedup();
    let of = |shares: &Shares, output: &str| shares.get(output).copied().unwrap_or(0.0);
    outputs.sort_by(|left, right| of(columns[0].1, right).total_cmp(&of(columns[0].1, left)));
    print!("{:20}", "");
    columns.iter().for_each(|(name, _)| print!("{name:>12}"));
    println!();
    for output in outputs.iter().take(8) {
        print!("{output:20}");
        columns.iter().for_each(|(_, shares)| print!("{:12.4}", of(shares, output)));
        println!();
    }
    if outputs.len() > 8 {
        println!("... and {} others", outputs.len() - 8);
    }
}
