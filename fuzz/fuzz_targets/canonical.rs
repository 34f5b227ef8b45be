//! Any small tokenizer and any regex: the accepted sequences are the encodings of the accepted texts.

#![no_main]

use std::{collections::BTreeSet, sync::Arc};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use unskew_automata::{canonical::MergeOrder, CanonicalConstraint, CanonicalError, CanonicalIndex, Dfa, Limits, TokenizerAutomaton};
use unskew_core::{
    Constraint, Merge, MergeTable, SplitBehavior, SplitPattern, TokenId, Tokenization, Vocabulary,
    conformance,
};
use unskew_trie::TokenTrie;

const SPLITS: [&str; 6] =
    [r"\s+(?!\S)|\s+|'s", "a+(?!s)|s$", "aa|aas|s ", r"\p{L}+(?i:'s)?| ", "a{1,2}?", "(?=s)a|' ?"];
const LETTERS: [&str; 3] = ["ab", "as' ", "a1s"];
const LONGEST: usize = 5;

#[derive(Arbitrary, Debug)]
struct Case {
    letters: u8,
    /// New tokens, each with its two parts.
    tokens: Vec<(u8, u8)>,
    /// Tokens that no merge produces.
    wholes: Vec<(u8, u8)>,
    /// Whether all splits of a token are listed, and the pairs of merges that are exchanged.
    all_splits: bool,
    swaps: Vec<(u8, u8)>,
    whole_pieces: bool,
    passes: bool,
    split: Option<u8>,
    /// The regex, in prefix notation.
    regex: Vec<u8>,
}

/// Reads a regex from `code`.
fn regex(code: &mut impl Iterator<Item = u8>, letters: &[u8], depth: usize) -> String {
    let byte = code.next().unwrap_or(0);
    let letter = char::from(letters[usize::from(byte / 16) % letters.len()]);
    let mut part = || regex(code, letters, depth.saturating_sub(1));
    match byte % if depth == 0 { 1 } else { 8 } {
        0 | 1 => letter.to_string(),
        2 | 3 => part() + &part(),
        4 => format!("({}|{})", part(), part()),
        5 => format!("({})*", part()),
        6 => format!("({})?{letter}", part()),
        _ => format!("({}){{{},3}}", part(), byte / 16 % 4),
    }
}

/// The encoding of `text` by the definition of the encoder.
fn encode(
    text: &str,
    tokens: &[String],
    facts: &Tokenization,
    split: Option<&fancy_regex::Regex>,
    passes: bool,
) -> Vec<TokenId> {
    let mut cuts = vec![0, text.len()];
    if let Some(split) = split {
        cuts.extend(split.find_iter(text).map(Result::unwrap).flat_map(|found| [found.start(), found.end()]));
    }
    cuts.sort_unstable();
    cuts.dedup();
    let id = |text: &str| tokens.iter().position(|token| token == text).map(TokenId::from_index);
    let mut ids = Vec::new();
    for piece in cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]) {
        if let Some(whole) = id(piece).filter(|_| facts.whole_pieces) {
            ids.push(whole);
            continue;
        }
        let mut piece: Vec<TokenId> =
            piece.split("").filter_map(|letter| id(letter).filter(|_| !letter.is_empty())).collect();
        let rank = |piece: &[TokenId], at: usize| facts.merges.rank(piece[at], piece[at + 1]);
        let apply = |piece: &mut Vec<TokenId>, rank: usize, at: usize| {
            piece[at] = facts.merges.merges()[rank].result;
            piece.remove(at + 1);
        };
        if passes {
            for merge in 0..facts.merges.len() {
                let mut at = 0;
                while at + 1 < piece.len() {
                    if rank(&piece, at) == Some(merge) {
                        apply(&mut piece, merge, at);
                    }
                    at += 1;
                }
            }
        } else {
            while let Some((merge, at)) =
                (1..piece.len()).filter_map(|at| Some((rank(&piece, at - 1)?, at - 1))).min()
            {
                apply(&mut piece, merge, at);
            }
        }
        ids.extend(piece);
    }
    ids
}

fuzz_target!(|case: Case| {
    let letters = LETTERS[usize::from(case.letters) % LETTERS.len()];
    let mut tokens: Vec<String> = letters.chars().map(String::from).collect();
    let mut list: Vec<(usize, usize, usize)> = Vec::new();
    for (merged, parts) in
        case.tokens.iter().take(16).map(|t| (true, t)).chain(case.wholes.iter().take(4).map(|t| (false, t)))
    {
        let (left, right) = (usize::from(parts.0) % tokens.len(), usize::from(parts.1) % tokens.len());
        let text = format!("{}{}", tokens[left], tokens[right]);
        if text.len() <= 6 && !tokens.contains(&text) {
            list.extend(merged.then_some((left, right, tokens.len())));
            tokens.push(text);
        }
    }
    if case.all_splits {
        let made: BTreeSet<usize> = list.drain(..).map(|merge| merge.2).collect();
        for whole in made {
            for cut in 1..tokens[whole].len() {
                let part = |text: &str| tokens.iter().position(|token| token == text);
                let (left, right) = tokens[whole].split_at(cut);
                list.extend(part(left).zip(part(right)).map(|(left, right)| (left, right, whole)));
            }
        }
    }
    for (one, other) in case.swaps.iter().take(if list.is_empty() { 0 } else { 16 }) {
        let len = list.len();
        list.swap(usize::from(*one) % len, usize::from(*other) % len);
    }
    let id = TokenId::from_index;
    let mut facts = Tokenization::default();
    let merges = list.iter().map(|(left, right, result)| Merge {
        left: id(*left),
        right: id(*right),
        result: id(*result),
    });
    facts.merges = MergeTable::new(merges.collect()).unwrap();
    facts.whole_pieces = case.whole_pieces;
    let split = case.split.map(|split| SPLITS[usize::from(split) % SPLITS.len()]);
    let behavior = SplitBehavior::Isolated;
    facts.splits.extend(split.map(|split| SplitPattern::Regex {
        pattern: split.to_owned(),
        behavior,
        invert: false,
    }));
    let mut builder = Vocabulary::builder();
    tokens.iter().for_each(|text| _ = builder.text(text.as_bytes()));
    let vocabulary = Arc::new(builder.build().unwrap());
    let order = if case.passes { MergeOrder::Passes } else { MergeOrder::LowestRank };

    let pattern = regex(&mut case.regex.iter().copied(), letters.as_bytes(), 5);
    let limits = Limits::default().nfa_size(5_000).dfa_states(500);
    let Ok(dfa) = Dfa::from_pattern(&pattern, &limits) else { return };
    let automaton = match TokenizerAutomaton::with_order(&vocabulary, &facts, order) {
        Ok(automaton) => automaton,
        Err(CanonicalError::Split(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let oracle = split.map(|split| fancy_regex::Regex::new(split).unwrap());
    let mut texts = vec![String::new()];
    let mut expected = BTreeSet::new();
    while let Some(text) = texts.pop() {
        if dfa.accepts(text.as_bytes()) {
            expected.insert(encode(&text, &tokens, &facts, oracle.as_ref(), case.passes));
        }
        texts
            .extend(letters.chars().filter(|_| text.len() < LONGEST).map(|letter| format!("{text}{letter}")));
    }
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let index = CanonicalIndex::new(Arc::new(automaton), trie).unwrap();
    let constraint = CanonicalConstraint::from_dfa(&dfa, &Arc::new(index), &limits);
    let constraint = match constraint {
        Err(CanonicalError::NothingCanonical { .. }) => {
            return assert!(expected.is_empty(), "{pattern}: {expected:?}");
        }
        other => other.unwrap(),
    };
    let mut found = BTreeSet::new();
    let mut scratch = constraint.scratch();
    let mut open = vec![(Vec::new(), 0, constraint.start())];
    while let Some((sequence, len, state)) = open.pop() {
        if constraint.is_accepting(&state) {
            found.insert(sequence.clone());
        }
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| len + text.len() <= LONGEST) {
            let mut next = state.clone();
            if constraint.advance(&mut scratch, &mut next, token).is_ok() {
                open.push((sequence.iter().copied().chain([token]).collect(), len + text.len(), next));
            }
        }
    }
    assert_eq!(
        found, expected,
        "{pattern:?}, split {split:?}, tokens {tokens:?}, merges {list:?}, {order:?}"
    );
    conformance::check_constraint(&constraint, 2).unwrap();
});
