//! `--model FILE.gguf`: tokens, the model in our own decoder, and the model in llama.cpp.

use unskew_testdata::gguf::{GgufWriter, Weights, llama, random_llama, sentence_piece};

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
        &["mask", "--regex", "[0-9]{4}-(0[1-9]|1[0-2])", "--prefix", "2024-", "--list"][..],
        &["mask", "--regex", " (William|Theodore)", "--canonical", "--list"],
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

/// The embedded model in a file is the embedded model: the same outputs with the same log-probabilities.
#[test]
fn the_model_of_a_file_runs() {
    let files = files();
    for command in [
        &["generate", "--sampler", "cars", "-n", "4", "--format", "json"][..],
        &["generate", "--sampler", "masked", "-n", "2", "--format", "json", "--quantize", "q8_0"],
    ] {
        let of = |model: &str| {
            let run = files.run(&[command, &NAMES, &["--model", model]].concat());
            assert_eq!(run.code, 0, "{}", run.stderr);
            run.stdout
        };
        assert_eq!(of("tiny.gguf"), of("tiny"));
    }
    let logits =
        |model: &str| files.run(&["logits", "--model", model, "--ids", "0,5,300", "--format", "json"]);
    assert_eq!(logits("tiny.gguf").stdout, logits("tiny").stdout);
}

#[test]
fn a_file_is_described_and_measured() {
    let files = files();
    let info = |model: &str| {
        let run = files.run(&["model", "info", "--model", model, "--format", "json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.json().remove(0)
    };
    let (mut ours, mut theirs) = (info("tiny.gguf"), info("tiny"));
    // Norms are of 32 bits in GGUF files.
    for info in [&mut ours, &mut theirs] {
        assert!(info["bytes"].as_u64().unwrap() > 100_000);
        info["bytes"] = 0.into();
    }
    assert_eq!(ours, theirs);
    let run = files.run(&["model", "bench", "--model", "tiny.gguf", "--steps", "1", "--format", "json"]);
    assert_eq!(run.json()[0]["weights"], "f16", "{}", run.stderr);
}

#[test]
fn the_chat_template_of_a_file_is_used() {
    let template = "{{ bos_token }}{% for m in messages %}<tag>{{ m.content }}{% endfor %}{{ eos_token }}in";
    let bytes = random_llama(|file| {
        file.text("tokenizer.chat_template", template);
        file.number("tokenizer.ggml.bos_token_id", 1).number("tokenizer.ggml.eos_token_id", 2);
        sentence_piece(file, false)
    });
    let tiny = files();
    let files = Files::new(&[("chat.gguf", &bytes)]);
    let of = |prompt: &[&str]| {
        let args =
            ["generate", "--model", "chat.gguf", "--regex", "[a-c]{2}", "--seed", "3", "--format", "json"];
        let run = files.run(&[&args[..], prompt].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.json()[0]["logprob"].clone()
    };
    let chat = of(&["--chat", "--prompt", "a é"]);
    assert!(chat.is_number(), "{chat}");
    assert_eq!(chat, of(&["--prompt", "<tag>a é</s>in"]));
    assert_ne!(chat, of(&["--prompt", "a é"]));
    // The messages of a file go through it too.
    let lines = r#"{"messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "a é"}]}"#;
    std::fs::write(files.path("p.jsonl"), lines).unwrap();
    assert_eq!(of(&["--prompts", "p.jsonl"]), of(&["--prompt", "<tag>b<tag>a é</s>in"]));
    let none = tiny.run(&["generate", "--model", "tiny.gguf", "--chat", "--prompt", "a"]);
    assert!(none.refusal().contains("`tokenizer.chat_template` of a GGUF file"), "{}", none.refusal());
}

/// An error names what our own decoder does not know, and where it runs.
#[cfg(not(feature = "llama-cpp"))]
#[test]
fn other_models_need_the_feature() {
    let mut file = GgufWriter::new();
    file.text("general.architecture", "mamba");
    let files = Files::new(&[("mamba.gguf", &file.bytes()), ("tiny.gguf", b"")]);
    for command in [&["generate"][..], &["model", "info"]] {
        assert_eq!(
            files.run(&[command, &["--model", "mamba.gguf"]].concat()).refusal(),
            "error: mamba.gguf: the architecture \"mamba\" is not computed here; llama, qwen2, qwen3, smollm3, gemma2, \
             gemma3, phi3, gpt2, olmo2 are; llama.cpp may run it, with the feature `llama-cpp` of unskew"
        );
    }
    assert_eq!(
        files.run(&["generate", "--model", "llama-cpp:tiny.gguf"]).refusal(),
        "error: `llama-cpp:FILE` needs the feature `llama-cpp` of unskew, and this program was built without it"
    );
}

#[cfg(feature = "llama-cpp")]
mod with_llama_cpp {
    use super::*;

    /// Every sampler runs, and writes outputs of the constraint.
    #[test]
    fn generate() {
        let files = files();
        for sampler in ["masked", "rejection", "cars", "disc", "smc", "awrs", "beam", "speculative"] {
            let draft: &[&str] =
                if sampler == "speculative" { &["--draft-model", "llama-cpp:tiny.gguf"] } else { &[] };
            let args = [
                &[
                    "generate",
                    "--model",
                    "llama-cpp:tiny.gguf",
                    "--sampler",
                    sampler,
                    "-n",
                    "4",
                    "--format",
                    "json",
                ],
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
        let (ours, theirs) = (logits("tiny"), logits("llama-cpp:tiny.gguf"));
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
        let report = audit("llama-cpp:tiny.gguf");
        assert!(report.contains("cars") && report.contains("masked"), "{report}");
    }

    #[test]
    fn the_facade() -> Result<(), unskew::Error> {
        let files = files();
        let model = unskew::Model::open(&format!("llama-cpp:{}", files.path("tiny.gguf").display()))?;
        let draws = model.prompt("the").constrain(unskew::Spec::regex(" [a-z]+"))?.seed(1).sample("cars")?;
        for output in draws.take(3) {
            assert!(output?.text.starts_with(' '));
        }
        Ok(())
    }
}
