//! Canonical sequences against brute force: for random tokenizers and random constraints, exactly the sequences that
//! encoding the accepted texts gives, text by text and token by token.

#[path = "common/random.rs"]
mod random;
#[path = "common/toy.rs"]
mod toy;

use std::{collections::BTreeSet, sync::Arc};

use random::Random;
use toy::{Toy, regex};
use unskew_automata::{CanonicalConstraint, CanonicalError, Dfa, Limits, NothingCanonical};
use unskew_core::{Constraint, SplitPattern, TokenId, Vocabulary, laws};

/// The slow encoder of a tokenizer.
struct Encoder<'a> {
    toy: &'a Toy,
    split: Option<fancy_regex::Regex>,
}

impl<'a> Encoder<'a> {
    fn new(toy: &'a Toy) -> Self {
        let split = toy.tokenization.splits.iter().find_map(|split| match split {
            SplitPattern::Regex { pattern, .. } => Some(fancy_regex::Regex::new(pattern).unwrap()),
            _ => None,
        });
        Self { toy, split }
    }

    fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let Some(split) = &self.split else { return vec![text] };
        let (mut pieces, mut done) = (Vec::new(), 0);
        for found in split.find_iter(text).map(Result::unwrap) {
            pieces.extend([&text[done..found.start()], found.as_str()]);
            done = found.end();
        }
        pieces.push(&text[done..]);
        pieces
    }

    fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        for piece in self.pieces(text).into_iter().filter(|piece| !piece.is_empty()) {
            let whole = self.toy.texts.iter().position(|text| text == piece);
            match whole.filter(|_| self.toy.tokenization.whole_pieces) {
                Some(id) => ids.push(TokenId::from_index(id)),
                None => ids.extend(self.toy.merged(piece)),
            }
        }
        ids
    }
}

fn constraint(toy: &Toy, pattern: &str) -> Result<CanonicalConstraint, CanonicalError> {
    let (tokenizer, vocabulary) = (Arc::clone(&toy.tokenizer), Arc::clone(&toy.vocabulary));
    CanonicalConstraint::new(pattern, tokenizer, vocabulary, Arc::clone(&toy.trie), &Limits::default())
}

/// All texts of up to `longest` letters.
fn texts(letters: &[char], longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut begin = 0;
    for _ in 0..longest {
        let end = all.len();
        for at in begin..end {
            for letter in letters {
                all.push(format!("{}{letter}", all[at]));
            }
        }
        begin = end;
    }
    all
}

/// All sequences with a text of up to `longest` bytes that the constraint accepts.
fn accepted(
    constraint: &CanonicalConstraint,
    vocabulary: &Vocabulary,
    longest: usize,
) -> BTreeSet<Vec<TokenId>> {
    let mut found = BTreeSet::new();
    let mut scratch = constraint.scratch();
    let mut open = vec![(Vec::new(), 0, constraint.start())];
    while let Some((sequence, bytes, state)) = open.pop() {
        if constraint.is_accepting(&state) {
            assert!(found.insert(sequence.clone()));
        }
        for (token, text) in vocabulary.text_tokens() {
            let mut next = state.clone();
            if bytes + text.len() <= longest && constraint.advance(&mut scratch, &mut next, token).is_ok() {
                let longer = sequence.iter().copied().chain([token]).collect();
                open.push((longer, bytes + text.len(), next));
            }
        }
    }
    found
}

/// Compares one tokenizer under one constraint. Answers whether something is accepted.
fn compare(toy: &Toy, pattern: &str, letters: &[char], longest: usize, context: &str) -> bool {
    let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
    let matches = texts(letters, longest).into_iter().filter(|text| dfa.accepts(text.as_bytes()));
    let encoder = Encoder::new(toy);
    let expected: BTreeSet<Vec<TokenId>> = matches.map(|text| encoder.encode(&text)).collect();
    let constraint = match constraint(toy, pattern) {
        Ok(constraint) => constraint,
        Err(CanonicalError::NothingCanonical { .. }) => {
            assert_eq!(expected, BTreeSet::new(), "{context}");
            return false;
        }
        Err(error) => panic!("{context}: {error}"),
    };
    let found = accepted(&constraint, &toy.vocabulary, longest);
    assert_eq!(
        found,
        expected,
        "{context}, merges {:?}, tokens {:?}",
        toy.tokenization.merges.merges(),
        toy.texts
    );
    laws::check_constraint(&constraint, 4).unwrap_or_else(|error| panic!("{context}: {error}"));
    true
}

#[test]
fn sequences_are_those_of_the_accepted_texts() {
    let cases = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let letters = random.pick(&["a", "ab", "abc"]);
        let toy = Toy::new(&mut random, letters, None);
        let letters: Vec<char> = letters.chars().collect();
        let pattern = regex(&mut random, &letters, 3);
        let longest = if letters.len() == 3 { 6 } else { 8 };
        compare(&toy, &pattern, &letters, longest, &format!("seed {seed}: {pattern}"));
    }
}

#[test]
fn pieces_are_split_where_the_tokenizer_splits() {
    let patterns = [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"\p{L}+(?i:'s)?|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"\d",
        r"\s+|a{1,2}",
        r"a+(?!s)|\s+$",
        r"aa|aas|s ",
    ];
    let alphabets = ["as' ", "a1 ", " \na", "'sa", "a11"];
    let cases = if cfg!(debug_assertions) { 600 } else { 10_000 };
    for seed in 0..cases {
        let mut random = Random::new(seed + 1_000_000);
        let letters = random.pick(&alphabets);
        let split = random.pick(&patterns);
        let mut letters: Vec<char> = letters.chars().collect();
        letters.sort_unstable();
        letters.dedup();
        let toy = Toy::new(&mut random, &letters.iter().collect::<String>(), Some(split));
        let pattern = regex(&mut random, &letters, 3);
        let longest = if letters.len() == 4 { 5 } else { 6 };
        compare(&toy, &pattern, &letters, longest, &format!("seed {seed}: {pattern:?}, split {split}"));
    }
}

#[test]
fn the_mask_of_the_start_lies_ready() {
    let toy = Toy::new(&mut Random::new(1), "ab", None);
    let made = constraint(&toy, "a[ab]*").unwrap();
    let scratch = made.scratch();
    let ready = made.ready_mask(&scratch, &made.start()).unwrap();
    let allowed: Vec<TokenId> = ready.into_ids().collect();
    assert!(allowed.contains(&toy.merged("a")[0]), "{allowed:?}");
    // Not where nothing may be kept.
    let limits = Limits { mask_cache_bytes: 0, ..Limits::default() };
    let (tokenizer, vocabulary) = (Arc::clone(&toy.tokenizer), Arc::clone(&toy.vocabulary));
    let none_kept =
        CanonicalConstraint::new("a[ab]*", tokenizer, vocabulary, Arc::clone(&toy.trie), &limits).unwrap();
    assert!(none_kept.ready_mask(&none_kept.scratch(), &none_kept.start()).is_none());
    assert!(none_kept.memory_usage() < made.memory_usage());
}

#[test]
fn a_constraint_without_a_canonical_sequence_is_an_error() {
    let mut random = Random::new(1);
    let toy = Toy::new(&mut random, "ab", None);
    let error = constraint(&toy, "abc").unwrap_err();
    assert_eq!(
        error,
        CanonicalError::NothingCanonical { reason: NothingCanonical::Unspellable { missing: vec![b'c'] } }
    );
    assert_eq!(
        error.to_string(),
        "no output is both accepted and the tokenizer's own: every accepted text has a character that no token spells (no \
         token has the bytes 0x63): change the constraint"
    );
}
