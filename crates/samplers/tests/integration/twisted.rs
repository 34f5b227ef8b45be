//! Proposals by learned values: weights correct any values, right or wrong, and right values make proposals better.

use std::collections::BTreeMap;

use unskew_core::{
    Constraint, Cost, Draw, MaskMut, Origin, Rejected, Sampler, TableModel, TokenId,
    conformance::check_constraint, hashed_key,
};
use unskew_samplers::{Masked, Sampling, Smc, StateValues, Task, Twisted};

use crate::support::{Outputs, distribution, ids, outputs, random_task, rng};

/// A list of outputs whose states have keys.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    pub(crate) outputs: Outputs,
    /// The rest of the output decides the key, as it decides the future; else the whole prefix does.
    pub(crate) by_future: bool,
}

impl Constraint for Keyed {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.outputs.vocab_len
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        self.outputs.advance(&mut (), state, token)
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        self.outputs.is_accepting(state)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mask: MaskMut<'_>) {
        self.outputs.fill_mask(&mut (), state, mask);
    }
    fn state_key(&self, (): &mut (), state: &Vec<TokenId>) -> Option<u64> {
        if !self.by_future {
            return Some(hashed_key(state));
        }
        let rest = self.outputs.outputs.iter().filter_map(|output| output.strip_prefix(&state[..]));
        Some(hashed_key(&rest.collect::<Vec<_>>()))
    }
}

pub(crate) fn task(model: &TableModel, constraint: &Keyed) -> Task<TableModel, Keyed> {
    let vocabulary = model.vocabulary().clone();
    Task::new(model.clone(), constraint.clone(), &vocabulary, 8)
}

/// The probability that the model gives an output and its end.
fn probability(model: &TableModel, output: &[TokenId]) -> f64 {
    let step = |at: usize| {
        let row = model.row(&output[..at]);
        output.get(at).map_or(row[row.len() - 1], |token| row[token.index()])
    };
    (0..=output.len()).map(step).product()
}

/// All prefixes of all outputs.
pub(crate) fn prefixes(constraint: &Keyed) -> Vec<Vec<TokenId>> {
    let all = constraint.outputs.outputs.iter();
    all.flat_map(|output| (0..=output.len()).map(|len| output[..len].to_vec())).collect()
}

/// The kinds of values that a sampler begins with.
pub(crate) const KINDS: usize = 5;

pub(crate) fn values(kind: usize, constraint: &Keyed, seed: u64) -> StateValues {
    let values = StateValues::new(1 << 20);
    for prefix in prefixes(constraint) {
        let key = constraint.state_key(&mut (), &prefix).unwrap();
        let random = hashed_key(&(&prefix, seed)) % 1_000;
        #[allow(clippy::cast_precision_loss, reason = "below 1,000")]
        let random = random as f64;
        match kind {
            0 => {}
            1 => values.learn(key, -random / 100.0),
            2 => values.learn(key, if random < 500.0 { -3.0 } else { 0.0 }),
            3 => values.learn(key, f64::NEG_INFINITY),
            _ => values.learn(key, random / 200.0 - 5.0),
        }
    }
    values
}

/// Whether the weighted frequencies of outputs are their probabilities under the model.
fn check_weights(draws: impl Iterator<Item = Draw>, model: &TableModel, constraint: &Keyed, name: &str) {
    let (mut count, mut sums) = (0.0, BTreeMap::<Vec<TokenId>, (f64, f64, u32)>::new());
    for draw in draws {
        // Rollouts that ended nowhere have weight zero.
        count += f64::from(u32::try_from(draw.cost.proposals.max(1)).unwrap());
        let weight = draw.log_weight.exp();
        let sum = sums.entry(draw.tokens).or_default();
        *sum = (sum.0 + weight, sum.1 + weight * weight, sum.2 + 1);
    }
    for output in &constraint.outputs.outputs {
        let p = probability(model, output);
        let (sum, squares, drawn) = sums.get(output).copied().unwrap_or_default();
        let mean = sum / count;
        let sigma = ((squares / count - mean * mean).max(0.0) / count).sqrt();
        // An output that was hardly drawn has no sigma of its own.
        let slack = if drawn < 30 { 0.02 } else { 1e-6 } + 5.0 * sigma;
        assert!((mean - p).abs() <= slack, "{name} {output:?}: {mean} for {p}, sigma {sigma}");
    }
}

#[test]
fn the_keyed_constraint_keeps_the_contract() {
    for seed in 0..10 {
        for by_future in [false, true] {
            check_constraint(&Keyed { outputs: random_task(seed).1, by_future }, 5).unwrap();
        }
    }
}

#[test]
fn weights_correct_any_values() {
    for seed in 0..12 {
        for kind in 0..KINDS {
            let (model, outputs) = random_task(seed);
            if distribution(&model, &outputs).is_none() {
                continue;
            }
            let constraint = Keyed { outputs, by_future: seed % 2 == 0 };
            let policy = Twisted::new().with_values(values(kind, &constraint, seed));
            let mut sampler = Sampling::new(task(&model, &constraint), policy);
            let mut rng = rng(seed);
            let draws = (0..4_000).map(|_| sampler.draw(&mut rng).unwrap());
            check_weights(draws, &model, &constraint, &format!("task {seed}, values {kind}"));
        }
    }
}

/// Values that are no probabilities, or as wrong as can be.
pub(crate) fn extreme_values(constraint: &Keyed) -> StateValues {
    let extreme = StateValues::new(1 << 20);
    for (index, prefix) in prefixes(constraint).iter().enumerate() {
        let value = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN, -1e300][index % 4];
        extreme.learn(constraint.state_key(&mut (), prefix).unwrap(), value);
    }
    extreme
}

/// With values that are wrong by a large factor, weights are too uneven to be compared. They are numbers.
#[test]
fn extreme_values_give_finite_weights() {
    for seed in 0..12 {
        let (model, outputs) = random_task(seed);
        if distribution(&model, &outputs).is_none() {
            continue;
        }
        let constraint = Keyed { outputs, by_future: true };
        let extreme = extreme_values(&constraint);
        let mut sampler = Sampling::new(task(&model, &constraint), Twisted::new().with_values(extreme));
        let mut rng = rng(seed);
        for _ in 0..2_000 {
            let draw = sampler.draw(&mut rng).unwrap();
            assert!(draw.log_weight.is_finite() && constraint.outputs.outputs.contains(&draw.tokens));
        }
    }
}

#[test]
fn weights_of_populations_correct_any_values() {
    for seed in 0..8 {
        for kind in 0..KINDS {
            let (model, outputs) = random_task(seed);
            if distribution(&model, &outputs).is_none() {
                continue;
            }
            let constraint = Keyed { outputs, by_future: seed % 2 == 0 };
            let values = values(kind, &constraint, seed);
            let config = Smc { particles: 4, values: Some(values), all: true, ..Smc::default() };
            let mut sampler = Sampling::new(task(&model, &constraint), config);
            let mut rng = rng(seed);
            // The weight of one output is the mean weight of its population, and populations without survivors have
            // weight zero.
            let mut draws = Vec::new();
            for _ in 0..1_500 {
                let mut left = 1;
                let population = std::iter::from_fn(|| sampler.draw_next(&mut left, &mut rng));
                let population: Vec<Draw> = population.collect::<Result<_, _>>().unwrap();
                let particles: u64 = population.iter().map(|draw| draw.cost.proposals).sum();
                let lost = particles - population.len() as u64;
                draws.extend(population.into_iter().map(|draw| Draw { cost: Cost::default(), ..draw }));
                draws.extend((0..lost).map(|_| lost_draw()));
            }
            check_weights(draws.into_iter(), &model, &constraint, &format!("task {seed}, values {kind}"));
        }
    }
}

/// A particle that did not survive.
fn lost_draw() -> Draw {
    Draw {
        tokens: vec![TokenId(u32::MAX)],
        log_prob: 0.0,
        log_weight: f64::NEG_INFINITY,
        finish: unskew_core::Finish::Stop,
        effective: None,
        origin: Origin::Proposed,
        cost: Cost::default(),
    }
}

/// The distance in total variation between weighted outputs and the distribution of the model.
fn distance(draws: &[Draw], model: &TableModel, constraint: &Keyed) -> f64 {
    let exact = distribution(model, &constraint.outputs).unwrap();
    let mut sums = BTreeMap::<&[TokenId], f64>::new();
    for draw in draws {
        *sums.entry(&draw.tokens).or_default() += draw.log_weight.exp();
    }
    let total: f64 = sums.values().sum();
    let all = constraint.outputs.outputs.iter();
    all.map(|output| {
        (sums.get(&output[..]).copied().unwrap_or(0.0) / total - exact.probability(output)).abs() / 2.0
    })
    .sum()
}

#[test]
fn a_budget_keeps_the_distribution_with_its_weights_and_is_kept_on_average() {
    for seed in [0, 3, 4, 6] {
        let (model, outputs) = random_task(seed);
        let constraint = Keyed { outputs, by_future: true };
        if distribution(&model, &constraint.outputs).is_none() {
            continue;
        }
        for budget in [1.0, 2.0, 8.0] {
            let policy = Twisted::new().with_budget(budget, 10_000);
            let mut sampler = Sampling::new(task(&model, &constraint), policy);
            let mut rng = rng(seed);
            let draws: Vec<Draw> = (0..6_000).map(|_| sampler.draw(&mut rng).unwrap()).collect();
            let distance = distance(&draws, &model, &constraint);
            assert!(distance < 0.04, "task {seed}, budget {budget}: {distance}");
            let rollouts: u64 = draws.iter().map(|draw| draw.cost.proposals).sum();
            #[allow(clippy::cast_precision_loss, reason = "small counts")]
            let mean = rollouts as f64 / draws.len() as f64;
            assert!(mean < budget * 1.3 + 0.1, "task {seed}, budget {budget}: {mean}");
            let accepted = draws.iter().filter(|draw| draw.origin == Origin::Accepted).count();
            assert!(
                accepted > if budget > 4.0 { 4_000 } else { 0 },
                "task {seed}, budget {budget}: {accepted}"
            );
        }
    }
}

#[test]
fn values_that_are_learned_move_the_proposal_to_the_model() {
    // Masked sampling writes `00000` half of the time; the model, a seventeenth.
    let ones = (0..16).map(|tail| format!("1{tail:04b}")).collect::<Vec<_>>();
    let outputs = outputs(ones.iter().map(String::as_str).chain(["00000"]), 3);
    let constraint = Keyed { outputs, by_future: true };
    let model = TableModel::new(["0", "1"], vec![0.45, 0.45, 0.10], []).unwrap();
    let share = |draws: &[Draw]| {
        let zeros = draws.iter().filter(|draw| draw.tokens == ids("00000")).count();
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        let share = zeros as f64 / draws.len() as f64;
        share
    };
    let mut rng = rng(5);
    let mut masked = Sampling::new(task(&model, &constraint), Masked::new());
    let draws: Vec<Draw> = (0..2_000).map(|_| masked.draw(&mut rng).unwrap()).collect();
    assert!((share(&draws) - 0.5).abs() < 0.05);
    let values = StateValues::new(1 << 20);
    let policy = || Twisted::new().with_values(values.clone());
    let mut twisted = Sampling::new(task(&model, &constraint), policy());
    for _ in 0..200 {
        twisted.draw(&mut rng).unwrap();
    }
    let draws: Vec<Draw> = (0..2_000).map(|_| twisted.draw(&mut rng).unwrap()).collect();
    assert!((share(&draws) - 1.0 / 17.0).abs() < 0.02, "{}", share(&draws));
    // Another sampler, which has seen no prefix, profits from the values of states at its first output.
    let first = |seed| {
        let mut fresh = Sampling::new(task(&model, &constraint), policy());
        fresh.draw(&mut crate::support::rng(seed)).unwrap()
    };
    let draws: Vec<Draw> = (0..1_000).map(first).collect();
    assert!(share(&draws) < 0.15, "{}", share(&draws));
}

#[test]
fn a_small_memory_changes_no_weight() {
    let (model, outputs) = random_task(4);
    let constraint = Keyed { outputs, by_future: true };
    let small = Task { max_bytes: 4_000, ..task(&model, &constraint) };
    let mut sampler = Sampling::new(small, Twisted::new());
    let mut rng = rng(9);
    let draws: Vec<Draw> = (0..4_000).map(|_| sampler.draw(&mut rng).unwrap()).collect();
    check_weights(draws.into_iter(), &model, &constraint, "small memory");
}
