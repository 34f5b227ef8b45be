//! Twelve tasks that can be enumerated: how far each sampler is from the exact law, and for what cost.
//!
//! Distances are those of one session, in which a sampler learns from its own outputs. A model call is one evaluated
//! position. On tasks this small every prefix is soon known and costs nothing, so the number of outputs that were begun is
//! given too: it is what remains where prefixes do not come twice.

use std::collections::{BTreeMap, HashMap};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, ExactLaw, MaskMut, Rejected, Sampler, TableModel, TokenId};
use unskew_samplers::{
    Ars, Asap, Awrs, Cars, Cut, Disc, DiscConfig, Form, Masked, Mcmc, Rejection, Rsft, SampleError, Smc,
    SmcConfig, Task,
};

use super::{Report, TRIES};

/// Outputs of each sampler on each task, and those after which the distance is looked at first.
const OUTPUTS: usize = 1_000;
const EARLY: usize = 100;

/// Rejection is left out where it would take more tries than this for one output.
const PATIENCE: f64 = 250.0;

/// A list of outputs, as the masks of their prefixes.
#[derive(Clone, Debug)]
struct Listed {
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
const CASES: [(usize, f64); 12] = [
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

/// A table in which each prefix has a row of its own, and so many of its outputs, chosen at random, that the model writes one
/// with about the given probability.
fn case(seed: u64, depth: usize, acceptance: f64) -> (TableModel, Listed) {
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

type Boxed<E> = Box<dyn Sampler<Error = SampleError<E>>>;

const NAMES: [&str; 12] = [
    "masked",
    "asap",
    "cars",
    "disc, learned",
    "disc, K = 4",
    "disc, reuse, K = 4",
    "ars",
    "rsft",
    "rejection",
    "awrs, weighted",
    "smc, N = 10, weighted",
    "mcmc, 10 steps",
];

fn sampler(name: &str, task: Task<TableModel, Listed>) -> Boxed<unskew_core::TableModelError> {
    let exact = DiscConfig { max_tries: TRIES, max_positions: u64::MAX, ..DiscConfig::default() };
    match name {
        "masked" => Box::new(Masked::new(task)),
        "asap" => Box::new(Asap::new(task, TRIES)),
        "cars" => Box::new(Cars::new(task, TRIES)),
        "disc, learned" => Box::new(Disc::new(task, exact)),
        "disc, K = 4" => Box::new(Disc::new(task, DiscConfig::published(4))),
        "disc, reuse, K = 4" => {
            Box::new(Disc::new(task, DiscConfig { form: Form::Reuse, ..DiscConfig::published(4) }))
        }
        "ars" => Box::new(Ars::new(task, TRIES)),
        "rsft" => Box::new(Rsft::new(task, TRIES)),
        "rejection" => Box::new(Rejection::new(task, TRIES)),
        "awrs, weighted" => Box::new(Awrs::new(task, TRIES)),
        "smc, N = 10, weighted" => Box::new(Smc::new(task, SmcConfig::default())),
        _ => Box::new(Mcmc::new(task, 10, Cut::Prefix, TRIES)),
    }
}

/// The divergence of weighted outputs from the law, in nats.
fn divergence(weights: &BTreeMap<Vec<TokenId>, f64>, law: &ExactLaw) -> f64 {
    let total: f64 = weights.values().sum();
    let share = |(output, weight): (&Vec<TokenId>, &f64)| {
        let share = weight / total;
        share * (share / law.probability(output)).ln()
    };
    weights.iter().map(share).sum::<f64>().max(0.0)
}

/// What one sampler did on one task: (model calls, outputs begun, divergence) early and at the end.
type Found = [(f64, f64, f64); 2];

fn run(name: &str, model: &TableModel, constraint: &Listed, law: &ExactLaw, seed: u64) -> Found {
    let task = Task::new(model.clone(), constraint.clone(), &model.vocabulary().clone(), 8);
    let mut sampler = sampler(name, task);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
    let (mut calls, mut begun) = (0, 0);
    let mut found = [(0.0, 0.0, 0.0); 2];
    for index in 1..=OUTPUTS {
        let draw = sampler.draw(&mut rng).expect("the task has outputs");
        calls += draw.cost.positions;
        begun += draw.cost.proposals;
        // Without its weight masked sampling is what it is.
        let weight = if name.contains("weighted") { draw.log_weight.exp() } else { 1.0 };
        *weights.entry(draw.tokens).or_default() += weight;
        if index == EARLY || index == OUTPUTS {
            found[usize::from(index == OUTPUTS)] = (calls as f64, begun as f64, divergence(&weights, law));
        }
    }
    found
}

/// Runs them.
pub(super) fn report(out: &mut Report) {
    out.line(format_args!("## Distance from the law\n"));
    out.line(format_args!(
        "{OUTPUTS} outputs of each sampler on each task, in one session. KL in nats after {EARLY} and after {OUTPUTS} outputs, \
         of the outputs' frequencies (with `weighted`: weights) from the enumerated law; `noise` is what {OUTPUTS} independent \
         exact outputs would show, (outputs - 1) / (2 x {OUTPUTS}), which is too much where outputs are rarer than that: the exact \
         samplers show what it is. `begun` and `calls` are per output.\n"
    ));
    let mut sums: BTreeMap<&str, (f64, f64, f64, u32)> = BTreeMap::new();
    for (index, (depth, acceptance)) in CASES.into_iter().enumerate() {
        let seed = index as u64 + 1;
        let (model, constraint) = case(seed, depth, acceptance);
        let end = model.vocabulary().end_of_sequence().to_vec();
        let law =
            ExactLaw::enumerate(&mut model.clone(), &constraint, &[], &end, 8, 1_000_000).expect("small");
        let noise = (law.len() as f64 - 1.0) / (2.0 * OUTPUTS as f64);
        out.line(format_args!(
            "### Depth {depth}, P(L) = {:.2e}, {} outputs, noise {noise:.4}\n\n\
             | sampler | KL, {EARLY} | KL, {OUTPUTS} | begun | calls, first {EARLY} | calls |\n|---|--:|--:|--:|--:|--:|",
            law.mass(),
            law.len()
        ));
        for name in NAMES {
            if matches!(name, "rejection" | "rsft") && 1.0 / law.mass() > PATIENCE {
                continue;
            }
            let [early, late] = run(name, &model, &constraint, &law, seed);
            let (many, few) = (OUTPUTS as f64, EARLY as f64);
            out.line(format_args!(
                "| {name} | {:.4} | {:.4} | {:.2} | {:.3} | {:.3} |",
                early.2,
                late.2,
                late.1 / many,
                early.0 / few,
                late.0 / many
            ));
            let sum = sums.entry(name).or_default();
            sum.0 += late.2 - noise;
            sum.1 += late.1 / many;
            sum.2 += early.1 / few;
            sum.3 += 1;
        }
        out.line(format_args!(""));
    }
    out.line(format_args!(
        "### All tasks\n\nMeans over the tasks that each was run on.\n\n\
         | sampler | tasks | KL - noise | begun per output | begun per output, first {EARLY} |\n|---|--:|--:|--:|--:|"
    ));
    for name in NAMES {
        let (kl, begun, early, count) = sums[name];
        let count = f64::from(count);
        out.line(format_args!(
            "| {name} | {count} | {:.4} | {:.2} | {:.2} |",
            kl / count,
            begun / count,
            early / count
        ));
    }
}
