//! Parts that the tests share: where the data lies, texts that break tokenizers, and small tokenizers built by hand.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use unskew_core::{TokenId, TokenKind};
use unskew_vocab::Tokenizer;

/// The `tokenizer.json` of well-known models, with their names: those under `$UNSKEW_DATA/tokenizers`. Empty where
/// there are none; the reason is printed.
pub(crate) fn known_files() -> Vec<(String, PathBuf)> {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        println!("skipped: UNSKEW_DATA is not set to a folder with tokenizers/*/tokenizer.json");
        return Vec::new();
    };
    let folder = PathBuf::from(data).join("tokenizers");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} cannot be read", folder.display());
        return Vec::new();
    };
    let mut files: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let file = folder.join("tokenizer.json");
            file.exists().then(|| (folder.file_name().unwrap().to_string_lossy().into_owned(), file))
        })
        .collect();
    files.sort();
    files
}

/// Texts of many scripts and of every awkward kind.
pub(crate) fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "a",
        " ",
        " a",
        "  a",
        "Hello, world! It's the 21st of May, isn't it? I'LL WE'VE they'd",
        "The quick brown fox jumps over 12345678901234567890 lazy dogs: 3.14159e-10, 1,000,000 and ½ ² ⅷ ٣ ๓.",
        "Ελληνικά русский язык עִבְרִית العربية हिन्दी বাংলা தமிழ் ไทย 日本語の文 中文汉字 한국어 조합 ქართული አማርኛ",
        "👨‍👩‍👧‍👦 🏳️‍🌈 👩🏽‍🚀 ☕️ 🇩🇪🇯🇵 1️⃣ ✂️\u{fe0f} 🫠🫨",
        "e\u{301} e\u{301}\u{327} a\u{30a} o\u{308}\u{304} \u{1100}\u{1161}\u{11a8} \u{1e0b}\u{323} n\u{303}o\u{308}",
        "Å Å \u{fb01} \u{fb03} ſ \u{2126} \u{1d15e} \u{f900}",
        "fn main() {\n\tlet x: Vec<u8> = vec![0x1f; 3];\n    println!(\"{x:?}\");\r\n}\r\n\r\n/* end */\n",
        "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\\u00e9\": \"b\\n\"}}",
        " \t \n \r\n  \u{a0}\u{a0} \u{3000}\u{2003}\u{200b}\u{feff}  \n\n\n   ",
        "word    word\t\tword\n\n\nword   \n   word  \r\n\r\n  word\u{a0}word",
        "   leading and trailing   ",
        "\n",
        "\n\n \n  \n   x",
        "\u{0}\u{1}\u{2}\u{7}\u{8}\u{b}\u{c}\u{e}\u{1b}[31m\u{7f}\u{80}\u{9f}\u{ad}",
        "\u{fffd}\u{fffe}\u{10ffff}\u{e000}\u{d7ff}\u{2028}\u{2029}\u{202e}",
        "don't won't 'tis 's 't 're 've 'm 'll 'd 'S 'T 'LL 'ſ x'ſ",
        "http://example.com/a?b=c&d=e#f user@example.org C:\\path\\file.txt ~/x_y-z",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "<0x41> <0xE2> Ġ Ċ Ã© ## ##ing [UNK]",
        "================ -------- ________ ........ !!!!!!!! ))))))))",
        "ÀÁÂÃÄÅÆÇÈÉÊË àáâãäåæçèéêë ÿ Ÿ ¡¢£¤¥¦§¨©ª«¬®¯°±²³´µ¶·¸¹º»¼½¾¿",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(" ".repeat(300));
    texts.push("\n".repeat(300));
    texts.push(format!("{}x", " ".repeat(257)));
    texts.push("0123456789".repeat(30));
    texts.push("ab".repeat(200));
    texts.push("한".repeat(50));
    // Every character of one, two and three bytes whose code point is a multiple of something odd.
    texts.push((0..0xffff).step_by(251).filter_map(char::from_u32).collect());
    texts.push((0x10000..0x110000).step_by(9973).filter_map(char::from_u32).collect());
    texts.push((0..0x300).filter_map(char::from_u32).collect());
    texts
}

/// The ids of `text` spell the bytes that the tokenizer states. Returns the ids.
pub(crate) fn check_spelling(name: &str, tokenizer: &Tokenizer, text: &str) -> Vec<TokenId> {
    let ids = tokenizer.encode(text, false).unwrap_or_else(|error| panic!("{name}: {text:?}: {error}"));
    let vocabulary = tokenizer.vocabulary();
    for id in &ids {
        assert_ne!(vocabulary.kind(*id), TokenKind::Unused, "{name}: {id} in {text:?}");
    }
    let spelled = vocabulary.decode(&ids);
    let expected = tokenizer.expected_bytes(text).unwrap();
    assert!(
        spelled == *expected,
        "{name}: {text:?}\n spelled {:?}\nexpected {:?}",
        String::from_utf8_lossy(&spelled),
        String::from_utf8_lossy(&expected),
    );
    ids
}

/// GPT-2's alphabet, by its original description: printable Latin-1 stays, the rest is numbered from U+0100.
pub(crate) fn alphabet() -> Vec<char> {
    let stays =
        |byte: u32| (33..=126).contains(&byte) || (161..=172).contains(&byte) || (174..=255).contains(&byte);
    let mut moved = 0x100..;
    (0..256)
        .map(|byte| char::from_u32(if stays(byte) { byte } else { moved.next().unwrap() }).unwrap())
        .collect()
}

pub(crate) fn spell_bytes(text: &str) -> String {
    let alphabet = alphabet();
    text.bytes().map(|byte| alphabet[usize::from(byte)]).collect()
}

fn added(id: usize, content: &str, special: bool, normalized: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special,
    })
}

fn ids<'a>(tokens: impl IntoIterator<Item = &'a String>) -> Value {
    let map: Map<String, Value> =
        tokens.into_iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    Value::Object(map)
}

/// A byte-level tokenizer in GPT-2's manner: 256 bytes, a few merges, an end token that is special, an added token
/// that is not, and a hole between them.
pub(crate) fn byte_level() -> Value {
    let mut tokens: Vec<String> = alphabet().iter().map(char::to_string).collect();
    let mut merges = Vec::new();
    for (left, right) in
        [("t", "h"), ("th", "e"), (" ", "the"), ("e", "r"), (" ", " "), ("  ", "  "), ("\n", "\n")]
    {
        let (left, right) = (spell_bytes(left), spell_bytes(right));
        tokens.push(format!("{left}{right}"));
        merges.push(json!(format!("{left} {right}")));
    }
    // The first two bytes of the three of U+4E2D: a token that is no text by itself.
    let alphabet = alphabet();
    let (first, second) = (alphabet[0xe4].to_string(), alphabet[0xb8].to_string());
    tokens.push(format!("{first}{second}"));
    merges.push(json!(format!("{first} {second}")));
    let count = tokens.len();
    let mut vocab = ids(&tokens);
    vocab["<|endoftext|>"] = json!(count + 2);
    vocab["<|raw é|>"] = json!(count + 3);
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(count + 2, "<|endoftext|>", true, false), added(count + 3, "<|raw é|>", false, false)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [count + 2], "tokens": ["<|endoftext|>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}

fn sentence_piece_model() -> (Value, Value) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(['▁', 'h', 'e', 'l', 'o', 'w', 'r', 'd', 'é', '中'].map(String::from));
    let mut merges = Vec::new();
    for (left, right) in
        [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("▁", "hello"), ("▁", "w"), ("▁", "▁")]
    {
        tokens.push(format!("{left}{right}"));
        merges.push(json!([left, right]));
    }
    let model = json!({"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        "vocab": ids(&tokens), "merges": merges});
    let special =
        json!([added(0, "<unk>", true, false), added(1, "<s>", true, false), added(2, "</s>", true, false)]);
    (model, special)
}

/// A SentencePiece style tokenizer with the mark written by the normaliser, as Llama 2's.
pub(crate) fn sentence_piece_by_normalizer() -> Value {
    let (model, special) = sentence_piece_model();
    json!({
        "version": "1.0", "added_tokens": special,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": model,
    })
}

/// The same with a metaspace step, as newer files have it.
pub(crate) fn sentence_piece_by_metaspace(scheme: &str, split: bool) -> Value {
    let (model, special) = sentence_piece_model();
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    json!({
        "added_tokens": special, "normalizer": null, "pre_tokenizer": metaspace, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]},
        "model": model,
    })
}

/// A unigram model with byte fallback, in T5's manner.
pub(crate) fn unigram() -> Value {
    let mut vocab = vec![json!(["<pad>", 0.0]), json!(["</s>", 0.0]), json!(["<unk>", 0.0])];
    for (piece, score) in [
        ("▁", -2.0),
        ("▁the", -3.0),
        ("▁he", -4.0),
        ("t", -5.0),
        ("h", -5.0),
        ("e", -5.0),
        ("é", -6.0),
        ("▁▁", -7.0),
    ] {
        vocab.push(json!([piece, score]));
    }
    vocab.extend((0..256).map(|byte| json!([format!("<0x{byte:02X}>"), -20.0])));
    json!({
        "added_tokens": [added(0, "<pad>", true, false), added(1, "</s>", true, false), added(2, "<unk>", true, false)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [], "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": true, "vocab": vocab},
    })
}

/// A WordPiece model in BERT's manner; its file does not name the kind of model, as old ones do not.
pub(crate) fn word_piece() -> Value {
    let tokens =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "token", "##izer", "##s", "a", "##b", ",", "é"]
            .map(str::to_owned);
    let special: Vec<Value> =
        tokens.iter().take(5).enumerate().map(|(id, name)| added(id, name, true, false)).collect();
    json!({
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": false, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": ids(&tokens)},
    })
}

/// A table of words.
pub(crate) fn word_level() -> Value {
    json!({
        "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "hello": 1, "world": 2}, "unk_token": "<unk>"},
    })
}

/// All of the above, by name.
pub(crate) fn built() -> Vec<(&'static str, Value)> {
    vec![
        ("byte level", byte_level()),
        ("normaliser", sentence_piece_by_normalizer()),
        ("metaspace always", sentence_piece_by_metaspace("always", true)),
        ("metaspace first", sentence_piece_by_metaspace("first", false)),
        ("metaspace never", sentence_piece_by_metaspace("never", true)),
        ("unigram", unigram()),
        ("word piece", word_piece()),
        ("word level", word_level()),
    ]
}

pub(crate) fn load(json: &Value) -> Tokenizer {
    Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// SentencePiece's character map with one rule, `a` to `é`.
pub(crate) fn character_map() -> Vec<u8> {
    let mut array = vec![0u32; 1024];
    array[0] = 256 << 10;
    array[256 ^ usize::from(b'a')] = (512 << 10) | 0x100 | u32::from(b'a');
    array[768 ^ usize::from(b'a')] = 1 | 0x8000_0000;
    let mut map = 4096u32.to_le_bytes().to_vec();
    map.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
    map.extend_from_slice("\0é\0".as_bytes());
    map
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit > group.len() { '=' } else { char::from(DIGITS[value]) });
        }
    }
    text
}
