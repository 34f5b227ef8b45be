//! Two names: the model writes `William` with one token and knows ` The` as a common word, after which it next to
//! never goes on to `odore`. The mask forces it to.
//!
//! Run it with `cargo run --example names`. One sees the shares, and how weights mend masked sampling where all that
//! is wanted is an average: each output counts as much as the mask left of the model's distribution on its way.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::sync::Arc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew::{
    automata::RegexConstraint,
    core::{AnyConstraint, Sampler, TableModel},
    samplers::{Exact, Masked, Sampling, Task},
};
use unskew_examples::{Result, Shares, exact, print, shares};

fn run(count: usize) -> Result<[Shares; 4]> {
    let model = TableModel::from_json(include_bytes!("model.json"))?;
    let vocabulary = Arc::clone(model.vocabulary());
    let pattern = " (William|Theodore)";
    let constraint = AnyConstraint::new(RegexConstraint::for_vocabulary(pattern, Arc::clone(&vocabulary))?);
    let task = || Task::new(model.clone(), &constraint, &vocabulary, 8);
    let exact = exact(&model, &constraint)?;
    let masked = shares(&mut Sampling::new(task(), Masked::new()), count, &vocabulary)?;
    let cars = shares(&mut Sampling::new(task(), Exact::cars(100_000)), count, &vocabulary)?;

    let (mut sampler, mut rng) = (Sampling::new(task(), Masked::new()), ChaCha8Rng::seed_from_u64(1));
    let (mut weighted, mut total) = (Shares::new(), 0.0);
    for _ in 0..count {
        let draw = sampler.draw(&mut rng)?;
        let text = String::from_utf8(vocabulary.decode(&draw.tokens))?;
        *weighted.entry(text).or_default() += draw.log_weight.exp();
        total += draw.log_weight.exp();
    }
    weighted.values_mut().for_each(|weight| *weight /= total);
    print(&[("model", &exact), ("masked", &masked), ("weighted", &weighted), ("cars", &cars)]);
    Ok([exact, masked, weighted, cars])
}

fn main() -> Result<()> {
    run(20_000).map(|_| ())
}

#[test]
fn weights_and_exact_samplers_give_the_names_back() {
    let [exact, masked, weighted, cars] = run(4_000).unwrap();
    let theodore = |shares: &Shares| shares[" Theodore"];
    assert!(theodore(&masked) > theodore(&exact) + 0.1);
    assert!((theodore(&weighted) - theodore(&exact)).abs() < 0.03);
    assert!((theodore(&cars) - theodore(&exact)).abs() < 0.03);
}
