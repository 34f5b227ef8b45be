//! The automaton against the engine that splits for it: random texts, with all or some of their markings.

mod known;
mod oracle;

use std::fmt::Write as _;

use super::*;
use crate::dfa::table::DEAD;

use known::{GPT2, O200K, known_patterns};
pub(super) use known::{regex, with};
use oracle::Oracle;

fn build(splits: &[SplitPattern]) -> SplitDfa {
    SplitDfa::new(splits, &SplitOptions::default(), &SplitLimits::default()).unwrap()
}

impl SplitDfa {
    fn accepts(&self, text: &str, boundaries: &[usize]) -> bool {
        let mut state = Some(self.start());
        for (at, byte) in text.bytes().enumerate() {
            if boundaries.contains(&at) {
                state = state.and_then(|state| self.mark(state));
            }
            state = state.and_then(|state| self.step(state, byte));
        }
        state.is_some_and(|state| self.is_accepting(state))
    }
}

/// A small pseudorandom generator with the same numbers in every run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound as u64).unwrap()
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A text over a few characters of the alphabet, so that runs are frequent.
    fn text(&mut self, alphabet: &[char], max: usize) -> String {
        let few: Vec<char> = (0..1 + self.below(6)).map(|_| self.pick(alphabet)).collect();
        let len = self.below(max + 1);
        (0..len).map(|_| if self.below(8) == 0 { self.pick(alphabet) } else { self.pick(&few) }).collect()
    }
}

/// Space of several kinds, line ends, letters of all categories, marks, digits, contractions, punctuation, emoji.
const ALPHABET: [char; 64] = [
    ' ',
    ' ',
    ' ',
    '\n',
    '\n',
    '\r',
    '\t',
    '\u{a0}',
    '\u{3000}',
    '\u{85}',
    '\u{2028}',
    '\'',
    '\'',
    's',
    'S',
    'ſ',
    't',
    'T',
    'd',
    'm',
    'M',
    'r',
    'e',
    'E',
    'v',
    'V',
    'l',
    'L',
    'K',
    'k',
    'a',
    'Z',
    'ǅ',
    'ʰ',
    'ª',
    '中',
    '日',
    'ア',
    '가',
    'ß',
    'É',
    'é',
    '\u{301}',
    '\u{903}',
    '\u{20dd}',
    '0',
    '7',
    '٣',
    'Ⅷ',
    '½',
    '!',
    '.',
    '-',
    '/',
    '_',
    '$',
    '+',
    '。',
    '«',
    '😀',
    '\u{200d}',
    '\u{0}',
    '\u{10ffff}',
    '\u{feff}',
];

/// Asserts that the automaton accepts exactly the marks of the oracle: all markings of a short text, and otherwise
/// the markings with one mark more or less, and a random one.
fn check(dfa: &SplitDfa, oracle: &Oracle, text: &str, random: &mut Random) {
    let truth = oracle.boundaries(text);
    let describe = |marks: &[usize]| format!("{text:?} with marks at {marks:?}; right is {truth:?}");
    if let Some(truth) = &truth {
        assert!(dfa.accepts(text, truth), "refused: {}", describe(truth));
    }
    // The positions include the start of the text.
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let refuse = |marks: &[usize]| {
        if truth.as_deref() != Some(marks) {
            assert!(!dfa.accepts(text, marks), "accepted: {}", describe(marks));
        }
    };
    if places.len() <= 6 {
        for bits in 0..1usize << places.len() {
            let marks: Vec<usize> = places
                .iter()
                .enumerate()
                .filter(|(bit, _)| bits >> bit & 1 == 1)
                .map(|(_, at)| *at)
                .collect();
            refuse(&marks);
        }
        return;
    }
    let base = truth.clone().unwrap_or_default();
    for _ in 0..3 {
        let place = random.pick(&places);
        let mut marks = base.clone();
        match marks.binary_search(&place) {
            Ok(at) => {
                marks.remove(at);
            }
            Err(at) => marks.insert(at, place),
        }
        refuse(&marks);
    }
    let marks: Vec<usize> = places.into_iter().filter(|_| random.below(2) == 0).collect();
    refuse(&marks);
}

/// `debug` cases in a debug build, and a hundred times as many in a release build.
pub(super) fn cases(debug: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { 100 * debug }
}

#[test]
fn known_patterns_split_as_the_engine_does() {
    let mut random = Random(1);
    for (name, splits) in known_patterns() {
        let dfa = build(&splits);
        let oracle = Oracle::new(&splits).unwrap();
        for _ in 0..cases(1_000) {
            let max = random.pick(&[3, 6, 6, 12, 30]);
            let text = random.text(&ALPHABET, max);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                check(&dfa, &oracle, &text, &mut random);
            }));
            assert!(result.is_ok(), "{name}");
        }
    }
}

/// A step of the library uses the white space of the standard library, and is expressed as this class.
#[test]
fn white_space_is_that_of_the_standard_library() {
    let mut sets = Sets::default();
    let limits = SplitLimits::default();
    let ast = pattern::parse(r"\s", 1, View::Text, &mut sets, &mut Budget::new(&limits)).unwrap();
    let pattern::Ast::Set(set) = ast else { panic!("no set") };
    for char in '\0'..=char::MAX {
        assert_eq!(sets.get(set).contains(char), char.is_whitespace(), "{char:?}");
    }
    assert_eq!(*sets.get(set), White::All.set());
}

/// Every character, alone and between letters and spaces.
#[test]
fn every_character_is_in_its_class() {
    for splits in [vec![regex(GPT2)], vec![regex(O200K)]] {
        let dfa = build(&splits);
        let oracle = Oracle::new(&splits).unwrap();
        let step = if cfg!(debug_assertions) { 37 } else { 1 };
        for char in ('\0'..=char::MAX).step_by(step) {
            let text = format!("a{char} {char}'{char}");
            let truth = oracle.boundaries(&text).unwrap();
            assert!(dfa.accepts(&text, &truth), "{text:?}: {truth:?}");
        }
    }
}

/// A random pattern over few characters.
fn pattern(random: &mut Random, depth: usize) -> String {
    const ATOMS: [&str; 12] =
        ["a", "b", "c", " ", r"\n", ".", "[ab]", "[^a]", r"\s", r"\S", "(?i:B)", r"\p{Lu}"];
    const LOOKS: [&str; 12] = [
        "(?!a)",
        "(?=b)",
        r"(?!\S)",
        "$",
        r"\z",
        "^",
        "(?=a|$)",
        "(?!b|c)",
        "(?=(?!a))",
        "(?![ab]|$)",
        "(?!$)",
        r"\A",
    ];
    const QUANTIFIERS: [&str; 12] =
        ["?", "*", "+", "??", "*?", "+?", "{2}", "{1,2}", "{0,3}?", "{2,}", "{,2}", "{1}"];
    const POSSESSIVE: [&str; 6] = ["?+", "*+", "++", "{1,3}+", "{2,}+", "{2}+"];
    match random.below(if depth == 0 { 4 } else { 12 }) {
        0..=2 => random.pick(&ATOMS).to_owned(),
        3 => format!("{}{}", random.pick(&ATOMS), random.pick(&POSSESSIVE)),
        4 | 5 => {
            let parts: Vec<String> = (0..2 + random.below(2)).map(|_| pattern(random, depth - 1)).collect();
            format!("(?:{})", parts.join("|"))
        }
        6..=8 => (0..2 + random.below(2)).map(|_| pattern(random, depth - 1)).collect(),
        9 => format!("{}{}", pattern(random, depth - 1), random.pick(&LOOKS)),
        _ => format!("(?:{}){}", pattern(random, depth - 1), random.pick(&QUANTIFIERS)),
    }
}

#[test]
fn random_patterns_split_as_the_engine_does() {
    let mut random = Random(7);
    let (mut built, mut failed, mut large) = (0, 0, 0);
    while built < cases(300) {
        let count = random.pick(&[1, 1, 1, 2, 3]);
        let splits: Vec<SplitPattern> = (0..count)
            .map(|_| {
                let text = pattern(&mut random, 3);
                let behavior = random.pick(&[
                    SplitBehavior::Isolated,
                    SplitBehavior::Isolated,
                    SplitBehavior::Isolated,
                    SplitBehavior::Removed,
                    SplitBehavior::Contiguous,
                    SplitBehavior::MergedWithNext,
                    SplitBehavior::MergedWithPrevious,
                ]);
                with(&text, behavior, random.below(2) == 0)
            })
            .collect();
        let dfa = match SplitDfa::new(&splits, &SplitOptions::default(), &SplitLimits::default()) {
            Ok(dfa) => dfa,
            Err(
                SplitError::MatchesEmpty { .. }
                | SplitError::Unsupported { .. }
                | SplitError::UnsupportedStep { .. },
            ) => {
                failed += 1;
                assert!(failed < 50 * cases(300), "nearly all patterns are refused");
                continue;
            }
            // Three steps with repeated look-ahead may have more states than the limit allows.
            Err(SplitError::TooManyStates { .. } | SplitError::TooCostly { .. }) if count > 1 => {
                large += 1;
                assert!(large <= 1 + cases(300) / 1000, "many patterns are too large");
                continue;
            }
            Err(error) => panic!("{splits:?}: {error}"),
        };
        let Some(oracle) = Oracle::new(&splits) else { continue };
        built += 1;
        for _ in 0..15 {
            let max = random.pick(&[3, 5, 6, 9]);
            let text = random.text(&['a', 'b', 'c', 'B', ' ', '\n', 'é'], max);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                check(&dfa, &oracle, &text, &mut random);
            }));
            assert!(result.is_ok(), "{splits:?}");
        }
    }
}

/// All states are live, no two are equal, they are numbered breadth-first, and classes are the coarsest.
#[test]
fn the_automaton_is_minimal_and_canonical() {
    let mut known: Vec<char> = "abc 中é".chars().collect();
    known.sort_unstable();
    for (name, splits) in known_patterns() {
        for options in [
            SplitOptions::default(),
            SplitOptions { forbidden: &['_', '中'], known: Some(&known), ..SplitOptions::default() },
        ] {
            let dfa = SplitDfa::new(&splits, &options, &SplitLimits::default()).unwrap();
            let width = dfa.classes.len();
            let states = dfa.accepting.len();
            // This check takes longer than the rest of the test.
            if cfg!(debug_assertions) && states > 1_500 {
                continue;
            }
            assert_eq!(dfa.fallback.len(), if options.known.is_some() { dfa.next.len() } else { 0 });
            let rows: Vec<Vec<u32>> = (0..states)
                .map(|state| {
                    let mut row = dfa.next[state * width..][..width].to_vec();
                    row.push(dfa.mark[state]);
                    row.extend(dfa.fallback.get(state * width..(state + 1) * width).unwrap_or(&[]));
                    row
                })
                .collect();
            // Moore's refinement from acceptance alone separates all states.
            let mut blocks: Vec<usize> =
                dfa.accepting.iter().map(|accepting| usize::from(*accepting)).collect();
            let mut count = 0;
            loop {
                let mut numbers = std::collections::HashMap::new();
                blocks = (0..states)
                    .map(|state| {
                        let row: Vec<usize> = rows[state]
                            .iter()
                            .map(|next| if *next == DEAD { usize::MAX } else { blocks[*next as usize] })
                            .collect();
                        let fresh = numbers.len();
                        *numbers.entry((blocks[state], row)).or_insert(fresh)
                    })
                    .collect();
                if numbers.len() == count {
                    break;
                }
                count = numbers.len();
            }
            assert_eq!(count, states, "{name}");
            let mut found = 0;
            for next in rows.iter().flatten().filter(|next| **next != DEAD) {
                assert!(*next <= found + 1, "{name}");
                found = found.max(*next);
            }
            assert_eq!(found as usize, states - 1, "{name}");
            let mut alive = dfa.accepting.clone();
            while let Some(state) = (0..states).find(|state| {
                !alive[*state] && rows[*state].iter().any(|next| *next != DEAD && alive[*next as usize])
            }) {
                for state in (state..states).rev() {
                    alive[state] |= rows[state].iter().any(|next| *next != DEAD && alive[*next as usize]);
                }
            }
            assert!(alive.iter().all(|alive| *alive), "{name}");
            let columns: std::collections::HashSet<Vec<u32>> = (0..width)
                .map(|class| {
                    rows.iter()
                        .flat_map(|row| [row[class], *row.get(width + 1 + class).unwrap_or(&DEAD)])
                        .collect()
                })
                .collect();
            assert_eq!(columns.len(), width, "{name}");
        }
    }
}

/// Reading a character through fallback tokens has the same target as reading it normally, for exactly the characters
/// without a token; forbidden characters have no transitions.
#[test]
fn fallback_reads_unknown_characters_only() {
    let mut known: Vec<char> = ALPHABET.iter().copied().step_by(2).collect();
    known.sort_unstable();
    known.dedup();
    let forbidden = ['_', 'é', '中', '\u{2581}'];
    let options = SplitOptions { forbidden: &forbidden, known: Some(&known), ..SplitOptions::default() };
    for splits in [vec![], vec![regex(GPT2)], vec![regex(O200K)]] {
        let plain = SplitDfa::new(
            &splits,
            &SplitOptions { forbidden: &forbidden, ..SplitOptions::default() },
            &SplitLimits::default(),
        )
        .unwrap();
        let dfa = SplitDfa::new(&splits, &options, &SplitLimits::default()).unwrap();
        let width = dfa.classes.len();
        let walk = |table: &[u32], state: u32, text: &str| {
            text.bytes().fold(state, |state, byte| match state {
                DEAD => DEAD,
                state => table[state as usize * width + usize::from(dfa.classes.get(byte))],
            })
        };
        // The boundary states: those in which a character ends.
        let mut boundaries = vec![dfa.start];
        let mut at = 0;
        while at < boundaries.len() {
            let state = boundaries[at];
            at += 1;
            let mut next: Vec<u32> =
                ALPHABET.iter().map(|char| walk(&dfa.next, state, char.encode_utf8(&mut [0; 4]))).collect();
            next.push(dfa.mark[state as usize]);
            for next in next {
                if next != DEAD && !boundaries.contains(&next) {
                    boundaries.push(next);
                }
            }
        }
        for char in ALPHABET.iter().copied().chain(forbidden).chain(['q', '\u{800}', '𝒜', 'х']) {
            let mut bytes = [0; 4];
            let text: &str = char.encode_utf8(&mut bytes);
            for state in boundaries.iter().copied() {
                let normal = walk(&dfa.next, state, text);
                let through = walk(&dfa.fallback, state, text);
                let unknown = known.binary_search(&char).is_err();
                assert_eq!(through, if unknown { normal } else { DEAD }, "{char:?}");
                if forbidden.contains(&char) {
                    assert_eq!(normal, DEAD);
                }
            }
            // Inside a character the two kinds of transitions do not mix.
            for cut in 1..text.len() {
                let (head, tail) = text.as_bytes().split_at(cut);
                let go = |table: &[u32], state: u32, bytes: &[u8]| {
                    bytes.iter().fold(state, |state, byte| match state {
                        DEAD => DEAD,
                        state => table[state as usize * width + usize::from(dfa.classes.get(*byte))],
                    })
                };
                for (one, other) in [(&dfa.next, &dfa.fallback), (&dfa.fallback, &dfa.next)] {
                    let inside = go(one, dfa.start, head);
                    assert_eq!(go(other, inside, &tail[..1]), DEAD);
                    assert!(inside == DEAD || dfa.mark[inside as usize] == DEAD);
                }
            }
        }
        // Without fallback transitions it is the automaton of a model over bytes.
        let oracle = Oracle::new(&splits).unwrap();
        let mut random = Random(3);
        for _ in 0..500 {
            let text = random.text(&ALPHABET, 8);
            let truth = oracle.boundaries(&text).unwrap();
            let fine = !text.contains(forbidden);
            assert_eq!(dfa.accepts(&text, &truth), fine, "{text:?}");
            assert_eq!(plain.accepts(&text, &truth), fine, "{text:?}");
        }
    }
}

#[test]
fn texts_are_valid_utf_8() {
    let dfa = build(&[regex(GPT2)]);
    for bad in
        [&b"\x80"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe4\xb8", b"\xff", b"a\xc3"]
    {
        let end = bad.iter().try_fold(dfa.start(), |state, byte| dfa.step(state, *byte));
        assert!(!end.is_some_and(|end| dfa.is_accepting(end)), "{bad:?}");
    }
    assert_eq!(dfa.mark(dfa.start()), None);
    let after = dfa.mark(dfa.step(dfa.start(), b'a').unwrap()).unwrap();
    assert_eq!(dfa.mark(after), None);
}

#[test]
fn sizes_of_known_patterns() {
    let mut sizes = String::new();
    for (name, splits) in known_patterns() {
        let dfa = build(&splits);
        writeln!(sizes, "{name}: {} states, {} classes", dfa.accepting.len(), dfa.classes.len()).unwrap();
    }
    insta::assert_snapshot!(sizes);
}
