//! Damaged files: loading answers with a tokenizer or an error for any bytes, and a tokenizer that loads encodes any
//! text. A bounded number of cases; `UNSKEW_MUTATIONS` sets another. A failing case prints the file.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{base64, built, character_map, unigram};
use serde_json::{Value, json};
use unskew_core::TokenId;
use unskew_vocab::Tokenizer;

/// A small generator (xorshift), so that a case is its number.
struct Dice(u64);

impl Dice {
    fn new(case: u64) -> Self {
        Self((case + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        for shift in [13, -7, 17i32] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn cases() -> u64 {
    std::env::var("UNSKEW_MUTATIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

const TEXTS: [&str; 14] = [
    "",
    " ",
    "a",
    "▁",
    " hello  world\n\n the <|endoftext|>  </s> x",
    "é中e\u{301}\u{327} 👨‍👩‍👧 ﬁ ſ 'S don't",
    "<0x41><0xZZ> ## [UNK][MASK] 12345 ½²",
    "\u{0}\u{1}\t\r\n\u{a0}\u{ad}\u{feff}\u{10ffff}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "   <s>   <s> <|raw é|><|raw é|> 　　ABCabc",
    "ㄱㄴ각 ᄀ\u{1161}\u{11a8} \u{64b}\u{651} ़क ̈̈̈",
    "…。、！?!,.;:--- (x) [y] {z} \"q\" 'r'",
    "İIıi ẞß ǅ ﷺ ㎏",
    "\u{301}\u{301}a \u{200d}\u{200d}",
];

/// Loads `bytes` and, where that works, uses the result. A panic fails the test with the file.
fn try_out(label: &str, bytes: &[u8]) -> bool {
    let result = catch_unwind(AssertUnwindSafe(|| match Tokenizer::from_bytes(bytes) {
        Ok(tokenizer) => {
            for text in TEXTS {
                if let Ok(ids) = tokenizer.encode(text, true) {
                    let _ = tokenizer.decode(&ids);
                }
                let _ = tokenizer.expected_bytes(text);
            }
            let _ = tokenizer.decode(&[0, 1, 2, 300, u32::MAX].map(TokenId));
            let _ = format!("{tokenizer:?}");
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.len() < 1000, "{message}");
            false
        }
    }));
    result.unwrap_or_else(|_| panic!("{label}: a panic with the file\n{}", String::from_utf8_lossy(bytes)))
}

/// Every object, list and leaf of a file, counted.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The node at `at`, in the order of [`count`].
fn node<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|inner| node(inner, at)),
        Value::Object(map) => map.values_mut().find_map(|inner| node(inner, at)),
        _ => None,
    }
}

/// A node of `value` other than a token of the vocabulary, more often than chance would have it.
fn some_node<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let part = *dice.pick(&[
        "",
        "normalizer",
        "pre_tokenizer",
        "decoder",
        "post_processor",
        "added_tokens",
        "model",
    ]);
    let value = if part.is_empty() || !value.is_object() { value } else { &mut value[part] };
    let mut at = dice.below(count(value));
    node(value, &mut at).expect("it was counted")
}

fn junk(dice: &mut Dice) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(2.5),
        json!(4_194_303),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("▁"),
        json!(" "),
        json!("\u{301}"),
        json!("##"),
        json!("<0x41>"),
        json!("Sequence"),
        json!("ByteLevel"),
        json!("(?<=a)b|(c"),
        json!("(?=x)|"),
        json!(".*"),
        json!([]),
        json!({}),
        json!([[]]),
        json!(["a", "b"]),
        json!({"Regex": "\\s*"}),
        json!({"Regex": ""}),
        json!({"String": "e"}),
    ];
    dice.pick(&values).clone()
}

fn mutate(value: &mut Value, others: &mut [Value], dice: &mut Dice) {
    let replacement = match dice.below(3) {
        0 => junk(dice),
        1 => {
            let other = dice.below(others.len());
            some_node(&mut others[other], dice).clone()
        }
        _ => Value::Null,
    };
    let place = some_node(value, dice);
    match (dice.below(5), &mut *place) {
        (0, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(dice.below(map.len())).unwrap().clone();
            let removed = map.remove(&key).unwrap();
            if dice.below(2) == 0 {
                map.insert("content".to_owned(), removed);
            }
        }
        (0, Value::Array(list)) if !list.is_empty() => {
            let at = dice.below(list.len());
            list.remove(at);
        }
        (1, Value::Array(list)) => {
            let at = dice.below(list.len() + 1);
            list.insert(at, replacement);
        }
        (2, Value::String(text)) => {
            let mut characters: Vec<char> = text.chars().collect();
            let at = dice.below(characters.len() + 1);
            characters.insert(at, *dice.pick(&['a', ' ', '▁', 'é', '\u{0}', '(', '\u{301}']));
            *text = characters.into_iter().collect();
        }
        (3, Value::String(text)) => {
            let end = text.chars().count();
            *text = text.chars().take(dice.below(end + 1)).collect();
        }
        (3, Value::Bool(flag)) => *flag = !*flag,
        (3, Value::Number(_)) => *place = json!(dice.below(600)),
        _ => *place = replacement,
    }
}

#[test]
fn damaged_files_load_or_fail() {
    let originals: Vec<Value> = built().into_iter().map(|(_, json)| json).collect();
    let mut loaded = 0;
    for case in 0..cases() {
        let mut dice = Dice::new(case);
        let mut others = originals.clone();
        let which = dice.below(originals.len());
        let mut value = originals[which].clone();
        for _ in 0..=dice.below(4) {
            mutate(&mut value, &mut others, &mut dice);
        }
        loaded += u64::from(try_out(&format!("case {case}"), value.to_string().as_bytes()));
    }
    println!("{loaded} of {} damaged files loaded", cases());
    assert!(loaded * 20 > cases(), "too few files load for the encoder to be tried");
}

#[test]
fn damaged_bytes_load_or_fail() {
    let originals: Vec<Vec<u8>> =
        built().into_iter().map(|(_, json)| json.to_string().into_bytes()).collect();
    for case in 0..cases() / 2 {
        let mut dice = Dice::new(case);
        let which = dice.below(originals.len());
        let mut bytes = originals[which].clone();
        for _ in 0..=dice.below(3) {
            if bytes.is_empty() {
                break;
            }
            let at = dice.below(bytes.len());
            match dice.below(4) {
                0 => bytes[at] = *dice.pick(b"\"\\{}[]:,0e-. \xff\x00a"),
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let from = dice.below(bytes.len());
                    let part = bytes[from..bytes.len().min(from + dice.below(60))].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        try_out(&format!("case {case}"), &bytes);
    }
}

/// The encoder follows a character map wherever it points: a map that passes the check points inside.
#[test]
fn damaged_character_maps_load_or_fail() {
    let mut loaded = 0;
    for case in 0..cases() {
        let mut dice = Dice::new(case);
        let mut map = character_map();
        for _ in 0..=dice.below(6) {
            // The units that the rule goes through, the size, the replacements, or anything.
            let anywhere = 4 + 4 * dice.below(1024);
            let place = *dice.pick(&[0, 4, 4 + 4 * (256 ^ 97), 4 + 4 * (768 ^ 97), 4100, anywhere]);
            map[place + dice.below(4)] = *dice.pick(&[0, 1, 2, 4, 0x61, 0x80, 0xc3, 0xff]);
        }
        let mut file = unigram();
        file["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": base64(&map)});
        loaded += u64::from(try_out(&format!("case {case}"), file.to_string().as_bytes()));
    }
    println!("{loaded} of {} character maps loaded", cases());
    assert!(loaded * 20 > cases(), "too few maps load for the encoder to be tried");
}

/// Sound steps in any combination and order, around any model: files that no one would write, and that load.
#[test]
fn steps_in_any_order() {
    let split = |pattern: Value, behavior: &str, invert: bool| json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert});
    let behaviors: [&str; 5] = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    let patterns = [
        json!({"Regex": "\\s+(?!\\S)|\\s+"}),
        json!({"Regex": "\\p{L}*"}),
        json!({"Regex": ""}),
        json!({"Regex": "(?=e)"}),
        json!({"Regex": "^|$"}),
        json!({"Regex": "(.)\\1"}),
        json!({"String": " "}),
        json!({"String": "▁"}),
        json!({"String": "é"}),
        json!({"String": "Ġ"}),
    ];
    let mut normalizers: Vec<Value> =
        ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"]
            .iter()
            .map(|kind| json!({"type": kind}))
            .collect();
    normalizers.extend([
        json!({"type": "Prepend", "prepend": "▁"}),
        json!({"type": "Prepend", "prepend": ""}),
        json!({"type": "Prepend", "prepend": "ab\u{301}"}),
        json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        json!({"type": "Strip", "strip_left": true, "strip_right": false}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false,
            "strip_accents": true, "lowercase": false}),
    ]);
    let mut splits: Vec<Value> = ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    splits.extend([
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}),
        json!({"type": "Metaspace", "replacement": "é", "prepend_scheme": "never", "split": true}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Digits", "individual_digits": false}),
        json!({"type": "Punctuation", "behavior": "Contiguous"}),
        json!({"type": "CharDelimiterSplit", "delimiter": "e"}),
        json!({"type": "FixedLength", "length": 1}),
        json!({"type": "FixedLength", "length": 3}),
    ]);
    let originals = built();
    let mut loaded = 0;
    for case in 0..cases() {
        let mut dice = Dice::new(case);
        let (_, mut file) = dice.pick(&originals).clone();
        let mut some = |pool: &[Value], is_split: bool| -> Vec<Value> {
            let mut steps = Vec::new();
            for _ in 0..dice.below(5) {
                let pattern = dice.pick(&patterns).clone();
                steps.push(match dice.below(3) {
                    0 if is_split => split(pattern, dice.pick::<&str>(&behaviors), dice.below(2) == 0),
                    0 => {
                        let content = *dice.pick(&["", " ", "é", "▁▁", "xyz"]);
                        json!({"type": "Replace", "pattern": pattern, "content": content})
                    }
                    _ => dice.pick(pool).clone(),
                });
            }
            steps
        };
        file["normalizer"] = json!({"type": "Sequence", "normalizers": some(&normalizers, false)});
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": some(&splits, true)});
        file["decoder"] = Value::Null;
        if let Some(tokens) = file["added_tokens"].as_array_mut() {
            for token in tokens {
                for flag in ["single_word", "lstrip", "rstrip", "normalized"] {
                    token[flag] = json!(dice.below(3) == 0);
                }
            }
        }
        loaded += u64::from(try_out(&format!("case {case}"), file.to_string().as_bytes()));
    }
    println!("{loaded} of {} combinations loaded", cases());
    assert!(loaded * 4 > cases(), "too few files load for the encoder to be tried");
}
