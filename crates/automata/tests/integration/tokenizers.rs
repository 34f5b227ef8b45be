//! Canonical sequences of real tokenizers, with the tokenizers library as the judge: `encode(decode(ids)) = ids`.
//!
//! The tokenizers of well-known models are tested if their files are present (`UNSKEW_DATA`). Small ones of every
//! kind are always tested, with merges drawn from `UNSKEW_SEEDS` seeds. `UNSKEW_WALKS` and `UNSKEW_TEXTS` set the
//! amount of work for each.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]

mod by_need;

use std::{collections::HashSet, sync::LazyLock, time::Instant};

use crate::common::{Random, Subject, built, known, number, texts};
use unskew_automata::{CanonicalConstraint, CanonicalError, TokenizerAutomaton};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_vocab::Tokenizer;

static KNOWN: LazyLock<Vec<Subject>> = LazyLock::new(known);

static BUILT: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let seeds = number("UNSKEW_SEEDS", 1);
    let all = (0..u64::try_from(seeds).unwrap()).flat_map(built::all);
    // A debug build has time for only some of them.
    let all = all.step_by(if DEBUG { 5 } else { 1 });
    all.map(|built| {
        let load = |file: &serde_json::Value| {
            Tokenizer::from_bytes(file.to_string().as_bytes())
                .unwrap_or_else(|error| panic!("{}: {error}", built.name))
        };
        Subject::new(&built.name, load(&built.file), built.judge.as_ref().map(load))
            .unwrap_or_else(|error| panic!("{}: {error}", built.name))
    })
    .collect()
});

/// Patterns of outputs in practice, and awkward ones.
const PATTERNS: [&str; 13] = [
    r"(?s:.*)",
    r"[0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])",
    r"[a-z]{1,40}",
    r"\p{L}+( \p{L}+)*",
    r"[ \n\t\r]{0,12}x?",
    r"[a-z]+'(s|t|re|ve|m|ll|d|S|LL)[a-z]*",
    r"[0-9]{1,15}",
    r"[\p{N} ,.]{1,12}",
    r"[\p{Han}\p{Hiragana}\p{Katakana}]{1,8}",
    r"[\p{Emoji}\x{200d}\x{fe0f}]{1,6}",
    r"[A-Za-z]{1,6}['’ſ\x{212a}][sStTlLdDmM]{0,3}( |[0-9]|\n)*",
    r"(a|b|aa|ab|the|\s){0,20}",
    r#""([^"\\\x00-\x1f]|\\[nt"\\])*""#,
];

/// Patterns with many states, so that each walk sees new ones.
const LARGE: [&str; 14] = [
    r"(?s:.){1,5}",
    r"(\p{L}\p{M}{0,2} ?){1,6}",
    r#"\{"name": "[^"\\\x00-\x1f]{0,12}", "age": [1-9][0-9]{0,2}(, "tags": \[("[a-z ]{1,8}"(, "[a-z ]{1,8}"){0,3})?\])?\}"#,
    r#"\{( "[a-z]{1,6}": (-?[0-9]{1,4}|true|null|"([^"\\\x00-\x1f]|\\[nt"\\]){0,6}"),?){0,3} \}"#,
    r".{0,60}",
    r"(fn|let|if|while) [a-z_]{1,10}(\([a-z_, ]{0,12}\))? ?(\{|;|=)\n(\t| {4}| {8})?[^\n]{0,12}",
    r"[ \t]*(//|#|--)[^\n]{0,20}\r?\n\s{0,6}",
    "(  )?[a-z_]{1,20}: ([a-zA-Z0-9 ./-]{1,40}|\"[^\"\n]{0,40}\")(\n(  )?[a-z_]{1,20}: ([a-zA-Z0-9 ./-]{1,40}|\"[^\"\n]{0,40}\")){0,5}",
    "([^,\"\n\r]{0,30}|\"([^\"]|\"\"){0,30}\")(,([^,\"\n\r]{0,30}|\"([^\"]|\"\"){0,30}\")){3}",
    "[a-z][a-z0-9_]{0,15}=[^;=\n]{1,30}(; [a-z][a-z0-9_]{0,15}=[^;=\n]{1,30}){0,7}",
    "(- [^\n]{1,60}\n){1,9}- [^\n]{1,60}",
    "<think>\n(.{0,100}\n){1,3}</think>\nAnswer: [A-D]",
    "<(a|p|div|span|em|strong)( [a-z-]{2,12}=\"[^\"<>]{0,40}\"){0,3}>[^<>]{0,80}</(a|p|div|span|em|strong)>",
    r"[\p{Han}ー]{3,200}。?",
];

/// The amount of work that was done.
#[derive(Default)]
struct Counts {
    walks: usize,
    tokens: usize,
    nothing: usize,
    too_large: usize,
}

/// Draws random tokens until the output is accepted and long enough, or has no continuation.
fn walk(
    constraint: &CanonicalConstraint,
    scratch: &mut <CanonicalConstraint as Constraint>::Scratch,
    mask: &mut TokenMask,
    subject: &Subject,
    random: &mut Random,
) -> Result<Vec<TokenId>, Vec<TokenId>> {
    let most = 1 + random.below(10);
    let mut state = constraint.start();
    let mut ids: Vec<TokenId> = Vec::new();
    loop {
        let is_accepting = constraint.is_accepting(&state);
        if is_accepting && ids.len() >= most {
            return Ok(ids);
        }
        constraint.fill_mask(scratch, &state, mask.as_mut());
        let Some(token) = subject.choose(random, mask.words()) else {
            return if is_accepting { Ok(ids) } else { Err(ids) };
        };
        // A long walk ends with the first single byte that completes the output, or continues with a single byte. Now
        // and then it takes any token: acceptance may be reachable only through longer ones.
        let mut token = token;
        if ids.len() > 30 && random.below(4) > 0 {
            let mut ends = |token: &TokenId| {
                let mut state = state.clone();
                constraint.advance(scratch, &mut state, *token).is_ok() && constraint.is_accepting(&state)
            };
            let mut bytes = subject.single_bytes(mask.words());
            token = match bytes.iter().copied().find(|token| ends(token)) {
                Some(token) => token,
                None if bytes.is_empty() => token,
                None => bytes.swap_remove(random.below(bytes.len())),
            };
        }
        if ids.len() > 500 || constraint.advance(scratch, &mut state, token).is_err() {
            ids.push(token);
            return Err(ids);
        }
        ids.push(token);
    }
}

fn walks(subject: &Subject, pattern: &str, count: usize, seed: u64, counts: &mut Counts) {
    let constraint = match subject.constraint(pattern) {
        Ok(constraint) => constraint,
        Err(CanonicalError::NothingCanonical { .. }) => {
            counts.nothing += 1;
            return;
        }
        Err(CanonicalError::TooManyProductStates { .. }) => {
            counts.too_large += 1;
            return;
        }
        Err(error) => panic!("{}: {pattern}: {error}", subject.name),
    };
    let regex = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let mut random = Random::new(seed);
    let mut scratch = constraint.scratch();
    let mut mask = TokenMask::new(constraint.vocab_len());
    for _ in 0..count {
        let ids = walk(&constraint, &mut scratch, &mut mask, subject, &mut random)
            .unwrap_or_else(|ids| panic!("{pattern}: a dead end behind {}", subject.show(&ids)));
        counts.walks += 1;
        counts.tokens += ids.len();
        let bytes = subject.vocabulary.decode(&ids);
        let text =
            std::str::from_utf8(&bytes).unwrap_or_else(|_| panic!("{pattern}: {}", subject.show(&ids)));
        assert!(regex.is_match(text), "{pattern}: {}", subject.show(&ids));
        let expected = subject.encode(text);
        assert!(
            ids == expected,
            "{pattern}: {text:?}\n   walked {}\n expected {}",
            subject.show(&ids),
            subject.show(&expected)
        );
    }
}

/// Walks under all patterns. With `stride` above 1, only every `stride`-th pattern of `PATTERNS` is used. Returns the
/// number of patterns that were too large.
fn all_walks(subjects: &[Subject], count: usize, stride: usize) -> usize {
    let mut too_large = 0;
    for (index, subject) in subjects.iter().enumerate() {
        let begin = Instant::now();
        let mut counts = Counts::default();
        let patterns: Vec<_> = PATTERNS.iter().skip(index % stride).step_by(stride).collect();
        for (pattern, seed) in patterns.iter().zip(0..) {
            walks(subject, pattern, count / patterns.len() + 1, seed, &mut counts);
        }
        for (pattern, seed) in LARGE.iter().zip(100..).filter(|_| stride == 1) {
            walks(subject, pattern, count / 100 + 1, seed, &mut counts);
        }
        println!(
            "{}: {} walks of {} tokens; {} patterns admit nothing, {} are too large; {:.1?}",
            subject.name,
            counts.walks,
            counts.tokens,
            counts.nothing,
            counts.too_large,
            begin.elapsed()
        );
        too_large += counts.too_large;
    }
    too_large
}

/// Encodings, other tokens for the same texts, pieces of both, and concatenations: each is accepted if and only if
/// the tokenizer writes it.
fn acceptance(subject: &Subject, count: usize, seed: u64) {
    let begin = Instant::now();
    let mut random = Random::new(seed);
    let (mut itself, mut otherwise, mut refused, mut accepted) = (0, 0, 0, 0);
    let mut previous: Vec<TokenId> = Vec::new();
    for _ in 0..count {
        let text = texts::text(&mut random, &subject.vocabulary);
        let ids = subject.encode(&text);
        if subject.vocabulary.decode(&ids) == text.as_bytes() {
            itself += 1;
            assert!(subject.accepts(&ids), "{text:?} is refused: {}", subject.show(&ids));
        } else {
            otherwise += 1;
        }
        let mut others = vec![ids.clone()];
        for _ in 0..2 {
            // Another spelling of a part of the text.
            let from = random.below(ids.len() + 1);
            let to = (from + 1 + random.below(4)).min(ids.len());
            if from < to
                && let Some(cut) = subject.cut(&mut random, &subject.vocabulary.decode(&ids[from..to]))
            {
                others.push([&ids[..from], &cut, &ids[to..]].concat());
            }
        }
        others.push(ids[..random.below(ids.len() + 1)].to_vec());
        others.push(ids[random.below(ids.len() + 1)..].to_vec());
        let joint = random.below(previous.len() + 1);
        others.push([&previous[..joint], &ids[random.below(ids.len() + 1)..]].concat());
        let token = TokenId::from_index(random.below(subject.vocabulary.len()));
        others.push([&ids[..random.below(ids.len() + 1)], &[token]].concat());
        for other in others {
            let expected = subject.is_canonical(&other);
            *(if expected { &mut accepted } else { &mut refused }) += 1;
            assert!(
                subject.accepts(&other) == expected,
                "{} is right for {}, which spells {:?}",
                expected,
                subject.show(&other),
                String::from_utf8_lossy(&subject.vocabulary.decode(&other)),
            );
        }
        previous = ids;
    }
    println!(
        "{}: {itself} texts that stay, {otherwise} that do not; {accepted} sequences accepted, {refused} refused, {:.1?}",
        subject.name,
        begin.elapsed()
    );
}

/// In random states, the mask contains exactly the tokens that can be read.
fn masks(subject: &Subject, patterns: &[&&str], states: usize, seed: u64) {
    let mut random = Random::new(seed);
    for pattern in patterns {
        let Ok(constraint) = subject.constraint(pattern) else { continue };
        let mut scratch = constraint.scratch();
        let mut mask = TokenMask::new(constraint.vocab_len());
        for _ in 0..states {
            let mut state = constraint.start();
            let mut ids = Vec::new();
            for _ in 0..random.below(8) {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                let Some(token) = subject.choose(&mut random, mask.words()) else { break };
                constraint.advance(&mut scratch, &mut state, token).unwrap();
                ids.push(token);
            }
            constraint.fill_mask(&mut constraint.scratch(), &state, mask.as_mut());
            for token in (0..constraint.vocab_len()).map(TokenId::from_index) {
                assert!(
                    constraint.advance(&mut scratch, &mut state.clone(), token).is_ok()
                        == mask.contains(token),
                    "{pattern}: {} behind {}",
                    subject.show(&[token]),
                    subject.show(&ids)
                );
            }
            let forced = constraint.forced(&mut scratch, &state);
            let only = mask.ids().next().filter(|_| mask.count() == 1 && !constraint.is_accepting(&state));
            assert_eq!(forced, only, "{pattern}: behind {}", subject.show(&ids));
        }
    }
}

const DEBUG: bool = cfg!(debug_assertions);

#[test]
fn walks_of_well_known_tokenizers() {
    let walks = number("UNSKEW_WALKS", if DEBUG { 200 } else { 20_000 });
    assert_eq!(all_walks(&KNOWN, walks, if DEBUG { 8 } else { 1 }), 0, "no pattern is too large");
}

#[test]
fn walks_of_small_tokenizers() {
    let walks = number("UNSKEW_WALKS", if DEBUG { 40 } else { 2_000 });
    let too_large = all_walks(&BUILT, walks, if DEBUG { 8 } else { 1 });
    assert!(too_large < BUILT.len(), "few patterns are too large");
}

#[test]
fn encodings_of_well_known_tokenizers() {
    let texts = number("UNSKEW_TEXTS", if DEBUG { 200 } else { 10_000 });
    KNOWN.iter().zip(0..).for_each(|(subject, seed)| acceptance(subject, texts, seed));
}

#[test]
fn encodings_of_small_tokenizers() {
    let texts = number("UNSKEW_TEXTS", if DEBUG { 30 } else { 2_000 });
    BUILT.iter().zip(0..).for_each(|(subject, seed)| acceptance(subject, texts, seed));
}

#[test]
fn masks_have_the_tokens_that_can_be_read() {
    let (states, stride) = if DEBUG { (2, PATTERNS.len()) } else { (6, 3) };
    for (subject, seed) in KNOWN.iter().chain(&*BUILT).zip(0u64..) {
        let skipped = usize::try_from(seed).unwrap() % stride;
        let patterns: Vec<_> = PATTERNS.iter().skip(skipped).step_by(stride).collect();
        masks(subject, &patterns, states, seed);
    }
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let mut messages = HashSet::new();
    for (file, expected) in built::refused() {
        let tokenizer = Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
        let error = TokenizerAutomaton::new(tokenizer.vocabulary(), tokenizer.tokenization().unwrap())
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        messages.insert(error);
    }
    assert_eq!(messages.len(), built::refused().len(), "each is said in words of its own");
}
