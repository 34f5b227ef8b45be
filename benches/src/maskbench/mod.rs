//! Engines of JSON Schema on MaskBench's files (Geng et al., JSONSchemaBench, 2025; `maskbench/` of guidance-ai/jsonschemabench).
//!
//! The published method: a schema is compiled once, and the time to the first mask is that of compiling and of one mask. Each
//! instance is written as `json.dumps(data, ensure_ascii=False)` does, encoded once, in the same way for all engines, and walked
//! from the state after compiling, without what other instances have left in caches (`--warm` keeps it). The time of a mask is that
//! of the mask and of taking one token. A valid instance must pass whole, else it is a validation error; an invalid one must
//! be refused, else it is an invalidation error. Two things are stricter here: the end of an instance must be accepted too, and an
//! instance that ends early counts as refused only if its end is.
//!
//! Engines run on one thread, in a process each, so that memory is theirs and a schema that takes too long can be given up; they
//! take turns at each schema, and only one runs at a time. Tried instead: all in one process, where the peak of memory is that of
//! the hungriest, and nothing can be ended.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the body of a program that talks to its user")]

mod files;
mod measure;
mod options;
mod plot;
mod report;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    clock,
    engine::{Builder, Place, SCHEMA, SCHEMA_ANY_ORDER},
    process::{Process, memory_of},
    subject_of_file,
};

use files::{File, name_of};
use measure::{Encoder, Outcome, measure};
use options::Options;

/// The argument that makes the program a worker, which serves the engine whose name follows.
pub const WORKER: &str = "--schema-worker";

/// How long a worker may take to load a tokenizer and build an engine.
const START: Duration = Duration::from_secs(120);

/// How many schemas a process of another program serves: glrmask's states borrow what was compiled, which its worker never frees.
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
    /// For each file, in order: what came out, or why nothing did: the time, the memory, or the end of the process.
    pub(crate) outcomes: Vec<Result<Outcome, String>>,
    /// In bytes.
    pub(crate) peak: u64,
}

/// The program: ours among `builders`, and those peers that are asked for.
pub fn run(builders: &[Builder]) -> ExitCode {
    match program(builders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn program(builders: &[Builder]) -> Result<(), String> {
    let options = Options::parse(std::env::args().skip(1))?;
    if options.cpu_time {
        clock::use_cpu_time();
    }
    if let Some(name) = &options.worker {
        let builder = builders.iter().find(|builder| builder.name == name).ok_or("no such engine")?;
        return serve(builder, &options, &mut std::io::stdout().lock());
    }
    let known = |name: &str| builders.iter().any(|builder| builder.name == name);
    if let Some(name) = options.peers.iter().find(|name| !known(name)) {
        return Err(format!(
            "--peers {name}: no such engine in this build; `cargo xtask bench maskbench` builds the known ones"
        ));
    }
    let ours = if options.any_order { SCHEMA_ANY_ORDER } else { SCHEMA };
    let wanted =
        |builder: &&Builder| builder.name == ours || options.peers.iter().any(|name| name == builder.name);
    let begin = Instant::now();
    let files = files::files(&options)?;
    let mut clients = Vec::new();
    for builder in builders.iter().filter(wanted) {
        let mut client = Client::new(builder, &options)?;
        // What does not start for the first schema does for none.
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

    let plot = plot::plot(&results);
    let report = report::report(&names, &results, &options, begin.elapsed());
    println!("{report}");
    if let Some(path) = &options.json {
        let json =
            serde_json::to_string_pretty(&report::json(&results)).map_err(|error| error.to_string())?;
        fs::write(path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &options.plot {
        fs::write(path, &plot).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if options.record {
        let file = crate::report::record_as("maskbench", &report)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
        let picture = Path::new(&file).with_extension("svg");
        fs::write(folder.join(picture), plot).map_err(|error| error.to_string())?;
        eprintln!("written to benches/record/{file}, with its plot");
    }
    Ok(())
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
        let program = match (options.program(builder.name), builder.place) {
            (Some(path), _) => path.clone(),
            (None, Place::Elsewhere) => {
                return Err(format!(
                    "{} is in a program of its own: --program {}=PATH",
                    builder.name, builder.name
                ));
            }
            (None, _) => std::env::current_exe().map_err(|error| error.to_string())?,
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
        let mut args = vec![WORKER.to_owned(), self.builder.name.to_owned()];
        if let Some(tokenizer) = &options.tokenizer {
            args.extend(["--tokenizer".to_owned(), tokenizer.to_string_lossy().into_owned()]);
        }
        args.extend(options.warm.then(|| "--warm".to_owned()));
        args.extend(options.cpu_time.then(|| "--cpu-time".to_owned()));
        let running = self.running.insert(Process::start(&self.program, &args)?);
        self.result.ready = Some(running.answer(START, options.memory)?);
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
        running.answer(options.limit, options.memory)
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
        let outcome =
            File::read(Path::new(&path)).and_then(|file| measure(&*engine, &encoder, &file, options.warm));
        send(serde_json::to_string(&Answer { outcome, peak: memory_of("self", "VmHWM:") }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
