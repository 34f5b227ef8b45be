//! The tools of several tests: random sets, and the slow oracle, which has no columns.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::{collections::BTreeSet, sync::Arc};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_sets::{ItemSet, SetBuilder, SetConstraint};

/// A set of token sequences, as the definition has it.
pub(crate) type Naive = BTreeSet<Vec<u32>>;

/// The tokens that may follow `prefix`.
pub(crate) fn followers(items: &Naive, prefix: &[u32]) -> BTreeSet<u32> {
    // A `BTreeSet` of sequences orders a prefix in front of the items that it begins.
    let longer = items.range(prefix.to_vec()..).take_while(|item| item.starts_with(prefix));
    let longer = longer.filter(|item| item.len() > prefix.len());
    longer.map(|item| item[prefix.len()]).collect()
}

pub(crate) fn ids(tokens: &[u32]) -> Vec<TokenId> {
    tokens.iter().copied().map(TokenId).collect()
}

pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub(crate) fn below(rng: &mut ChaCha8Rng, limit: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(limit)) >> 32) as u32
}

/// The form of a random set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) vocab_len: u32,
    pub(crate) items: u32,
    /// The most tokens of an item.
    pub(crate) longest: u32,
    /// The number of different ids, half from the beginning and half from the end of the vocabulary.
    pub(crate) distinct: u32,
    pub(crate) with_empty: bool,
}

/// Random items; many begin with others or equal others.
pub(crate) fn random_items(kind: Kind, rng: &mut ChaCha8Rng) -> Vec<Vec<u32>> {
    let mut items: Vec<Vec<u32>> = Vec::new();
    for _ in 0..kind.items {
        let mut item = match items.len() {
            0 => Vec::new(),
            // The beginning of an earlier item, a whole one, or nothing.
            len => {
                let other = &items[below(rng, len as u32) as usize];
                let keep = match below(rng, 4) {
                    0 => 0,
                    1 => other.len(),
                    _ => below(rng, other.len() as u32 + 1) as usize,
                };
                other[..keep].to_vec()
            }
        };
        let more = below(rng, 1 + kind.longest.saturating_sub(item.len() as u32));
        for _ in 0..more {
            // Few of the ids are frequent.
            let id = below(rng, kind.distinct).min(below(rng, kind.distinct));
            item.push(if id.is_multiple_of(2) { id / 2 } else { kind.vocab_len - 1 - id / 2 });
        }
        if !item.is_empty() || kind.with_empty {
            items.push(item);
        }
    }
    items
}

pub(crate) fn build(items: &[Vec<u32>], vocab_len: u32) -> (ItemSet, Naive) {
    let mut builder = SetBuilder::new(vocab_len as usize);
    items.iter().for_each(|item| builder.push(&ids(item)).unwrap());
    let (set, report) = builder.build().unwrap();
    let naive: Naive = items.iter().cloned().collect();
    assert_eq!(report.items, naive.len() as u64);
    assert_eq!(report.duplicates, (items.len() - naive.len()) as u64);
    (set, naive)
}

/// Compares a constraint with the items, prefix by prefix, for at most `prefixes` prefixes.
pub(crate) fn compare(constraint: &SetConstraint, items: &Naive, prefixes: usize, rng: &mut ChaCha8Rng) {
    let all: BTreeSet<&[u32]> =
        items.iter().flat_map(|item| (0..=item.len()).map(|end| &item[..end])).collect();
    let all: Vec<&[u32]> = all.into_iter().collect();
    for index in 0..prefixes.min(all.len()) {
        // All of them where there are few.
        let prefix =
            if all.len() <= prefixes { all[index] } else { all[below(rng, all.len() as u32) as usize] };
        compare_with(constraint, items, prefix, rng);
    }
}

/// Compares a constraint with the items after one prefix.
pub(crate) fn compare_at(constraint: &SetConstraint, items: &Naive, prefix: &[u32]) {
    if items.range(prefix.to_vec()..).next().is_some_and(|item| item.starts_with(prefix)) {
        compare_with(constraint, items, prefix, &mut rng(0));
    }
}

fn compare_with(constraint: &SetConstraint, items: &Naive, prefix: &[u32], rng: &mut ChaCha8Rng) {
    let mut state = constraint.start();
    for token in prefix {
        constraint.advance(&mut (), &mut state, TokenId(*token)).unwrap();
    }
    let expected = followers(items, prefix);
    let mut mask = TokenMask::new(constraint.vocab_len());
    mask.as_mut().fill();
    constraint.fill_mask(&mut (), &state, mask.as_mut());
    assert_eq!(mask.ids().map(u32::from).collect::<BTreeSet<_>>(), expected, "after {prefix:?}");
    assert_eq!(constraint.is_accepting(&state), items.contains(prefix), "after {prefix:?}");

    // Candidates: some that may follow and some that may not.
    let mut candidates: Vec<u32> = expected.iter().copied().take(20).collect();
    let vocab_len = constraint.vocab_len() as u32;
    candidates.extend((0..20).map(|_| below(rng, vocab_len)));
    candidates.extend([0, vocab_len - 1, vocab_len, u32::MAX]);
    let mut valid = vec![false; candidates.len()];
    constraint.candidates(&state, &ids(&candidates), &mut valid);
    for (token, valid) in candidates.iter().zip(&valid) {
        assert_eq!(*valid, expected.contains(token), "{token} after {prefix:?}");
        assert_eq!(constraint.allows(&mut (), &state, TokenId(*token)), *valid);
    }
}

pub(crate) fn constraint(set: ItemSet) -> SetConstraint {
    let vocab_len = set.vocab_len();
    SetConstraint::new(Arc::new(set), vocab_len).unwrap()
}
