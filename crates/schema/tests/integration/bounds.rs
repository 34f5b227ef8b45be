//! Exhaustion: of finitely many names, of different items, and of levels of indented output. Outputs agree with the
//! judge up to the last name and item, no text is a dead end, and `explain` states each bound that excludes
//! something.

use crate::common::{Bytes, Compiled};
use proptest::prelude::*;
use serde_json::{Value, json};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_grammar::Fate;
use unskew_schema::{
    KeywordFate, MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar,
};

fn options(order: MemberOrder) -> SchemaOptions {
    let mut options = SchemaOptions::default();
    (options.whitespace, options.order) = (Whitespace::Compact, order);
    options
}

/// A length that a look-ahead asks for is no automaton with a copy of the pattern for each length.
#[test]
fn look_ahead_for_a_length_is_a_length() {
    let bytes = Bytes::new();
    let options = options(MemberOrder::Declared);
    let label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
    let domain = format!(r"^(?=.{{1,253}}$)(?:{label}\.)+[a-z]{{2,63}}$");
    let other = format!(r"^(?!.*--)(?=.{{10,253}}$)(?:{label}\.)+[a-z]{{2,63}}$");
    let long = |count: usize| format!("\"{}com\"", "abc.".repeat(count));
    for (pattern, yes, no) in [
        (
            &domain,
            vec![r#""a.de""#.to_owned(), long(62)],
            vec![long(63), r#""a-.de""#.to_owned(), r#""de""#.to_owned()],
        ),
        (
            &other,
            vec![r#""ab.example""#.to_owned(), long(62)],
            vec![long(63), r#""a.de""#.to_owned(), r#""a--a.example""#.to_owned()],
        ),
        // Another place, an alternative, and a length of something else.
        (
            &"^a(?=.{1,70}$)b+$".to_owned(),
            vec![format!("\"a{}\"", "b".repeat(70))],
            vec![format!("\"a{}\"", "b".repeat(71))],
        ),
        (
            &"^(?=.{1,70}$)a+$|^b+$".to_owned(),
            vec![format!("\"{}\"", "b".repeat(90))],
            vec![format!("\"{}\"", "a".repeat(71))],
        ),
        (
            &"^(?=a(?=.{1,70}$))a+$".to_owned(),
            vec![format!("\"{}\"", "a".repeat(71))],
            vec![format!("\"{}\"", "a".repeat(72))],
        ),
        (
            &"^(?=.{1,70}$)b".to_owned(),
            vec![r#""bc""#.to_owned()],
            vec![r#""b\n""#.to_owned(), format!("\"{}\"", "b".repeat(71))],
        ),
    ] {
        let schema = json!({"type": "string", "pattern": pattern}).to_string();
        is_exact(&schema, &options);
        let compiled = bytes.compile_with(&schema, &options).unwrap();
        for text in yes {
            assert!(compiled.accepts(&text), "{schema}: {text}");
        }
        for text in no {
            assert!(!compiled.accepts(&text), "{schema}: {text}");
        }
    }
}

/// An array of these numbers.
fn array(items: impl Iterator<Item = u32>) -> String {
    format!("[{}]", items.map(|item| item.to_string()).collect::<Vec<_>>().join(","))
}

fn object(names: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", names.map(|name| format!("\"{name}\":0")).collect::<Vec<_>>().join(","))
}

/// All non-empty texts of `a` and `b` up to this length.
fn names(longest: usize) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    let mut last = vec![String::new()];
    for _ in 0..longest {
        last = last.iter().flat_map(|name| [format!("{name}a"), format!("{name}b")]).collect();
        all.extend(last.iter().cloned());
    }
    all
}

fn is_exact(schema: &str, options: &SchemaOptions) {
    let fates = explain(schema, options, &SchemaLimits::default());
    assert!(
        fates.iter().all(|one| !matches!(one.fate, Fate::Narrowed | Fate::Rejected)),
        "{schema}: {fates:?}"
    );
}

fn narrowed(schema: &str, options: &SchemaOptions) -> Vec<KeywordFate> {
    let fates = explain(schema, options, &SchemaLimits::default());
    fates.into_iter().filter(|one| one.fate == Fate::Narrowed).collect()
}

#[test]
fn arrays_have_all_items_that_differ() {
    let bytes = Bytes::new();
    let options = options(MemberOrder::Declared);
    let values: Vec<String> = (0..1100).map(|value| value.to_string()).collect();
    let all = |first: &str, count: u32| array(0..count).replacen('[', &format!("[{first}"), 1);
    for (schema, yes, no) in [
        (
            format!(r#"{{"type":"array","items":{{"enum":[{}]}},"uniqueItems":true}}"#, values.join(",")),
            vec![array(0..1100), array((0..1100).rev()), array(0..1001)],
            vec![array((0..1100).chain([7]))],
        ),
        (
            // More items than the largest bound that a schema may have.
            r#"{"items":{"type":"integer","minimum":0,"maximum":4099},"uniqueItems":true,"minItems":4098}"#.to_owned(),
            vec![array(0..4100), array(1..4099)],
            vec![array((0..4100).chain([5])), array(0..4097)],
        ),
        // The first item is none of the others, or one of them.
        (
            r#"{"prefixItems":[{"const":"a"}],"items":{"type":"integer","minimum":0,"maximum":49},"uniqueItems":true}"#.to_owned(),
            vec![all("\"a\",", 50)],
            vec![all("\"a\",", 50).replace("]", ",0]")],
        ),
        (
            r#"{"prefixItems":[{"const":3}],"items":{"type":"integer","minimum":0,"maximum":49},"uniqueItems":true}"#.to_owned(),
            vec![array([3].into_iter().chain((0..50).filter(|item| *item != 3)))],
            vec![array(0..50)],
        ),
        (
            r#"{"prefixItems":[{"const":"a"},{"type":"boolean"}],"items":{"type":"string"},"uniqueItems":true}"#.to_owned(),
            vec![r#"["a",true,"b","c","d"]"#.to_owned()],
            vec![r#"["a",true,"a"]"#.to_owned()],
        ),
        (
            r#"{"items":{"type":["string","boolean"]},"contains":{"type":"string"},"maxContains":2,"uniqueItems":true}"#.to_owned(),
            vec![r#"[true,"a",false,"b"]"#.to_owned()],
            vec![r#"["a","b","c"]"#.to_owned(), r#"[true,"a",true]"#.to_owned(), "[true,false]".to_owned()],
        ),
    ] {
        let compiled = bytes.compile_with(&schema, &options).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for (texts, expected) in [(yes, true), (no, false)] {
            for text in texts {
                assert_eq!(compiled.accepts(&text), expected, "{schema} {text:.200}");
            }
        }
        is_exact(&schema, &options);
    }
    let none = r#"{"type":"array","items":{"type":["string","integer"]},"contains":{"const":1},"minContains":2,"uniqueItems":true}"#;
    assert!(matches!(bytes.compile_with(none, &options).unwrap(), Compiled::Nothing));
}

#[test]
fn objects_have_all_names() {
    let bytes = Bytes::new();
    for order in [MemberOrder::Declared, MemberOrder::Any] {
        let options = options(order);
        // A pattern with 8,190 names.
        let schema = r#"{"type":"object","propertyNames":{"pattern":"^[ab]{1,12}$"},"minProperties":2000}"#;
        let compiled = bytes.compile_with(schema, &options).unwrap();
        is_exact(schema, &options);
        assert!(compiled.accepts(&object(names(12).into_iter().rev().take(2_050))));
        assert!(!compiled.accepts(&object(names(12).into_iter().take(1_999))));
        let too_many = schema.replace("2000", "8191");
        assert!(matches!(bytes.compile_with(&too_many, &options), Ok(Compiled::Nothing)), "{order:?}");

        let names = names(10);
        let schema = r#"{"type":"object","propertyNames":{"pattern":"^[ab]{1,10}$"},"minProperties":2046}"#;
        let compiled = bytes.compile_with(schema, &options).unwrap();
        for (count, expected) in [(0, false), (2_045, false), (2_046, true)] {
            assert_eq!(
                compiled.accepts(&object(names.iter().take(count).cloned())),
                expected,
                "{count} {order:?}"
            );
        }
        let twice = names.iter().take(100).cloned().chain(["ab".to_owned()]);
        assert!(dead_end(&compiled, &object(twice)));

        // Declared members add to the names of finite classes, and so do names of infinite classes.
        let schema = r#"{"properties":{"x":{},"y":{}},"patternProperties":{"^[ab]{1,10}$":{}},"additionalProperties":false,"minProperties":2048}"#;
        let compiled = bytes.compile_with(schema, &options).unwrap();
        let all = ["x".to_owned(), "y".to_owned()].into_iter().chain(names.iter().cloned());
        assert!(
            compiled.accepts(&object(all.clone())) && !compiled.accepts(&object(all.skip(1))),
            "{order:?}"
        );
        let schema = r#"{"patternProperties":{"^[ab]{1,10}$":{"type":"integer"}}}"#;
        is_exact(schema, &options);
        let compiled = bytes.compile_with(schema, &options).unwrap();
        let others = names.iter().cloned().chain((0..100).map(|name| format!("c{name}")));
        assert!(compiled.accepts(&object(others)), "{order:?}");
        // A class of names without possible values, which only the whole grammar shows.
        let schema = r##"{"$defs":{"no":{"type":"object","required":["n"],"properties":{"n":{"$ref":"#/$defs/no"}}}},
            "patternProperties":{"^[ab]{1,10}$":{"type":"integer"},"^[cd]{1,12}$":{"$ref":"#/$defs/no"}},"additionalProperties":false}"##;
        is_exact(schema, &options);
        let compiled = bytes.compile_with(schema, &options).unwrap();
        assert!(compiled.accepts(&object(names.iter().take(2046).cloned())), "{order:?}");
        let comma = object(names.iter().take(2046).cloned()).replace('}', ",");
        assert!(dead_end(&compiled, &comma), "a comma behind the last");
    }
}

/// Whether the text cannot be read, so that no output begins with it.
fn dead_end(compiled: &Compiled, text: &str) -> bool {
    let Compiled::Constraint(constraint) = compiled else { return true };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    text.bytes().any(|byte| constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).is_err())
}

#[test]
fn bounds_that_leave_something_out_are_told() {
    let options = options(MemberOrder::Declared);
    for (schema, pointer, keyword, number) in [
        // Some member is required, and the names of its class run out.
        (
            r#"{"type":"object","patternProperties":{"^[0-9]{4}$":{"type":"integer"}},"not":{"patternProperties":{"^[0-9]{4}$":{"minimum":3}}}}"#,
            "#",
            "",
            "2046",
        ),
        // The first item may be one of the others, or not.
        (
            r#"{"prefixItems":[{"type":"string"}],"items":{"type":"string","pattern":"^[ab]{3}$"},"uniqueItems":true}"#,
            "#",
            "uniqueItems",
            "8",
        ),
        (r#"{"items":{"format":"hostname"}}"#, "#/items", "format", "31"),
        (r#"{"items":{"format":"time"}}"#, "#/items", "format", "leap seconds"),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"uuid"}}"#,
            "#/items",
            "format",
            "this draft",
        ),
    ] {
        let found = narrowed(schema, &options);
        let told =
            |one: &KeywordFate| one.pointer == pointer && one.keyword == keyword && one.why.contains(number);
        assert!(found.len() == 1 && told(&found[0]), "{schema}: {found:?}");
        assert!(grammar(schema, &options, &SchemaLimits::default()).is_ok(), "{schema}");
    }
    // A schema that this bound would make empty is refused.
    let schema = r#"{"prefixItems":[{"type":"string"}],"items":{"type":"string","pattern":"^[ab]{3}$"},"uniqueItems":true,"minItems":9}"#;
    let error = grammar(schema, &options, &SchemaLimits::default()).unwrap_err();
    assert_eq!(error.keyword(), Some("uniqueItems"), "{error}");
    for exact in [r#"{"format":"date"}"#, r#"{"format":"uri"}"#, r#"{"not":{"format":"ipv4"}}"#] {
        is_exact(exact, &options);
    }
}

#[test]
fn indented_output_says_where_it_ends() {
    let limits = SchemaLimits::default();
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Indent(1);
    let found = narrowed(r#"{"type":"array"}"#, &options);
    assert!(
        found.len() == 1 && found[0].pointer == "#" && found[0].why.contains("at most 20 levels"),
        "{found:?}"
    );
    assert!(narrowed(r#"{"items":{"type":"integer"},"type":"array"}"#, &options).is_empty());
    // A schema without recursion is written to its full depth.
    let deep = |core: &str| {
        format!(r#"{}{core}{}"#, r#"{"type":"array","minItems":1,"items":"#.repeat(30), "}".repeat(30))
    };
    let compiled = Bytes::new().compile_with(&deep(r#"{"type":"integer"}"#), &options).unwrap();
    let text = (0..30).fold("7".to_owned(), |inner, level| {
        let blanks = |count: usize| "\n".to_owned() + &" ".repeat(count);
        format!("[{}{inner}{}]", blanks(30 - level), blanks(29 - level))
    });
    assert!(compiled.accepts(&text) && narrowed(&deep(r#"{"type":"integer"}"#), &options).is_empty());
    // A schema whose values all nest too deep is an error, and not unsatisfiable.
    let error = grammar(
        &deep(r#"{"type":"array","minItems":1,"items":{"type":"array","maxItems":0}}"#),
        &options,
        &limits,
    );
    assert!(error.is_ok());
    let twice = r##"{"$defs":{"a":{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}"##;
    let error = grammar(twice, &options, &limits).unwrap_err();
    assert!(matches!(error, SchemaError::Limit { field: "levels", .. }), "{error}");
}

/// Names and items with few texts. The lowered limit keeps them from becoming members of their own, so they are
/// remembered.
fn few() -> impl Strategy<Value = Value> {
    let pattern = prop::sample::select(vec!["^[ab]$", "^a?b$", "^[a-c]{1,2}$", "^x", "^b", "^(a|bb|c)$"]);
    let value = prop::sample::select(vec![
        json!(true),
        json!({"type": "integer"}),
        json!({"type": "array", "items": false, "minItems": 1}),
        json!({"type": "object", "required": ["a"], "additionalProperties": false}),
    ]);
    let item = prop_oneof![
        pattern.clone().prop_map(|pattern| json!({"type": "string", "pattern": pattern})),
        (0i32..3, 0i32..4)
            .prop_map(|(from, size)| json!({"type": "integer", "minimum": from, "maximum": from + size})),
        Just(json!({"type": ["boolean", "string"]})),
        Just(json!({"type": "string"})),
        Just(json!({"type": "boolean"})),
        Just(json!({"const": "a"})),
    ];
    let bound = |most: u32| prop::option::of(0..most);
    let object = (
        prop::collection::btree_map(pattern.clone(), value.clone(), 0..3),
        prop::option::of(value.clone()),
        prop::option::of(pattern),
        prop::collection::btree_map(prop::sample::select(vec!["a", "b", "z"]), value, 0..3),
        bound(4),
        bound(4),
        any::<bool>(),
    );
    let object = object.prop_map(|(patterns, additional, names, properties, min, max, witness)| {
        let mut schema = json!({"type": "object", "patternProperties": patterns, "properties": properties});
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                schema[key] = value;
            }
        };
        set("additionalProperties", Some(additional.unwrap_or(json!(false))));
        set("propertyNames", names.map(|pattern| json!({"pattern": pattern})));
        set("minProperties", min.map(Value::from));
        set("maxProperties", max.map(Value::from));
        set("not", witness.then(|| json!({"additionalProperties": {"type": "integer"}})));
        schema
    });
    let array = (
        prop::collection::vec(item.clone(), 0..3),
        item.clone(),
        bound(4),
        bound(5),
        prop::option::of((item, 0u32..3, bound(3))),
    );
    let array = array.prop_map(|(first, items, min, max, contains)| {
        let mut schema = json!({"type": "array", "items": items, "uniqueItems": true});
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                schema[key] = value;
            }
        };
        set("prefixItems", (!first.is_empty()).then(|| json!(first)));
        set("minItems", min.map(Value::from));
        set("maxItems", max.map(Value::from));
        if let Some((contains, min, max)) = contains {
            set("contains", Some(contains));
            set("minContains", Some(min.into()));
            set("maxContains", max.map(Value::from));
        }
        schema
    });
    prop_oneof![object, array]
}

/// Pseudo-random numbers: splitmix64.
struct Choices(u64);

impl Choices {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        all[usize::try_from((mixed ^ (mixed >> 31)) % all.len() as u64).unwrap()]
    }
}

/// After `["b",` no value is left of the items that `contains` still needs.
#[test]
fn items_that_contains_needs_are_not_used_before() {
    let refused = |schema: &str| {
        let compiled =
            Bytes::new().compile_within(schema, &options(MemberOrder::Declared), &SchemaLimits::default());
        assert!(matches!(compiled, Err(SchemaError::Unsupported { .. })), "{schema}");
    };
    let places = r#""prefixItems":[{"type":["boolean","string"]},{"type":"string","pattern":"^[ab]$"}]"#;
    let contains =
        r#""type":"array","uniqueItems":true,"minContains":2,"contains":{"type":"string","pattern":"^b"}"#;
    refused(&format!(r#"{{{contains},{places},"items":{{"type":"string","pattern":"^x"}}}}"#));
    refused(&format!(r#"{{{contains},{places},"items":{{"type":"string"}},"maxItems":2}}"#));
}

/// The largest number of steps before a text is given up.
const STEPS: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(200, 400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_runs_out_leads_to_no_dead_end(schema in few(), any in any::<bool>(), seed in any::<u64>()) {
        let schema = schema.to_string();
        let mut choices = Choices(seed);
        let options = options(if any { MemberOrder::Any } else { MemberOrder::Declared });
        // Classes with few names are not listed, and their names are no members of their own.
        let mut limits = SchemaLimits::default();
        limits.names = 0;
        let compiled = match Bytes::new().compile_within(&schema, &options, &limits) {
            Ok(compiled) => compiled,
            Err(SchemaError::Unsupported { .. } | SchemaError::Limit { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
        };
        let judge = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
        let is_narrow = explain(&schema, &options, &limits).iter().any(|one| one.fate == Fate::Narrowed);
        // Short values of all kinds: every valid one is an output.
        if !is_narrow {
            let texts = ["\"a\"", "\"b\"", "\"ab\"", "\"bb\"", "\"c\"", "true", "false", "0", "1", "2", "3"];
            for _ in 0..12 {
                let mut items: Vec<&str> = vec![];
                for _ in 0..5 {
                    let item = choices.one_of(&texts);
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
                let names: Vec<&&str> = items.iter().filter(|item| item.starts_with('"')).collect();
                let members: Vec<String> = names.iter().map(|name| format!("{name}:1")).collect();
                for text in [format!("[{}]", items.join(",")), format!("{{{}}}", members.join(","))] {
                    let valid = judge.is_valid(&serde_json::from_str(&text).unwrap());
                    let accepted = match (any, text.starts_with('{')) {
                        (false, true) => orders(&members).iter().any(|text| compiled.accepts(text)),
                        _ => compiled.accepts(&text),
                    };
                    prop_assert_eq!(accepted, valid, "{} {}", schema, text);
                }
            }
        }
        let Compiled::Constraint(constraint) = compiled else { return Ok(()) };
        for _ in 0..8 {
            let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
            let mut mask = TokenMask::new(constraint.vocab_len());
            let mut text = vec![];
            for _ in 0..STEPS {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                let ids: Vec<TokenId> = mask.ids().filter(|id| (b' '..=b'~').contains(&u8::try_from(id.0).unwrap())).collect();
                // Only characters of the names, so that names run out.
                let few: Vec<TokenId> = ids.iter().copied().filter(|id| b"\"[]{}:,abcxz0123truefalsn".contains(&u8::try_from(id.0).unwrap())).collect();
                let is_accepting = constraint.is_accepting(&state);
                prop_assert!(!ids.is_empty() || is_accepting, "{}: a dead end behind {}", schema, String::from_utf8_lossy(&text));
                let from = if few.is_empty() { &ids } else { &few };
                if from.is_empty() {
                    break;
                }
                let token = choices.one_of(from);
                constraint.advance(&mut scratch, &mut state, token).unwrap();
                text.push(u8::try_from(token.0).unwrap());
            }
            if constraint.is_accepting(&state) {
                let text = String::from_utf8(text).unwrap();
                // The judge cannot read numbers beyond its range.
                let Ok(value) = serde_json::from_str(&text) else { continue };
                prop_assert!(judge.is_valid(&value), "{}: {}", schema, text);
            }
        }
    }
}

/// The texts of an object with these members, in each order.
fn orders(members: &[String]) -> Vec<String> {
    let mut all: Vec<Vec<String>> = vec![vec![]];
    for member in members {
        let longer = |one: &Vec<String>| {
            let one = one.clone();
            (0..=one.len())
                .map(move |at| {
                    let mut next = one.clone();
                    next.insert(at, member.clone());
                    next
                })
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.into_iter().map(|members| format!("{{{}}}", members.join(","))).collect()
}
