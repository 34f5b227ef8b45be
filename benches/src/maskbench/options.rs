//! The options of `cargo xtask bench maskbench`.

use std::{path::PathBuf, time::Duration};

use crate::options::number;

/// What is printed when asked for help.
const USAGE: &str = "\
--data DIR [OPTIONS] [FILTER ...]   schemas whose file name contains one of the filters; all without

  --data DIR             a folder of files {meta, schema, tests: [{valid, data}]}
  --tokenizer FILE       a tokenizer.json (default: the embedded one)
  --peers NAME,...       other engines beside ours: llguidance, glrmask
  --sample N             so many of the schemas, drawn with --seed S (default: all; seed 0)
  --json OUT             write the figures as JSON
  --samples OUT          write every single time: one JSON value a line for each schema and engine
  --plot OUT             write the distributions as SVG
  --limit-ms MS          for one schema with all its instances (default: 30000)
  --limit-mb MB          likewise, for the memory of the process (default: 4096)
  --any-order            ours takes the members of an object in any order (default: as declared)
  --warm                 keep what was learnt between the instances of a schema (default: each starts as compiled)
  --cpu-time             time on the processor, without interruptions: for a machine that does other things too
  --program NAME=PATH    the program that serves the engine of this name
  --record               write the report and the plot to benches/record too
";

/// The options, read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Options {
    pub(crate) data: PathBuf,
    pub(crate) tokenizer: Option<PathBuf>,
    pub(crate) peers: Vec<String>,
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
    pub(crate) json: Option<PathBuf>,
    pub(crate) samples: Option<PathBuf>,
    pub(crate) plot: Option<PathBuf>,
    pub(crate) limit: Duration,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) any_order: bool,
    pub(crate) warm: bool,
    pub(crate) cpu_time: bool,
    pub(crate) record: bool,
    pub(crate) filters: Vec<String>,
    /// Programs that serve engines which are not in this one.
    pub(crate) programs: Vec<(String, PathBuf)>,
    /// Set in a process apart: the engine that it serves.
    pub(crate) worker: Option<String>,
}

impl Options {
    /// Reads the arguments of the program.
    ///
    /// # Errors
    ///
    /// An unknown option, or a value that is missing or is no number; a request for help too.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            data: PathBuf::new(),
            tokenizer: None,
            peers: Vec::new(),
            sample: None,
            seed: 0,
            json: None,
            samples: None,
            plot: None,
            limit: Duration::from_secs(30),
            memory: 4096 << 20,
            any_order: false,
            warm: false,
            cpu_time: false,
            record: false,
            filters: Vec::new(),
            programs: Vec::new(),
            worker: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--data" => options.data = value()?.into(),
                "--tokenizer" => options.tokenizer = Some(value()?.into()),
                "--peers" => options.peers = value()?.split(',').map(str::to_owned).collect(),
                "--sample" => options.sample = Some(number(&arg, &value()?)?),
                "--seed" => options.seed = number(&arg, &value()?)?,
                "--json" => options.json = Some(value()?.into()),
                "--samples" => options.samples = Some(value()?.into()),
                "--plot" => options.plot = Some(value()?.into()),
                "--limit-ms" => options.limit = Duration::from_millis(number(&arg, &value()?)?),
                "--limit-mb" => options.memory = number::<u64>(&arg, &value()?)?.saturating_mul(1 << 20),
                "--any-order" => options.any_order = true,
                "--warm" => options.warm = true,
                "--cpu-time" => options.cpu_time = true,
                "--record" => options.record = true,
                "--program" => {
                    let value = value()?;
                    let (name, path) = value.split_once('=').ok_or("--program needs NAME=PATH")?;
                    options.programs.push((name.to_owned(), path.into()));
                }
                super::WORKER => options.worker = Some(value()?),
                _ if arg.starts_with('-') => return Err(format!("no option {arg}\n\n{USAGE}")),
                _ => options.filters.push(arg),
            }
        }
        if options.data.as_os_str().is_empty() && options.worker.is_none() {
            return Err(format!("--data DIR is missing\n\n{USAGE}"));
        }
        Ok(options)
    }

    /// The program that serves `engine`, if it is not this one.
    pub(crate) fn program(&self, engine: &str) -> Option<&PathBuf> {
        self.programs.iter().find(|(name, _)| name == engine).map(|(_, path)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_filters_mix() {
        let options =
            parse("--data d --sample 5 Github --limit-ms 250 --peers llguidance,glrmask --warm").unwrap();
        assert_eq!((options.filters.as_slice(), options.sample), (&["Github".to_owned()][..], Some(5)));
        assert_eq!((options.limit, options.peers.len(), options.warm), (Duration::from_millis(250), 2, true));
    }

    #[test]
    fn faults_are_told() {
        assert!(parse("").unwrap_err().contains("--data DIR is missing"));
        assert!(parse("--data d --sample x").unwrap_err().contains("--sample x"));
        assert!(parse("--help").unwrap_err().contains("--limit-ms"));
    }
}
