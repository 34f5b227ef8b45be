//! The law of `explain`: a keyword that changes the accepted values when it is taken out is listed as enforced or
//! narrowed, and no other keyword is.
//!
//! The judge knows nothing of fates. It compiles the schema with and without the keyword, and compares the verdicts on
//! random values, on the values in the schema, and on mutants of both. Where both languages are regular, their automata
//! decide. A keyword that is listed without a value that shows its effect is counted: the effect may need a larger
//! value.

#![allow(clippy::print_stdout, reason = "the figures are the point")]

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    common::Bytes,
    maskbench,
    random::{instance, schema},
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::{Map, Value, json};
use unskew_grammar::Fate;
use unskew_schema::{MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

/// What the judge has found.
#[derive(Debug, Default)]
struct Tally {
    schemas: usize,
    refused: usize,
    keywords: usize,
    /// Keywords with an effect.
    effective: usize,
    /// Keywords without an effect, by their automata.
    idle: usize,
    /// Keywords that are listed as enforced or narrowed, and no value has shown why.
    unseen: usize,
    broken: Vec<String>,
}

fn options() -> SchemaOptions {
    let mut options = SchemaOptions::default();
    (options.whitespace, options.order) = (Whitespace::Compact, MemberOrder::Any);
    options
}

/// The keywords of all schemas in `schema`, each with the pointer of its schema.
fn keywords(schema: &Value, pointer: &str, found: &mut Vec<(String, String)>) {
    let Value::Object(members) = schema else { return };
    for (key, value) in members {
        found.push((pointer.to_owned(), key.clone()));
        let at = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (&**key, value) {
            (
                "not"
                | "if"
                | "then"
                | "else"
                | "items"
                | "additionalItems"
                | "additionalProperties"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                Value::Object(_),
            ) => keywords(value, &at, found),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    keywords(part, &format!("{at}/{index}"), found);
                }
            }
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(parts),
            ) => {
                for (name, part) in parts {
                    keywords(part, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            _ => {}
        }
    }
}

/// Values that differ from `value` in one place.
fn mutants(value: &Value) -> Vec<Value> {
    let mut all =
        vec![Value::Null, json!(-1), json!(1.5), json!(""), json!([]), json!({}), json!([value, value])];
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(0.0);
            all.extend([
                json!(number + 1.0),
                json!(number - 1.0),
                json!(number + 0.5),
                json!(number * 1000.0),
            ]);
        }
        Value::String(text) => {
            all.extend([json!(format!("{text}x")), json!(text.chars().skip(1).collect::<String>())]);
        }
        Value::Array(items) => {
            for index in 0..items.len().min(4) {
                let mut fewer = items.clone();
                fewer.remove(index);
                all.push(Value::Array(fewer));
                let mut more = items.clone();
                more.insert(index, items[index].clone());
                all.push(Value::Array(more));
                for mutant in mutants(&items[index]).into_iter().take(12) {
                    let mut items = items.clone();
                    items[index] = mutant;
                    all.push(Value::Array(items));
                }
            }
        }
        Value::Object(members) => {
            let with = |name: &str, value: Value| {
                let mut members = members.clone();
                members.insert(name.to_owned(), value);
                Value::Object(members)
            };
            all.extend([with("zz", json!(1)), with("A-b", json!({"q": [true]}))]);
            for (name, value) in members.iter().take(12) {
                let rest: Map<_, _> =
                    members.clone().into_iter().filter(|(other, _)| other != name).collect();
                all.push(Value::Object(rest));
                all.extend(mutants(value).into_iter().take(20).map(|mutant| with(name, mutant)));
            }
        }
        _ => {}
    }
    all
}

/// The values of `enum`, `const` and the bounds of a schema, as values.
fn constants(schema: &Value, found: &mut Vec<Value>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (&**key, value) {
                    ("enum", Value::Array(values)) => found.extend(values.iter().take(5).cloned()),
                    ("const" | "minimum" | "maximum" | "multipleOf", value) => found.push(value.clone()),
                    _ => constants(value, found),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| constants(part, found)),
        _ => {}
    }
}

/// Compares the fates of one schema with its verdicts on `values`.
fn judge(bytes: &Bytes, schema: &Value, values: &[Value], most: usize, tally: &mut Tally) {
    let (options, limits) = (options(), SchemaLimits::default());
    tally.schemas += 1;
    let mut texts: BTreeSet<String> = values.iter().map(Value::to_string).collect();
    let mut found = vec![];
    constants(schema, &mut found);
    found.extend(found.clone().iter().flat_map(mutants));
    texts.extend(found.iter().take(200).map(Value::to_string));
    let verdicts = |schema: &str| -> Result<Vec<bool>, SchemaError> {
        let compiled = bytes.compile_with(schema, &options)?;
        let mut reader = compiled.reader();
        Ok(texts.iter().map(|text| reader(text)).collect())
    };
    let text = schema.to_string();
    let Ok(whole) = verdicts(&text) else {
        tally.refused += 1;
        return;
    };
    let regular = |text: &str| grammar(text, &options, &limits).ok()?.regular(&limits.grammar.regex).ok();
    let automaton = regular(&text);
    let fates: BTreeMap<(String, String), (Fate, String)> = explain(&text, &options, &limits)
        .into_iter()
        .map(|row| ((row.pointer, row.keyword), (row.fate, row.why)))
        .collect();
    let mut all = vec![];
    keywords(schema, "#", &mut all);
    for (pointer, keyword) in all.into_iter().take(most) {
        // These name schemas, and do not constrain a value.
        if ["$schema", "$id", "id", "$anchor", "$defs", "definitions"].contains(&&*keyword) {
            continue;
        }
        let mut without = schema.clone();
        let place = without.pointer_mut(&pointer[1..]).unwrap().as_object_mut().unwrap();
        place.remove(&keyword);
        let without = without.to_string();
        let Ok(rest) = verdicts(&without) else { continue };
        tally.keywords += 1;
        let fate = fates.get(&(pointer.clone(), keyword.clone()));
        let listed = fate.is_some_and(|(fate, _)| matches!(fate, Fate::Enforced | Fate::Narrowed));
        let shown = texts.iter().zip(whole.iter().zip(&rest)).find(|(_, (with, without))| with != without);
        let equal = match (&automaton, shown) {
            (Some(with), None) => regular(&without).map(|without| *with == without),
            _ => None,
        };
        if let Some((value, _)) = shown {
            tally.effective += 1;
            if !listed {
                tally.broken.push(format!("{text}: {pointer} {keyword} decides {value}, and is {fate:?}"));
            }
        } else if equal == Some(true) {
            tally.idle += 1;
            if listed {
                tally.broken.push(format!("{text}: {pointer} {keyword} decides nothing, and is {fate:?}"));
            }
        } else if listed && equal.is_none() {
            tally.unseen += 1;
            if std::env::var_os("UNSKEW_VERBOSE").is_some() {
                println!("unseen: {pointer} {keyword} {fate:?} of {text}");
            }
        }
    }
}

#[test]
fn listed_keywords_decide_and_no_others_do() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let bytes = Bytes::new();
    let mut tally = Tally::default();
    let values: Vec<Value> = (0..150).map(|_| instance().new_tree(&mut runner).unwrap().current()).collect();
    for _ in 0..unskew_testdata::random_cases(150, 400) {
        let schema = schema().new_tree(&mut runner).unwrap().current();
        judge(&bytes, &schema, &values, 40, &mut tally);
    }
    report(&tally);
}

/// A schema whose keywords constrain nothing is written as one without keywords. Under `uniqueItems` an array that may
/// have any items is written otherwise than one with a condition.
#[test]
fn a_keyword_that_says_nothing_decides_nothing() {
    let bytes = Bytes::new();
    let of = |items: &str| {
        format!(
            r#"{{"type":"array","uniqueItems":true,"minContains":2,"contains":{{"items":{items}}},"items":{{"properties":{{"ab":{{"const":"x"}}}}}}}}"#
        )
    };
    let verdict =
        |items: &str| bytes.compile_with(&of(items), &options()).unwrap().reader()(r#"["ab",[1],""]"#);
    for items in ["true", r#"{"title":"anything"}"#, r#"{"":1}"#] {
        assert_eq!(verdict(items), verdict("{}"), "{items}");
    }
    assert_ne!(verdict(r#"{"minItems":1}"#), verdict("{}"));
}

/// The law of the listed keywords for published schemas, with their instances; see `maskbench`.
#[test]
fn listed_keywords_of_published_schemas_decide_and_no_others_do() {
    let bytes = Bytes::new();
    let mut tally = Tally::default();
    for (_, schema, instances) in maskbench::files(100) {
        let Ok(schema) = serde_json::from_str::<Value>(&schema) else { continue };
        let mut values: Vec<Value> =
            instances.iter().filter_map(|one| serde_json::from_str(one).ok()).collect();
        values.extend(values.clone().iter().flat_map(mutants).take(400));
        if schema.to_string().len() < 10_000 {
            judge(&bytes, &schema, &values, 30, &mut tally);
        }
    }
    report(&tally);
}

fn report(tally: &Tally) {
    let Tally { schemas, refused, keywords, effective, idle, unseen, broken } = tally;
    println!(
        "{schemas} schemas, {refused} refused; {keywords} keywords taken out, {effective} with an effect"
    );
    println!("{idle} without one by their automata; {unseen} listed without a value that shows why");
    assert!(broken.is_empty(), "{} of {keywords}:\n{}", broken.len(), broken.join("\n"));
}
