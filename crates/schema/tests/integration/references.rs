//! Targets of references: dynamic references agree with `jsonschema`, names count only at schemas, and custom
//! metaschemas are read.

use crate::common::{Bytes, Compiled, judged};
use proptest::prelude::*;
use serde_json::{Value, json};
use unskew_grammar::Fate;
use unskew_schema::{Registry, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

const INSTANCES: [&str; 12] = [
    "1",
    r#""a""#,
    "null",
    "[]",
    "[1]",
    r#"["a"]"#,
    "[null]",
    "[[1]]",
    r#"[["a"]]"#,
    "[[null]]",
    "[[[1]]]",
    "[1,[null]]",
];

/// One of three resources: whether it has the anchor, whether its reference is inside `items`, the kind of the
/// reference, and its target.
type Resource = (bool, bool, u8, usize);

/// `$dynamicRef` between resources, each with a type beside its anchor.
fn dynamic(resources: &[Resource], first: usize) -> Value {
    const TYPES: [&str; 3] = ["integer", "string", "null"];
    let mut defs = serde_json::Map::new();
    for (index, (anchored, inside, kind, goal)) in resources.iter().enumerate() {
        let name = format!("r{index}");
        // A reference for the same value leads to a later resource, so that references end.
        let goal = if *inside { *goal } else { index + 1 + goal % (resources.len() - index) };
        let reference = match (kind, goal < resources.len()) {
            (0, true) => json!({"$ref": format!("r{goal}")}),
            (1, true) => json!({"$dynamicRef": format!("r{goal}#x")}),
            (2, _) => json!({"$dynamicRef": "#x"}),
            _ => json!({}),
        };
        let mut schema = if *inside { json!({"type": "array", "items": reference}) } else { reference };
        schema["$id"] = json!(name);
        if *anchored {
            schema["$defs"] = json!({"d": {"$dynamicAnchor": "x", "type": TYPES[index]}});
        }
        defs.insert(name, schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/whole",
        "$defs": defs,
        "anyOf": [{"$ref": format!("r{first}")}, {"$ref": "r0"}],
    })
}

/// `$recursiveRef` between resources, each of which is an array or has a type of its own.
fn recursive(resources: &[Resource], first: usize) -> Value {
    const TYPES: [&str; 3] = ["integer", "string", "null"];
    let mut defs = serde_json::Map::new();
    for (index, (anchored, _, kind, goal)) in resources.iter().enumerate() {
        let name = format!("r{index}");
        let items = match kind {
            0 => json!({"$ref": format!("r{goal}")}),
            1 => json!({"type": TYPES[*goal]}),
            _ => json!({"$recursiveRef": "#"}),
        };
        let schema = json!({
            "$id": name, "$recursiveAnchor": anchored, "type": ["array", TYPES[index]], "items": items,
        });
        defs.insert(name, schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$id": "https://example.org/whole",
        "$defs": defs,
        "$ref": format!("r{first}"),
    })
}

/// Whether an instance is valid for [`recursive`] by the specification (core of 2019-09, 8.2.4.2): from a resource
/// with the anchor, the reference leads to the outermost resource on the path that has it too. The judge of the
/// other tests stops at the first resource on the way back without the anchor.
fn is_valid(resources: &[Resource], way: &[usize], instance: &Value) -> bool {
    let at = way[way.len() - 1];
    let (anchored, _, kind, goal) = resources[at];
    let is_own = |index: usize, value: &Value| match index {
        0 => value.is_i64(),
        1 => value.is_string(),
        _ => value.is_null(),
    };
    let Value::Array(items) = instance else { return is_own(at, instance) };
    let outermost = || way.iter().copied().find(|resource| resources[*resource].0);
    let next = match kind {
        0 => goal,
        1 => return items.iter().all(|item| is_own(goal, item)),
        _ if anchored => outermost().expect("the last one has it"),
        _ => at,
    };
    let way = [way, &[next]].concat();
    items.iter().all(|item| is_valid(resources, &way, item))
}

/// Whether [`recursive`] compiles; if so, asserts that it accepts exactly the valid instances.
fn is_as_specified(resources: &[Resource], first: usize) -> bool {
    let schema = recursive(resources, first).to_string();
    let compiled = match Bytes::new().compile(&schema, Whitespace::Compact) {
        Ok(compiled) => compiled,
        Err(SchemaError::Unsupported { .. }) => return false,
        Err(error) => panic!("{schema}: {error}"),
    };
    for instance in INSTANCES {
        let valid = is_valid(resources, &[first], &serde_json::from_str(instance).unwrap());
        assert_eq!(compiled.accepts(instance), valid, "{schema} {instance}");
    }
    true
}

/// Whether the schema compiles; if so, asserts that it accepts exactly the instances that are valid for the judge.
fn is_as_judged(schema: &Value) -> bool {
    let schema = schema.to_string();
    let compiled = match Bytes::new().compile(&schema, Whitespace::Compact) {
        Ok(compiled) => compiled,
        Err(SchemaError::Unsupported { .. }) => return false,
        Err(error) => panic!("{schema}: {error}"),
    };
    for instance in INSTANCES {
        if let Some(valid) = judged(&schema, instance) {
            assert_eq!(compiled.accepts(instance), valid, "{schema} {instance}");
        }
    }
    true
}

proptest! {
    #[test]
    fn dynamic_references_are_those_of_the_judge(
        resources in prop::collection::vec((any::<bool>(), any::<bool>(), 0..4u8, 0..3usize), 3),
        first in 0..3usize,
    ) {
        prop_assert!(is_as_specified(&resources, first));
        let schema = dynamic(&resources, first);
        // Only references without a target are refused.
        let compiles = is_as_judged(&schema);
        let error = Bytes::new().compile(&schema.to_string(), Whitespace::Compact).err();
        prop_assert!(compiles || error.unwrap().to_string().contains("does not exist"));
    }
}

#[test]
fn ways_that_agree_are_followed_and_those_of_one_anchor_that_differ() {
    // The first resource on the path decides, although it is not the whole document.
    assert!(is_as_judged(&dynamic(&[(true, false, 0, 0), (true, true, 2, 0), (false, false, 3, 0)], 0)));
    // Two paths lead to the second resource, one from the whole document and one through the first.
    let differ = dynamic(&[(true, false, 0, 0), (true, true, 2, 0), (false, false, 3, 0)], 1);
    assert!(is_as_judged(&differ));
    let all_anchored = [(true, false, 2, 0), (true, false, 0, 0), (true, false, 2, 0)];
    assert!(is_as_specified(&all_anchored, 1) && is_as_judged(&recursive(&all_anchored, 1)));
    // A resource without the anchor is between two that have it.
    assert!(is_as_specified(&[(true, false, 0, 2), (true, false, 2, 0), (false, false, 0, 1)], 0));
    // The steps are counted.
    let schema = dynamic(&[(true, false, 0, 0), (true, true, 2, 0), (false, false, 3, 0)], 0).to_string();
    let mut limits = SchemaLimits::default();
    assert!(grammar(&schema, &SchemaOptions::default(), &limits).is_ok());
    limits.carried = 3;
    let error = grammar(&schema, &SchemaOptions::default(), &limits).unwrap_err();
    assert!(matches!(error, SchemaError::Limit { what: "the ways to dynamic references", .. }), "{error}");
}

#[test]
fn what_ways_may_cost_is_limited() {
    let depends = |schema: &str, limits: &SchemaLimits| {
        let error = grammar(schema, &SchemaOptions::default(), limits).unwrap_err();
        assert_eq!(error.keyword(), Some("$dynamicRef"));
        assert!(error.to_string().contains("depends on the path"), "{error}");
    };
    // A copy counts as much as the text.
    let differ = dynamic(&[(true, false, 0, 0), (true, true, 2, 0), (false, false, 3, 0)], 1).to_string();
    let mut limits = SchemaLimits::default();
    limits.schema_bytes = 3 * differ.len();
    assert!(grammar(&differ, &SchemaOptions::default(), &limits).is_ok());
    limits.schema_bytes -= 1;
    depends(&differ, &limits);
    // Two anchors, each with differing paths.
    let anchors = |kind: &str| json!({"x": {"$dynamicAnchor": "x", "type": kind}, "y": {"$dynamicAnchor": "y", "type": kind}});
    let schema = json!({
        "$id": "https://example.org/two",
        "anyOf": [{"$ref": "a"}, {"$ref": "b"}],
        "$defs": {
            "a": {"$id": "a", "$ref": "c", "$defs": anchors("null")},
            "b": {"$id": "b", "$ref": "c", "$defs": anchors("string")},
            "c": {"$id": "c", "items": {"$dynamicRef": "#x"}, "contains": {"$dynamicRef": "#y"}, "$defs": anchors("object")},
        },
    });
    depends(&schema.to_string(), &SchemaLimits::default());
    // Many resources, each of which leads to all.
    let count = 150;
    let defs: serde_json::Map<String, Value> = (0..count)
        .map(|at| {
            let lead = json!({"$ref": format!("r{}", (at * 7 + 1) % count)});
            let items = json!([lead, {"$dynamicRef": "#x"}]);
            let own = json!({"d": {"$dynamicAnchor": "x", "const": at}});
            (format!("r{at}"), json!({"$id": format!("r{at}"), "prefixItems": items, "$defs": own}))
        })
        .collect();
    let all: Vec<Value> = (0..count).map(|at| json!({"$ref": format!("r{at}")})).collect();
    let schema = json!({"$id": "https://example.org/many", "$defs": defs, "prefixItems": all});
    let begin = std::time::Instant::now();
    let outcome = grammar(&schema.to_string(), &SchemaOptions::default(), &SchemaLimits::default());
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn names_count_where_schemas_stand() {
    let bytes = Bytes::new();
    for (schema, valid, invalid) in [
        // A value under an unknown keyword is no schema, and neither is a part of a `const`.
        (
            r##"{"$defs": {"a": {"x-old": [{"$id": "n", "type": "null"}]}, "b": {"$id": "n", "type": "string"},
                "c": {"const": {"v": {"w": {"$id": "n", "type": "integer"}}}}}, "$ref": "n"}"##,
            r#""a""#,
            "1",
        ),
        (
            r##"{"$defs": {"a": {"x-old": {"$anchor": "n", "type": "null"}}, "b": {"$anchor": "n", "type": "string"}},
                "$ref": "#n"}"##,
            r#""a""#,
            "null",
        ),
        // A definition may have the name of a keyword.
        (r##"{"$defs": {"default": {"$id": "n", "type": "null"}}, "$ref": "n"}"##, "null", "1"),
        (
            r##"{"properties": {"enum": {"$anchor": "n", "type": "null"}}, "not": {"$ref": "#n"}}"##,
            "1",
            "null",
        ),
        // If no other schema has the name, a reference finds it in other values too.
        (r##"{"components": {"a": {"$id": "n", "type": "null"}}, "$ref": "n"}"##, "null", "1"),
    ] {
        let compiled =
            bytes.compile(schema, Whitespace::Compact).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(compiled.accepts(valid) && !compiled.accepts(invalid), "{schema}");
    }
    for schema in [
        r##"{"$defs": {"a": {"$id": "n"}, "b": {"$id": "n", "type": "null"}}, "$ref": "n"}"##,
        r##"{"components": {"a": {"$id": "n"}, "b": {"$id": "n", "type": "null"}}, "$ref": "n"}"##,
    ] {
        let error = bytes.compile(schema, Whitespace::Compact).err().unwrap();
        assert!(error.to_string().contains("two schemas"), "{error}");
    }
}

#[test]
fn a_metaschema_lists_the_keywords() {
    let mut options = SchemaOptions::default();
    let mut registry = Registry::new();
    let vocabulary = |names: &[(&str, bool)]| -> Value {
        let name = |name: &str| match name.contains(':') {
            true => name.to_owned(),
            false => format!("https://json-schema.org/draft/2020-12/vocab/{name}"),
        };
        names.iter().map(|(of, needed)| (name(of), json!(needed))).collect::<serde_json::Map<_, _>>().into()
    };
    let newest = "https://json-schema.org/draft/2020-12/schema";
    for (name, listed) in [
        ("parts", &[("core", true), ("applicator", true), ("x:y", false)][..]),
        ("values", &[("core", true), ("validation", true)]),
        ("strange", &[("core", true), ("x:y", true)]),
    ] {
        let text = json!({"$schema": newest, "$vocabulary": vocabulary(listed)});
        registry.insert(&format!("meta/{name}"), &text.to_string()).unwrap();
    }
    registry.insert("meta/all", &json!({"$schema": newest}).to_string()).unwrap();
    registry.insert("meta/old", r#"{"$schema": "http://json-schema.org/draft-04/schema#"}"#).unwrap();
    registry.insert("meta/none", "{}").unwrap();
    (options.registry, options.whitespace) = (registry, Whitespace::Compact);

    let compile = |meta: &str, rest: &str| {
        let schema = format!(r#"{{"$schema": "meta/{meta}#", {rest}}}"#);
        (Bytes::new().compile_with(&schema, &options), schema)
    };
    let accepts = |meta: &str, rest: &str, text: &str| -> bool {
        let compiled: Result<Compiled, SchemaError> = compile(meta, rest).0;
        compiled.unwrap_or_else(|error| panic!("{meta} {rest}: {error}")).accepts(text)
    };
    let (parts, values) =
        (r#""items": {"type": "null"}, "contains": true, "minContains": 2"#, r#""minimum": 5"#);
    for (meta, text, of_parts, of_values) in [
        ("all", "[1]", false, true),
        ("all", "4", true, false),
        // This dialect has neither `minContains` nor `type`: one item of any type is enough.
        ("parts", "[1]", true, true),
        ("parts", "[]", false, true),
        ("parts", "4", true, true),
        ("values", "[]", true, true),
        ("values", "4", true, false),
        // Draft 4 has no `contains`.
        ("old", "[]", true, true),
        ("old", "[1]", false, true),
    ] {
        assert_eq!(accepts(meta, parts, text), of_parts, "{meta} {text}");
        assert_eq!(accepts(meta, values, text), of_values, "{meta} {text}");
    }
    let fates = explain(&compile("parts", values).1, &options, &SchemaLimits::default());
    assert!(fates.iter().any(|one| one.keyword == "minimum" && one.fate == Fate::Annotation), "{fates:?}");
    // Evaluation depends on the keywords of the dialect.
    assert!(accepts("parts", r#""allOf": [{"unevaluatedProperties": false}]"#, r#"{"a":1}"#));
    for (meta, message) in [("strange", "x:y"), ("none", "no draft"), ("missing", "is not known")] {
        let error = compile(meta, values).0.err().unwrap();
        assert_eq!(error.keyword(), Some("$schema"));
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn base64_is_asserted_in_the_draft_that_lets_it_be() {
    let bytes = Bytes::new();
    let of = |draft: &str, rest: &str| format!(r#"{{"$schema": "{draft}", {rest}}}"#);
    let (seven, rest) = ("http://json-schema.org/draft-07/schema#", r#""contentEncoding": "Base64""#);
    let compiled = bytes.compile(&of(seven, rest), Whitespace::Compact).unwrap();
    for text in [
        "", "YQ==", "YWI=", "YWJj", "YWJjZA==", "+/+/", "A", "AA", "AAA", "YR==", "YWJ=", "YQ=", "YW%j",
        "====", "Y Q=",
    ] {
        let digits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '/');
        // The definition of RFC 4648: whole groups, and no bits after the last byte.
        let bare = text.trim_end_matches('=');
        let value = |char: char| {
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".find(char).unwrap()
        };
        let spare = match bare.len() % 4 {
            2 => 0b1111,
            3 => 0b11,
            _ => 0,
        };
        let valid = text.len() % 4 == 0
            && text.len() - bare.len() < 3
            && bare.len() % 4 != 1
            && bare.chars().all(digits)
            && bare.chars().last().is_none_or(|last| value(last) & spare == 0);
        assert_eq!(compiled.accepts(&format!("{text:?}")), valid, "{text}");
    }
    assert!(compiled.accepts("1"));
    for (draft, rest) in [
        ("http://json-schema.org/draft-06/schema#", rest),
        ("https://json-schema.org/draft/2019-09/schema", rest),
        ("https://json-schema.org/draft/2020-12/schema", rest),
        (seven, r#""contentEncoding": "8bit""#),
        (seven, r#""contentMediaType": "application/json""#),
    ] {
        let schema = of(draft, rest);
        assert!(bytes.compile(&schema, Whitespace::Compact).unwrap().accepts(r#""%""#), "{schema}");
        let fates = explain(&schema, &SchemaOptions::default(), &SchemaLimits::default());
        assert!(fates.iter().all(|one| one.fate == Fate::Annotation), "{fates:?}");
    }
    // The texts that are base64 for no reader are not known.
    let not = of(seven, &format!(r#""type": "string", "not": {{{rest}}}"#));
    let error = bytes.compile(&not, Whitespace::Compact).err().unwrap();
    assert_eq!((error.keyword(), error.pointer()), (Some("contentEncoding"), Some("#/not")));
}
