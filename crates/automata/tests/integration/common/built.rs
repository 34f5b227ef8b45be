//! Small tokenizers of every kind: real steps of published pre-tokenizers, around small models with random merges.
//!
//! The merges are drawn from texts that are not split, so that many tokens cross the places where the steps split.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use unskew_core::Vocabulary;

use super::{Random, texts};

/// A tokenizer. If it prepends a space to a text, `judge` is the same tokenizer without the prepended space.
pub(crate) struct Built {
    pub(crate) name: String,
    pub(crate) file: Value,
    pub(crate) judge: Option<Value>,
}

/// GPT-2's alphabet: printable Latin-1 is unchanged, the other bytes are numbered from U+0100.
fn alphabet() -> Vec<char> {
    let stays =
        |byte: u32| (33..=126).contains(&byte) || (161..=172).contains(&byte) || (174..=255).contains(&byte);
    let mut moved = 0x100..;
    (0..256)
        .map(|byte| char::from_u32(if stays(byte) { byte } else { moved.next().unwrap() }).unwrap())
        .collect()
}

/// Random merges of adjacent symbols in random texts. Returns the tokens, `symbols` first, and the merges.
fn random_merges(
    random: &mut Random,
    symbols: Vec<String>,
    spell: impl Fn(&str) -> Vec<String>,
    count: usize,
) -> (Vec<String>, Vec<Value>) {
    let nothing = Vocabulary::builder().build().unwrap_or_else(|_| panic!("an empty vocabulary"));
    let known: std::collections::HashSet<String> = symbols.iter().cloned().collect();
    let mut lines: Vec<Vec<String>> = Vec::new();
    for _ in 0..count {
        // Few short texts, so that frequent pairs are merged deeply.
        let line = spell(&texts::text(random, &nothing));
        lines.push(line.into_iter().filter(|symbol| known.contains(symbol)).take(60).collect());
    }
    let mut tokens = symbols;
    let mut ids: HashMap<String, usize> = tokens.iter().cloned().zip(0..).collect();
    let mut merges = Vec::new();
    let mut pairs = std::collections::HashSet::new();
    for _ in 0..20 * count {
        if merges.len() >= count {
            break;
        }
        let line = random.below(lines.len());
        if lines[line].len() < 2 {
            continue;
        }
        let at = random.below(lines[line].len() - 1);
        let (left, right) = (lines[line][at].clone(), lines[line][at + 1].clone());
        let whole = format!("{left}{right}");
        // `<0x0A>` and `<s>` are no concatenations of characters.
        if whole.chars().count() > 12
            || known.contains(&whole)
            || !pairs.insert((left.clone(), right.clone()))
        {
            continue;
        }
        if !ids.contains_key(&whole) {
            ids.insert(whole.clone(), tokens.len());
            tokens.push(whole.clone());
        }
        merges.push(json!([left, right]));
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
    }
    (tokens, merges)
}

fn ids(tokens: &[String]) -> Value {
    let map: Map<String, Value> = tokens.iter().cloned().zip((0..).map(|id| json!(id))).collect();
    Value::Object(map)
}

fn added(id: usize, content: &str, special: bool, normalized: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special,
    })
}

/// A byte-level tokenizer with random merges, without a step that splits.
fn random_bytes(random: &mut Random, count: usize) -> Value {
    let alphabet = alphabet();
    let symbols = alphabet.iter().map(char::to_string).collect();
    let spell = |text: &str| text.bytes().map(|byte| alphabet[usize::from(byte)].to_string()).collect();
    let (mut tokens, merges) = random_merges(random, symbols, spell, count);
    tokens.push("<|endoftext|>".to_owned());
    json!({
        "added_tokens": [added(tokens.len() - 1, "<|endoftext|>", true, false)],
        "normalizer": null,
        "pre_tokenizer": byte_level(false, false),
        "decoder": byte_level(true, true),
        "model": {"type": "BPE", "byte_fallback": false, "ignore_merges": false, "vocab": ids(&tokens),
            "merges": merges},
    })
}

fn byte_level(prefix: bool, regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex})
}

fn split(pattern: &str, behavior: &str, invert: bool) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert})
}

fn literal(text: &str, behavior: &str) -> Value {
    json!({"type": "Split", "pattern": {"String": text}, "behavior": behavior, "invert": false})
}

fn sequence(steps: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": steps})
}

/// The steps that split, of published models and of every behaviour.
fn splitters() -> Vec<(&'static str, Value)> {
    let bytes = byte_level(false, false);
    let isolated = |patterns: &[&str]| {
        let steps = patterns.iter().map(|pattern| split(pattern, "Isolated", false)).chain([bytes.clone()]);
        sequence(&steps.collect::<Vec<_>>())
    };
    let digits = |individual: bool| json!({"type": "Digits", "individual_digits": individual});
    vec![
        ("GPT-2", byte_level(false, true)),
        ("no regex", bytes.clone()),
        ("StarCoder", sequence(&[digits(true), byte_level(false, true)])),
        ("digits together", sequence(&[digits(false), byte_level(false, true)])),
        (
            "DeepSeek V3",
            isolated(&[
                r"\p{N}{1,3}",
                "[一-龥\u{3040}-ゟ゠-ヿ]+",
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
            ]),
        ),
        (
            "o200k",
            isolated(&[
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ]),
        ),
        (
            "cl100k, possessive",
            isolated(&[
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
            ]),
        ),
        (
            "tekken",
            isolated(&[
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ]),
        ),
        (
            "Llama 3",
            isolated(&[
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ]),
        ),
        ("with the one before", sequence(&[literal(" ", "MergedWithPrevious"), bytes.clone()])),
        ("with the one behind", sequence(&[literal("\n", "MergedWithNext"), byte_level(false, true)])),
        ("white space together", sequence(&[split(r"\s", "Contiguous", false), bytes.clone()])),
        ("words, inverted", sequence(&[split(r"\w", "MergedWithPrevious", true), bytes.clone()])),
        ("lines", sequence(&[split(r"[^\n]+|\n+", "Isolated", false), digits(true), bytes])),
    ]
}

/// A SentencePiece style model over characters, with random merges. It has no tokens for `letters`, and fallback
/// tokens only for the bytes for which `fallback` holds.
fn random_characters(
    random: &mut Random,
    count: usize,
    letters: &str,
    fallback: impl Fn(u8) -> bool,
    unknown: bool,
) -> Value {
    let mut symbols: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    symbols.extend((0..=255u8).filter(|byte| fallback(*byte)).map(|byte| format!("<0x{byte:02X}>")));
    let characters = ('!'..='~').chain("▁éäöüÅßſ日本語のかは中русский한국가\u{301}\u{308}’—“😀٣²½".chars());
    let mut characters: Vec<char> = characters.filter(|character| !letters.contains(*character)).collect();
    characters.sort_unstable();
    characters.dedup();
    symbols.extend(characters.iter().map(char::to_string));
    let known: Vec<String> = characters.iter().map(char::to_string).collect();
    let spell = |text: &str| {
        let spelled = text.replace([' ', '\n'], "▁");
        spelled.chars().map(String::from).filter(|symbol| known.contains(symbol)).collect()
    };
    let (tokens, merges) = random_merges(random, symbols, spell, count);
    let unknown = if unknown { json!("<unk>") } else { Value::Null };
    json!({
        "added_tokens": [added(0, "<unk>", true, false), added(1, "<s>", true, false), added(2, "</s>", true, false)],
        "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": true, "byte_fallback": true,
            "ignore_merges": false, "vocab": ids(&tokens), "merges": merges},
    })
}

/// The SentencePiece style model `file`, with a normaliser that writes the mark for a space.
fn by_normalizer(mut file: Value) -> Value {
    file["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    file["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    file
}

/// The SentencePiece style model `file`, with a metaspace step that writes the mark.
fn by_metaspace(mut file: Value, scheme: &str, split: bool) -> Value {
    let step = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    file["pre_tokenizer"] = step.clone();
    file["decoder"] = json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, step]});
    file
}

/// All tokenizers. `seed` draws the merges.
pub(crate) fn all(seed: u64) -> Vec<Built> {
    let mut random = Random::new(seed);
    let mut built = Vec::new();
    let mut push = |name: &str, file: Value, judge: Option<Value>| {
        built.push(Built { name: name.to_owned(), file, judge });
    };
    let tiny: Value = serde_json::from_str(unskew_tiny_model::TOKENIZER_JSON).unwrap();
    push("tiny", tiny.clone(), None);
    for (name, steps) in splitters() {
        let count = 100 + random.below(700);
        for (kind, mut file) in [("tiny", tiny.clone()), ("random", random_bytes(&mut random, count))] {
            file["pre_tokenizer"] = steps.clone();
            push(&format!("{name}, {kind}"), file.clone(), None);
            if kind == "tiny" {
                continue;
            }
            file["model"]["ignore_merges"] = json!(true);
            push(&format!("{name}, whole pieces"), file.clone(), None);
            // Some tokens have no merge any more, and some merges have parts that no merge produces.
            let merges = file["model"]["merges"].as_array_mut().unwrap();
            let mut left = Vec::new();
            std::mem::swap(merges, &mut left);
            left.retain(|_| random.below(3) > 0);
            file["model"]["merges"] = Value::Array(left);
            push(&format!("{name}, whole pieces without merges"), file.clone(), None);
            file["model"]["ignore_merges"] = json!(false);
            push(&format!("{name}, tokens without merges"), file, None);
        }
    }
    let mut prefixed = random_bytes(&mut random, 300);
    prefixed["pre_tokenizer"] = byte_level(false, true);
    let judge = prefixed.clone();
    prefixed["pre_tokenizer"] = byte_level(true, true);
    push("GPT-2, space in front", prefixed, Some(judge));

    let mut composed = random_bytes(&mut random, 500);
    composed["pre_tokenizer"] = byte_level(false, true);
    composed["normalizer"] = json!({"type": "NFC"});
    push("NFC", composed.clone(), None);
    composed["model"]["ignore_merges"] = json!(true);
    composed["pre_tokenizer"] = splitters()[8].1.clone();
    push("NFC, Llama 3, whole pieces", composed, None);

    // Added tokens that are text: one with a text of its own, and one that the model has as well.
    for whole in [false, true] {
        let mut file = random_bytes(&mut random, 400);
        let vocab = file["model"]["vocab"].as_object().unwrap();
        let len = vocab.len();
        let mut inside: Vec<(String, usize)> = vocab
            .iter()
            .filter(|(token, _)| token.len() > 1 && token.bytes().all(|byte| byte.is_ascii_lowercase()))
            .map(|(token, id)| (token.clone(), usize::try_from(id.as_u64().unwrap()).unwrap()))
            .collect();
        inside.sort();
        let distinct = |left: &str, right: &str| left.bytes().all(|byte| !right.as_bytes().contains(&byte));
        inside.retain(|(token, _)| distinct(token, "zebra") && !"<|endoftext|>".contains(token.as_str()));
        let is_fine = |token: &str| token.as_bytes()[0] != token.as_bytes()[token.len() - 1];
        let (first, id) = inside.iter().find(|(token, _)| is_fine(token)).cloned().unwrap();
        let list = file["added_tokens"].as_array_mut().unwrap();
        list.push(added(id, &first, false, false));
        list.push(added(len, "zebra", false, false));
        list.push(added(len + 1, "<|é raw|>", false, true));
        // Control tokens may overlap.
        list.push(added(len + 2, "|pad|", true, false));
        list.push(added(len + 3, "|pad|pad|", true, false));
        file["pre_tokenizer"] = byte_level(false, true);
        file["model"]["ignore_merges"] = json!(whole);
        push(&format!("added text {first:?}, whole pieces: {whole}"), file, None);
    }

    // Bytes without a token are dropped.
    let mut file = random_bytes(&mut random, 200);
    let missing: Vec<String> =
        [b'q', b'7', 0xe4, 0x0a, b'\''].map(|byte| alphabet()[usize::from(byte)].to_string()).to_vec();
    let is_missing = |token: &str| missing.iter().any(|missing| token.contains(missing.as_str()));
    let model = &mut file["model"];
    model["vocab"].as_object_mut().unwrap().retain(|token, _| !is_missing(token));
    model["merges"]
        .as_array_mut()
        .unwrap()
        .retain(|merge| !merge.as_array().unwrap().iter().any(|part| is_missing(part.as_str().unwrap())));
    file["pre_tokenizer"] = byte_level(false, true);
    push("bytes without a token", file, None);

    let all = |_: u8| true;
    for (name, letters) in
        [("", "\n"), (", letters without a token", "\nzqJ日é한;{"), (", no digits", "\n0123456789²٣")]
    {
        let mut model = || random_characters(&mut random, 300, letters, all, true);
        push(&format!("characters{name}"), by_normalizer(model()), None);
        for (scheme, split) in
            [("always", true), ("first", true), ("first", false), ("never", true), ("never", false)]
        {
            push(&format!("metaspace {scheme} {split}{name}"), by_metaspace(model(), scheme, split), None);
        }
    }
    let some = |byte: u8| byte < 0xe0 && byte != b'z' && byte != 0xbf;
    for unknown in [false, true] {
        let model = random_characters(&mut random, 200, "zqJ日é한;{", some, unknown);
        push(
            &format!("fallback incomplete, unknown token: {unknown}"),
            by_metaspace(model, "never", true),
            None,
        );
    }
    let mut model = by_metaspace(random_characters(&mut random, 300, "", all, true), "never", true);
    model["model"]["ignore_merges"] = json!(true);
    push("characters, whole pieces", model.clone(), None);
    // The control token is not matched in the text, but looked up by the model.
    model["added_tokens"].as_array_mut().unwrap().remove(0);
    push("characters, whole pieces, unknown token not added", model.clone(), None);
    model["model"]["merges"].as_array_mut().unwrap().retain(|_| random.below(3) > 0);
    push("characters, whole pieces without merges", model, None);

    // Falcon has patterns after the byte-level step, which may split inside of a character.
    let mut falcon = random_bytes(&mut random, 500);
    falcon["pre_tokenizer"] = sequence(&[
        json!({"type": "Punctuation", "behavior": "Contiguous"}),
        byte_level(false, true),
        json!({"type": "Digits", "individual_digits": false}),
        split("[0-9][0-9][0-9]", "Isolated", false),
    ]);
    push("Falcon", falcon, None);

    // Runs of blanks as added tokens, which overlap with themselves and each other.
    let mut blanks = random_bytes(&mut random, 400);
    let len = blanks["model"]["vocab"].as_object().unwrap().len();
    for (at, run) in [2, 3, 4, 7].into_iter().enumerate() {
        let token = added(len + at, &" ".repeat(run), false, true);
        blanks["added_tokens"].as_array_mut().unwrap().push(token);
    }
    blanks["pre_tokenizer"] = byte_level(false, true);
    push("runs of blanks", blanks, None);

    for form in ["NFD", "NFKC", "NFKD"] {
        let mut file = random_bytes(&mut random, 300);
        file["pre_tokenizer"] = byte_level(false, true);
        file["normalizer"] = json!({"type": form});
        push(form, file, None);
    }

    // Gemma has a pattern for a space after the normaliser that has replaced all spaces.
    let mut gemma = by_normalizer(random_characters(&mut random, 300, "", all, true));
    gemma["normalizer"] = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    gemma["pre_tokenizer"] = literal(" ", "MergedWithPrevious");
    push("Gemma", gemma, None);
    built
}

/// Tokenizers that cannot be followed exactly, each with a part of the error message.
pub(crate) fn refused() -> Vec<(Value, &'static str)> {
    let mut random = Random::new(1);
    let file = random_bytes(&mut random, 50);
    let with = |part: &str, value: Value| {
        let mut file = file.clone();
        file[part] = value;
        file
    };
    let text = |change: &dyn Fn(&mut Value)| {
        let mut token = added(file["model"]["vocab"].as_object().unwrap().len(), "zebra", false, false);
        change(&mut token);
        let mut file = file.clone();
        file["added_tokens"].as_array_mut().unwrap().push(token);
        file
    };
    let steps = |step: Value| with("pre_tokenizer", sequence(&[step, byte_level(false, false)]));
    vec![
        (
            with(
                "normalizer",
                json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "NFD"}]}),
            ),
            "its normaliser has the step Unicode(Nfd)",
        ),
        (
            with("normalizer", json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "a"})),
            "its normaliser has the step ReplaceRegex",
        ),
        (
            with(
                "normalizer",
                json!({"type": "Sequence", "normalizers": [
                {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
                {"type": "Replace", "pattern": {"String": "b"}, "content": "a"}]}),
            ),
            "its normaliser has the step Replace",
        ),
        (steps(json!({"type": "UnicodeScripts"})), "split step 1 is not supported"),
        (steps(split(r"\s*", "Isolated", false)), "the pattern of split step 1 can match the empty text"),
        (steps(split(r"a(?=bc)", "Isolated", false)), "split step 1: "),
        (text(&|token| token["single_word"] = json!(true)), "is matched as a whole word only"),
    ]
}
