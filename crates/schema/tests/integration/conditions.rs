//! Objects under many conditions that do not depend on each other: they agree with `jsonschema`, and no text leads to
//! a dead end.

use std::sync::Arc;

use crate::common::{Bytes, Compiled, judged};
use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::GrammarError;
use unskew_grammars::GrammarConstraint;
use unskew_schema::{MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace, grammar};
use unskew_trie::TokenTrie;

/// Names, of which two are those of one condition.
const NAMES: [&str; 20] = [
    "a", "ar", "b", "br", "c", "cr", "d", "dr", "e", "er", "f", "fr", "g", "gr", "h", "hr", "i", "ir", "j",
    "jr",
];

fn value() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"const": "x"}),
        json!({"enum": ["x", 1]}),
        json!({"type": "string"}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 2}),
        json!({"type": "boolean"}),
        json!(true),
        json!(false),
        json!({"type": "object", "required": ["x"]}),
    ])
}

/// A condition on the members at an index and after it, or, rarely, on others too.
fn condition() -> impl Strategy<Value = (usize, usize, Value, Value)> {
    (0..5usize, 0..40usize, value(), value())
}

fn written((kind, strange, left, right): &(usize, usize, Value, Value), at: usize) -> Value {
    let (name, other) = (NAMES[2 * at], NAMES[if *strange < NAMES.len() { *strange } else { 2 * at + 1 }]);
    let has = |name: &str, value: &Value| json!({"properties": {name: value}, "required": [name]});
    match kind {
        0 => json!({"if": has(name, left), "then": has(other, right)}),
        1 => json!({"if": has(name, left), "then": has(other, right), "else": {"properties": {other: left}}}),
        2 => json!({"dependentRequired": {name: [other]}}),
        3 => json!({"anyOf": [has(name, left), has(other, right), {"not": {"required": [name]}}]}),
        _ => json!({"oneOf": [{"required": [name]}, has(other, right)]}),
    }
}

/// The keywords beside the conditions.
fn base() -> impl Strategy<Value = Value> {
    let names = || prop::collection::btree_map(select(&NAMES[..6]), value(), 0..5);
    prop_oneof![
        3 => Just(json!({})),
        2 => names().prop_map(|names| json!({"properties": names})),
        1 => Just(json!({"properties": NAMES.iter().map(|name| ((*name).into(), json!(true))).collect::<Map<_, _>>(),
            "additionalProperties": false})),
        1 => select(&NAMES[..6]).prop_map(|name| json!({"required": [name]})),
        1 => (0..3u32).prop_map(|count| json!({"minProperties": count})),
        1 => (2..6u32).prop_map(|count| json!({"maxProperties": count})),
        1 => Just(json!({"propertyNames": {"pattern": "^[a-e]"}})),
        1 => value().prop_map(|value| json!({"patternProperties": {"r$": value}})),
        1 => value().prop_map(|value| json!({"additionalProperties": value})),
        1 => Just(json!({"not": {"patternProperties": {"^[ab]": {"type": "integer"}}}})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    (prop::collection::vec(condition(), 3..10), base()).prop_map(|(conditions, base)| {
        let all: Vec<Value> =
            conditions.iter().enumerate().map(|(at, condition)| written(condition, at)).collect();
        let mut schema = json!({"type": "object", "allOf": all});
        let members = schema.as_object_mut().unwrap();
        members.extend(base.as_object().unwrap().clone());
        schema
    })
}

fn instance() -> impl Strategy<Value = Map<String, Value>> {
    let value = select(vec![json!("x"), json!("y"), json!(1), json!(2), json!(true), json!({"x": 0})]);
    prop::collection::vec((0..NAMES.len(), value), 0..5).prop_map(|members| {
        members.into_iter().map(|(name, value)| (NAMES[name].to_owned(), value)).collect()
    })
}

fn compiled(schema: &str, order: MemberOrder, limits: &SchemaLimits) -> Result<Compiled, SchemaError> {
    let mut options = SchemaOptions::default();
    (options.whitespace, options.order) = (Whitespace::Compact, order);
    Bytes::new().compile_within(schema, &options, limits)
}

/// Compiled in any order, with this limit on the items of a parser state.
fn within(schema: &str, state_items: usize) -> Result<GrammarConstraint, SchemaError> {
    let (mut options, mut limits) = (SchemaOptions::default(), SchemaLimits::default());
    (options.whitespace, options.order) = (Whitespace::Compact, MemberOrder::Any);
    limits.grammar.state_items = state_items;
    let grammar = grammar(schema, &options, &limits)?;
    let mut vocabulary = Vocabulary::builder();
    for byte in 0..=255 {
        vocabulary.text(&[byte]);
    }
    let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
    Ok(GrammarConstraint::new(&grammar, trie, &limits.grammar)?)
}

/// The members in all orders.
fn orders(instance: &Map<String, Value>) -> Vec<String> {
    let mut members: Vec<String> =
        instance.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    let mut texts = vec![];
    permute(&mut members, 0, &mut texts);
    texts
}

fn permute(members: &mut Vec<String>, from: usize, texts: &mut Vec<String>) {
    if from >= members.len() {
        texts.push(format!("{{{}}}", members.join(",")));
    }
    for index in from..members.len() {
        members.swap(from, index);
        permute(members, from + 1, texts);
        members.swap(from, index);
    }
}

/// Walks along random tokens of the masks. No mask is empty where the output may not end, and no token of a mask is
/// rejected.
fn walk(constraint: &GrammarConstraint, seed: u64) -> Result<(), TestCaseError> {
    let mut seed = seed;
    // The generator of splitmix64.
    let mut below = |end: usize| {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % end as u64).unwrap()
    };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut text = vec![];
    while text.len() < 300 {
        let mut mask = TokenMask::new(256);
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let tokens: Vec<TokenId> = mask.ids().collect();
        let is_accepting = constraint.is_accepting(&state);
        let shown = String::from_utf8_lossy(&text).into_owned();
        prop_assert!(is_accepting || !tokens.is_empty(), "a dead end after {}", shown);
        // Names of the schema and brackets, more often than other letters.
        let likely: Vec<TokenId> = tokens
            .iter()
            .copied()
            .filter(|token| u8::try_from(token.0).is_ok_and(|byte| b"abcdefghijr\",:}x1".contains(&byte)))
            .collect();
        let from = if !likely.is_empty() && below(20) > 0 { &likely } else { &tokens };
        if from.is_empty() || is_accepting && below(4) == 0 {
            break;
        }
        let token = from[below(from.len())];
        text.push(u8::try_from(token.0).unwrap());
        let advanced = constraint.advance(&mut scratch, &mut state, token);
        prop_assert!(advanced.is_ok(), "{:?} after {}", advanced, shown);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(100, 200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn independent_conditions_agree_with_the_judge(
        schema in schema(),
        instances in prop::collection::vec(instance(), 8),
        seed in any::<u64>(),
    ) {
        let schema = schema.to_string();
        // Walks over states of as many items as the default allows take minutes.
        let mut limits = SchemaLimits::default();
        limits.grammar.state_items = 1 << 12;
        for order in [MemberOrder::Any, MemberOrder::Declared] {
            let compiled = match compiled(&schema, order, &limits) {
                Ok(compiled) => compiled,
                Err(SchemaError::Unsupported { .. } | SchemaError::Limit { .. }) => continue,
                Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
            };
            let mut accepts = compiled.reader();
            for instance in &instances {
                let valid = judged(&schema, &Value::Object(instance.clone()).to_string()).unwrap();
                let orders = orders(instance);
                let accepted = orders.iter().filter(|order| accepts(order)).count();
                let is_right = match (valid, order) {
                    (false, _) => accepted == 0,
                    (true, MemberOrder::Any) => accepted == orders.len(),
                    (true, _) => accepted > 0,
                };
                prop_assert!(is_right, "{:?} {} {:?} {}", order, schema, instance, accepted);
            }
            if let Compiled::Constraint(constraint) = &compiled {
                for walks in 0..4 {
                    walk(constraint, seed ^ walks)?;
                }
            }
        }
    }

    /// A schema that compiles meets no limit later, however few branches the limit allows. Conditions beside counted
    /// members are combined, and an object in an object has branches of its own.
    #[test]
    fn what_compiles_has_room_for_its_branches(
        (outer, inner) in (schema(), schema()),
        is_nested in any::<bool>(),
        counts in any::<bool>(),
        state_items in select(vec![200, 500, 1_000, 5_000, 20_000]),
        seed in any::<u64>(),
    ) {
        let mut schema = outer;
        let members = schema.as_object_mut().unwrap();
        if counts {
            members.insert("minProperties".into(), json!(2));
        }
        if is_nested {
            members.insert("properties".into(), json!({"a": inner, "b": {"anyOf": [inner, {"type": "array", "items": inner}]}}));
        }
        match within(&schema.to_string(), state_items) {
            Ok(constraint) => (0..6).try_for_each(|walks| walk(&constraint, seed ^ walks))?,
            Err(SchemaError::Unsupported { .. } | SchemaError::Limit { .. } | SchemaError::Unsatisfiable { .. }) => {}
            Err(SchemaError::Grammar(GrammarError::Empty { .. })) => {}
            // An automaton of names may be too large, which names its limit.
            Err(error) if error.to_string().contains("Limits::") => {}
            Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
        }
    }
}

/// Conditions beside counted members are combined: eight have 6,561 branches, which a parser state can hold, or which
/// are refused.
#[test]
fn branches_that_are_read_side_by_side_are_limited() {
    let one = |number: usize| {
        let (kind, part) = (format!("k{number}"), format!("k{number}r"));
        json!({
            "if": {"properties": {&kind: {"const": "x"}}, "required": [&kind]},
            "then": {"properties": {&part: {"type": "integer"}}, "required": [&part]},
        })
    };
    let all: Vec<Value> = (0..8).map(one).collect();
    let schema = json!({"type": "object", "minProperties": 2, "allOf": all}).to_string();
    let constraint = within(&schema, 1 << 20).unwrap_or_else(|error| panic!("{error}"));
    walk(&constraint, 1).unwrap();
    let error = within(&schema, 100_000).unwrap_err().to_string();
    assert!(error.starts_with("#: the members in any order of all branches of values"), "{error}");
    assert!(error.contains("pass 100000; raise `SchemaLimits::grammar.state_items`"), "{error}");
}

/// Branches of an object have different schemas for one member, whose branches are read side by side then. Each
/// schema by itself is within the limit.
#[test]
fn branches_of_members_of_branches_are_limited() {
    let has = |name: &str| json!({"properties": {name: {"const": "x"}}, "required": [name]});
    let inner = |letters: &str| {
        let conditions = letters.chars().map(|letter| {
            let (name, other) = (letter.to_string(), format!("{letter}r"));
            json!({"anyOf": [has(&name), has(&other), {"not": {"required": [&name]}}]})
        });
        json!({"type": "object", "minProperties": 2, "allOf": conditions.collect::<Vec<_>>()})
    };
    let member = |letters: &str| json!({"properties": {"a": inner(letters)}, "required": ["a"], "additionalProperties": false});
    let all = ["bcd", "cde", "def", "efg", "fgh", "ghi", "hij"].map(member);
    let schema = json!({"anyOf": all}).to_string();
    let (mut alone, mut together) = (0, 0);
    for state_items in [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000] {
        let is_compiled = |schema: &str| match within(schema, state_items) {
            Ok(constraint) => {
                walk(&constraint, 1).unwrap();
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("grammar.state_items"), "{error}");
                false
            }
        };
        alone += u32::from(is_compiled(&member("bcd").to_string()));
        together += u32::from(is_compiled(&schema));
    }
    assert!(0 < together && together < alone, "{together} of {alone}");
}

/// Thirty conditions have 3^30 combinations.
#[test]
fn thirty_independent_conditions() {
    let one = |number: usize| {
        let (kind, part) = (format!("k{number}"), format!("k{number}r"));
        json!({
            "if": {"properties": {&kind: {"const": "x"}}, "required": [&kind]},
            "then": {"properties": {&part: {"type": "integer"}}, "required": [&part]},
        })
    };
    let all: Vec<Value> = (0..30).map(one).collect();
    let schema = json!({"type": "object", "allOf": all}).to_string();
    for order in [MemberOrder::Any, MemberOrder::Declared] {
        let compiled =
            compiled(&schema, order, &SchemaLimits::default()).unwrap_or_else(|error| panic!("{error}"));
        for (text, accepted) in [
            (r#"{}"#, true),
            (r#"{"k0":"x","k0r":1,"k29":"x","k29r":2}"#, true),
            (r#"{"k0":"y","k29":3,"other":null}"#, true),
            (r#"{"k0":"x"}"#, false),
            (r#"{"k0":"x","k0r":"1"}"#, false),
            (r#"{"k0":"x","k29":"x","k0r":1}"#, false),
            (r#"{"k0":"x","k0r":1,"k0":"y"}"#, false),
        ] {
            assert_eq!(compiled.accepts(text), accepted, "{order:?} {text}");
        }
        let backwards = r#"{"k29r":2,"other":1,"k29":"x","k0r":1,"k0":"x"}"#;
        assert_eq!(compiled.accepts(backwards), order == MemberOrder::Any);
    }
}

/// Addresses of which exactly one kind must fit. In each kind the code has the same condition, so that one code which
/// is too long breaks all other kinds: a branch that has it decides nothing more, where 2^12 branches chose for each
/// kind.
#[test]
fn a_condition_that_holds_is_no_choice() {
    let states = |kind: usize| (0..40).map(move |state| format!("s{}", kind + state)).collect::<Vec<_>>();
    let one = |kind: usize| {
        json!({"properties": {
            "kind": {"enum": [format!("k{kind}")]}, "state": {"enum": states(kind)}, "code": {"type": "string", "maxLength": 3},
        }})
    };
    let mut kinds: Vec<Value> = (0..12).map(one).collect();
    kinds.push(
        json!({"properties": {"kind": {"enum": ["other"]}, "code": {"type": "string", "maxLength": 6}}}),
    );
    let schema = json!({"type": "object", "oneOf": kinds}).to_string();
    let mut limits = SchemaLimits::default();
    limits.alternatives = 2_000;
    let compiled = compiled(&schema, MemberOrder::Any, &limits).unwrap_or_else(|error| panic!("{error}"));
    for (text, accepted) in [
        (r#"{"kind":"k3","state":"s5","code":"abc"}"#, true),
        (r#"{"kind":"k3","state":"s60"}"#, false),
        (r#"{"kind":"k3","code":"abcd"}"#, false),
        (r#"{"kind":"other","state":"s5","code":"abcdef"}"#, true),
        // Without a kind, the last one fits, and one more where the state and the code do.
        (r#"{"state":"s5","code":"abc"}"#, false),
        (r#"{"state":"s5","code":"abcd"}"#, true),
        (r#"{"state":"x","code":"abc"}"#, true),
        (r#"{"code":"abcdefg"}"#, false),
    ] {
        assert_eq!(compiled.accepts(text), accepted, "{text}");
    }
}
