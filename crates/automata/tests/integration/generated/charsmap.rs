//! Small compiled character maps in SentencePiece's format (`Precompiled`): a trie in one array of units, and the
//! replacements, each followed by a zero byte.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::Random;

/// Replacements of published maps: compatibility forms, white space, control characters.
const RULES: [(&str, &str); 12] = [
    ("ﬁ", "fi"),
    ("\u{a0}", " "),
    ("\u{3000}", " "),
    ("\n", " "),
    ("\t", " "),
    ("ａ", "a"),
    ("²", "2"),
    ("e\u{301}", "é"),
    ("\u{200b}", ""),
    ("▁", " "),
    ("A", "a"),
    ("\u{2028}", " "),
];

pub(crate) fn random(random: &mut Random) -> Value {
    let mut rules: BTreeMap<&str, &str> = BTreeMap::new();
    for _ in 0..1 + random.below(6) {
        let (from, to) = RULES[random.below(RULES.len())];
        rules.insert(from, to);
    }
    step(&rules)
}

/// The most important rules of the published maps.
pub(crate) fn common() -> Value {
    step(&RULES[..8].iter().copied().collect())
}

fn step(rules: &BTreeMap<&str, &str>) -> Value {
    json!({"type": "Precompiled", "precompiled_charsmap": base64(&compiled(rules))})
}

/// A node of the trie: its children by byte, and the offset of its replacement.
#[derive(Default)]
struct Node {
    children: BTreeMap<u8, Node>,
    value: Option<u32>,
}

fn compiled(rules: &BTreeMap<&str, &str>) -> Vec<u8> {
    let mut replacements = Vec::new();
    let mut root = Node::default();
    for (from, to) in rules {
        let mut node = &mut root;
        for byte in from.bytes() {
            node = node.children.entry(byte).or_default();
        }
        node.value = Some(u32::try_from(replacements.len()).unwrap());
        replacements.extend(to.bytes());
        replacements.push(0);
    }
    let mut array = vec![0u32; 256];
    place(&root, &mut array, 0);
    let mut bytes = u32::try_from(array.len() * 4).unwrap().to_le_bytes().to_vec();
    bytes.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend(replacements);
    bytes
}

/// Places `node` after all others, as the target of the unit at `unit`. Each node has 256 units of its own, so that
/// nodes cannot collide.
fn place(node: &Node, array: &mut Vec<u32>, unit: usize) {
    let block = array.len();
    array.resize(block + 256, 0);
    // The offset is the exclusive or of a unit and its node, in multiples of 256.
    let offset = u32::try_from((unit & !0xff) ^ block).unwrap() >> 8;
    array[unit] |= u32::from(node.value.is_some()) << 8 | 1 << 9 | offset << 10;
    let target = block | unit & 0xff;
    if let Some(value) = node.value {
        array[target] = 1 << 31 | value;
    }
    for (byte, child) in &node.children {
        let at = target ^ usize::from(*byte);
        array[at] = u32::from(*byte);
        place(child, array, at);
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            if digit <= chunk.len() {
                text.push(char::from(DIGITS[(number >> (18 - 6 * digit) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[test]
fn a_compiled_map_replaces() {
    use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};
    let rules: BTreeMap<&str, &str> = RULES.into_iter().collect();
    let step: NormalizerWrapper = serde_json::from_value(step(&rules)).unwrap();
    let mut text = NormalizedString::from("aﬁ\u{a0}Ae\u{301}\u{200b}b²\n▁x");
    step.normalize(&mut text).unwrap();
    assert_eq!(text.get(), "afi aéb2  x");
}
