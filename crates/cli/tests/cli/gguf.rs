//! `--model FILE.gguf`: tokens without llama.cpp, and the model with it.

use unskew_testdata::gguf::{Weights, llama};

use crate::support::{Files, unskew};

fn files() -> Files {
    let tiny = unskew::tiny_model::TINY;
    let tokenizer = unskew::tiny_model::TOKENIZER_JSON;
    let file = llama(tiny.config_json, tokenizer, tiny.safetensors, Weights::F16);
    Files::new(&[("tiny.gguf", &file), ("half.gguf", &file[..file.len() / 2]), ("none.gguf", b"GGML")])
}

/// Masks, checks and canonical sequences need no llama.cpp, and are those of the embedded model.
#[test]
fn tokens_are_read_without_llama_cpp() {
    let files = files();
    for command in [
        &["mask", "--regex", "[0-9]{4}-(0[1-9]|1[0-2])", "--prefix", "2024-", "--ids"][..],
        &["mask", "--regex", " (William|Theodore)", "--canonical", "--ids"],
        &["check", "--regex", "[a-z ]+", "--text", "the lines", "--canonical"],
        &["mask", "--format", "json"],
    ] {
        let ours = unskew(command);
        assert_eq!(ours.code, 0, "{}", ours.stderr);
        for option in ["--model", "--tokenizer"] {
            let theirs = files.run(&[command, &[option, "tiny.gguf"]].concat());
            assert_eq!(
                (theirs.code, &theirs.stdout),
                (ours.code, &ours.stdout),
                "{command:?}: {}",
                theirs.stderr
            );
        }
    }
}

#[test]
fn files_that_are_no_models_are_refused() {
    let files = files();
    let refusal = |name: &str| files.run(&["mask", "--model", name]).refusal().to_owned();
    assert!(refusal("none.gguf").contains("none.gguf: not a GGUF file"), "{}", refusal("none.gguf"));
    assert!(refusal("half.gguf").contains("half.gguf: the tensor"), "{}", refusal("half.gguf"));
    assert!(refusal("absent.gguf").contains("absent.gguf"), "{}", refusal("absent.gguf"));
}

#[cfg(not(feature = "llama-cpp"))]
#[test]
fn outputs_need_the_feature() {
    assert_eq!(
        files().run(&["generate", "--model", "tiny.gguf"]).refusal(),
        "error: a GGUF file needs the feature `llama-cpp` of unskew, and this program was built without it"
    );
}

#[cfg(feature = "llama-cpp")]
mod with_llama_cpp {
    use super::*;

    const NAMES: [&str; 8] = [
        "--prompt",
        "Dear Ms Meyer,\nKind regards,\n",
        "--choice",
        "Thomas Hansen",
        "--choice",
        "Peter Costa",
        "--seed",
        "1",
    ];

    /// Every sampler runs, and writes outputs of the constraint.
    #[test]
    fn generate() {
        let files = files();
        for sampler in ["masked", "rejection", "cars", "disc", "smc", "awrs", "beam", "speculative"] {
            let draft: &[&str] = if sampler == "speculative" { &["--draft-model", "tiny.gguf"] } else { &[] };
            let args = [
                &["generate", "--model", "tiny.gguf", "--sampler", sampler, "-n", "4", "--format", "json"],
                &NAMES[..],
                draft,
            ];
            let run = files.run(&args.concat());
            let outputs = run.json();
            assert!(!outputs.is_empty(), "{sampler}: {}", run.stderr);
            for output in outputs.iter().filter(|line| line["text"].is_string()) {
                assert!(NAMES.contains(&output["text"].as_str().unwrap()), "{sampler}: {output}");
            }
        }
    }

    /// The same numbers as with the embedded model, up to the rounding of 16 bits.
    #[test]
    fn logits_and_audit() {
        let files = files();
        let logits = |model: &str| {
            files.run(&["logits", "--model", model, "--ids", "0,5,300", "--format", "json"]).json()
        };
        let (ours, theirs) = (logits("tiny"), logits("tiny.gguf"));
        let numbers = |line: &serde_json::Value| -> Vec<f64> {
            line["logits"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let (ours, theirs) = (numbers(&ours[0]), numbers(&theirs[0]));
        assert!(ours.len() == 2048 && theirs.len() == 2048);
        let largest = ours.iter().zip(&theirs).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        assert!(largest < 2e-2, "{largest}");
        let audit = |model: &str| {
            let args = [&["audit", "--model", model, "--samplers", "masked,cars", "-n", "100"], &NAMES[..]];
            let run = files.run(&args.concat());
            assert_eq!(run.code, 0, "{}", run.stderr);
            run.stdout
        };
        let report = audit("tiny.gguf");
        assert!(report.contains("cars") && report.contains("masked"), "{report}");
    }

    #[test]
    fn the_facade() -> Result<(), unskew::Error> {
        let files = files();
        let model = unskew::Model::open(files.path("tiny.gguf").to_str().unwrap())?;
        let draws = model.prompt("the").constrain(unskew::Spec::regex(" [a-z]+"))?.seed(1).sample("cars")?;
        for output in draws.take(3) {
            assert!(output?.text.starts_with(' '));
        }
        Ok(())
    }
}
