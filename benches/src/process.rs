//! A child process that answers lines with lines of JSON, and is ended when an answer takes too long or too much
//! memory.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;

/// How often its memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A running child; it ends when this is dropped.
pub(crate) struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Starts `program`. Its standard error is shown.
    pub(crate) fn start<A: AsRef<std::ffi::OsStr>>(program: &Path, args: &[A]) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("no worker: {}: {error}", program.display()))?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker without pipes".into());
        };
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, requests, answers })
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.requests, "{line}").map_err(|error| format!("the worker is gone: {error}"))
    }

    /// Waits for a line, for at most `limit` and as long as the process holds no more than `memory` bytes.
    pub(crate) fn answer<T: DeserializeOwned>(&self, limit: Duration, memory: u64) -> Result<T, String> {
        let begin = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK.min(limit.saturating_sub(begin.elapsed()))) {
                Ok(line) => return serde_json::from_str(&line).map_err(|error| error.to_string()),
                Err(RecvTimeoutError::Disconnected) => return Err("the process ended by itself".into()),
                Err(RecvTimeoutError::Timeout) if begin.elapsed() >= limit => {
                    return Err(over(limit));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if memory_of(&self.child.id().to_string(), "VmRSS:") > memory {
                        return Err(format!("over {:.1} GB of memory", memory as f64 / 1e9));
                    }
                }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer where one takes too long.
pub(crate) fn over(limit: Duration) -> String {
    format!("over {limit:.0?}")
}

/// A field of a process's status, such as its resident memory, in bytes; 0 where that cannot be read.
pub(crate) fn memory_of(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
