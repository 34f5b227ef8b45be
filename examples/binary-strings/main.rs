//! Example 2 of grammar-aligned decoding: `00000`, which the model hardly ever ends, or `1` and four more.
//!
//! Run it with `cargo run --example binary_strings`. Half of the masked outputs are `00000`. ASAp learns that nothing
//! comes of the first zero from the first time that it goes there: its share falls with each output, since it is
//! counted among all outputs so far. CARS is exact from the first.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::sync::Arc;

use unskew::{
    automata::RegexConstraint,
    core::{AnyConstraint, TableModel},
    samplers::{Asap, Exact, Masked, Sampling, Task},
};
use unskew_examples::{Result, Shares, exact, print, shares};

fn run(count: usize) -> Result<[Shares; 4]> {
    let model = TableModel::from_json(include_bytes!("model.json"))?;
    let vocabulary = Arc::clone(model.vocabulary());
    let constraint =
        AnyConstraint::new(RegexConstraint::for_vocabulary("00000|1[01]{4}", Arc::clone(&vocabulary))?);
    let task = || Task::new(model.clone(), &constraint, &vocabulary, 8);
    let exact = exact(&model, &constraint)?;
    let masked = shares(&mut Sampling::new(task(), Masked::new()), count, &vocabulary)?;
    let asap = shares(&mut Sampling::new(task(), Asap::new(1000)), count, &vocabulary)?;
    let mut cars = Sampling::new(task(), Exact::cars(100_000));
    let exactly = shares(&mut cars, count, &vocabulary)?;
    print(&[("model", &exact), ("masked", &masked), ("asap", &asap), ("cars", &exactly)]);
    for (name, shares) in [("masked", &masked), ("asap", &asap), ("cars", &exactly)] {
        println!("{name}: {:.4} of {count} outputs are 00000", shares.get("00000").copied().unwrap_or(0.0));
    }
    Ok([exact, masked, asap, exactly])
}

fn main() -> Result<()> {
    run(10_000).map(|_| ())
}

#[test]
fn nothing_comes_of_the_first_zero() {
    let [exact, masked, asap, cars] = run(2_000).unwrap();
    let zeros = |shares: &Shares| shares.get("00000").copied().unwrap_or(0.0);
    assert!(zeros(&exact) < 1e-6 && zeros(&masked) > 0.45);
    assert!(zeros(&asap) < 0.01 && zeros(&cars) == 0.0);
}
