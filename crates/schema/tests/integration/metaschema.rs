//! Each keyword of each draft with values of all kinds, at several positions. A schema that the metaschema of its
//! draft refuses is an error, and every other schema has only values of the right kind.

use serde_json::{Value, json};
use unskew_grammar::Fate;
use unskew_schema::{SchemaError, SchemaLimits, SchemaOptions, explain, grammar};

const DRAFTS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// All keywords of all drafts, and one unknown keyword.
const KEYWORDS: &[&str] = &[
    "$ref",
    "$id",
    "id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "contentMediaType",
    "contentEncoding",
    "contentSchema",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "maxItems",
    "minItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "maxProperties",
    "minProperties",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "unknown",
];

const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "2",
    "-1",
    "1.5",
    "2.0",
    "1e30",
    "1e-30",
    "123456789012345678901234567890",
    r#""""#,
    r##""#""##,
    r#""a""#,
    r#""a(""#,
    r##""#a""##,
    r#""string""#,
    "[]",
    "[1]",
    r#"["a"]"#,
    r#"["a","a"]"#,
    r#"["a","b"]"#,
    r#"["string","null"]"#,
    r#"["null","null"]"#,
    "[{}]",
    "[true]",
    "[{},{}]",
    "[[]]",
    "{}",
    r#"{"a":1}"#,
    r#"{"a":[]}"#,
    r#"{"a":["b"]}"#,
    r#"{"a":["b","b"]}"#,
    r#"{"a":[1]}"#,
    r#"{"a":{}}"#,
    r#"{"a":true}"#,
    r#"{"a":"b"}"#,
    r#"{"type":1}"#,
    r#"{"a":{"type":1}}"#,
    r#"[{"type":1}]"#,
    r#"{"prefixItems":{},"contains":1,"if":[]}"#,
];

/// The positions of the keyword, with their pointers.
const PLACES: &[(&str, &str)] = &[
    ("KEYWORD", "#"),
    (r#""properties":{"p":{KEYWORD}}"#, "#/properties/p"),
    (r#""type":"null","properties":{"p":{KEYWORD}}"#, "#/properties/p"),
    (r#""items":{KEYWORD}"#, "#/items"),
    (r#""not":{KEYWORD}"#, "#/not"),
    (r#""if":{KEYWORD}"#, "#/if"),
    (r#""$defs":{"d":{KEYWORD}}"#, "#/$defs/d"),
    (r#""definitions":{"d":{KEYWORD}}"#, "#/definitions/d"),
    (r#""anyOf":[{},{KEYWORD}]"#, "#/anyOf/1"),
    (r#""dependencies":{"d":{KEYWORD}}"#, "#/dependencies/d"),
    (r#""enum":[{KEYWORD}]"#, "#/enum/0"),
];

/// Whether the metaschema of the schema's draft finds it valid. Numbers that binary floating point cannot hold, or
/// holds in another form, are replaced by small ones for the judge; their treatment in draft 4 is not compared.
fn judged(schema: &str) -> bool {
    let schema = schema
        .replace("123456789012345678901234567890", "1234567890")
        .replace(":-0}", ":0}")
        .replace(":-0,", ":0,");
    let value: Value = serde_json::from_str(&schema).unwrap();
    jsonschema::meta::is_valid(&value)
}

#[test]
fn values_are_those_that_the_metaschema_allows() {
    let (options, limits) = (SchemaOptions::default(), SchemaLimits::default());
    let (mut wrong, mut unsupported, mut compiled, mut failures) = (0, 0, 0, vec![]);
    for draft in DRAFTS {
        for keyword in KEYWORDS {
            for value in VALUES {
                for (place, pointer) in PLACES {
                    let at = format!("{}:{value}", json!(keyword));
                    let schema = format!(r#"{{"$schema":"{draft}",{}}}"#, place.replace("KEYWORD", &at));
                    if serde_json::from_str::<Value>(&schema).is_err() {
                        panic!("{schema}");
                    }
                    // A duplicate keyword is no valid JSON here.
                    if place.contains(&format!("\"{keyword}\":")) && place.starts_with(r#""type""#) {
                        continue;
                    }
                    let made = grammar(&schema, &options, &limits);
                    match (judged(&schema), made) {
                        (true, Err(error @ SchemaError::Invalid { .. })) => {
                            failures.push(format!("{schema}: {error}, and is valid"));
                        }
                        (true, Ok(_) | Err(SchemaError::Unsatisfiable { .. })) => compiled += 1,
                        (true, Err(_)) => unsupported += 1,
                        (false, Err(error @ SchemaError::Invalid { .. })) => {
                            wrong += 1;
                            let at = error.pointer().unwrap();
                            if !at.starts_with(pointer) {
                                failures.push(format!("{schema}: {at}"));
                            }
                            let fates = explain(&schema, &options, &limits);
                            let told = fates.iter().any(|one| {
                                one.fate == Fate::Rejected
                                    && one.pointer == at
                                    && Some(&*one.keyword) == error.keyword()
                            });
                            if !told {
                                failures.push(format!("{schema}: {fates:?}"));
                            }
                        }
                        (false, Err(SchemaError::Unsupported { keyword, .. })) if keyword == "pattern" => {
                            wrong += 1;
                        }
                        (false, Err(error)) => failures.push(format!("{schema}: {error}, and is invalid")),
                        (false, made) => failures.push(format!("{schema}: {:?}, and is invalid", made.err())),
                    }
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{}\n{}",
        failures.len(),
        failures.iter().take(60).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(
        wrong > 10_000 && compiled > 10_000,
        "{wrong} wrong, {compiled} compiled, {unsupported} refused otherwise"
    );
}

#[test]
fn where_no_keyword_leads_what_is_asked_is_looked_at() {
    let (options, limits) = (SchemaOptions::default(), SchemaLimits::default());
    let compile = |schema: &str| grammar(schema, &options, &limits);
    for wrong in [
        r#""prefixItems":{}"#,
        r#""type":"array","items":[{}]"#,
        r#""not":1"#,
        r#""$ref":1"#,
        r#""uniqueItems":1"#,
    ] {
        let schema = format!(r##"{{"$ref":"#/x/y","x":{{"y":{{{wrong}}}}}}}"##);
        let error = compile(&schema).unwrap_err();
        assert!(matches!(error, SchemaError::Invalid { .. }), "{schema}: {error}");
        assert!(error.pointer().unwrap().starts_with("#/x/y"), "{schema}: {error}");
        // Without a reference to it, the value of an unknown keyword is no schema.
        assert!(compile(&schema.replace("$ref\":\"#", "$comment\":\"#")).is_ok(), "{schema}");
    }
    let schema = r##"{"$ref":"#/x/y","x":{"y":{"title":{},"$id":{"type":1},"type":"null"}}}"##;
    assert!(compile(schema).is_ok());
}
