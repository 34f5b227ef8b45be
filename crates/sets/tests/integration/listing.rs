//! The paper's printed search (appendix, Parallel Prefix-Verification) and its two errors.
//!
//! The listing compares a row with a candidate by the sum of the signs of all columns, which is no order of rows. And
//! once one candidate's search has moved past the end of the array, the listing reads a row that is not there. The
//! set finds the items that the listing misses.

use crate::common::{below, build, constraint, ids, rng};
use unskew_core::{Constraint, TokenId};

/// The answer of the listing for one candidate.
#[derive(Debug, PartialEq)]
enum Answer {
    Valid,
    Invalid,
    /// The listing reads row N.
    OutOfBounds,
}

/// The listing as it is printed: all candidates search until all have found their place. With `ordered`, rows are
/// compared by the first column that differs.
fn printed(rows: &[Vec<u32>], prefix: &[u32], candidates: &[u32], ordered: bool) -> Vec<Answer> {
    let columns = prefix.len() + 1;
    let target = |candidate: u32| -> Vec<u32> { [prefix, &[candidate]].concat() };
    let (mut low, mut high) = (vec![0; candidates.len()], vec![rows.len(); candidates.len()]);
    while low.iter().zip(&high).any(|(low, high)| low < high) {
        let middle: Vec<usize> = low.iter().zip(&high).map(|(low, high)| (low + high) / 2).collect();
        if middle.iter().any(|middle| *middle >= rows.len()) {
            return candidates.iter().map(|_| Answer::OutOfBounds).collect();
        }
        for (lane, candidate) in candidates.iter().enumerate() {
            let target = target(*candidate);
            let signs = rows[middle[lane]][..columns].iter().zip(&target).map(|(row, target)| {
                match target.cmp(row) {
                    std::cmp::Ordering::Less => -1,
                    std::cmp::Ordering::Equal => 0,
                    std::cmp::Ordering::Greater => 1,
                }
            });
            let sign: i32 =
                if ordered { signs.clone().find(|sign| *sign != 0).unwrap_or(0) } else { signs.sum() };
            if low[lane] < high[lane] {
                if sign > 0 { low[lane] = middle[lane] + 1 } else { high[lane] = middle[lane] }
            }
        }
    }
    let found = low.iter().zip(candidates).map(|(low, candidate)| {
        let is_prefix = rows.get(*low).is_some_and(|row| row[..columns] == target(*candidate));
        if is_prefix { Answer::Valid } else { Answer::Invalid }
    });
    found.collect()
}

#[test]
fn the_smallest_counter_example() {
    let rows = vec![vec![1, 1], vec![1, 2], vec![2, 1]];
    assert_eq!(printed(&rows, &[2], &[1], false), [Answer::Invalid]);
    assert_eq!(printed(&rows, &[2], &[1], true), [Answer::Valid]);

    let constraint = constraint(build(&rows, 5).0);
    let mut state = constraint.start();
    constraint.advance(&mut (), &mut state, TokenId(2)).unwrap();
    let mut valid = [false];
    constraint.candidates(&state, &[TokenId(1)], &mut valid);
    assert!(valid[0] && constraint.allows(&mut (), &state, TokenId(1)));
}

#[test]
fn random_rows_show_both_errors_and_the_set_has_neither() {
    let rng = &mut rng(1);
    let (mut missed, mut out_of_bounds, mut tokens) = (0, 0, 0);
    for _ in 0..2000 {
        let len = 1 + below(rng, 20);
        let mut rows: Vec<Vec<u32>> = (0..len).map(|_| (0..3).map(|_| below(rng, 5)).collect()).collect();
        rows.sort();
        rows.dedup();
        let prefix = rows[below(rng, rows.len() as u32) as usize][..2].to_vec();
        let constraint = constraint(build(&rows, 5).0);
        let mut state = constraint.start();
        prefix.iter().for_each(|token| constraint.advance(&mut (), &mut state, TokenId(*token)).unwrap());
        let candidates = [0, 1, 2, 3, 4];
        let mut valid = [false; 5];
        constraint.candidates(&state, &ids(&candidates), &mut valid);

        // A search for one candidate at a time never reads too far.
        for (candidate, valid) in candidates.iter().zip(valid) {
            let naive = rows.iter().any(|row| row.starts_with(&[&prefix[..], &[*candidate]].concat()));
            assert_eq!(valid, naive);
            assert_eq!(printed(&rows, &prefix, &[*candidate], true) == [Answer::Valid], naive);
            let answer = printed(&rows, &prefix, &[*candidate], false);
            // A candidate that the listing finds is there: the listing ends with a comparison for equality.
            assert!(naive || answer == [Answer::Invalid]);
            tokens += i32::from(naive);
            missed += i32::from(naive && answer == [Answer::Invalid]);
        }
        out_of_bounds += i32::from(printed(&rows, &prefix, &candidates, false)[0] == Answer::OutOfBounds);
    }
    assert!(missed > tokens / 5, "{missed} of {tokens}");
    assert!(out_of_bounds > 0);
}
