//! Random sets against the definition of a set: masks, candidates, acceptance, order, and the contract of a constraint.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Kind, Naive, below, build, compare, compare_at, constraint, ids, random_items, rng};
use unskew_core::{Constraint, TokenId, Vocabulary, conformance};
use unskew_sets::{Delta, ExclusionConstraint, ItemSet, SetBuilder, SetConstraint, SetError, Subset};

/// All widths of tokens at their edges; few and many items; short rows and rows of 300.
fn kinds() -> impl Iterator<Item = Kind> {
    let vocab_lens = [1, 2, 7, 255, 256, 257, 65_535, 65_536, 65_537, 128_256];
    let shapes =
        [(1, 5, 2), (3, 1, 3), (30, 6, 4), (300, 4, 60), (2000, 9, 12), (40, 300, 3), (1500, 3, 200)];
    vocab_lens.into_iter().flat_map(move |vocab_len| {
        shapes.into_iter().flat_map(move |(items, longest, distinct)| {
            let distinct = std::cmp::min(distinct, vocab_len);
            [false, true].map(|with_empty| Kind { vocab_len, items, longest, distinct, with_empty })
        })
    })
}

#[test]
fn random_sets_are_what_they_hold() {
    for (seed, kind) in (0..).zip(kinds()) {
        let rng = &mut rng(seed);
        let items = random_items(kind, rng);
        let (set, naive) = build(&items, kind.vocab_len);
        assert_eq!(set.len(), naive.len());
        assert_eq!(set.longest(), naive.iter().map(Vec::len).max().unwrap_or(0));
        assert_eq!(set.tokens(), naive.iter().map(|item| item.len() as u64).sum::<u64>());
        // The order, and each item by its place.
        assert!(set.items().eq(naive.iter().map(|item| ids(item))), "{kind:?}");
        for (place, item) in (0..).zip(&naive) {
            if place % 7 == 0 {
                assert_eq!(set.item(place), Some(ids(item)), "{kind:?}");
                assert_eq!(set.find(&ids(item)), Some(place));
            }
        }
        assert_eq!(set.item(naive.len() as u32), None);
        set.verify().unwrap();
        if naive.is_empty() {
            let error = SetConstraint::new(Arc::new(set), kind.vocab_len as usize).unwrap_err();
            assert!(matches!(error, SetError::Empty));
            continue;
        }
        compare(&constraint(set), &naive, 60, rng);
    }
}

#[test]
fn constraints_keep_their_contract() {
    for (seed, vocab_len) in (0..).zip([1, 2, 33, 64, 300]) {
        for (items, longest) in [(1, 3), (8, 4), (60, 5), (60, 2)] {
            let rng = &mut rng(seed);
            let kind =
                Kind { vocab_len, items, longest, distinct: vocab_len.min(40), with_empty: seed % 2 == 0 };
            let (set, naive) = build(&random_items(kind, rng), vocab_len);
            if naive.is_empty() {
                continue;
            }
            conformance::check_constraint(&constraint(set.clone()), 3).unwrap();
            // Masks that are longer than the set's vocabulary.
            let set = Arc::new(set);
            conformance::check_constraint(&SetConstraint::new(Arc::clone(&set), 350).unwrap(), 2).unwrap();
            let error = SetConstraint::new(Arc::clone(&set), vocab_len as usize - 1).unwrap_err();
            assert!(matches!(error, SetError::Masks { .. }));

            let some = (0..set.len() as u32).filter(|_| below(rng, 3) == 0);
            let subset = Arc::new(Subset::from_places(set.len(), some.chain([0])));
            conformance::check_constraint(
                &SetConstraint::with_subset(set, subset, vocab_len as usize).unwrap(),
                3,
            )
            .unwrap();
        }
    }
}

#[test]
fn a_position_is_a_few_numbers() {
    assert_eq!(size_of::<unskew_sets::SetState>(), 48);
}

#[test]
fn forced_tokens_are_the_only_ones() {
    let (set, _) = build(&[vec![4, 4, 4], vec![4, 4, 7], vec![4, 4]], 8);
    let constraint = constraint(set);
    let mut state = constraint.start();
    for forced in [Some(TokenId(4)), Some(TokenId(4)), None] {
        assert_eq!(constraint.forced(&mut (), &state), forced);
        if let Some(token) = forced {
            constraint.advance(&mut (), &mut state, token).unwrap();
        }
    }
    assert!(constraint.is_accepting(&state));
}

#[test]
fn subsets_are_sets_of_their_items() {
    for (seed, kind) in (100..).zip(kinds().step_by(3)) {
        let rng = &mut rng(seed);
        let (set, naive) = build(&random_items(kind, rng), kind.vocab_len);
        let set = Arc::new(set);
        for one_in in [1, 2, 10, 200] {
            let kept: Vec<u32> = (0..set.len() as u32).filter(|_| below(rng, one_in) == 0).collect();
            let subset = Arc::new(Subset::from_places(set.len(), kept.iter().copied()));
            let of_subset = SetConstraint::with_subset(Arc::clone(&set), subset, kind.vocab_len as usize);
            let naive: Vec<&Vec<u32>> = naive.iter().collect();
            let naive: Naive = kept.iter().map(|place| naive[*place as usize].clone()).collect();
            match of_subset {
                Ok(constraint) => compare(&constraint, &naive, 40, rng),
                Err(error) => assert!(matches!(error, SetError::Empty) && naive.is_empty()),
            }
        }
    }
}

#[test]
fn deltas_are_edits_of_the_set() {
    for (seed, kind) in (200..).zip(kinds().step_by(3)) {
        let rng = &mut rng(seed);
        let (set, mut naive) = build(&random_items(kind, rng), kind.vocab_len);
        let set = Arc::new(set);
        let mut delta = Delta::new(&set);
        let mut others = random_items(Kind { items: 30, ..kind }, rng);
        others.extend(naive.iter().filter(|item| item.len() % 2 == 1).take(30).cloned());
        for item in &others {
            let (tokens, add) = (ids(item), below(rng, 2) == 0);
            if add {
                assert_eq!(delta.add(&set, &tokens).unwrap(), naive.insert(item.clone()));
            } else {
                assert_eq!(delta.remove(&set, &tokens).unwrap(), naive.remove(item));
            }
        }
        let read = Delta::from_bytes(&delta.to_bytes(), &set).unwrap();
        assert_eq!(read, delta);
        let compact = delta.compact(&set).unwrap();
        assert!(compact.items().eq(naive.iter().map(|item| ids(item))));
        compact.verify().unwrap();
        match SetConstraint::with_delta(Arc::clone(&set), &delta, kind.vocab_len as usize) {
            Ok(constraint) => {
                compare(&constraint, &naive, 40, rng);
                if kind.vocab_len < 300 {
                    conformance::check_constraint(&constraint, 2).unwrap();
                }
            }
            Err(error) => assert!(matches!(error, SetError::Empty) && naive.is_empty()),
        }
        // A delta of another set is refused.
        if compact.as_bytes() != set.as_bytes() {
            let other = |error| matches!(error, SetError::OtherSet { .. });
            assert!(delta.compact(&compact).is_err_and(other));
            assert!(
                delta.remove(&compact, &[]).is_err_and(other) && delta.add(&compact, &[]).is_err_and(other)
            );
        }
    }
}

#[test]
fn a_batch_of_candidates_is_its_rows() {
    let (set, _) = build(&[vec![1, 2], vec![1, 3], vec![5]], 8);
    let constraint = constraint(set);
    let mut second = constraint.start();
    constraint.advance(&mut (), &mut second, TokenId(1)).unwrap();
    let mut valid = [false; 6];
    constraint.candidate_batch(&[constraint.start(), second], &ids(&[1, 2, 3, 1, 2, 3]), &mut valid);
    assert_eq!(valid, [true, false, false, false, true, true]);

    // More rows than are read ahead together.
    let states: Vec<_> = (0..200).map(|row| if row % 3 == 0 { second } else { constraint.start() }).collect();
    let candidates: Vec<TokenId> = (0..200 * 3).map(|at| TokenId(at * 7 % 8)).collect();
    let mut valid = vec![false; candidates.len()];
    constraint.candidate_batch(&states, &candidates, &mut valid);
    for (at, (token, valid)) in candidates.iter().zip(valid).enumerate() {
        assert_eq!(valid, constraint.allows(&mut (), &states[at / 3], *token));
    }
}

/// All texts over a small vocabulary against the definition: every spelling of an item is excluded, and no other text.
#[test]
fn excluded_are_the_texts_of_items_alone() {
    let mut builder = Vocabulary::builder();
    for text in ["a", "b", "ab", "ba", "é", ""] {
        builder.text(text.as_bytes());
    }
    let (end, [first, second]) = (builder.control("<end>"), [0xc3, 0xa9].map(|byte| builder.text(&[byte])));
    builder.unused();
    let vocabulary = Arc::new(builder.build().unwrap());
    for items in [&["ab", "aba", "é"][..], &["", "b"], &[], &["a", "aa", "aaa", "bbbb", "aé"]] {
        let constraint = ExclusionConstraint::new(items, Arc::clone(&vocabulary)).unwrap();
        conformance::check_constraint(&constraint, 3).unwrap();
        let texts: Vec<TokenId> = [0, 1, 2, 3, 4, first.0, second.0].map(TokenId).to_vec();
        let mut sequences = vec![Vec::new()];
        for _ in 0..4 {
            let longer = sequences.iter().flat_map(|sequence: &Vec<TokenId>| {
                texts.iter().map(move |token| [&sequence[..], &[*token]].concat())
            });
            let longer: Vec<_> = longer.collect();
            sequences.extend(longer);
        }
        let items: BTreeSet<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        for sequence in sequences {
            let mut state = constraint.start();
            for token in &sequence {
                constraint.advance(&mut (), &mut state, *token).unwrap();
            }
            let text = vocabulary.decode(&sequence);
            assert_eq!(constraint.is_accepting(&state), !items.contains(&text[..]), "{sequence:?}");
        }
        assert!(constraint.advance(&mut (), &mut constraint.start(), end).is_err());
    }
    let empty = Arc::new(Vocabulary::builder().build().unwrap());
    assert!(matches!(ExclusionConstraint::new([""], empty), Err(SetError::NothingLeft)));
}

/// Prefixes of one and two tokens with many items, on both sides of every limit: their followers are stored as bits,
/// as a list, or not at all.
#[test]
fn what_follows_wide_prefixes_is_what_follows() {
    for vocab_len in [60, 256, 10_000, 40_000, 70_000, 70_001, 70_016] {
        let mut items: Vec<Vec<u32>> = Vec::new();
        let mut add = |prefix: &[u32], rows: u32, distinct: u32| {
            let last = vocab_len - 1;
            let item = |at: u32| {
                // Ids from both ends of the vocabulary by turns.
                let follower = at % distinct.min(vocab_len);
                let follower = if at.is_multiple_of(2) { follower } else { last - follower };
                [prefix, &[follower, at / vocab_len % vocab_len, at % vocab_len]].concat()
            };
            items.extend((0..rows).map(item));
        };
        for (first, (rows, distinct)) in (3..).zip([
            (255, 3),
            (256, 3),
            (257, 3),
            (256, 128),
            (256, 129),
            (1000, 499),
            (1000, 501),
            (4000, 300),
            (4000, 4000),
            (6000, 2500),
        ]) {
            add(&[first], rows, distinct);
            add(&[2, first], rows, distinct);
            add(&[2, first + 20, 7], rows, distinct);
        }
        // Prefixes that are items themselves, and one without longer items.
        items.extend([vec![3], vec![2, 4], vec![2], vec![2, 4, 0], vec![0], vec![2, vocab_len - 1]]);
        let (set, naive) = build(&items, vocab_len);
        set.verify().unwrap();
        let set = Arc::new(set);
        // Masks that end with the vocabulary, inside of a word, and after it.
        for longer in [0, 1, 31, 64] {
            let constraint = SetConstraint::new(Arc::clone(&set), vocab_len as usize + longer).unwrap();
            compare(&constraint, &naive, 60, &mut rng(longer as u64));
            for first in (2..13).chain([0]) {
                for prefix in [vec![first], vec![2, first]] {
                    compare_at(&constraint, &naive, &prefix);
                }
            }
        }
    }
}

#[test]
fn tokens_that_do_not_belong_are_refused_with_their_item() {
    let mut builder = SetBuilder::new(5);
    builder.push(&ids(&[4])).unwrap();
    let error = builder.push(&ids(&[0, 5])).unwrap_err();
    assert_eq!(error.to_string(), "item 2: token 5 is none of the vocabulary's 5 ids");
    let long = vec![TokenId(0); 4097];
    assert!(matches!(builder.push(&long), Err(SetError::TooLong { line: 3, tokens: 4097, limit: 4096 })));

    let mut vocabulary = Vocabulary::builder();
    let (text, control) = (vocabulary.text(b"a"), vocabulary.control("<end>"));
    let (empty, unused) = (vocabulary.text(b""), vocabulary.unused());
    let vocabulary = Arc::new(vocabulary.build().unwrap());
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary));
    builder.push(&[text]).unwrap();
    for token in [control, empty] {
        assert!(matches!(builder.push(&[text, token]), Err(SetError::NotText { .. })));
    }
    assert!(matches!(builder.push(&[unused]), Err(SetError::NoSuchToken { .. })));
    let (set, _) = builder.build().unwrap();
    let set = Arc::new(set);
    let mut delta = Delta::new(&set).for_vocabulary(&set, vocabulary).unwrap();
    assert!(matches!(delta.add(&set, &[control]), Err(SetError::NotText { .. })));
    let _: &ItemSet = &set;
}
