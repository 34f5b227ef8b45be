//! Steps of the library's normalisers, pre-tokenizers and decoders, and random ones.

use serde_json::{Value, json};

use super::{charsmap, plan::Added};
use crate::common::Random;

pub(crate) const BEHAVIORS: [&str; 5] =
    ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"];

pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
pub(crate) const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
pub(crate) const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];
pub(crate) const DEEPSEEK_LLM: [&str; 5] = [
    r"[\r\n]",
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u{1f7d}ᾀ-ᾴᾶ-ᾼ\u{1fbe}ῂ-ῄῆ-ῌῐ-\u{1fd3}ῖ-\u{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u{2126}ℨ\u{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
];
pub(crate) const BLOOM: &str = r" ?[^(\s|[.,!?…。，、।۔،])]+";

/// Patterns of published tokenizers.
const PATTERNS: [&str; 14] = [
    GPT2,
    CL100K,
    LLAMA3,
    O200K,
    TEKKEN,
    QWEN2,
    QWEN35,
    DEEPSEEK_V3[0],
    DEEPSEEK_V3[1],
    DEEPSEEK_V3[2],
    DEEPSEEK_LLM[2],
    DEEPSEEK_LLM[3],
    BLOOM,
    "[0-9][0-9][0-9]",
];

/// Small patterns, some with features that the published ones lack.
const SMALL: [&str; 30] = [
    " ",
    r"\s",
    r"\s+",
    "▁",
    "▁+",
    r"\n",
    r"\n+",
    r"[\r\n]",
    "a",
    "ab",
    "[ab]",
    "[ab]+",
    "a|ab",
    "ab|a",
    "[^a]",
    "[^ab ]+",
    r"\d",
    r"\p{N}+",
    r"\w+",
    r"\w+|[^\w\s]+",
    r"\p{P}",
    r" ?\p{L}+",
    r"\s+$",
    r"\s+(?!\S)",
    "a(?=b)",
    "b{2}",
    "(?:ab)+?",
    r"[^\n]+|\n+",
    ".",
    "ĠĠ|Ġ",
];

pub(crate) fn byte_level(prefix: bool, regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex})
}

pub(crate) fn split(pattern: &str, behavior: &str, invert: bool) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert})
}

pub(crate) fn split_at(text: &str, behavior: &str, invert: bool) -> Value {
    json!({"type": "Split", "pattern": {"String": text}, "behavior": behavior, "invert": invert})
}

pub(crate) fn replace(from: &str, to: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": from}, "content": to})
}

pub(crate) fn replace_regex(from: &str, to: &str) -> Value {
    json!({"type": "Replace", "pattern": {"Regex": from}, "content": to})
}

pub(crate) fn prepend(text: &str) -> Value {
    json!({"type": "Prepend", "prepend": text})
}

pub(crate) fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

pub(crate) fn digits(individual: bool) -> Value {
    json!({"type": "Digits", "individual_digits": individual})
}

pub(crate) fn punctuation(behavior: &str) -> Value {
    json!({"type": "Punctuation", "behavior": behavior})
}

pub(crate) fn only(kind: &str) -> Value {
    json!({"type": kind})
}

/// Decoder steps that write a mark back as a space. With `strip`, the first space of a text is removed.
pub(crate) fn mark_decoders(strip: bool) -> Vec<Value> {
    let mut steps = vec![replace("▁", " "), only("ByteFallback"), only("Fuse")];
    if strip {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    steps
}

/// A random normaliser step.
pub(crate) fn normalizer(random: &mut Random) -> Value {
    let flag = |random: &mut Random| random.below(2) == 0;
    match random.below(22) {
        0..=2 => only("NFC"),
        3 => only("NFD"),
        4 => only("NFKC"),
        5 => only("NFKD"),
        6 => only("Lowercase"),
        7 => only("StripAccents"),
        8 => json!({"type": "Strip", "strip_left": flag(random), "strip_right": flag(random)}),
        9 => only("Nmt"),
        10 => json!({
            "type": "BertNormalizer", "clean_text": flag(random), "handle_chinese_chars": flag(random),
            "strip_accents": ([json!(null), json!(true), json!(false)])[random.below(3)].clone(),
            "lowercase": flag(random),
        }),
        11 | 12 => prepend(random.pick(&["▁", "▁", " ", "<!dummy-prefix!>", "a", "_"])),
        13..=15 => replace(" ", "▁"),
        16 => replace_regex(
            random.pick(&[" {2,}", r"\s+", "[ab]", "▁+", r"\n", "a+", " "]),
            random.pick(&["▁", " ", "b", ""]),
        ),
        17 => replace(
            random.pick(&["  ", "▁▁", "a", "ab", "<!dummy-prefix!>", "\n", "``", "\t", "▁"]),
            random.pick(&["▁", " ", "b", "", "ba", "▁▁", "\""]),
        ),
        18 => replace("<!dummy-prefix!>", random.pick(&["▁", "", " "])),
        19 => charsmap::random(random),
        20 => only("ByteLevel"),
        _ => replace("▁", " "),
    }
}

/// A random pre-tokenizer step, none of which spells bytes.
pub(crate) fn splitter(random: &mut Random) -> Value {
    let flag = |random: &mut Random| random.below(2) == 0;
    match random.below(24) {
        0..=2 => {
            let behavior = if random.below(3) > 0 { "Isolated" } else { random.pick(&BEHAVIORS) };
            split(random.pick(&PATTERNS), behavior, random.below(5) == 0)
        }
        3..=7 => split(random.pick(&SMALL), random.pick(&BEHAVIORS), flag(random)),
        8..=10 => {
            let text = random.pick(&[" ", " ", "▁", "▁", "\n", "a", "ab", "aa", "<|x|>"]);
            split_at(text, random.pick(&BEHAVIORS), random.below(4) == 0)
        }
        11..=13 => digits(flag(random)),
        14..=16 => punctuation(random.pick(&BEHAVIORS)),
        17 => only("Whitespace"),
        18 => only("WhitespaceSplit"),
        19 => only("BertPreTokenizer"),
        20 => json!({"type": "CharDelimiterSplit", "delimiter": random.pick(&[" ", "a", "▁", "\n"])}),
        21 => only("UnicodeScripts"),
        22 => json!({"type": "FixedLength", "length": 1 + random.below(5)}),
        _ => metaspace(random.pick(&["always", "first", "never"]), flag(random)),
    }
}

const CONTENTS: [&str; 44] = [
    "aa",
    "aaa",
    "aba",
    "ab",
    "bc",
    "a",
    "b",
    "abc",
    "ba",
    "bab",
    "1",
    "12",
    "<|x|>",
    "<|y|>",
    "<|x|>a",
    "|>",
    "<s>",
    "</s>",
    "<think>",
    "  ",
    "   ",
    "    ",
    " ",
    "▁▁",
    "▁▁▁",
    "▁",
    "\n",
    "\n\n",
    "\n\n\n",
    "\t",
    "\t\t",
    " \n",
    " a",
    "a ",
    "é",
    "e\u{301}",
    "Ab",
    "A",
    "ﬁ",
    "日",
    "\u{301}",
    "a b",
    "Ġ",
    "'s",
];

/// An added token with random flags.
pub(crate) fn added(random: &mut Random, tokens: &[String]) -> Added {
    let content = if !tokens.is_empty() && random.below(6) == 0 {
        tokens[random.below(tokens.len())].clone()
    } else {
        random.pick(&CONTENTS).to_owned()
    };
    let special = random.below(3) == 0;
    let one_in = |random: &mut Random, end: usize| random.below(end) == 0;
    Added {
        content,
        special,
        single_word: one_in(random, 6),
        lstrip: one_in(random, 5),
        rstrip: one_in(random, 5),
        normalized: one_in(random, if special { 6 } else { 2 }),
    }
}
