//! Masks over a vocabulary that is large enough for the numbers that ship: sets that are kept as masks, lists of
//! exceptions and nested quotients, against runs over the bytes of every token.

use unskew_core::{TokenId, TokenMask, Vocabulary};
use unskew_trie::{ByteAutomaton, DEAD, TokenTrie, Verdict};

/// Some 45,000 tokens: words of syllables, with a space, a capital, digits or signs, in three scripts; and parts of
/// characters.
fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    let syllables =
        ["a", "be", "con", "de", "e", "fi", "st", "ing", "the", "o", "ra", "ti", "un", "ver", "wo", "xy"];
    let mut words: Vec<String> = syllables.map(str::to_owned).to_vec();
    for first in syllables {
        for second in syllables {
            words.push(format!("{first}{second}"));
            words.extend(syllables.iter().map(|third| format!("{first}{second}{third}")));
        }
    }
    let mapped = |word: &str, to: fn(u32) -> u32| -> String {
        word.chars().map(|char| char::from_u32(to(char as u32)).expect("a letter")).collect()
    };
    let greek = |word: &str| mapped(word, |char| 0x3b1 + char % 24);
    let ideographs = |word: &str| mapped(word, |char| 0x4e00 + char * 7);
    let mut texts: Vec<String> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        texts.push(word.clone());
        texts.push(format!(" {word}"));
        texts.push(format!(" {}{}", word[..1].to_uppercase(), &word[1..]));
        texts.push(format!("{}{}", word[..1].to_uppercase(), &word[1..]));
        texts.push(word.to_uppercase());
        texts.push(greek(word));
        texts.push(format!(" {}", greek(word)));
        texts.push(ideographs(word));
        if index % 5 == 0 {
            texts.extend(["\"", "\",", ".", ",", "_", "-", "()", "\n"].map(|sign| format!("{word}{sign}")));
            texts.extend(["\"", "</", "(", "_"].map(|sign| format!("{sign}{word}")));
            texts.push(index.to_string());
        }
        texts.push(word.repeat(3));
    }
    texts.extend((1..80).map(|len| " ".repeat(len)));
    texts.extend((1..40).map(|len| "é".repeat(len)));
    for text in &texts {
        builder.text(text.as_bytes());
    }
    // Parts of characters, with letters in front of them and after them.
    for part in [&b"\xe6\x97"[..], b"ab\xce", b"\xa9the", b" \xf0\x9f"] {
        builder.text(part);
    }
    builder.build().unwrap()
}

/// A string without the bytes of `ends`, of at most `most` characters. At its beginning a keyword leads elsewhere.
struct Quoted {
    ends: &'static [u8],
    most: u32,
    keyword: &'static [u8],
    kinds: bool,
}

/// The states of the keyword come after those that count.
const KEYWORD: u32 = 1_000;

impl ByteAutomaton for Quoted {
    fn class(&self, byte: u8) -> u8 {
        byte
    }

    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if matches!(byte, 0x80..0xc0) {
            return state;
        }
        if state >= KEYWORD {
            let at = (state - KEYWORD) as usize;
            return if self.keyword.get(at) == Some(&byte) { state + 1 } else { DEAD };
        }
        if state == 0 && self.keyword.first() == Some(&byte) {
            return KEYWORD + 1;
        }
        match state {
            _ if self.ends.contains(&byte) => DEAD,
            state if self.most == u32::MAX => state.max(1),
            state if state == self.most => DEAD,
            state => state + 1,
        }
    }

    fn verdict(&mut self, state: u32) -> Verdict {
        match state {
            _ if !self.kinds => Verdict::All,
            state if state >= KEYWORD => Verdict::Kind(2),
            state if state.is_multiple_of(3) => Verdict::Each,
            _ => Verdict::Kind(1),
        }
    }

    fn admits(&mut self, _state: u32, token: TokenId) -> bool {
        token.0.is_multiple_of(2)
    }
}

/// Letters and signs of ASCII words: a digit leads to another state than a letter, and scripts are told apart.
struct Words;

impl ByteAutomaton for Words {
    fn class(&self, byte: u8) -> u8 {
        match byte {
            b'a'..=b'm' => 0,
            b'n'..=b'z' => 1,
            b'A'..=b'Z' => 2,
            b'0'..=b'9' => 3,
            b' ' => 4,
            0xce => 5,
            0xcf => 6,
            0x80..0xc0 => 7,
            _ => 8,
        }
    }

    fn step(&mut self, state: u32, byte: u8) -> u32 {
        match (state, self.class(byte)) {
            (0 | 1, 0 | 2) => 1,
            (0 | 1, 1) => 2,
            (2, 0..3) => 1,
            (0..3, 3) => 3,
            (3, 3) => 3,
            (0, 4) => 1,
            (0..3, 5 | 6) => 4,
            (4, 7) => 1,
            _ => DEAD,
        }
    }
}

/// Compares masks and kinds from `start` with runs over each token; answers with the number of tokens that are allowed.
fn compare<A: ByteAutomaton>(trie: &TokenTrie, automaton: &mut A, start: u32) -> usize {
    let mut expected = vec![TokenMask::new(trie.vocab_len()); 3];
    for (token, text) in trie.vocabulary().text_tokens() {
        let step = |state: u32, byte: &u8| if state == DEAD { DEAD } else { automaton.step(state, *byte) };
        let end = text.iter().fold(start, step);
        let kind = if end == DEAD { Verdict::None } else { automaton.verdict(end) };
        let kind = match kind {
            Verdict::All => Some(0),
            Verdict::Each => automaton.admits(end, token).then_some(0),
            Verdict::Kind(kind) => Some(kind),
            Verdict::None => None,
        };
        if let Some(kind) = kind {
            expected[usize::from(kind)].as_mut().insert(token);
        }
    }
    let mut all = TokenMask::new(trie.vocab_len());
    expected.iter().for_each(|mask| all.as_mut().union(mask.as_ref()));
    let mut found = TokenMask::new(trie.vocab_len());
    trie.fill(automaton, start, found.as_mut());
    assert!(found == all, "from {start}: {} tokens, and not {}", found.count(), all.count());
    let mut kinds = trie.fill_kinds(automaton, start).into_iter().map(|set| set.into_mask(trie.vocab_len()));
    for (kind, expected) in expected.iter().enumerate() {
        let found = kinds.next().unwrap_or_else(|| TokenMask::new(trie.vocab_len()));
        assert!(found == *expected, "from {start}, kind {kind}");
    }
    all.count()
}

#[test]
fn masks_of_a_large_vocabulary_are_runs_over_every_token() {
    let trie = TokenTrie::new(vocabulary()).unwrap();
    assert!(trie.vocab_len() > 40_000, "{}", trie.vocab_len());
    let mut most = 0;
    for ends in [&b"\""[..], b"\"\n,", b"._", b" ", b""] {
        for count in [1, 5, 12, 30, u32::MAX] {
            for keyword in [&b""[..], b"the", b"T", b" con", b"\"x"] {
                for kinds in [false, true] {
                    let mut text = Quoted { ends, most: count, keyword, kinds };
                    most = most.max(compare(&trie, &mut text, 0));
                }
            }
        }
        let mut text = Quoted { ends, most: 30, keyword: b"", kinds: true };
        (1..30).step_by(4).for_each(|start| _ = compare(&trie, &mut text, start));
    }
    assert!(most > 40_000, "{most}");
    let few = (0..5).map(|start| compare(&trie, &mut Words, start)).collect::<Vec<_>>();
    assert!(few.iter().all(|count| *count > 0), "{few:?}");
}
