//! Tokenizers with as many added tokens as other tokenizers have tokens.

use std::sync::Arc;

use unskew_automata::{CanonicalConstraint, CanonicalError, CanonicalIndex, Limits, TokenizerAutomaton};
use unskew_core::{
    AddedToken, Constraint, Merge, MergeTable, SplitBehavior, SplitPattern, TokenId, TokenMask, Tokenization,
    Vocabulary,
};
use unskew_trie::TokenTrie;

const COUNT: u32 = 100_000;

/// An index of the bytes, `ab`, and the added tokens `<|x_0|>` and so on.
fn index(special: bool) -> Arc<CanonicalIndex> {
    let mut builder = Vocabulary::builder();
    (0..=255u8).for_each(|byte| _ = builder.text(&[byte]));
    let ab = builder.text(b"ab");
    let merges = vec![Merge { left: TokenId(97), right: TokenId(98), result: ab }];
    let mut tokenization = Tokenization::default();
    tokenization.merges = MergeTable::new(merges).unwrap();
    tokenization.whole_pieces = true;
    for number in 0..COUNT {
        let content = format!("<|x_{number}|>");
        let id = if special { builder.control(&content) } else { builder.text(content.as_bytes()) };
        tokenization.added.push(AddedToken {
            id,
            content,
            special,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: number % 2 == 0,
        });
    }
    tokenization.splits.push(SplitPattern::Regex {
        pattern: "[a-z]+|[^a-z]".to_owned(),
        behavior: SplitBehavior::Isolated,
        invert: false,
    });
    let vocabulary = Arc::new(builder.build().unwrap());
    let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization).unwrap());
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    Arc::new(CanonicalIndex::new(automaton, trie).unwrap())
}

fn mask(constraint: &CanonicalConstraint, tokens: &[TokenId]) -> Vec<TokenId> {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    for token in tokens {
        constraint.advance(&mut scratch, &mut state, *token).unwrap();
    }
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(&mut scratch, &state, mask.as_mut());
    mask.ids().collect()
}

/// With a search for each token in each state this takes hours.
#[test]
fn a_hundred_thousand_added_tokens_are_followed() {
    let byte = |byte: u8| TokenId(u32::from(byte));
    let added = |number: u32| TokenId(257 + number);
    let index = index(false);
    let pattern = r"a(<\|x_[0-9]{1,5}\|>|b)*c";
    let constraint = CanonicalConstraint::new(pattern, &index, &Limits::default()).unwrap();
    assert_eq!(mask(&constraint, &[]), [byte(b'a'), TokenId(256)]);
    let all: Vec<TokenId> = (0..COUNT).map(added).collect();
    assert_eq!(mask(&constraint, &[byte(b'a')])[2..], all);
    assert_eq!(mask(&constraint, &[TokenId(256), added(77_777)])[3..], all);
    // Each of the last four texts is a token of its own, and so none is spelled.
    let constraint = CanonicalConstraint::new("[a-c]{2}", &index, &Limits::default()).unwrap();
    assert!(mask(&constraint, &[]).iter().all(|token| token.0 <= 256));
    let constraint = CanonicalConstraint::new(r"<\|x_1234\|>", &index, &Limits::default()).unwrap();
    assert_eq!(mask(&constraint, &[]), [added(1_234)]);
}

#[test]
fn a_hundred_thousand_control_tokens_are_followed() {
    let index = index(true);
    let constraint = CanonicalConstraint::new(r"<\|x_[0-9]+\|>", &index, &Limits::default());
    assert_eq!(mask(&constraint.unwrap(), &[]), [TokenId(60)]);
    // The output cannot be the text of a control token.
    let error = CanonicalConstraint::new(r"<\|x_[0-9]\|>", &index, &Limits::default()).unwrap_err();
    assert!(matches!(error, CanonicalError::NothingCanonical { .. }), "{error}");
}
