//! Engines side by side: every vocabulary, every regex, every engine.
//!
//! Engines take turns within each regex (A B A B), so that a change of the machine's mood meets all of them. Engines
//! with a process of their own come last.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the body of programs that talk to their user")]

mod detail;
mod guesses;
pub(crate) mod measure;
mod ratios;
mod report;
mod worker;

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{
    Subject, Suite, VOCABULARIES, clock,
    engine::{Allows, Builder, Engine, Matcher, Place},
    options::Options,
    record::figures,
    subject,
};
use measure::{Difference, Meter, Outcome, Task, difference, examine, in_a_row, ns, round, weigh};
use worker::{Worker, serve};

/// The part of an engine that is built once per vocabulary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepared {
    /// How long that took, in nanoseconds.
    pub(crate) ns: u64,
    /// The heap that it holds and the most in use on the way, in bytes; only in a program that counts.
    pub(crate) heap: Option<(usize, usize)>,
    /// The engine's notes about it.
    pub(crate) notes: Vec<String>,
}

/// All that came out for one engine on one vocabulary.
#[derive(Debug)]
pub(crate) struct EngineResult {
    /// The engine.
    pub(crate) builder: Builder,
    /// The part that was built beforehand, or why it could not be.
    pub(crate) prepared: Result<Prepared, String>,
    /// For each regex, in order: its measurements, or why there are none.
    pub(crate) outcomes: Vec<Result<Outcome, String>>,
    /// For each regex: where masks are not those of our first engine. Only in a detailed suite, and where both can run.
    pub(crate) differences: Vec<Option<Difference>>,
}

/// All that came out for one vocabulary.
#[derive(Debug)]
pub(crate) struct VocabularyResult {
    /// It.
    pub(crate) subject: Subject,
    /// The regexes.
    pub(crate) tasks: Vec<Task>,
    /// Regexes that were left out, and why.
    pub(crate) left_out: Vec<String>,
    /// The engines, ours first.
    pub(crate) engines: Vec<EngineResult>,
}

/// A suite, with all engines of the program. With `--memory` it counts memory instead of time.
pub(crate) fn run(
    suite: &Suite,
    engines: &[Builder],
    options: &Options,
    meter: Option<Meter>,
) -> Result<(), String> {
    if options.memory != meter.is_some() {
        return Err(
            "programs that count memory are built apart: `cargo xtask bench` does that for --memory".into()
        );
    }
    if options.clock.cpu_time {
        clock::use_cpu_time();
    }
    // Masks are compared with those of the first.
    let is_wanted = |(at, builder): &(usize, &Builder)| {
        let is_there = builder.place != Place::Elsewhere || options.glrmask;
        is_there && (*at == 0 || options.wants_engine(builder.name))
    };
    let builders: Vec<Builder> =
        engines.iter().enumerate().filter(is_wanted).map(|(_, builder)| *builder).collect();
    if let Some(name) = &options.worker {
        let builder = builders.iter().find(|builder| builder.name == name).ok_or("no such engine")?;
        return serve(suite, builder, options, meter, &mut std::io::stdout().lock());
    }

    let begin = Instant::now();
    let mut results = Vec::new();
    for name in VOCABULARIES.into_iter().filter(|name| options.wants_vocabulary(name, suite.vocabularies)) {
        match subject(name)? {
            Some(subject) => results.push(vocabulary(suite, &subject, &builders, options, meter)?),
            None => eprintln!("{name}: no such file under UNSKEW_DATA; left out"),
        }
    }
    if results.is_empty() {
        return Err("no vocabulary to measure on".into());
    }
    let report = report::report(suite, &results, options, options.memory, begin.elapsed());
    println!("{report}");
    let kind = if options.memory { "-memory" } else { "" };
    options.record.write(&format!("{}{kind}", suite.name), &report)
}

fn vocabulary(
    suite: &Suite,
    subject: &Subject,
    builders: &[Builder],
    options: &Options,
    meter: Option<Meter>,
) -> Result<VocabularyResult, String> {
    let (mut tasks, mut left_out) = (Vec::new(), Vec::new());
    for case in (suite.cases)().into_iter().filter(|case| options.wants_regex(case.name)) {
        match Task::new(case, subject) {
            Ok(task) => tasks.push(task),
            Err(reason) => left_out.push(reason),
        }
    }
    let (mut engines, mut results) = (Vec::new(), Vec::new());
    for builder in builders.iter().filter(|builder| builder.place == Place::Here) {
        eprintln!("{}: {}: preparing", subject.name, builder.name);
        match prepare(builder, subject, meter) {
            Ok((engine, prepared)) => {
                engines.push(engine);
                results.push(EngineResult {
                    builder: *builder,
                    prepared: Ok(prepared),
                    outcomes: Vec::new(),
                    differences: Vec::new(),
                });
            }
            Err(error) => return Err(format!("{}: {}: {error}", subject.name, builder.name)),
        }
    }
    for task in &tasks {
        eprintln!("{}: {}", subject.name, task.case.name);
        let outcomes = turns(suite, &engines, subject, task, options.rounds, meter);
        results.iter_mut().zip(outcomes).for_each(|(result, outcome)| result.outcomes.push(outcome));
        for (engine, result) in engines.iter().zip(&mut results).skip(1) {
            let comparable =
                suite.detailed && meter.is_none() && result.builder.allows == Allows::AllSpellings;
            let found = comparable.then(|| difference([&*engines[0], &**engine], subject, task).ok());
            result.differences.push(found.flatten());
        }
    }
    drop(engines);

    for builder in builders.iter().filter(|builder| builder.place != Place::Here) {
        let mut worker = Worker::new(options, suite, builder, &subject.name);
        let mut outcomes = Vec::new();
        for task in &tasks {
            let outcome = worker.measure(task.case.name);
            let reason = outcome.as_ref().err().map_or("done", |reason| reason.as_str());
            eprintln!("{}: {}: {}: {}", subject.name, builder.name, task.case.name, figures::brief(reason));
            outcomes.push(outcome);
        }
        let prepared = worker.prepared.take().ok_or_else(|| "never ready".to_owned());
        results.push(EngineResult { builder: *builder, prepared, outcomes, differences: Vec::new() });
    }
    Ok(VocabularyResult { subject: subject.clone(), tasks, left_out, engines: results })
}

/// Builds an engine, timed and counted.
pub(crate) fn prepare(
    builder: &Builder,
    subject: &Subject,
    meter: Option<Meter>,
) -> Result<(Box<dyn Engine>, Prepared), String> {
    let before = meter.map(|meter| {
        (meter.reset)();
        (meter.current)()
    });
    let begin = Instant::now();
    let engine = (builder.build)(subject)?;
    let ns = ns(begin);
    let heap = meter.zip(before).map(|(meter, before)| {
        ((meter.current)().saturating_sub(before), (meter.peak)().saturating_sub(before))
    });
    let notes = engine.notes();
    Ok((engine, Prepared { ns, heap, notes }))
}

/// A first round and all others of one regex, the engines in turn.
fn turns(
    suite: &Suite,
    engines: &[Box<dyn Engine>],
    subject: &Subject,
    task: &Task,
    rounds: usize,
    meter: Option<Meter>,
) -> Vec<Result<Outcome, String>> {
    if let Some(meter) = meter {
        return engines.iter().map(|engine| weigh(&**engine, task, meter)).collect();
    }
    let first = |engine: &dyn Engine| first_round(suite, engine, task).map(|(outcome, _)| outcome);
    let mut outcomes: Vec<Result<Outcome, String>> = engines.iter().map(|engine| first(&**engine)).collect();
    for turn in 1..=rounds {
        for (engine, outcome) in engines.iter().zip(&mut outcomes) {
            let Ok(so_far) = outcome else { continue };
            let result = round(&**engine, task, None).and_then(|(mut more, matcher)| {
                in_a_row_if(suite, &**engine, task, &mut more)?;
                Ok((more, matcher))
            });
            match result {
                Ok((more, matcher)) => {
                    so_far.merge(&more);
                    if let Some(mut matcher) = matcher.filter(|_| turn == rounds) {
                        examine(&mut *matcher, subject, task, so_far);
                    }
                }
                Err(error) => *outcome = Err(error),
            }
        }
    }
    outcomes
}

/// The first round of a regex, which a detailed suite also reports apart. In later rounds the caches that an engine
/// keeps beside its matchers have seen the samples.
pub(crate) fn first_round<'a>(
    suite: &Suite,
    engine: &'a dyn Engine,
    task: &Task,
) -> Result<(Outcome, Option<Box<dyn Matcher + 'a>>), String> {
    let (mut outcome, last) = round(engine, task, None)?;
    if suite.detailed {
        outcome.walks.iter_mut().for_each(|walk| walk.at_first = walk.first.clone());
    } else {
        outcome.to_first_mask_at_first = None;
    }
    in_a_row_if(suite, engine, task, &mut outcome)?;
    Ok((outcome, last))
}

/// The samples in a row, in a suite that asks for it.
pub(crate) fn in_a_row_if(
    suite: &Suite,
    engine: &dyn Engine,
    task: &Task,
    outcome: &mut Outcome,
) -> Result<(), String> {
    if suite.detailed { in_a_row(engine, task, outcome) } else { Ok(()) }
}
