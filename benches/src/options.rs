//! The options of the suite's programs.

use std::time::Duration;

/// What the programs print when asked for help.
pub(crate) const USAGE: &str = "\
[OPTIONS] [FILTER ...]     regexes or grammars whose name contains one of the filters; all without

  --vocabulary NAME,...    only these vocabularies (tiny, and those under UNSKEW_DATA)
  --engine NAME,...        only engines whose name contains one of these, and our first
  --rounds N               how often everything is measured after a first time; the smallest time counts (default: 3)
  --peer-limit SECONDS     for one regex of an engine that runs in a process of its own (default: 10)
  --peer-memory GB         likewise, for its memory (default: 6)
  --cpu-time               time on the processor, without interruptions: for a machine that does other things too
  --program NAME=PATH      the program that serves the engines whose names begin with this one
  --record                 write the report to benches/record too
";

/// The options, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Parts of names of regexes.
    pub(crate) filters: Vec<String>,
    /// Names of vocabularies.
    pub(crate) vocabularies: Vec<String>,
    /// Parts of names of engines.
    pub(crate) engines: Vec<String>,
    /// How often everything is measured after a first time.
    pub(crate) rounds: usize,
    /// The time for one regex in a process apart.
    pub(crate) peer_limit: Duration,
    /// The memory of a process apart, in bytes.
    pub(crate) peer_memory: u64,
    /// Whether the time of the process is measured, and not that of the wall.
    pub(crate) cpu_time: bool,
    /// Whether the report is written to a file.
    pub(crate) record: bool,
    /// Programs that serve engines which are not in this one, by the beginning of the engine's name.
    pub(crate) programs: Vec<(String, String)>,
    /// Set in a process apart: the engine that it serves.
    pub(crate) worker: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filters: Vec::new(),
            vocabularies: Vec::new(),
            engines: Vec::new(),
            rounds: 3,
            peer_limit: Duration::from_secs(10),
            peer_memory: 6_000_000_000,
            cpu_time: false,
            record: false,
            programs: Vec::new(),
            worker: None,
        }
    }
}

impl Options {
    /// Reads the arguments of a program.
    ///
    /// # Errors
    ///
    /// An unknown option, or a value that is missing or is no number; a request for help too.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let list = |text: String| text.split(',').map(str::to_owned).collect();
            match arg.as_str() {
                "--vocabulary" => options.vocabularies = list(value()?),
                "--engine" => options.engines = list(value()?),
                "--rounds" => options.rounds = number::<usize>(&arg, &value()?)?.max(1),
                "--peer-limit" => {
                    options.peer_limit = Duration::try_from_secs_f64(number(&arg, &value()?)?)
                        .map_err(|error| format!("{arg}: {error}"))?;
                }
                "--peer-memory" => options.peer_memory = number::<u64>(&arg, &value()?)? * 1_000_000_000,
                "--program" => {
                    let value = value()?;
                    let (name, path) = value.split_once('=').ok_or("--program needs NAME=PATH")?;
                    options.programs.push((name.to_owned(), path.to_owned()));
                }
                "--cpu-time" => options.cpu_time = true,
                "--record" => options.record = true,
                "--worker" => options.worker = Some(value()?),
                _ if arg.starts_with('-') => return Err(format!("no option {arg}\n\n{USAGE}")),
                _ => options.filters.push(arg),
            }
        }
        Ok(options)
    }

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

    /// The program that serves `engine`, if it is not this one.
    pub(crate) fn program(&self, engine: &str) -> Option<&str> {
        let found = self.programs.iter().find(|(name, _)| engine.starts_with(name.as_str()));
        found.map(|(_, path)| &**path)
    }

    /// The program that serves `engine`: another one, or this.
    pub(crate) fn program_or_this(&self, engine: &str) -> Result<std::path::PathBuf, String> {
        match self.program(engine) {
            Some(path) => Ok(path.into()),
            None => std::env::current_exe().map_err(|error| error.to_string()),
        }
    }

    /// Whether an engine of this name is wanted.
    pub(crate) fn wants_engine(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|part| name.contains(part.as_str()))
    }
}

pub(crate) fn number<T: std::str::FromStr<Err: std::fmt::Display>>(
    option: &str,
    text: &str,
) -> Result<T, String> {
    text.parse().map_err(|error| format!("{option} {text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_filters_mix() {
        let options = parse("json --rounds 2 --vocabulary tiny,gpt2 uuid --peer-limit 0.5 --record").unwrap();
        assert_eq!(options.filters, ["json", "uuid"]);
        assert!(options.wants_vocabulary("gpt2", &[]) && !options.wants_vocabulary("llama3", &["llama3"]));
        assert!(Options::default().wants_vocabulary("tiny", &["tiny"]));
        assert!(options.wants_regex("json-string") && !options.wants_regex("date"));
        assert_eq!((options.rounds, options.peer_limit), (2, Duration::from_millis(500)));
        assert!(options.record);
    }

    #[test]
    fn faults_are_told() {
        assert!(parse("--rounds").unwrap_err().contains("needs a value"));
        assert!(parse("--rounds many").unwrap_err().contains("--rounds many"));
        assert!(parse("--help").unwrap_err().contains("--peer-limit"));
    }
}
