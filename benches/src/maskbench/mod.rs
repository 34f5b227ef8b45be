//! Engines of JSON Schema on MaskBench's files (Geng et al., JSONSchemaBench, 2025; `maskbench/` of
//! guidance-ai/jsonschemabench).
//!
//! The published method: a schema is compiled once, and the time to the first mask is that of compiling and of one
//! mask. Each instance is written as `json.dumps(data, ensure_ascii=False)` does, encoded once, in the same way for
//! all engines, and walked from the state after compiling, without the caches of other instances (`--warm` keeps it).
//! The time of a mask is that of the mask and of taking one token. A valid instance must pass whole, else it is a
//! validation error; an invalid one must be refused, else it is an invalidation error. Two things are stricter here:
//! the end of an instance must be accepted too, and an instance that ends early counts as refused only if its end is.
//!
//! Engines run on one thread, in a process each, so that memory is theirs and a schema that takes too long can be
//! given up; they take turns at each schema, and only one runs at a time. Tried instead: all in one process, where
//! the peak of memory is that of the hungriest, and nothing can be ended.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the body of a program that talks to its user")]

mod causes;
mod files;
mod measure;
mod report;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    clock,
    engine::{Builder, Place, SCHEMA, SCHEMA_ANY_ORDER, SCHEMA_CANONICAL},
    options::{ClockOptions, RecordOptions, glrmask, python},
    process::{Process, memory_of},
    subject_of_file,
};

use files::{File, name_of};
use measure::{Encoder, Outcome, measure};

/// Engines of JSON Schema on MaskBench's files.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only schemas with one of these in their file names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// A folder of files {meta, schema, tests: [{valid, data}]}
    #[arg(long, value_name = "DIR", required_unless_present = "worker")]
    data: Option<PathBuf>,
    /// A tokenizer.json (default: the embedded one)
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Other engines beside ours: llguidance, glrmask, xgrammar (by the Python that UNSKEW_PYTHON names, which has its
    /// package)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    peers: Vec<String>,
    /// So many of the schemas, drawn with --seed (default: all)
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// The seed of --sample
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write the figures as JSON
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Write every single time: one JSON value a line for each schema and engine
    #[arg(long, value_name = "OUT")]
    samples: Option<PathBuf>,
    /// Write the distributions as SVG
    #[arg(long, value_name = "OUT")]
    plot: Option<PathBuf>,
    /// So many of the slowest masks of all schemas by cause
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    causes: Option<usize>,
    /// Milliseconds for one schema with all its instances
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    limit_ms: u64,
    /// Memory of the process for one schema, in MB
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    limit_mb: u64,
    /// Ours takes the members of an object in any order (default: as declared)
    #[arg(long)]
    any_order: bool,
    /// Ours with the tokenizer's own sequences alone beside ours with all: the sequences of instances are the
    /// tokenizer's
    #[arg(long)]
    canonical: bool,
    /// Keep caches between the instances of a schema (default: each starts as compiled)
    #[arg(long)]
    warm: bool,
    #[command(flatten)]
    clock: ClockOptions,
    #[command(flatten)]
    record: RecordOptions,
    /// In a process apart: the engine that it serves
    #[arg(long, hide = true)]
    worker: Option<String>,
}

impl Options {
    fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }

    /// How many masks of a schema are told with their place.
    fn slowest(&self) -> usize {
        const LISTED: usize = 5;
        self.causes.unwrap_or(LISTED).max(LISTED)
    }

    /// In bytes.
    fn memory(&self) -> u64 {
        self.limit_mb.saturating_mul(1 << 20)
    }
}

/// How long a worker may take to load a tokenizer and build an engine.
const START: Duration = Duration::from_secs(120);

/// How many schemas a process of another program serves: glrmask's states borrow compiled schemas, which its worker
/// never frees.
const RENEW: usize = 20;

/// The first line of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Of the vocabulary.
    name: String,
    tokens: usize,
    /// The resident memory before any schema, in bytes.
    resident: u64,
}

/// The answer of a worker to a path.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    outcome: Result<Outcome, String>,
    /// The most memory that was resident so far, in bytes.
    peak: u64,
}

/// All that came out for one engine.
#[derive(Debug)]
pub(crate) struct EngineResult {
    pub(crate) name: &'static str,
    pub(crate) ready: Option<Ready>,
    /// For each file, in order: its measurements, or why there are none: the time, the memory, or the end of the
    /// process.
    pub(crate) outcomes: Vec<Result<Outcome, String>>,
    /// In bytes.
    pub(crate) peak: u64,
}

/// Measures ours among `builders`, and those peers that are asked for.
pub(crate) fn run(builders: &[Builder], options: &Options) -> Result<(), String> {
    if options.clock.cpu_time {
        clock::use_cpu_time();
    }
    if let Some(name) = &options.worker {
        let builder = builders.iter().find(|builder| builder.name == name).ok_or("no such engine")?;
        return serve(builder, options, &mut std::io::stdout().lock());
    }
    let known = |name: &str| builders.iter().any(|builder| builder.name == name);
    if let Some(name) = options.peers.iter().find(|name| !known(name)) {
        return Err(format!(
            "--peers {name}: no such engine in this build; `cargo xtask bench maskbench` builds the known ones"
        ));
    }
    let ours = if options.any_order { SCHEMA_ANY_ORDER } else { SCHEMA };
    let wanted = |builder: &&Builder| {
        builder.name == ours
            || options.canonical && builder.name == SCHEMA_CANONICAL
            || options.peers.iter().any(|name| name == builder.name)
    };
    let begin = Instant::now();
    let files = files::files(options)?;
    let mut clients = Vec::new();
    for builder in builders.iter().filter(wanted) {
        let mut client = Client::new(builder, options)?;
        // A worker that does not start for the first schema does for none.
        client.start()?;
        clients.push(client);
    }
    let mut raw = match &options.samples {
        Some(path) => {
            Some(std::io::BufWriter::new(fs::File::create(path).map_err(|error| error.to_string())?))
        }
        None => None,
    };
    for (count, file) in files.iter().enumerate() {
        if count % 100 == 0 {
            eprintln!("{count} of {} schemas, {:.0} s", files.len(), begin.elapsed().as_secs_f64());
        }
        for client in &mut clients {
            let outcome = client.measure(file);
            if let Some(raw) = &mut raw {
                let line = serde_json::json!({"schema": name_of(file), "engine": client.result.name, "outcome": outcome});
                writeln!(raw, "{line}").map_err(|error| error.to_string())?;
            }
            client.result.outcomes.push(outcome);
        }
    }
    let results: Vec<EngineResult> = clients.into_iter().map(|client| client.result).collect();
    let names: Vec<String> = files.iter().map(|file| name_of(file)).collect();

    let report = report::report(&names, &results, options, begin.elapsed());
    println!("{report}");
    if let Some(path) = &options.json {
        let json =
            serde_json::to_string_pretty(&report::json(&results)).map_err(|error| error.to_string())?;
        fs::write(path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &options.plot {
        fs::write(path, report::plot(&results)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    options.record.write("maskbench", &report)
}

/// An engine in its process, seen from the program.
struct Client<'a> {
    options: &'a Options,
    builder: &'a Builder,
    program: PathBuf,
    running: Option<Process>,
    /// How many schemas the process has served.
    served: usize,
    result: EngineResult,
}

impl<'a> Client<'a> {
    fn new(builder: &'a Builder, options: &'a Options) -> Result<Self, String> {
        let program = match builder.place {
            Place::Elsewhere => glrmask()?,
            Place::Python => python(),
            Place::Here | Place::Apart => std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let name = if builder.name == SCHEMA_ANY_ORDER { SCHEMA } else { builder.name };
        let result = EngineResult { name, ready: None, outcomes: Vec::new(), peak: 0 };
        Ok(Self { options, builder, program, running: None, served: 0, result })
    }

    fn measure(&mut self, file: &Path) -> Result<Outcome, String> {
        if self.builder.place == Place::Elsewhere && self.served >= RENEW {
            self.running = None;
        }
        let answer = self.ask(file);
        match answer {
            Ok(answer) => {
                self.result.peak = self.result.peak.max(answer.peak);
                answer.outcome
            }
            Err(error) => {
                self.running = None;
                Err(error)
            }
        }
    }

    fn start(&mut self) -> Result<(), String> {
        let options = self.options;
        let mut args = ["maskbench", "--worker", self.builder.name].map(str::to_owned).to_vec();
        if self.builder.place == Place::Python {
            args.insert(0, concat!(env!("CARGO_MANIFEST_DIR"), "/xgrammar/worker.py").to_owned());
        }
        if let Some(tokenizer) = &options.tokenizer {
            args.extend(["--tokenizer".to_owned(), tokenizer.to_string_lossy().into_owned()]);
        }
        args.extend(options.clock.cpu_time.then(|| "--cpu-time".to_owned()));
        let is_ours = self.builder.place != Place::Python;
        args.extend((options.warm && is_ours).then(|| "--warm".to_owned()));
        args.extend(
            options
                .causes
                .filter(|_| is_ours)
                .iter()
                .flat_map(|most| ["--causes".to_owned(), most.to_string()]),
        );
        let running = self.running.insert(Process::start(&self.program, &args)?);
        self.result.ready = Some(running.answer(START, options.memory())?);
        self.served = 0;
        Ok(())
    }

    fn ask(&mut self, file: &Path) -> Result<Answer, String> {
        let (options, path) = (self.options, file.to_str().ok_or("a path that is not UTF-8")?);
        if self.running.is_none() {
            self.start()?;
        }
        let running = self.running.as_mut().ok_or("the process did not start")?;
        self.served += 1;
        running.send(path)?;
        running.answer(options.limit(), options.memory())
    }
}

/// The worker itself: serves until its input ends.
fn serve(builder: &Builder, options: &Options, output: &mut dyn Write) -> Result<(), String> {
    let subject = subject_of_file(options.tokenizer.as_deref())?;
    let engine = (builder.build)(&subject)?;
    let encoder = Encoder::new(&subject);
    let mut send = |line: Result<String, serde_json::Error>| {
        let line = line.map_err(|error| error.to_string())?;
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| error.to_string())
    };
    let resident = memory_of("self", "VmRSS:");
    send(serde_json::to_string(&Ready {
        name: subject.name.clone(),
        tokens: subject.vocabulary.len(),
        resident,
    }))?;
    for line in std::io::stdin().lines() {
        let path = line.map_err(|error| error.to_string())?;
        let outcome = File::read(Path::new(&path))
            .and_then(|file| measure(&*engine, &encoder, &file, options.warm, options.slowest()));
        send(serde_json::to_string(&Answer { outcome, peak: memory_of("self", "VmHWM:") }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
