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
