//! Every limit: a constraint fails by it, its error names it, and a higher one lets the constraint pass.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_engine::{
    Compiler, Spec, TokenSpace, chain,
    spec::{LIMITS, Limit},
};

use crate::common::{bytes, tiny};

/// A constraint, by its fields in JSON, and a value of the limit by which it fails.
const CASES: &[(&str, &str, u64)] = &[
    ("grammar.automata_bytes", r#""grammar": "start: A\nA: /[a-z]{1,200}/", "grammar_format": "lark""#, 100),
    (
        "grammar.budget_bytes",
        r#""grammar": "start: a\na[max_tokens=2]: /[a-z]{3}/", "grammar_format": "lark""#,
        1,
    ),
    ("grammar.bytes", r#""grammar": "start: \"a\"", "grammar_format": "lark""#, 3),
    (
        "grammar.columns",
        r#""grammar": "start: \"a\" _NEWLINE _INDENT \"b\" _DEDENT\n_NEWLINE: /(\\n(  )*)+/\n%declare _INDENT _DEDENT",
            "grammar_format": "lark""#,
        1,
    ),
    (
        "grammar.files",
        r#""grammar": "start: x y\n%import .a.x\n%import .b.y", "grammar_format": "lark",
            "imports": {"a.lark": "x: \"a\"", "b.lark": "y: \"b\""}"#,
        1,
    ),
    ("grammar.nest", r#""grammar": "root ::= (((\"a\")))", "grammar_format": "gbnf""#, 2),
    ("grammar.nodes", r#""grammar": "root ::= \"a\" \"b\" \"c\" root?", "grammar_format": "gbnf""#, 2),
    (
        "grammar.positions",
        r#""grammar": "root ::= x{300}\nx ::= \"(\" x? \")\"", "grammar_format": "gbnf""#,
        100,
    ),
    (
        "references",
        r#""grammar": "start: %json {\"type\":\"null\"} %json {\"type\":\"boolean\"}", "grammar_format": "lark""#,
        1,
    ),
    ("regex.bytes", r#""regex": "abc""#, 2),
    ("regex.dfa_bytes", r#""grammar": "start: A\nA: /(a|b)*a(a|b){8}/", "grammar_format": "lark""#, 1_000),
    ("regex.dfa_states", r#""grammar": "start: A\nA: /(a|b)*a(a|b){8}/", "grammar_format": "lark""#, 100),
    ("regex.dfa_steps", r#""grammar": "start: A\nA: /(a|b)*a(a|b){8}/", "grammar_format": "lark""#, 100),
    ("regex.nest", r#""regex": "((((a))))""#, 2),
    ("regex.nfa_size", r#""regex": "a{1000}""#, 100),
    ("regex.syntax_steps", r#""regex": "(?i)[\\x{0}-\\x{10ffff}]""#, 10),
    (
        "schema.alternatives",
        // 243 of them, which are more than the values of the text.
        r#""json_schema": {"type": "string", "allOf": [{"anyOf": [{"minLength": 1}, {"maxLength": 9}, {"pattern": "^[a-h]"}]}, {"anyOf": [{"minLength": 2}, {"maxLength": 10}, {"pattern": "^[a-i]"}]}, {"anyOf": [{"minLength": 3}, {"maxLength": 11}, {"pattern": "^[a-j]"}]}, {"anyOf": [{"minLength": 4}, {"maxLength": 12}, {"pattern": "^[a-k]"}]}, {"anyOf": [{"minLength": 5}, {"maxLength": 13}, {"pattern": "^[a-l]"}]}]}"#,
        1,
    ),
    (
        "schema.automata_bytes",
        r#""json_schema": {"prefixItems": [{"pattern": "^(a|b)*a(a|b){2}$"}, {"pattern": "^(c|d)*c(c|d){2}$"}, {"pattern": "^(e|f)*e(e|f){2}$"}, {"pattern": "^(g|h)*g(g|h){2}$"}, {"pattern": "^(i|j)*i(i|j){2}$"}, {"pattern": "^(k|l)*k(k|l){2}$"}, {"pattern": "^(m|n)*m(m|n){2}$"}, {"pattern": "^(o|p)*o(o|p){2}$"}, {"pattern": "^(q|r)*q(q|r){2}$"}, {"pattern": "^(s|t)*s(s|t){2}$"}]}"#,
        6_000,
    ),
    ("schema.bytes", r#""json_schema": {"type": "null"}"#, 3),
    (
        "schema.carried",
        r#""json_schema": {"anyOf": [{"properties": {"a": true, "b": true}}, {"properties": {"c": true}}]}"#,
        1,
    ),
    ("schema.characters", r#""json_schema": {"type": "string", "minLength": 10}"#, 5),
    ("schema.count", r#""json_schema": {"type": "object", "minProperties": 10}"#, 5),
    ("schema.digits", r#""json_schema": {"type": "integer", "minimum": 12345}"#, 2),
    (
        "schema.name_patterns",
        r#""json_schema": {"patternProperties": {"^a": {"type": "null"}, "b$": {"type": ["null", "string"]}, "c": {"minimum": 3}}, "type": "object"}"#,
        1,
    ),
    ("schema.nest", r#""json_schema": {"not": {"not": {"not": {"type": "null"}}}}"#, 2),
    (
        "schema.products",
        r#""json_schema": {"type": "array", "contains": {"type": "null"}, "minContains": 3, "maxContains": 5}"#,
        1,
    ),
    ("schema.rules", r#""json_schema": {"items": {"items": {"items": {"type": "null"}}}}"#, 1),
    ("tag.bytes", r#""structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}"#, 3),
    (
        "tag.count",
        r#""structural_tag": {"type": "structural_tag", "format": {"type": "any_text", "max_chars": 9}}"#,
        5,
    ),
    (
        "tag.set_bytes",
        r#""structural_tag": {"type": "structural_tag", "format": {"type": "exclude_token", "exclude_tokens": [1, 2]}}"#,
        1,
    ),
];

/// Limits of what is kept, or written out. Beyond them more is computed again, and nothing fails.
const CACHES: &[&str] =
    &["grammar.scratch_bytes", "regex.lazy_bytes", "regex.mask_cache_bytes", "schema.names"];

/// Limits with a test of their own.
const APART: &[&str] = &[
    "grammar.capture_items",
    "grammar.mask_steps",
    "grammar.state_items",
    "regex.product_states",
    "regex.spelling_steps",
    "schema.levels",
];

fn named(limit: &str, fields: &str, value: u64, space: &Arc<TokenSpace>) -> Option<&'static str> {
    let text = format!(r#"{{{fields}, "limits": {{"{limit}": {value}}}}}"#);
    let spec = Spec::from_json(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match Compiler::shared(space).compile(&spec) {
        Ok(_) => None,
        Err(error) => {
            let message = chain(&*error);
            let found = Limit::in_message(&message).map(|limit| limit.name);
            // An error that names no limit.
            found.or(Some("none"))
        }
    }
}

#[test]
fn every_limit_is_named_by_its_error_and_can_be_raised() {
    let space = Arc::new(bytes());
    let mut known: Vec<&str> = CASES.iter().map(|(name, ..)| *name).collect();
    known.extend(CACHES.iter().chain(APART));
    known.sort_unstable();
    assert_eq!(known, LIMITS.iter().map(|limit| limit.name).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (name, fields, low) in CASES {
        let limit = Limit::named(name).unwrap();
        let found = named(name, fields, *low, &space);
        let high = named(name, fields, limit.defaults()[0].min(limit.most), &space);
        if found != Some(*name) || high.is_some() {
            wrong.push((name, found, high));
        }
    }
    assert!(wrong.is_empty(), "limits, and those that a low and a high value of it meet: {wrong:?}");
}

#[test]
fn limits_of_caches_change_no_mask() {
    let space = Arc::new(bytes());
    for name in CACHES {
        for fields in
            [r#""regex": "(ab|a)*c?""#, r#""regex": "(ab|a)*c?", "canonical": true"#, r#""json_schema": {}"#]
        {
            if fields.contains("canonical") {
                assert_eq!(named(name, fields, 1, &tiny()), None, "{name}");
                continue;
            }
            assert_eq!(named(name, fields, 1, &space), None, "{name}");
        }
    }
}

#[test]
fn states_of_a_parser_are_limited_by_name() {
    let palindromes =
        r#""grammar": "root ::= [ab] | \"a\" root \"a\" | \"b\" root \"b\"", "grammar_format": "gbnf""#;
    let space = Arc::new(bytes());
    let read = |name: &str, value: u64| {
        let text = format!(r#"{{{palindromes}, "limits": {{"{name}": {value}}}}}"#);
        let constraint = Compiler::shared(&space).compile(&Spec::from_json(&text).unwrap()).unwrap();
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        (0..200).find_map(|_| constraint.advance(&mut scratch, &mut state, TokenId(97)).err())
    };
    for (name, low) in [("grammar.state_items", 50), ("grammar.mask_steps", 100)] {
        let error = read(name, low).expect("200 letters take more");
        assert_eq!(Limit::in_message(&error.to_string()).unwrap().name, name);
        assert_eq!(read(name, 100_000), None);
    }
}

/// Indented values are cut at the limit, and the report says so.
#[test]
fn levels_of_indented_values_are_limited_by_name() {
    let schema =
        r##"{"json_schema": {"type": ["array", "null"], "items": {"$ref": "#"}}, "whitespace": "indent:1"}"##;
    let spec = |levels| Spec::from_json(schema).unwrap().limit("schema.levels", levels).unwrap();
    let narrowed = |levels: u64| {
        let fates = spec(levels).explain().unwrap();
        let found = fates.iter().filter(|fate| fate.fate == "narrowed");
        found.filter_map(|fate| Limit::in_message(&fate.why)).map(|limit| limit.name).collect::<Vec<_>>()
    };
    assert_eq!((narrowed(1), narrowed(5)), (vec!["schema.levels"], vec!["schema.levels"]));
    let space = Arc::new(bytes());
    let takes = |levels: u64| {
        let constraint = Compiler::shared(&space).compile(&spec(levels)).unwrap();
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let text = b"[\n [\n  [\n   null\n  ]\n ]\n]";
        let mut tokens = text.iter().map(|byte| TokenId(u32::from(*byte)));
        tokens.all(|token| constraint.advance(&mut scratch, &mut state, token).is_ok())
    };
    assert!(!takes(1) && takes(5));
}

/// They are counted only where a mask might search through more than 16 million of them.
#[test]
fn states_of_products_are_limited_by_name() {
    let limit = Limit::named("regex.product_states").unwrap();
    assert!(
        Limit::in_message("more than 3 states (Limits::product_states): less")
            .is_some_and(|found| found.name == limit.name)
    );
    assert_eq!(named(limit.name, r#""regex": "[a-z]{3}", "canonical": true"#, 1, &tiny()), None);
}

#[test]
fn readings_for_captures_are_limited_by_name() {
    let text = r#"{"grammar": "start: s\ns[capture]: s s | \"a\"", "grammar_format": "lark"}"#;
    let compiler = Compiler::new(bytes());
    let read = |items: u64| {
        let spec = Spec::from_json(text).unwrap().limit("grammar.capture_items", items).unwrap();
        let mut matcher = compiler.compile(&spec).unwrap().matcher();
        assert_eq!(matcher.accept_all(&[TokenId(97); 8]).unwrap(), 8);
        matcher.captures()
    };
    let error = read(20).unwrap_err();
    assert_eq!(Limit::in_message(&error.to_string()).unwrap().name, "grammar.capture_items");
    assert_eq!(read(10_000).unwrap().len(), 15);
}

#[test]
fn steps_of_spelling_are_limited_by_name() {
    let mut builder = Vocabulary::builder();
    ["ab", "ba", "aa", "bab"].iter().for_each(|text| {
        builder.text(text.as_bytes());
    });
    let space = Arc::new(TokenSpace::from_vocabulary(builder.build().unwrap()));
    let fields = r#""regex": "(ab|ba)*aa""#;
    assert_eq!(named("regex.spelling_steps", fields, 1, &space), Some("regex.spelling_steps"));
    assert_eq!(named("regex.spelling_steps", fields, 1_000_000, &space), None);
}

#[test]
fn parts_have_no_limits_of_their_own() {
    let part = Spec::regex("a").limit("regex.bytes", 5).unwrap();
    let listed = Spec::from_json(
        r#"{"grammar": "start: @a", "grammar_format": "lark", "grammars": {"a": {"regex": "b", "limits": {"regex.nest": 3}}}}"#,
    );
    for whole in [Spec::any_of([part.clone()]), Spec::sequence([part]), listed.unwrap()] {
        let error = Compiler::new(bytes()).compile(&whole).unwrap_err();
        assert!(chain(&*error).contains("`limits` are those of a whole constraint"), "{error}");
    }
}

#[test]
fn defaults_that_real_constraints_meet_can_be_raised() {
    let space = Arc::new(bytes());
    // A terminal, and a rule, of more repetitions than the defaults take.
    let long = r#""regex": "[a-z]{1,5000000}""#;
    assert_eq!(named("regex.nfa_size", long, 4_000_000, &space), Some("regex.nfa_size"));
    assert_ne!(named("regex.nfa_size", long, 40_000_000, &space), Some("regex.nfa_size"));
}

/// A schema of two megabytes, within the defaults; and a lower limit holds for schemas too.
#[test]
fn fifty_thousand_properties_are_within_the_defaults() {
    let properties: serde_json::Map<String, serde_json::Value> =
        (0..50_000).map(|at| (format!("property{at}"), serde_json::json!({"type": "string"}))).collect();
    let schema =
        serde_json::json!({"type": "object", "properties": properties, "additionalProperties": false});
    let compiler = Compiler::new(bytes());
    let compiled = compiler.compile(&Spec::json_schema(schema.to_string())).unwrap();
    assert!(compiled.vocab_len() > 0);
    let limited = format!(r#"{{"json_schema": {schema}, "limits": {{"grammar.nodes": 1000}}}}"#);
    let error = compiler.compile(&Spec::from_json(&limited).unwrap()).unwrap_err();
    assert!(chain(&error).contains("grammar.nodes"), "{}", chain(&error));
}
