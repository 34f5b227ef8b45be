//! Messages about files that are wrong: one line, the place, the value, the limit, the way out.

use std::error::Error;

use crate::common::{built, byte_level, load, sentence_piece_by_normalizer, unigram, word_piece};
use serde_json::{Value, json};
use unskew_vocab::{Limits, Tokenizer, TokenizerError};

fn message(bytes: &[u8]) -> String {
    Tokenizer::from_bytes(bytes).expect_err("the file is wrong").to_string()
}

/// The message for the byte-level file with a change.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut json = byte_level();
    change(&mut json);
    message(json.to_string().as_bytes())
}

#[test]
fn files_that_cannot_be_read() {
    let error = Tokenizer::from_file("no/such/tokenizer.json").unwrap_err();
    assert_eq!(error.to_string(), "cannot load the tokenizer file no/such/tokenizer.json");
    let source = error.source().unwrap();
    assert_eq!(source.to_string(), "cannot read the file");
    assert!(source.source().unwrap().downcast_ref::<std::io::Error>().is_some());

    let mut limits = Limits::default();
    limits.file_bytes = 100;
    let error =
        Tokenizer::from_file_with(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), limits).unwrap_err();
    assert_eq!(
        error.source().unwrap().to_string(),
        "the file is longer than the limit of 100 bytes; raise `Limits::file_bytes` if it is right"
    );
    let error = Tokenizer::from_bytes_with(&[b' '; 101], limits).unwrap_err();
    assert!(matches!(error, TokenizerError::FileTooLarge { limit: 100 }));
}

#[test]
fn bytes_that_are_not_json() {
    assert_eq!(
        message(b"{\n  \"version\": x\n}"),
        "line 2, column 14: not JSON: expected value; a tokenizer.json is expected"
    );
    assert_eq!(
        message(b""),
        "line 1, column 0: not JSON: EOF while parsing a value; a tokenizer.json is expected"
    );
    assert_eq!(
        message(b"{\n\"a\": \"\xff\"}"),
        "line 2, column 7: not JSON: not UTF-8; a tokenizer.json is expected"
    );
    let deep = "[".repeat(10_000);
    assert!(message(format!("{{\"normalizer\": {deep}").as_bytes()).contains("recursion limit"));
}

#[test]
fn json_that_is_something_else() {
    assert_eq!(message(b"{}"), "not a tokenizer.json: `model`: missing");
    assert_eq!(message(b"[1, 2]"), "not a tokenizer.json: the file: an object is expected, it is a list");
    assert_eq!(message(b"{\"model\": {}}"), "not a tokenizer.json: `model.type`: missing");
    assert_eq!(
        message(b"{\"model\": {\"type\": \"RNN\"}}"),
        "not a tokenizer.json: `model.type`: \"RNN\" is none of BPE, WordPiece, WordLevel, Unigram"
    );
    assert_eq!(message(b"{\"model\": {\"type\": \"BPE\"}}"), "not a tokenizer.json: `model.vocab`: missing");
    assert_eq!(
        message(b"{\"model\": {\"type\": \"BPE\", \"vocab\": {}}}"),
        "not a tokenizer.json: `model.merges`: missing"
    );
    assert_eq!(
        message(b"{\"model\": {\"type\": \"Unigram\", \"vocab\": {}}}"),
        "not a tokenizer.json: `model.vocab`: a Unigram model has a list of tokens with scores"
    );
    assert_eq!(
        message(b"{\"model\": {\"type\": \"BPE\", \"vocab\": [[\"a\", 1]], \"merges\": []}}"),
        "not a tokenizer.json: `model.vocab`: a BPE model has a map from tokens to ids"
    );
    assert_eq!(
        changed(|json| json["version"] = json!("2.0")),
        "not a tokenizer.json: `version`: it is \"2.0\", and 1.0 is the only one known"
    );
    assert!(
        message(b"{\"model\": {\"vocab\": {\"a\": -1}}}")
            .starts_with("not a tokenizer.json: line 1, column 2")
    );
    assert!(
        message(b"{\"model\": {\"vocab\": {}, \"merges\": [\"a b c\"]}}")
            .ends_with("invalid value: string \"a b c\", expected a merge: \"a b\" or [\"a\", \"b\"]")
    );
}

#[test]
fn ids_that_do_not_fit() {
    assert_eq!(
        changed(|json| json["model"]["vocab"]["q"] = json!(4_194_304)),
        "token \"q\" has id 4194304, the limit is 4194304; raise `Limits::ids` if it is right"
    );
    assert_eq!(
        changed(|json| json["added_tokens"][1]["id"] = json!(u64::MAX)),
        "token \"<|raw é|>\" has id 18446744073709551615, the limit is 4194304; raise `Limits::ids` if it is right"
    );
    let doubled = changed(|json| json["model"]["vocab"]["qq"] = json!(7));
    assert!(doubled.starts_with("id 7 is given to both "), "{doubled}");
    let text = byte_level().to_string().replace("\"vocab\":{", "\"vocab\":{\"q\":270,");
    assert_eq!(
        message(text.as_bytes()),
        "`model.vocab`: token \"q\" is listed twice; every token needs to be listed once"
    );
    assert_eq!(
        changed(|json| json["added_tokens"][1] = json["added_tokens"][0].clone()),
        "`added_tokens`: token \"<|endoftext|>\" is listed twice; every token needs to be listed once"
    );
    // The encoder numbers added tokens on from the model's, where the model does not have them.
    assert_eq!(
        changed(|json| drop(json["model"]["vocab"].as_object_mut().unwrap().remove("<|raw é|>"))),
        "added token \"<|raw é|>\" has id 267 in the file, but an encoder gives it 265; list it in `model.vocab` too, \
         or close the gap in the ids"
    );
    assert_eq!(
        changed(|json| json["added_tokens"][1]["id"] = json!(300)),
        "added token \"<|raw é|>\" has id 300 in the file, but an encoder gives it 267; list it in `model.vocab` too, \
         or close the gap in the ids"
    );
    assert_eq!(
        changed(|json| json["added_tokens"][1]["content"] = json!("")),
        "not a tokenizer.json: `added_tokens`: token 267 has no content"
    );
    let mut limits = Limits::default();
    limits.token_bytes = 8;
    let error = Tokenizer::from_bytes_with(byte_level().to_string().as_bytes(), limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "token 266 is 13 bytes long, the limit is 8; raise `Limits::token_bytes` if it is right"
    );
}

#[test]
fn tokens_whose_bytes_are_not_known() {
    // Such a token would be found everywhere, without end.
    assert_eq!(
        changed(|json| {
            json["normalizer"] = json!({"type": "StripAccents"});
            let mut accent = json["added_tokens"][1].clone();
            accent["content"] = json!("\u{301}");
            accent["normalized"] = json!(true);
            accent["id"] = json!(268);
            json["added_tokens"].as_array_mut().unwrap().push(accent);
        }),
        "not a tokenizer.json: `added_tokens`: the normaliser leaves nothing of token 268"
    );
    // `é` in the vocabulary is the byte 0xE9; as an added token it is matched on the text, where it is two bytes, and
    // no decoder says which.
    assert_eq!(
        changed(|json| {
            json["decoder"] = Value::Null;
            json["added_tokens"][1]["content"] = json!("é");
            json["added_tokens"][1]["id"] = json!(0xe9);
        }),
        "token 233 (\"é\"): it is an added token and a token of the model, and spells different bytes; its bytes would \
         be a guess, use another tokenizer"
    );
    assert_eq!(
        changed(|json| json["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁"})),
        "decoder: it spells tokens otherwise than `pre_tokenizer`; the bytes of the tokens would not be exact, use \
         another tokenizer"
    );
    assert_eq!(
        changed(|json| json["decoder"] = json!({"type": "BPEDecoder", "suffix": "he"})),
        "decoder: BPEDecoder joins tokens by words, with \"he\" at their ends; the bytes of the tokens would not be exact, \
         use another tokenizer"
    );
    assert_eq!(
        changed(|json| json["model"]["end_of_word_suffix"] = json!("</w>")),
        "`model.end_of_word_suffix`: \"</w>\" marks where a word begins or ends; the bytes of the tokens would not be \
         exact, use another tokenizer"
    );
    assert!(
        changed(|json| json["model"]["continuing_subword_prefix"] = json!("##")).contains("\"##\" marks")
    );
    assert!(
        changed(
            |json| json["decoder"] = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b"})
        )
        .starts_with("decoder: a `Replace` that does not write a space")
    );
    // Empty affixes are none, and byte fallback never happens where every byte has its token.
    let mut json = byte_level();
    json["model"]["continuing_subword_prefix"] = json!("");
    json["model"]["byte_fallback"] = json!(true);
    assert_eq!(load(&json).tokenization().unwrap().symbols, unskew_core::Symbols::Bytes);
    json["model"]["vocab"].as_object_mut().unwrap().remove("z");
    assert!(message(json.to_string().as_bytes()).contains("byte fallback together with"));
}

#[test]
fn merges_of_another_vocabulary() {
    let push = |merge: Value| changed(|json| json["model"]["merges"].as_array_mut().unwrap().push(merge));
    assert_eq!(
        push(json!("q zz")),
        "merge 8 (\"q\", \"zz\"): \"zz\" is not in `model.vocab`; the merges belong to another vocabulary"
    );
    assert_eq!(
        push(json!(["q", "z"])),
        "merge 8 (\"q\", \"z\"): \"qz\" is not in `model.vocab`; the merges belong to another vocabulary"
    );
    // A version line is not a merge.
    let mut json = byte_level();
    json["model"]["merges"].as_array_mut().unwrap().insert(0, json!("#version: 0.2"));
    assert_eq!(load(&json).tokenization().unwrap().merges.len(), 8);
}

#[test]
fn steps_that_are_not_known() {
    assert_eq!(
        changed(|json| json["normalizer"] = json!({"type": "Rot13"})),
        "normalizer: unknown type \"Rot13\"; the bytes of the tokens would not be exact, use another tokenizer"
    );
    assert_eq!(
        changed(
            |json| json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [{"type": "Split"}]})
        ),
        "not a tokenizer.json: pre_tokenizer.pretokenizers[0]: `pattern`: {\"String\": ..} or {\"Regex\": ..} is expected"
    );
    assert_eq!(
        changed(|json| json["pre_tokenizer"] = json!(7)),
        "not a tokenizer.json: pre_tokenizer: an object with a `type` is expected"
    );
    assert_eq!(
        changed(|json| json["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0})),
        "not a tokenizer.json: pre_tokenizer: `length`: 0 is not a length"
    );
    let regex = |regex: &str| {
        let split =
            json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        changed(|json| {
            json["pre_tokenizer"] =
                json!({"type": "Sequence", "pretokenizers": [split, json["pre_tokenizer"]]});
        })
    };
    assert_eq!(
        regex("a|(b"),
        "pre_tokenizer.pretokenizers[0]: `pattern`, byte 2: a group is not closed; it has no exact translation from \
         Oniguruma's syntax, write the regex without it or use another tokenizer"
    );
    let unknown = regex(r"\p{Nothing}");
    assert!(unknown.starts_with("pre_tokenizer: the encoder refuses it: "), "{unknown}");
    assert_eq!(
        changed(|json| json["post_processor"]["special_tokens"]["<|endoftext|>"]["ids"] = json!([264])),
        "not a tokenizer.json: `post_processor`: it puts id 264 in front of a sequence, and there is no such token"
    );
    assert_eq!(
        changed(|json| json["post_processor"]["special_tokens"] = json!({})),
        "not a tokenizer.json: post_processor.single[0]: `special_tokens` has no ids for \"<|endoftext|>\""
    );
    assert_eq!(
        changed(|json| json["post_processor"]["single"] = json!([])),
        "not a tokenizer.json: post_processor: `single` names the sequence 0 times, once is expected"
    );
}

#[test]
fn models_that_are_too_much() {
    let mut json = word_piece();
    json["model"]["max_input_chars_per_word"] = json!(1_000_000);
    assert_eq!(
        message(json.to_string().as_bytes()),
        "not a tokenizer.json: `model.max_input_chars_per_word`: it is 1000000, the limit is 1000"
    );
    let mut json = unigram();
    json["model"]["vocab"].as_array_mut().unwrap().push(json!(["x".repeat(1025), -1.0]));
    assert_eq!(
        message(json.to_string().as_bytes()),
        "not a tokenizer.json: `model.vocab`: token 267 is 1025 bytes long, the limit of a Unigram model is 1024"
    );
    let mut json = word_piece();
    json["model"]["continuing_subword_prefix"] = json!("");
    json["decoder"] = Value::Null;
    assert!(
        message(json.to_string().as_bytes()).contains("an empty prefix does not tell what continues a word")
    );
    let mut json = unigram();
    json["model"]["unk_id"] = json!(267);
    assert_eq!(
        message(json.to_string().as_bytes()),
        "not a tokenizer.json: `model.unk_id`: it is 267, but there are 267 tokens"
    );
}

#[test]
fn steps_have_limits() {
    let replace = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let mut json = byte_level();
    json["normalizer"] = json!({"type": "Sequence", "normalizers": vec![replace.clone(); 40]});
    let mut limits = Limits::default();
    limits.text_bytes = 1000;
    let tokenizer = Tokenizer::from_bytes_with(json.to_string().as_bytes(), limits).unwrap();
    assert_eq!(tokenizer.encode("b", false).unwrap().len(), 1);
    assert_eq!(
        tokenizer.encode("a", false).unwrap_err().to_string(),
        "the text cannot be encoded: the normalised text is longer than 4000 bytes; encode it in parts"
    );
    let pair = json!({"type": "Sequence", "normalizers": vec![replace; 33]});
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [pair, pair]});
    assert_eq!(
        message(json.to_string().as_bytes()),
        "not a tokenizer.json: normalizer.normalizers[1].normalizers[31]: there are more than 64 steps, which is the \
         limit"
    );
    assert_eq!(
        changed(|json| {
            let pattern = json!({"Regex": "x".repeat(8193)});
            json["normalizer"] = json!({"type": "Replace", "pattern": pattern, "content": ""});
        }),
        "not a tokenizer.json: normalizer: `pattern`: a regex of 8193 bytes, the limit is 8192"
    );
    assert!(
        changed(|json| json["normalizer"] = json!({"type": "ByteLevel"}))
            .contains("more than one byte-level step")
    );
}

#[test]
fn texts_have_a_limit() {
    let mut limits = Limits::default();
    limits.text_bytes = 10;
    let tokenizer = Tokenizer::from_bytes_with(byte_level().to_string().as_bytes(), limits).unwrap();
    assert_eq!(tokenizer.encode("0123456789", false).unwrap().len(), 10);
    for error in [
        tokenizer.encode("0123456789x", false).unwrap_err(),
        tokenizer.expected_bytes("0123456789x").unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "the text is 11 bytes long, the limit is 10; encode it in parts or raise `Limits::text_bytes`"
        );
    }
    // An unknown token that is not there.
    let mut json = sentence_piece_by_normalizer();
    json["model"]["unk_token"] = json!("<none>");
    json["model"]["byte_fallback"] = json!(false);
    let error = load(&json).encode("ж", false).unwrap_err();
    assert!(error.to_string().starts_with("the text cannot be encoded: "), "{error}");
}

/// Every message is one line and quotes little.
#[test]
fn messages_are_short() {
    let long = "x\n".repeat(10_000);
    for (name, json) in built() {
        for place in ["normalizer", "pre_tokenizer", "decoder", "post_processor", "model", "version"] {
            for value in [
                json!(long),
                json!({"type": long}),
                json!({"type": "Replace", "pattern": {"Regex": format!("({long}")}, "content": ""}),
            ] {
                let mut json = json.clone();
                json[place] = value;
                if let Err(error) = Tokenizer::from_bytes(json.to_string().as_bytes()) {
                    let message = error.to_string();
                    assert!(message.len() < 500 && !message.contains('\n'), "{name}: {message}");
                }
            }
        }
    }
}
