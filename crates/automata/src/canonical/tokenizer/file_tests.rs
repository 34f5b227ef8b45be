//! Saved automata: a round trip restores the automaton, and no contents of a file cause a panic.
//!
//! Files are damaged in three ways: with the old checksum, so that the checksum finds the damage; with a corrected
//! checksum, so that only the checks of the contents remain; and by reading the file of another tokenizer.

use std::{collections::BTreeSet, io::BufReader, sync::Arc, time::Instant};

use twox_hash::XxHash3_64;
use unskew_core::{
    AddedToken, Constraint, Merge, MergeTable, Normalizer, SplitBehavior, SplitPattern, Symbols, TokenId,
    TokenMask, Tokenization, UnicodeForm, Vocabulary,
};
use unskew_trie::TokenTrie;

use super::files;
use crate::Limits;
use crate::canonical::{
    AutomatonFileError, CanonicalConstraint, CanonicalIndex, MergeOrder, TokenizerAutomaton,
    testing::{Listing, Random, table},
};

/// A tokenizer over a few letters with every kind of token.
fn toy(seed: u64) -> (Vocabulary, Tokenization, MergeOrder) {
    let mut random = Random::new(seed);
    let listing = [Listing::Proper, Listing::AllSplits, Listing::Shuffled][random.below(3)];
    let letters = 1 + random.below(3);
    let count = random.below(16);
    let (texts, merges) = table(&mut random, letters, count, listing);
    let mut builder = Vocabulary::builder();
    for text in &texts {
        builder.text(text);
    }
    let mut tokenization = Tokenization::default();
    tokenization.merges = merges;
    tokenization.whole_pieces = random.below(2) == 0;
    builder.text(b"abba");
    builder.unused();
    if random.below(2) == 0 {
        let fallback = "é".bytes().map(|byte| (byte, builder.text(&[byte])));
        tokenization.symbols = Symbols::Characters { fallback: fallback.collect() };
    }
    if random.below(2) == 0 {
        let pattern = ["a+", r"b|\s+(?!\S)|\s+", "[ab]{1,2}"][random.below(3)].to_owned();
        let behavior = SplitBehavior::Isolated;
        tokenization.splits.push(SplitPattern::Regex { pattern, behavior, invert: false });
    }
    if random.below(2) == 0 {
        tokenization.normalizers.push(Normalizer::Unicode(UnicodeForm::Nfc));
    }
    for (content, special) in [("<end>", true), ("[x]", false)].into_iter().take(random.below(3)) {
        let id = if special { builder.control(content) } else { builder.text(content.as_bytes()) };
        let content = content.to_owned();
        let [lstrip, rstrip, normalized] = [(); 3].map(|()| random.below(2) == 0);
        let single_word = false;
        if !special {
            tokenization.unwritten.push(id);
        }
        tokenization.added.push(AddedToken { id, content, special, single_word, lstrip, rstrip, normalized });
    }
    let order = if random.below(4) == 0 { MergeOrder::Passes } else { MergeOrder::LowestRank };
    (builder.build().unwrap(), tokenization, order)
}

/// The same bytes with a correct checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some((header, summed)) = bytes.split_at_mut_checked(24) {
        header[16..].copy_from_slice(&XxHash3_64::oneshot(summed).to_le_bytes());
    }
    bytes
}

/// Asks for masks and takes steps, right or wrong, for constraints that use all parts of the automaton.
fn walk(automaton: TokenizerAutomaton, trie: &Arc<TokenTrie>) {
    let automaton = Arc::new(automaton);
    let index = Arc::new(CanonicalIndex::new(Arc::clone(&automaton), Arc::clone(trie)).unwrap());
    for pattern in ["[ab éx]*", "[ab]{3,5}(é|c)?"] {
        let constraint = CanonicalConstraint::new(pattern, &index, &Limits::default());
        let Ok(constraint) = constraint else { continue };
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut mask = TokenMask::new(constraint.vocab_len());
        for step in 0..4 {
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            for token in 0..constraint.vocab_len() {
                constraint.allows(&mut scratch, &state, TokenId::from_index(token));
            }
            let allowed: Vec<TokenId> = mask.ids().collect();
            let Some(token) = allowed.get(step * 7 % allowed.len().max(1)) else { break };
            if constraint.advance(&mut scratch, &mut state, *token).is_err() {
                break;
            }
        }
    }
    for token in (0..automaton.vocab_len()).map(TokenId::from_index) {
        automaton.forbidden_after(token);
    }
}

#[test]
fn what_is_loaded_is_what_was_saved() {
    let mut roles = BTreeSet::new();
    for seed in 0..500 {
        let (vocabulary, tokenization, order) = toy(seed);
        let saved = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap();
        let bytes = saved.to_bytes();
        let loaded = TokenizerAutomaton::from_bytes(&bytes, &vocabulary, &tokenization).unwrap();
        assert_eq!(loaded.to_bytes(), bytes, "seed {seed}");
        assert_eq!(loaded.roles, saved.roles, "seed {seed}");
        assert_eq!((&loaded.merged, &loaded.only_whole), (&saved.merged, &saved.only_whole), "seed {seed}");
        assert_eq!(loaded.bigrams, saved.bigrams, "seed {seed}");
        assert_eq!((&loaded.split, &loaded.text), (&saved.split, &saved.text), "seed {seed}");
        assert_eq!((&loaded.symbols, &loaded.fallback), (&saved.symbols, &saved.fallback), "seed {seed}");
        assert_eq!(loaded.vocabulary_fingerprint, saved.vocabulary_fingerprint, "seed {seed}");
        assert_eq!((&loaded.added, loaded.form), (&saved.added, saved.form), "seed {seed}");
        assert_eq!(loaded.whole.sequences(), saved.whole.sequences(), "seed {seed}");
        roles.extend(saved.roles.iter().map(|role| *role as u8));

        // Padding belongs to the vocabulary, not to the tokenizer.
        let padded = vocabulary.padded(300);
        let wide = TokenizerAutomaton::from_bytes(&bytes, &padded, &tokenization).unwrap();
        assert_eq!((wide.vocab_len(), wide.to_bytes()), (300, bytes.clone()), "seed {seed}");
        let built = TokenizerAutomaton::with_order(&padded, &tokenization, order).unwrap();
        assert_eq!(built.to_bytes(), bytes, "seed {seed}");
        assert_eq!(built.bigrams, wide.bigrams, "seed {seed}");
    }
    assert_eq!(roles.len(), 4, "the tokenizers have tokens of all roles");
}

#[test]
fn damaged_files_are_refused() {
    let (vocabulary, tokenization, order) = toy(2);
    let bytes = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap().to_bytes();
    let load = |bytes: &[u8]| TokenizerAutomaton::from_bytes(bytes, &vocabulary, &tokenization);
    load(&bytes).unwrap();
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            assert!(load(&damaged).is_err(), "byte {at}");
        }
        assert!(load(&bytes[..at]).is_err(), "{at} bytes");
        assert!(load(&summed(bytes[..at].to_vec())).is_err(), "{at} bytes");
    }
    let longer = [&bytes[..], &[0; 4]].concat();
    assert!(matches!(load(&longer), Err(AutomatonFileError::Length { .. })));
    assert!(matches!(load(b"{}"), Err(AutomatonFileError::Magic)));
    assert!(matches!(load(b"unskew canon\x04\0"), Err(AutomatonFileError::Length { len: 14, expected: 40 })));
    let mut other = bytes.clone();
    other[12] = 9;
    let error = load(&other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tokenizer automaton is of version 9 and this library reads version 4: build it again"
    );
    other = bytes.clone();
    other[60] ^= 1;
    assert!(matches!(load(&other), Err(AutomatonFileError::Checksum { .. })));
}

/// Reads in chunks of any size: words may be cut in two.
#[test]
fn a_file_is_read_in_parts_of_any_size() {
    let (vocabulary, tokenization, order) = toy(2);
    let bytes = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap().to_bytes();
    let read = |bytes: &[u8], len: usize, size: usize| {
        let input = BufReader::with_capacity(size, bytes);
        TokenizerAutomaton::read(input, len as u64, &vocabulary, &tokenization)
    };
    for size in [1, 2, 3, 5, 7, 41, 1000] {
        assert!(read(&bytes, bytes.len(), size).unwrap().to_bytes() == bytes, "{size} bytes at a time");
    }
    // A file that gets shorter while it is read.
    let error = read(&bytes[..bytes.len() / 2], bytes.len(), 64).unwrap_err();
    assert!(matches!(error, AutomatonFileError::Io { .. }), "{error}");

    let path = std::env::temp_dir().join(format!("unskew-none-{}.automaton", std::process::id()));
    let error = TokenizerAutomaton::load(&path, &vocabulary, &tokenization).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap().save(&path).unwrap();
    let loaded = TokenizerAutomaton::load(&path, &vocabulary, &tokenization).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(loaded.to_bytes() == bytes);
}

#[test]
fn foreign_contents_never_panic() {
    let (mut refused, mut taken) = (0, 0);
    let cases = if cfg!(debug_assertions) { 8 } else { 30 };
    for seed in 0..cases {
        let (vocabulary, mut tokenization, order) = toy(seed);
        // The automaton of the Unicode form is large and not part of the file.
        tokenization.normalizers.clear();
        let bytes = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap().to_bytes();
        let trie = Arc::new(TokenTrie::new(vocabulary).unwrap());
        let mut random = Random::new(seed);
        for at in (40..bytes.len()).step_by(4) {
            // The tables of bytes and transitions are long and uniform.
            if at > 1200 && random.below(16) > 0 {
                continue;
            }
            let mut changed = bytes.clone();
            let word = u32::from_le_bytes(changed[at..at + 4].try_into().unwrap());
            let numbers = [0, 1, word.wrapping_add(1), word.wrapping_sub(1), u32::MAX, 1 << 31, 7];
            let number = numbers[random.below(numbers.len())];
            changed[at..at + 4].copy_from_slice(&number.to_le_bytes());
            if random.below(2) == 0 {
                let other = 40 + random.below(bytes.len() - 40);
                changed[other] = u8::try_from(random.below(256)).unwrap();
            }
            match TokenizerAutomaton::from_bytes(&summed(changed), trie.vocabulary(), &tokenization) {
                Ok(automaton) => {
                    walk(automaton, &trie);
                    taken += 1;
                }
                Err(AutomatonFileError::Invalid { .. } | AutomatonFileError::OtherTokenizer { .. }) => {
                    refused += 1;
                }
                Err(error) => panic!("seed {seed}, {at}: {error}"),
            }
        }
    }
    assert!(refused > 1000 && taken > 100, "{refused} refused, {taken} taken");
}

#[test]
fn a_file_belongs_to_one_tokenizer() {
    let (vocabulary, tokenization, order) = toy(5);
    let automaton = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap();
    let bytes = automaton.to_bytes();
    let refused = |vocabulary: &Vocabulary, tokenization: &Tokenization| {
        let loaded = TokenizerAutomaton::from_bytes(&bytes, vocabulary, tokenization);
        assert!(matches!(loaded, Err(AutomatonFileError::OtherTokenizer { .. })));
    };
    let mut builder = Vocabulary::builder();
    for (token, text) in vocabulary.text_tokens() {
        while builder.text(if token.0 == 0 { b"z" } else { text }) < token {}
    }
    refused(&builder.build().unwrap(), &tokenization);
    let mut other = tokenization.clone();
    other.whole_pieces ^= true;
    refused(&vocabulary, &other);
    let (left, right) = (TokenId(0), TokenId(1));
    let more = Merge { left, right: left, result: right };
    let merges = tokenization.merges.merges().iter().copied().filter(|merge| merge.left != merge.right);
    other.merges = MergeTable::new(merges.chain([more]).collect()).unwrap();
    refused(&vocabulary, &other);
    other = tokenization.clone();
    other.splits.push(SplitPattern::PrefixSpace);
    refused(&vocabulary, &other);
    other = tokenization.clone();
    other.normalizers.push(Normalizer::Prepend("a".to_owned()));
    refused(&vocabulary, &other);
    other = tokenization.clone();
    other.symbols = Symbols::Characters { fallback: vec![(0, TokenId(0))] };
    refused(&vocabulary, &other);
    // The fingerprint of a fixed tokenizer: it is a constant of the format.
    let mut builder = Vocabulary::builder();
    builder.text(b"a");
    builder.control("<end>");
    let print = super::fingerprint::fingerprint(
        &builder.build().unwrap().padded(9),
        &Tokenization::default(),
        MergeOrder::LowestRank,
    );
    assert_eq!(print, FINGERPRINT);
}

const FINGERPRINT: u64 = 126_748_315_032_502_159;

/// The tokenizers of well-known models, where their files are available.
#[test]
#[allow(clippy::print_stdout, reason = "a skipped or measured test says so")]
fn well_known_tokenizers_are_saved_and_loaded() {
    for (name, file) in files::tokenizer_files() {
        let tokenizer = unskew_vocab::Tokenizer::from_file(file).unwrap();
        let Ok(tokenization) = tokenizer.tokenization() else { continue };
        let vocabulary = tokenizer.vocabulary();
        let begin = Instant::now();
        let saved = match TokenizerAutomaton::new(vocabulary, tokenization) {
            Ok(automaton) => automaton,
            Err(error) => {
                println!("{name}: skipped: {error}");
                continue;
            }
        };
        let built = begin.elapsed();
        let path = std::env::temp_dir().join(format!("unskew-{name}-{}.automaton", std::process::id()));
        saved.save(&path).unwrap();
        let mut best = None;
        for _ in 0..if cfg!(debug_assertions) { 1 } else { 20 } {
            let begin = Instant::now();
            let loaded = TokenizerAutomaton::load(&path, vocabulary, tokenization).unwrap();
            let time = begin.elapsed();
            best = Some(best.map_or(time, |best: std::time::Duration| best.min(time)));
            assert_eq!(loaded.bigrams, saved.bigrams, "{name}");
            assert!(loaded.to_bytes() == saved.to_bytes(), "{name}");
        }
        let begin = Instant::now();
        super::fingerprint::fingerprint(vocabulary, tokenization, MergeOrder::LowestRank);
        let fingerprint = begin.elapsed();
        let len = std::fs::metadata(&path).unwrap().len();
        std::fs::remove_file(&path).unwrap();
        println!(
            "{name}: {} ids, {} merges: {len} bytes, built in {built:?}, loaded in {:?} (fingerprint {fingerprint:?})",
            vocabulary.len(),
            tokenization.merges.len(),
            best.unwrap()
        );
    }
}
