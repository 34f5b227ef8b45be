//! Decoders: which bytes they make of tokens, and where the bytes here are not theirs.

use crate::common::{
    built, byte_level, load, sentence_piece_by_metaspace, sentence_piece_by_normalizer, unigram, word_level,
};
use serde_json::{Value, json};
use unskew_core::TokenId;
use unskew_vocab::{DecoderNote, Tokenizer};

fn added(json: &mut Value, id: u32, content: &str) {
    // Encoders number on from the model's tokens where it does not have the token.
    json["model"]["vocab"][content] = json!(id);
    let mut token = json["added_tokens"][0].clone();
    (token["id"], token["content"], token["special"]) = (json!(id), json!(content), json!(false));
    json["added_tokens"].as_array_mut().unwrap().push(token);
}

/// DeepSeek's tokenizers have such tokens. The library's decode makes bytes of them: `decode([268])` is U+FFFD.
#[test]
fn a_byte_level_decoder_reads_added_tokens_too() {
    let mut json = byte_level();
    for (id, token) in [(268, "ü"), (269, "Ã©!"), (270, "ü ü")] {
        added(&mut json, id, token);
    }
    let tokenizer = load(&json);
    let text = |id| tokenizer.vocabulary().text(TokenId(id)).unwrap();
    assert_eq!([text(268), text(269), text(270)], [b"\xfc".as_slice(), "é!".as_bytes(), "ü ü".as_bytes()]);
    // The encoder finds them in the text all the same, which does not survive.
    let ids = tokenizer.encode("für", false).unwrap();
    assert_eq!(tokenizer.vocabulary().decode(&ids), b"f\xfcr");
    assert_eq!(tokenizer.read_as("für", &ids).as_deref(), Some(b"f\xfcr".as_slice()));
    // Without a decoder it may be the byte or the letter.
    json["decoder"] = Value::Null;
    let error = Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("it is an added token and a token of the model"), "{error}");
}

#[test]
fn differences_from_the_decoder_are_noted() {
    let notes = |json: &Value| load(json).notes().to_vec();
    for (name, json) in built() {
        let expected: &[DecoderNote] = match name {
            "word piece" => &[DecoderNote::CleansUp],
            "unigram" => &[DecoderNote::Undecoded],
            _ => &[],
        };
        assert_eq!(notes(&json), expected, "{name}");
    }
    let with = |mut json: Value, decoder: Value| {
        json["decoder"] = decoder;
        json
    };
    let fuse = json!({"type": "Fuse"});
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"});
    for (json, decoder, note) in [
        (byte_level(), Value::Null, DecoderNote::NoDecoder),
        (unigram(), Value::Null, DecoderNote::NoDecoder),
        (byte_level(), fuse.clone(), DecoderNote::Undecoded),
        (sentence_piece_by_normalizer(), fuse.clone(), DecoderNote::Undecoded),
        // Bytes are not read.
        (sentence_piece_by_metaspace("never", true), metaspace, DecoderNote::Undecoded),
        (word_level(), fuse, DecoderNote::Undecoded),
    ] {
        // The bytes are those of the encoder, with or without the decoder.
        let (whole, other) = (load(&json), load(&with(json.clone(), decoder)));
        assert_eq!(other.notes(), [note], "{json}");
        let texts = |tokenizer: &Tokenizer| tokenizer.vocabulary().flat().0.to_vec();
        assert_eq!(texts(&whole), texts(&other), "{json}");
        assert!(!note.to_string().contains('\n'));
    }
}

/// LLM-jp's files: regexes that are a string or the beginning of the text.
#[test]
fn regexes_that_stand_for_strings_and_for_the_beginning() {
    let replace = |regex: &str, content: &str| json!({"type": "Replace", "pattern": {"Regex": regex}, "content": content});
    let mut json = sentence_piece_by_normalizer();
    let plain = load(&json);
    let mut steps = vec![
        json!({"type": "ByteFallback"}),
        replace("▁", " "),
        json!({"type": "Fuse"}),
        replace(r"(?<!\n)^ ", ""),
    ];
    json["normalizer"]["normalizers"] = json!([replace(r"(?<!\n)^", "▁"), replace(" ", "▁")]);
    json["decoder"]["decoders"] = json!(steps);
    let tokenizer = load(&json);
    assert!(tokenizer.notes().is_empty() && tokenizer.prepends_space());
    assert_eq!(tokenizer.tokenization().unwrap(), plain.tokenization().unwrap());
    assert_eq!(tokenizer.vocabulary().flat(), plain.vocabulary().flat());
    for text in ["hello", " a\n b", "\n"] {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!((&ids, tokenizer.decode(&ids)), (&plain.encode(text, false).unwrap(), text.to_owned()));
    }
    // Before `Fuse` it would strip each token.
    steps.swap(2, 3);
    json["decoder"]["decoders"] = json!(steps);
    let error = Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("decoder: a `Strip` of something else"), "{error}");
}

#[test]
fn a_word_end_that_no_token_has_ends_no_word() {
    let mut json = json!({
        "decoder": {"type": "BPE", "suffix": "</w>"}, "pre_tokenizer": null,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    });
    let tokenizer = load(&json);
    assert_eq!(tokenizer.vocabulary().text(TokenId(2)), Some(b"ab".as_slice()));
    assert!(tokenizer.notes().is_empty() && tokenizer.tokenization().is_ok());
    json["model"]["vocab"]["b</w>"] = json!(3);
    let error = Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("decoder: BPEDecoder joins tokens by words, with \"</w>\""), "{error}");
}

#[test]
fn ends_of_newer_models_are_known() {
    for name in ["<|return|>", "<|call|>", "<turn|>", "<EOS_TOKEN>", "<EOD|LLM-jp>"] {
        let json = byte_level().to_string().replace("<|endoftext|>", name);
        let tokenizer = Tokenizer::from_bytes(json.as_bytes()).unwrap();
        assert_eq!(tokenizer.vocabulary().end_of_sequence(), [TokenId(266)], "{name}");
    }
}

/// The encoder is asked behind a line break, which line breaks of the text merge with.
#[test]
fn line_breaks_continue_a_text() {
    let mut json = byte_level();
    json["pre_tokenizer"]["add_prefix_space"] = json!(true);
    let tokenizer = load(&json);
    for text in ["\n", "\n \n", "\n\n", " a", "a", "the\n"] {
        let ids = tokenizer.encode_continuation(text).unwrap();
        assert_eq!(tokenizer.vocabulary().decode(&ids), text.as_bytes(), "{text:?}");
        assert_eq!(tokenizer.read_as(text, &ids), None);
        assert!(tokenizer.is_continuation(text, &ids).unwrap(), "{text:?}");
    }
    let the = tokenizer.encode_continuation("the").unwrap();
    assert_eq!(the.len(), 1);
    let parts: Vec<TokenId> = "the".bytes().map(|byte| TokenId(u32::from(byte))).collect();
    assert!(!tokenizer.is_continuation("the", &parts).unwrap());
}

#[test]
fn a_text_that_is_read_as_another_is_told() {
    let mut json = byte_level();
    json["normalizer"] = json!({"type": "NFC"});
    let tokenizer = load(&json);
    let read = |text: &str| {
        let ids = tokenizer.encode_continuation(text).unwrap();
        tokenizer.read_as(text, &ids).map(|bytes| String::from_utf8(bytes).unwrap())
    };
    assert_eq!(read("e\u{301}"), Some("é".to_owned()));
    // Control tokens stand for their names.
    assert_eq!((read("é"), read("a<|endoftext|>")), (None, None));
    // A character without a token is dropped.
    json["model"]["vocab"].as_object_mut().unwrap().remove("x");
    let tokenizer = load(&json);
    let ids = tokenizer.encode_continuation("axb").unwrap();
    assert_eq!(tokenizer.read_as("axb", &ids).as_deref(), Some(b"ab".as_slice()));
}
