//! Grammars of a few rules, most of them ambiguous, and documents of thousands of tokens. Every token that
//! the mask allows is accepted, or the limit of a parser state ends the document. libFuzzer's limits of time
//! and memory bound the growth.

#![no_main]

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use unskew_core::{Constraint, TokenMask, Vocabulary};
use unskew_fuzz::Choices;
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

/// The greatest length of a document, in tokens.
const LONGEST: usize = 2_000;
const TERMINALS: [&str; 6] = ["\"a\"", "\"b\"", "\"(\"", "\")\"", "\"+\"", "/a+/"];
const RULES: [&str; 3] = ["start", "x", "y"];

static LETTERS: LazyLock<Arc<TokenTrie>> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    ["a", "b", "(", ")", "+", "aa", "(a", "a)", "+a"]
        .iter()
        .for_each(|text| _ = builder.text(text.as_bytes()));
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
});

fuzz_target!(|bytes: &[u8]| {
    let mut code = Choices::new(bytes);
    let mut text = String::new();
    for rule in RULES {
        let _ = write!(text, "{rule}:");
        for _ in 0..1 + code.next(4) {
            for _ in 0..code.next(5) {
                let symbols = if code.next(2) == 0 { &RULES[..] } else { &TERMINALS[..] };
                text += " ";
                text += code.pick(symbols);
            }
            text += " |";
        }
        // Gives each rule a text.
        text += " \"a\"\n";
    }
    let mut limits = GrammarLimits::default();
    limits.state_items = 20_000;
    let grammar = match from_lark(&text, &GrammarOptions::default(), &limits) {
        Ok(grammar) => grammar,
        Err(error) => panic!("{error}\n{text}"),
    };
    let trie = &*LETTERS;
    let made = GrammarConstraint::new(&grammar, Arc::clone(trie), &limits);
    let constraint = match made {
        Ok(constraint) => constraint,
        Err(GrammarError::Empty { .. }) => return,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}\n{text}"),
    };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(trie.vocab_len());
    // The choices are used again and again.
    let (mut at, tail) = (0, code.rest());
    for _ in 0..LONGEST {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let allowed: Vec<_> = mask.ids().collect();
        if allowed.is_empty() {
            break;
        }
        let choice = tail.get(at % tail.len().max(1)).copied().unwrap_or(0);
        at += 1;
        let token = allowed[usize::from(choice) % allowed.len()];
        constraint.advance(&mut scratch, &mut state, token).unwrap();
    }
});
