//! Small tokenizers of every kind, built in memory: the bytes of their tokens, and texts that come back.

use crate::common::{
    base64, built, byte_level, character_map, check_spelling, load, sentence_piece_by_metaspace, texts,
    unigram, word_level, word_piece,
};
use serde_json::{Value, json};
use unskew_core::{Normalizer, PrependScheme, SplitPattern, Symbols, TokenId, TokenKind};
use unskew_vocab::{TokenizationError, Tokenizer, TokenizerError};

fn error(json: &Value) -> TokenizerError {
    Tokenizer::from_bytes(json.to_string().as_bytes()).expect_err("the file is wrong")
}

#[test]
fn tokens_spell_what_they_say() {
    for (name, json) in built() {
        let tokenizer = load(&json);
        for text in texts() {
            // The encoder finds byte tokens of a unigram model in text that spells their names.
            if name == "unigram" && text.contains("<0x") {
                continue;
            }
            let ids = tokenizer.encode(&text, false).unwrap();
            let knows_all = ids.iter().all(|id| tokenizer.vocabulary().kind(*id) == TokenKind::Text);
            if knows_all {
                check_spelling(name, &tokenizer, &text);
            }
            let expected = tokenizer.expected_bytes(&text).unwrap();
            let marked = text.replace('▁', " ");
            match name {
                "byte level" => assert!(knows_all && *expected == *text.as_bytes()),
                "normaliser" if text.is_empty() => assert_eq!(*expected, *b""),
                "normaliser" => assert!(knows_all && *expected == *format!(" {marked}").as_bytes()),
                "metaspace never" => assert!(knows_all && *expected == *marked.as_bytes()),
                "metaspace always" | "metaspace first" => {
                    let front = if marked.is_empty() || marked.starts_with(' ') { "" } else { " " };
                    assert!(knows_all && *expected == *format!("{front}{marked}").as_bytes());
                }
                _ => {}
            }
            let decoded = tokenizer.decode(&ids);
            match name {
                "byte level" => assert_eq!(decoded, text),
                "normaliser" | "metaspace never" => assert_eq!(decoded, marked),
                // The space that was there and the one that is put in front cannot be told apart.
                "metaspace always" | "metaspace first" => {
                    assert_eq!(decoded, marked.strip_prefix(' ').unwrap_or(&marked));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn byte_level_tokens_are_bytes() {
    let tokenizer = load(&byte_level());
    let vocabulary = tokenizer.vocabulary();
    assert_eq!(vocabulary.len(), 268);
    for byte in 0..=255u8 {
        assert_eq!(vocabulary.text(TokenId(u32::from(byte))), Some(&[byte][..]));
    }
    assert_eq!(vocabulary.text(TokenId(258)), Some(&b" the"[..]));
    assert_eq!(vocabulary.text(TokenId(263)), Some(&[0xe4, 0xb8][..]));
    assert_eq!(vocabulary.kind(TokenId(264)), TokenKind::Unused);
    assert_eq!(vocabulary.kind(TokenId(265)), TokenKind::Unused);
    assert_eq!(vocabulary.end_of_sequence(), [TokenId(266)]);
    // An added token is matched on the text: its bytes are those of the text, not of the alphabet.
    assert_eq!(vocabulary.text(TokenId(267)), Some("<|raw é|>".as_bytes()));
    let ids = check_spelling("byte level", &tokenizer, "the<|raw é|>中 the");
    assert_eq!(ids, [257, 267, 263, 0xad, 258].map(TokenId));
    assert_eq!(tokenizer.decode(&ids), "the<|raw é|>中 the");

    assert_eq!(tokenizer.begin_of_sequence(), [TokenId(266)]);
    assert_eq!(tokenizer.encode("er", true).unwrap(), [266, 259].map(TokenId));
    assert!(!tokenizer.prepends_space());
}

#[test]
fn a_prefix_space_is_a_fact() {
    let mut json = byte_level();
    json["pre_tokenizer"]["add_prefix_space"] = json!(true);
    let tokenizer = load(&json);
    assert!(tokenizer.prepends_space());
    assert_eq!(tokenizer.tokenization().unwrap().splits[0], SplitPattern::PrefixSpace);
    assert_eq!(check_spelling("prefix", &tokenizer, "the"), [TokenId(258)]);
    assert_eq!(tokenizer.expected_bytes("the").unwrap(), &b" the"[..]);
    assert_eq!(tokenizer.expected_bytes(" the").unwrap(), &b" the"[..]);
    assert_eq!(tokenizer.expected_bytes("\nx").unwrap(), &b" \nx"[..]);
    // Behind another step it would be put in front of every piece, which is not the meaning of the data.
    let digits = json!({"type": "Digits", "individual_digits": true});
    json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [digits, json["pre_tokenizer"]]});
    let tokenizer = load(&json);
    check_spelling("prefix", &tokenizer, "a1 b22");
    assert!(matches!(tokenizer.tokenization().unwrap().splits[1], SplitPattern::Other(_)));
}

#[test]
fn a_byte_level_normaliser_spells_the_same() {
    let mut json = byte_level();
    json["normalizer"] = json!({"type": "ByteLevel"});
    json["pre_tokenizer"] = Value::Null;
    json["added_tokens"][1]["normalized"] = json!(true);
    let tokenizer = load(&json);
    for text in texts() {
        check_spelling("normaliser", &tokenizer, &text);
        assert_eq!(tokenizer.expected_bytes(&text).unwrap(), text.as_bytes());
    }
    check_spelling("normaliser", &tokenizer, "x<|raw é|>y");
    let facts = tokenizer.tokenization().unwrap();
    assert_eq!(facts.normalizers, [Normalizer::ByteLevel]);
    // It is matched as it is spelled then, and the model does not write it.
    assert_eq!(facts.added[1].content, "<|rawĠÃ©|>");
    assert_eq!(facts.unwritten, [facts.added[1].id]);
}

/// The library's decoder reads a token with a character outside of the alphabet as it stands; Command R has one.
#[test]
fn a_token_outside_of_the_alphabet_spells_itself() {
    let mut json = byte_level();
    json["model"]["vocab"]["\u{200d}"] = json!(300);
    json["model"]["vocab"]["é "] = json!(301);
    let tokenizer = load(&json);
    assert_eq!(tokenizer.vocabulary().text(TokenId(300)), Some("\u{200d}".as_bytes()));
    assert_eq!(tokenizer.vocabulary().text(TokenId(301)), Some("é ".as_bytes()));
    for text in ["a\u{200d}b", "é "] {
        let ids = check_spelling("outside", &tokenizer, text);
        assert!(!ids.contains(&TokenId(300)) && !ids.contains(&TokenId(301)));
    }
    let unwritten = &tokenizer.tokenization().unwrap().unwritten;
    assert!(unwritten.contains(&TokenId(300)) && unwritten.contains(&TokenId(301)));
}

#[test]
fn metaspace_steps_are_facts() {
    let tokenizer = load(&sentence_piece_by_metaspace("first", true));
    let facts = tokenizer.tokenization().unwrap();
    let metaspace =
        SplitPattern::Metaspace { replacement: '▁', prepend: PrependScheme::First, split: true };
    assert_eq!(facts.splits, [metaspace]);
    assert_eq!(facts.symbols, Symbols::Characters { fallback: tokenizer.fallback_tokens().to_vec() });
    assert_eq!(tokenizer.fallback_tokens()[0x41], (0x41, TokenId(3 + 0x41)));

    // The first piece of the text gets a space, the one after a control token does not.
    let ids = check_spelling("first", &tokenizer, "hello</s>hello");
    assert_eq!(tokenizer.vocabulary().decode(&ids), b" hellohello");
    let tokenizer = load(&sentence_piece_by_metaspace("always", true));
    let ids = check_spelling("always", &tokenizer, "hello</s>hello");
    assert_eq!(tokenizer.vocabulary().decode(&ids), b" hello hello");
    // `é` has a token of its own, `ä` is spelled in bytes.
    let ids = check_spelling("always", &tokenizer, "éä");
    assert_eq!(ids.len(), 4);

    // The old flag.
    let mut json = sentence_piece_by_metaspace("always", true);
    json["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": false});
    assert!(!load(&json).prepends_space());
}

#[test]
fn a_literal_byte_name_in_text_is_text() {
    for (name, json) in built().into_iter().skip(1).take(4) {
        let ids = check_spelling(name, &load(&json), "<0x41>");
        assert!(!ids.contains(&TokenId(3 + 0x41)), "{name}");
    }
}

#[test]
fn a_unigram_model_has_a_vocabulary_and_no_merges() {
    let tokenizer = load(&unigram());
    let ids = check_spelling("unigram", &tokenizer, "the he ä");
    assert_eq!(tokenizer.vocabulary().decode(&ids), " the he ä".as_bytes());
    assert_eq!(tokenizer.decode(&ids), "the he ä");
    // The normaliser composes.
    assert_eq!(tokenizer.expected_bytes("e\u{301}").unwrap(), " é".as_bytes());
    assert_eq!(tokenizer.behind_sequence(), [TokenId(1)]);
    assert_eq!(tokenizer.vocabulary().kind(TokenId(2)), TokenKind::Control);
    let error = tokenizer.tokenization().unwrap_err();
    assert_eq!(error, TokenizationError::Scores { model: "Unigram" });
    assert_eq!(
        error.to_string(),
        "a Unigram model writes the segmentation with the best sum of scores, which no finite automaton can follow; leave \
         out the demand for canonical sequences"
    );
}

#[test]
fn words_are_spelled_with_a_space_in_front() {
    let tokenizer = load(&word_piece());
    let ids = check_spelling("word piece", &tokenizer, "The tokenizers,  é");
    assert_eq!(tokenizer.vocabulary().decode(&ids), " the tokenizers , é".as_bytes());
    assert_eq!(tokenizer.decode(&ids), "the tokenizers , é");
    let framed = tokenizer.encode("a", true).unwrap();
    assert_eq!(framed, [2, 9, 3].map(TokenId));
    assert_eq!(tokenizer.encode("xyz", false).unwrap(), [TokenId(1)]);
    assert!(tokenizer.tokenization().is_err());

    let tokenizer = load(&word_level());
    let ids = check_spelling("word level", &tokenizer, "hello   world\nhello");
    assert_eq!(tokenizer.vocabulary().decode(&ids), b" hello world hello");
}

#[test]
fn normalisers_are_facts() {
    let mut json = byte_level();
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
        {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "y"},
        {"type": "Strip", "strip_left": true, "strip_right": true}]});
    let tokenizer = load(&json);
    let names: Vec<_> = tokenizer.tokenization().unwrap().normalizers.clone();
    assert_eq!(names[0], Normalizer::Unicode(unskew_core::UnicodeForm::Nfkc));
    let Normalizer::Characters { step, kept, writes } = &names[1] else { panic!("{:?}", names[1]) };
    let has =
        |ranges: &[(char, char)], char: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&char));
    assert_eq!(step, "Lowercase");
    assert!(has(kept, 'a') && has(kept, ' ') && !has(kept, 'A') && !has(kept, 'É'));
    assert!(has(writes, 'a') && has(writes, 'é') && !has(writes, ' ') && !has(writes, 'A'));
    assert_eq!(names[2], Normalizer::ReplaceRegex { pattern: "x+".to_owned(), to: "y".to_owned() });
    assert_eq!(names[3], Normalizer::Strip { left: true, right: true });
    assert_eq!(names.len(), 4);
    let ids = check_spelling("normalisers", &tokenizer, " Axxﬁ \u{212b}  ");
    assert_eq!(tokenizer.vocabulary().decode(&ids), "ayfi å".as_bytes());
}

/// SentencePiece's character map: one rule, `a` to `é`.
#[test]
fn a_character_map_normalises() {
    let map = character_map();
    let mut json = unigram();
    json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": base64(&map)});
    let tokenizer = load(&json);
    let ids = check_spelling("map", &tokenizer, "tahab");
    assert_eq!(tokenizer.vocabulary().decode(&ids), " téhéb".as_bytes());

    let mut damaged = map;
    damaged[5] = 0xff;
    json["normalizer"]["precompiled_charsmap"] = json!(base64(&damaged));
    assert_eq!(
        error(&json).to_string(),
        "not a tokenizer.json: normalizer: the character map points outside its array"
    );
}

#[test]
fn dropout_keeps_the_encoder_and_hides_the_merges() {
    let mut json = byte_level();
    json["model"]["dropout"] = json!(0.5);
    let tokenizer = load(&json);
    assert_eq!(tokenizer.tokenization().unwrap_err(), TokenizationError::Dropout { probability: 0.5 });
    for _ in 0..20 {
        assert_eq!(tokenizer.encode(" the", false).unwrap(), [TokenId(258)]);
    }
    json["model"]["dropout"] = json!(0.0);
    assert!(load(&json).tokenization().is_ok());
}

#[test]
fn merges_that_mean_something_else_are_errors() {
    // A merge that makes a control token, whose text is not always cut out of a text; else it never applies.
    let mut json = byte_level();
    json["model"]["vocab"]["zz"] = json!(300);
    json["model"]["merges"].as_array_mut().unwrap().push(json!("z z"));
    json["added_tokens"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 300, "content": "zz", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
    let tokenizer = load(&json);
    assert_eq!(tokenizer.tokenization().unwrap().merges.len(), 8);
    assert_eq!(
        check_spelling("merge of a control token", &tokenizer, "azzz"),
        [0x61, 300, 0x7a].map(TokenId)
    );
    json["added_tokens"].as_array_mut().unwrap().last_mut().unwrap()["single_word"] = json!(true);
    let tokenization = load(&json).tokenization().unwrap_err();
    assert_eq!(tokenization, TokenizationError::ControlMerge { rank: 8, token: TokenId(300) });
    // The text that is matched is another one than the merge makes.
    let added = json["added_tokens"].as_array_mut().unwrap().last_mut().unwrap();
    (added["single_word"], added["normalized"]) = (json!(false), json!(true));
    json["normalizer"] = json!({"type": "Replace", "pattern": {"String": "zz"}, "content": "y"});
    let tokenization = load(&json).tokenization().unwrap_err();
    assert_eq!(tokenization, TokenizationError::ControlMerge { rank: 8, token: TokenId(300) });
    // A control token that is a character, and the text that is matched another one.
    let mut json = sentence_piece_by_metaspace("never", true);
    json["normalizer"] = json!({"type": "Prepend", "prepend": "▁"});
    let id = json["model"]["vocab"].as_object().unwrap().len();
    json["model"]["vocab"]["ß"] = json!(id);
    json["added_tokens"] = json!([{"id": id, "content": "ß", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": true, "special": true}]);
    let token = TokenId(u32::try_from(id).unwrap());
    assert_eq!(load(&json).tokenization().unwrap_err(), TokenizationError::ControlPiece { token });
    json["added_tokens"][0]["normalized"] = json!(false);
    assert!(load(&json).tokenization().is_ok());
    // One whose result is a byte by its name.
    let mut json = sentence_piece_by_metaspace("never", true);
    let vocab = json["model"]["vocab"].as_object_mut().unwrap();
    for (id, name) in ["<0x4", "1>"].iter().enumerate() {
        vocab.insert((*name).to_owned(), json!(400 + id));
    }
    json["model"]["merges"].as_array_mut().unwrap().push(json!(["<0x4", "1>"]));
    let tokenization = load(&json).tokenization().unwrap_err();
    assert_eq!(tokenization, TokenizationError::MergeBytes { rank: 7, result: TokenId(3 + 0x41) });
    // One that is listed twice.
    let mut json = byte_level();
    json["model"]["merges"].as_array_mut().unwrap().push(json!(["t", "h"]));
    let tokenization = load(&json).tokenization().unwrap_err().to_string();
    assert_eq!(tokenization, "the pair of tokens 116 and 104 is merged twice, at ranks 0 and 8");
}

#[test]
fn end_of_sequence_can_be_named() {
    let tokenizer = load(&word_piece());
    assert_eq!(tokenizer.vocabulary().end_of_sequence(), []);
    let tokenizer = tokenizer.with_end_of_sequence(&[TokenId(3)]).unwrap();
    assert_eq!(tokenizer.vocabulary().end_of_sequence(), [TokenId(3)]);
    let error = tokenizer.with_end_of_sequence(&[TokenId(5)]).unwrap_err();
    assert!(error.to_string().starts_with("end-of-sequence id 5 is not a control token"));
}

/// Tokens without which a character cannot be spelled: dropped, or the unknown token, as the model says.
#[test]
fn characters_without_a_token() {
    let mut json = byte_level();
    json["model"]["vocab"].as_object_mut().unwrap().remove("z");
    let tokenizer = load(&json);
    assert_eq!(tokenizer.encode("azb", false).unwrap(), [u32::from(b'a'), u32::from(b'b')].map(TokenId));
    json["model"]["unk_token"] = json!("<|endoftext|>");
    let tokenizer = load(&json);
    assert_eq!(tokenizer.encode("azb", false).unwrap()[1], TokenId(266));
}

/// The library, reading the same files itself, gives the same ids, where it does not stumble over its own offsets.
#[test]
fn the_encoder_is_the_library() {
    for (name, json) in built() {
        let tokenizer = load(&json);
        let mut json = json;
        // The library does not read a template for pairs that is empty.
        json["post_processor"] = Value::Null;
        let library = tokenizers::Tokenizer::from_bytes(json.to_string())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for text in texts() {
            let ours: Vec<u32> = tokenizer.encode(&text, false).unwrap().into_iter().map(u32::from).collect();
            let theirs = library.encode_fast(text.as_str(), false).unwrap();
            assert_eq!(ours, theirs.get_ids(), "{name}: {text:?}");
        }
    }
}

#[test]
fn a_tokenizer_is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&load(&byte_level()));
}
