//! Constraints as parts of others: `any_of`, `sequence`, `@name`, `%json`, imports, and the list of grammars of
//! llguidance.

use std::{fs, sync::Arc};

use unskew_core::TokenId;
use unskew_engine::{Compiler, Spec};
use unskew_notation::GrammarFormat;

use crate::common::bytes;

fn accepted(spec: &Spec, text: &str) -> Result<bool, String> {
    let mut matcher = Compiler::new(bytes()).compile(spec).map_err(|error| error.to_string())?.matcher();
    let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(u32::from(byte))).collect();
    Ok(matcher.accept_all(&tokens).unwrap() == tokens.len() && matcher.is_accepting())
}

fn check(spec: &Spec, texts: &[(&str, bool)]) {
    let again = Spec::from_json(&spec.to_json()).unwrap();
    assert_eq!(&again, spec, "the JSON form keeps all");
    for (text, expected) in texts {
        assert_eq!(accepted(spec, text), Ok(*expected), "{spec}: {text}");
    }
}

fn integer() -> Spec {
    Spec::json_schema(r#"{"type": "integer"}"#)
}

#[test]
fn unions_and_sequences_of_any_kind() {
    let parts = [Spec::regex("[ab]+"), integer(), Spec::choices(["yes", "no"])];
    check(
        &Spec::any_of(parts.clone()),
        &[("ab", true), ("-12", true), ("yes", true), ("ab1", false), ("", false), ("yesno", false)],
    );
    check(
        &Spec::sequence(parts.clone()),
        &[("ab12yes", true), ("a-1no", true), ("12yes", false), ("ab12", false), ("abyes", false)],
    );
    let nested = Spec::sequence([Spec::any_of(parts), Spec::grammar("root ::= \"!\"*", GrammarFormat::Gbnf)]);
    check(&nested, &[("12!!", true), ("yes", true), ("!", false)]);
    // Only whole outputs are canonical.
    let canonical = Spec::any_of([Spec::regex("a").canonical()]);
    assert!(accepted(&canonical, "a").unwrap_err().contains("`canonical` is a property of whole outputs"));
    // A union of regular parts can be canonical.
    let tiny = crate::common::tiny();
    let union = Spec::any_of([Spec::regex("yes"), Spec::choices(["no"])]).canonical();
    let mut matcher = Compiler::new(Arc::clone(&tiny)).compile(&union).unwrap().matcher();
    let no = tiny.encode_output("no").unwrap();
    assert_eq!(matcher.accept_all(&no).unwrap(), no.len());
    assert!(matcher.is_accepting());
}

#[test]
fn a_grammar_uses_schemas_and_other_constraints() {
    let spec = Spec::from_json(
        r#"{"grammar": "start: \"<\" %json {\"enum\": [1, \"ab\"]} \">\" @tail", "grammar_format": "lark",
            "grammars": {"tail": {"regex": "x*"}, "unused": {"json_schema": {"type": "nothing"}}}}"#,
    )
    .unwrap();
    check(&spec, &[("<1>", true), ("<\"ab\">xx", true), ("<2>", false), ("<1>y", false)]);
    let unknown = Spec::from_json(
        r#"{"grammar": "start: @tial", "grammar_format": "lark", "grammars": {"tail": {"regex": "x"}}}"#,
    );
    let error = accepted(&unknown.unwrap(), "x").unwrap_err();
    assert_eq!(error, "line 1, column 8: `@tial`: no grammar has this name, only tail");
    let broken = Spec::grammar("start: %json {\"type\": \"nothing\"}", GrammarFormat::Lark);
    let error = accepted(&broken, "x").unwrap_err();
    assert!(error.starts_with("line 1, column 8: `%json`: "), "{error}");
    // Grammars that call each other end at a limit.
    let endless = Spec::from_json(
        r#"{"grammar": "start: @a", "grammar_format": "lark",
            "grammars": {"a": {"grammar": "start: @b @b", "grammar_format": "lark"},
                         "b": {"grammar": "start: @a @a", "grammar_format": "lark"}}}"#,
    );
    let error = accepted(&endless.unwrap(), "x").unwrap_err();
    assert!(error.contains("levels deep") || error.contains("more than 1000"), "{error}");
}

#[test]
fn the_list_of_grammars_of_llguidance() {
    let list = r#"{"grammars": [
        {"lark_grammar": "start: /[ab]+/ | call\ncall: \"{\" @arguments \"}\""},
        {"name": "arguments", "json_schema": {"type": "integer"}}]}"#;
    let spec = Spec::grammar(list, GrammarFormat::Lark);
    check(&spec, &[("ab", true), ("{12}", true), ("{}", false)]);
    let schema = Spec::grammar(r#"{"grammars": [{"json_schema": {"const": true}}]}"#, GrammarFormat::Lark);
    check(&schema, &[("true", true), ("false", false)]);
    let empty = Spec::grammar(r#"{"grammars": []}"#, GrammarFormat::Lark);
    assert_eq!(accepted(&empty, "").unwrap_err(), "a list of grammars without a grammar");
}

#[test]
fn the_start_rule_can_be_named() {
    let text = "start: a\na: \"a\"\nb: \"b\"";
    let spec = |start: &str| {
        Spec::from_json(&format!(r#"{{"grammar": {text:?}, "grammar_format": "lark", "start": "{start}"}}"#))
            .unwrap()
    };
    check(&spec("b"), &[("b", true), ("a", false)]);
    assert!(accepted(&spec("c"), "c").unwrap_err().contains("start rule `c` is not defined"));
}

#[test]
fn white_space_that_the_schema_itself_asks_for() {
    let spec = |guidance: &str| {
        Spec::grammar(
            format!(r#"start: %json {{"type": "array", "items": {{"const": 1}}, "x-guidance": {guidance}}}"#),
            GrammarFormat::Lark,
        )
    };
    check(&spec(r#"{"whitespace_flexible": false}"#), &[("[1,1]", true), ("[1, 1]", false)]);
    check(
        &spec(r#"{"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}"#),
        &[("[1, 1]", true), ("[1,1]", false)],
    );
    check(
        &spec(r#"{"whitespace_flexible": false, "item_separator": " ?;"}"#),
        &[("[1;1 ;1]", true), ("[1,1]", false), ("[1; 1]", false), ("[]", true)],
    );
    check(
        &spec(r#"{"item_separator": ", ", "whitespace_flexible": true}"#),
        &[("[ 1 ,   1 ]", true), ("[1,1]", false), ("[1,\n1]", false), ("[1, \n1]", true)],
    );
    check(
        &spec(r#"{"whitespace_pattern": " {2}"}"#),
        &[("[  1,  1]", true), ("[1,1]", true), ("[ 1]", false), ("[    1]", false)],
    );
    let error = accepted(&spec(r#"{"item_separator": "["}"#), "").unwrap_err();
    assert!(error.contains("item separator"), "{error}");
    let error = accepted(&spec(r#"{"spacing": 1}"#), "").unwrap_err();
    assert!(error.contains("`x-guidance` has another option than"), "{error}");
}

#[test]
fn escapes_that_the_schema_itself_asks_for() {
    let spec = |schema: &str, guidance: &str| {
        Spec::json_schema(schema.replacen('{', &format!(r#"{{"x-guidance": {guidance}, "#), 1))
    };
    let some = r#"{"json_allowed_escapes": "nu"}"#;
    let texts = [
        (r#""""#, true),
        (r#""\n""#, true),
        (r#""\t""#, false),
        (r#""\"""#, false),
        (r#""\/""#, false),
        (r#""\u001e""#, true),
        (r#""\u001E""#, true),
        (r#""\u00e9""#, false),
        (r#""é""#, true),
    ];
    for schema in [
        r#"{"type": "string"}"#,
        r#"{"type": "string", "maxLength": 100000}"#,
        r#"{"pattern": "^.?$", "type": "string"}"#,
    ] {
        let texts = texts.map(|(text, expected)| {
            // A dot is no line break.
            (text, expected && !(schema.contains("pattern") && text.contains("\\n")))
        });
        check(&spec(schema, some), &texts);
        let general = r#"{"json_allowed_escapes": "nu", "json_allow_general_unicode_escapes": true}"#;
        check(
            &spec(schema, general),
            &[(r#""\u00e9""#, true), (r#""\ud83d\ude00""#, true), (r#""\ud83d""#, false)],
        );
        let narrow = r#"{"json_allow_general_unicode_escapes": false}"#;
        check(&spec(schema, narrow), &[(r#""\u00e9""#, false), (r#""\u0000""#, true), (r#""\/""#, true)]);
    }
    // Names too, those that the schema lists and all others.
    let object =
        r#"{"type": "object", "properties": {"a\tb": {"const": 1}}, "additionalProperties": {"const": 2}}"#;
    check(
        &spec(object, some),
        &[(r#"{"a\tb":1}"#, false), (r#"{"\n":2}"#, true), (r#"{"\t":2}"#, false), (r#"{"a":2}"#, true)],
    );
    let error =
        accepted(&spec(r#"{"type": "string"}"#, r#"{"json_allowed_escapes": "nx"}"#), "").unwrap_err();
    assert!(error.contains("`json_allowed_escapes` has 'x'"), "{error}");
}

#[test]
fn files_are_found_beside_the_grammar_and_kept_with_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("main.lark"), "start: b+\n%import .d.more.b").unwrap();
    fs::write(folder.path().join("d/more.lark"), "b: \"b\" C?\n%import common.DIGIT -> C").unwrap();
    let spec = Spec::grammar_file(folder.path().join("main.lark"));
    assert_eq!(accepted(&spec, "bb1"), Ok(true));
    assert_eq!(accepted(&spec, "b12"), Ok(false));
    // A changed file is another constraint.
    let compiler = Compiler::new(bytes());
    let first = compiler.compile(&spec).unwrap();
    fs::write(folder.path().join("d/more.lark"), "b: \"c\"").unwrap();
    let second = compiler.compile(&spec).unwrap();
    let takes = |compiled: &unskew_engine::Compiled, byte: u8| {
        compiled.matcher().accept_all(&[TokenId(u32::from(byte))]).unwrap() == 1
    };
    assert!(takes(&first, b'b') && !takes(&first, b'c') && takes(&second, b'c') && !takes(&second, b'b'));
    // A text finds files in the constraint alone.
    let text = r#"{"grammar": "start: b\n%import d.more.b", "grammar_format": "lark", "imports": {"d/more.lark": "b: \"x\""}}"#;
    check(&Spec::from_json(text).unwrap(), &[("x", true), ("b", false)]);
    let none = Spec::grammar("start: b\n%import d.more.b", GrammarFormat::Lark);
    assert!(accepted(&none, "b").unwrap_err().contains("`imports` of the constraint holds"));
}
