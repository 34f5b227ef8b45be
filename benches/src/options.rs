//! The options that several subcommands share.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::record;

/// Regex and grammar engines side by side.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only regexes or grammars with one of these in their names
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Only these vocabularies: tiny, and folders under UNSKEW_DATA/tokenizers
    #[arg(long = "vocabulary", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) vocabularies: Vec<String>,
    /// Only engines with one of these in their names, and our first
    #[arg(long = "engine", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) engines: Vec<String>,
    /// Rounds of measurement after a first one; the smallest time counts
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Time for one regex of an engine that runs in a process of its own
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) peer_limit: Duration,
    /// Memory of such a process
    #[arg(long, value_name = "GB", default_value = "6", value_parser = gigabytes)]
    pub(crate) peer_memory: u64,
    /// Count the heap instead of timing
    #[arg(long)]
    pub(crate) memory: bool,
    /// Measure glrmask too, by a program of its own that takes a quarter of an hour to build
    #[arg(long, conflicts_with = "memory")]
    pub(crate) glrmask: bool,
    #[command(flatten)]
    pub(crate) clock: ClockOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
    /// In a process apart: the engine that it serves
    #[arg(long, hide = true)]
    pub(crate) worker: Option<String>,
}

/// Which clock is read.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ClockOptions {
    /// Time on the processor, without interruptions: for a machine that does other things too
    #[arg(long)]
    pub(crate) cpu_time: bool,
}

/// Where a report goes besides standard output.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordOptions {
    /// Write the report to benches/record/NAME.md too, and its percentiles to history.csv (default: the subcommand's
    /// name)
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    record: Option<String>,
}

impl RecordOptions {
    /// Records `report` where that was asked for, under `name` if no other name was given.
    pub(crate) fn write(&self, name: &str, report: &str) -> Result<(), String> {
        match self.record.as_deref() {
            None => Ok(()),
            Some("") => record::record(name, report),
            Some(name) => record::record(name, report),
        }
    }
}

/// The command line as the embedded model's program.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EmbeddedOptions {
    /// Measure on the embedded model too, by the command line in release, which `cargo xtask bench` builds
    #[arg(long)]
    pub(crate) embedded: bool,
}

impl EmbeddedOptions {
    /// The command line, if it is asked for.
    pub(crate) fn program(self) -> Result<Option<PathBuf>, String> {
        self.embedded.then(command_line).transpose()
    }
}

/// The command line in release.
pub(crate) fn command_line() -> Result<PathBuf, String> {
    built("target/release/unskew")
}

impl Options {
    /// Whether a regex of this name is wanted.
    pub(crate) fn wants_regex(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Whether a vocabulary of this name is wanted; without an option, those of `usual`.
    pub(crate) fn wants_vocabulary(&self, name: &str, usual: &[&str]) -> bool {
        match &self.vocabularies[..] {
            [] => usual.contains(&name),
            wanted => wanted.iter().any(|wanted| wanted == name),
        }
    }

    /// Whether an engine of this name is wanted.
    pub(crate) fn wants_engine(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|part| name.contains(part.as_str()))
    }
}

/// The program that serves glrmask.
pub(crate) fn glrmask() -> Result<PathBuf, String> {
    built("benches/glrmask/target/release/unskew-bench-glrmask")
}

/// The Python that has the packages of peers.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("UNSKEW_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

/// The program that times llama.cpp.
#[cfg(feature = "burn")]
pub(crate) fn llama_cpp() -> Result<PathBuf, String> {
    built("target/release/examples/speed")
}

/// A program that `cargo xtask bench` builds, by its place in the repository.
fn built(place: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(place);
    let there = path.with_extension(std::env::consts::EXE_EXTENSION).is_file();
    there.then_some(path).ok_or_else(|| format!("{place} is not built; `cargo xtask bench` does that"))
}

/// A number above zero.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().map_err(|error| error.to_string())?;
    (number > 0).then_some(number).ok_or_else(|| "at least 1".to_owned())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn gigabytes(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().map_err(|error| error.to_string())?;
    number.checked_mul(1_000_000_000).ok_or_else(|| "too many".to_owned())
}
