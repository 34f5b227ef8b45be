//! The references against the definition of what they compute: a set is a set of sequences, and a softmax a sum.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unskew_shaders::{
    Interval, LOWEST, NONE, SetArrays, interval_mask, interval_step, masked_softmax_mass, ppv, top_m,
};

const VOCAB: u32 = 70;

/// Items as they come, with many that begin with others.
fn items() -> impl Strategy<Value = BTreeSet<Vec<u32>>> {
    let token = prop_oneof![0u32..4, 0u32..VOCAB];
    prop::collection::btree_set(prop::collection::vec(token, 0..5), 0..700)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn intervals_are_prefixes(items in items(), width_log in 0u32..3, picks in prop::collection::vec(any::<prop::sample::Index>(), 8)) {
        let rows: Vec<&[u32]> = items.iter().map(Vec::as_slice).collect();
        let set = SetArrays::from_sorted(&rows, width_log);
        let root = set.root(u32::from(items.contains(&Vec::new())));
        // Walks along items and beside them.
        for pick in picks {
            let Some(item) = rows.get(pick.index(rows.len().max(1))) else { continue };
            let path: Vec<u32> = item.iter().copied().chain([1, 69]).collect();
            let mut interval = [root];
            for end in 0..=path.len() {
                let prefix = &path[..end];
                let begins = |item: &&&[u32]| item.starts_with(prefix);
                let with_prefix = rows.iter().filter(begins).count();
                let interval_now = interval[0];
                prop_assert_eq!(interval_now.valid == 1, with_prefix > 0 || end == 0);
                let followers: BTreeSet<u32> =
                    rows.iter().filter(begins).filter_map(|item| item.get(end).copied()).collect();
                if interval_now.valid == 1 {
                    prop_assert_eq!((interval_now.hi - interval_now.lo + interval_now.ends) as usize, with_prefix);
                    prop_assert_eq!(interval_now.ends == 1, items.contains(prefix));
                    let first = rows.iter().position(|item| item.starts_with(prefix));
                    prop_assert_eq!(interval_now.first_item as usize, first.unwrap_or(0));
                    prop_assert_eq!(interval_now.depth as usize, end);
                }
                let candidates: Vec<u32> = (0..VOCAB).collect();
                let mut valid = vec![7; candidates.len()];
                ppv(&set, &candidates, &interval, &mut valid);
                let mut mask = vec![u32::MAX; 3];
                interval_mask(&set, 3, &interval, &mut mask);
                for token in 0..96 {
                    let bit = mask[token as usize / 32] >> (token % 32) & 1;
                    let expected = u32::from(followers.contains(&token));
                    prop_assert_eq!(bit, expected);
                    if token < VOCAB {
                        prop_assert_eq!(valid[token as usize], expected);
                    }
                }
                if let Some(token) = path.get(end) {
                    interval_step(&set, &[*token], &mut interval);
                }
            }
        }
    }

    #[test]
    fn masses_are_sums(logits in prop::collection::vec(-30f32..30.0, 1..80), mask in prop::collection::vec(any::<u32>(), 3)) {
        let mass = masked_softmax_mass(&logits, &mask);
        let sum = |of: &dyn Fn(usize) -> bool| -> f64 {
            (0..).zip(&logits).filter(|(token, _)| of(*token)).map(|(_, logit)| f64::from(*logit).exp()).sum()
        };
        let (all, allowed) = (sum(&|_| true), sum(&|token| mask[token / 32] >> (token % 32) & 1 == 1));
        prop_assert!((f64::from(mass.log_sum) - all.ln()).abs() < 1e-4);
        if allowed > 0.0 {
            prop_assert!((f64::from(mass.log_mass) - (allowed / all).ln()).abs() < 1e-4);
        } else {
            prop_assert_eq!((mass.log_mass, mass.log_sum_allowed), (LOWEST, LOWEST));
        }
    }

    #[test]
    fn tops_are_those_of_a_sort(logits in prop::collection::vec(-3i8..3, 0..60), m in 0usize..70) {
        let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // A stable sort: equal ones stay in the order of ids.
        order.sort_by(|one, other| logits[*other].partial_cmp(&logits[*one]).unwrap());
        let mut expected: Vec<u32> = order.into_iter().map(|id| id as u32).collect();
        expected.resize(expected.len().max(m), NONE);
        prop_assert_eq!(top_m(&logits, m), &expected[..m]);
    }
}

#[test]
fn odd_logits_have_their_place() {
    let logits = [f32::NAN, -0.0, 0.0, f32::NEG_INFINITY, f32::INFINITY, -1.0, 1.0];
    assert_eq!(top_m(&logits, 8), [4, 6, 2, 1, 5, 3, 0, NONE]);
    let mass = masked_softmax_mass(&[f32::NEG_INFINITY, 1.0], &[1]);
    assert_eq!((mass.largest, mass.log_sum, mass.log_mass), (1.0, 1.0, LOWEST));
}

#[test]
fn what_was_refused_stays_refused() {
    let set = SetArrays::from_sorted(&[&[1, 2]], 0);
    let mut interval = [set.root(0)];
    for token in [1, 1, 2] {
        interval_step(&set, &[token], &mut interval);
    }
    assert_eq!(interval[0].valid, 0);
    let words = interval[0].to_words();
    assert_eq!(Interval::from_words(words), interval[0]);
    let mut valid = [9];
    ppv(&set, &[2], &interval, &mut valid);
    assert_eq!(valid, [0]);
}
