//! `canonical` over grammars, schemas, tags and combinations: the tokenizer's own sequence of a text is accepted,
//! and no other spelling of it is.

use unskew_core::{Constraint, TokenId};
use unskew_engine::{Compiled, Compiler, Spec, TokenSpace};
use unskew_notation::GrammarFormat;

use crate::common::tiny;

fn accepts(constraint: &Compiled, tokens: &[TokenId]) -> bool {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    tokens.iter().all(|token| constraint.advance(&mut scratch, &mut state, *token).is_ok())
        && constraint.is_accepting(&state)
}

/// Other spellings of a sequence: one token in two, or two tokens in one.
fn respelled(space: &TokenSpace, ids: &[TokenId]) -> Vec<Vec<TokenId>> {
    let vocabulary = space.vocabulary();
    let text = |id: TokenId| vocabulary.text(id).unwrap();
    let of = |wanted: &[u8]| vocabulary.text_tokens().find(|(_, text)| *text == wanted).map(|(id, _)| id);
    let mut all = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        for cut in 1..text(*id).len() {
            if let (Some(left), Some(right)) = (of(&text(*id)[..cut]), of(&text(*id)[cut..])) {
                all.push([&ids[..at], &[left, right], &ids[at + 1..]].concat());
            }
        }
        if let Some(next) = ids.get(at + 1)
            && let Some(both) = of(&[text(*id), text(*next)].concat())
        {
            all.push([&ids[..at], &[both], &ids[at + 2..]].concat());
        }
    }
    all
}

#[test]
fn one_spelling_of_each_text_is_accepted() {
    let tokens = tiny();
    let compiler = Compiler::new(tokens.clone());
    let tree = r##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["name"]}}}"##;
    let cases: Vec<(Spec, &[&str])> = vec![
        (
            Spec::json_schema(tree),
            &[
                r#"{"name": "The winter", "children": [{"name": "snow"}, {"name": "é", "children": []}]}"#,
                r#"{"name": "x", "other": {"any": [1, 2.5, null]}, "another": true}"#,
            ],
        ),
        (Spec::json_schema("{}"), &[r#"{"a": {"b": [[], [[]]]}, "c": "  two  blanks "}"#, "[true, -1e3]"]),
        (
            Spec::json_schema(r#"{"type": "string", "minLength": 3, "maxLength": 12}"#),
            &[r#""letters""#, r#""abc""#, r#""twelve chars""#],
        ),
        (
            Spec::json_schema(r#"{"type": "array", "items": {"type": "string"}, "uniqueItems": true}"#),
            &[r#"["one", "two", "three"]"#],
        ),
        (
            Spec::grammar(
                "start: \"(\" start* \")\" | WORD\nWORD: /[a-z]+/\n%ignore \" \"",
                GrammarFormat::Lark,
            ),
            &["(the (quick) brown (fox ()))", "word"],
        ),
        (
            Spec::grammar("root ::= \"[\" root (\", \" root)* \"]\" | [0-9]+", GrammarFormat::Gbnf),
            &["[1, [22, 333], 4444]"],
        ),
        (Spec::any_of([Spec::regex("[a-z ]+"), Spec::choices(["Yes", "No"])]), &["some words", "Yes"]),
    ];
    for (spec, texts) in cases {
        let all = compiler.compile(&spec).unwrap();
        let canonical = compiler.compile(&spec.clone().canonical()).unwrap();
        for text in texts {
            let ids = tokens.canonical(text).unwrap().unwrap();
            assert!(accepts(&canonical, &ids), "{spec}: {text}");
            let others = respelled(&tokens, &ids);
            assert!(!others.is_empty());
            for other in others {
                assert!(accepts(&all, &other), "{spec}: {text} as {other:?}");
                assert!(!accepts(&canonical, &other), "{spec}: {text} as {other:?}");
            }
        }
        let fates = spec.canonical().explain();
        // A combination has no constructs.
        if let Ok(fates) = fates {
            let last = fates.last().unwrap();
            assert_eq!((&*last.construct, last.fate), ("canonical", "enforced"));
        }
    }
}

/// The instances of MaskBench, with the tokenizers of Llama 3 and of Qwen, where `UNSKEW_DATA` has them: the
/// tokenizer's own sequence of a valid instance is accepted, and no other spelling of it. `UNSKEW_STEP`: every so
/// many schemas (50).
#[test]
fn instances_of_maskbench_have_one_spelling() {
    let Some(data) = std::env::var_os("UNSKEW_DATA").map(std::path::PathBuf::from) else { return };
    let step = std::env::var("UNSKEW_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(50);
    let Ok(folder) = std::fs::read_dir(data.join("maskbench")) else { return };
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for name in ["llama3", "qwen2"] {
        let file = data.join("tokenizers").join(name).join("tokenizer.json");
        let Ok(tokenizer) = unskew_vocab::Tokenizer::from_file(file) else { continue };
        let tokens = std::sync::Arc::new(TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap());
        let compiler = Compiler::new(tokens.clone());
        let (mut instances, mut refused, mut others) = (0, 0, 0);
        for file in files.iter().step_by(step) {
            let case: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            let spec = Spec::json_schema(case["schema"].to_string());
            let Ok(all) = compiler.compile(&spec) else { continue };
            let canonical = compiler.compile(&spec.canonical()).unwrap();
            for test in case["tests"].as_array().unwrap() {
                let text = test["data"].to_string();
                let Some(ids) = tokens.canonical(&text).unwrap() else { continue };
                let accepted = accepts(&canonical, &ids);
                assert_eq!(accepted, accepts(&all, &ids), "{name}, {}: {text}", file.display());
                instances += 1;
                if !accepted {
                    refused += 1;
                    continue;
                }
                let respelled = respelled_few(&tokens, &ids);
                for other in &respelled {
                    assert!(!accepts(&canonical, other), "{name}, {}: {text} as {other:?}", file.display());
                }
                others += respelled.len();
            }
        }
        assert!(
            instances > refused && others > 0,
            "{name}: {instances} instances, {refused} refused, {others} respelled"
        );
    }
}

/// Some other spellings, spread over the sequence: one token in two.
fn respelled_few(space: &TokenSpace, ids: &[TokenId]) -> Vec<Vec<TokenId>> {
    const FEW: usize = 12;
    let vocabulary = space.vocabulary();
    let trie = space.trie().unwrap();
    // In the order of bytes the text itself comes first.
    let token = |text: &[u8]| {
        let first = trie.beginning_with(text).first().copied();
        first.filter(|token| vocabulary.text(*token) == Some(text))
    };
    let mut all = Vec::new();
    for at in (0..ids.len()).step_by(ids.len().div_ceil(FEW)) {
        let text = vocabulary.text(ids[at]).unwrap();
        let cuts = (1..text.len()).filter_map(|cut| Some([token(&text[..cut])?, token(&text[cut..])?]));
        all.extend(cuts.take(1).map(|parts| [&ids[..at], &parts[..], &ids[at + 1..]].concat()));
    }
    all
}
