//! Random schemas and instances: every compiled schema agrees with `jsonschema`.
//!
//! Members of instances and of schemas are sorted by name, so order matters only between declared members and
//! others. A valid instance that is refused must differ from an output in that order alone.

use std::sync::Arc;

use crate::common::{Bytes, judged};
use proptest::prelude::*;
use serde_json::{Value, json};
use unskew_grammar::Fate;
use unskew_schema::{
    ElementStyle, MemberOrder, SchemaError, SchemaLimits, SchemaOptions, ValueType, Whitespace, explain,
};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"])
            .prop_map(|name| json!({"type": name})),
        scalar().prop_map(|value| json!({"const": value})),
        prop::collection::vec(scalar(), 1..4).prop_map(|values| json!({"enum": values})),
        part().prop_map(|value| json!({"const": value})),
        prop::collection::vec(prop_oneof![scalar(), part()], 1..4).prop_map(|values| json!({"enum": values})),
        (-2i32..5).prop_map(|bound| json!({"minimum": bound})),
        (-2i32..5).prop_map(|bound| json!({"exclusiveMaximum": f64::from(bound) / 2.0})),
        (1i32..4).prop_map(|factor| json!({"multipleOf": factor})),
        (0u32..3).prop_map(|length| json!({"minLength": length})),
        (0u32..3).prop_map(|length| json!({"maxLength": length})),
        prop::sample::select(vec!["a", "^b", "a$", "^(ab)*$", "é"])
            .prop_map(|pattern| json!({"pattern": pattern})),
        (0u32..3).prop_map(|count| json!({"minItems": count})),
        (0u32..3).prop_map(|count| json!({"maxItems": count})),
        (0u32..2).prop_map(|count| json!({"minProperties": count})),
        (0u32..3).prop_map(|count| json!({"maxProperties": count})),
        prop::sample::subsequence(vec!["a", "b"], 1..3).prop_map(|names| json!({"required": names})),
        any::<bool>().prop_map(Value::from),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(2.5),
        json!(-3),
        json!(""),
        json!("a"),
        json!("bé"),
        json!("ab"),
    ])
}

pub(crate) fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        let one = inner.clone();
        let list = prop::collection::vec(inner.clone(), 1..4);
        let names = prop::collection::btree_map(prop::sample::select(vec!["a", "b", "ab"]), inner.clone(), 0..3);
        prop_oneof![
            list.clone().prop_map(|all| json!({"allOf": all})),
            list.clone().prop_map(|all| json!({"anyOf": all})),
            list.clone().prop_map(|all| json!({"oneOf": all})),
            one.clone().prop_map(|not| json!({"not": not})),
            (one.clone(), one.clone(), one.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            names.clone().prop_map(|names| json!({"properties": names})),
            (names.clone(), one.clone()).prop_map(|(names, other)| json!({"properties": names, "additionalProperties": other})),
            (names, one.clone()).prop_map(|(names, other)| json!({"type": "object", "properties": names, "patternProperties": {"^a": other}})),
            one.clone().prop_map(|items| json!({"items": items})),
            (list.clone(), one.clone()).prop_map(|(first, items)| json!({"prefixItems": first, "items": items})),
            one.clone().prop_map(|names| json!({"propertyNames": names})),
            (one.clone(), 0u32..3, prop::option::of(0u32..3)).prop_map(|(contains, min, max)| match max {
                Some(max) => json!({"contains": contains, "minContains": min, "maxContains": max}),
                None => json!({"contains": contains, "minContains": min}),
            }),
            one.clone().prop_map(|items| json!({"items": items, "uniqueItems": true})),
            (list.clone(), one.clone()).prop_map(|(first, items)| {
                json!({"prefixItems": first, "items": items, "uniqueItems": true})
            }),
            (one.clone(), one.clone(), 0u32..3).prop_map(|(items, contains, min)| {
                json!({"type": "array", "items": items, "contains": contains, "minContains": min, "uniqueItems": true})
            }),
            prop::collection::vec(scalar(), 1..5).prop_map(|values| json!({"items": {"enum": values}, "uniqueItems": true})),
            (list.clone(), keyword(), one.clone()).prop_map(|(all, keyword, rest)| json!({"anyOf": all, keyword: rest})),
            (list.clone(), keyword(), one.clone()).prop_map(|(all, keyword, rest)| json!({"allOf": all, keyword: rest})),
            (list.clone(), keyword(), one.clone()).prop_map(|(all, keyword, rest)| json!({"oneOf": all, keyword: rest})),
            (one.clone(), one.clone(), keyword(), one.clone())
                .prop_map(|(a, b, keyword, rest)| json!({"if": a, "then": b, keyword: rest})),
            (list, one.clone()).prop_map(|(first, contains)| {
                json!({"prefixItems": first, "contains": contains, "unevaluatedItems": false})
            }),
            (one.clone(), one.clone()).prop_map(|(part, rest)| {
                json!({"dependentSchemas": {"a": part}, "properties": {"a": true}, "unevaluatedProperties": rest})
            }),
            (one.clone(), prop::collection::btree_map(prop::sample::select(vec!["a", "b"]), one, 0..3))
                .prop_map(|(not, names)| json!({"not": {"properties": names, "additionalProperties": not}})),
        ]
    })
}

fn keyword() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["unevaluatedProperties", "unevaluatedItems"])
}

/// An array or object for `const` and `enum`.
fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::collection::vec(scalar(), 0..3).prop_map(Value::from),
        prop::collection::btree_map(prop::sample::select(vec!["a", "b"]), scalar(), 0..3)
            .prop_map(|members| json!(members)),
    ]
}

pub(crate) fn instance() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(vec!["a", "ab", "b", "c"]), inner, 0..4)
                .prop_map(|members| Value::Object(
                    members.into_iter().map(|(name, value)| (name.into(), value)).collect()
                )),
        ]
    })
}

/// All orders of the members of all objects.
fn orders(value: &Value) -> Vec<String> {
    let joined = |parts: Vec<Vec<String>>| {
        parts.into_iter().fold(vec![vec![]], |all: Vec<Vec<String>>, part| {
            let longer = |one: &Vec<String>| {
                let one = one.clone();
                part.iter().map(move |next| [one.clone(), vec![next.clone()]].concat()).collect::<Vec<_>>()
            };
            all.iter().flat_map(longer).collect()
        })
    };
    match value {
        Value::Array(items) => {
            let all = joined(items.iter().map(orders).collect());
            all.into_iter().map(|items| format!("[{}]", items.join(","))).collect()
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                orders(value).into_iter().map(|value| format!("{}:{value}", json!(name))).collect()
            };
            let mut texts = vec![];
            for mut members in joined(members.iter().map(member).collect()) {
                permute(&mut members, 0, &mut texts);
            }
            texts
        }
        value => vec![value.to_string()],
    }
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

/// Whether some valid values are no outputs.
fn narrowed(schema: &str, options: &SchemaOptions) -> bool {
    let fates = explain(schema, options, &SchemaLimits::default());
    fates.iter().any(|fate| fate.fate == Fate::Narrowed && fate.keyword == "uniqueItems")
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(vec!["a", "ab", "b", "c"]), instance(), 0..4)
        .prop_map(|members| json!(members))
}

/// With words for types, arrays and objects as elements too or not; and without.
fn style(which: usize) -> ElementStyle {
    use ValueType::{Array, Boolean, Null, Number, Object, String};
    const TYPED: &[(&[ValueType], &str)] =
        &[(&[String], "s"), (&[Null, Boolean, Number], "v"), (&[Array], "l"), (&[Object], "d")];
    let plain = ElementStyle {
        before: "<{name} {type}",
        begin: ">",
        end: "</",
        after: "{name}>",
        types: TYPED,
        wrap: "\n",
        // A blank ends a name.
        names: r"[^<>\s\x00]+",
        ..ElementStyle::PLAIN
    };
    match which {
        0 => ElementStyle { after: ">", ..plain },
        1 => ElementStyle { item: Some("<item {type}"), after: ">", ..plain },
        2 => ElementStyle { types: &[(ValueType::ALL, "")], after: ">", wrap: "", ..plain },
        _ => ElementStyle { types: &[(ValueType::ALL, "")], ..plain },
    }
}

/// The members of an object, or the items of an array, as the style writes them.
fn elements(style: &ElementStyle, value: &Value) -> String {
    let parts: Vec<(&str, &str, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (style.before, name.as_str(), value)).collect()
        }
        Value::Array(items) => items.iter().map(|value| (style.item.unwrap(), "item", value)).collect(),
        _ => unreachable!("values have no elements"),
    };
    let mut text = String::new();
    for (before, name, value) in parts {
        let (at, inner) = match value {
            Value::String(raw) => (0, raw.clone() + if raw.len() % 2 == 0 { style.wrap } else { "" }),
            Value::Array(_) if style.item.is_some() => (2, elements(style, value)),
            Value::Object(_) if style.item.is_some() => (3, elements(style, value)),
            Value::Array(_) => (2, value.to_string()),
            Value::Object(_) => (3, value.to_string()),
            value => (1, value.to_string()),
        };
        let word = style.types.get(at).map_or("", |(_, word)| word);
        text += &before.replace("{name}", name).replace("{type}", word);
        text += &[style.begin, &inner, style.end, &style.after.replace("{name}", name)].concat();
    }
    text
}

/// The objects in which some members are the texts of their values.
fn as_strings(object: &Value) -> Vec<Value> {
    let members = object.as_object().unwrap();
    let others: Vec<&String> =
        members.iter().filter(|(_, value)| !value.is_string()).map(|(name, _)| name).collect();
    let mut all = vec![];
    for chosen in 0..1usize << others.len() {
        let mut changed = object.clone();
        for (_, name) in others.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1) {
            changed[name.as_str()] = json!(members[name.as_str()].to_string());
        }
        all.push(changed);
    }
    all
}

/// Names in an order, whether each is required, and the schemas of their values.
fn unique_objects() -> impl Strategy<Value = (Vec<&'static str>, Vec<bool>, Vec<String>)> {
    let value = prop::sample::select(vec![
        r#"{"type":"string"}"#,
        r#"{"enum":["a",1,null,{"a":1}]}"#,
        r#"{"type":["integer","null"]}"#,
        r#"{"type":"array","items":{"type":"integer"},"maxItems":2}"#,
        r#"{"type":"object","properties":{"b":{"type":"integer"},"a":{"enum":[1,"a"]}},"additionalProperties":false}"#,
    ]);
    (
        Just(vec!["a", "b", "ab"]).prop_shuffle(),
        prop::collection::vec(any::<bool>(), 3),
        prop::collection::vec(value.prop_map(str::to_owned), 3),
    )
}

/// Few different items, some of them more than once.
fn unique_items() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(unique_item(), 3)
        .prop_flat_map(|pool| prop::collection::vec(prop::sample::select(pool), 0..4))
}

fn unique_item() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!("a"),
        json!(1),
        json!(null),
        json!([]),
        json!([1, 2]),
        json!({"a": 1}),
        json!({"a": "a", "b": 1}),
        json!({}),
    ]);
    let object = prop::collection::btree_map(prop::sample::select(vec!["a", "b", "ab"]), leaf, 0..4);
    prop_oneof![4 => object.prop_map(|members| json!(members)), 1 => any::<bool>().prop_map(Value::from)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(200, 400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_compiles_agrees_with_the_judge(schema in schema(), instances in prop::collection::vec(instance(), 12)) {
        let schema = schema.to_string();
        let compiled = match Bytes::new().compile(&schema, Whitespace::Compact) {
            Ok(compiled) => compiled,
            Err(SchemaError::Unsupported { .. } | SchemaError::Limit { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
        };
        let mut options = SchemaOptions::default();
        options.whitespace = Whitespace::Compact;
        let is_narrowed = narrowed(&schema, &options);
        options.order = MemberOrder::Any;
        let any = Bytes::new().compile_with(&schema, &options).ok();
        for instance in instances {
            let valid = judged(&schema, &instance.to_string()).unwrap();
            let orders = orders(&instance);
            // A valid value has at least one order that is an output; an invalid one has none.
            let accepted = orders.iter().filter(|order| compiled.accepts(order)).count();
            let is_right = if valid { accepted > 0 || is_narrowed } else { accepted == 0 };
            prop_assert!(is_right, "{} {} {}", schema, instance, accepted);
            if let Some(any) = &any {
                let accepted = orders.iter().filter(|order| any.accepts(order)).count();
                let expected = if valid { orders.len() } else { 0 };
                let is_right = accepted == expected || is_narrowed && valid;
                prop_assert!(is_right, "in any order: {} {}", schema, instance);
            }
        }
    }

    /// Objects whose members are elements are those of the judge. Where an element does not name the type of its
    /// value, a text may also be a string.
    #[test]
    fn elements_are_those_of_the_judge(
        schema in schema(),
        objects in prop::collection::vec(object(), 12),
        which in 0usize..4,
    ) {
        let schema = schema.to_string();
        let mut options = SchemaOptions::default();
        options.whitespace = Whitespace::Compact;
        options.order = MemberOrder::Any;
        let style = style(which);
        options.elements = Some(Arc::new(style.clone()));
        let compiled = match Bytes::new().compile_with(&schema, &options) {
            Ok(compiled) => compiled,
            Err(SchemaError::Unsupported { .. } | SchemaError::Limit { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{which} {schema}: {error}"))),
        };
        let fates = explain(&schema, &options, &SchemaLimits::default());
        let is_narrowed = fates.iter().any(|fate| {
            fate.fate == Fate::Narrowed && fate.keyword != "type" && !fate.why.starts_with("the output is")
        });
        for object in objects {
            let valid = judged(&schema, &object.to_string()).unwrap();
            let text = elements(&style, &object);
            let accepted = compiled.accepts(&text);
            let mut readings = vec![object.clone()];
            if which > 1 {
                readings.extend(as_strings(&object));
            }
            let is_read = readings.iter().any(|one| judged(&schema, &one.to_string()).unwrap());
            prop_assert!(!accepted || is_read, "wrongly taken: {} {} {}", schema, object, text);
            prop_assert!(accepted || !valid || is_narrowed, "wrongly refused: {} {} {}", schema, object, text);
        }
    }

    /// Arrays of different objects, which have one text each: no invalid array has an accepted text in any order of
    /// members, and every valid one has the text in which the members are in the order of the schema.
    #[test]
    fn different_objects_are_those_of_the_judge(
        (names, required, values) in unique_objects(),
        arrays in prop::collection::vec(unique_items(), 12),
    ) {
        let members: Vec<String> =
            names.iter().zip(&values).map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        let required: Vec<&&str> = names.iter().zip(&required).filter(|(_, required)| **required).map(|(name, _)| name).collect();
        let item = format!(
            r#"{{"type":"object","properties":{{{}}},"required":{},"additionalProperties":false}}"#,
            members.join(","),
            json!(required)
        );
        let schema = format!(r#"{{"type":"array","uniqueItems":true,"items":{{"anyOf":[{item},{{"type":"boolean"}}]}}}}"#);
        for order in [MemberOrder::Declared, MemberOrder::Any] {
            let mut options = SchemaOptions::default();
            (options.whitespace, options.order) = (Whitespace::Compact, order);
            let compiled = match Bytes::new().compile_with(&schema, &options) {
                Ok(compiled) => compiled,
                Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
            };
            for array in &arrays {
                let array = json!(array);
                let valid = judged(&schema, &array.to_string()).unwrap();
                let orders = orders(&array);
                let accepted = orders.iter().filter(|text| compiled.accepts(text)).count();
                prop_assert_eq!(accepted, usize::from(valid), "{} {}", schema, array);
            }
        }
    }
}
