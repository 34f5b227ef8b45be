//! The set of figure 1 of the DISC paper: masking begins with `soccer`, finds that no soccer shoes are for sale, and
//! is forced to gloves, which the model hardly ever writes.
//!
//! Run it with `cargo run --example soccer_shoes`. One sees that masked sampling turns the model's preference round,
//! and that DISC, which tests each output by the mass that the mask left on its way, does not.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::sync::Arc;

use unskew::{
    automata::RegexConstraint,
    core::{AnyConstraint, TableModel},
    samplers::{Exact, Masked, Sampling, Task},
};
use unskew_examples::{Result, Shares, exact, print, shares};

fn run(count: usize) -> Result<[Shares; 3]> {
    let model = TableModel::from_json(include_bytes!("model.json"))?;
    let vocabulary = Arc::clone(model.vocabulary());
    let items = "soccer gloves|used shirts|used soccer shoes";
    let constraint = AnyConstraint::new(RegexConstraint::for_vocabulary(items, Arc::clone(&vocabulary))?);
    let task = || Task::new(model.clone(), &constraint, &vocabulary, 8);
    let exact = exact(&model, &constraint)?;
    let masked = shares(&mut Sampling::new(task(), Masked::new()), count, &vocabulary)?;
    let disc = shares(&mut Sampling::new(task(), Exact::disc()), count, &vocabulary)?;
    print(&[("model", &exact), ("masked", &masked), ("disc", &disc)]);
    Ok([exact, masked, disc])
}

fn main() -> Result<()> {
    run(20_000).map(|_| ())
}

#[test]
fn masking_turns_the_preference_round() {
    let [exact, masked, disc] = run(4_000).unwrap();
    assert!(masked["soccer gloves"] > 0.55 && exact["soccer gloves"] < 0.2);
    assert!((disc["used soccer shoes"] - exact["used soccer shoes"]).abs() < 0.04);
}
