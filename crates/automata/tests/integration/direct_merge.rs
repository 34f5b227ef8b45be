//! DirectMerge against brute force: the accepted sequences are those that a plain tokenizer writes for the texts of
//! the language, over random regexes and random merge tables. Also the published example of two names.

use std::{collections::BTreeSet, sync::Arc};

use unskew_automata::{
    Dfa, Limits, StateId, TokenDfa, debug,
    published::{InitialTokens, LiftedDfa, MergedDfa, PublishedError, PublishedLimits},
};
use unskew_core::{Merge, MergeTable, TokenId, Vocabulary, conformance};
use unskew_testdata::two_names;
use unskew_trie::TokenTrie;

/// A small generator (splitmix64) with the same cases everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A random regex over the first `letters` letters.
fn pattern(random: &mut Random, letters: usize, depth: usize) -> String {
    let letter = |random: &mut Random| ["a", "b", "c"][random.below(letters)].to_owned();
    if depth == 0 {
        return letter(random);
    }
    let part = |random: &mut Random| pattern(random, letters, depth - 1);
    match random.below(10) {
        0..=1 => letter(random),
        2..=4 => format!("{}{}", part(random), part(random)),
        5..=6 => format!("(?:{}|{})", part(random), part(random)),
        7 => format!("(?:{})*", part(random)),
        8 => format!("(?:{}){}", part(random), random.pick(&["?", "+", "{2}", "{1,3}", "{3,}"])),
        _ => ["[a-c]", "[ab]", "[a-c]*", "[a-c]{2,5}"][random.below(4)]
            .replace("a-c", ["a", "ab", "a-c"][letters - 1]),
    }
}

/// A tokenizer as data: the text of each id, and the merges.
#[derive(Debug)]
struct Table {
    texts: Vec<String>,
    merges: MergeTable,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// As training builds it: each merge is of two existing tokens, and its result is new.
    Proper,
    /// Several merges may have one result, if two splits of a token are both listed.
    Shared,
    /// As `Shared`, in any order: a merge may come before those that produce its tokens.
    Shuffled,
    /// Results are any tokens, independent of their texts: a letter, one of the two tokens, or one of several.
    Arbitrary,
}

impl Table {
    fn random(random: &mut Random, letters: usize, merges: usize, kind: Kind) -> Self {
        let mut texts: Vec<String> =
            ["a", "b", "c"][..letters].iter().map(|text| (*text).to_owned()).collect();
        let mut list: Vec<Merge> = Vec::new();
        for _ in 0..20 * merges {
            if list.len() == merges {
                break;
            }
            let mut pair = [random.below(texts.len()), random.below(texts.len())];
            if random.below(4) == 0 {
                pair[1] = pair[0]; // of a token with itself
            }
            let text = format!("{}{}", texts[pair[0]], texts[pair[1]]);
            let known = texts.iter().position(|other| *other == text);
            let [left, right] = pair.map(TokenId::from_index);
            let again = list.iter().any(|merge| (merge.left, merge.right) == (left, right));
            if again || text.len() > 6 || (kind == Kind::Proper && known.is_some()) {
                continue;
            }
            let result = match kind {
                Kind::Arbitrary => random.below(texts.len() + 1),
                _ => known.unwrap_or(texts.len()),
            };
            if result == texts.len() {
                texts.push(text);
            }
            list.push(Merge { left, right, result: TokenId::from_index(result) });
        }
        if kind == Kind::Shuffled {
            for at in (1..list.len()).rev() {
                list.swap(at, random.below(at + 1));
            }
        }
        Self { texts, merges: MergeTable::new(list).unwrap() }
    }

    fn vocabulary(&self) -> Vocabulary {
        let mut builder = Vocabulary::builder();
        self.texts.iter().for_each(|text| _ = builder.text(text.as_bytes()));
        builder.build().unwrap()
    }

    /// The oracle: each merge once, in order of rank, as one pass from left to right.
    fn tokenise(&self, text: &str) -> Vec<TokenId> {
        let mut tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(u32::from(byte - b'a'))).collect();
        for merge in self.merges.merges() {
            let mut out = Vec::with_capacity(tokens.len());
            let mut at = 0;
            while at < tokens.len() {
                if tokens[at] == merge.left && tokens.get(at + 1) == Some(&merge.right) {
                    out.push(merge.result);
                    at += 2;
                } else {
                    out.push(tokens[at]);
                    at += 1;
                }
            }
            tokens = out;
        }
        tokens
    }
}

/// Every text of at most `longest` of the first `letters` letters.
fn texts(letters: usize, longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut at = 0;
    while at < all.len() {
        if all[at].len() < longest {
            for letter in &["a", "b", "c"][..letters] {
                all.push(format!("{}{letter}", all[at]));
            }
        }
        at += 1;
    }
    all
}

/// Every accepted sequence of total `price` at most `budget`.
fn accepted(merged: &MergedDfa, budget: usize, price: impl Fn(TokenId) -> usize) -> BTreeSet<Vec<TokenId>> {
    let mut found = BTreeSet::new();
    let mut open = vec![(merged.start(), vec![], budget)];
    while let Some((state, sequence, left)) = open.pop() {
        for (token, target) in merged.edges(state) {
            if let Some(left) = left.checked_sub(price(token)) {
                let mut longer = sequence.clone();
                longer.push(token);
                open.push((target, longer, left));
            }
        }
        if merged.is_accepting(state) {
            found.insert(sequence);
        }
    }
    found
}

/// Asserts that the automaton is reachable, co-accessible, minimal (by filling in the table of pairs), and numbered
/// breadth-first.
fn check_form(merged: &MergedDfa) {
    let mut order = vec![merged.start()];
    let mut at = 0;
    while let Some(state) = order.get(at).copied() {
        at += 1;
        let mut previous = None;
        for (token, target) in merged.edges(state) {
            assert!(previous.replace(token) < Some(token), "edges are in order, and each token occurs once");
            if !order.contains(&target) {
                order.push(target);
            }
        }
    }
    assert_eq!(order, merged.states().collect::<Vec<_>>(), "reachable, and numbered breadth-first");

    let mut completable: BTreeSet<StateId> =
        merged.states().filter(|state| merged.is_accepting(*state)).collect();
    let mut different = BTreeSet::new();
    loop {
        let before = completable.len() + different.len();
        for state in merged.states() {
            if merged.edges(state).any(|(_, target)| completable.contains(&target)) {
                completable.insert(state);
            }
            for other in merged.states().filter(|other| *other < state) {
                let tokens = merged.edges(state).chain(merged.edges(other)).map(|(token, _)| token);
                let told_apart = tokens.into_iter().any(|token| {
                    match (merged.step(state, token), merged.step(other, token)) {
                        (Some(left), Some(right)) => different.contains(&(left.max(right), left.min(right))),
                        (left, right) => left != right,
                    }
                });
                if told_apart || merged.is_accepting(state) != merged.is_accepting(other) {
                    different.insert((state, other));
                }
            }
        }
        if completable.len() + different.len() == before {
            break;
        }
    }
    assert_eq!(completable.len(), merged.len(), "every state reaches an accepting one");
    assert_eq!(different.len(), merged.len() * (merged.len() - 1) / 2, "no two states are equal");
}

/// Runs `cases` cases of one kind; returns how many sequences were compared.
fn compare(kind: Kind, cases: usize, seed: u64) -> usize {
    let all_texts = [texts(1, 8), texts(2, 8), texts(3, 6)];
    let limits = Limits::default();
    let mut random = Random(seed);
    let (mut done, mut compared) = (0, 0);
    while done < cases {
        let letters = 1 + random.below(3);
        let depth = 1 + random.below(4);
        let pattern = pattern(&mut random, letters, depth);
        let Ok(dfa) = Dfa::from_pattern(&pattern, &limits) else { continue };
        let merges = 1 + random.below(8);
        let table = Table::random(&mut random, letters, merges, kind);
        let longest = [8, 8, 6][letters - 1];
        let texts: Vec<&String> =
            all_texts[letters - 1].iter().filter(|text| dfa.accepts(text.as_bytes())).collect();
        if kind == Kind::Arbitrary && !is_finite_within(&dfa, longest) {
            continue;
        }

        let vocabulary = table.vocabulary();
        let symbols = InitialTokens::from_vocabulary(&vocabulary);
        let merged =
            MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &table.merges, &PublishedLimits::default())
                .unwrap();
        let expected: BTreeSet<Vec<TokenId>> = texts.iter().map(|text| table.tokenise(text)).collect();
        let found = match kind {
            // The language is finite, so all of it is compared, independent of the texts of tokens.
            Kind::Arbitrary => accepted(&merged, longest, |_| 1),
            _ => accepted(&merged, longest, |token| table.texts[token.index()].len()),
        };
        assert_eq!(found, expected, "{pattern:?} with {table:?}");
        assert!(expected.iter().all(|sequence| merged.accepts(sequence)));
        if done % 10 == 0 && merged.len() <= 40 {
            check_form(&merged);
            conformance::check_constraint(&merged, 3).unwrap();
        }
        done += 1;
        compared += expected.len();
    }
    compared
}

/// Whether all accepted texts have at most `longest` bytes.
fn is_finite_within(dfa: &Dfa, longest: usize) -> bool {
    let mut states = BTreeSet::from([dfa.start()]);
    for _ in 0..=longest {
        states = states.into_iter().flat_map(|state| dfa.edges(state).map(|edge| edge.target)).collect();
    }
    states.is_empty()
}

#[test]
fn proper_tables() {
    assert!(compare(Kind::Proper, 10_000, 1) > 400_000);
}

#[test]
fn tables_with_shared_results() {
    assert!(compare(Kind::Shared, 10_000, 2) > 400_000);
}

#[test]
fn shuffled_tables() {
    assert!(compare(Kind::Shuffled, 10_000, 3) > 400_000);
}

#[test]
fn tables_of_any_results() {
    assert!(compare(Kind::Arbitrary, 5_000, 4) > 20_000);
}

#[test]
fn equal_languages_are_equal_automata() {
    let vocabulary = two_names::vocabulary();
    let (symbols, merges, limits) =
        (InitialTokens::from_vocabulary(&vocabulary), two_names::merges(), Limits::default());
    let merged = |dfa: &Dfa| {
        MergedDfa::direct_merge(dfa, &vocabulary, &symbols, &merges, &PublishedLimits::default()).unwrap()
    };
    let left = merged(&Dfa::from_pattern(two_names::PATTERN, &limits).unwrap());
    let right = merged(&Dfa::from_literals(two_names::NAMES, &limits).unwrap());
    assert_eq!(left, right);
    assert_ne!(left, merged(&Dfa::from_pattern("(?: William| Theodore)?", &limits).unwrap()));
    conformance::check_constraint(&left, 4).unwrap();
}

/// The published figures count the two ends separately, so each automaton has one state more: 17 with 48 edges, and 5
/// with 4. A test of the module `direct_merge` builds the automata with separate ends.
#[test]
fn two_names() {
    let vocabulary = Arc::new(two_names::vocabulary());
    let limits = Limits::default();
    let dfa = Arc::new(Dfa::from_pattern(two_names::PATTERN, &limits).unwrap());
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let merged = MergedDfa::direct_merge(
        &dfa,
        &vocabulary,
        &symbols,
        &two_names::merges(),
        &PublishedLimits::default(),
    )
    .unwrap();
    let tokens = TokenDfa::new(dfa, trie, &limits).unwrap();
    let lifted = LiftedDfa::new(&tokens, &PublishedLimits::default()).unwrap();

    assert_eq!((lifted.len() + 1, lifted.edge_count()), (17, 48));
    assert_eq!((merged.len() + 1, merged.edge_count()), (5, 4));
    // As published: in three states of the one and in two of the other, only one token is allowed.
    assert_eq!(lifted.states().filter(|state| lifted.forced_token(*state).is_some()).count(), 3);
    assert_eq!(merged.states().filter(|state| merged.forced_token(*state).is_some()).count(), 2);

    let proper: BTreeSet<Vec<TokenId>> =
        two_names::PROPER.map(|texts| texts.iter().map(|text| two_names::token(text)).collect()).into();
    assert_eq!(accepted(&merged, 9, |token| vocabulary.text(token).unwrap().len()), proper);

    // The tables in the documentation of the module.
    assert_eq!(debug::table(&lifted), include_str!("../../docs/two-names-lifted.txt"));
    assert_eq!(debug::table((&merged, &*vocabulary)), include_str!("../../docs/two-names-merged.txt"));
    insta::assert_snapshot!("two_names_bytes_dot", debug::dot(&**tokens.dfa()));
    insta::assert_snapshot!("two_names_lifted_dot", debug::dot(&lifted));
    insta::assert_snapshot!("two_names_merged_dot", debug::dot((&merged, &*vocabulary)));
}

/// The tokenizer writes each token of the example's vocabulary for the token's text.
#[test]
fn the_example_is_a_proper_tokenizer() {
    let vocabulary = two_names::vocabulary();
    let (symbols, merges, limits) =
        (InitialTokens::from_vocabulary(&vocabulary), two_names::merges(), Limits::default());
    for (token, text) in vocabulary.text_tokens() {
        let dfa = Dfa::from_literals([text], &limits).unwrap();
        let merged =
            MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &merges, &PublishedLimits::default())
                .unwrap();
        assert!(merged.accepts(&[token]), "{}", vocabulary.name(token));
        assert_eq!((merged.len(), merged.edge_count()), (2, 1));
    }
}

#[test]
fn what_no_symbol_spells_is_left_out() {
    let vocabulary = two_names::vocabulary();
    let (merges, limits) = (two_names::merges(), Limits::default());
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let merged = |pattern: &str, symbols: &InitialTokens| {
        let dfa = Dfa::from_pattern(pattern, &limits).unwrap();
        MergedDfa::direct_merge(&dfa, &vocabulary, symbols, &merges, &PublishedLimits::default())
    };
    assert_eq!(merged("ill|x+|ix|xi", &symbols).unwrap(), merged("ill", &symbols).unwrap());
    // The empty text has no byte that could be missing.
    let empty = merged("x*", &symbols).unwrap();
    assert!(empty.accepts(&[]) && empty.edge_count() == 0);
    let error = merged("xi|yi", &symbols).unwrap_err();
    assert_eq!(error, merged("(x|y)i", &symbols).unwrap_err());
    assert!(matches!(error, PublishedError::Unspellable { missing, .. } if missing == b"xy"));

    let foreign = InitialTokens::new([(b'x', TokenId(99))]);
    let error = merged("x", &foreign).unwrap_err();
    assert_eq!(
        error.to_string(),
        "token 99 is not in the vocabulary, which has 44 ids: take symbols and merges from the same tokenizer as the \
         vocabulary"
    );
}

#[test]
fn limits_are_kept_and_named() {
    let vocabulary = two_names::vocabulary();
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let dfa = Dfa::from_pattern("[a-z TW]{0,20}", &Limits::default()).unwrap();
    let error = |limits: PublishedLimits| {
        MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &two_names::merges(), &limits).unwrap_err()
    };
    let error_of_states = error(PublishedLimits::default().merge_states(30));
    assert!(
        matches!(error_of_states, PublishedError::TooManyMergedStates { limit: 30, .. }),
        "{error_of_states}"
    );
    let error_of_edges = error(PublishedLimits::default().merge_edges(300));
    assert!(
        matches!(error_of_edges, PublishedError::TooManyMergedEdges { limit: 300, .. }),
        "{error_of_edges}"
    );
    let error_of_steps = error(PublishedLimits::default().merge_steps(1_000));
    assert!(
        matches!(error_of_steps, PublishedError::MergeTooCostly { limit: 1_000, .. }),
        "{error_of_steps}"
    );
    assert_eq!(
        error_of_states.to_string(),
        "merging makes more than 30 states (PublishedLimits::merge_states) at the merge of rank 0: make the pattern \
         smaller, or raise the limit"
    );
}
