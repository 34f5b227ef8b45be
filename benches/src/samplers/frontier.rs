//! The cost of an output, and its distance from the model's distribution, over a session: twenty tasks, sampler by
//! sampler.
//!
//! A sampler that learns has another distribution for its hundredth output than for its first. The divergence of the
//! k-th output is measured by its weight. An output of a session is drawn from some q, its weight is `w = P / q` for
//! the model's P, and so the divergence of q from the model's distribution under the constraint is the mean of
//! `log P(constraint) - log w`. That needs no count of outputs, holds for spaces that nobody can enumerate, and has a
//! standard error over sessions.
//!
//! With a budget an output's q is `min(P, M q) / c`, where `c` is the probability that a rollout passes, and its
//! weight is stated for `c = 1 / budget`. The mean number of rollouts of the k-th outputs is put in for the inverse
//! of `c`. By Jensen's inequality the divergence is at most the figure.
//!
//! Tried instead: the divergence of the frequencies of k-th outputs over many sessions. Its noise is the number of
//! outputs over twice that of sessions, which is more than the divergences here.

use std::{path::Path, process::Command};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde_json::Value;
use unskew_core::{ExactDistribution, Sampler as _, logprob::log_sum_exp};
use unskew_samplers::Task;

use crate::record::plot;

use super::{
    Report,
    cases::{self, CASES, Mean},
};

/// Sessions of each sampler on each task, and those of an exact one, whose first output may take thousands of rollouts.
const SESSIONS: u64 = 24;
const EXACT_SESSIONS: u64 = 12;

/// Outputs of a session.
const OUTPUTS: usize = 100;

/// The outputs at which divergences are stated, and those that are averaged for each: the divergence changes slowly.
const PLACES: [(usize, std::ops::Range<usize>); 5] =
    [(1, 0..1), (2, 1..2), (5, 3..6), (20, 15..25), (100, 80..100)];

/// Rollouts for an output.
const BUDGET: f64 = 2.0;

/// The samplers with weights.
const WEIGHTED: [&str; 3] = ["masked", "twist", "twist:budget=2"];

/// The exact samplers, of which the first output is drawn.
const EXACT: [&str; 2] = ["cars", "disc"];

/// One output.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    log_weight: f64,
    positions: f64,
    rollouts: f64,
}

/// The divergence of an output, and its positions.
type Point = (Mean, f64);

/// The outputs of one session, in order.
type Session = Vec<Drawn>;

/// One task and its samplers.
trait Source {
    fn name(&self) -> String;
    /// The logarithm of P(constraint), where it is enumerated.
    fn log_mass(&self) -> Option<f64>;
    /// A session of so many outputs; fewer where the sampler gives up.
    fn session(&self, sampler: &str, outputs: usize, seed: u64) -> Result<Session, String>;
}

/// A task that is enumerated.
struct Enumerated {
    index: usize,
    model: unskew_core::TableModel,
    constraint: cases::Listed,
    mass: f64,
}

impl Enumerated {
    fn new(index: usize) -> Self {
        let (depth, acceptance) = CASES[index];
        let (model, constraint) = cases::case(index as u64 + 1, depth, acceptance);
        let end = model.vocabulary().end_of_sequence().to_vec();
        let distribution =
            ExactDistribution::enumerate(&mut model.clone(), &constraint, &[], &end, 8, 1_000_000)
                .expect("small");
        Self { index, model, constraint, mass: distribution.mass() }
    }
}

impl Source for Enumerated {
    fn name(&self) -> String {
        format!("enumerated {}, depth {}", self.index + 1, CASES[self.index].0)
    }

    fn log_mass(&self) -> Option<f64> {
        Some(self.mass.ln())
    }

    fn session(&self, sampler: &str, outputs: usize, seed: u64) -> Result<Session, String> {
        let task = Task::new(self.model.clone(), self.constraint.clone(), self.model.vocabulary(), 8);
        let mut sampler = cases::sampler(sampler, task);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let draw = |_| {
            let draw = sampler.draw(&mut rng).map_err(|error| error.to_string())?;
            let (positions, rollouts) = (draw.cost.positions as f64, draw.cost.proposals as f64);
            Ok(Drawn { log_weight: draw.log_weight, positions, rollouts })
        };
        (0..outputs).map(draw).collect()
    }
}

/// A task over the embedded model, drawn by the command line.
struct Embedded<'a> {
    program: &'a Path,
    name: &'static str,
    prompt: &'static str,
    args: Vec<String>,
}

impl Source for Embedded<'_> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn log_mass(&self) -> Option<f64> {
        None
    }

    fn session(&self, sampler: &str, outputs: usize, seed: u64) -> Result<Session, String> {
        // One output after the other: an output learns from all before it.
        let fixed =
            ["generate", "--format", "jsonl", "--max-tokens", "64", "--batch", "1", "--sampler", sampler];
        let numbers = ["--seed".to_owned(), seed.to_string(), "-n".to_owned(), outputs.to_string()];
        let output = Command::new(self.program)
            .args(fixed)
            .args(numbers)
            .args(["--prompt", self.prompt])
            .args(&self.args)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let number =
            |line: &Value, name: &str| line[name].as_f64().ok_or_else(|| format!("a line without {name}"));
        let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let drawn = lines.map(|line| {
            let line = line.map_err(|error| error.to_string())?;
            Ok(Drawn {
                log_weight: number(&line, "log_weight")?,
                positions: number(&line, "lm_calls")?,
                rollouts: number(&line, "proposals")?,
            })
        });
        drawn.collect()
    }
}

/// The constraints over the embedded model.
fn embedded<'a>(program: &'a Path, folder: &Path) -> Result<Vec<Embedded<'a>>, String> {
    const BENCHES: &str = env!("CARGO_MANIFEST_DIR");
    // 10,000 titles of words that the model writes, none of them after a rule that it knows.
    let words = include_str!("../../samplers/words.txt").lines().collect::<Vec<_>>();
    let title = |number: usize| {
        let word = |place: usize| words[(number / words.len().pow(place as u32) + 7 * place) % words.len()];
        format!("{} {} {}\n", word(0), word(1), word(2))
    };
    let titles = folder.join("titles.txt");
    std::fs::write(&titles, (0..10_000).map(title).collect::<String>()).map_err(|error| error.to_string())?;
    let file = |name: &str| format!("{BENCHES}/samplers/{name}");
    let task = |name, prompt, args: &[&str]| Embedded {
        program,
        name,
        prompt,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    };
    let list = words.join("|");
    Ok(vec![
        task("date", "born on ", &["--regex", "[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"]),
        task("name", "My name is ", &["--regex", "[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?"]),
        task("JSON record", "a person:\n", &["--json-schema", &file("record.json")]),
        task("optional members", "a person:\n", &["--json-schema", &file("optional.json")]),
        task("Lark query", "the query: ", &["--grammar", &file("query.lark")]),
        task("10,000 titles", "The title is ", &["--set", &titles.to_string_lossy()]),
        task(
            "canonical choices",
            "He lives in ",
            &[
                "--canonical",
                "--choice",
                "Berlin",
                "--choice",
                "Paris",
                "--choice",
                "New York",
                "--choice",
                "Rome",
                "--choice",
                "the house",
            ],
        ),
        task("word list", "Here is ", &["--regex", &format!("(a|the) ({list})( ({list}))?\\.")]),
    ])
}

/// The divergence of the outputs at a place, and the positions of one.
fn at(
    sessions: &[Session],
    place: &std::ops::Range<usize>,
    log_mass: f64,
    budget: Option<f64>,
) -> Option<Point> {
    let drawn = |session: &Session| session.get(place.clone()).map(<[Drawn]>::to_vec);
    let drawn: Vec<Session> = sessions.iter().map(drawn).collect::<Option<_>>()?;
    let mean =
        |session: &Session, of: fn(&Drawn) -> f64| session.iter().map(of).sum::<f64>() / session.len() as f64;
    let over = |of: fn(&Drawn) -> f64| {
        drawn.iter().map(|session| mean(session, of)).sum::<f64>() / drawn.len() as f64
    };
    let passed = budget.map_or(0.0, |budget| (over(|drawn| drawn.rollouts) / budget).ln());
    let divergences: Vec<f64> =
        drawn.iter().map(|session| log_mass - mean(session, |drawn| drawn.log_weight) + passed).collect();
    Some((Mean::of(&divergences)?, over(|drawn| drawn.positions)))
}

/// The verdict on one task.
#[derive(Default)]
struct Tally {
    tasks: usize,
    /// At each place: the tasks where the budgeted sampler is at a fifth of masked's divergence, and those where it
    /// is no further.
    fifth: [usize; PLACES.len()],
    no_worse: [usize; PLACES.len()],
    /// Of each task, for each sampler with weights and at each place: the divergence, and the positions of an output.
    measured: Vec<Vec<Vec<Option<Point>>>>,
}

fn measure(out: &mut Report, source: &dyn Source, tally: &mut Tally) -> Result<(), String> {
    let draw = |sampler: &str, sessions, outputs| -> Result<Vec<Session>, String> {
        (1..=sessions).map(|seed| source.session(sampler, outputs, seed)).collect()
    };
    let drawn: Vec<Vec<Session>> =
        WEIGHTED.iter().map(|sampler| draw(sampler, SESSIONS, OUTPUTS)).collect::<Result<_, _>>()?;
    // The weights of `twist` are unbiased; those of outputs that have learned vary least.
    let learned: Vec<f64> =
        drawn[1].iter().flat_map(|session| session[20..].iter().map(|drawn| drawn.log_weight)).collect();
    let log_mass = source
        .log_mass()
        .unwrap_or_else(|| log_sum_exp(learned.iter().copied()) - (learned.len() as f64).ln());
    out.line(format_args!("### {}, P(constraint) = {:.2e}\n", source.name(), log_mass.exp()));
    out.line(format_args!(
        "| sampler | {} | positions, first | positions, last |\n|---|{}--:|--:|",
        PLACES.map(|(place, _)| format!("output {place}")).join(" | "),
        "--:|".repeat(PLACES.len())
    ));
    let mut found: Vec<Vec<Option<Point>>> = Vec::new();
    for (sampler, sessions) in WEIGHTED.iter().zip(&drawn) {
        let budget = sampler.contains("budget").then_some(BUDGET);
        let measured: Vec<_> =
            PLACES.iter().map(|(_, place)| at(sessions, place, log_mass, budget)).collect();
        let cells = measured.iter().map(|found| {
            found.map_or("-".to_owned(), |(mean, _)| format!("{:.3} ± {:.3}", mean.value, mean.error))
        });
        let positions =
            |place: usize| measured[place].map_or("-".to_owned(), |(_, positions)| format!("{positions:.1}"));
        out.line(format_args!(
            "| {sampler} | {} | {} | {} |",
            cells.collect::<Vec<_>>().join(" | "),
            positions(0),
            positions(PLACES.len() - 1)
        ));
        found.push(measured);
    }
    for sampler in EXACT {
        // A sampler that gives up has no row to compare.
        let cell = match draw(sampler, EXACT_SESSIONS, 1) {
            Ok(sessions) => {
                let positions: Vec<f64> = sessions.iter().map(|session| session[0].positions).collect();
                Mean::of(&positions)
                    .map_or("-".to_owned(), |mean| format!("{:.1} ± {:.1}", mean.value, mean.error))
            }
            Err(_) => "gave up".to_owned(),
        };
        out.line(format_args!("| {sampler} |{} {cell} | |", " |".repeat(PLACES.len())));
    }
    out.line(format_args!(""));
    tally.tasks += 1;
    for (place, (masked, twisted)) in found[0].iter().zip(&found[2]).enumerate() {
        if let (Some((masked, _)), Some((twisted, _))) = (masked, twisted) {
            tally.fifth[place] += usize::from(twisted.value <= masked.value / 5.0);
            tally.no_worse[place] += usize::from(twisted.value <= masked.value);
        }
    }
    tally.measured.push(found);
    Ok(())
}

/// Divergence against positions: a curve for each sampler, from its first output to its last, in means over the tasks
/// of the embedded model.
fn figure(tally: &Tally) -> String {
    let tasks = tally.measured.get(CASES.len()..).unwrap_or_default();
    let mean = |sampler: usize, place: usize, of: fn(&Point) -> f64| {
        let values: Vec<f64> =
            tasks.iter().filter_map(|task| task[sampler][place].as_ref().map(of)).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let curve = |(sampler, name): (usize, &&'static str)| {
        let point = |place| {
            let (divergence, positions) = (
                mean(sampler, place, |(mean, _)| mean.value),
                mean(sampler, place, |(_, positions)| *positions),
            );
            [positions, divergence]
        };
        let points = (0..PLACES.len()).map(point).filter(|point| point.iter().all(|value| *value > 0.0));
        (*name, points.collect())
    };
    let curves = WEIGHTED.iter().enumerate().map(curve).collect();
    let heading =
        "divergence in nats against positions of an output: outputs 1, 2, 5, 20 and 100 of a session";
    plot::panels(&[(heading.to_owned(), curves)])
}

/// Measures the enumerated tasks, and with a program those over the embedded model.
pub(super) fn report(out: &mut Report, program: Option<&Path>, plot: Option<&Path>) -> Result<(), String> {
    out.line(format_args!(
        "## Divergence against positions, over a session\n\n{SESSIONS} sessions of {OUTPUTS} outputs. Divergence of an output from the model's \
         distribution under the constraint, in nats: mean and standard error over the sessions, of outputs 4 to 6 for 5, 16 to 25 for 20, and 81 \
         to 100 for 100. `twist` is one rollout for an output, `twist:budget=2` two on average. `positions`: those that the model evaluated for the \
         first output, and for one of the last twenty. Exact samplers have divergence zero, and the positions of their first output are given.\n"
    ));
    let mut tally = Tally::default();
    for index in 0..CASES.len() {
        measure(out, &Enumerated::new(index), &mut tally)?;
    }
    if let Some(program) = program {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        for task in embedded(program, folder.path())? {
            measure(out, &task, &mut tally)?;
        }
    }
    let row = |name: &str, counts: [usize; PLACES.len()]| {
        format!("| {name} | {} |", counts.map(|count| count.to_string()).join(" | "))
    };
    out.line(format_args!(
        "### Tasks of {} on which `twist:budget=2` is nearer than masked sampling\n\n| | {} |\n|---|{}\n{}\n{}",
        tally.tasks,
        PLACES.map(|(place, _)| format!("output {place}")).join(" | "),
        "--:|".repeat(PLACES.len()),
        row("at a fifth of its divergence or less", tally.fifth),
        row("no further", tally.no_worse)
    ));
    if let Some(path) = plot {
        std::fs::write(path, figure(&tally)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
