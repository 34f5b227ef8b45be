//! A process apart for an engine that may not come back from a regex.
//!
//! Compiling a regex ahead of time can take minutes and all memory, and nothing in a thread can be ended from outside. A
//! process can: the program starts itself again as a worker, which builds the engine once and then answers one line (a
//! name of a regex) with one line (JSON). When an answer takes too long or too much memory, the process is ended and the
//! next regex gets a new one. While it works, the program itself only waits.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    Suite,
    engine::Builder,
    measure::{Meter, Outcome, Task, examine, round, weigh},
    options::Options,
    run::{Prepared, in_a_row_if, prepare},
    subject,
};

/// How long a worker may take to load a tokenizer and build an engine.
const START: Duration = Duration::from_secs(120);

/// How often its memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A line of a worker.
#[derive(Serialize, Deserialize)]
enum Line {
    Ready(Prepared),
    Answer(Result<Box<Outcome>, String>),
}

/// A worker, seen from the program.
pub(crate) struct Worker<'a> {
    options: &'a Options,
    engine: &'a str,
    vocabulary: &'a str,
    running: Option<Running>,
    /// What the engine built beforehand, as the first worker told it.
    pub(crate) prepared: Option<Prepared>,
}

struct Running {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(options: &'a Options, engine: &'a str, vocabulary: &'a str) -> Self {
        Self { options, engine, vocabulary, running: None, prepared: None }
    }

    /// Measures the regex of this name.
    pub(crate) fn measure(&mut self, regex: &str) -> Result<Outcome, String> {
        let answer = self.ask(regex);
        if answer.is_err() {
            self.stop();
        }
        answer?
    }

    /// The inner error is the engine's, the outer one the process's.
    fn ask(&mut self, regex: &str) -> Result<Result<Outcome, String>, String> {
        let running = match &mut self.running {
            Some(running) => running,
            None => {
                let running = self.running.insert(start(self.options, self.engine, self.vocabulary)?);
                let Line::Ready(prepared) = running.answer(START, self.options.peer_memory)? else {
                    return Err("the worker is confused".into());
                };
                self.prepared.get_or_insert(prepared);
                running
            }
        };
        writeln!(running.requests, "{regex}").map_err(|error| format!("the worker is gone: {error}"))?;
        match running.answer(self.options.peer_limit, self.options.peer_memory)? {
            Line::Answer(answer) => Ok(answer.map(|outcome| *outcome)),
            Line::Ready(_) => Err("the worker is confused".into()),
        }
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(options: &Options, engine: &str, vocabulary: &str) -> Result<Running, String> {
    let program = match options.program(engine) {
        Some(path) => path.into(),
        None => std::env::current_exe().map_err(|error| error.to_string())?,
    };
    let rounds = options.rounds.to_string();
    let mut child = Command::new(program)
        .args(["--worker", engine, "--vocabulary", vocabulary, "--rounds", &rounds])
        .args(options.cpu_time.then_some("--cpu-time"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("no worker: {error}"))?;
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
    Ok(Running { child, requests, answers })
}

impl Running {
    fn answer(&self, limit: Duration, memory: u64) -> Result<Line, String> {
        let begin = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK.min(limit.saturating_sub(begin.elapsed()))) {
                Ok(line) => return serde_json::from_str(&line).map_err(|error| error.to_string()),
                Err(RecvTimeoutError::Disconnected) => return Err("the process ended by itself".into()),
                Err(RecvTimeoutError::Timeout) if begin.elapsed() >= limit => {
                    return Err(over(limit));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if resident(self.child.id()) > memory {
                        return Err(format!("over {} GB of memory", memory / 1_000_000_000));
                    }
                }
            }
        }
    }
}

/// The answer for a regex that takes too long.
fn over(limit: Duration) -> String {
    format!("over {limit:.0?}")
}

/// Whether a regex was given up for its time.
pub(crate) fn is_time_limit(reason: &str, options: &Options) -> bool {
    reason == over(options.peer_limit)
}

/// The resident memory of a process in bytes; 0 where that cannot be read.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// The worker itself: serves until its input ends.
pub(crate) fn serve(
    suite: &Suite,
    builder: &Builder,
    options: &Options,
    meter: Option<Meter>,
    output: &mut dyn Write,
) -> Result<(), String> {
    let name = options.vocabularies.first().ok_or("a worker needs --vocabulary")?;
    let subject = subject(name)?.ok_or("no such vocabulary")?;
    let (engine, prepared) = prepare(builder, &subject, meter)?;
    let mut send = |line: &Line| {
        let line = serde_json::to_string(line).map_err(|error| error.to_string())?;
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| error.to_string())
    };
    send(&Line::Ready(prepared))?;

    let cases = (suite.cases)();
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let case = cases.iter().find(|case| case.name == line).ok_or("no such regex")?;
        let task = Task::new(case.clone(), &subject)?;
        let answer = match meter {
            Some(meter) => weigh(&*engine, &task, meter),
            None => rounds(suite, &*engine, &subject, &task, options.rounds),
        };
        send(&Line::Answer(answer.map(Box::new)))?;
    }
    Ok(())
}

/// All rounds in a row: there is no other engine in this process.
fn rounds(
    suite: &Suite,
    engine: &dyn crate::engine::Engine,
    subject: &crate::Subject,
    task: &Task,
    rounds: usize,
) -> Result<Outcome, String> {
    let (mut outcome, mut last) = round(engine, task, None)?;
    in_a_row_if(suite, engine, task, &mut outcome)?;
    for _ in 0..rounds {
        let (mut more, matcher) = round(engine, task, last)?;
        in_a_row_if(suite, engine, task, &mut more)?;
        outcome.merge(&more);
        last = matcher;
    }
    if let Some(mut matcher) = last {
        examine(&mut *matcher, subject, task, &mut outcome);
    }
    Ok(outcome)
}
