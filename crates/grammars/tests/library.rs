//! A library in long use: it keeps its limit, recently used entries stay, and threads that share it get the
//! masks of a fresh library.

use std::{sync::Arc, thread};

use peak_alloc::PeakAlloc;
use unskew_automata::Dfa;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary, Tuning};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes, and words of up to four letters.
fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    for first in "abcdefgh\"{ ".bytes() {
        for second in "abcd0123\":,".bytes() {
            builder.text(&[first, second]);
            for third in "abc\"1,".bytes() {
                builder.text(&[first, second, third]);
                builder.text(&[first, second, third, b'a']);
            }
        }
    }
    Arc::new(builder.build().unwrap())
}

/// A grammar with automata that the grammar of no other number has.
fn grammar(number: usize) -> Grammar {
    let letters = ["ab", "cd", "ef", "gh"][number % 4];
    let text = format!(
        r#"
start: "{{" member ("," member)* "}}"
member: NAME ":" (TEXT | NUMBER | list)
list: "[" [item ("," item)*] "]"
item: TEXT | list
NAME: /"[{letters}]{{1,4}}{number}"/
TEXT: /"([{letters}x]|{number}[^"\\])*"/
NUMBER: /[0-9]{{1,3}}/
"#
    );
    from_lark(&text, &GrammarOptions::default(), &GrammarLimits::default()).unwrap()
}

/// The words of the masks along a random path.
fn masks(constraint: &GrammarConstraint, seed: u64, steps: usize) -> Vec<Vec<u32>> {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut masks = Vec::new();
    for _ in 0..steps {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        masks.push(mask.as_ref().words().to_vec());
        let allowed: Vec<TokenId> = mask.ids().collect();
        if allowed.is_empty() {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let token = allowed[(random >> 33) as usize % allowed.len()];
        constraint.advance(&mut scratch, &mut state, token).unwrap();
    }
    masks
}

fn library(vocabulary: &Arc<Vocabulary>, limit: usize) -> Arc<TreeLibrary> {
    let trie = Arc::new(TokenTrie::new(Arc::clone(vocabulary)).unwrap());
    Arc::new(TreeLibrary::new(trie, limit))
}

/// One test, because the allocator counts the memory of all threads of the process.
#[test]
fn a_library_keeps_its_limit_and_its_masks() {
    the_limit_holds_for_an_allocator();
    a_full_scratch_keeps_masks_in_use();
    what_is_said_of_memory_is_what_is_held();
    threads_get_the_masks_of_a_fresh_library();
}

fn the_limit_holds_for_an_allocator() {
    const LIMIT: usize = 1 << 20;
    let limits = GrammarLimits::default();
    let vocabulary = vocabulary();
    let library = library(&vocabulary, LIMIT);
    let base = ALLOCATOR.current_usage();
    let held = || (ALLOCATOR.current_usage() - base) as f64;
    let rounds = if cfg!(debug_assertions) { 300 } else { 3_000 };
    let mut compared = 0;
    for round in 0..rounds {
        let compiled = grammar(round);
        let constraint = GrammarConstraint::with_library(&compiled, &library, &limits).unwrap();
        assert!(!masks(&constraint, round as u64, 12).is_empty());
        drop((constraint, compiled));
        let stats = library.stats();
        assert!(held() <= 1.1 * LIMIT as f64, "{} bytes are held after {round} grammars: {stats:?}", held());
        assert!(stats.bytes as f64 <= 1.1 * LIMIT as f64, "{stats:?}");
        if stats.bytes > LIMIT / 4 {
            let share = stats.bytes as f64 / held();
            assert!((0.9..1.1).contains(&share), "{share}: {} bytes are held, {stats:?}", held());
            compared += 1;
        }
    }
    let stats = library.stats();
    assert!(compared > rounds / 2 && stats.evicted > 100, "{compared} compared, {stats:?}");
    assert!(stats.hits > 0 && stats.misses > 0);
    // The first grammar is used again, and its masks are the same as at first.
    let again = grammar(0);
    let constraint = GrammarConstraint::with_library(&again, &library, &limits).unwrap();
    let fresh = self::library(&vocabulary, LIMIT);
    let expected = GrammarConstraint::with_library(&again, &fresh, &limits).unwrap();
    assert_eq!(masks(&constraint, 7, 20), masks(&expected, 7, 20));
}

/// The memory that a constraint reports is within a fifth of the memory that the allocator gave it.
fn what_is_said_of_memory_is_what_is_held() {
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    let names: String = (0..200).map(|name| format!("\"name{name:x}\" | ")).collect();
    let texts = [
        "start: /[a-z]{1,20}(-[0-9a-f]{4}){3}/ \":\" /\"([^\"\\\\]|\\\\.)*\"/".to_owned(),
        format!("start: {names} /[0-9]+/"),
        (0..100).map(|rule| format!("r{rule}: \"a\" r{} | \"b\"\n", (rule + 1) % 100)).collect::<String>()
            + "start: r0",
    ];
    for text in texts {
        let base = ALLOCATOR.current_usage();
        let constraint = {
            let grammar = from_lark(&text, &GrammarOptions::default(), &GrammarLimits::default()).unwrap();
            let trie = Arc::clone(&trie);
            Box::new(GrammarConstraint::new(&grammar, trie, &GrammarLimits::default()).unwrap())
        };
        let held = ALLOCATOR.current_usage() - base;
        let share = constraint.memory_usage() as f64 / held as f64;
        assert!((0.8..1.2).contains(&share), "{share} of {held}: {}", &text[..40]);
    }
    what_is_said_of_keys_and_differences_is_what_is_held(&trie);
}

/// The same of a grammar of keys, differences, repetitions and members in any order, before its masks and after them.
fn what_is_said_of_keys_and_differences_is_what_is_held(trie: &Arc<TokenTrie>) {
    let limits = GrammarLimits::default();
    let dfa = |pattern: &str| Arc::new(Dfa::from_pattern(pattern, &limits.regex).unwrap());
    let base = ALLOCATOR.current_usage();
    let constraint = {
        let mut builder = Grammar::builder(&limits);
        let left_out: Vec<String> = (0..100).map(|number| format!("\"ab{number}\"")).collect();
        let key = builder.distinct("key", &dfa("\"[a-h0-9]{1,40}\""), left_out.iter(), None).unwrap();
        let other = builder.difference("other", &dfa("\"[a-h: ]*\""), ["\"a\"", "\"b\""]).unwrap();
        let many = builder.bounded_repetition("many", b"{", &dfa("[ab]c|d"), b"}", 2, Some(500)).unwrap();
        let members: Vec<_> =
            (0..60).map(|number| (builder.literal(format!("m{number}")), number % 2 == 0)).collect();
        let members = builder.unordered(members, Some(other), None, 0, None);
        let (colon, comma) = (builder.literal(":"), builder.literal(","));
        let member = builder.sequence([key, colon, many, comma]);
        let list = builder.repeat(member, 0, None);
        let start = builder.rule("start");
        let body = builder.sequence([list, members]);
        builder.define(start, body);
        let grammar = builder.build(start).unwrap();
        Box::new(GrammarConstraint::new(&grammar, Arc::clone(trie), &limits).unwrap())
    };
    let held = |base: usize| ALLOCATOR.current_usage() - base;
    let share = constraint.memory_usage() as f64 / held(base) as f64;
    assert!((0.8..1.2).contains(&share), "{share} of {}", held(base));
    let before = constraint.memory_usage();
    assert!(!masks(&constraint, 3, 20).is_empty());
    let (grown, more) = (constraint.memory_usage() - before, held(base) as f64 - before as f64);
    assert!(grown > 1_000 && (0.6..1.4).contains(&(grown as f64 / more)), "{grown} of {more}");
}

/// A full scratch keeps the masks in use, and later masks stay the same.
fn a_full_scratch_keeps_masks_in_use() {
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    // Each nesting is another state.
    let grammar = from_lark(
        "start: \"[\" start* \"]\" | \"(\" start* \")\"",
        &GrammarOptions::default(),
        &GrammarLimits::default(),
    )
    .unwrap();
    let limits = |scratch_bytes| {
        let mut limits = GrammarLimits::default();
        limits.scratch_bytes = scratch_bytes;
        limits
    };
    let constraint = |bytes| {
        let trie = Arc::clone(&trie);
        GrammarConstraint::new(&grammar, trie, &limits(bytes)).unwrap()
    };
    let (small, large) = (constraint(100_000), constraint(1 << 30));
    let (mut scratch, mut others) = (small.scratch(), large.scratch());
    let (mut state, mut other) = (small.start(), large.start());
    let mut masks = [TokenMask::new(small.vocab_len()), TokenMask::new(small.vocab_len())];
    let (hot, mut made_hot) = (small.start(), 0);
    for step in 0..2_000u32 {
        let before = scratch.stats().made;
        small.fill_mask(&mut scratch, &hot, masks[0].as_mut());
        made_hot += scratch.stats().made - before;
        if step % 50 == 0 {
            (state, other) = (small.start(), large.start());
        }
        let open = b"[("[(step.wrapping_mul(0x9E37_79B1) >> 31) as usize];
        let open = TokenId(u32::from(open));
        small.advance(&mut scratch, &mut state, open).unwrap();
        large.advance(&mut others, &mut other, open).unwrap();
        small.fill_mask(&mut scratch, &state, masks[0].as_mut());
        large.fill_mask(&mut others, &other, masks[1].as_mut());
        assert_eq!(masks[0], masks[1], "after {step} brackets");
        assert!(scratch.memory_usage() < 200_000);
    }
    let stats = scratch.stats();
    assert!(stats.emptied > 3, "{stats:?}");
    assert_eq!(made_hot, 1, "the mask of the start is asked for at each step: {stats:?}");
}

fn threads_get_the_masks_of_a_fresh_library() {
    const GRAMMARS: usize = 12;
    let limits = GrammarLimits::default();
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    let grammars: Vec<Grammar> = (0..GRAMMARS).map(grammar).collect();
    let expected: Vec<Vec<Vec<u32>>> = grammars
        .iter()
        .enumerate()
        .map(|(number, grammar)| {
            let plain = GrammarConstraint::new(grammar, Arc::clone(&trie), &limits);
            masks(&plain.unwrap(), number as u64, 25)
        })
        .collect();
    // A library that keeps everything, one that drops a generation again and again, and one that keeps
    // nothing.
    for limit in [64 << 20, 100_000, 0] {
        let library = TreeLibrary::with_tuning(Arc::clone(&trie), limit, Tuning::with_all_fragments());
        let library = Arc::new(library);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (library, grammars, expected, limits) = (&library, &grammars, &expected, &limits);
                scope.spawn(move || {
                    for turn in 0..2 * GRAMMARS {
                        let number = (thread * 5 + turn * 7) % GRAMMARS;
                        let constraint =
                            GrammarConstraint::with_library(&grammars[number], library, limits).unwrap();
                        assert_eq!(masks(&constraint, number as u64, 25), expected[number]);
                    }
                });
            }
        });
        let stats = library.stats();
        assert_eq!(stats.evicted > 0, limit < 1 << 20, "{stats:?}");
    }
}
