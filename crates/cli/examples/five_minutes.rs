//! The program of `docs/tutorials/rust.md`: `cargo run -p unskew --example five_minutes`.

#![allow(clippy::print_stdout, reason = "an example that prints its results")]

use std::collections::BTreeMap;

use unskew::{Model, Spec, engine::Compiler};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open("tiny")?;
    let letter = model.prompt("Dear Ms Meyer,\nKind regards,\n");
    let names = Spec::choices(["Thomas Hansen", "Peter Costa", "Paul Becker"]);

    // The same request by two samplers: how often is each name drawn?
    for sampler in ["masked", "cars"] {
        let draws = letter.clone().constrain(names.clone())?.seed(1).sample(sampler)?;
        let mut counts = BTreeMap::new();
        for output in draws.take(500) {
            *counts.entry(output?.text).or_insert(0) += 1;
        }
        println!("{sampler}: {counts:?}");
    }

    // A record, and what it cost.
    let record =
        Spec::regex(r#"\{"name": "[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9], "city": "[A-Z][a-z]+"\}"#);
    let output = model.prompt("").constrain(record)?.seed(1).sample("disc")?.next().ok_or("no output")??;
    println!("{}: log-probability {:.2}, {} passes", output.text, output.log_prob, output.cost.passes);

    // The masks alone, for an engine that has its own model.
    let compiler = Compiler::new(model.tokens().clone());
    let matcher = compiler.compile(&names)?.matcher();
    let mut mask = vec![0; compiler.mask_words()];
    matcher.fill(&mut mask)?;
    let allowed: u32 = mask.iter().map(|word: &u32| word.count_ones()).sum();
    println!("{allowed} of {} tokens may come first", model.tokens().vocabulary().len());
    Ok(())
}
