//! The references against their definitions: a set is a set of sequences, and a softmax is a sum.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unskew_shaders::{BROKEN, END, Interval, LOWEST, NONE, Pick, SetArrays, masked_choice, ppv};

const VOCAB: u32 = 70;

/// Random items; many begin with others.
fn items() -> impl Strategy<Value = BTreeSet<Vec<u32>>> {
    let token = prop_oneof![0u32..4, 0u32..VOCAB];
    prop::collection::btree_set(prop::collection::vec(token, 0..5), 0..700)
}

/// The token at `depth` of each item that has one.
fn column<'a>(rows: &'a [&[u32]], depth: usize) -> impl Iterator<Item = u32> + 'a {
    rows.iter().filter_map(move |item| item.get(depth).copied())
}

/// The arrays of sorted items.
fn arrays(rows: &[&[u32]], width_log: u32) -> SetArrays {
    let in_word = 4 >> width_log;
    let mut arrays = SetArrays { width_log, ..SetArrays::default() };
    for depth in 0..rows.iter().map(|item| item.len()).max().unwrap_or(0) {
        arrays.columns.push((arrays.cells.len() * in_word) as u32);
        for tokens in column(rows, depth).collect::<Vec<_>>().chunks(in_word) {
            let word =
                tokens.iter().rev().fold(0u64, |word, token| word << (8 << width_log) | u64::from(*token));
            arrays.cells.push(word as u32);
        }
    }
    arrays
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn candidates_are_followers(items in items(), width_log in 0u32..3, picks in prop::collection::vec(any::<prop::sample::Index>(), 8)) {
        let rows: Vec<&[u32]> = items.iter().map(Vec::as_slice).collect();
        let set = arrays(&rows, width_log);
        let candidates: Vec<u32> = (0..VOCAB).collect();
        // Sequences along items and sequences that leave them.
        for pick in picks {
            let Some(item) = rows.get(pick.index(rows.len().max(1))) else { continue };
            let path: Vec<u32> = item.iter().copied().chain([1, 69]).collect();
            for depth in 0..=path.len() {
                let prefix = &path[..depth];
                let longer: Vec<&[u32]> = rows.iter().copied().filter(|item| item.len() > depth).collect();
                let lo = longer.partition_point(|item| item[..depth] < *prefix) as u32;
                let hi = longer.partition_point(|item| item[..depth] <= *prefix) as u32;
                let followers: BTreeSet<u32> =
                    longer.iter().filter(|item| item.starts_with(prefix)).map(|item| item[depth]).collect();
                let mut valid = vec![7; candidates.len()];
                ppv(&set, &candidates, &[Interval { depth: depth as u32, lo, hi }], &mut valid);
                for (token, valid) in candidates.iter().zip(valid) {
                    prop_assert_eq!(valid, u32::from(followers.contains(token)));
                }
            }
        }
    }

    #[test]
    fn choices_are_those_of_a_table(
        logits in prop::collection::vec(prop_oneof![9 => -9f32..9.0, 1 => Just(f32::NEG_INFINITY)], 1..300),
        mask in prop::collection::vec(any::<u32>(), 0..11),
        ends in prop::collection::btree_set(0u32..400, 0..4),
        may_end: bool,
        scale in 0.2f32..3.0,
        number: u32,
    ) {
        let weight = |id: usize| (f64::from(logits[id]) * f64::from(scale)).exp();
        let end_ids: Vec<u32> = ends.iter().copied().collect();
        let end: f64 = ends.iter().filter(|id| (**id as usize) < logits.len()).map(|id| weight(*id as usize)).sum();
        let is_in = |id: usize| mask.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let ids: Vec<usize> = (0..logits.len()).filter(|id| is_in(*id) && weight(*id) > 0.0).collect();
        let all: f64 = (0..logits.len()).map(weight).sum();
        let best = ids.iter().copied().max_by(|one, other| {
            weight(*one).total_cmp(&weight(*other)).then(other.cmp(one))
        });
        let end = if may_end { end } else { 0.0 };
        let total = end + ids.iter().map(|id| weight(*id)).sum::<f64>();
        let of = |pick| masked_choice(&logits, &mask, may_end, &end_ids, scale, pick);
        let (greedy, random) = (of(Pick::Greedy), of(Pick::Random(number)));
        if all <= 0.0 {
            prop_assert_eq!((greedy.token, random.token), (BROKEN, BROKEN));
            return Ok(());
        }
        if total <= 0.0 {
            prop_assert_eq!((greedy.token, random.token, random.log_tokens), (NONE, NONE, LOWEST));
            return Ok(());
        }
        let best = best.filter(|id| weight(*id) > end);
        prop_assert_eq!(greedy.token, best.map_or(END, |id| id as u32));
        let mut left = f64::from(number >> 8) / 2f64.powi(24) * total;
        let mut events = vec![(END, end)];
        events.extend(ids.iter().map(|id| (*id as u32, weight(*id))));
        let drawn = events.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        // The kernel and the definition may round to different sides of a border.
        if left < -1e-9 * total {
            prop_assert_eq!(random.token, drawn.unwrap().0);
        }
        for choice in [greedy, random] {
            let weight = events.iter().find(|(token, _)| *token == choice.token).unwrap().1;
            prop_assert!((f64::from(choice.logit) - weight.ln()).abs() < 1e-4);
            prop_assert!((f64::from(choice.log_sum) - all.ln()).abs() < 1e-4);
            for (log, sum) in [(choice.log_end, end), (choice.log_tokens, total - end)] {
                // A difference of sums has its own rounding.
                prop_assert!(sum < 1e-9 * total || (f64::from(log) - sum.ln()).abs() < 1e-4);
            }
        }
    }
}
