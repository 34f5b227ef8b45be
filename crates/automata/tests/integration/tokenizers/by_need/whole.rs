//! Constraints that are completed by need against the same constraints completed whole.

use std::collections::{HashSet, VecDeque};

use unskew_automata::{
    CanonicalConstraint, CanonicalError, Limits,
    canonical::CanonicalState,
    published::{PublishedError, VegasConstraint},
};
use unskew_core::{Constraint, TokenMask};
use unskew_vocab::Tokenizer;

use crate::{
    common::{Random, Subject, built, number},
    tokenizers::{DEBUG, KNOWN},
};

/// Bounded repetitions of wide classes, texts with characters that some tokenizers rewrite or spell byte by byte, the
/// end of an added token, runs of blanks of fixed length, and words without separators.
const PATTERNS: [&str; 25] = [
    r"(?s:.){0,5}",
    r".{2,4}>",
    r#""[^"\\\x00-\x1f]{0,7}""#,
    r"[^\n]{3}\n[^\n]{3}",
    r"[é\x{301}e\x{323}ệ]{1,5}",
    r"[가-힣ᄀ-하-ᅵᆨ-ᇂ]{1,4}",
    r"\p{Mn}{0,3}[a-z]?\p{Mn}{1,3}",
    r"[\p{Han}。]{3,6}",
    r"[\x{2000}-\x{200a}\x{3000} ]{2,5}[a-z]",
    r" {2,9}a",
    r"[ \n\t]{3,8}",
    r"a {4}b {1,3}[0-9]{1,5}",
    r"[0-9]{4}([ -]?[0-9]{4}){2}",
    r"[0-9]{7}x?",
    r"[\p{N}]{3,6}",
    r"[a-z]{5,9}",
    r"[a-f]{24}",
    r"[acgt]{60}",
    r"(ab|ba|a){0,4}(ha){20}!? {30}",
    r"(will|williams|willing|walker|the|there|zebra|é raw){1,3}",
    r"<\|[a-z|<>]{0,6}\|?>?",
    r"(<\|)?é raw(\|>)?",
    r"'(s|re|ll|S|LL)[a-z]{0,3}'?",
    r"[\p{Emoji}\x{200d}\x{fe0f}]{1,3}",
    r"(?i:straße|ﬁne|\x{212a}m|ſs)+",
];

/// Compares two constraints in up to `limit` positions. Some of them are reachable by few tokens only.
fn compare(
    subject: &Subject,
    (left, right): (&CanonicalConstraint, &VegasConstraint),
    limit: usize,
    random: &mut Random,
    context: &str,
) -> usize {
    let mut scratches = (left.scratch(), ());
    let mut masks = (TokenMask::new(left.vocab_len()), TokenMask::new(left.vocab_len()));
    let mut seen: HashSet<CanonicalState> = HashSet::from([left.start()]);
    let mut open = VecDeque::from([left.start()]);
    assert_eq!(left.start(), right.start(), "{context}");
    let mut done = 0;
    while let Some(at) = open.pop_front().filter(|_| done < limit) {
        done += 1;
        assert_eq!(left.is_accepting(&at), right.is_accepting(&at), "{context}");
        left.fill_mask(&mut scratches.0, &at, masks.0.as_mut());
        right.fill_mask(&mut scratches.1, &at, masks.1.as_mut());
        if masks.0.words() != masks.1.words() {
            let differ = masks.0.ids().filter(|id| !masks.1.contains(*id));
            let more = masks.1.ids().filter(|id| !masks.0.contains(*id));
            let (more, less) = (more.take(5).collect::<Vec<_>>(), differ.take(5).collect::<Vec<_>>());
            panic!("{context}, at {at:?}: only {} and {}", subject.show(&less), subject.show(&more));
        }
        for _ in 0..6 {
            let Some(token) = subject.choose(random, masks.0.words()) else { break };
            let mut next = (at.clone(), at.clone());
            left.advance(&mut scratches.0, &mut next.0, token).unwrap();
            right.advance(&mut scratches.1, &mut next.1, token).unwrap();
            assert_eq!(next.0, next.1, "{context}");
            if seen.insert(next.0.clone()) {
                open.push_back(next.0);
            }
        }
    }
    done
}

/// Compares the constraints of `patterns`. Returns how many there were.
fn compare_all<'a>(
    subject: &Subject,
    patterns: impl Iterator<Item = &'a str>,
    limit: usize,
    seed: u64,
) -> usize {
    let mut random = Random::new(seed);
    let (mut count, mut positions) = (0, 0);
    for pattern in patterns {
        let context = format!("{}, {pattern}", subject.name);
        // A scratch without memory allows the same tokens.
        let forgetful = Limits::default().lazy_bytes(0).mask_cache_bytes(0);
        let limits = if random.below(4) == 0 { &forgetful } else { &Limits::default() };
        match (subject.limited(pattern, limits), subject.whole(pattern)) {
            (Ok(by_need), Ok(whole)) => {
                count += 1;
                positions += compare(subject, (&by_need, &whole), limit, &mut random, &context);
            }
            (
                Err(CanonicalError::NothingCanonical { .. }),
                Err(PublishedError::Canonical(CanonicalError::NothingCanonical { .. })),
            ) => {}
            (Ok(_), Err(PublishedError::Canonical(CanonicalError::TooManyProductStates { .. }))) => {
                println!("{context}: the whole product is beyond the limit");
            }
            (by_need, whole) => panic!("{context}: {:?}, {:?}", by_need.err(), whole.err()),
        }
    }
    println!("{}: {count} constraints, {positions} positions", subject.name);
    count
}

#[test]
fn masks_of_small_tokenizers_are_those_of_the_whole_product() {
    let seeds = u64::try_from(number("UNSKEW_SEEDS", 1)).unwrap();
    let (step, stride) = if DEBUG { (8, 6) } else { (1, 1) };
    let mut total = 0;
    for (built, index) in (0..seeds).flat_map(built::all).zip(0usize..).skip(1).step_by(step) {
        let load = |file: &serde_json::Value| Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
        let subject = Subject::new(&built.name, load(&built.file), None).unwrap();
        let patterns = PATTERNS.into_iter().skip(index % stride).step_by(stride);
        total += compare_all(&subject, patterns, if DEBUG { 20 } else { 300 }, index as u64);
    }
    assert!(total > 20, "{total}");
}

#[test]
fn masks_of_well_known_tokenizers_are_those_of_the_whole_product() {
    let stride = if DEBUG { PATTERNS.len() / 2 } else { 1 };
    for (subject, seed) in KNOWN.iter().zip(0usize..) {
        let patterns = PATTERNS.into_iter().skip(seed % stride).step_by(stride);
        compare_all(subject, patterns, if DEBUG { 12 } else { 60 }, seed as u64);
    }
}
