//! Canonical sequences against brute force: for random tokenizers and random constraints, the accepted sequences are
//! exactly the encodings of the accepted texts, text by text and token by token.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use crate::common::random::Random;
use crate::common::toy::{Toy, regex};
use unskew_automata::{
    CanonicalConstraint, CanonicalError, CanonicalIndex, Dfa, Limits, StateId, TokenizerAutomaton,
    canonical::{CanonicalEngine, CanonicalMemo, LazyDfa, NothingCanonical, Safety},
};
use unskew_core::{Constraint, SplitPattern, TokenId, TokenKind, TokenMask, Vocabulary, conformance};
use unskew_trie::{ByteSet, TokenTrie};

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
    CanonicalConstraint::new(pattern, &toy.index, &Limits::default())
}

/// The same tokens followed by `padding`, a kind and a text for each further token.
fn with_padding(vocabulary: &Vocabulary, padding: &[(TokenKind, String)]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    let own = (0..vocabulary.len()).map(TokenId::from_index);
    let own = own.map(|id| (vocabulary.kind(id), vocabulary.name(id).into_owned()));
    for (kind, text) in own.chain(padding.iter().cloned()) {
        match kind {
            TokenKind::Text => builder.text(text.as_bytes()),
            TokenKind::Control => builder.control(&text),
            TokenKind::Unused => builder.unused(),
        };
    }
    builder.build().unwrap()
}

/// Compares all masks of up to `limit` states.
fn same_masks(left: &CanonicalConstraint, right: &CanonicalConstraint, limit: usize, context: &str) -> usize {
    let mut scratches = [left.scratch(), right.scratch()];
    let mut seen = BTreeSet::from([Vec::new()]);
    let mut open = vec![(Vec::new(), left.start(), right.start())];
    let mut count = 0;
    while let Some((sequence, left_state, right_state)) = open.pop() {
        let [mut left_mask, mut right_mask] = [(); 2].map(|()| TokenMask::new(left.vocab_len()));
        left.fill_mask(&mut scratches[0], &left_state, left_mask.as_mut());
        right.fill_mask(&mut scratches[1], &right_state, right_mask.as_mut());
        assert_eq!(left_mask, right_mask, "{context}, behind {sequence:?}");
        count += left_mask.ids().count();
        for token in left_mask.ids() {
            let longer: Vec<TokenId> = sequence.iter().copied().chain([token]).collect();
            let (mut left_next, mut right_next) = (left_state.clone(), right_state.clone());
            left.advance(&mut scratches[0], &mut left_next, token).unwrap();
            right.advance(&mut scratches[1], &mut right_next, token).unwrap();
            if seen.len() < limit && seen.insert(longer.clone()) {
                open.push((longer, left_next, right_next));
            }
        }
    }
    count
}

/// The index of one vocabulary must not be used for another: an automaton may serve many vocabularies, which are
/// padded to other lengths or with other texts.
#[test]
fn one_automaton_serves_vocabularies_with_any_padding() {
    let texts = |prefix: &str, count: usize| -> Vec<(TokenKind, String)> {
        (0..count).map(|at| (TokenKind::Text, format!("{prefix}{}", "ab'".repeat(at % 9)))).collect()
    };
    let unused = |count: usize| vec![(TokenKind::Unused, String::new()); count];
    let mut allowed = 0;
    for seed in 0..if cfg!(debug_assertions) { 60 } else { 600 } {
        let make = || {
            let mut random = Random::new(seed + 2_000_000);
            let split = random.pick(&["", r"'s|\s+|[ab]+", "[ab]{1,2}|'"]);
            Toy::new(&mut random, "ab's ", Some(split).filter(|split| !split.is_empty()))
        };
        let shared = make();
        let mut random = Random::new(seed);
        // Several numbers of mask words, and several texts for one number.
        let mut paddings = vec![
            Vec::new(),
            unused(40),
            unused(600),
            texts("a", 600),
            texts(" '", 600),
            unused(1_200),
            texts("b", 1_200),
        ];
        for at in 0..paddings.len() {
            let other = random.below(paddings.len());
            paddings.swap(at, other);
        }
        let patterns = ["[ab' s]*", "[ab]{3,9}( s)?", &regex(&mut random, &['a', 'b', '\'', 's', ' '], 3)];
        for padding in &paddings {
            let vocabulary = Arc::new(with_padding(&shared.vocabulary, padding));
            let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
            let over = |toy: &Toy| {
                let tokenizer = Arc::clone(toy.index.automaton());
                Arc::new(CanonicalIndex::new(tokenizer, Arc::clone(&trie)).unwrap())
            };
            let indexes = [over(&shared), over(&make())];
            for pattern in patterns {
                let context = format!("seed {seed}: {pattern:?}, {} ids", vocabulary.len());
                let over = |index| CanonicalConstraint::new(pattern, index, &Limits::default());
                match (over(&indexes[0]), over(&indexes[1])) {
                    (Ok(left), Ok(right)) => allowed += same_masks(&left, &right, 40, &context),
                    (Err(left), Err(right)) => assert_eq!(left, right, "{context}"),
                    (left, right) => panic!("{context}: {left:?}, {right:?}"),
                }
            }
        }
    }
    assert!(allowed > 10_000, "{allowed}");
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

/// Compares one tokenizer under one constraint. Returns whether the constraint accepts anything.
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
    conformance::check_constraint(&constraint, 4).unwrap_or_else(|error| panic!("{context}: {error}"));
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

/// Merges that result in a control token, characters without a symbol, and pieces with such characters that are looked
/// up as a whole: for some texts the encoder writes no tokens, or tokens of another text.
#[test]
fn texts_for_which_the_encoder_writes_no_tokens_are_left_out() {
    let cases = if cfg!(debug_assertions) { 1_000 } else { 20_000 };
    let (mut unspelled, mut rewritten, mut whole) = (0, 0, 0);
    for seed in 0..cases {
        let mut random = Random::new(seed + 3_000_000);
        let split = random.pick(&["", r"\s+|a{1,2}", r"[ab]+|c| "]);
        let toy = Toy::new(&mut random, "ab ", Some(split).filter(|split| !split.is_empty()));
        let tokens = toy.texts.len();
        let never: HashSet<usize> = (3..tokens).filter(|_| random.below(4) == 0).collect();
        let more: &[&str] = [&[][..], &["ac"], &["c"], &["aca", "bé"]][random.below(4)];
        let toy = toy.changed(&never, more);
        let letters = ['a', 'b', 'c', ' ', 'é'];
        let pattern = regex(&mut random, &letters, 3);
        let pattern = if seed % 2 == 0 { pattern } else { format!("({pattern}|ac|bé|b| ){{1,3}}") };
        let context = format!("seed {seed}: {pattern:?}, split {split}, never {never:?}, {:?}", toy.texts);
        let dfa = Dfa::from_pattern(&pattern, &Limits::default()).unwrap();
        let encoder = Encoder::new(&toy);
        let is_symbol = |letter: char| "ab ".contains(letter) || letter == 'c' && more.contains(&"c");
        let encode = |text: &str| -> Option<Vec<TokenId>> {
            let mut ids = Vec::new();
            for piece in encoder.pieces(text).into_iter().filter(|piece| !piece.is_empty()) {
                let found = toy.texts.iter().position(|text| text == piece);
                match found.filter(|id| toy.tokenization.whole_pieces && !never.contains(id)) {
                    Some(id) => ids.push(TokenId::from_index(id)),
                    None => ids.extend(piece.chars().all(is_symbol).then(|| toy.merged(piece))?),
                }
            }
            (!ids.iter().any(|id| never.contains(&id.index()))).then_some(ids)
        };
        let longest = 5;
        let mut expected: BTreeSet<Vec<TokenId>> = BTreeSet::new();
        for text in texts(&letters, 4).into_iter().filter(|text| dfa.accepts(text.as_bytes())) {
            if text.len() > longest {
                continue;
            }
            match encode(&text) {
                Some(ids) => {
                    whole += usize::from(!text.chars().all(is_symbol));
                    expected.insert(ids);
                }
                None if text.chars().all(is_symbol) => rewritten += 1,
                None => unspelled += 1,
            }
        }
        let constraint = match constraint(&toy, &pattern) {
            Ok(constraint) => constraint,
            Err(CanonicalError::NothingCanonical { .. }) => {
                assert_eq!(expected, BTreeSet::new(), "{context}");
                continue;
            }
            Err(error) => panic!("{context}: {error}"),
        };
        let mut found = accepted(&constraint, &toy.vocabulary, longest);
        found.retain(|ids| String::from_utf8(toy.vocabulary.decode(ids)).unwrap().chars().count() <= 4);
        assert_eq!(found, expected, "{context}, merges {:?}", toy.tokenization.merges.merges());
        conformance::check_constraint(&constraint, 3).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    assert!(unspelled > 500 && rewritten > 400 && whole > 50, "{unspelled} {rewritten} {whole}");
}

/// Words of `a` and `b` in which `a` opens and `b` closes, with `c` inside, as an automaton without an end of states:
/// the state is how deep a text is.
struct Brackets {
    classes: [u8; 256],
}

impl Brackets {
    fn new() -> Self {
        Self { classes: std::array::from_fn(|byte| u8::try_from(byte).unwrap().clamp(b'`', b'd')) }
    }
}

impl LazyDfa for Brackets {
    fn start(&self) -> StateId {
        StateId::from_index(0)
    }

    fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
        match byte {
            b'a' => Some(StateId::from_index(state.index() + 1)),
            b'b' => state.index().checked_sub(1).map(StateId::from_index),
            b'c' => Some(state).filter(|state| state.index() > 0),
            _ => None,
        }
    }

    fn is_accepting(&self, state: StateId) -> bool {
        state == self.start()
    }

    fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    fn bytes(&self) -> ByteSet {
        b"abc".iter().copied().collect()
    }

    fn read(&self, state: StateId) -> ByteSet {
        if state == self.start() { b"a".iter().copied().collect() } else { self.bytes() }
    }

    fn live(&self, state: StateId) -> ByteSet {
        self.read(state)
    }

    fn safety(&self, _: StateId) -> Safety {
        Safety::Always
    }

    fn distance(&self, state: StateId) -> u32 {
        u32::try_from(state.index()).unwrap()
    }

    fn places(&self, _: StateId) -> u8 {
        1
    }

    fn most_positions(&self) -> usize {
        10_000
    }
}

/// An automaton whose states are made on demand and have no end: brackets may be as deep as they like.
#[test]
fn sequences_of_brackets_are_those_of_the_encoder() {
    const LONGEST: usize = 8;
    let language = Brackets::new();
    let cases = if cfg!(debug_assertions) { 150 } else { 2_000 };
    for seed in 0..cases {
        let mut random = Random::new(seed + 5_000_000);
        let split = random.pick(&["", r"\s+|a{1,2}", r"[ab]+|c", "a+|b+(?!c)|[^a]"]);
        let toy = Toy::new(&mut random, "abc", Some(split).filter(|split| !split.is_empty()));
        let context = format!("seed {seed}: split {split}, {:?}", toy.texts);
        let engine = CanonicalEngine::new(&language, &toy.index, 1 << 20);
        let encoder = Encoder::new(&toy);
        let accepts = |text: &str| {
            let end = text.bytes().try_fold(language.start(), |state, byte| language.step(state, byte));
            end.is_some_and(|end| language.is_accepting(end))
        };
        let all = texts(&['a', 'b', 'c'], LONGEST).into_iter().filter(|text| accepts(text));
        let expected: BTreeSet<Vec<TokenId>> = all.map(|text| encoder.encode(&text)).collect();
        let mut found = BTreeSet::new();
        let mut memo = CanonicalMemo::default();
        let mut mask = TokenMask::new(toy.vocabulary.len());
        let mut open = vec![(Vec::new(), 0, engine.start(&language))];
        while let Some((sequence, len, state)) = open.pop() {
            if engine.is_accepting(&language, &state) {
                found.insert(sequence.clone());
            }
            assert!(engine.fill_mask(&language, &mut memo, &state, mask.as_mut()), "{context}");
            assert!(
                engine.is_accepting(&language, &state) || !mask.none(),
                "{context}: a dead end {sequence:?}"
            );
            for (token, text) in toy.vocabulary.text_tokens() {
                let mut next = state.clone();
                let is_read = engine.advance(&language, &mut memo, &mut next, token).is_ok();
                assert_eq!(is_read, mask.contains(token), "{context}: {sequence:?} {token:?}");
                if is_read && len + text.len() <= LONGEST {
                    open.push(([&sequence[..], &[token]].concat(), len + text.len(), next));
                }
            }
        }
        assert_eq!(found, expected, "{context}");
    }
}

/// A search that visits too many positions is said, and leaves no answer behind.
#[test]
fn a_search_that_is_given_up_is_a_limit() {
    /// Brackets that end a thousand deep, of which no state is known to be safe.
    struct Far(Brackets);
    impl LazyDfa for Far {
        fn start(&self) -> StateId {
            self.0.start()
        }
        fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
            self.0.step(state, byte)
        }
        fn is_accepting(&self, state: StateId) -> bool {
            state.index() == 1_000
        }
        fn class(&self, byte: u8) -> u8 {
            self.0.class(byte)
        }
        fn bytes(&self) -> ByteSet {
            self.0.bytes()
        }
        fn read(&self, state: StateId) -> ByteSet {
            self.0.read(state)
        }
        fn live(&self, _: StateId) -> ByteSet {
            ByteSet::default()
        }
        fn safety(&self, _: StateId) -> Safety {
            Safety::Unknown
        }
        fn distance(&self, _: StateId) -> u32 {
            0
        }
        fn places(&self, _: StateId) -> u8 {
            1
        }
        fn most_positions(&self) -> usize {
            10
        }
    }
    let language = Far(Brackets::new());
    let toy = Toy::new(&mut Random::new(1), "abc", None);
    let engine = CanonicalEngine::new(&language, &toy.index, 1 << 20);
    let (mut memo, mut state) = (CanonicalMemo::default(), engine.start(&language));
    let before = state.clone();
    let [a] = toy.merged("a")[..] else { panic!("one letter is one token") };
    let error = engine.advance(&language, &mut memo, &mut state, a).unwrap_err();
    assert_eq!(error.limit, Some("LazyDfa::most_positions"));
    assert_eq!(state, before);
    assert_eq!(memo.bytes(), CanonicalMemo::default().bytes());
    let mut mask = TokenMask::new(toy.vocabulary.len());
    assert!(!engine.fill_mask(&language, &mut memo, &state, mask.as_mut()));
}

#[test]
fn texts_that_are_no_utf8_are_left_out() {
    let toy = Toy::new(&mut Random::new(1), "ab", None);
    let over = |choices: &[&[u8]]| CanonicalConstraint::from_choices(choices, &toy.index, &Limits::default());
    let constraint = over(&[b"ab", b"a\xff", b"\xc3", b"b"]).unwrap();
    let expected = BTreeSet::from(["ab", "b"].map(|text| toy.merged(text)));
    assert_eq!(accepted(&constraint, &toy.vocabulary, 4), expected);
    let error = over(&[b"a\xff", b"\xc3"]).unwrap_err();
    let CanonicalError::NothingCanonical { reason, .. } = error else { panic!("{error}") };
    assert_eq!(reason, NothingCanonical::Rewritten);
}

#[test]
fn the_mask_of_the_start_lies_ready() {
    let toy = Toy::new(&mut Random::new(1), "ab", None);
    let made = constraint(&toy, "a[ab]*").unwrap();
    let scratch = made.scratch();
    let ready = made.ready_mask(&scratch, &made.start()).unwrap();
    let allowed: Vec<TokenId> = ready.into_ids().collect();
    assert!(allowed.contains(&toy.merged("a")[0]), "{allowed:?}");
    // Without a mask cache there is no ready mask.
    let limits = Limits::default().mask_cache_bytes(0);
    let none_kept = CanonicalConstraint::new("a[ab]*", &toy.index, &limits).unwrap();
    assert!(none_kept.ready_mask(&none_kept.scratch(), &none_kept.start()).is_none());
    assert!(none_kept.memory_usage() < made.memory_usage());
}

#[test]
fn a_constraint_without_a_canonical_sequence_is_an_error() {
    let mut random = Random::new(1);
    let toy = Toy::new(&mut random, "ab", None);
    let error = constraint(&toy, "abc").unwrap_err();
    let CanonicalError::NothingCanonical { reason: NothingCanonical::Unspellable { missing, .. }, .. } =
        &error
    else {
        panic!("{error}");
    };
    assert_eq!(missing, b"c");
    assert_eq!(
        error.to_string(),
        "no output is both accepted and the tokenizer's own: every accepted text has a character that no token spells (no \
         token has the bytes 0x63): change the constraint"
    );
}

#[test]
fn an_index_is_of_one_tokenizer() {
    let toy = Toy::new(&mut Random::new(5), "ab", None);
    let index = |vocabulary: Vocabulary| {
        let trie = Arc::new(TokenTrie::new(vocabulary).unwrap());
        CanonicalIndex::new(Arc::clone(toy.index.automaton()), trie)
    };
    let ids = toy.vocabulary.len();
    let made = |kinds: &[(TokenKind, &str)], last: usize| {
        let mut builder = Vocabulary::builder();
        toy.texts.iter().take(last).for_each(|text| _ = builder.text(text.as_bytes()));
        with_padding(
            &builder.build().unwrap(),
            &kinds.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect::<Vec<_>>(),
        )
    };
    let (end, last) = ((TokenKind::Control, "<end>"), &toy.texts[toy.texts.len() - 1][..]);
    let texts = toy.texts.len();
    assert!(index(made(&[end], texts)).is_ok(), "the same tokens, built again");
    assert!(index(Vocabulary::clone(&toy.vocabulary).padded(ids + 100)).is_ok());
    assert!(index(made(&[end, (TokenKind::Text, "ba"), (TokenKind::Control, "<x>")], texts)).is_ok());

    let error = index(made(&[end], texts - 1)).unwrap_err();
    let CanonicalError::VocabularyMismatch { automaton, vocabulary, .. } = error else { panic!("{error}") };
    assert_eq!((automaton, vocabulary), (ids, ids - 1));
    // The ids of the error of a vocabulary of other tokens.
    let other = |error: CanonicalError| match error {
        CanonicalError::OtherVocabulary { ids, .. } => ids,
        error => panic!("{error}"),
    };
    let longer = format!("{last}a");
    for others in [
        // Another text of the same length or of another length, a text in place of a control token, the reverse, and
        // an unused id in place of either.
        made(&[(TokenKind::Text, &"b".repeat(last.len())), end], texts - 1),
        made(&[(TokenKind::Text, &longer), end], texts - 1),
        made(&[(TokenKind::Text, "<end>")], texts),
        made(&[(TokenKind::Control, last), end], texts - 1),
        made(&[(TokenKind::Unused, ""), end], texts - 1),
        made(&[(TokenKind::Unused, "")], texts),
    ] {
        let error = index(others.padded(ids + 7)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the vocabulary's first {ids} ids are not the tokens that the tokenizer automaton was built for: give the \
                 vocabulary of the same tokenizer, or build the automaton for this vocabulary"
            )
        );
        assert_eq!(other(error), ids);
    }

    // An automaton of a padded vocabulary, whose padding must not be a token.
    let own = || Vocabulary::clone(&toy.vocabulary);
    let wide = own().padded(ids + 9);
    let automaton = Arc::new(TokenizerAutomaton::new(&wide, &toy.tokenization).unwrap());
    let filled = made(&[end, (TokenKind::Text, "ba")], texts).padded(ids + 9);
    let index = |vocabulary: &Vocabulary| {
        let trie = Arc::new(TokenTrie::new(vocabulary.clone()).unwrap());
        CanonicalIndex::new(Arc::clone(&automaton), trie)
    };
    assert!(index(&wide).is_ok() && index(&own().padded(ids + 30)).is_ok());
    assert_eq!(other(index(&filled).unwrap_err()), ids + 9);
}
