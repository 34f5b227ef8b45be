//! Sets that are changed and filtered by lines of text, and compacted.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Kind, Naive, below, build, compare, ids, random_items, rng};
use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_sets::{
    Delta, ExclusionConstraint, ItemSet, SetBuilder, SetConstraint, SetError, SetFileError, Subset,
};

/// Every byte is a token.
fn vocabulary(bytes: std::ops::RangeInclusive<u8>) -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    bytes.for_each(|byte| {
        builder.text(&[byte]);
    });
    Arc::new(builder.build().unwrap())
}

fn encode(line: &str) -> Result<Vec<TokenId>, String> {
    Ok(line.bytes().map(|byte| TokenId(byte.into())).collect())
}

fn set_of(lines: &str) -> ItemSet {
    let mut builder = SetBuilder::for_vocabulary(vocabulary(0..=255));
    builder.push_lines(lines.as_bytes(), encode, |_, _| ()).unwrap();
    builder.build().unwrap().0
}

fn delta_to(set: &ItemSet) -> Delta {
    Delta::new(set).for_vocabulary(set, vocabulary(0..=255)).unwrap()
}

fn texts(set: &ItemSet, delta: &Delta) -> Vec<String> {
    let texts = vocabulary(0..=255);
    let items = delta.items(set).unwrap();
    items.map(|(_, item)| String::from_utf8(texts.decode(&item)).unwrap()).collect()
}

#[test]
fn lines_are_added_and_removed() {
    let set = set_of("ada\ngrace\nmary\n");
    let mut delta = delta_to(&set);
    let report = delta.add_lines(&set, &b"\nemmy\r\nada\nemmy\n"[..], encode).unwrap();
    assert_eq!((report.changed, report.unchanged, report.blank), (1, 2, 1));
    let report = delta.remove_lines(&set, &b"grace\nemmy\ngrace\nemmy"[..], encode).unwrap();
    assert_eq!((report.changed, report.unchanged, report.blank), (2, 2, 0));
    assert_eq!(delta.counts(), (0, 1));
    let report = delta.add_lines(&set, &b"grace\nlise"[..], encode).unwrap();
    assert_eq!((report.changed, delta.counts()), (2, (1, 0)));
    assert_eq!(texts(&set, &delta), ["ada", "grace", "lise", "mary"]);
}

#[test]
fn after_an_error_nothing_is_changed() {
    let set = set_of("ada\ngrace\n");
    let mut delta = delta_to(&set);
    delta.add_lines(&set, &b"emmy\n"[..], encode).unwrap();
    let before = delta.clone();
    let error = delta.remove_lines(&set, &b"ada\nemmy\n\nmarie\n"[..], encode).unwrap_err();
    assert_eq!(error.to_string(), "line 4 \"marie\" is not an item of the set");
    assert!(matches!(error, SetError::NoSuchItem { line: 4, .. }));
    assert_eq!(delta, before);
    let error = delta.add_lines(&set, &b"lise\n\xff\n"[..], encode).unwrap_err();
    assert!(matches!(error, SetError::NotUtf8 { line: 2, byte: 0 }));
    assert_eq!(delta, before);
    let wrong = |_: &str| encode("other");
    assert!(matches!(delta.add_lines(&set, &b"lise"[..], wrong), Err(SetError::Respelled { line: 1, .. })));
    assert_eq!(delta, before);
    // A delta of another set, or for other tokens.
    let other = set_of("ada\n");
    assert!(matches!(delta.add_lines(&other, &b"a"[..], encode), Err(SetError::OtherSet { .. })));
    let error = Delta::new(&set).for_vocabulary(&set, vocabulary(0..=99)).unwrap_err();
    assert!(matches!(error, SetFileError::OtherTokenizer { .. }));
}

#[test]
fn a_delta_is_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (path, set) = (folder.path().join("changes"), set_of("ada\ngrace\n"));
    let mut delta = delta_to(&set);
    delta.remove_lines(&set, &b"ada"[..], encode).unwrap();
    delta.add_lines(&set, &b"emmy"[..], encode).unwrap();
    delta.save(&path).unwrap();
    assert_eq!(texts(&set, &Delta::open(&path, &set).unwrap()), ["emmy", "grace"]);

    // Subsets do not make another set of it; other items do.
    let with = folder.path().join("with");
    set.save_with_subsets(&with, &[("all", &Subset::all(2))]).unwrap();
    let with = ItemSet::open_any(with).unwrap();
    assert_eq!(texts(&with, &Delta::open(&path, &with).unwrap()), ["emmy", "grace"]);
    for other in ["ada\ngrac\n", "ada\ngrace\nmary\n", ""] {
        let error = Delta::open(&path, &set_of(other)).unwrap_err();
        assert!(matches!(error, SetFileError::OtherSet { found: 2, .. }), "{error}");
    }
    assert!(matches!(Delta::open(folder.path().join("none"), &set), Err(SetFileError::Io { .. })));
    assert!(matches!(Delta::from_bytes(b"", &set), Err(SetFileError::NoDelta)));
    assert!(matches!(Delta::from_bytes(set.as_bytes(), &set), Err(SetFileError::NoDelta)));
}

#[test]
fn lines_make_a_subset() {
    let set = set_of("ada\ngrace\nmary\n");
    let subset = |lines: &[u8]| Subset::from_lines(&set, &vocabulary(0..=255), lines, encode);
    assert_eq!(subset(b"mary\n\nada\nada\n").unwrap(), Subset::from_places(3, [0, 2]));
    assert_eq!(subset(b"").unwrap().count(), 0);
    assert!(matches!(subset(b"mary\nmar\n"), Err(SetError::NoSuchItem { line: 2, .. })));
    let other = Subset::from_lines(&set, &vocabulary(1..=255), &b""[..], encode).unwrap_err();
    assert!(matches!(other, SetError::File(SetFileError::OtherTokenizer { .. })), "{other}");
}

#[test]
fn lines_are_excluded() {
    let lines = |lines: &[u8]| ExclusionConstraint::from_lines(lines, vocabulary(0..=255));
    let constraint = lines(b"ada\r\n\ngrace").unwrap();
    let accepts = |text: &str| {
        let mut state = constraint.start();
        let tokens = encode(text).unwrap();
        tokens.iter().for_each(|token| constraint.advance(&mut (), &mut state, *token).unwrap());
        constraint.is_accepting(&state)
    };
    assert!(!accepts("ada") && !accepts("grace"));
    assert!(["", "ad", "adaa", "ada\n", "grac"].into_iter().all(accepts));
    assert!(matches!(lines(b"ada\n\xff"), Err(SetError::NotUtf8 { line: 2, .. })));
    let long = vec![b'a'; (1 << 20) + 1];
    assert!(matches!(lines(&long), Err(SetError::LineTooLong { line: 1, .. })));
}

/// Random subsets of random sets under random changes, against the definition: the outputs of the constraint, and the
/// subsets after a compaction.
#[test]
fn subsets_outlive_changes() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, vocab_len) in (0..).zip([3, 200, 300, 70_000, 9, 5]) {
        let rng = &mut rng(seed);
        let kind = Kind { vocab_len, items: 250, longest: 5, distinct: vocab_len.min(9), with_empty: true };
        let (set, naive) = build(&random_items(kind, rng), vocab_len);
        let naive: Vec<Vec<u32>> = naive.into_iter().collect();
        let subsets: Vec<(String, BTreeSet<u32>)> = [1, 3, 1000]
            .map(|one_in| {
                (format!("1/{one_in}"), (0..set.len() as u32).filter(|_| below(rng, one_in) == 0).collect())
            })
            .into();
        let bits = |places: &BTreeSet<u32>| Subset::from_places(set.len(), places.iter().copied());
        let named: Vec<(&str, Subset)> =
            subsets.iter().map(|(name, places)| (&**name, bits(places))).collect();
        let named: Vec<(&str, &Subset)> = named.iter().map(|(name, subset)| (*name, subset)).collect();
        let path = folder.path().join("set");
        set.save_with_subsets(&path, &named).unwrap();
        let set = Arc::new(ItemSet::open_any(&path).unwrap());

        let mut delta = Delta::new(&set);
        let (mut gone, mut all) = (BTreeSet::new(), naive.iter().cloned().collect::<Naive>());
        for place in (0..set.len() as u32).filter(|_| below(rng, 3) == 0).collect::<Vec<_>>() {
            assert!(delta.remove(&set, &ids(&naive[place as usize])).unwrap());
            all.remove(&naive[place as usize]);
            gone.insert(place);
        }
        for item in random_items(Kind { items: 60, ..kind }, rng) {
            if !naive.contains(&item) {
                assert_eq!(delta.add(&set, &ids(&item)).unwrap(), all.insert(item));
            }
        }
        delta.compact_to(&set, &path).unwrap();
        let compact = Arc::new(ItemSet::open_any(&path).unwrap());
        compact.verify().unwrap();
        assert!(compact.items().eq(all.iter().map(|item| ids(item))));
        assert_eq!(compact.subset_names().unwrap(), ["1/1", "1/3", "1/1000"]);
        for (name, places) in &subsets {
            let left: Naive = places.difference(&gone).map(|place| naive[*place as usize].clone()).collect();
            let len = vocab_len as usize;
            let changed = SetConstraint::with_delta_and_subset(
                Arc::clone(&set),
                &delta,
                &set.subset(name).unwrap(),
                len,
            );
            let saved = Arc::new(compact.subset(name).unwrap());
            let compacted = SetConstraint::with_subset(Arc::clone(&compact), saved, len);
            for constraint in [changed, compacted] {
                match constraint {
                    Ok(constraint) => compare(&constraint, &left, 60, rng),
                    Err(error) => assert!(matches!(error, SetError::Empty) && left.is_empty()),
                }
            }
        }
    }
}
