//! Errors planted in the bounds, to check that the tests of distributions find them: a test that cannot fail says
//! nothing.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{
    Sampler, TableModel, TokenId,
    conformance::{check_sampler, chi_square},
};

use crate::{
    Asap, Exact, Sampling, Task,
    testing::{BeginsWithA, exact, is_allowed, model},
    tree::Mutant,
};

fn task() -> Task<TableModel, BeginsWithA> {
    let model = model();
    let vocabulary = model.vocabulary().clone();
    Task::new(model, BeginsWithA, &vocabulary, 3)
}

#[test]
fn a_bound_that_is_not_told_to_those_above_fails_the_test_of_the_distribution() {
    let check = |mutant| {
        let mut cars = Sampling::new(task(), Exact::cars(10_000));
        cars.tree_mut().mutant = mutant;
        check_sampler(&mut cars, &exact(), 20_000, &mut ChaCha8Rng::seed_from_u64(1))
    };
    check(None).unwrap();
    assert!(check(Some(Mutant::BoundsStayBelow)).is_err());
}

#[test]
fn a_bound_that_falls_under_way_and_is_not_paid_for_fails_the_test_of_the_distribution() {
    // The first batch of many samplers: in it, rollouts learn from others that end while they are under way.
    let deviation = |mutant| {
        let distribution = exact();
        let mut counts: BTreeMap<Vec<TokenId>, u64> = BTreeMap::new();
        for session in 0..3_000 {
            let mut cars = Sampling::new(task(), Exact::cars(10_000));
            cars.tree_mut().mutant = mutant;
            let mut draws = Vec::new();
            cars.draw_many(8, &mut ChaCha8Rng::seed_from_u64(session), &mut draws).unwrap();
            draws.into_iter().for_each(|draw| *counts.entry(draw.tokens).or_default() += 1);
        }
        chi_square(distribution.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p)))
            .deviation
    };
    let (ours, planted) = (deviation(None), deviation(Some(Mutant::FallsAreFree)));
    assert!(ours < 4.0 && planted > 4.0, "{ours} {planted}");
}

/// ASAp's second output. With the bound of one, a dead end is drawn again and again, and its siblings keep the share
/// that the mask gives them: `ab` is drawn nearly twice as often as it should be.
#[test]
fn a_bound_that_is_not_lowered_at_a_dead_end_fails_the_test_of_the_distribution() {
    let deviation = |mutant, against: &BTreeMap<Vec<TokenId>, f64>| {
        let mut counts: BTreeMap<Vec<TokenId>, u64> = BTreeMap::new();
        for session in 0..20_000 {
            let mut asap = Sampling::new(task(), Asap::new(10_000));
            asap.tree_mut().mutant = mutant;
            let mut rng = ChaCha8Rng::seed_from_u64(session);
            asap.warm_up(1, &mut rng).unwrap();
            *counts.entry(asap.draw(&mut rng).unwrap().tokens).or_default() += 1;
        }
        chi_square(against.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), *p))).deviation
    };
    let exact = second_of_asap();
    assert!((exact.values().sum::<f64>() - 1.0).abs() < 1e-9);
    let (ours, planted) = (deviation(None, &exact), deviation(Some(Mutant::DeadEndsStay), &exact));
    assert!(ours < 4.0, "{ours}");
    assert!(planted > 4.0, "{planted}");
}

/// Prefixes one token longer, with the probability of that token.
type Longer = Vec<(Vec<TokenId>, f64)>;

/// The distribution of ASAp's second output by its definition: the sum over all outputs and dead ends that may come
/// first.
fn second_of_asap() -> BTreeMap<Vec<TokenId>, f64> {
    let model = model();
    let next = |prefix: &[TokenId]| -> (f64, Longer) {
        let row = model.row(prefix);
        let longer = [0, 1].map(|token| ([prefix, &[TokenId::from_index(token)]].concat(), row[token]));
        let stop = if prefix.is_empty() { 0.0 } else { row[2] };
        (stop, longer.into_iter().filter(|(longer, _)| is_allowed(longer)).collect())
    };
    fn future(next: &dyn Fn(&[TokenId]) -> (f64, Longer), seen: &[Vec<TokenId>], prefix: &[TokenId]) -> f64 {
        if !seen.iter().any(|seen| seen.starts_with(prefix)) {
            return 1.0;
        }
        let (stop, longer) = next(prefix);
        stop + longer.iter().map(|(longer, p)| p * future(next, seen, longer)).sum::<f64>()
    }
    let mut distribution = BTreeMap::new();
    let mut histories = vec![(Vec::<Vec<TokenId>>::new(), 0, 1.0)];
    while let Some((seen, drawn, probability)) = histories.pop() {
        let mut open = vec![(Vec::new(), probability)];
        while let Some((prefix, probability)) = open.pop() {
            let (stop, longer) = next(&prefix);
            let weights: Vec<f64> =
                longer.iter().map(|(longer, p)| p * future(&next, &seen, longer)).collect();
            let total = stop + weights.iter().sum::<f64>();
            let with = |prefix: &Vec<TokenId>| [&seen[..], std::slice::from_ref(prefix)].concat();
            if total <= 0.0 {
                histories.push((with(&prefix), drawn, probability));
                continue;
            }
            for ((longer, _), weight) in longer.into_iter().zip(weights) {
                if weight > 0.0 {
                    open.push((longer, probability * weight / total));
                }
            }
            if stop > 0.0 && drawn == 1 {
                *distribution.entry(prefix).or_default() += probability * stop / total;
            } else if stop > 0.0 {
                histories.push((with(&prefix), 1, probability * stop / total));
            }
        }
    }
    distribution
}
