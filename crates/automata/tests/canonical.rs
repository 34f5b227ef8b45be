//! Canonical sequences against brute force: for random tokenizers and random constraints, exactly the sequences that
//! encoding the accepted texts gives, text by text and token by token.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use unskew_automata::{
    CanonicalConstraint, CanonicalError, Dfa, Limits, MergeOrder, NothingCanonical, TokenizerAutomaton,
};
use unskew_core::{
    Constraint, Merge, MergeTable, SplitBehavior, SplitPattern, TokenId, TokenTrie, Tokenization, Vocabulary,
    laws,
};

/// A small generator: the tests need the same cases everywhere, not good random numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = random.below(2));
        random
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }

    fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

/// A tokenizer over a few characters, and the slow encoder.
struct Toy {
    texts: Vec<String>,
    vocabulary: Arc<Vocabulary>,
    tokenization: Tokenization,
    order: MergeOrder,
    split: Option<fancy_regex::Regex>,
}

impl Toy {
    fn new(random: &mut Random, letters: &str, pattern: Option<&str>) -> Self {
        let mut texts: Vec<String> = letters.chars().map(String::from).collect();
        let mut ids: HashMap<String, usize> = texts.iter().cloned().zip(0..).collect();
        let mut list: Vec<[usize; 3]> = Vec::new();
        for _ in 0..random.below(16) {
            let (left, right) = (random.below(texts.len()), random.below(texts.len()));
            let text = format!("{}{}", texts[left], texts[right]);
            if text.len() <= 6 && !ids.contains_key(&text) {
                list.push([left, right, texts.len()]);
                ids.insert(text.clone(), texts.len());
                texts.push(text);
            }
        }
        let listing = random.below(3);
        if listing > 0 {
            // All splits of all tokens.
            list.clear();
            for (id, text) in texts.iter().enumerate() {
                for cut in 1..text.len() {
                    if let (Some(left), Some(right)) = (ids.get(&text[..cut]), ids.get(&text[cut..])) {
                        list.push([*left, *right, id]);
                    }
                }
            }
        }
        if listing > 1 {
            for at in (1..list.len()).rev() {
                list.swap(at, random.below(at + 1));
            }
        }
        let id = TokenId::from_index;
        let merges = list.iter().map(|[left, right, result]| Merge {
            left: id(*left),
            right: id(*right),
            result: id(*result),
        });
        let mut tokenization = Tokenization::default();
        tokenization.merges = MergeTable::new(merges.collect()).unwrap();
        tokenization.whole_pieces = random.below(2) == 0;
        tokenization.splits.extend(pattern.map(|pattern| SplitPattern::Regex {
            pattern: pattern.to_owned(),
            behavior: SplitBehavior::Isolated,
            invert: false,
        }));
        let mut builder = Vocabulary::builder();
        texts.iter().for_each(|text| _ = builder.text(text.as_bytes()));
        builder.control("<end>");
        Self {
            vocabulary: Arc::new(builder.build().unwrap()),
            texts,
            tokenization,
            order: if random.below(2) == 0 { MergeOrder::LowestRank } else { MergeOrder::Passes },
            split: pattern.map(|pattern| fancy_regex::Regex::new(pattern).unwrap()),
        }
    }

    fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
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
            let whole = self.texts.iter().position(|text| text == piece);
            if let Some(id) = whole.filter(|_| self.tokenization.whole_pieces) {
                ids.push(TokenId::from_index(id));
                continue;
            }
            let symbol = |character: char| {
                let text = character.to_string();
                TokenId::from_index(self.texts.iter().position(|other| *other == text).unwrap())
            };
            ids.extend(self.merged(piece.chars().map(symbol).collect()));
        }
        ids
    }

    fn merged(&self, mut piece: Vec<TokenId>) -> Vec<TokenId> {
        let merges = &self.tokenization.merges;
        match self.order {
            MergeOrder::LowestRank => {
                while let Some((rank, at)) =
                    (1..piece.len()).filter_map(|at| Some((merges.rank(piece[at - 1], piece[at])?, at))).min()
                {
                    piece[at - 1] = merges.merges()[rank].result;
                    piece.remove(at);
                }
            }
            MergeOrder::Passes => {
                for merge in merges.merges() {
                    let mut at = 1;
                    while at < piece.len() {
                        if (piece[at - 1], piece[at]) == (merge.left, merge.right) {
                            piece[at - 1] = merge.result;
                            piece.remove(at);
                        }
                        at += 1;
                    }
                }
            }
        }
        piece
    }

    fn constraint(&self, pattern: &str) -> Result<CanonicalConstraint, CanonicalError> {
        let tokenizer = TokenizerAutomaton::with_order(&self.vocabulary, &self.tokenization, self.order)?;
        let trie = Arc::new(TokenTrie::new(&self.vocabulary).unwrap());
        let vocabulary = Arc::clone(&self.vocabulary);
        CanonicalConstraint::new(pattern, Arc::new(tokenizer), vocabulary, trie, &Limits::default())
    }
}

/// A random regex over `letters`.
fn regex(random: &mut Random, letters: &[char], depth: usize) -> String {
    let letter = |random: &mut Random| regex::escape(&letters[random.below(letters.len())].to_string());
    match random.below(if depth == 0 { 2 } else { 8 }) {
        0 => letter(random),
        1 => (0..1 + random.below(4)).map(|_| letter(random)).collect(),
        2 | 3 => format!("{}{}", regex(random, letters, depth - 1), regex(random, letters, depth - 1)),
        4 | 5 => format!("({}|{})", regex(random, letters, depth - 1), regex(random, letters, depth - 1)),
        6 => format!("({}){}", regex(random, letters, depth - 1), random.pick(&["*", "+", "?"])),
        _ => format!("({}){{{},3}}", regex(random, letters, depth - 1), random.below(3)),
    }
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
    let expected: BTreeSet<Vec<TokenId>> = matches.map(|text| toy.encode(&text)).collect();
    let constraint = match toy.constraint(pattern) {
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
fn a_constraint_without_a_canonical_sequence_is_an_error() {
    let mut random = Random::new(1);
    let toy = Toy::new(&mut random, "ab", None);
    let error = toy.constraint("abc").unwrap_err();
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
