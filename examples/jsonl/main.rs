//! A pipeline over JSON lines: `cargo run --release --example jsonl < requests.jsonl > outputs.jsonl`.
//!
//! A line of input is `{"prompt": "...", "spec": {"choices": ["yes", "no"]}, "n": 2}`; the spec is the constraint as
//! data, as `unskew generate --spec` reads it. A line of output has the number of its line, and an output or an
//! error: one bad line does not end the pipeline.

#![allow(clippy::print_stdout, reason = "an example that writes its results")]

use std::io::{BufRead, Write};

use serde_json::{Value, json};
use unskew::{Model, Spec};
use unskew_examples::Result;

fn run(input: impl BufRead, mut output: impl Write) -> Result<()> {
    let model = Model::open("tiny")?;
    for (number, line) in input.lines().enumerate() {
        match outputs(&model, &line?) {
            Ok(values) => {
                for mut value in values {
                    value["line"] = number.into();
                    writeln!(output, "{value}")?;
                }
            }
            Err(error) => writeln!(output, "{}", json!({"line": number, "error": error.to_string()}))?,
        }
    }
    Ok(())
}

fn outputs(model: &Model, line: &str) -> Result<Vec<Value>> {
    let value: Value = serde_json::from_str(line)?;
    let prompt = value["prompt"].as_str().ok_or("`prompt` is a text")?;
    let spec = Spec::from_json(&value["spec"].to_string())?;
    let count = value["n"].as_u64().unwrap_or(1) as usize;
    let draws = model.prompt(prompt).constrain(spec)?.seed(1).max_tokens(64).sample("cars")?;
    draws
        .take(count)
        .map(|output| {
            let output = output?;
            Ok(json!({"text": output.text, "log_prob": output.log_prob, "passes": output.cost.passes}))
        })
        .collect()
}

fn main() -> Result<()> {
    run(std::io::stdin().lock(), std::io::stdout().lock())
}

#[test]
fn each_line_has_its_outputs_or_an_error() {
    let input =
        "{\"prompt\": \"Dear \", \"spec\": {\"choices\": [\"Ms Meyer\", \"Mr Hill\"]}, \"n\": 2}\nnothing\n";
    let mut output = Vec::new();
    run(input.as_bytes(), &mut output).unwrap();
    let lines: Vec<Value> =
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[..2].iter().all(|line| line["line"] == 0 && line["text"].is_string()), "{lines:?}");
    assert!(lines[2]["line"] == 1 && lines[2]["error"].is_string(), "{lines:?}");
}
