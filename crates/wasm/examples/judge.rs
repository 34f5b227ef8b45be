//! Writes what Rust answers, for the tests of the package: masks along walks under a few hundred specs, and draws.
//!
//! ```text
//! judge OUT EMBEDDED [FILE ...]
//! ```
//!
//! EMBEDDED is the folder of the embedded model's files. The specs are the cases of `unskew-testdata`, the grammars in
//! the TOML files that are named, and those in the JSON files: a list of specs, or one file of MaskBench. A file with
//! the name `tokenizer.json` is a tokenizer that every spec after it is compiled for.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use unskew::{
    Model, Spec, TokenSpace,
    core::{Extension, FnModel, LanguageModel, Logits, MaskRef, Rows, TokenId},
    engine::{COMPILE_FUEL, Compiler, Until, chain},
    runner::LoadOptions,
    vocab,
};
use unskew_testdata::{Constraint, cases};

/// The most steps of a walk.
const STEPS: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(out), Some(embedded)) = (arguments.next(), arguments.next()) else {
        return Err("give OUT and EMBEDDED".into());
    };
    let own = embedded.join("tokenizer.json");
    let mut name = own.display().to_string();
    let mut tokens = tokenizer(&own)?;
    let mut specs: Vec<Value> = Vec::new();
    for case in cases() {
        specs.push(match case.constraint {
            Constraint::Pattern(pattern) => json!({ "regex": pattern, "regex_dialect": "rust" }),
            Constraint::Choices(choices) => {
                let texts: Result<Vec<String>, _> = choices.into_iter().map(String::from_utf8).collect();
                let Ok(texts) = texts else { continue };
                json!({ "choices": texts })
            }
            _ => continue,
        });
    }
    let mut walks = Vec::new();
    for file in arguments {
        if file.ends_with("tokenizer.json") {
            walk_all(&mut walks, &name, &tokens, &std::mem::take(&mut specs));
            (name, tokens) = (file.display().to_string(), tokenizer(&file)?);
        } else {
            specs.extend(specs_of(&file)?);
        }
    }
    walk_all(&mut walks, &name, &tokens, &specs);
    let (drawn, rows) = draws(&embedded)?;
    let drawn = json!({ "embedded": drawn, "function": function_draws()? });
    println!("{} specs", walks.len());
    fs::write(out, serde_json::to_string(&json!({ "walks": walks, "draws": drawn, "rows": rows }))?)?;
    Ok(())
}

fn tokenizer(path: &Path) -> Result<Arc<TokenSpace>, Box<dyn Error>> {
    let tokenizer = vocab::Tokenizer::from_bytes(&fs::read(path)?)?;
    Ok(Arc::new(TokenSpace::from_tokenizer(tokenizer, &[], 0)?))
}

/// The specs of a file.
fn specs_of(file: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    if file.extension().is_some_and(|extension| extension == "toml") {
        let table: toml::Table = text.parse()?;
        let grammars = table.get("grammar").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let of_format = |grammar: &toml::Value| {
            let formats = ["lark", "gbnf", "ebnf", "abnf", "xgrammar"].into_iter();
            let mut found =
                formats.filter_map(|format| Some((format, grammar.get(format)?.as_str()?.to_owned())));
            found.next()
        };
        let found = grammars.iter().filter_map(of_format);
        return Ok(found
            .map(|(format, text)| json!({ "grammar": text, "grammar_format": format }))
            .collect());
    }
    Ok(match serde_json::from_str(&text)? {
        Value::Array(specs) => specs,
        mut of_maskbench => vec![json!({ "json_schema": of_maskbench["schema"].take().to_string() })],
    })
}

/// Each spec, and every third of them with the tokenizer's own sequences alone.
fn walk_all(walks: &mut Vec<Value>, name: &str, tokens: &Arc<TokenSpace>, specs: &[Value]) {
    for (at, spec) in specs.iter().enumerate() {
        let mut spec = spec.clone();
        if at % 3 == 2 {
            spec["canonical"] = json!(true);
        }
        let mut walk = walk(tokens, &spec, at as u64);
        walk["tokenizer"] = json!(name);
        walk["spec"] = spec;
        walks.push(walk);
    }
}

/// The masks along one walk, or the error.
fn walk(tokens: &Arc<TokenSpace>, spec: &Value, seed: u64) -> Value {
    let spec = match Spec::from_json(&spec.to_string()) {
        Ok(spec) => spec,
        Err(error) => return json!({ "error": chain(&error) }),
    };
    let until = Until { fuel: Some(COMPILE_FUEL), ..Until::default() };
    let compiled = match Compiler::shared(tokens).compile_until(&spec, &until) {
        Ok(compiled) => compiled,
        Err(error) => return json!({ "error": chain(&*error) }),
    };
    let mut matcher = compiled.matcher();
    let (mut row, mut random) = (vec![0; matcher.mask_words()], seed.wrapping_mul(0x9e37_79b9) + 1);
    let (mut steps, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let mask = match matcher.fill(&mut row) {
            Ok(()) => row.iter().fold(String::new(), |mut text, word| {
                _ = write!(text, "{word:08x}");
                text
            }),
            Err(error) => {
                steps.push(json!({ "error": chain(&error) }));
                break;
            }
        };
        steps.push(json!({ "mask": mask, "end": matcher.is_accepting() }));
        let allowed: Vec<TokenId> = MaskRef::new(&row, tokens.vocabulary().len()).into_ids().collect();
        if matcher.is_terminated() || allowed.is_empty() {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let next = allowed[usize::try_from(random >> 33).unwrap_or_default() % allowed.len()];
        ids.push(next.0);
        if !matcher.accept(next).unwrap_or(false) {
            steps.push(json!({ "error": "not accepted" }));
            break;
        }
    }
    json!({ "ids": ids, "steps": steps })
}

const SAMPLERS: [&str; 10] =
    ["masked", "cars", "disc", "auto", "rsft", "asap", "awrs", "smc:n=4", "beam:n=3", "mcmc"];

fn drawn(model: &Model, spec: &str, sampler: &str, prompt: &str) -> Result<Value, Box<dyn Error>> {
    let request = model.prompt(prompt).constrain(Spec::from_json(spec)?)?.seed(11).outputs(8);
    let mut outputs = Vec::new();
    for output in request.sample(sampler)?.take(8) {
        let output = output?;
        let ids: Vec<u32> = output.ids.iter().map(|id| id.0).collect();
        let positions = output.cost.positions;
        outputs.push(
            json!({ "ids": ids, "text": output.text, "logprob": output.log_prob, "positions": positions }),
        );
    }
    Ok(json!({ "spec": spec, "sampler": sampler, "prompt": prompt, "outputs": outputs }))
}

/// Draws of the embedded model, and its rows along the last of them.
fn draws(embedded: &Path) -> Result<(Vec<Value>, Vec<Value>), Box<dyn Error>> {
    let [config, tokenizer, weights] =
        ["config.json", "tokenizer.json", "model.safetensors"].map(|name| fs::read(embedded.join(name)));
    let config = String::from_utf8(config?)?;
    let model = Model::from_bytes(&config, &tokenizer?, &weights?, &mut LoadOptions::default())?;
    let names = r#"{"choices": ["Thomas Hansen", "Peter Costa", "Paul Becker"]}"#;
    let record = r#"{"regex": "\\{\"name\": \"[A-Z][a-z]+ [A-Z][a-z]+\", \"age\": [1-9][0-9]\\}"}"#;
    let mut all = Vec::new();
    for sampler in SAMPLERS {
        all.push(drawn(&model, names, sampler, "Dear Ms Meyer,\nKind regards,\n")?);
    }
    all.push(drawn(&model, record, "cars", "")?);
    let masked = drawn(&model, record, "masked", "")?;
    let mut ids = model.tokens().encode_prompt("")?;
    let drawn = masked["outputs"][0]["ids"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    ids.extend(drawn.filter_map(|id| u32::try_from(id).ok()).map(TokenId));
    all.push(masked);
    Ok((all, rows(&model, &ids)?))
}

/// The row after each of `ids`, with the ids up to it.
fn rows(model: &Model, ids: &[TokenId]) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut model = model.any_model().clone();
    let (mut sequence, mut logits) = (model.start(), Logits::new());
    model.extend(&mut [Extension { sequence: &mut sequence, tokens: ids, rows: Rows::All }], &mut logits)?;
    let numbers: Vec<u32> = ids.iter().map(|id| id.0).collect();
    let row = |at: usize| json!({ "ids": &numbers[..=at], "logits": logits.row(at) });
    Ok((0..ids.len()).map(row).collect())
}

/// Draws of a function that the tests have in JavaScript too: whole numbers alone, so that both compute the same.
fn function_draws() -> Result<Vec<Value>, Box<dyn Error>> {
    let row_of = |prefix: &[TokenId], row: &mut [f32]| {
        for (id, logit) in (0u32..).zip(row) {
            let mix = prefix.iter().fold(id, |mix, next| mix.wrapping_mul(31).wrapping_add(next.0));
            #[allow(clippy::cast_precision_loss, reason = "a byte")]
            {
                *logit = (mix.wrapping_mul(2_654_435_761) >> 24) as f32 / 64.0;
            }
        }
    };
    let mut builder = unskew::core::Vocabulary::builder();
    (0..=u8::MAX).for_each(|byte| _ = builder.text(&[byte]));
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    let tokens = TokenSpace::from_vocabulary(builder.build()?);
    let model = Model::new(FnModel::new(257, row_of), tokens)?;
    let spec = r#"{"regex": "[a-c]{1,4}(x|yz)"}"#;
    SAMPLERS.into_iter().map(|sampler| drawn(&model, spec, sampler, "")).collect()
}
