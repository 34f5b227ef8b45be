//! Draws that are wanted one at a time try several rollouts side by side, and keep their law.

use std::collections::HashMap;

use unskew_core::{
    Sampler, TokenId,
    conformance::{check_sampler, chi_square},
};
use unskew_samplers::{Exact, Sampling, Task};

use super::support::{distribution, random_task, rng, task};

/// One draw at a time, of which few rollouts are accepted: the rollouts that are tried ahead change no law, and save
/// passes.
#[test]
fn draws_that_try_ahead_are_exact() {
    let mut passes = [0, 0];
    let rare = |seed| {
        let (model, constraint) = random_task(seed);
        let exact = distribution(&model, &constraint)?;
        (0.02..0.1).contains(&exact.mass()).then_some((seed, model, constraint, exact))
    };
    for (seed, model, constraint, exact) in (0..).filter_map(rare).take(3) {
        for (at, batch) in [1, 16].into_iter().enumerate() {
            let mut sampler =
                Sampling::new(Task { batch, ..task(&model, &constraint) }, Exact::ars(u64::MAX));
            check_sampler(&mut sampler, &exact, 2000, &mut rng(seed)).unwrap();
            // Anew for each draw: the first draws are those of many rollouts.
            let mut counts = HashMap::<Vec<TokenId>, u64>::new();
            for number in 0..2000 {
                let mut sampler =
                    Sampling::new(Task { batch, ..task(&model, &constraint) }, Exact::cars(u64::MAX));
                let mut rng = rng(seed << 32 | number);
                let draw = sampler.draw(&mut rng).unwrap();
                passes[at] += draw.cost.passes;
                *counts.entry(draw.tokens).or_default() += 1;
            }
            let cells = exact.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p));
            let fit = chi_square(cells);
            assert!(fit.deviation < 4.0, "{seed}, batch {batch}: {fit:?}");
        }
    }
    assert!(passes[1] < passes[0], "{passes:?}");
}
