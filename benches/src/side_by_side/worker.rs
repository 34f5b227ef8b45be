//! A process apart for an engine that may not come back from a regex.
//!
//! Compiling a regex ahead of time can take minutes and all memory, and nothing in a thread can be ended from
//! outside. A process can: the program starts itself again as a worker, which builds the engine once and then answers
//! one line (a name of a regex) with one line (JSON). When an answer takes too long or too much memory, the process
//! is ended and the next regex gets a new one. While it works, the program itself only waits.

use std::{io::Write, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Prepared, first_round, in_a_row_if,
    measure::{Meter, Outcome, Task, examine, round, weigh},
    prepare,
};
use crate::{
    Suite,
    engine::{Builder, Place},
    options::{Options, glrmask},
    process::{Process, over},
    subject,
};

/// How long a worker may take to load a tokenizer and build an engine.
const START: Duration = Duration::from_secs(120);

/// A line of a worker.
#[derive(Serialize, Deserialize)]
enum Line {
    Ready(Prepared),
    Answer(Result<Box<Outcome>, String>),
}

/// A worker, seen from the program.
pub(crate) struct Worker<'a> {
    options: &'a Options,
    suite: &'a str,
    engine: &'a str,
    place: Place,
    vocabulary: &'a str,
    running: Option<Process>,
    /// The part that the engine built beforehand, as the first worker told it.
    pub(crate) prepared: Option<Prepared>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        options: &'a Options,
        suite: &'a Suite,
        engine: &'a Builder,
        vocabulary: &'a str,
    ) -> Self {
        let (suite, Builder { name, place, .. }) = (suite.name, *engine);
        Self { options, suite, engine: name, place, vocabulary, running: None, prepared: None }
    }

    /// Measures the regex of this name.
    pub(crate) fn measure(&mut self, regex: &str) -> Result<Outcome, String> {
        let answer = self.ask(regex);
        if answer.is_err() {
            self.running = None;
        }
        answer?
    }

    /// The inner error is the engine's, the outer one the process's.
    fn ask(&mut self, regex: &str) -> Result<Result<Outcome, String>, String> {
        let running = match &mut self.running {
            Some(running) => running,
            None => {
                let running = self.running.insert(self.start()?);
                let Line::Ready(prepared) = running.answer(START, self.options.peer_memory)? else {
                    return Err("the worker is confused".into());
                };
                self.prepared.get_or_insert(prepared);
                running
            }
        };
        running.send(regex)?;
        match running.answer(self.options.peer_limit, self.options.peer_memory)? {
            Line::Answer(answer) => Ok(answer.map(|outcome| *outcome)),
            Line::Ready(_) => Err("the worker is confused".into()),
        }
    }

    fn start(&self) -> Result<Process, String> {
        let options = self.options;
        let program = match self.place {
            Place::Elsewhere => glrmask()?,
            Place::Python => return Err("it takes schemas alone".to_owned()),
            Place::Here | Place::Apart => std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let rounds = options.rounds.to_string();
        let mut args = vec![self.suite, "--worker", self.engine, "--vocabulary", self.vocabulary];
        args.extend(["--rounds", &rounds]);
        args.extend(options.clock.cpu_time.then_some("--cpu-time"));
        args.extend(options.memory.then_some("--memory"));
        args.extend(options.glrmask.then_some("--glrmask"));
        Process::start(&program, &args)
    }
}

/// Whether a regex was given up for its time.
pub(crate) fn is_time_limit(reason: &str, options: &Options) -> bool {
    reason == over(options.peer_limit)
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
    let (mut outcome, mut last) = first_round(suite, engine, task)?;
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
