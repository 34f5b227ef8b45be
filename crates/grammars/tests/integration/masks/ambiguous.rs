//! Ambiguous grammars: the cost of a token does not grow with the text, or grows linearly if readings cannot
//! be merged.

#![allow(clippy::print_stdout, reason = "figures are printed")]

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

const OPERATORS: &str = "start: start \"+\" start | start \"*\" start | \"n\" | \"(\" start \")\"";
const PAIRS: &str = "start: start start | \"a\"";

fn constraint(lark: &str) -> GrammarConstraint {
    constraint_within(lark, &GrammarLimits::default())
}

fn constraint_within(lark: &str, limits: &GrammarLimits) -> GrammarConstraint {
    let mut vocabulary = Vocabulary::builder();
    for byte in 0..=255u8 {
        vocabulary.text(&[byte]);
    }
    let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
    let grammar = from_lark(lark, &GrammarOptions::default(), limits).unwrap();
    GrammarConstraint::new(&grammar, trie, limits).unwrap()
}

/// One sequence, read byte by byte.
struct Sequence<'a> {
    constraint: &'a GrammarConstraint,
    scratch: GrammarScratch,
    state: GrammarState,
    mask: Option<TokenMask>,
}

impl<'a> Sequence<'a> {
    fn new(constraint: &'a GrammarConstraint, with_masks: bool) -> Self {
        let mask = with_masks.then(|| TokenMask::new(constraint.vocab_len()));
        Self { constraint, scratch: constraint.scratch(), state: constraint.start(), mask }
    }

    fn read(&mut self, byte: u8) {
        self.constraint.advance(&mut self.scratch, &mut self.state, TokenId(u32::from(byte))).unwrap();
        if let Some(mask) = &mut self.mask {
            self.constraint.fill_mask(&mut self.scratch, &self.state, mask.as_mut());
        }
    }
}

/// Name, grammar, beginning of a text, and the part that the text repeats. The sets of all but the last one
/// do not grow.
const GRAMMARS: [(&str, &str, &str, &str); 11] = [
    ("pairs", PAIRS, "a", "a"),
    ("operators", OPERATORS, "n", "+n*n"),
    ("operators nested", OPERATORS, "n", "+(n*(n)+n"),
    ("sums", "start: start \"+\" start | \"n\"", "n", "+n"),
    ("right", "start: \"a\" start | \"a\"", "a", "a"),
    ("left", "start: start \"a\" | \"a\"", "a", "a"),
    ("brackets", "start: \"(\" start \")\" | \"n\"", "(", "("),
    ("lists", "start: \"[\" (start (\",\" start)*)? \"]\" | \"n\"", "[n", ",[n,n]"),
    ("else", "start: \"i\" start | \"i\" start \"e\" start | \"s\"", "i", "i"),
    ("triples", "start: start start start | start start | \"a\" | \"\"", "a", "a"),
    ("palindromes", "start: \"a\" start \"a\" | \"b\" start \"b\" | \"\"", "a", "a"),
];

/// The greatest number of parser items for reading one byte and filling the next mask, over the last tenth of
/// `bytes` bytes.
fn items_at_the_end(grammar: &str, text: impl Iterator<Item = u8>, bytes: usize) -> u64 {
    let constraint = constraint(grammar);
    let mut sequence = Sequence::new(&constraint, true);
    let mut most = 0;
    for (at, byte) in text.enumerate().take(bytes) {
        let before = sequence.scratch.stats().items;
        sequence.read(byte);
        if at >= bytes - bytes / 10 {
            most = most.max(sequence.scratch.stats().items - before);
        }
    }
    most
}

/// Checks the grammars with sets of constant size, on texts of `bytes` bytes.
fn check_that_sets_do_not_grow(bytes: usize) {
    for (name, grammar, begin, again) in &GRAMMARS[..10] {
        let text = begin.bytes().chain(again.bytes().cycle());
        let most = items_at_the_end(grammar, text, bytes);
        assert!(most <= 100, "{name}: {most} items for a byte");
    }
}

#[test]
fn a_token_takes_no_more_items_in_a_long_text_than_in_a_short_one() {
    check_that_sets_do_not_grow(if cfg!(debug_assertions) { 2_500 } else { 20_000 });
}

/// If readings cannot be merged, the items per token grow linearly with the text, and not quadratically.
#[test]
fn a_token_takes_at_most_a_few_items_for_each_byte_before() {
    for (name, grammar, begin, again) in [
        GRAMMARS[10],
        ("else", "start: \"i\" start | \"i\" start \"e\" start | \"s\"", &"i".repeat(500)[..], "se"),
        ("pairs and palindromes", "start: \"a\" start \"a\" | start start | \"a\"", "a", "a"),
    ] {
        for bytes in [300, 600] {
            let text = begin.bytes().chain(again.bytes().cycle());
            let most = items_at_the_end(grammar, text, bytes);
            assert!(most <= 20 * bytes as u64, "{name}: {most} items for a byte behind {bytes}");
        }
    }
}

/// A state that moves to another scratch is as small as its sets.
#[test]
fn sequences_that_change_scratches_cost_the_same() {
    for (name, grammar, begin, again) in &GRAMMARS[..10] {
        let constraint = constraint(grammar);
        let mut scratches = [constraint.scratch(), constraint.scratch()];
        let mut state = constraint.start();
        let mut mask = TokenMask::new(constraint.vocab_len());
        let text = begin.bytes().chain(again.bytes().cycle()).take(2_500);
        for (at, byte) in text.enumerate() {
            let scratch = &mut scratches[at / 11 % 2];
            let before = scratch.stats().items;
            constraint.advance(scratch, &mut state, TokenId(u32::from(byte))).unwrap();
            constraint.fill_mask(scratch, &state, mask.as_mut());
            let items = scratch.stats().items - before;
            // About 11 bytes are read again.
            assert!(at < 2_000 || items <= 1_000, "{name}: {items} items for byte {at}");
        }
    }
}

/// A state beyond the limit has no continuation, and the error names the limit. A higher limit allows longer texts.
#[test]
fn a_state_beyond_the_limit_is_an_error_that_names_it() {
    let mut read = Vec::new();
    for state_items in [100, 200] {
        let mut limits = GrammarLimits::default();
        limits.state_items = state_items;
        let constraint = constraint_within(GRAMMARS[10].1, &limits);
        let mut sequence = Sequence::new(&constraint, true);
        let mut count = 0;
        let error = loop {
            let mask = sequence.mask.as_ref().unwrap();
            if count > 0 && mask.none() {
                assert!(!constraint.is_accepting(&sequence.state));
                assert!(!constraint.allows(&mut sequence.scratch, &sequence.state, TokenId(97)));
                let told = constraint.beyond(&mut sequence.scratch, &sequence.state);
                assert_eq!(told, Some("GrammarLimits::state_items"));
                let mut state = sequence.state.clone();
                break constraint.advance(&mut constraint.scratch(), &mut state, TokenId(97)).unwrap_err();
            }
            sequence.read(b'a');
            count += 1;
        };
        assert_eq!(error.limit, Some("GrammarLimits::state_items"));
        assert!(error.to_string().contains("GrammarLimits::state_items"), "{error}");
        read.push(count);
    }
    assert!(read[0] > 20 && read[1] > read[0] + 20 && read[1] < 400, "{read:?}");
}
