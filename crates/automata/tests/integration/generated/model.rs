//! Small models: symbols, random merges of adjacent symbols in random texts, and tokens that no merge produces.

use std::collections::HashSet;

use serde_json::json;

use super::plan::{Plan, Spelling, byte_character};
use crate::common::Random;

/// The size of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number of distinct characters of its texts.
    pub(crate) characters: usize,
    pub(crate) merges: usize,
    /// Whether every byte has a symbol, if symbols are bytes.
    pub(crate) all_bytes: bool,
}

/// Letters that are merged, digits, white space, punctuation, and characters that normalisers and patterns treat
/// specially.
const COMMON: [char; 12] = ['a', 'b', 'c', '1', '2', '.', '\n', 's', 'A', 'B', '\'', '-'];
const RARE: [char; 34] = [
    'é', '\u{301}', 'e', 'ﬁ', '😀', '日', 'か', 'ガ', 'ー', '한', '\u{200d}', '▁', 'Ġ', '²', '٣', 'ａ', 'ß',
    'İ', 'ſ', 'ª', '\t', '\r', '\u{a0}', '\u{3000}', '\u{2028}', '!', '|', '<', '>', '_', '“', '，', 'я',
    '\u{308}',
];

/// Random distinct characters, always with a space.
pub(crate) fn characters(random: &mut Random, count: usize) -> Vec<char> {
    let mut characters = vec![' '];
    for at in 0..count {
        let character = if at < 2 || random.below(5) < 3 {
            COMMON[if at < 2 { at } else { random.below(COMMON.len()) }]
        } else {
            RARE[random.below(RARE.len())]
        };
        if !characters.contains(&character) {
            characters.push(character);
        }
    }
    characters
}

/// A short text over `characters`, with few and repeated words.
fn text(random: &mut Random, characters: &[char], words: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..2 + random.below(6) {
        match random.below(5) {
            0 => text.push(characters[random.below(characters.len())]),
            1 => (0..1 + random.below(3)).for_each(|_| text.push(' ')),
            _ => {
                if random.below(2) == 0 {
                    text.push(' ');
                }
                text.push_str(&words[random.below(words.len())]);
            }
        }
    }
    text
}

/// The spelling of `text` in symbols of the model.
fn spell(text: &str, spelling: Spelling) -> Vec<String> {
    match spelling {
        Spelling::Bytes => text.bytes().map(|byte| byte_character(byte).to_string()).collect(),
        Spelling::Mark(mark) => {
            text.chars().map(|one| if one == ' ' { mark } else { one }.to_string()).collect()
        }
        Spelling::Plain => text.chars().map(String::from).collect(),
    }
}

/// Gives `plan` tokens and merges over `characters`, after the tokens `first`.
pub(crate) fn fill(random: &mut Random, plan: &mut Plan, characters: &[char], size: Size, first: &[&str]) {
    let words: Vec<String> = (0..5)
        .map(|_| (0..1 + random.below(4)).map(|_| characters[random.below(characters.len())]).collect())
        .collect();
    let mut tokens: Vec<String> = first.iter().map(|&token| token.to_owned()).collect();
    let fixed = tokens.len();
    if plan.spelling == Spelling::Bytes && size.all_bytes {
        tokens.extend((0..=255).map(|byte| byte_character(byte).to_string()));
    }
    for character in characters {
        // Now and then a character has no token.
        if random.below(25) > 0 {
            tokens.extend(spell(&character.to_string(), plan.spelling));
        }
    }
    if let Spelling::Mark(mark) = plan.spelling {
        tokens.push(mark.to_string());
        if random.below(4) == 0 {
            tokens.push(" ".to_owned());
        }
    }
    dedup(&mut tokens);
    let symbols: HashSet<String> = tokens[fixed..].iter().cloned().collect();

    let mut lines: Vec<Vec<String>> = (0..6)
        .map(|_| {
            let text = text(random, characters, &words);
            spell(&text, plan.spelling).into_iter().filter(|symbol| symbols.contains(symbol)).collect()
        })
        .collect();
    let mut pairs = HashSet::new();
    for _ in 0..8 * size.merges {
        if plan.merges.len() >= size.merges {
            break;
        }
        let line = random.below(lines.len());
        let (left, right) = if random.below(8) == 0 && tokens.len() > fixed {
            // Any two tokens, which need not occur together in a text.
            let any = |random: &mut Random| tokens[fixed + random.below(tokens.len() - fixed)].clone();
            (any(random), any(random))
        } else if lines[line].len() > 1 {
            let at = random.below(lines[line].len() - 1);
            (lines[line][at].clone(), lines[line][at + 1].clone())
        } else {
            continue;
        };
        let whole = format!("{left}{right}");
        if whole.chars().count() > 10 || !pairs.insert((left.clone(), right.clone())) {
            continue;
        }
        tokens.push(whole.clone());
        for line in &mut lines {
            let mut at = 0;
            while at + 1 < line.len() {
                if line[at] == left && line[at + 1] == right {
                    line[at].clone_from(&whole);
                    line.remove(at + 1);
                }
                at += 1;
            }
        }
        plan.merges.push((left, right));
    }
    // Tokens that no merge produces.
    for _ in 0..random.below(4) {
        let text = text(random, characters, &words);
        let token: String = text.chars().take(1 + random.below(4)).collect();
        tokens.push(spell(&token, plan.spelling).concat());
    }
    // Tokens that the steps before the model never write.
    if matches!(plan.spelling, Spelling::Mark(_)) && random.below(4) == 0 {
        tokens.push(" a".to_owned());
        tokens.push("a ".to_owned());
    }
    if plan.spelling == Spelling::Bytes && random.below(12) == 0 {
        tokens.push(random.pick(&["\u{200d}", "日", "a\u{200d}", "a b"]).to_owned());
    }
    // Some merges are missing although their tokens exist.
    if random.below(4) == 0 {
        plan.merges.retain(|_| random.below(3) > 0);
    }
    dedup(&mut tokens);
    plan.tokens = tokens;
    plan.drop_loose_merges();
    plan.words = words;
    plan.words.extend(characters.iter().map(char::to_string));
}

/// The names of the fallback tokens: all, some or none.
pub(crate) fn fallback_tokens(random: &mut Random) -> Vec<String> {
    let kept = random.below(4);
    (0..=255u8)
        .filter(|byte| match kept {
            0 => false,
            1 => *byte < 0xe0 && *byte != b'b',
            _ => true,
        })
        .map(|byte| format!("<0x{byte:02X}>"))
        .collect()
}

/// Random options of the model.
pub(crate) fn options(random: &mut Random, plan: &mut Plan, unknown: Option<&str>, byte_fallback: bool) {
    let mut set = |name: &str, value| _ = plan.options.insert(name.to_owned(), value);
    if byte_fallback {
        set("byte_fallback", json!(true));
    }
    if random.below(4) == 0 {
        set("ignore_merges", json!(true));
    }
    if let Some(unknown) = unknown {
        set("unk_token", json!(unknown));
    }
    if random.below(2) == 0 {
        set("fuse_unk", json!(true));
    }
    match random.below(40) {
        0 => set("dropout", json!(0.1)),
        1 | 2 => set("dropout", json!(0.0)),
        3 => {
            set("continuing_subword_prefix", json!("##"));
            let inside = |name: &str| format!("##{name}");
            spell_twice(plan, inside, |left, right| {
                [(left.to_owned(), inside(right)), (inside(left), inside(right))]
            });
        }
        4 => {
            set("end_of_word_suffix", json!("</w>"));
            let last = |name: &str| format!("{name}</w>");
            spell_twice(plan, last, |left, right| {
                [(left.to_owned(), right.to_owned()), (left.to_owned(), last(right))]
            });
        }
        5 => set("continuing_subword_prefix", json!("")),
        _ => {}
    }
}

/// Gives each token a second spelling, after the first token of a word or at its end, and each merge the two forms of
/// `forms`.
fn spell_twice(
    plan: &mut Plan,
    spelled: impl Fn(&str) -> String,
    forms: impl Fn(&str, &str) -> [(String, String); 2],
) {
    let second: Vec<String> = plan.tokens.iter().map(|token| spelled(token)).collect();
    plan.tokens.extend(second);
    dedup(&mut plan.tokens);
    plan.merges = plan.merges.iter().flat_map(|(left, right)| forms(left, right)).collect();
}

fn dedup(tokens: &mut Vec<String>) {
    let mut seen = HashSet::new();
    tokens.retain(|token| seen.insert(token.clone()));
}
