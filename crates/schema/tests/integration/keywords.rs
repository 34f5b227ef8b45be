//! Each keyword at each position: outputs agree with `jsonschema`, and keywords that are not enforced are refused
//! by name.

mod cases;

use crate::common::{Bytes, judged};
use cases::{ENFORCED, INSTANCES};
use unskew_grammar::Fate;
use unskew_schema::{MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

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
        (r#"{"pattern":"(?<=a(?=b))b"}"#, "#", "pattern"),
        (r#"{"patternProperties":{"(x)\\1":{}}}"#, "#", "patternProperties"),
        (r#"{"$ref":"https://example.org/x"}"#, "#", "$ref"),
        (r##"{"$ref":"#/$defs/x"}"##, "#", "$ref"),
        (r##"{"$dynamicRef":"#x"}"##, "#", "$dynamicRef"),
        (r#"{"multipleOf":0.000001234567}"#, "#", "multipleOf"),
        (r#"{"$schema":"http://example.org/mine"}"#, "#", "$schema"),
        // Values that a keyword forbids.
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
            r#"{"uniqueItems":true,"items":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b"]}}"#,
            &[r#"[{"b":"x","a":1},{"b":"x"},{"b":"x","a":2},{"b":"","a":1}]"#, "[]"],
            &[
                r#"[{"b":"x","a":1},{"b":"y"},{"b":"x","a":1}]"#,
                r#"[{"b":"x","a":1},{"a":1,"b":"x"}]"#,
                r#"[{"b":"x","a":1},{"b":"x","a":1.0}]"#,
                r#"[{"b":"x"},{"b":"\u0078"}]"#,
                r#"[{"a":1}]"#,
            ],
        ),
        (
            // Two schemas with other orders of the same members write one.
            r#"{"uniqueItems":true,"items":{"anyOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}},{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{"type":"string"}}}]}}"#,
            &[r#"[{"a":"x","b":"y"},{"b":"y"},{"a":"x"}]"#],
            &[r#"[{"a":"x","b":"y"},{"b":"y","a":"x"}]"#, r#"[{"b":"y","a":"x"}]"#],
        ),
        (
            r#"{"uniqueItems":true,"items":{"type":"array","items":{"type":["integer","null"]},"minItems":1}}"#,
            &["[[1],[1,1],[null],[12,3],[1,23]]"],
            &["[[1],[2],[1]]", "[[]]", "[[1.0]]"],
        ),
        (
            r#"{"uniqueItems":true,"items":{"type":"object","required":["k","v"],"properties":{"k":{"type":"array","minItems":1,"uniqueItems":true,"items":{"type":"string"}},"v":{"type":"object","properties":{"w":{"type":"boolean"}}}}}}"#,
            &[r#"[{"k":["a"],"v":{"w":true}},{"k":["b"],"v":{"w":true}},{"k":["a"],"v":{}}]"#],
            &[r#"[{"k":["a"],"v":{}},{"k":["a"],"v":{}}]"#, r#"[{"k":["a","a"],"v":{}}]"#],
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
                        | SchemaError::Unsatisfiable { .. }
                        | SchemaError::Grammar(_))
            ),
            "{}: {made:?}",
            &schema[..60.min(schema.len())]
        );
    }
}
