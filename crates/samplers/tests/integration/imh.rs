//! Independent Metropolis-Hastings over proposals by values: the chain keeps the model's distribution for any values.
//!
//! The proposal q of some values, and with it the matrix of the chain, are computed here from their definitions. The
//! matrix is in balance with the model's distribution to the last digits, and the draws follow the law that it gives
//! after k steps.

use std::collections::HashMap;

use unskew_core::{Constraint, Origin, Sampler, TableModel, TokenId, logprob::log_sum_exp};
use unskew_samplers::{Imh, Sampling, StateValues, Task};

use crate::{
    samplers::deviation,
    support::{distribution, exact, ids, outputs, random_task, rng},
    twisted::{KINDS, Keyed, extreme_values, prefixes, task, values},
};

/// Values of each kind, and extreme ones; made anew, since draws teach them.
fn values_of(kind: usize, constraint: &Keyed, seed: u64) -> StateValues {
    if kind < KINDS { values(kind, constraint, seed) } else { extreme_values(constraint) }
}

/// Values of one kind, and the number of times that each prefix has been learned.
struct Learned {
    values: StateValues,
    counts: HashMap<Vec<TokenId>, f64>,
}

impl Learned {
    fn new(kind: usize, constraint: &Keyed, seed: u64) -> Self {
        let mut counts = HashMap::new();
        for (index, prefix) in prefixes(constraint).into_iter().enumerate() {
            // Every fourth of the extreme values is NaN, and left out.
            if kind < KINDS || index % 4 != 2 {
                *counts.entry(prefix).or_default() += 1.0;
            }
        }
        Self { values: values_of(kind, constraint, seed), counts }
    }

    /// The logarithm of the value of a prefix, and how often it was learned.
    fn of(&self, constraint: &Keyed, prefix: &[TokenId]) -> Option<(f64, f64)> {
        let value = self.values.log_value(constraint.state_key(&mut (), &prefix.to_vec()).unwrap())?;
        Some((value, self.counts[prefix]))
    }
}

/// The outcomes after a prefix with the logarithms of their probabilities under the proposal of `values`.
fn proposed(
    model: &TableModel,
    constraint: &Keyed,
    values: &Learned,
    prefix: &[TokenId],
) -> Vec<(Option<TokenId>, f64)> {
    let next = exact::masked(model, &constraint.outputs, prefix);
    let next: Vec<_> = next.into_iter().filter(|(_, p)| *p > 0.0).map(|(next, p)| (next, p.ln())).collect();
    let of = |prefix: &[TokenId]| values.of(constraint, prefix);
    let known: Vec<(f64, f64)> = next
        .iter()
        .filter_map(|(next, log_p)| Some((*log_p, of(&[prefix, &[(*next)?]].concat())?.0)))
        .collect();
    let mass = log_sum_exp(known.iter().map(|(log_p, _)| *log_p));
    let mean = log_sum_exp(known.iter().map(|(log_p, value)| log_p + value)) - mass;
    let own = || of(prefix).map(|(value, _)| value - log_sum_exp(next.iter().map(|(_, log_p)| *log_p)));
    let other = if known.is_empty() { own() } else { Some(mean) };
    let other = other.filter(|other| other.is_finite()).unwrap_or(0.0);
    let weights: Vec<(Option<TokenId>, f64)> = next
        .iter()
        .map(|(next, log_p)| {
            let Some(token) = next else { return (None, *log_p) };
            let value = of(&[prefix, &[*token]].concat()).map_or(other, |(value, count)| {
                log_sum_exp([value + count.ln(), other + 0.5f64.ln()]) - (count + 0.5).ln()
            });
            (*next, log_p + value)
        })
        .collect();
    let total = log_sum_exp(weights.iter().map(|(_, weight)| *weight));
    weights.into_iter().map(|(next, weight)| (next, weight - total)).collect()
}

/// The outputs that the model can write, each with the logarithms of its probabilities under the model and the
/// proposal.
fn states(model: &TableModel, constraint: &Keyed, values: &Learned) -> Vec<(Vec<TokenId>, f64, f64)> {
    let (mut states, mut open) = (Vec::new(), vec![(Vec::new(), 0.0, 0.0)]);
    while let Some((prefix, log_p, log_q)) = open.pop() {
        let row = exact::masked(model, &constraint.outputs, &prefix);
        for (next, log) in proposed(model, constraint, values, &prefix) {
            let p = row.iter().find(|(other, _)| *other == next).unwrap().1.ln();
            match next {
                None => states.push((prefix.clone(), log_p + p, log_q + log)),
                Some(token) => open.push(([&prefix[..], &[token]].concat(), log_p + p, log_q + log)),
            }
        }
    }
    states
}

type Matrix = Vec<Vec<f64>>;

/// The probabilities of all moves, by the definition of Metropolis and Hastings.
fn matrix(states: &[(Vec<TokenId>, f64, f64)]) -> Matrix {
    let mut rows: Matrix = Vec::new();
    for (from, (_, p, q)) in states.iter().enumerate() {
        let mut row: Vec<f64> = states
            .iter()
            .map(|(_, other_p, other_q)| (other_q + ((other_p - other_q) - (p - q)).min(0.0)).exp())
            .collect();
        row[from] = 0.0;
        row[from] = 1.0 - row.iter().sum::<f64>();
        rows.push(row);
    }
    rows
}

fn after(start: &[f64], matrix: &Matrix, steps: u64) -> Vec<f64> {
    let step = |law: Vec<f64>| -> Vec<f64> {
        (0..law.len()).map(|to| law.iter().zip(matrix).map(|(mass, row)| mass * row[to]).sum()).collect()
    };
    (0..steps).fold(start.to_vec(), |law, _| step(law))
}

/// Compares draws of many new samplers, each of one group of draws that begin together, with the law of the chain.
fn check(
    seed: u64,
    kind: usize,
    steps: u64,
    change: impl Fn(Task<TableModel, Keyed>) -> Task<TableModel, Keyed>,
) {
    let (model, outputs) = random_task(seed);
    if distribution(&model, &outputs).is_none() {
        return;
    }
    let constraint = Keyed { outputs, by_future: false };
    let states = states(&model, &constraint, &Learned::new(kind, &constraint, seed));
    let first: Vec<f64> = states.iter().map(|(_, _, log_q)| log_q.exp()).collect();
    let mass: f64 = first.iter().sum();
    let first: Vec<f64> = first.into_iter().map(|q| q / mass).collect();
    let law = after(&first, &matrix(&states), steps);
    let law = states.iter().map(|(output, ..)| output.clone()).zip(law).filter(|(_, p)| *p > 1e-12).collect();
    let mut counts = HashMap::new();
    for session in 0..300 {
        let policy = Imh::new(steps, 10_000).with_values(values_of(kind, &constraint, seed));
        let task = change(task(&model, &constraint));
        let together = task.batch;
        let mut sampler = Sampling::new(task, policy);
        let mut draws = Vec::new();
        sampler.draw_many(together, &mut rng(1_000 * seed + session), &mut draws).unwrap();
        for draw in draws {
            assert_eq!((draw.origin, draw.log_weight), (Origin::Chained, 0.0));
            *counts.entry(draw.tokens).or_default() += 1;
        }
    }
    let deviation = deviation(&counts, &law);
    assert!(deviation < 4.0, "task {seed}, values {kind}, {steps} steps: {deviation}");
}

#[test]
fn the_chain_is_in_balance_with_the_model_for_any_values() {
    for seed in 0..12 {
        for kind in 0..=KINDS {
            let (model, outputs) = random_task(seed);
            let Some(target) = distribution(&model, &outputs) else { continue };
            let constraint = Keyed { outputs, by_future: false };
            let states = states(&model, &constraint, &Learned::new(kind, &constraint, seed));
            let mass = log_sum_exp(states.iter().map(|(_, log_p, _)| *log_p));
            // Those of the table, whose logits are rounded to 32 bits.
            for (output, log_p, _) in &states {
                assert!(((log_p - mass).exp() - target.probability(output)).abs() < 1e-6);
            }
            let target: Vec<f64> = states.iter().map(|(_, log_p, _)| (log_p - mass).exp()).collect();
            let matrix = matrix(&states);
            for (from, to) in (0..states.len()).flat_map(|from| (0..from).map(move |to| (from, to))) {
                let (there, back) = (target[from] * matrix[from][to], target[to] * matrix[to][from]);
                assert!((there - back).abs() <= 1e-9 * there.max(back), "{seed} {kind}: {there} {back}");
            }
            for (before, after) in target.iter().zip(after(&target, &matrix, 1)) {
                assert!((before - after).abs() < 1e-12, "{seed} {kind}");
            }
        }
    }
}

#[test]
fn draws_follow_the_law_of_the_chain_after_its_steps() {
    for seed in 0..if cfg!(debug_assertions) { 2 } else { 4 } {
        for kind in 0..=KINDS {
            for steps in [0, 1, 4] {
                check(seed, kind, steps, |task| task);
            }
        }
    }
}

/// Draws that are under way together teach nothing that another of them proposes by; nor does a tree that forgets.
#[test]
fn neither_a_batch_nor_a_small_memory_changes_the_law() {
    for seed in [0, 3, 4] {
        for kind in [0, 1] {
            check(seed, kind, 3, |task| Task { batch: 5, ..task });
            check(seed, kind, 3, |task| Task { max_bytes: 2_000, ..task });
        }
    }
}

/// Masked sampling writes `00000` half of the time, and the model a seventeenth. Ten steps of a chain that has
/// learned are enough.
#[test]
fn chains_that_have_learned_are_near_the_model_after_few_steps() {
    let ones = (0..16).map(|tail| format!("1{tail:04b}")).collect::<Vec<_>>();
    let outputs = outputs(ones.iter().map(String::as_str).chain(["00000"]), 3);
    let model = TableModel::new(["0", "1"], vec![0.45, 0.45, 0.10], []).unwrap();
    let constraint = Keyed { outputs, by_future: true };
    let exact = distribution(&model, &constraint.outputs).unwrap();
    let exact = exact.iter().map(|(output, p)| (output.to_vec(), p)).collect();
    for batch in [1, 4] {
        let task = Task { batch, ..task(&model, &constraint) };
        let mut sampler = Sampling::new(task, Imh::new(10, 1_000));
        let (mut counts, mut draws) = (HashMap::new(), Vec::new());
        sampler.warm_up(40, &mut rng(1)).unwrap();
        sampler.draw_many(3_000, &mut rng(2), &mut draws).unwrap();
        draws.into_iter().for_each(|draw| *counts.entry(draw.tokens).or_default() += 1);
        assert!(counts[&ids("00000")] > 100, "{counts:?}");
        let deviation = deviation(&counts, &exact);
        assert!(deviation < 4.0, "batches of {batch}: {deviation}");
    }
}
