//! A set and its changes as one thing: concurrent readers and writers, and writers that end at any point.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use unskew_core::TokenId;
use unskew_sets::{Delta, ItemSet, SetBuilder, SetFileError, SetStore, Subset};

const VOCAB: usize = 1000;

fn build(path: &Path, items: impl IntoIterator<Item = u32>) -> SetStore {
    let mut builder = SetBuilder::new(VOCAB);
    items.into_iter().for_each(|item| builder.push(&[TokenId(item)]).unwrap());
    builder.build_to(path).unwrap();
    SetStore::new(path).unwrap()
}

fn items(set: &ItemSet, delta: Option<&Delta>) -> Vec<u32> {
    let none = Delta::new(set);
    delta.unwrap_or(&none).items(set).unwrap().map(|(_, item)| item[0].0).collect()
}

/// The present items, with every checksum compared.
fn read(store: &SetStore) -> Vec<u32> {
    let (set, delta) = store.read().unwrap();
    set.verify().unwrap();
    items(&set, delta.as_ref())
}

fn add(store: &SetStore, item: u32) {
    let changer = store.change(|| ()).unwrap();
    let (set, delta) = changer.read().unwrap();
    let mut delta = delta.unwrap_or_else(|| Delta::new(&set));
    assert!(delta.add(&set, &[TokenId(item)]).unwrap());
    changer.save(&delta).unwrap();
}

fn compact(store: &SetStore) {
    let changer = store.change(|| ()).unwrap();
    if let (set, Some(delta)) = changer.read().unwrap() {
        changer.compact(&set, &delta).unwrap();
    }
}

/// The k-th change adds the item k. A reader therefore sees 0, 1, .., k for some k, and k never falls.
#[test]
fn readers_beside_compactions_see_before_or_after() {
    const ROUNDS: u32 = 50;
    const READS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let store = build(&folder.path().join("set"), [0]);
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                while !ended.load(Ordering::Relaxed) {
                    let seen = read(&store);
                    assert!(seen.iter().copied().eq(0..seen.len() as u32) && seen.len() >= last, "{seen:?}");
                    last = seen.len();
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // The writers take turns with the readers, so that each compaction has concurrent readers.
        for round in 1..=ROUNDS {
            add(&store, round);
            compact(&store);
            while reads.load(Ordering::Relaxed) < READS * round as usize / ROUNDS as usize {
                std::thread::yield_now();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(reads.into_inner() >= READS);
    assert!(read(&store).into_iter().eq(0..=ROUNDS));
}

/// Changes that stayed next to the set after they became part of it.
#[test]
fn changes_that_are_part_of_the_set_are_ignored_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = build(&folder.path().join("set"), [0]);
    add(&store, 1);
    let left = fs::read(store.changes()).unwrap();
    compact(&store);

    fs::write(store.changes(), &left).unwrap();
    assert_eq!((read(&store), store.changes().exists()), (vec![0, 1], true));
    store.change(|| ()).unwrap().read().unwrap();
    assert!(!store.changes().exists());

    // Each writer begins with a read that removes them.
    fs::write(store.changes(), &left).unwrap();
    add(&store, 2);
    assert_eq!(read(&store), [0, 1, 2]);
    let second = fs::read(store.changes()).unwrap();
    compact(&store);
    fs::write(store.changes(), &second).unwrap();
    compact(&store);
    assert_eq!((read(&store), store.changes().exists()), (vec![0, 1, 2], false));

    // A set is built in the place of another: the old changes must not become valid again if it equals the first set.
    fs::write(store.changes(), &second).unwrap();
    assert!(store.change(|| ()).unwrap().may_replace().unwrap());
    assert!(!store.changes().exists());
    add(&store, 3);
    assert!(!store.change(|| ()).unwrap().may_replace().unwrap());
}

/// Changes that are not part of the set are an error, and never ignored.
#[test]
fn other_changes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = build(&folder.path().join("set"), [0]);
    let first = fs::read(store.path()).unwrap();
    add(&store, 1);
    let one = fs::read(store.changes()).unwrap();
    add(&store, 2);
    let both = fs::read(store.changes()).unwrap();
    compact(&store);
    let error = |changes: &[u8]| {
        fs::write(store.changes(), changes).unwrap();
        match store.read().unwrap_err() {
            SetFileError::Beside { path, error } if path == store.changes() => *error,
            error => panic!("{error}"),
        }
    };
    // Changes of the generation of the absorbed ones, but other changes.
    let other = error(&one);
    assert!(matches!(other, SetFileError::OtherGeneration { found: 0, expected: 1 }));
    assert_eq!(
        other.to_string(),
        "these are changes to generation 0 of this set, which is of generation 1 and does not have them: put the set of that \
         generation back, or make them anew for this one"
    );
    // Changes from two generations ago.
    fs::remove_file(store.changes()).unwrap();
    add(&store, 3);
    let third = fs::read(store.changes()).unwrap();
    compact(&store);
    assert!(matches!(error(&both), SetFileError::OtherGeneration { found: 0, expected: 2 }));
    // The first set is put back.
    fs::write(store.path(), &first).unwrap();
    assert!(matches!(error(&third), SetFileError::OtherGeneration { found: 1, expected: 0 }));
    fs::write(store.changes(), &both).unwrap();
    assert_eq!(read(&store), [0, 1, 2]);
    // The same lineage and generation, but other items.
    fs::remove_file(store.changes()).unwrap();
    add(&store, 7);
    compact(&store);
    assert!(matches!(error(&third), SetFileError::OtherSet { .. }));
}

#[test]
fn a_set_has_its_changes_under_every_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = build(&folder.path().join("set"), [0]);
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("set", &link).unwrap();
        let by_link = SetStore::new(&link).unwrap();
        add(&by_link, 1);
        assert_eq!(read(&store), [0, 1]);
        compact(&by_link);
        assert!(link.is_symlink());
    }
    let set = store.read().unwrap().0;
    set.save_with_subsets(store.path(), &[("all", &Subset::all(set.len()))]).unwrap();
    // The set with a subset is the same set for its changes.
    add(&store, 2);
    compact(&store);
    assert_eq!(store.read().unwrap().0.subset("all").unwrap().count(), set.len());
}
