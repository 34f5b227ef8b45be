//! A library of subterminal trees as a file: what is read makes the masks that were made before, and nothing anew.

mod common;

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use twox_hash::XxHash3_64;
use unskew_core::{Constraint, TokenMask, Vocabulary};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, LarkOptions, TreeFileError, TreeLibrary};
use unskew_vocab::Tokenizer;

use common::{
    JSON,
    vocabularies::{Subject, tiny},
};

/// White space before and behind, names that flow into each other, and a string with bounds.
const GRAMMARS: [(&str, &[&str]); 3] = [
    (JSON, &[r#"{"name": "a \"b\" c", "list": [1, 2.5, true, null]}"#, r#"[ {}, [], "x" ]"#]),
    (
        r##"
start: type NAME (";" type NAME)*
type: NAME | "long" | "long" "long"
NAME: /[a-z]+/
WS: /[ ]/
%ignore WS
"##,
        &["long long name;int other", "node de"],
    ),
    (
        r##"
start: "id: " ID "\n" "text: " TEXT
ID: /[0-9a-f]{2,40}/
TEXT: /"[a-z ]{3,200}"/
"##,
        &["id: 09afee\ntext: \"some words in it\"", "id: ff\ntext: \"abc\""],
    ),
];

const LIMIT: usize = 64 << 20;

fn library(subject: &Subject) -> TreeLibrary {
    TreeLibrary::new(subject.vocabulary.clone(), subject.trie.clone(), LIMIT).worth_keeping(0)
}

fn read(subject: &Subject, limit: usize, bytes: &[u8]) -> Result<TreeLibrary, TreeFileError> {
    let read = TreeLibrary::from_bytes(subject.vocabulary.clone(), subject.trie.clone(), limit, bytes);
    read.map(|library| library.worth_keeping(0))
}

/// All masks on the way through some of the documents.
fn masks(library: &Arc<TreeLibrary>, documents: impl Fn(usize) -> bool) -> Vec<TokenMask> {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    let limits = GrammarLimits::default();
    let mut masks = Vec::new();
    for (lark, texts) in GRAMMARS {
        let grammar = Grammar::from_lark(lark, &LarkOptions::default(), &limits).unwrap();
        let constraint = GrammarConstraint::with_library(&grammar, library, &limits).unwrap();
        let mut scratch = constraint.scratch();
        for (_, text) in texts.iter().enumerate().filter(|(index, _)| documents(*index)) {
            let mut state = constraint.start();
            let mut mask = TokenMask::new(constraint.vocab_len());
            let tokens = tokenizer.encode(text, false).unwrap();
            for token in tokens.into_iter().map(Some).chain([None]) {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                masks.push(mask.clone());
                // A library that someone made up may allow what cannot follow, and refuse what can.
                if token.is_some_and(|token| constraint.advance(&mut scratch, &mut state, token).is_err()) {
                    break;
                }
            }
        }
    }
    masks
}

/// A library that all documents were read with, as a file.
fn saved(subject: &Subject) -> Vec<u8> {
    let library = Arc::new(library(subject));
    masks(&library, |_| true);
    library.to_bytes()
}

#[test]
fn what_is_read_makes_the_same_masks_and_nothing_anew() {
    let subject = tiny();
    let first = Arc::new(library(&subject));
    let expected = masks(&first, |index| index == 0);
    let bytes = first.to_bytes();
    let again = Arc::new(read(&subject, LIMIT, &bytes).unwrap());
    assert_eq!(again.size().0, first.size().0);
    assert!(again.size().0 > 20, "{:?}", again.size());
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!(masks(&again, |index| index == 0), expected);
    assert_eq!((again.size().0, again.to_bytes()), (first.size().0, bytes));
    // It grows on from there, as any other.
    assert_eq!(masks(&again, |_| true), masks(&Arc::new(library(&subject)), |_| true));
    assert!(again.size().0 > first.size().0);
    let more = read(&subject, LIMIT, &again.to_bytes()).unwrap();
    assert_eq!(masks(&Arc::new(more), |_| true), masks(&again, |_| true));
}

#[test]
fn what_is_beyond_the_limit_is_left_out() {
    let subject = tiny();
    let first = Arc::new(library(&subject));
    let expected = masks(&first, |_| true);
    let bytes = first.to_bytes();
    let (nodes, size) = first.size();
    let few = Arc::new(read(&subject, size * 3 / 4, &bytes).unwrap());
    assert!(few.size().0 < nodes && few.size().0 > 0, "{:?} of {nodes}", few.size());
    assert_eq!(masks(&few, |_| true), expected);
    let error = read(&subject, 100, &bytes).unwrap_err();
    assert!(matches!(error, TreeFileError::TooLarge { limit: 100, .. }), "{error}");
}

#[test]
fn other_files_are_refused() {
    let subject = tiny();
    let bytes = saved(&subject);
    let refused = |bytes: &[u8]| read(&subject, LIMIT, bytes).unwrap_err();
    assert!(matches!(refused(b""), TreeFileError::Magic));
    assert!(matches!(refused(b"unskew canon"), TreeFileError::Magic));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..300 {
        let end = rng.next_u32() as usize % bytes.len();
        refused(&bytes[..end]);
        let mut flipped = bytes.clone();
        flipped[end] ^= 1 << (rng.next_u32() % 8);
        refused(&flipped);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(refused(&longer), TreeFileError::Checksum { .. }));
    let mut newer = bytes.clone();
    newer[12] += 1;
    assert!(matches!(refused(&newer), TreeFileError::Version { found: 2 }));

    let mut other = Vocabulary::builder();
    other.text(b"a");
    let vocabulary = Arc::new(other.build().unwrap());
    let trie = Arc::new(unskew_core::TokenTrie::new(&vocabulary).unwrap());
    let error = TreeLibrary::from_bytes(vocabulary, trie, LIMIT, &bytes).unwrap_err();
    assert!(matches!(error, TreeFileError::Vocabulary { .. }), "{error}");

    let missing = std::env::temp_dir().join("unskew-no-such-file");
    let error = TreeLibrary::load(subject.vocabulary.clone(), subject.trie.clone(), LIMIT, missing);
    assert!(matches!(error.unwrap_err(), TreeFileError::Io { .. }));
}

/// Files that say anything, with the right checksum.
#[test]
fn no_file_makes_a_library_that_panics() {
    let subject = tiny();
    let bytes = saved(&subject);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut read_anyway, mut refused) = (0, 0);
    let rounds = if cfg!(debug_assertions) { 150 } else { 5_000 };
    for _ in 0..rounds {
        let mut changed = bytes.clone();
        for _ in 0..1 + rng.next_u32() % 3 {
            let at = 32 + rng.next_u32() as usize % (changed.len() - 32);
            changed[at] = match rng.next_u32() % 3 {
                0 => changed[at].wrapping_add(1),
                1 => 0,
                _ => rng.next_u32().to_le_bytes()[0],
            };
        }
        let checksum = XxHash3_64::oneshot(&changed[24..]);
        changed[16..24].copy_from_slice(&checksum.to_le_bytes());
        match read(&subject, LIMIT, &changed) {
            Ok(library) => {
                masks(&Arc::new(library), |_| true);
                read_anyway += 1;
            }
            Err(TreeFileError::Invalid(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(read_anyway > rounds / 10 && refused > rounds / 10, "{read_anyway} {refused}");
}
