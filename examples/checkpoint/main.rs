//! A checkpoint of one's own: `cargo run --release --example checkpoint -- FOLDER [tokenizer.json]`.
//!
//! FOLDER holds `config.json`, `tokenizer.json` and `*.safetensors` of a Llama-family model, as on Hugging Face.
//! Without an argument it is the embedded model.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::path::PathBuf;

use unskew::{Model, ModelSource, Spec};
use unskew_examples::Result;

/// A record as the embedded model writes them. `Spec::json_schema`, `Spec::grammar`, `Spec::set` and others are made
/// in the same way.
const RECORD: &str = r#"\{"name": "[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9], "city": "[A-Z][a-z]+"\}"#;

fn run(source: &ModelSource, tokenizer: Option<PathBuf>) -> Result<Vec<String>> {
    let model = Model::load(source, tokenizer.as_deref())?;
    let request = model.prompt("").constrain(Spec::regex(RECORD))?;
    let mut texts = Vec::new();
    for output in request.seed(1).max_tokens(64).sample("disc")?.take(3) {
        let output = output?;
        println!(
            "{}\n    log-probability {:.2}, {} passes",
            output.text, output.log_prob, output.cost.passes
        );
        texts.push(output.text);
    }
    Ok(texts)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let source = args.next().map_or(ModelSource::Tiny, |folder| ModelSource::from(folder.as_str()));
    run(&source, args.next().map(PathBuf::from)).map(|_| ())
}

#[test]
fn outputs_are_records() {
    for text in run(&ModelSource::Tiny, None).unwrap() {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["name"].is_string() && value["age"].as_u64().unwrap() < 100, "{text}");
    }
}
