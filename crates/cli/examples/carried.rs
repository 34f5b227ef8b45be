//! Values of states that are learned on fifty prompts, on the fifty-first:
//! `cargo run --release -p unskew --example carried`.
//!
//! A service compiles a constraint once and gets thousands of prompts. The first output for a prompt has nothing of
//! its own to learn from. Here it is drawn with values that other prompts have taught, beside one without. Its
//! divergence from the model's distribution is the mean of `log P(constraint) - log w` over its weights w, and
//! P(constraint) is the mean weight of many outputs for that prompt.

#![allow(clippy::print_stdout, reason = "an example that prints its results")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::error::Error;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew::{
    Model, Spec,
    core::{Sampler, logprob::log_sum_exp},
    samplers::{Masked, Sampling, StateValues, Task, Twisted},
};

/// Prompts that values are learned on, and those that they are tried on.
const TAUGHT: usize = 50;
const TRIED: usize = 24;

/// Outputs for the probability of the constraint after one prompt.
const MANY: usize = 200;

const VALUES_BYTES: usize = 16 << 20;

const NAMES: [&str; 10] = ["Ann", "Ben", "Cora", "Dan", "Eve", "Finn", "Gina", "Hugo", "Ida", "Jack"];
const PLACES: [&str; 10] =
    ["Berlin", "Paris", "Rome", "London", "Madrid", "Vienna", "Prague", "Oslo", "Lisbon", "Dublin"];

fn prompt(number: usize, end: &str) -> String {
    format!("{} lives in {}.{end}", NAMES[number % 10], PLACES[(number / 10 + number) % 10])
}

fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

fn main() -> Result<(), Box<dyn Error>> {
    let optional = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3}},
        "required": ["name"], "additionalProperties": false}"#;
    let cases = [
        ("a date", " Born on ", Spec::regex("[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")),
        ("a name", " My name is ", Spec::regex("[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?")),
        ("JSON with optional members", "\n", Spec::json_schema(optional)),
    ];
    let model = Model::open("tiny")?;
    println!(
        "Divergence of the first output for a prompt, in nats: mean and standard error over {TRIED} prompts.\n"
    );
    println!(
        "| constraint | masked | twisted, nothing known | twisted, values of {TAUGHT} prompts | states |"
    );
    println!("|---|--:|--:|--:|--:|");
    for (name, end, spec) in cases {
        // One compiled constraint: a key of a state means the same under all prompts.
        let first = model.prompt(prompt(0, end)).max_tokens(64).constrain(spec)?.task()?;
        let constraint = first.constraint;
        let task = |number: usize| -> Result<_, Box<dyn Error>> {
            let other = model.prompt(prompt(number, end)).max_tokens(64).task()?;
            let tokens = model.tokens().vocabulary();
            Ok(Task::new(other.model, constraint.clone(), tokens, 64).after(other.prompt))
        };
        let learned = StateValues::new(VALUES_BYTES);
        for number in 0..TAUGHT {
            let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
            let policy = Twisted::new().with_values(learned.clone());
            Sampling::new(task(number)?, policy).draw(&mut rng)?;
        }
        let saved = learned.save();
        let mut divergences = [const { Vec::new() }; 3];
        for number in TAUGHT..TAUGHT + TRIED {
            let seed = number as u64;
            let mut many = Sampling::new(task(number)?, Twisted::new());
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let draws = (0..MANY).map(|_| many.draw(&mut rng).map(|draw| draw.log_weight));
            let learned = &draws.collect::<Result<Vec<_>, _>>()?[MANY / 4..];
            let log_mass = log_sum_exp(learned.iter().copied()) - (learned.len() as f64).ln();
            let values = StateValues::new(VALUES_BYTES);
            values.load(&saved)?;
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let first = [
                Sampling::new(task(number)?, Masked::new()).draw(&mut rng)?,
                Sampling::new(task(number)?, Twisted::new()).draw(&mut rng)?,
                Sampling::new(task(number)?, Twisted::new().with_values(values)).draw(&mut rng)?,
            ];
            for (divergences, draw) in divergences.iter_mut().zip(first) {
                divergences.push(log_mass - draw.log_weight);
            }
        }
        let cells = divergences.map(|divergences| {
            let (mean, error) = mean(&divergences);
            format!("{mean:.2} ± {error:.2}")
        });
        println!("| {name} | {} | {} |", cells.join(" | "), learned.len());
    }
    Ok(())
}
