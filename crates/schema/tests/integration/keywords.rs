//! Each keyword at each position: outputs agree with `jsonschema`, and keywords that are not enforced are refused
//! by name.

use crate::common::{Bytes, judged};
use unskew_grammars::Fate;
use unskew_schema::{MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

/// Values of all kinds, as JSON without white space.
const INSTANCES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "-1",
    "1.5",
    "2",
    "3",
    "4.2",
    "5",
    "7",
    "10",
    "10.0",
    "10.5",
    "100",
    "-7",
    "0.1",
    "0.30",
    "1e2",
    r#""""#,
    r#""a""#,
    r#""ab""#,
    r#""abc""#,
    r#""abcd""#,
    r#""é""#,
    r#""\u00e9""#,
    r#""😀""#,
    r#""\ud83d\ude00""#,
    r#""a\nb""#,
    r#""b\u0061""#,
    r#""abcdefabcdefabcdefab""#,
    r#""abcdefabcdefabcdefabcdefabcdefabcdefab""#,
    r#""éabcdef\u0061bcdefabcdefab""#,
    r#""2024-02-29""#,
    r#""2023-02-29""#,
    r#""1.2.3.4""#,
    "[]",
    "[1]",
    "[1,2]",
    "[1,1]",
    "[1,2,3]",
    r#"["a"]"#,
    r#"["a",1]"#,
    r#"[1,"a"]"#,
    "[[]]",
    "[[1],[2]]",
    "[null]",
    "{}",
    r#"{"a":1}"#,
    r#"{"a":"x"}"#,
    r#"{"b":1}"#,
    r#"{"a":1,"b":2}"#,
    r#"{"a":1,"b":"x"}"#,
    r#"{"a":1,"b":2,"c":3}"#,
    r#"{"c":3}"#,
    r#"{"a":{"a":1}}"#,
    r#"{"a":[1]}"#,
    r#"{"ab":1}"#,
    r#"{"a":1,"ab":"x"}"#,
    r#"{"x":null}"#,
    r#"{"x":null,"y":1}"#,
    r#"{"a":null}"#,
    r#"{"kind":"a","v":1}"#,
    r#"{"kind":"b","v":"x"}"#,
    r#"{"kind":"a","v":"x"}"#,
    r#"{"kind":"c"}"#,
];

/// Schemas that are enforced. The members of the instances have the order of the schema.
const ENFORCED: &[&str] = &[
    "true",
    "false",
    "{}",
    r#"{"type":"null"}"#,
    r#"{"type":"boolean"}"#,
    r#"{"type":"integer"}"#,
    r#"{"type":"number"}"#,
    r#"{"type":["integer","string"]}"#,
    r#"{"type":["integer","number"]}"#,
    r#"{"type":"array"}"#,
    r#"{"type":"object"}"#,
    r#"{"enum":[1,"a",null,[1,2],{"a":1}]}"#,
    r#"{"enum":["é","","😀"]}"#,
    r#"{"const":10}"#,
    r#"{"const":{"a":[1]}}"#,
    r#"{"const":false}"#,
    r#"{"enum":[1,2.0,10.5],"minimum":2}"#,
    r#"{"minLength":2}"#,
    r#"{"maxLength":1}"#,
    r#"{"type":"string","minLength":1,"maxLength":3}"#,
    r#"{"pattern":"b"}"#,
    r#"{"pattern":"^a\\w*$"}"#,
    r#"{"pattern":"^[a-f]{20}$"}"#,
    r#"{"pattern":"^[a-f]{2,38}$","minLength":21}"#,
    r#"{"pattern":"^[^g]+$","maxLength":20}"#,
    r#"{"type":"string","pattern":"^[a-fé]*$","minLength":20,"maxLength":37}"#,
    r#"{"anyOf":[{"pattern":"^[a-f]{20}$"},{"pattern":"^[a-f]{38}$"}]}"#,
    r#"{"pattern":"([a-z]+)?","maxLength":20}"#,
    // A class of many ranges, which is not counted.
    r#"{"pattern":"^\\p{L}{16}$"}"#,
    r#"{"pattern":"^(?!a)"}"#,
    r#"{"pattern":"(?=b).c?$"}"#,
    r#"{"not":{"pattern":"\\bb"}}"#,
    r#"{"patternProperties":{"^(?!a$).*$":{"type":"null"}}}"#,
    r#"{"format":"date"}"#,
    r#"{"format":"ipv4","type":"string"}"#,
    r#"{"format":"hostname"}"#,
    r#"{"format":"int32"}"#,
    r#"{"not":{"format":"hostname"}}"#,
    r#"{"not":{"format":"date"}}"#,
    r#"{"oneOf":[{"format":"hostname"},{"format":"ipv4"}]}"#,
    r#"{"oneOf":[{"format":"ipv4"},{"type":"string","pattern":"^[a2]"}]}"#,
    r#"{"anyOf":[{"format":"hostname","maxLength":2},{"format":"date-time"}]}"#,
    r#"{"format":"hostname","maxLength":255}"#,
    r#"{"minimum":1}"#,
    r#"{"maximum":1.5}"#,
    r#"{"exclusiveMinimum":1}"#,
    r#"{"exclusiveMaximum":10}"#,
    r#"{"multipleOf":5}"#,
    r#"{"type":"integer","minimum":-1,"maximum":7}"#,
    r#"{"multipleOf":0.5}"#,
    r#"{"type":"number","multipleOf":0.1}"#,
    r#"{"properties":{"a":{"type":"integer"}}}"#,
    r#"{"properties":{"a":true,"b":{"type":"string"}},"required":["a"]}"#,
    r#"{"required":["a","b"]}"#,
    r#"{"properties":{"a":{},"b":{}},"additionalProperties":false}"#,
    r#"{"properties":{"a":{}},"additionalProperties":{"type":"string"}}"#,
    r#"{"additionalProperties":{"type":"integer"}}"#,
    r#"{"properties":{"a":false}}"#,
    r#"{"properties":{"a":false},"required":["a"]}"#,
    r#"{"patternProperties":{"^a":{"type":"integer"}}}"#,
    r#"{"patternProperties":{"^a":{"type":"integer"},"b$":{"type":"string"}}}"#,
    r#"{"patternProperties":{"^a":{}},"additionalProperties":false}"#,
    r#"{"propertyNames":{"maxLength":1}}"#,
    r#"{"propertyNames":{"enum":["a","b"]},"properties":{"a":{},"c":{}}}"#,
    r#"{"propertyNames":false}"#,
    r#"{"minProperties":1}"#,
    r#"{"maxProperties":1}"#,
    r#"{"maxProperties":0}"#,
    r#"{"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"minProperties":2,"maxProperties":2}"#,
    r#"{"properties":{"a":{}},"maxProperties":1}"#,
    r#"{"items":{"type":"integer"}}"#,
    r#"{"prefixItems":[{"type":"integer"},{"type":"string"}]}"#,
    r#"{"prefixItems":[{"type":"integer"}],"items":false}"#,
    r#"{"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}"#,
    r#"{"minItems":1}"#,
    r#"{"maxItems":1}"#,
    r#"{"items":{"type":"integer"},"minItems":2,"maxItems":2}"#,
    r#"{"maxItems":0}"#,
    r#"{"prefixItems":[{},{},false]}"#,
    r#"{"prefixItems":[{},{}],"minItems":2}"#,
    r#"{"uniqueItems":false}"#,
    r#"{"prefixItems":[{},{},{}],"maxItems":2,"minItems":1}"#,
    r#"{"allOf":[{"minimum":1},{"maximum":5}]}"#,
    r#"{"allOf":[{"type":"string"},{"minLength":2},{"pattern":"c"}]}"#,
    r#"{"allOf":[{"properties":{"a":{"type":"integer"}}},{"required":["b"],"properties":{"b":{"type":"integer"}}}]}"#,
    r#"{"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"a":{},"b":{}}}]}"#,
    r#"{"anyOf":[{"type":"string"},{"minimum":5}]}"#,
    r#"{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
    r#"{"oneOf":[{"type":"integer"},{"minimum":2}]}"#,
    r#"{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}"#,
    r#"{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"v":{"type":"integer"}},"required":["kind"]},
      {"type":"object","properties":{"kind":{"const":"b"},"v":{"type":"string"}},"required":["kind"]}]}"#,
    r#"{"oneOf":[{"pattern":"^a"},{"pattern":"b"},{"maxLength":1}]}"#,
    r#"{"not":{"type":"string"}}"#,
    r#"{"not":{"enum":[1,"a",null]}}"#,
    r#"{"not":{"required":["a"]}}"#,
    r#"{"not":{"minLength":2}}"#,
    r#"{"not":{"type":"integer"},"type":"number"}"#,
    r#"{"not":{"not":{"type":"array","minItems":2}}}"#,
    r#"{"not":{}}"#,
    r#"{"not":{"anyOf":[{"type":"object"},{"maximum":4}]}}"#,
    r#"{"not":{"oneOf":[{"minimum":2},{"type":"integer"}]}}"#,
    r#"{"not":{"properties":{"a":{"type":"integer"}}}}"#,
    r#"{"not":{"maxItems":1}}"#,
    r#"{"not":{"multipleOf":5}}"#,
    r#"{"not":{"pattern":"b"}}"#,
    r#"{"type":"object","not":{"minProperties":2}}"#,
    r#"{"if":{"type":"integer"},"then":{"minimum":2},"else":{"minLength":2}}"#,
    r#"{"if":{"type":"string"},"then":{"format":"date"}}"#,
    r#"{"if":{"required":["a"]},"then":{"required":["b"]}}"#,
    r#"{"if":true,"else":false}"#,
    r#"{"then":false}"#,
    r#"{"not":{"if":{"minimum":2},"then":{"maximum":5}}}"#,
    r##"{"$ref":"#/$defs/x","minimum":2,"$defs":{"x":{"type":"integer"}}}"##,
    r##"{"$defs":{"x":{"$anchor":"n","type":"null"}},"items":{"$ref":"#n"}}"##,
    r##"{"type":["array","integer"],"items":{"$ref":"#"}}"##,
    r##"{"$defs":{"a/b":{"type":"string"}},"$ref":"#/$defs/a~1b"}"##,
    r##"{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}"##,
    r##"{"$defs":{"t":{"$id":"t.json","$defs":{"y":{"const":1}},"$ref":"#/$defs/y"}},"$ref":"#/$defs/t"}"##,
    r##"{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"x":{"type":"integer"}},"$ref":"#/definitions/x","minimum":5}"##,
    r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}],"additionalItems":{"type":"string"}}"##,
    r#"{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"x":{"required":["y"]}}}"#,
    r#"{"$schema":"http://json-schema.org/draft-04/schema#","minimum":2,"exclusiveMinimum":true,"const":1}"#,
    r#"{"$schema":"http://json-schema.org/draft-04/schema#","maximum":2,"exclusiveMaximum":false}"#,
    r#"{"dependentRequired":{"a":["b"]}}"#,
    r#"{"dependentSchemas":{"a":{"maxProperties":1}}}"#,
    r#"{"not":{"dependentRequired":{"a":["b"]}}}"#,
    r#"{"enum":[{"a":1},[1,2],[1],{"b":1},1],"required":["a"],"minItems":2}"#,
    r#"{"const":{"a":{"a":1}},"properties":{"a":{"properties":{"a":{"type":"string"}}}}}"#,
    r#"{"maxLength":1500,"minLength":2}"#,
    r#"{"type":"string","minLength":1001}"#,
    r#"{"format":"email"}"#,
    r#"{"unknown":1,"title":"t","minContains":3}"#,
    r#"{"type":"string","uniqueItems":true,"items":false}"#,
    r#"{"unevaluatedProperties":true}"#,
    // Items are counted.
    r#"{"contains":{"type":"string"}}"#,
    r#"{"contains":{}}"#,
    r#"{"contains":false}"#,
    r#"{"contains":{"const":1},"minContains":2}"#,
    r#"{"contains":{"const":1},"minContains":0}"#,
    r#"{"contains":{"const":1},"minContains":0,"maxContains":1}"#,
    r#"{"contains":{"type":"integer"},"minContains":1,"maxContains":2,"items":{"maximum":2}}"#,
    r#"{"contains":{"type":"integer"},"maxContains":1,"minItems":2}"#,
    r#"{"contains":{"minimum":2},"maxItems":2,"prefixItems":[{"type":"integer"}]}"#,
    r#"{"not":{"contains":{"type":"integer"}}}"#,
    r#"{"not":{"contains":{"type":"integer"},"minContains":2,"maxContains":2}}"#,
    r#"{"allOf":[{"contains":{"const":1}},{"contains":{"const":2}}]}"#,
    r#"{"allOf":[{"contains":{"const":1}},{"not":{"contains":{"const":2}}}]}"#,
    r#"{"$schema":"http://json-schema.org/draft-07/schema#","contains":{"type":"integer"},"minContains":2}"#,
    // Items are compared.
    r#"{"uniqueItems":true,"items":{"enum":[1,2,"a"]}}"#,
    r#"{"uniqueItems":true,"items":{"type":"integer","minimum":1,"maximum":3}}"#,
    r#"{"uniqueItems":true,"items":{"enum":[1,2,[1],[2]]},"minItems":2}"#,
    r#"{"uniqueItems":true,"maxItems":1}"#,
    r#"{"uniqueItems":true,"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false}"#,
    r#"{"uniqueItems":true,"items":{"type":["boolean","null"]},"contains":{"type":"null"}}"#,
    r#"{"not":{"uniqueItems":true,"items":{"enum":[1,2,3]}},"items":{"enum":[1,2,3]}}"#,
    r#"{"uniqueItems":true,"items":{"enum":[1,1.0,2]},"maxItems":2}"#,
    r#"{"if":{"items":{"type":"null"},"uniqueItems":true},"then":{"type":"null"},"else":{"items":{"enum":[null]},"uniqueItems":true}}"#,
    // Some member or item breaks a schema.
    r#"{"not":{"items":{"type":"integer"}}}"#,
    r#"{"not":{"items":false}}"#,
    r#"{"not":{"prefixItems":[{"type":"integer"},{"const":1}],"items":{"type":"integer"}}}"#,
    r#"{"not":{"prefixItems":[{"type":"integer"}]},"maxItems":1}"#,
    r#"{"not":{"additionalProperties":false}}"#,
    r#"{"not":{"additionalProperties":{"type":"integer"}}}"#,
    r#"{"not":{"properties":{"a":{}},"additionalProperties":false}}"#,
    r#"{"not":{"properties":{"a":{"type":"integer"},"b":true},"additionalProperties":{"type":"integer"}},"properties":{"c":{}}}"#,
    r#"{"not":{"patternProperties":{"^a":{"type":"integer"}}}}"#,
    r#"{"not":{"patternProperties":{"^a":{"type":"integer"},"b$":false},"additionalProperties":{"type":"null"}}}"#,
    r#"{"not":{"propertyNames":{"maxLength":1}}}"#,
    r#"{"not":{"propertyNames":{"enum":["a","b"]}},"maxProperties":2}"#,
    r#"{"properties":{"a":{}},"not":{"additionalProperties":false},"maxProperties":1}"#,
    r#"{"properties":{"a":{}},"required":["a"],"not":{"propertyNames":{"const":"b"}},"additionalProperties":false}"#,
    r#"{"oneOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}},"additionalProperties":false}]}"#,
    r#"{"oneOf":[{"properties":{"a":{"type":"integer"}}},{"additionalProperties":{"type":"string"}}]}"#,
    r#"{"oneOf":[{"items":{"type":"integer"}},{"items":{"type":"string"}}]}"#,
    r#"{"if":{"items":{"type":"integer"}},"then":{"maxItems":2},"else":{"maxItems":1}}"#,
    r#"{"not":{"const":[]}}"#,
    r#"{"not":{"const":{"a":1}}}"#,
    r#"{"not":{"enum":[{"a":{"a":1}},[1,2],[],{},1]}}"#,
    r#"{"not":{"const":[[1],[2]]},"type":"array"}"#,
    // Evaluated members and items of branches.
    r#"{"properties":{"a":{}},"unevaluatedProperties":false}"#,
    r#"{"allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false}"#,
    r#"{"anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{}},"required":["b"]},{"maxProperties":1}],"unevaluatedProperties":false}"#,
    r#"{"oneOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}],"unevaluatedProperties":false}"#,
    r#"{"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":{}}},"else":{"properties":{"c":{}}},"unevaluatedProperties":false}"#,
    r#"{"dependentSchemas":{"a":{"properties":{"b":{}}}},"properties":{"a":{}},"unevaluatedProperties":false}"#,
    r##"{"$defs":{"x":{"properties":{"a":{}}}},"$ref":"#/$defs/x","unevaluatedProperties":{"type":"integer"}}"##,
    r#"{"allOf":[{"unevaluatedProperties":{"type":"integer"}}],"unevaluatedProperties":false}"#,
    r#"{"allOf":[{"properties":{"a":{}}},{"unevaluatedProperties":false}]}"#,
    r#"{"not":{"properties":{"a":{}}},"unevaluatedProperties":false}"#,
    r#"{"patternProperties":{"^a":{}},"unevaluatedProperties":false}"#,
    r#"{"not":{"properties":{"a":{}},"unevaluatedProperties":{"type":"integer"}}}"#,
    r#"{"not":{"anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{}],"unevaluatedProperties":false}}"#,
    r#"{"unevaluatedItems":false}"#,
    r#"{"unevaluatedItems":{"type":"null"}}"#,
    r#"{"prefixItems":[{"type":"integer"}],"unevaluatedItems":false}"#,
    r#"{"anyOf":[{"prefixItems":[{"const":1}]},{"prefixItems":[true,{"const":2}]}],"unevaluatedItems":false}"#,
    r#"{"allOf":[{"items":{"type":"integer"}}],"unevaluatedItems":false}"#,
    r#"{"contains":{"type":"integer"},"unevaluatedItems":{"type":"string"}}"#,
    r#"{"prefixItems":[{}],"contains":{"const":2},"minContains":0,"unevaluatedItems":false}"#,
    r#"{"not":{"prefixItems":[{"type":"integer"}],"unevaluatedItems":false}}"#,
    r#"{"not":{"contains":{"const":1},"minContains":0,"unevaluatedItems":false}}"#,
    r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"integer"}],"unevaluatedItems":{"type":"string"}}"#,
    // References with the same target on every path.
    r##"{"$id":"http://example.org/tree","$dynamicAnchor":"t","type":["integer","array"],"items":{"$dynamicRef":"#t"}}"##,
    r##"{"$defs":{"x":{"$dynamicAnchor":"n","type":"null"}},"items":{"$dynamicRef":"#n"}}"##,
    r##"{"$defs":{"x":{"$anchor":"n","type":"null"}},"items":{"$dynamicRef":"#n"}}"##,
    r##"{"$id":"http://example.org/strict","$dynamicAnchor":"node","$ref":"tree","type":["integer","array"],
      "$defs":{"t":{"$id":"tree","$dynamicAnchor":"node","items":{"$dynamicRef":"#node"}}}}"##,
    r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"type":["integer","array"],"items":{"$recursiveRef":"#"}}"##,
    r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","type":["integer","array"],"items":{"$recursiveRef":"#"}}"##,
];

/// Instances that are valid and that outputs spell or order differently.
fn other_spelling(instance: &str) -> bool {
    instance == "1e2"
}

#[test]
fn what_is_accepted_is_what_the_judge_finds_valid() {
    let bytes = Bytes::new();
    for schema in ENFORCED {
        let compiled =
            bytes.compile(schema, Whitespace::Compact).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let mut valid = 0;
        for instance in INSTANCES {
            let expected = judged(schema, instance).unwrap();
            valid += usize::from(expected);
            let accepted = compiled.accepts(instance);
            assert!(
                accepted == expected || (expected && other_spelling(instance)),
                "{schema} {instance}: {accepted}, judged {expected}"
            );
        }
        assert!(valid < INSTANCES.len() || schema.len() < 70, "{schema}");
    }
}

#[test]
fn what_is_not_enforced_is_refused_by_name_and_place() {
    for (schema, pointer, keyword) in [
        (r#"{"uniqueItems":true}"#, "#", "uniqueItems"),
        (r#"{"items":{"uniqueItems":true,"items":{"type":"array"}}}"#, "#/items", "uniqueItems"),
        (r#"{"not":{"uniqueItems":true},"items":{"type":"string"}}"#, "#/not", "uniqueItems"),
        (
            r#"{"not":{"contains":{"const":1},"unevaluatedItems":{"type":"null"}}}"#,
            "#/not",
            "unevaluatedItems",
        ),
        (
            r##"{"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{}]}},"$ref":"#/$defs/x","unevaluatedItems":false}"##,
            "#",
            "unevaluatedItems",
        ),
        (
            r#"{"properties":{"a/b":{"format":"hostname","const":"xn--bcher-kva"}}}"#,
            "#/properties/a~1b",
            "format",
        ),
        (r#"{"not":{"format":"regex"}}"#, "#/not", "format"),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","not":{"format":"uuid"}}"#,
            "#/not",
            "format",
        ),
        (r#"{"pattern":"(?<=a)b"}"#, "#", "pattern"),
        (r#"{"patternProperties":{"(x)\\1":{}}}"#, "#", "patternProperties"),
        (r#"{"$ref":"https://example.org/x"}"#, "#", "$ref"),
        (r##"{"$ref":"#/$defs/x"}"##, "#", "$ref"),
        (r##"{"$dynamicRef":"#x"}"##, "#", "$dynamicRef"),
        (r#"{"multipleOf":0.000001234567}"#, "#", "multipleOf"),
        (r#"{"$schema":"http://example.org/mine"}"#, "#", "$schema"),
        // Values that a keyword forbids.
        (r#"{"items":[{}]}"#, "#", "items"),
        (r#"{"type":"int"}"#, "#", "type"),
        (r#"{"type":[]}"#, "#", "type"),
        (r#"{"minLength":-1}"#, "#", "minLength"),
        (r#"{"required":true}"#, "#", "required"),
        (r#"{"properties":{"a":1}}"#, "#/properties/a", "a"),
        (r#"{"exclusiveMinimum":true}"#, "#", "exclusiveMinimum"),
        (r#"{"allOf":[]}"#, "#", "allOf"),
        (r#"{"multipleOf":0}"#, "#", "multipleOf"),
    ] {
        let error = grammar(schema, &SchemaOptions::default(), &SchemaLimits::default()).unwrap_err();
        assert_eq!((error.pointer(), error.keyword()), (Some(pointer), Some(keyword)), "{schema}: {error}");
        let fates = explain(schema, &SchemaOptions::default(), &SchemaLimits::default());
        let rejected = |one: &unskew_schema::KeywordFate| {
            one.fate == Fate::Rejected && one.pointer == pointer && one.keyword == keyword
        };
        assert!(fates.iter().any(rejected), "{schema}: {fates:?}");
    }
}

#[test]
fn names_and_duplicates() {
    let bytes = Bytes::new();
    let schema = r#"{"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}}"#;
    let compiled = bytes.compile(schema, Whitespace::Compact).unwrap();
    for (text, accepted) in [
        (r#"{"a":1,"b":"x"}"#, true),
        // Another spelling of a declared name is still the declared name.
        (r#"{"a":1,"a":"x"}"#, false),
        (r#"{"\u0061":"x"}"#, false),
        (r#"{"a":1,"\u0061":"x"}"#, false),
        // Names have one spelling, so that equal names have equal texts.
        (r#"{"\u0062":"x"}"#, false),
        (r#"{"\u00e9":"x"}"#, false),
        (r#"{"é":"x","\u000b":"y"}"#, true),
        (r#"{"é":"x","\u000B":"y"}"#, false),
        // No other name occurs twice.
        (r#"{"b":"x","c":"x","bc":"x"}"#, true),
        (r#"{"b":"x","c":"x","b":"y"}"#, false),
        (r#"{"é":"x","é":"x"}"#, false),
        (r#"{"":"x","":"x"}"#, false),
        (r#"{"a":1,}"#, false),
        (r#"{,"a":1}"#, false),
        (r#"{"a":1"b":"x"}"#, false),
    ] {
        assert_eq!(compiled.accepts(text), accepted, "{text}");
    }
}

/// Conditions that need memory: the names of an object and the items of an array.
#[test]
fn what_comes_once_is_remembered() {
    let bytes = Bytes::new();
    for (schema, yes, no) in [
        (
            r#"{"uniqueItems":true,"items":{"type":"string"}}"#,
            &["[]", r#"["a","b","ab","",")","é","\n"]"#][..],
            &[r#"["a","b","a"]"#, r#"["a","\u0061"]"#, r#"["é","\u00e9"]"#, "[1]"][..],
        ),
        (
            r#"{"uniqueItems":true,"items":{"type":"number"},"minItems":2}"#,
            &["[1,10,1.5,-1]", "[0,100]"],
            &["[1,2,1]", "[1,1.0]", "[0,-0]", "[100,1e2]", "[1]", "[0.5,0.50]"],
        ),
        (
            r#"{"uniqueItems":true,"items":{"type":["string","number","null","boolean"]},"maxItems":4}"#,
            &[r#"["1",1,true,null]"#, "[false,true]"],
            &["[true,1,true]", "[null,null]", "[1,2,3,4,5]"],
        ),
        (
            r#"{"uniqueItems":true,"items":{"type":["string","integer"]},"contains":{"type":"integer"},"maxContains":1}"#,
            &[r#"["a",1,"b"]"#, "[1]"],
            &[r#"["a",1,"a"]"#, "[1,2]", r#"["a"]"#],
        ),
        (
            r#"{"items":{"uniqueItems":true,"items":{"type":"string"}}}"#,
            &[r#"[["a"],["a","b"],["a"]]"#],
            &[r#"[["a"],["a","a"]]"#],
        ),
        (
            r#"{"uniqueItems":true,"items":{"pattern":"^[a-z]{2}$","type":"string"},"minItems":3}"#,
            &[r#"["aa","ab","zz"]"#],
            &[r#"["aa","ab","aa"]"#, r#"["aa","ab"]"#],
        ),
        (
            r#"{"minProperties":3}"#,
            &[r#"{"a":1,"b":2,"c":{"a":1,"b":1,"c":1}}"#, "1"],
            &[r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2,"a":3}"#],
        ),
        (
            r#"{"properties":{"b":{}},"patternProperties":{"^[0-9]{4}$":{"type":"integer"}},"additionalProperties":false}"#,
            &[r#"{"b":0,"1111":1,"1112":2,"0111":3}"#, r#"{"1111":1}"#],
            &[r#"{"1111":1,"1112":2,"1111":1}"#, r#"{"11111":1}"#],
        ),
        (
            r#"{"patternProperties":{"^[0-9]$":{"type":"integer"}},"additionalProperties":false,"minProperties":2}"#,
            &[r#"{"1":1,"3":2}"#, r#"{"0":0,"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9}"#],
            &[r#"{"1":1}"#, r#"{"1":1,"1":1}"#],
        ),
        (
            r#"{"propertyNames":{"maxLength":1},"maxProperties":3}"#,
            &[r#"{"é":1,"a":2,"":3}"#],
            &[r#"{"é":1,"é":2}"#, r#"{"ab":1}"#, r#"{"a":1,"b":2,"c":3,"d":4}"#],
        ),
        (
            r#"{"type":"object","not":{"additionalProperties":{"type":"string"}}}"#,
            &[r#"{"a":"x","b":1}"#, r#"{"b":1,"c":"x"}"#],
            &[r#"{"a":1,"a":"x"}"#, r#"{"a":"x"}"#],
        ),
        (
            r#"{"type":"object","patternProperties":{"^a":{}},"not":{"additionalProperties":{"type":"string"}}}"#,
            &[r#"{"ab":"x","b":1}"#],
            &[r#"{"b":1,"b":"x"}"#, r#"{"ab":"x"}"#, r#"{"ab":1,"ab":2,"b":1}"#],
        ),
        (
            r#"{"anyOf":[{"required":["b"],"additionalProperties":{"type":"string"}},{"additionalProperties":{"type":"integer"}}]}"#,
            &[r#"{"b":"x","a":"y"}"#, r#"{"a":1,"b":2}"#],
            &[r#"{"b":"x","b":"y"}"#, r#"{"a":1,"a":2}"#, r#"{"b":"x","a":"y","a":"z"}"#],
        ),
    ] {
        for order in [MemberOrder::Declared, MemberOrder::Any] {
            let mut options = SchemaOptions::default();
            (options.order, options.whitespace) = (order, Whitespace::Compact);
            let compiled =
                bytes.compile_with(schema, &options).unwrap_or_else(|error| panic!("{schema}: {error}"));
            for (texts, accepted) in [(yes, true), (no, false)] {
                for text in texts {
                    assert_eq!(compiled.accepts(text), accepted, "{schema} {text} {order:?}");
                }
            }
        }
    }
}

#[test]
fn white_space_is_that_of_the_policy() {
    let bytes = Bytes::new();
    let schema = r#"{"properties":{"a":{"items":{"type":"integer"}}}}"#;
    for (text, compact, two) in [
        (r#"{"a":[1,2],"b":{}}"#, true, true),
        ("{ \"a\" : [ 1 , 2 ] , \"b\" : { } }", false, true),
        ("{\n\t\"a\":[1,  2]}", false, true),
        ("{\"a\":   [1]}", false, false),
        (" {}", false, false),
        ("{}\n", false, false),
        ("{\"a\":[ 1, 2 ]\r\n}", false, true),
    ] {
        for (policy, expected) in [(Whitespace::Compact, compact), (Whitespace::Bounded(2), two)] {
            assert_eq!(bytes.compile(schema, policy).unwrap().accepts(text), expected, "{text:?} {policy:?}");
        }
    }
    let flexible = bytes.compile(schema, "flexible".parse().unwrap()).unwrap();
    assert!(flexible.accepts(&format!("{{{}}}", " ".repeat(100))));
    assert_eq!("bounded:3".parse(), Ok(Whitespace::Bounded(3)));
    assert_eq!("indent:2".parse(), Ok(Whitespace::Indent(2)));
    for wrong in ["bounded:", "indent", "indent:1000", "indent:-1", "compact:2"] {
        assert!(wrong.parse::<Whitespace>().is_err(), "{wrong}");
    }
}

/// The text that `serde_json` writes.
fn pretty(instance: &str, blanks: usize) -> String {
    let value: Box<serde_json::value::RawValue> = serde_json::from_str(instance).unwrap();
    let mut bytes = vec![];
    let indent = " ".repeat(blanks);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // The value may reorder members; the instances here have at most three, in sorted order.
    let value: serde_json::Value = serde_json::from_str(value.get()).unwrap();
    serde::Serialize::serialize(&value, &mut serializer).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn indented_output_is_what_serde_json_writes() {
    let bytes = Bytes::new();
    for schema in ENFORCED {
        let compact = bytes.compile(schema, Whitespace::Compact).unwrap();
        for blanks in [0, 2] {
            let indented = bytes.compile(schema, Whitespace::Indent(blanks)).unwrap();
            for instance in INSTANCES {
                let text = pretty(instance, blanks as usize);
                // The value in its written form: `1.0`, `\\u00e9` and similar spellings come back in one spelling.
                let one_line = serde_json::from_str::<serde_json::Value>(instance).unwrap().to_string();
                assert_eq!(indented.accepts(&text), compact.accepts(&one_line), "{schema} {text}");
                if text != one_line {
                    assert!(!indented.accepts(&one_line) && !compact.accepts(&text), "{schema} {text}");
                }
            }
        }
    }
}

#[test]
fn indented_output_ends_at_a_level() {
    let bytes = Bytes::new();
    let compiled = bytes.compile(r#"{"type":"array"}"#, Whitespace::Indent(1)).unwrap();
    for (depth, accepted) in [(1, true), (21, true), (22, false)] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(compiled.accepts(&pretty(&text, 1)), accepted, "{depth}");
    }
}

#[test]
fn ascii_alone() {
    let mut options = SchemaOptions::default();
    (options.ascii, options.whitespace) = (true, Whitespace::Compact);
    let schema = r#"{"properties":{"é😀":{"maxLength":2000},"b":{"enum":["ü"]}},"additionalProperties":{"maxLength":1}}"#;
    let ascii = Bytes::new().compile_with(schema, &options).unwrap();
    let both = Bytes::new().compile(schema, Whitespace::Compact).unwrap();
    for (text, in_ascii) in [
        (r#"{"é😀":"é"}"#, false),
        (r#"{"\u00e9\ud83d\ude00":"\u00E9\n"}"#, true),
        (r#"{"\u00e9\ud83d\ude00":"é"}"#, false),
        (r#"{"b":"\u00fc"}"#, true),
        (r#"{"b":"ü"}"#, false),
        (r#"{"c":"\ud83d\ude00"}"#, true),
        (r#"{"c":"😀"}"#, false),
        (r#"{"\u00fc":"a"}"#, true),
        (r#"{"ü":"a"}"#, false),
    ] {
        assert_eq!(ascii.accepts(text), in_ascii, "{text}");
        // Names have one spelling under each option.
        assert_eq!(both.accepts(text), !text.contains(r#"ude00":"#) && !text.contains(r#"fc":"#), "{text}");
    }
}

#[test]
fn hostile_schemas_end_in_an_answer_or_a_limit() {
    let nested = |depth: usize| format!("{}true{}", r#"{"items":"#.repeat(depth), "}".repeat(depth));
    let names = (0..10_000).map(|name| format!(r#""k{name}":{{}}"#)).collect::<Vec<_>>().join(",");
    let closed = (0..40)
        .map(|name| format!(r#"{{"properties":{{"a{name}":{{}},"b":{{}}}},"additionalProperties":{{"maxLength":{name}}}}}"#))
        .collect::<Vec<_>>()
        .join(",");
    let values = (0..1_000).map(|value| format!("{{\"a\":[{value}]}}")).collect::<Vec<_>>().join(",");
    let chain = (0..200)
        .map(|link| {
            format!(
                r##""d{link}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##,
                link + 1
            )
        })
        .collect::<Vec<_>>()
        .join(",");
    let one_of = (0..20).fold("{\"minimum\":1}".to_owned(), |inner, number| {
        format!(r#"{{"oneOf":[{inner},{{"multipleOf":{}}},{{"maxLength":{number}}}]}}"#, number + 2)
    });
    for schema in [
        nested(10_000),
        nested(900),
        format!(r#"{{"properties":{{{names}}}}}"#),
        r#"{"maxLength":1000000}"#.to_owned(),
        r#"{"minItems":1000000}"#.to_owned(),
        r#"{"pattern":"(a|b)*a(a|b){30}"}"#.to_owned(),
        r#"{"pattern":"((((a{100}){100}){100}){100})"}"#.to_owned(),
        one_of,
        format!(r#"{{"oneOf":[{closed}]}}"#),
        format!(r#"{{"not":{{"anyOf":[{closed}]}}}}"#),
        format!(r#"{{"anyOf":[{closed}],"unevaluatedProperties":{{"minLength":3}},"type":"object"}}"#),
        format!(r#"{{"not":{{"enum":[{values}]}}}}"#),
        format!(r#"{{"uniqueItems":true,"items":{{"enum":[{values}]}},"maxItems":3}}"#),
        format!(r##"{{"$defs":{{{chain},"d200":{{}}}},"$ref":"#/$defs/d0","unevaluatedItems":false}}"##),
        r#"{"contains":{"minimum":2},"minContains":1000000}"#.to_owned(),
        r#"{"contains":{"minimum":2},"minContains":3000,"minItems":3000}"#.to_owned(),
        r#"{"items":{"minimum":0,"maximum":20,"multipleOf":1},"uniqueItems":true}"#.to_owned(),
        r##"{"$ref":"#"}"##.to_owned(),
        r##"{"allOf":[{"$ref":"#"}],"not":{"$ref":"#"}}"##.to_owned(),
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##.to_owned(),
        r##"{"oneOf":[{"$ref":"#"},{"oneOf":[{"$ref":"#"},{"type":"null"}]}]}"##.to_owned(),
    ] {
        let begin = std::time::Instant::now();
        let made = grammar(&schema, &SchemaOptions::default(), &SchemaLimits::default());
        // About a second on an idle machine.
        assert!(begin.elapsed().as_secs() < 30, "{}: {:?}", &schema[..60.min(schema.len())], begin.elapsed());
        assert!(
            matches!(
                made,
                Ok(_)
                    | Err(SchemaError::Limit { .. }
                        | SchemaError::Automaton { .. }
                        | SchemaError::Unsupported { .. }
                        | SchemaError::Unsatisfiable
                        | SchemaError::Grammar(_))
            ),
            "{}: {made:?}",
            &schema[..60.min(schema.len())]
        );
    }
}
