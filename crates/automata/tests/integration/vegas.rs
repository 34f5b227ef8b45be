//! Libraries of sub-automata change only the time: constraints without a library and with an empty, a filled, a
//! shared and a reloaded one allow the same tokens everywhere. And the encoder works independently on both sides of
//! an edge of a Vegas configuration.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use crate::common::random::Random;
use crate::common::toy::{Toy, regex};
use unskew_automata::{
    CanonicalConstraint, CanonicalError, CanonicalIndex, Dfa, Limits, TokenizerAutomaton,
    canonical::CanonicalState,
    published::{
        HardBigrams, LibraryFileError, PublishedError, VegasConstraint, VegasLibrary, vegas_configurations,
    },
};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_trie::{ByteSet, TokenTrie};
use unskew_vocab::Tokenizer;

/// Constraints over a toy's vocabulary.
impl Toy {
    fn plain(&self, dfa: &Dfa, limits: &Limits) -> Result<CanonicalConstraint, CanonicalError> {
        CanonicalConstraint::from_dfa(dfa, &self.index, limits)
    }

    fn with(
        &self,
        library: &VegasLibrary,
        dfa: &Dfa,
        limits: &Limits,
    ) -> Result<VegasConstraint, PublishedError> {
        VegasConstraint::new(dfa, &self.index, library, limits)
    }

    fn library(&self, limit: usize) -> VegasLibrary {
        VegasLibrary::new(&self.index, limit)
    }
}

/// Compares two constraints in up to `limit` positions.
fn same(left: &CanonicalConstraint, right: &VegasConstraint, limit: usize, context: &str) {
    let mut scratches = (left.scratch(), ());
    let mut masks = (TokenMask::new(left.vocab_len()), TokenMask::new(right.vocab_len()));
    let mut seen: HashSet<CanonicalState> = HashSet::from([left.start()]);
    let mut open = VecDeque::from([(left.start(), right.start())]);
    while let Some((at, other)) = open.pop_front() {
        assert_eq!(at, other, "{context}");
        assert_eq!(left.is_accepting(&at), right.is_accepting(&other), "{context}");
        left.fill_mask(&mut scratches.0, &at, masks.0.as_mut());
        right.fill_mask(&mut scratches.1, &other, masks.1.as_mut());
        let differ = (0..left.vocab_len()).map(TokenId::from_index);
        let differ = differ.filter(|id| masks.0.contains(*id) != masks.1.contains(*id));
        let differ: Vec<_> = differ.take(9).map(|id| (id, masks.0.contains(id))).collect();
        assert_eq!(differ, [], "{context}, at {at:?}");
        // Continue with a few tokens from all over the mask.
        let stride = masks.0.count() / 8 + 1;
        for token in masks.0.ids().step_by(stride) {
            let mut next = (at.clone(), other.clone());
            left.advance(&mut scratches.0, &mut next.0, token).unwrap();
            right.advance(&mut scratches.1, &mut next.1, token).unwrap();
            if seen.len() < limit && seen.insert(next.0.clone()) {
                open.push_back(next);
            }
        }
    }
}

/// Compares a tokenizer's constraints over several patterns with libraries in every condition.
fn compare(toy: &Toy, patterns: &[String], limits: &Limits, positions: usize, context: &str) -> [u64; 2] {
    let shared = toy.library(VegasLibrary::DEFAULT_BYTES);
    let small = toy.library(1_000);
    for again in 0..2 {
        for pattern in patterns {
            let dfa = Dfa::from_pattern(pattern, limits).unwrap();
            let context = format!("{context}, {pattern:?}, {again}");
            let reloaded = VegasLibrary::from_bytes(&shared.to_bytes(), &toy.index, 1 << 24).unwrap();
            let libraries = [&toy.library(1 << 24), &shared, &small, &reloaded];
            match toy.plain(&dfa, limits) {
                Ok(plain) => {
                    for library in libraries {
                        same(&plain, &toy.with(library, &dfa, limits).unwrap(), positions, &context);
                    }
                }
                Err(error) => {
                    for library in libraries {
                        let found = toy.with(library, &dfa, limits).unwrap_err();
                        assert_eq!(found, PublishedError::Canonical(error.clone()), "{context}");
                    }
                }
            }
        }
    }
    let stats = shared.stats();
    assert!(small.stats().bytes <= 1_000);
    assert_eq!(stats.misses.0, stats.blocks as u64, "{context}: in the second round all is there");
    [stats.hits.0, stats.misses.0]
}

#[test]
fn masks_are_the_same_with_any_library() {
    let splits = [
        None,
        Some(r"\p{L}+(?i:'s)?|\s*[\r\n]+|\s+(?!\S)|\s+"),
        Some(r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
        Some(r"\s+|a{1,2}"),
        Some(r"aa|aas|s "),
    ];
    let alphabets = ["a", "ab", "abc", "as' ", "a1 ", "a \n", "a:\" ,", "éè a", "aü1"];
    let cases = if cfg!(debug_assertions) { 120 } else { 5_000 };
    let mut totals = [0, 0];
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let letters = random.pick(&alphabets);
        let split = splits[random.below(splits.len())];
        let toy = Toy::new(&mut random, letters, split);
        // Characters beyond ASCII are never spelled; patterns with them take the path without blocks.
        let letters: Vec<char> = letters.chars().collect();
        let patterns: Vec<String> = (0..3).map(|_| regex(&mut random, &letters, 3)).collect();
        let context = format!("seed {seed}, tokens {:?}", toy.texts);
        let counts = compare(&toy, &patterns, &Limits::default(), 200, &context);
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    assert!(totals[0] > totals[1], "{totals:?}");
}

/// A service with changing constraints finds the blocks of its latest ones, within the limit, and old constraints
/// keep their blocks.
#[test]
fn a_full_library_forgets_its_older_half() {
    const LIMIT: usize = 60_000;
    let mut random = Random::new(11);
    let toy = Toy::new(&mut random, "abc", None);
    let library = toy.library(LIMIT);
    let limits = Limits::default();
    let (mut held, mut found_again) = (Vec::new(), 0);
    for number in 0..400 {
        let pattern = regex(&mut random, &['a', 'b', 'c'], 4);
        let dfa = Dfa::from_pattern(&pattern, &limits).unwrap();
        let Ok(first) = toy.with(&library, &dfa, &limits) else { continue };
        let misses = library.stats().misses.0;
        let second = toy.with(&library, &dfa, &limits).unwrap();
        found_again += usize::from(number >= 300 && library.stats().misses.0 == misses);
        let plain = toy.plain(&dfa, &limits).unwrap();
        same(&plain, &second, 20, &pattern);
        let stats = library.stats();
        assert!(stats.bytes <= LIMIT, "{stats:?}");
        if number % 100 == 0 {
            held.push((plain, first, pattern));
        }
    }
    let stats = library.stats();
    assert!(stats.evicted > 0 && stats.bytes > LIMIT / 8, "{stats:?}");
    // Nearly all are found; without eviction none would be.
    assert!(found_again >= 80, "{found_again}, {stats:?}");
    for (plain, first, pattern) in &held {
        same(plain, first, 100, pattern);
    }
}

#[test]
fn the_encoder_works_apart_on_both_sides_of_a_configuration() {
    let cases = if cfg!(debug_assertions) { 1_500 } else { 10_000 };
    let mut found = 0;
    for seed in 0..cases {
        let mut random = Random::new(seed + 7_000_000);
        let letters = random.pick(&["abc", "ab:\n", "abcdef"]);
        let toy = Toy::new(&mut random, letters, None);
        let hard = HardBigrams::new(&toy.vocabulary);
        let letters: Vec<char> = letters.chars().collect();
        let word = |random: &mut Random, longest: usize| -> String {
            (0..random.below(longest + 1)).map(|_| letters[random.below(letters.len())]).collect()
        };
        let delimiters = [word(&mut random, 2), word(&mut random, 2)];
        let inner = regex(&mut random, &letters, 2);
        let [d1, d2] = &delimiters;
        if d1.is_empty() || d2.is_empty() {
            continue;
        }
        // The brackets separate the value from the delimiters in the syntax tree.
        let pattern = format!("{d1}(({inner})|({inner}))?{d2}");
        let dfa = Dfa::from_pattern(&format!("(({inner})|({inner}))?"), &Limits::default()).unwrap();
        for configuration in vegas_configurations(&pattern, &hard, &Limits::default()).unwrap() {
            let part = Dfa::from_pattern(&configuration.pattern, &Limits::default()).unwrap();
            let whole = configuration.depth == 0
                && configuration.before == d1.bytes().last().into_iter().collect::<ByteSet>()
                && configuration.behind == d2.bytes().next().into_iter().collect::<ByteSet>();
            for _ in 0..12 {
                let (u, w, v) = (word(&mut random, 3), word(&mut random, 4), word(&mut random, 3));
                if !whole || !dfa.accepts(w.as_bytes()) || !part.accepts(w.as_bytes()) {
                    continue;
                }
                let apart =
                    [toy.merged(&format!("{u}{d1}")), toy.merged(&w), toy.merged(&format!("{d2}{v}"))];
                let together = toy.merged(&format!("{u}{d1}{w}{d2}{v}"));
                assert_eq!(together, apart.concat(), "seed {seed}: {pattern}");
                found += 1;
            }
        }
    }
    assert!(found > 200, "{found}");
}

fn vocabulary(texts: &[&str]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    texts.iter().for_each(|text| _ = builder.text(text.as_bytes()));
    builder.build().unwrap()
}

#[test]
fn configurations_are_found_in_yaml_and_json() {
    let texts =
        ["name", "age", ": \"", "\":", " \"", "\",", "\"}", " a", " b", "ab", "12", "1", "{\"", "\n", "a\""];
    let hard = HardBigrams::new(&vocabulary(&texts));
    let list = |pattern: &str| -> Vec<String> {
        let found = vegas_configurations(pattern, &hard, &Limits::default()).unwrap();
        found.into_iter().map(|found| found.pattern).collect()
    };
    // `: ` is soft because of `: "`, and the value is not independent of the blank.
    assert_eq!(list("name: [a-z ]+\n"), ["(?:: )[ a-z]+"]);
    assert_eq!(list("name:\n[a-c]+\n"), ["[a-c]+"]);
    // Digits are independent: no merge joins a blank, a comma or a brace with them.
    assert_eq!(list("[0-9]+, [0-9]+}"), ["[0-9]+", "[0-9]+"]);
    // `a"` is a token and `"a` is not: the body of the string is not independent of its closing quote.
    assert_eq!(list("\\{\"age\": \"[a-c]*\"\\}\n[0-9]{2}"), ["[a-c]*(?:\"\\})", "[0-9]{2}"]);
}

#[test]
fn damaged_files_are_errors() {
    let mut random = Random::new(3);
    let toy = Toy::new(&mut random, "ab:", None);
    let library = toy.library(1 << 20);
    let dfa = Dfa::from_pattern("(a|b){2,3}:(ab)*", &Limits::default()).unwrap();
    let constraint = toy.with(&library, &dfa, &Limits::default()).unwrap();
    same(&toy.plain(&dfa, &Limits::default()).unwrap(), &constraint, 100, "filled");
    let bytes = library.to_bytes();
    let load = |bytes: &[u8]| VegasLibrary::from_bytes(bytes, &toy.index, 1 << 20);
    let again = load(&bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!(again.stats().blocks, library.stats().blocks);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.below(8);
        load(&damaged).unwrap_err();
        load(&bytes[..at]).unwrap_err();
    }
    assert!(matches!(load(b"something else").unwrap_err(), LibraryFileError::Magic));
    let mut version = bytes.clone();
    version[8] = 9;
    assert!(matches!(load(&version).unwrap_err(), LibraryFileError::Version { found: 9, expected: 1, .. }));
    let other = Toy::new(&mut Random::new(8), "abcdefgh", None);
    let error = VegasLibrary::from_bytes(&bytes, &other.index, 1 << 20).unwrap_err();
    assert!(matches!(error, LibraryFileError::Tokenizer), "{error}");
    let error = other.with(&library, &dfa, &Limits::default()).unwrap_err();
    assert_eq!(error, PublishedError::LibraryMismatch);
}

/// The tokenizer of a well-known model, if its file is present.
fn real(name: &str) -> Option<Tokenizer> {
    let (_, file) = crate::common::files::tokenizer_files().into_iter().find(|(known, _)| known == name)?;
    Some(Tokenizer::from_file(file).unwrap())
}

#[test]
fn hard_pairs_of_real_vocabularies() {
    let Some(tokenizer) = real("cl100k") else { return };
    let hard = HardBigrams::new(tokenizer.vocabulary());
    let printable: ByteSet = (b' '..=b'~').chain(*b"\t\n").collect();
    let before_all = |left: u8, rights: &[u8]| rights.iter().all(|right| hard.is_hard(left, *right));
    let alphanumeric: Vec<u8> = (b'0'..=b'9').chain(b'a'..=b'z').chain(b'A'..=b'Z').collect();
    assert!(before_all(b'\n', &alphanumeric) && before_all(b'\n', b"\"[{") && !hard.is_hard(b'\n', b' '));
    for left in b":,\"[]{}" {
        assert!(before_all(*left, b" 0123456789"), "{}", char::from(*left));
    }
    assert!(!hard.is_hard(b'"', b'a') && !hard.is_hard(b'1', b'2'));
    assert_eq!(hard.count(&printable), 5_309);
}

#[test]
fn masks_are_the_same_with_real_vocabularies() {
    let limits = Limits::default();
    for name in ["cl100k", "llama3", "llama2", "gpt2"] {
        let Some(tokenizer) = real(name) else { continue };
        let vocabulary = Arc::clone(tokenizer.vocabulary());
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let tokenization = tokenizer.tokenization().unwrap();
        let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, tokenization).unwrap());
        let index = Arc::new(CanonicalIndex::new(automaton, trie).unwrap());
        let shared = VegasLibrary::new(&index, VegasLibrary::DEFAULT_BYTES);
        for pattern in [
            r#"\{"name": "[A-Z][a-z' -]{0,6}", "age": [1-9]?[0-9], "on": "[0-9]{4}-[0-9]{2}-[0-9]{2}"\}"#,
            r#"\{"name": "[a-zé]*", "tags": \[("[a-z-]{1,5}"(, "[a-z-]{1,5}")*)?\]\}"#,
            "([a-z_]{1,8}: [a-zA-Z0-9 ./-]+\n)*[a-z_]{1,8}: (true|false|-?[0-9]+)",
            r#""[^"\n]*"[^"]{2}"\s+don't"#,
        ] {
            let dfa = Dfa::from_pattern(pattern, &limits).unwrap();
            let build =
                |library: &VegasLibrary| VegasConstraint::new(&dfa, &index, library, &limits).unwrap();
            let plain = CanonicalConstraint::from_dfa(&dfa, &index, &limits).unwrap();
            same(&plain, &build(&shared), 250, &format!("{name}: {pattern}"));
            let bytes = shared.to_bytes();
            let again = VegasLibrary::from_bytes(&bytes, &index, 1 << 28).unwrap();
            same(&plain, &build(&again), 250, &format!("{name}, reloaded: {pattern}"));
            assert_eq!(again.stats().misses.0, 0, "{name}: {pattern}");
        }
    }
}
