//! A model of one's own as a function: `cargo run --example own_model`.
//!
//! [`FnModel`] calls the function with a prefix and takes the logits of the next token from it. Here it counts which
//! letter follows which in a list of names. A model that keeps state between tokens implements `LanguageModel`
//! instead.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::sync::Arc;

use unskew::{
    Model, Spec, TokenSpace,
    core::{FnModel, TokenId, Vocabulary},
};
use unskew_examples::Result;

const NAMES: [&str; 8] = ["anna", "hannah", "nina", "ina", "hans", "ian", "nils", "lina"];

/// A token for each letter, and one that ends an output.
fn tokens() -> Result<TokenSpace> {
    let mut builder = Vocabulary::builder();
    for letter in b'a'..=b'z' {
        builder.text(&[letter]);
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    Ok(TokenSpace::from_vocabulary(Arc::new(builder.build()?)))
}

/// The logarithms of how often each letter, or the end, follows a letter; row 26 is the beginning.
fn counts() -> Vec<Vec<f32>> {
    let mut rows = vec![vec![0.01_f32; 27]; 27];
    for name in NAMES {
        let letters: Vec<usize> = name.bytes().map(|byte| usize::from(byte - b'a')).collect();
        let before = [26].into_iter().chain(letters.iter().copied());
        let after = letters.iter().copied().chain([26]);
        before.zip(after).for_each(|(before, after)| rows[before][after] += 1.0);
    }
    rows.iter_mut().flatten().for_each(|count| *count = count.ln());
    rows
}

fn run(outputs: usize) -> Result<Vec<String>> {
    let tokens = tokens()?;
    let rows = counts();
    let model = FnModel::new(tokens.vocabulary().len(), move |prefix: &[TokenId], logits: &mut [f32]| {
        logits.copy_from_slice(&rows[prefix.last().map_or(26, |last| last.index())]);
    });
    let model = Model::new(model, tokens)?;
    let request = model.prompt("").constrain(Spec::regex("[a-z]{3,5}n[a-z]"))?;
    let outputs = request.seed(1).max_tokens(10).sample("cars")?.take(outputs);
    outputs.map(|output| Ok(output?.text)).collect()
}

fn main() -> Result<()> {
    run(5)?.iter().for_each(|text| println!("{text}"));
    Ok(())
}

#[test]
fn outputs_are_names_in_kind() {
    for text in run(20).unwrap() {
        assert!((5..=7).contains(&text.len()) && text.as_bytes()[text.len() - 2] == b'n', "{text}");
    }
}
