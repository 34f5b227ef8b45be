//! Random texts of every kind that is awkward for a tokenizer.

use unskew_core::Vocabulary;

use super::Random;

const WORDS: [&str; 40] = [
    "the",
    "of",
    "and",
    "Hello",
    "world",
    "isn",
    "don",
    "you",
    "tokenizer",
    "the",
    "a",
    "I",
    "WE",
    "they",
    "She",
    "NASA",
    "iPhone",
    "naïve",
    "café",
    "Straße",
    "ſtill",
    "Kelvin",
    "x",
    "error",
    "return",
    "self",
    "def",
    "Σίσυφος",
    "русский",
    "язык",
    "עברית",
    "العربية",
    "हिन्दी",
    "ไทย",
    "한국어",
    "日本語",
    "ქართული",
    "ÅNGSTRÖM",
    "ǅungla",
    "ªº",
];

const SNIPPETS: [&str; 16] = [
    "fn main() {\n\tlet x: Vec<u8> = vec![0x1f; 3];\n",
    "    println!(\"{x:?}\");\r\n}\r\n\r\n",
    "/* end */\n\n\n",
    "if (a->b != NULL && !c[i++]) { return -1; }\n",
    "def __init__(self, *args, **kwargs):\n        pass\n",
    "{\"key\": [1, 2.5, null, true], \"a\\u00e9\": \"b\\n\"}",
    "{\n  \"id\": 12345,\n  \"tags\": []\n}",
    "<div class=\"x\">&nbsp;</div>\n",
    "http://example.com/a?b=c&d=e#f",
    "user@example.org C:\\path\\file.txt",
    "SELECT * FROM t WHERE id='1';--\n",
    "x = y**2 + 3.14159e-10;",
    "================",
    "))))\n\n",
    "$$\\frac{a}{b}$$",
    "#!/bin/sh\n\techo 'it''s'\n",
];

const SUFFIXES: [&str; 24] = [
    "s", "S", "t", "T", "re", "RE", "Re", "ve", "VE", "m", "M", "ll", "LL", "lL", "d", "D", "ſ", "\u{212a}",
    "sx", "'s", "llo", "rem", "ſt", "",
];

const DIGITS: [&str; 18] =
    ["0", "1", "2", "3", "9", "12", "123", "٣", "६", "０", "๓", "²", "½", "ⅷ", "𝟘", "Ⅻ", "㊿", "一"];

const SPACES: [&str; 20] = [
    " ", " ", " ", " ", "  ", "    ", "\n", "\n", "\n\n", "\r\n", "\r", "\t", "\u{a0}", "\u{3000}",
    "\u{2003}", "\u{2028}", "\u{b}", "\u{c}", "\u{85}", "\u{1680}",
];

const EMOJI: [&str; 14] =
    ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👩🏽‍🚀", "☕️", "🇩🇪", "🇯🇵", "1️⃣", "✂️", "🫠", "🫨", "😀", "😂😂", "\u{200d}", "\u{fe0f}"];

const MARKS: [&str; 14] = [
    "\u{301}", "\u{300}", "\u{327}", "\u{30a}", "\u{308}", "\u{304}", "\u{323}", "\u{303}", "\u{345}",
    "\u{5b4}", "\u{94d}", "\u{20d0}", "\u{302}", "\u{31b}",
];

const BASES: [&str; 24] = [
    "e", "a", "o", "A", "n", "u", "i", "é", "ä", "Å", "Å", "ữ", "ẛ", "α", "ᾳ", "и", "क", "か", "は",
    "\u{1100}", "\u{1161}", "\u{11a8}", "가", " ",
];

const ODD: [&str; 30] = [
    "▁",
    "▁▁",
    "<0x0A>",
    "<0xE2>",
    "<|endoftext|>",
    "<s>",
    "</s>",
    "<unk>",
    "Ġ",
    "Ċ",
    "Ã©",
    "\u{0}",
    "\u{7f}",
    "\u{80}",
    "\u{ad}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{10ffff}",
    "\u{e000}",
    "\u{d7ff}",
    "\u{202e}",
    "\u{fb01}",
    "\u{2126}",
    "\u{1d15e}",
    "\u{f900}",
    "’",
    "’s",
    "\u{200b}",
    "zebra",
];

const PUNCTUATION: [&str; 20] = [
    ".", ",", "!", "?", "...", "(", ")", "\"", "'", "''", "-", "--", "—", "/", "//", "_", "*", "“", "。",
    "、",
];

/// Appends a random part of a text.
fn fragment(random: &mut Random, vocabulary: &Vocabulary, text: &mut String) {
    let some = |random: &mut Random, items: &[&'static str], most: usize, text: &mut String| {
        (0..1 + random.below(most)).for_each(|_| text.push_str(random.pick(items)));
    };
    match random.below(if vocabulary.is_empty() { 14 } else { 16 }) {
        0 | 1 => {
            for _ in 0..1 + random.below(5) {
                text.push_str(random.pick(&[" ", " ", " ", "", "-", "\n"]));
                let word = random.pick(&WORDS);
                match random.below(8) {
                    0 => text.push_str(&word.to_uppercase()),
                    1 => text.push_str(&word.to_lowercase()),
                    _ => text.push_str(word),
                }
            }
        }
        2 => some(random, &SNIPPETS, 2, text),
        3 | 4 => some(random, &SPACES, 6, text),
        5 | 6 => {
            some(random, &WORDS, 1, text);
            text.push_str(random.pick(&["'", "'", "'", "’", " '"]));
            some(random, &SUFFIXES, 1, text);
            if random.below(3) == 0 {
                some(random, &WORDS, 1, text);
            }
        }
        7 => some(random, &DIGITS, 10, text),
        8 => {
            let (first, count) =
                [(0x4e00, 0x5200), (0x3041, 0x50), (0xac00, 0x2ba0), (0x30a1, 0x50)][random.below(4)];
            for _ in 0..1 + random.below(8) {
                text.extend(char::from_u32(first + u32::try_from(random.below(count)).unwrap()));
            }
        }
        9 => some(random, &EMOJI, 3, text),
        10 => {
            for _ in 0..1 + random.below(4) {
                some(random, &BASES, 1, text);
                (0..random.below(3)).for_each(|_| text.push_str(random.pick(&MARKS)));
            }
        }
        11 => {
            for _ in 0..1 + random.below(6) {
                let most = [0x80, 0x800, 0x3000, 0x1_0000, 0x11_0000][random.below(5)];
                text.extend(char::from_u32(u32::try_from(random.below(most)).unwrap()));
            }
        }
        12 => some(random, &ODD, 1, text),
        13 => some(random, &PUNCTUATION, 5, text),
        // Texts of tokens of the vocabulary.
        _ => {
            for _ in 0..1 + random.below(4) {
                let token = unskew_core::TokenId::from_index(random.below(vocabulary.len()));
                let token = vocabulary.text(token).unwrap_or_default();
                text.push_str(std::str::from_utf8(token).unwrap_or_default());
            }
        }
    }
}

/// A text of a few fragments.
pub(crate) fn text(random: &mut Random, vocabulary: &Vocabulary) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(5) {
        fragment(random, vocabulary, &mut text);
    }
    text
}
