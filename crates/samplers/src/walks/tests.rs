//! Walks of an engine that batches them as it likes, beside exact distributions.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{ExactDistribution, TableModel, TokenId, conformance::chi_square};

use super::*;
use crate::{
    Task,
    testing::{BeginsWithA, exact, ids, model},
    tree::Mutant,
};

fn walks(mode: WalkMode, max_bytes: usize) -> Walks<BeginsWithA> {
    let model = model();
    let task = Task::without_model(3, BeginsWithA, model.vocabulary(), 3);
    Walks::new(Task { max_bytes, ..task }, mode, Warp::default())
}

fn row(model: &TableModel, tokens: &[TokenId]) -> Vec<f32> {
    #[allow(clippy::cast_possible_truncation, reason = "logits have 32 bits")]
    model.row(tokens).iter().map(|p| p.ln() as f32).collect()
}

/// An engine: of `slots` sequences under way, those that the dice pick make a step. Some lose the token that was in
/// flight, are read again from an earlier position, or are asked about a position that was decided, with the row of
/// another. Answers with the ends of the first `count` walks, in the order in which they were begun.
fn serve(walks: &Walks<BeginsWithA>, count: usize, slots: usize, rng: &mut ChaCha8Rng) -> Vec<WalkEnd> {
    let (model, mut fed) = (model(), FedRows::default());
    let mut ends: Vec<Option<WalkEnd>> = Vec::new();
    let mut under_way: Vec<(usize, Walk<BeginsWithA>, Vec<TokenId>)> = Vec::new();
    while ends.len() < count || !under_way.is_empty() {
        while under_way.len() < slots && ends.len() < count {
            // Where walks under way hold the memory, an engine waits for them.
            let Ok(walk) = walks.begin(rng.next_u64()) else { break };
            under_way.push((ends.len(), walk, Vec::new()));
            ends.push(None);
        }
        under_way.retain_mut(|(number, walk, tokens)| match rng.next_u64() % 8 {
            0 => true,
            1 => {
                tokens.truncate(rng.next_u64() as usize % (tokens.len() + 1));
                true
            }
            2 if !tokens.is_empty() => {
                let at = rng.next_u64() as usize % tokens.len();
                assert_eq!(walk.known_at(at), Some(WalkStep::Token(tokens[at])));
                assert_eq!(walk.at(at, &[f32::NAN; 3], &mut fed), WalkStep::Token(tokens[at]));
                true
            }
            _ => match walk.at(tokens.len(), &row(&model, tokens), &mut fed) {
                WalkStep::Token(token) => {
                    tokens.push(token);
                    true
                }
                step => {
                    let end = walk.end().unwrap().clone();
                    match &end {
                        WalkEnd::Accepted(output) => {
                            assert_eq!((step, &output.tokens), (WalkStep::End, &*tokens));
                        }
                        _ => assert_eq!(step, WalkStep::Over),
                    }
                    // An engine that has a position in flight asks once more.
                    assert_eq!(walk.known_at(tokens.len() + 1), Some(step));
                    ends[*number] = Some(end);
                    false
                }
            },
        });
    }
    ends.into_iter().flatten().collect()
}

/// Outputs and their counts.
fn counts(ends: &[WalkEnd]) -> BTreeMap<Vec<TokenId>, u64> {
    let mut counts = BTreeMap::new();
    for end in ends {
        if let WalkEnd::Accepted(output) = end {
            *counts.entry(output.tokens.clone()).or_default() += 1;
        }
    }
    counts
}

fn deviation(counts: &BTreeMap<Vec<TokenId>, u64>) -> f64 {
    let exact = exact();
    chi_square(exact.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p))).deviation
}

fn close(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} {right}");
}

#[test]
fn walks_of_exact_modes_follow_the_exact_distribution() {
    for mode in [WalkMode::Cars, WalkMode::Rejection] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let walks = walks(mode, 1 << 20);
        let ends = serve(&walks, 30_000, 7, &mut rng);
        assert!(deviation(&counts(&ends)) < 4.0);
        let stats = walks.stats();
        let accepted = ends.iter().filter(|end| matches!(end, WalkEnd::Accepted(_))).count();
        assert_eq!(stats.accepted, accepted as u64);
        let (log_p, error) = (stats.log_estimate.unwrap(), stats.relative_error.unwrap());
        let log_mass = exact().mass().ln();
        assert!((log_p - log_mass).abs() < 4.0 * error + 1e-9, "{mode:?} {log_p} {log_mass} {error}");
        if mode == WalkMode::Cars {
            assert!(accepted > 29_000 && error < 0.01, "{accepted} {error}");
            close(stats.log_bound, log_mass);
        }
    }
}

/// The first walks of many tasks: in them, walks learn from others that end while they are under way.
#[test]
fn early_walks_follow_it_and_a_fall_that_is_not_paid_for_is_found() {
    let deviation = |mutant: Option<Mutant>| {
        let mut all: BTreeMap<Vec<TokenId>, u64> = BTreeMap::new();
        for seed in 0..3_000 {
            let walks = walks(WalkMode::Cars, 1 << 20);
            walks.current.lock().unwrap().shared.lock().tree_mut().mutant = mutant;
            let ends = serve(&walks, 8, 8, &mut ChaCha8Rng::seed_from_u64(seed));
            for (output, count) in counts(&ends) {
                *all.entry(output).or_default() += count;
            }
        }
        deviation(&all)
    };
    let (ours, planted) = (deviation(None), deviation(Some(Mutant::FallsAreFree)));
    assert!(ours < 4.0 && planted > 4.0, "{ours} {planted}");
}

#[test]
fn weights_stand_for_the_model() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for (mode, bytes) in
        [(WalkMode::Weights, 1 << 20), (WalkMode::Twisted, 1 << 20), (WalkMode::Twisted, 4 * 500)]
    {
        stand_for_the_model(mode, bytes, &mut rng);
    }
}

fn stand_for_the_model(mode: WalkMode, bytes: usize, rng: &mut ChaCha8Rng) {
    let walks = walks(mode, bytes);
    let ends = serve(&walks, 20_000, 5, rng);
    let weight = |end: &WalkEnd| match end {
        WalkEnd::Accepted(output) => output.log_weight.exp(),
        _ => 0.0,
    };
    let n = ends.len() as f64;
    let mean = ends.iter().map(weight).sum::<f64>() / n;
    let square = ends.iter().map(|end| weight(end).powi(2)).sum::<f64>() / n;
    let error = ((square - mean * mean) / n).sqrt();
    assert!((mean - exact().mass()).abs() < 4.0 * error, "{mean} {error}");
    close(walks.stats().log_estimate.unwrap(), mean.ln());
    close(walks.stats().relative_error.unwrap(), error / mean);
}

#[test]
fn an_output_has_the_models_probability() {
    let walks = walks(WalkMode::Cars, 1 << 20);
    let model = model();
    for end in serve(&walks, 200, 3, &mut ChaCha8Rng::seed_from_u64(4)) {
        let WalkEnd::Accepted(output) = end else { continue };
        let tokens = &output.tokens;
        let of = |at: usize, token: usize| model.row(&tokens[..at])[token].ln();
        let sum: f64 = tokens.iter().enumerate().map(|(at, token)| of(at, token.index())).sum();
        close(output.log_prob, sum + of(tokens.len(), 2));
        close(output.log_weight, 0.0);
    }
}

#[test]
fn memory_is_bounded_while_walks_are_under_way() {
    // So few that each tree holds a few prefixes.
    let walks = walks(WalkMode::Cars, 4 * 500);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut fed = FedRows::default();
    let mut held = vec![walks.begin(0).unwrap()];
    let model = model();
    assert!(matches!(held[0].at(0, &row(&model, &[]), &mut fed), WalkStep::Token(_)));
    let mut all: BTreeMap<Vec<TokenId>, u64> = BTreeMap::new();
    for _ in 0..3_000 {
        // One walk is always held, so that a full tree is never idle.
        let mut next = walks.begin(rng.next_u64()).unwrap();
        next.at(0, &row(&model, &[]), &mut fed);
        held.push(next);
        let mut walk = held.remove(0);
        let mut tokens: Vec<TokenId> = Vec::new();
        loop {
            match walk.at(tokens.len(), &row(&model, &tokens), &mut fed) {
                WalkStep::Token(token) => tokens.push(token),
                WalkStep::End => {
                    *all.entry(tokens).or_default() += 1;
                    break;
                }
                WalkStep::Over => break,
            }
        }
        assert!(walks.bytes() < MAX_SESSIONS * 2_500, "{}", walks.bytes());
    }
    assert!(deviation(&all) < 4.0);
    // Walks in several sessions that never end: no more begin, and later ones do again.
    let mut under_way = Vec::new();
    let refused = (0..100_000).find_map(|seed| match walks.begin(seed) {
        Ok(mut walk) => {
            walk.at(0, &row(&model, &[]), &mut fed);
            let tokens = walk.rollout.as_ref().map_or(0, |rollout| rollout.tokens().len());
            (tokens > 0).then(|| under_way.push(walk));
            None
        }
        Err(error) => Some(error),
    });
    drop(held);
    if refused.is_some() {
        drop(under_way);
        assert!(walks.begin(0).is_ok() && walks.is_idle());
    }
}

#[test]
fn rows_that_are_no_distribution_end_a_walk_and_nothing_else() {
    let walks = walks(WalkMode::Cars, 1 << 20);
    let mut fed = FedRows::default();
    for bad in [vec![f32::NAN; 3], vec![f32::NEG_INFINITY; 3], vec![0.0; 2]] {
        let mut walk = walks.begin(1).unwrap();
        assert_eq!(walk.at(0, &bad, &mut fed), WalkStep::Over);
        assert!(matches!(walk.end(), Some(WalkEnd::Failed(_))), "{:?}", walk.end());
        assert_eq!(walk.at(0, &bad, &mut fed), WalkStep::Over);
    }
    let never = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
    let mut walk = walks.begin(1).unwrap();
    assert_eq!(walk.at(0, &never, &mut fed), WalkStep::Over);
    assert!(matches!(walk.end(), Some(WalkEnd::Failed(SampleError::Impossible { .. }))));
}

#[test]
fn a_walk_without_the_tokens_before_a_position_ends() {
    let (walks, model, mut fed) = (walks(WalkMode::Cars, 1 << 20), model(), FedRows::default());
    let mut walk = walks.begin(1).unwrap();
    assert_eq!(walk.known_at(0), None);
    assert_eq!(walk.at(1, &row(&model, &[]), &mut fed), WalkStep::Over);
    assert_eq!(walk.end(), Some(&WalkEnd::Failed(SampleError::Gap { position: 1, told: 0 })));
    assert_eq!(walks.stats().tries, 0);
}

/// Two adapters of one model, two states of its weights: what is known of one says nothing about the other.
#[test]
fn a_context_has_a_tree_of_its_own_and_weights_that_are_gone_have_none() {
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Key(&'static str);
    impl WalkKey for Key {
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }
    let table = WalkTable::<Key, BeginsWithA>::new(1 << 20);
    let (mut fed, mut rng) = (FedRows::default(), ChaCha8Rng::seed_from_u64(2));
    // The share of walks whose output is "a" alone, under a model that ends after it with probability `p_end`.
    let mut share = |context: &'static str, p_end: f32| {
        let task = match table.find(&Key(context)) {
            Some(task) => task,
            None => table.insert(Key(context), walks(WalkMode::Cars, 1 << 20), 0),
        };
        let mut short = 0;
        for _ in 0..2_000 {
            let mut walk = table.begin(&task, rng.next_u64()).unwrap();
            let mut length = 0;
            loop {
                let row = match length {
                    0 => [0.5f32.ln(), 0.5f32.ln(), f32::NEG_INFINITY],
                    1 => [(1.0 - p_end).ln(), f32::NEG_INFINITY, p_end.ln()],
                    _ => [f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0],
                };
                match walk.at(length, &row, &mut fed) {
                    WalkStep::Token(_) => length += 1,
                    _ => break,
                }
            }
            short += usize::from(length == 1);
        }
        short as f64 / 2_000.0
    };
    let near = |share: f64, p: f64| (share - p).abs() < 4.0 * (p * (1.0 - p) / 2_000.0).sqrt();
    assert!(near(share("base", 0.9), 0.9) && near(share("adapter", 0.1), 0.1));
    // A test of the test: one context for both follows the first.
    assert!(near(share("base", 0.1), 0.9));
    let task = table.find(&Key("base")).unwrap();
    let mut under_way = table.begin(&task, 1).unwrap();
    table.forget(|key| key.0 == "base");
    assert_eq!(under_way.known_at(0), Some(WalkStep::Over));
    assert_eq!(under_way.end(), Some(&WalkEnd::Failed(SampleError::Replaced)));
    assert!(near(share("base", 0.1), 0.1));
    assert_eq!(table.usage().0, 2);
}

#[test]
fn findings_of_two_processes_are_those_of_one() {
    let apart: Vec<WalkStats> = (0..2)
        .map(|seed| {
            let walks = walks(WalkMode::Cars, 1 << 20);
            serve(&walks, 400, 3, &mut ChaCha8Rng::seed_from_u64(seed));
            walks.stats()
        })
        .collect();
    let both = WalkStats::merged(&apart).unwrap();
    assert_eq!(both.tries, apart[0].tries + apart[1].tries);
    assert_eq!(both.accepted, apart[0].accepted + apart[1].accepted);
    let (log_p, error) = (both.log_estimate.unwrap(), both.relative_error.unwrap());
    assert!((log_p - exact().mass().ln()).abs() < 4.0 * error + 1e-9);
    assert!(error < apart.iter().map(|stats| stats.relative_error.unwrap()).fold(1.0, f64::min) + 1e-12);
    assert_eq!(WalkStats::merged(&apart[..1]), Some(apart[0]));
    assert_eq!(WalkStats::merged(&[]), None);
}

#[test]
fn threads_share_walks() {
    fn check<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    check::<Walks<BeginsWithA>>();
    moves::<Walk<BeginsWithA>>();
}

#[test]
fn a_temperature_is_that_of_the_model() {
    let model = model();
    let cold = |tokens: &[TokenId]| {
        let row: Vec<f64> = model.row(tokens).iter().map(|p| p * p).collect();
        let sum: f64 = row.iter().sum();
        row.into_iter().map(move |p| p / sum).collect::<Vec<_>>()
    };
    let contexts = ["", "a", "b", "aa", "ab", "aba", "aab", "aaa"].map(|text| (ids(text), cold(&ids(text))));
    let mut cold = TableModel::new(["a", "b"], vec![0.0, 0.0, 1.0], contexts).unwrap();
    let exact = ExactDistribution::enumerate(&mut cold, &BeginsWithA, &[], &[TokenId(2)], 3, 100).unwrap();
    let task = Task::without_model(3, BeginsWithA, model.vocabulary(), 3);
    let walks = Walks::new(task, WalkMode::Cars, Warp::new(0.5, None).unwrap());
    let counts = counts(&serve(&walks, 20_000, 4, &mut ChaCha8Rng::seed_from_u64(6)));
    let fit = chi_square(exact.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p)));
    assert!(fit.deviation < 4.0, "{fit:?}");
}
