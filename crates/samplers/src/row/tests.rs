//! Rows against their definition: masses, draws, and the tokens that are left out.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Logits, MaskRef, TokenMask, conformance::chi_square, logprob::log_normalizer};

use super::*;
use crate::random::uniform;

#[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}

fn row() -> DenseRow {
    let logits = [0.5f64, 0.2, 0.2, 0.1].map(|p| narrow(p.ln()));
    DenseRow::of([1, 3, 4, 9].map(TokenId).into(), logits.into(), 0.0)
}

#[test]
fn tokens_that_are_left_out_are_not_drawn() {
    let row = row();
    // 7 is not in the row.
    let without = [1, 7, 9].map(TokenId);
    assert!((row.log_mass(&without).exp() - 0.4).abs() < 1e-6);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut counts = [0; 10];
    for _ in 0..4000 {
        let drawn = row.draw(&without, uniform(&mut rng)).unwrap();
        assert!((drawn.rest.unwrap().exp() - 0.2).abs() < 1e-6);
        counts[drawn.token.index()] += 1;
    }
    assert!(counts[3] + counts[4] == 4000 && (1800..2200).contains(&counts[3]), "{counts:?}");
    assert!((Row::dense(row, 0.0).entropy(f64::NEG_INFINITY).unwrap() - 1.2206).abs() < 1e-3);
}

#[test]
fn an_improbable_token_is_drawn_where_no_other_is_left() {
    let tokens = [0, 1, 2].map(TokenId);
    let row = DenseRow::of(tokens.into(), [0.0, -2000.0, -2001.0].into(), 0.0);
    let without = [TokenId(0)];
    assert!((row.log_mass(&without) + 2000.0 - (1.0 + (-1f64).exp()).ln()).abs() < 1e-9);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut counts = [0; 3];
    for _ in 0..4000 {
        let drawn = row.draw(&without, uniform(&mut rng)).unwrap();
        assert!((drawn.rest.unwrap() - if drawn.token.0 == 1 { -2001.0 } else { -2000.0 }).abs() < 1e-9);
        counts[drawn.token.index()] += 1;
    }
    assert!(counts[0] == 0 && (2800..3050).contains(&counts[1]), "{counts:?}");
    assert_eq!((row.draw(&tokens, 0.5), row.log_mass(&tokens)), (None, f64::NEG_INFINITY));
    assert_eq!(DenseRow::of([].into(), [].into(), 0.0).sum(), f64::NEG_INFINITY);
}

/// Random logits, of which one in nine is minus infinity, and a mask that leaves blocks whole, empty and in part.
fn random(seed: u64, len: usize, spread: f64) -> (Arc<Logits>, Arc<TokenMask>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut logits = Logits::new();
    for logit in logits.reset(1, len) {
        let value = narrow(f64::from(rng.next_u32()) / 4e9 * spread);
        *logit = if rng.next_u32().is_multiple_of(9) { f32::NEG_INFINITY } else { value };
    }
    let mut mask: Vec<u32> = (0..len.div_ceil(32))
        .map(|word| match word / 40 % 3 {
            0 => u32::MAX,
            1 => 0,
            _ => rng.next_u32(),
        })
        .collect();
    if !len.is_multiple_of(32) {
        mask[len / 32] &= (1 << (len % 32)) - 1;
    }
    (Arc::new(logits), Arc::new(MaskRef::new(&mask, len).to_owned()))
}

/// The same row under its mask, as a list, and by definition: the tokens with their log-probabilities.
fn three(seed: u64, len: usize, spread: f64) -> (DenseRow, DenseRow, Vec<(TokenId, f64)>) {
    let (logits, mask) = random(seed, len, spread);
    let row = logits.row(0);
    let normalizer = log_normalizer(row);
    let exact = mask.ids().map(|id| (id, f64::from(row[id.index()]) - normalizer));
    let exact = exact.filter(|(_, log_p)| *log_p > f64::NEG_INFINITY).collect();
    let listed = DenseRow::listed(row, mask.ids().collect());
    (DenseRow::under(&logits, 0, mask), listed, exact)
}

fn mass(exact: &[(TokenId, f64)], without: &[TokenId]) -> f64 {
    let rest = exact.iter().filter(|(token, _)| without.binary_search(token).is_err());
    log_sum_exp(rest.map(|(_, log_p)| *log_p).collect::<Vec<_>>())
}

#[test]
fn the_most_probable_tokens_are_those_of_a_sorted_list() {
    // By spread: no ties; many ties; nearly all tokens tie, so that more than a block of them are candidates.
    for (seed, len, spread) in [
        (1, 100_000, 12.0),
        (2, 100_000, 60.0),
        (3, 30_000, 1e-7),
        (4, 9_001, 1e-6),
        (5, 700, 30.0),
        (6, 31, 800.0),
    ] {
        let (under, listed, mut exact) = three(seed, len, spread);
        exact.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        for (most, least_ratio) in [(32, -9.0), (1, -9.0), (0, -9.0), (32, -0.1), (700, -1e9)] {
            let least = exact[0].1 + least_ratio;
            let wanted = exact.iter().take(most).filter(|(_, log_p)| *log_p >= least);
            let mut wanted: Vec<TokenId> = wanted.map(|(token, _)| *token).collect();
            wanted.sort_unstable();
            for row in [&under, &listed] {
                let found = row.most_probable(most, least_ratio);
                assert!(found.iter().all(|(token, log_p)| row.of_token(*token) == *log_p));
                let found: Vec<TokenId> = found.into_iter().map(|(token, _)| token).collect();
                assert_eq!(found, wanted, "{len} tokens, {most} of them to {least_ratio}");
            }
        }
    }
}

#[test]
fn rows_of_all_lengths_are_as_by_definition() {
    for (seed, len, spread) in [
        (1, 9_001, 3.0),
        (2, 9_001, 12.0),
        (3, 9_001, 60.0),
        (4, 9_001, 600.0),
        (5, 700, 30.0),
        (6, 31, 800.0),
    ] {
        let (under, listed, exact) = three(seed, len, spread);
        let mut detached = under.clone();
        detached.detach();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut best: Option<(TokenId, f64)> = None;
        for (token, log_p) in &exact {
            if best.is_none_or(|(_, greatest)| *log_p > greatest) {
                best = Some((*token, *log_p));
            }
        }
        let mut without: Vec<TokenId> = Vec::new();
        // Leaves out the most probable tokens too, until next to no mass is left.
        for round in 0..exact.len().min(40) {
            for row in [&under, &listed, &detached] {
                assert_eq!(row.best().unwrap().0, best.unwrap().0);
                let left = mass(&exact, &without);
                assert!((row.log_mass(&without) - left).abs() < 1e-5, "{} {left}", row.log_mass(&without));
                for (token, log_p) in row.list().into_iter().step_by(97) {
                    let index = exact.binary_search_by_key(&token, |(token, _)| *token).unwrap();
                    assert!((log_p - exact[index].1).abs() < 1e-6 && row.of_token(token) == log_p);
                }
            }
            let number = uniform(&mut rng);
            let Some(drawn) = under.draw(&without, number) else { break };
            assert_eq!(detached.draw(&without, number), Some(drawn));
            assert!(!without.contains(&drawn.token));
            let more = match round % 2 {
                0 => drawn.token,
                _ => TokenId::from_index(rng.next_u32() as usize % (len + 99)),
            };
            if let Err(at) = without.binary_search(&more) {
                without.insert(at, more);
            }
            if more == drawn.token {
                let (rest, found) = (mass(&exact, &without), drawn.rest.unwrap());
                assert!((rest - found).abs() < 1e-5 || rest == found, "{rest} {found}");
            }
            if round % 7 == 6 {
                without.remove(round % without.len());
            }
        }
    }
}

/// Draws tokens by blocks, with some left out, and compares their frequencies with their probabilities.
#[test]
fn draws_by_blocks_follow_the_probabilities() {
    #[cfg(debug_assertions)]
    const DRAWS: u32 = 40_000;
    #[cfg(not(debug_assertions))]
    const DRAWS: u32 = 1_000_000;
    for (seed, spread, left_out) in [(1, 2.0, 0), (2, 9.0, 5), (3, 25.0, 30)] {
        let (row, _, exact) = three(seed, 8_500, spread);
        // Leaves out the most probable tokens.
        let mut order = exact.clone();
        order.sort_by(|left, right| right.1.total_cmp(&left.1));
        let mut without: Vec<TokenId> = order[..left_out].iter().map(|(token, _)| *token).collect();
        without.sort_unstable();
        let mass = mass(&exact, &without);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut counts = vec![0u64; 8_500];
        for _ in 0..DRAWS {
            counts[row.draw(&without, uniform(&mut rng)).unwrap().token.index()] += 1;
        }
        assert!(without.iter().all(|token| counts[token.index()] == 0));
        let cells =
            order[left_out..].iter().map(|(token, log_p)| (counts[token.index()], (log_p - mass).exp()));
        let fit = chi_square(cells);
        assert!(fit.deviation < 4.0, "{fit:?}");
    }
}

/// A row elsewhere answers as the same row in host memory does.
#[test]
fn a_row_elsewhere_is_the_row_here() {
    let (here, mask) = random(8, 300, 5.0);
    let mut there = Logits::new();
    let mut copy = Logits::new();
    copy.reset(1, 300).copy_from_slice(here.row(0));
    there.place(Box::new(copy));
    let dense = Row::dense(DenseRow::under(&here, 0, Arc::clone(&mask)), -3.0);
    let elsewhere = Row::elsewhere(Elsewhere::new(&Arc::new(there), 0, mask, dense.sum()), -3.0);
    let near = |left: f64, right: f64| (left - right).abs() < 1e-6;
    let without: Vec<TokenId> = (3..60).map(TokenId).collect();
    assert!(near(dense.log_mass(&without).unwrap(), elsewhere.log_mass(&without).unwrap()));
    let (list, other) = (dense.list().unwrap(), elsewhere.list().unwrap());
    assert!(list.iter().zip(&other).all(|(left, right)| left.0 == right.0 && near(left.1, right.1)));
    assert_eq!(dense.best().unwrap().unwrap().0, elsewhere.best().unwrap().unwrap().0);
    for uniform in [0.0, 0.2, 0.7, 0.999] {
        let drawn = elsewhere.draw(&without, uniform).unwrap().unwrap();
        assert!(near(drawn.log_p, dense.of_token(drawn.token).unwrap()));
        assert!(near(drawn.log_p, elsewhere.of_token(drawn.token).unwrap()));
        assert_eq!(dense.draw(&without, uniform).unwrap().unwrap().token, drawn.token);
    }
    assert!(near(dense.entropy(-2.0).unwrap(), elsewhere.entropy(-2.0).unwrap()));
}
