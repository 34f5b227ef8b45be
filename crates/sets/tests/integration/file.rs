//! Sets as files: damage is refused or found by `verify`, and no content of a file makes a panic.

use std::{path::Path, sync::Arc};

use crate::common::{Kind, below, build, compare, ids, random_items, rng};
use twox_hash::XxHash3_64;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_sets::{Delta, ItemSet, SetBuilder, SetConstraint, SetFileError, SetStore, Subset};

fn example(vocab_len: u32) -> ItemSet {
    let kind = Kind { vocab_len, items: 400, longest: 6, distinct: vocab_len.min(9), with_empty: true };
    build(&random_items(kind, &mut rng(7)), vocab_len).0
}

/// A set with prefixes whose followers are stored, as bits and as a list.
fn wide_example(vocab_len: u32) -> ItemSet {
    let items: Vec<Vec<u32>> = (0..3000u32)
        .map(|at| vec![at % 2, if at % 4 < 2 { at % 7 } else { at % vocab_len }, at % 5, at % vocab_len])
        .collect();
    build(&items, vocab_len).0
}

#[test]
fn a_file_is_the_set() {
    let folder = tempfile::tempdir().unwrap();
    for vocab_len in [9, 1000, 100_000] {
        let kind = Kind { vocab_len, items: 900, longest: 9, distinct: 9, with_empty: false };
        let (set, naive) = build(&random_items(kind, &mut rng(3)), vocab_len);
        let path = folder.path().join("set");
        set.save(&path).unwrap();
        let mapped = ItemSet::open_any(&path).unwrap();
        mapped.verify().unwrap();
        let constraint = SetConstraint::new(Arc::new(mapped), vocab_len as usize).unwrap();
        compare(&constraint, &naive, 100, &mut rng(1));
        // A set that is replaced while it is open keeps its content.
        example(vocab_len).save(&path).unwrap();
        compare(&constraint, &naive, 100, &mut rng(1));
    }
}

#[test]
fn no_cut_and_no_flipped_bit_goes_unseen() {
    for vocab_len in [9, 1000] {
        let set = example(vocab_len);
        let bytes = set.as_bytes();
        for len in (0..bytes.len()).step_by(5).chain(bytes.len() - 70..bytes.len()) {
            assert!(ItemSet::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
        }
        assert!(ItemSet::from_bytes([bytes, &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << (at % 8);
            let seen = ItemSet::from_bytes(changed).and_then(|set| set.verify());
            assert!(seen.is_err(), "byte {at} of {}", bytes.len());
        }
    }
    // All bits of small files, and whole bytes, because a byte may make one version of another.
    let small = build(&[vec![1, 2, 3], vec![1, 2], vec![4]], 9).0;
    let mut delta = Delta::new(&small);
    delta.add(&small, &ids(&[7])).unwrap();
    let old = ItemSet::from_bytes(OLD_SET.to_vec()).unwrap();
    each_damage(small.as_bytes(), |bytes| ItemSet::from_bytes(bytes).and_then(|set| set.verify()));
    each_damage(OLD_SET, |bytes| ItemSet::from_bytes(bytes).and_then(|set| set.verify()));
    each_damage(&delta.to_bytes(), |bytes| Delta::from_bytes(&bytes, &small).map(drop));
    each_damage(OLD_DELTA, |bytes| Delta::from_bytes(&bytes, &old).map(drop));
}

/// Every other value of every byte is an error.
fn each_damage(bytes: &[u8], read: impl Fn(Vec<u8>) -> Result<(), SetFileError>) {
    read(bytes.to_vec()).unwrap();
    for at in 0..bytes.len() {
        for change in 1..=255 {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            assert!(read(changed).is_err(), "byte {at} of {}, changed by {change:#x}", bytes.len());
        }
    }
}

/// Files of the earlier versions: the items "", 1 2, 1 2 3 and 4, with a subset of the second and the last; 5 6 is
/// added, 4 removed.
const OLD_SET: &[u8] = include_bytes!("../data/version_2.set");
const OLD_DELTA: &[u8] = include_bytes!("../data/version_1.delta");

#[test]
fn files_of_the_version_before_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = SetStore::new(folder.path().join("set")).unwrap();
    std::fs::write(store.path(), OLD_SET).unwrap();
    std::fs::write(store.changes(), OLD_DELTA).unwrap();
    let items = || -> Vec<Vec<TokenId>> {
        let (set, delta) = store.read().unwrap();
        set.verify().unwrap();
        let delta = delta.unwrap_or_else(|| Delta::new(&set));
        delta.items(&set).unwrap().map(|(_, item)| item).collect()
    };
    let expected = [ids(&[]), ids(&[1, 2]), ids(&[1, 2, 3]), ids(&[5, 6])];
    assert_eq!(items(), expected);

    let changer = store.change(|| ()).unwrap();
    let (set, delta) = changer.read().unwrap();
    let mut delta = delta.unwrap();
    // The changes stay valid next to other subsets, also changes that are saved again.
    set.save_with_subsets(store.path(), &[("all", &Subset::all(4)), ("one", &set.subset("one").unwrap())])
        .unwrap();
    assert_eq!(items(), expected);
    delta.add(&set, &ids(&[7])).unwrap();
    changer.save(&delta).unwrap();
    let expected = [&expected[..], &[ids(&[7])]].concat();
    assert_eq!(items(), expected);
    assert_eq!(store.read().unwrap().0.subset_names().unwrap(), ["all", "one"]);

    let bytes = std::fs::read(store.changes()).unwrap();
    let (set, delta) = changer.read().unwrap();
    changer.compact(&set, &delta.unwrap()).unwrap();
    assert_eq!((items(), store.changes().exists()), (expected.clone(), false));
    assert_eq!(store.read().unwrap().0.subset("one").unwrap().count(), 1);
    std::fs::write(store.changes(), bytes).unwrap();
    assert_eq!(items(), expected);
    // The first file of changes is of the same generation, but it lacks the item 7.
    std::fs::write(store.changes(), OLD_DELTA).unwrap();
    let Err(SetFileError::Beside { error, .. }) = store.read() else { panic!("an error") };
    assert!(matches!(*error, SetFileError::OtherGeneration { found: 0, expected: 1 }));
}

#[test]
fn reasons_are_given() {
    let bytes = example(9).as_bytes().to_vec();
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        ItemSet::from_bytes(changed).unwrap_err().to_string()
    };
    let len = bytes.len();
    assert_eq!(
        error(&|bytes| bytes.clear()),
        "this is no built set: it does not begin with \"unskew items\""
    );
    assert_eq!(
        error(&|bytes| bytes[12] = 9),
        "the set is of version 9 and this library reads version 3: build it again"
    );
    assert_eq!(
        error(&|bytes| bytes.truncate(len - 1)),
        format!("the set has {} bytes where its header says {len}: copy or build it again", len - 1)
    );
    assert!(error(&|bytes| bytes[50] ^= 1).starts_with("the set is damaged: the checksum of its header is"));
    let missing = ItemSet::open_any(Path::new("no/such/set")).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/set: "));
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    assert!(matches!(ItemSet::open_any(empty), Err(SetFileError::Magic)));
}

#[test]
fn sets_of_other_tokens_are_refused() {
    let vocabulary = |texts: &[&str], padding: usize| {
        let mut builder = Vocabulary::builder();
        texts.iter().for_each(|text| {
            builder.text(text.as_bytes());
        });
        let vocabulary = builder.build().unwrap();
        let len = vocabulary.len();
        Arc::new(vocabulary.padded(len + padding))
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set");
    let mut builder = SetBuilder::for_vocabulary(vocabulary(&["a", "b"], 0));
    builder.push(&[TokenId(1)]).unwrap();
    builder.build_to(&path).unwrap();
    ItemSet::open(&path, &vocabulary(&["a", "b"], 0)).unwrap();
    ItemSet::open(&path, &vocabulary(&["a", "b"], 30)).unwrap();
    for other in [&["a", "c"][..], &["a", "b", "c"], &["ab", ""], &["a"]] {
        let error = ItemSet::open(&path, &vocabulary(other, 0)).unwrap_err();
        assert!(matches!(error, SetFileError::OtherTokenizer { .. }), "{error}");
    }
    // The ids of a set of numbers alone only have to be ids of the vocabulary.
    let numbers = example(9);
    numbers.check_vocabulary(&vocabulary(&["a"; 9], 0)).unwrap();
    numbers.check_vocabulary(&vocabulary(&["a"; 8], 0)).unwrap_err();
}

#[test]
fn subsets_are_saved_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set");
    let set = example(9);
    assert_eq!(set.subset_names().unwrap(), [""; 0]);
    let even = Subset::from_places(set.len(), (0..set.len() as u32).step_by(2));
    let none = Subset::none(set.len());
    set.save_with_subsets(&path, &[("even", &even), ("none", &none)]).unwrap();
    let saved = ItemSet::open_any(&path).unwrap();
    saved.verify().unwrap();
    assert!(saved.items().eq(set.items()));
    assert_eq!(saved.subset_names().unwrap(), ["even", "none"]);
    assert_eq!(saved.subset("even").unwrap(), even);
    assert_eq!(saved.subset("none").unwrap(), none);
    assert_eq!(
        saved.subset("odd").unwrap_err().to_string(),
        "the set has no subset \"odd\"; it has [\"even\", \"none\"]"
    );
}

#[test]
fn damaged_deltas_are_refused() {
    let set = example(9);
    let mut delta = Delta::new(&set);
    delta.add(&set, &ids(&[8, 8, 8, 8, 8, 8, 8, 8])).unwrap();
    let first = set.item(3).unwrap();
    assert!(delta.remove(&set, &first).unwrap());
    let bytes = delta.to_bytes();
    for len in 0..bytes.len() {
        assert!(Delta::from_bytes(&bytes[..len], &set).is_err());
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert!(Delta::from_bytes(&changed, &set).is_err());
        // A fitting checksum: any answer, but no panic.
        let checksum = XxHash3_64::oneshot_with_seed(2, &changed[24..]);
        changed[16..24].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(delta) = Delta::from_bytes(&changed, &set) {
            delta.compact(&set).unwrap();
        }
    }
    let other = example(8);
    assert!(Delta::from_bytes(&bytes, &other).is_err());
}

/// Any bytes in the columns, under a fitting header: wrong answers, and no panic.
#[test]
fn what_is_not_verified_does_no_harm() {
    let rng = &mut rng(5);
    for round in 0..300 {
        let vocab_len = [9, 300, 70_000][round % 3];
        let set = if round % 2 == 0 { example(vocab_len) } else { wide_example(vocab_len) };
        let mut bytes = set.as_bytes().to_vec();
        let header = bytes.len().min(168 + 24 * set.longest());
        for _ in 0..=below(rng, 40) {
            let at = header + below(rng, (bytes.len() - header) as u32) as usize;
            bytes[at] = below(rng, 256) as u8;
        }
        let Ok(set) = ItemSet::from_bytes(bytes) else { continue };
        assert_eq!(set.items().count(), set.len());
        (0..set.len() as u32).for_each(|place| assert!(set.item(place).is_some()));
        let Ok(constraint) = SetConstraint::new(Arc::new(set), 70_000) else { continue };
        let mut mask = TokenMask::new(70_000);
        for _ in 0..20 {
            let mut state = constraint.start();
            for _ in 0..8 {
                constraint.fill_mask(&mut (), &state, mask.as_mut());
                let allowed: Vec<TokenId> = mask.ids().collect();
                if allowed.is_empty() {
                    break;
                }
                constraint.forced(&mut (), &state);
                let token = allowed[below(rng, allowed.len() as u32) as usize];
                if constraint.advance(&mut (), &mut state, token).is_err() {
                    break;
                }
            }
        }
    }
}
