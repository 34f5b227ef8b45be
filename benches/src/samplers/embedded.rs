//! Samplers on the embedded model: outputs begun for one that is kept, model calls, and the distance from the model's
//! probabilities on the observed outputs.
//!
//! The command line draws, as a program of its own, so that this suite needs no tensor library. The constraints are
//! in the kind of those of grammar-aligned decoding: terms over bit vectors and strings (the grammars of the
//! examples), JSON, and a set. With `UNSKEW_DATA` set, the benchmark's own grammars come to them.

use std::{fmt, path::Path, process::Command};

use serde_json::Value;

use super::Report;

/// Outputs of each sampler, and those after which it is looked at first.
const OUTPUTS: [usize; 2] = [50, 400];

/// Samplers that reject give up after so many tries for one output.
const TRIES: &str = "5000";

/// Those, each with its tries.
const SAMPLERS: &str = "masked,asap:tries=5000,twist,twist:budget=2,smc:n=8,values,tries=5000,\
    rejection:tries=5000,rsft:tries=5000,ars:tries=5000,cars:tries=5000,disc";

/// A constraint, and the prompt in front of it.
struct Task {
    name: String,
    args: Vec<String>,
}

impl Task {
    fn new(name: &str, args: &[&str]) -> Self {
        Self { name: name.to_owned(), args: args.iter().map(|arg| (*arg).to_owned()).collect() }
    }
}

fn tasks(folder: &Path) -> Vec<Task> {
    let mut tasks = vec![
        Task::new(
            "bit vectors in kind",
            &[
                "--grammar",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/bit-vectors/grammar.ebnf"),
                "--prompt",
                "(+ 2 (* 2 1)) => 4\n",
            ],
        ),
        Task::new(
            "strings in kind",
            &[
                "--grammar",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/strings/grammar.ebnf"),
                "--prompt",
                "the first letter of a name: ",
            ],
        ),
        Task::new(
            "JSON",
            &[
                "--json-schema",
                concat!(env!("CARGO_MANIFEST_DIR"), "/samplers/record.json"),
                "--with",
                "whitespace=bounded:1",
                "--prompt",
                "a person:\n",
            ],
        ),
        Task::new(
            "set",
            &[
                "--set",
                concat!(env!("CARGO_MANIFEST_DIR"), "/samplers/cities.txt"),
                "--prompt",
                "He lives in ",
            ],
        ),
    ];
    let Some(data) = std::env::var_os("UNSKEW_DATA") else { return tasks };
    for (name, file, prompt) in [
        ("BV4", "gad-bv4/grammar.ebnf", "(define-fun inv ((s (BitVec 4)) (t (BitVec 4))) (BitVec 4) "),
        ("SLIA", "gad-slia/grammars/dr-name-long.ebnf", "(define-fun f ((name String)) String "),
    ] {
        // The text before the term is given: the prompt.
        let grammar = std::fs::read_to_string(Path::new(&data).join(file)).unwrap_or_default();
        let Some((_, rules)) = grammar.split_once("Start ::=") else { continue };
        let path = folder.join(format!("{name}.ebnf"));
        if std::fs::write(&path, format!("root ::= Start\nStart ::={rules}")).is_ok() {
            tasks.push(Task::new(name, &["--grammar", &path.to_string_lossy(), "--prompt", prompt]));
        }
    }
    tasks
}

/// The program's figures for all samplers after so many outputs.
fn audit(program: &Path, task: &Task, outputs: usize) -> Result<Vec<Value>, String> {
    let outputs = outputs.to_string();
    let fixed = ["audit", "--format", "jsonl", "--seed", "1", "--max-tokens", "48"];
    let output = Command::new(program)
        .args(fixed)
        .args(["--samplers", SAMPLERS, "--samples", &outputs])
        .args(&task.args)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    lines.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// A number of a line, or a dash.
struct Cell(Option<f64>, usize);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value:.*}", self.1),
            None => f.write_str("-"),
        }
    }
}

/// Runs them.
pub(super) fn report(out: &mut Report, program: &Path) {
    let [few, many] = OUTPUTS;
    out.line(format_args!(
        "\n## On the embedded model\n\nOutputs of at most 48 tokens. `begun`: outputs begun for one that was kept; `calls`: positions that the model \
         evaluated for one; both over {few} outputs and over {many}. KL in nats of the outputs' frequencies from the model's probabilities of all \
         outputs that any of the samplers was observed to draw, normalised (grammar-aligned decoding, section 5); `noise` is about the distance of \
         an exact sampler. A sampler that gives up after {TRIES} tries for one output has a dash.\n"
    ));
    let folder = std::env::temp_dir();
    for task in tasks(&folder) {
        out.line(format_args!(
            "### {}\n\n| sampler | begun, {few} | begun, {many} | calls, {few} | calls, {many} | KL, {few} | KL, {many} | noise |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|",
            task.name
        ));
        let found = OUTPUTS.map(|outputs| audit(program, &task, outputs));
        let [first, last] = match found {
            [Ok(first), Ok(last)] => [first, last],
            [Err(error), _] | [_, Err(error)] => {
                out.line(format_args!("| {error} |"));
                continue;
            }
        };
        for (first, last) in first.iter().zip(&last) {
            let whole = |line: &Value, value: Option<f64>| value.filter(|_| line["error"].is_null());
            let begun = |line: &Value| Cell(whole(line, line["acceptance"].as_f64().map(f64::recip)), 2);
            let calls = |line: &Value| Cell(whole(line, line["lm_calls_per_sample"].as_f64()), 2);
            let kl = |line: &Value| Cell(whole(line, line["kl"].as_f64()), 3);
            out.line(format_args!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                first["sampler"].as_str().unwrap_or_default(),
                begun(first),
                begun(last),
                calls(first),
                calls(last),
                kl(first),
                kl(last),
                Cell(whole(last, last["kl_noise"].as_f64()), 3)
            ));
        }
        out.line(format_args!(""));
    }
}
