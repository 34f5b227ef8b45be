//! Long regexes of a few repeated parts, such as chains of nullable parts and products of repetitions. The
//! result is an error that names a limit, or masks that agree with `advance`. libFuzzer's limits of time and
//! memory bound the rest.

#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use unskew_automata::{Limits, regex};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_trie::TokenTrie;

const PARTS: [&str; 16] = [
    "a?",
    "(a|)",
    "a?b?",
    "a*b*",
    "(a*)*",
    "a{0,3}",
    "[ab]?",
    "\\w?",
    "(?:ab|a)",
    "b",
    "[^a]",
    "é*",
    "(?s).",
    "\\pL",
    "x",
    "(?:a|b|ab)+",
];
/// The greatest length of a pattern, in bytes.
const LONGEST: usize = 100_000;

#[derive(Arbitrary, Debug)]
struct Case {
    /// A part, the number of its copies, and the bounds of a repetition around them.
    parts: Vec<(u8, u16, Option<(u8, u16)>)>,
    tokens: Vec<u16>,
}

static BYTES: LazyLock<Arc<TokenTrie>> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    (0..=255).for_each(|byte| _ = builder.text(&[byte]));
    ["ab", "ba", "aaaa", "é", "xab"].iter().for_each(|text| _ = builder.text(text.as_bytes()));
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
});

fuzz_target!(|case: Case| {
    let mut pattern = String::new();
    for (part, times, bounds) in case.parts.iter().take(4) {
        let part = PARTS[usize::from(*part) % PARTS.len()].repeat(usize::from(*times) % 20_000);
        pattern += &match bounds {
            Some((least, more)) => {
                format!("(?:{part}){{{least},{}}}", u32::from(*least) + u32::from(*more) % 2_000)
            }
            None => part,
        };
    }
    if pattern.len() > LONGEST {
        return;
    }
    let trie = &*BYTES;
    // A tenth of the usual limits of work.
    let limits = Limits::default().dfa_states(5_000).dfa_steps(5_000_000).lazy_bytes(16 << 20);
    let constraint = match regex(&pattern, Arc::clone(trie), &limits) {
        Ok(constraint) => constraint.into_any(),
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    for choice in std::iter::once(&0).chain(case.tokens.iter().take(8)) {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        assert!(!mask.none() || constraint.is_accepting(&state), "a dead end");
        for id in [b'a', b'b', b'x', 0xc3].map(u32::from).into_iter().chain(256..261).map(TokenId) {
            let taken = constraint.advance(&mut scratch, &mut state.clone(), id).is_ok();
            assert_eq!(mask.contains(id), taken, "token {id}");
        }
        let allowed: Vec<_> = mask.ids().collect();
        let Some(token) = allowed.get(usize::from(*choice) % allowed.len().max(1)) else { break };
        constraint.advance(&mut scratch, &mut state, *token).unwrap();
    }
});
