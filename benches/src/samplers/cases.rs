//! Twelve tasks that can be enumerated: how far each sampler is from the exact distribution, and for what cost.
//!
//! Distances are those of sessions, in which a sampler learns from its own outputs. A model call is one evaluated
//! position. On tasks this small every prefix is soon known and costs nothing, so that curves over model calls end in
//! a steep fall; the same over the outputs that were begun shows the cost where prefixes do not come twice.

use std::collections::{BTreeMap, HashMap};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, ExactDistribution, MaskMut, Rejected, Sampler, TableModel, TokenId, hashed_key,
};
use unskew_samplers::{
    Asap, Awrs, Cut, Exact, Imh, Masked, Mcmc, SampleError, Sampling, Smc, StateValues, Task, Twisted,
};

use super::{Report, TRIES};

/// Sessions of each sampler on each task.
const SESSIONS: u64 = 12;

/// A session ends after so many outputs, or as many that were begun.
const OUTPUTS: usize = 2_048;
const BEGUN: u64 = 1 << 14;

/// The costs at which distances are looked at: powers of two.
const CALLS: std::ops::RangeInclusive<u32> = 3..=10;
const STARTS: std::ops::RangeInclusive<u32> = 4..=14;

/// A list of outputs, as the masks of their prefixes.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// For each prefix the tokens that may follow, and whether it is an output.
    prefixes: HashMap<Vec<TokenId>, (Vec<TokenId>, bool)>,
    vocab_len: usize,
}

impl Listed {
    fn new(outputs: &[Vec<TokenId>], vocab_len: usize) -> Self {
        let mut prefixes: HashMap<Vec<TokenId>, (Vec<TokenId>, bool)> = HashMap::new();
        for output in outputs {
            for cut in 0..output.len() {
                let (next, _) = prefixes.entry(output[..cut].to_vec()).or_default();
                if !next.contains(&output[cut]) {
                    next.push(output[cut]);
                }
            }
            prefixes.entry(output.clone()).or_default().1 = true;
        }
        Self { prefixes, vocab_len }
    }
}

impl Constraint for Listed {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        if !self.prefixes.get(state).is_some_and(|(next, _)| next.contains(&token)) {
            return Err(Rejected::new(token));
        }
        state.push(token);
        Ok(())
    }
    /// A prefix is a state of its own: the rows of the tasks depend on all of it.
    fn state_key(&self, (): &mut (), state: &Vec<TokenId>) -> Option<u64> {
        Some(hashed_key(state))
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        self.prefixes.get(state).is_some_and(|(_, output)| *output)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        if let Some((next, _)) = self.prefixes.get(state) {
            next.iter().for_each(|token| mask.insert(*token));
        }
    }
}

/// The tasks: depth, and about the probability with which the model satisfies the constraint.
pub(super) const CASES: [(usize, f64); 12] = [
    (3, 0.5),
    (4, 0.3),
    (4, 0.1),
    (5, 0.05),
    (5, 0.03),
    (6, 0.01),
    (6, 0.005),
    (7, 0.003),
    (7, 0.001),
    (8, 0.0005),
    (8, 0.0003),
    (8, 0.0001),
];

/// A table in which each prefix has a row of its own, and so many of its outputs, chosen at random, that the model
/// writes one with about the given probability.
pub(super) fn case(seed: u64, depth: usize, acceptance: f64) -> (TableModel, Listed) {
    const TOKENS: usize = 3;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let unit = |rng: &mut ChaCha8Rng| f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let mut rows: BTreeMap<Vec<TokenId>, Vec<f64>> = BTreeMap::new();
    let mut open = vec![(Vec::<TokenId>::new(), 1.0)];
    let mut outputs: Vec<(Vec<TokenId>, f64)> = Vec::new();
    while let Some((prefix, probability)) = open.pop() {
        let mut row: Vec<f64> = (0..=TOKENS).map(|_| unit(&mut rng).powi(3) + 1e-3).collect();
        // Most outputs are long.
        row[TOKENS] *= 0.3;
        if prefix.len() == depth {
            row = vec![0.0, 0.0, 0.0, 1.0];
        }
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|p| *p /= sum);
        outputs.push((prefix.clone(), probability * row[TOKENS]));
        if prefix.len() < depth {
            let longer = (0..TOKENS)
                .map(|id| ([&prefix[..], &[TokenId::from_index(id)]].concat(), probability * row[id]));
            open.extend(longer);
        }
        rows.insert(prefix, row);
    }
    let mut chosen = Vec::new();
    let mut mass = 0.0;
    while mass < acceptance && !outputs.is_empty() {
        let (output, probability) = outputs.swap_remove(rng.next_u32() as usize % outputs.len());
        if mass + probability <= acceptance * 1.2 {
            mass += probability;
            chosen.push(output);
        }
    }
    let model =
        TableModel::new((0..TOKENS).map(|id| id.to_string()), vec![0.25; 4], rows).expect("rows sum to one");
    (model, Listed::new(&chosen, TOKENS + 1))
}

pub(super) type Boxed<E> = Box<dyn Sampler<Error = SampleError<E>>>;

/// The samplers of this part.
const NAMES: [&str; 16] = [
    "masked",
    "asap",
    "cars",
    "disc, learned",
    "disc, K = 4",
    "disc, reuse, K = 4",
    "ars",
    "rsft",
    "rejection",
    "awrs",
    "smc, N = 10",
    "mcmc, 10 steps",
    "imh, 10 steps",
    "twist",
    "twist:budget=2",
    "smc, values, N = 8",
];

/// Whether its outputs count by their weights here. Masked sampling without weights stays as it is.
fn is_weighted(name: &str) -> bool {
    ["awrs", "smc", "twist"].iter().any(|weighted| name.starts_with(weighted))
}

/// The sampler with this name, of this part or of the frontier.
pub(super) fn sampler(name: &str, task: Task<TableModel, Listed>) -> Boxed<unskew_core::TableModelError> {
    let exact = Exact::disc().with_max_tries(TRIES).with_budget(f64::INFINITY);
    match name {
        "masked" => Box::new(Sampling::new(task, Masked::new())),
        "asap" => Box::new(Sampling::new(task, Asap::new(TRIES))),
        "cars" => Box::new(Sampling::new(task, Exact::cars(TRIES))),
        "disc" => Box::new(Sampling::new(task, Exact::disc())),
        "disc, learned" => Box::new(Sampling::new(task, exact)),
        "disc, K = 4" => Box::new(Sampling::new(task, Exact::disc_published(4))),
        "disc, reuse, K = 4" => Box::new(Sampling::new(task, Exact::disc_reusing(4))),
        "ars" => Box::new(Sampling::new(task, Exact::ars(TRIES))),
        "rsft" => Box::new(Sampling::new(task, Exact::rsft(TRIES))),
        "rejection" => Box::new(Sampling::new(task, Exact::rejection(TRIES))),
        "awrs" => Box::new(Sampling::new(task, Awrs::new(TRIES))),
        "smc, N = 10" => Box::new(Sampling::new(task, Smc::default())),
        "mcmc, 10 steps" => Box::new(Sampling::new(task, Mcmc::new(10, Cut::Prefix, TRIES))),
        "imh, 10 steps" => Box::new(Sampling::new(task, Imh::new(10, TRIES))),
        "twist" => Box::new(Sampling::new(task, Twisted::new())),
        "twist:budget=2" => Box::new(Sampling::new(task, Twisted::new().with_budget(2.0, TRIES))),
        "smc, values, N = 8" => {
            let values = Some(StateValues::new(1 << 24));
            Box::new(Sampling::new(task, Smc { particles: 8, values, ..Smc::default() }))
        }
        _ => unreachable!("no sampler has the name {name}"),
    }
}

/// The divergence of weighted outputs from the distribution, in nats: infinite where nothing has a weight.
fn divergence(weights: &BTreeMap<Vec<TokenId>, f64>, distribution: &ExactDistribution) -> f64 {
    let total: f64 = weights.values().sum();
    if total <= 0.0 {
        return f64::INFINITY;
    }
    let share = |(output, weight): (&Vec<TokenId>, &f64)| {
        let share = weight / total;
        share * (share / distribution.probability(output)).ln()
    };
    weights.iter().filter(|(_, weight)| **weight > 0.0).map(share).sum::<f64>().max(0.0)
}

/// The distance at each of some costs, in nats: infinite while there was no output.
#[derive(Debug)]
struct Track {
    costs: Vec<u64>,
    distances: Vec<f64>,
}

impl Track {
    fn new(powers: std::ops::RangeInclusive<u32>) -> Self {
        Self { costs: powers.map(|power| 1 << power).collect(), distances: Vec::new() }
    }

    /// Before an output that brings the cost to `cost`: the distance so far is that at all costs below.
    fn before(&mut self, cost: u64, distance: impl Fn() -> f64) {
        if self.costs.get(self.distances.len()).is_some_and(|at| *at < cost) {
            let distance = distance();
            while self.costs.get(self.distances.len()).is_some_and(|at| *at < cost) {
                self.distances.push(distance);
            }
        }
    }
}

/// The distances of one session.
struct Session {
    /// The distance after so many model calls. Costs that the session did not come to have none: no more calls are
    /// needed.
    calls: Track,
    /// After so many outputs that were begun.
    begun: Track,
    /// At its end, with the costs there.
    last: (u64, u64, f64),
    outputs: usize,
}

fn run(
    name: &str,
    model: &TableModel,
    constraint: &Listed,
    distribution: &ExactDistribution,
    seed: u64,
) -> Session {
    let task = Task::new(model.clone(), constraint.clone(), &model.vocabulary().clone(), 8);
    let mut sampler = sampler(name, task);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
    let mut session = Session {
        calls: Track::new(CALLS),
        begun: Track::new(STARTS),
        last: (0, 0, f64::INFINITY),
        outputs: 0,
    };
    let (mut calls, mut begun) = (0, 0);
    while session.outputs < OUTPUTS && begun < BEGUN {
        let draw = sampler.draw(&mut rng).expect("the task has outputs");
        calls += draw.cost.positions;
        begun += draw.cost.proposals;
        let distance = || divergence(&weights, distribution);
        session.calls.before(calls, distance);
        session.begun.before(begun, distance);
        let weight = if is_weighted(name) { draw.log_weight.exp() } else { 1.0 };
        *weights.entry(draw.tokens).or_default() += weight;
        session.outputs += 1;
    }
    session.last = (calls, begun, divergence(&weights, distribution));
    session
}

/// A mean over sessions, with its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Mean {
    /// `None` unless all are finite.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|other| (other - value).powi(2)).sum();
        value.is_finite().then(|| Self { value, error: (squares / (count - 1.0) / count).sqrt() })
    }
}

/// Costs, and the mean distance at each: none where some session had no output yet.
type Means = Vec<(u64, Option<Mean>)>;

/// The means of some sessions' distances at each cost, up to the first at which all sessions have ended.
fn curve(sessions: &[Session], track: fn(&Session) -> &Track) -> Means {
    let longest = sessions.iter().map(|session| track(session).distances.len()).max().unwrap_or(0);
    let costs = &track(&sessions[0]).costs;
    let at = |index: usize| {
        let distance = |session: &Session| {
            // A session that has ended stays where it is.
            track(session).distances.get(index).copied().unwrap_or(session.last.2)
        };
        (costs[index], Mean::of(&sessions.iter().map(distance).collect::<Vec<_>>()))
    };
    (0..costs.len().min(longest + 1)).map(at).collect()
}

fn cell(mean: Option<Mean>) -> String {
    mean.map_or("-".to_owned(), |Mean { value, error }| format!("{value:.4} ± {error:.4}"))
}

/// A table with a column for each cost.
fn heading(out: &mut Report, first: &str, powers: std::ops::RangeInclusive<u32>, last: &str) {
    let costs: Vec<String> = powers.clone().map(|power| (1u64 << power).to_string()).collect();
    let line = "--:|".repeat(costs.len() + last.matches('|').count());
    out.line(format_args!("| {first} | {} |{last}\n|---|{line}", costs.join(" | ")));
}

/// Runs them.
pub(super) fn report(out: &mut Report) {
    out.line(format_args!("## Distance from the distribution\n"));
    out.line(format_args!(
        "{SESSIONS} sessions of each sampler on each task, of {OUTPUTS} outputs or {BEGUN} that were begun. KL in nats of the outputs' frequencies (of `awrs`, \
         `smc` and `twist`: of their weights) from the enumerated distribution, at the last output within so many model calls: mean and standard error over \
         the sessions; `-` where some session had no output yet; no more columns where all prefixes that are needed are known, so that no more \
         calls were made. `noise` is the distance of {OUTPUTS} independent exact outputs, (outputs - 1) / (2 x {OUTPUTS}), which is too \
         much where outputs are rarer than that: the exact samplers show the true value. `end` is the distance at the end of a session, `begun` and `calls` are \
         for an output there.\n"
    ));
    let mut all: BTreeMap<&str, Vec<Means>> = BTreeMap::new();
    for (index, (depth, acceptance)) in CASES.into_iter().enumerate() {
        let seed = index as u64 + 1;
        let (model, constraint) = case(seed, depth, acceptance);
        let end = model.vocabulary().end_of_sequence().to_vec();
        let distribution =
            ExactDistribution::enumerate(&mut model.clone(), &constraint, &[], &end, 8, 1_000_000)
                .expect("small");
        let noise = (distribution.len() as f64 - 1.0) / (2.0 * OUTPUTS as f64);
        let what =
            format!("depth {depth}, P(L) = {:.2e}, {} outputs", distribution.mass(), distribution.len());
        out.line(format_args!("### D{}, noise {noise:.4}\n", &what[1..]));
        heading(out, "sampler", CALLS, " end | begun | calls |");
        for name in NAMES {
            let sessions: Vec<Session> = (0..SESSIONS)
                .map(|session| run(name, &model, &constraint, &distribution, seed + 100 * session))
                .collect();
            let tracks =
                [curve(&sessions, |session| &session.calls), curve(&sessions, |session| &session.begun)];
            let mut cells: Vec<String> = tracks[0].iter().map(|(_, mean)| cell(*mean)).collect();
            cells.resize(CALLS.count(), String::new());
            let mean = |of: fn(&Session) -> f64| sessions.iter().map(of).sum::<f64>() / SESSIONS as f64;
            let ends: Vec<f64> = sessions.iter().map(|session| session.last.2).collect();
            out.line(format_args!(
                "| {name} | {} | {} | {:.2} | {:.3} |",
                cells.join(" | "),
                cell(Mean::of(&ends)),
                mean(|session| session.last.1 as f64 / session.outputs as f64),
                mean(|session| session.last.0 as f64 / session.outputs as f64)
            ));
            let [_, begun] = tracks;
            all.entry(name).or_default().push(begun);
        }
        out.line(format_args!(""));
    }
    out.line(format_args!(
        "### All tasks\n\nKL after so many outputs that were begun, the mean over the tasks where every session had an output by then, and how \
         many these are where they are not all twelve.\n"
    ));
    heading(out, "sampler", STARTS, "");
    for name in NAMES {
        let cells: Vec<String> = STARTS
            .enumerate()
            .map(|(index, _)| {
                // A curve that ends stays where it is.
                let at = |curve: &Means| curve.get(index).or(curve.last()).and_then(|(_, mean)| *mean);
                let found: Vec<f64> = all[name].iter().filter_map(at).map(|mean| mean.value).collect();
                match found.len() {
                    0 => "-".to_owned(),
                    12 => format!("{:.4}", found.iter().sum::<f64>() / 12.0),
                    count => format!("{:.4} ({count})", found.iter().sum::<f64>() / count as f64),
                }
            })
            .collect();
        out.line(format_args!("| {name} | {} |", cells.join(" | ")));
    }
}
