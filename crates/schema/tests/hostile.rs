//! Hostile schemas: each is compiled or refused in little time and memory, and every compiled schema gives a mask.
//!
//! Memory is always asserted, and time in release builds. Time is processor time where the system reports it, so
//! that other work on the machine does not count. A debug build takes smaller schemas.

#![allow(clippy::print_stderr, reason = "what was measured")]

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use peak_alloc::PeakAlloc;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammars::GrammarConstraint;
use unskew_schema::{SchemaLimits, SchemaOptions, grammar};
use unskew_trie::TokenTrie;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// A second, plus half a second for a machine with caches that other work shares.
const TIME: Duration = Duration::from_millis(1_500);

/// The peak belongs to the process, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The processor time of this thread; the wall time on systems other than Linux.
fn processor_time(begin: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|spent| spent.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// `full` in a release build, and a tenth of it in others, which are twenty times as slow.
const fn size(full: usize) -> usize {
    if cfg!(debug_assertions) { full / 10 } else { full }
}

/// Compiles the schema and walks `text` with a mask at each byte. Returns the error, or whether the text is
/// accepted.
#[track_caller]
fn answer(name: &str, schema: &str, text: &str) -> Result<bool, String> {
    answer_within(256 * MIB, name, schema, text)
}

/// As [`answer`], with a limit on memory in bytes.
#[track_caller]
fn answer_within(most: usize, name: &str, schema: &str, text: &str) -> Result<bool, String> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());

    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Instant::now();
    let begin = processor_time(start);
    let outcome = compile_and_walk(schema, text, trie);
    let time = processor_time(start) - begin;
    let bytes = ALLOCATOR.peak_usage() - before;
    eprintln!(
        "{name}: {:.1} MiB, {:.0} ms, {}",
        bytes as f64 / MIB as f64,
        time.as_secs_f64() * 1e3,
        match &outcome {
            Ok(accepted) => format!("accepted: {accepted}"),
            Err(error) => error.chars().take(110).collect(),
        }
    );
    assert!(bytes < most, "{name}: {bytes} bytes");
    assert!(cfg!(debug_assertions) || time < TIME, "{name}: {time:?}");
    outcome
}

fn compile_and_walk(schema: &str, text: &str, trie: Arc<TokenTrie>) -> Result<bool, String> {
    let limits = SchemaLimits::default();
    let made = grammar(schema, &SchemaOptions::default(), &limits).map_err(|error| error.to_string())?;
    let constraint = GrammarConstraint::new(&made, trie, &limits.grammar);
    let constraint = constraint.map_err(|error| error.to_string())?;
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    for byte in text.bytes() {
        let token = TokenId(u32::from(byte));
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let allowed = mask.contains(token);
        assert_eq!(constraint.advance(&mut scratch, &mut state, token).is_ok(), allowed);
        if !allowed {
            return Ok(false);
        }
    }
    Ok(constraint.is_accepting(&state))
}

/// Asserts that the error names a limit and its field.
#[track_caller]
fn limit(outcome: Result<bool, String>, field: &str) {
    let error = outcome.unwrap_err();
    assert!(error.contains(field), "{error}");
}

/// `count` parts, joined by commas.
fn listed(count: usize, mut part: impl FnMut(usize) -> String) -> String {
    let mut out = String::new();
    for index in 0..count {
        if index > 0 {
            out.push(',');
        }
        out += &part(index);
    }
    out
}

#[test]
fn nesting() {
    let _alone = alone();
    for depth in [900, 10_000] {
        let half = depth / 2;
        for (name, open, core, close) in [
            ("arrays", r#"{"items":"#, "{}", "}"),
            ("objects", r#"{"properties":{"a":"#, "true", "}}"),
            ("not", r#"{"not":"#, r#"{"type":"string"}"#, "}"),
            ("allOf", r#"{"allOf":["#, r#"{"maxLength":3}"#, "]}"),
            ("anyOf", r#"{"anyOf":[{"type":"null"},"#, r#"{"maxLength":3}"#, "]}"),
            ("oneOf", r#"{"oneOf":["#, r#"{"type":"string"}"#, "]}"),
            ("if", r#"{"if":{"minLength":1},"then":"#, "true", "}"),
            ("required", r#"{"type":"object","required":["a"],"properties":{"a":"#, "true", "}}"),
            ("const", r#"{"const":"#, "[[[]]]", "}"),
            ("brackets", "[", "", "]"),
        ] {
            let times = if open.contains("{\"properties\":{") || open.contains('[') { half } else { depth };
            let schema = open.repeat(times) + core + &close.repeat(times);
            let _ = answer(&format!("{name} in {name}, {depth}"), &schema, "\"ab\"");
        }
        let value = format!(r#"{{"const":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let text = "[".repeat(depth) + &"]".repeat(depth);
        let outcome = answer(&format!("a constant of depth {depth}"), &value, &text);
        if depth < 1_000 {
            assert_eq!(outcome, Ok(true));
        } else {
            limit(outcome, "SchemaLimits::nest");
        }
    }
}

#[test]
fn references() {
    let _alone = alone();
    let count = size(10_000);
    let _ = answer("to itself", r##"{"$ref":"#"}"##, "1");
    let _ = answer("to itself under not", r##"{"not":{"$ref":"#"}}"##, "1");
    let pair = r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##;
    let _ = answer("each to the other", pair, "1");
    let ring = listed(count, |at| format!(r##""d{at}":{{"$ref":"#/$defs/d{}"}}"##, (at + 1) % count));
    let _ = answer("a ring", &format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{ring}}}}}"##), "1");
    let chain = listed(count, |at| format!(r##""d{at}":{{"$ref":"#/$defs/d{}"}}"##, at + 1));
    let schema = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{chain},"d{count}":{{"type":"null"}}}}}}"##);
    let _ = answer("a chain", &schema, "null");
    let lists =
        listed(count, |at| format!(r##""d{at}":{{"items":{{"$ref":"#/$defs/d{}"}}}}"##, (at + 1) % count));
    let schema = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{lists}}}}}"##);
    let _ = answer("a ring of lists", &schema, "[[[1]]]");
    // Each schema refers twice to the next one for the same value: 2^n readings, and n schemas.
    let pairs = listed(40, |at| {
        format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, at + 1)
    });
    let schema = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{pairs},"d40":{{"type":"null"}}}}}}"##);
    assert_eq!(answer("2^40 references", &schema, "null"), Ok(true));
    let halves = listed(40, |at| {
        format!(r##""d{at}":{{"anyOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, at + 1)
    });
    let schema = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{halves},"d40":{{"type":"null"}}}}}}"##);
    let _ = answer("2^40 alternatives", &schema, "null");
}

#[test]
fn many_properties() {
    let _alone = alone();
    let count = size(10_000);
    let members = listed(count, |at| format!(r#""name{at}":{{"type":"integer"}}"#));
    let names = listed(count, |at| format!("\"name{at}\""));
    let last = count - 1;
    let text = format!(r#"{{"name0": 1, "name{last}": 2}}"#);
    for (name, rest) in [
        ("open", String::new()),
        ("closed", r#","additionalProperties":false"#.to_owned()),
        ("counted", r#","additionalProperties":false,"minProperties":2,"maxProperties":5"#.to_owned()),
        ("counted far", format!(r#","additionalProperties":false,"minProperties":2,"maxProperties":{last}"#)),
        ("open and counted", r#","maxProperties":5"#.to_owned()),
        ("at least one", r#","minProperties":1"#.to_owned()),
        ("patterns", r#","patternProperties":{"^name1":{"minimum":1},"7$":{"maximum":5}}"#.to_owned()),
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{{members}}}{rest}}}"#);
        let outcome = answer(&format!("{count} properties, {name}"), &schema, &text);
        assert_ne!(outcome, Ok(false), "{name}");
    }
    let schema = format!(r#"{{"type":"object","properties":{{{members}}},"required":[{names}]}}"#);
    assert_ne!(answer("all required", &schema, "{\"name0\": 1"), Ok(true));
    let schema = format!(r#"{{"type":"object","required":[{names}]}}"#);
    let _ = answer("required, not declared", &schema, "{\"name0\": 1");
    let both = format!(r#"{{"properties":{{{members}}}}}"#);
    let _ = answer(
        "the same properties ten times",
        &format!(r#"{{"allOf":[{}]}}"#, listed(10, |_| both.clone())),
        &text,
    );
    let dependent = listed(count, |at| format!(r#""name{at}":["name{}"]"#, (at + 1) % count));
    let _ = answer("a ring of dependencies", &format!(r#"{{"dependentRequired":{{{dependent}}}}}"#), "{}");
    let dependent = listed(count, |at| format!(r#""name{at}":{{"required":["name{}"]}}"#, (at + 1) % count));
    let _ =
        answer("a ring of dependent schemas", &format!(r#"{{"dependentSchemas":{{{dependent}}}}}"#), "{}");
    let patterns = listed(size(1_000), |at| format!(r#""^p{at}":{{"minimum":{at}}}"#));
    let _ = answer("patterns of names", &format!(r#"{{"patternProperties":{{{patterns}}}}}"#), "{}");
}

#[test]
fn enumerations() {
    let _alone = alone();
    let count = size(100_000);
    let texts = listed(count, |at| format!("\"value number {at}\""));
    let last = format!("\"value number {}\"", count - 1);
    assert_ne!(answer("texts", &format!(r#"{{"enum":[{texts}]}}"#), &last), Ok(false));
    assert_ne!(
        answer("texts and a type", &format!(r#"{{"type":"string","enum":[{texts}]}}"#), &last),
        Ok(false)
    );
    let escaped = listed(count, |at| format!("\"\\u00e9 \\\"{at}\\\" \\ud83d\\ude00\""));
    let _ = answer("texts with escapes", &format!(r#"{{"enum":[{escaped}]}}"#), "\"\\u00e9");
    let numbers = listed(count, |at| at.to_string());
    let _ = answer("numbers", &format!(r#"{{"enum":[{numbers}]}}"#), "99");
    let mixed = listed(count / 100, |at| format!("{{\"a\":[{at},null,\"x{at}\"]}}"));
    let _ = answer("objects", &format!(r#"{{"enum":[{mixed}]}}"#), "{\"a\": [7, null, \"x7\"]}");
    let _ = answer(
        "none of the texts",
        &format!(r#"{{"type":"string","not":{{"enum":[{texts}]}}}}"#),
        "\"value number 0x\"",
    );
    let _ = answer(
        "texts and a pattern",
        &format!(r#"{{"enum":[{texts}],"pattern":"7$"}}"#),
        "\"value number 7\"",
    );
    let constants = listed(count / 10, |at| format!(r#"{{"const":"value {at}"}}"#));
    let _ = answer("anyOf constants", &format!(r#"{{"anyOf":[{constants}]}}"#), "\"value 7\"");
    let _ = answer("oneOf constants", &format!(r#"{{"oneOf":[{constants}]}}"#), "\"value 7\"");
    let twice = listed(count / 10, |at| format!("[{}]", at % 7));
    let _ = answer("the same again and again", &format!(r#"{{"enum":[{twice}]}}"#), "[3]");
    let property = listed(size(1_000), |at| {
        format!(r#""p{at}":{{"enum":[{}]}}"#, listed(100, |one| format!("\"v{at} {one}\"")))
    });
    let _ =
        answer("enums in properties", &format!(r#"{{"properties":{{{property}}}}}"#), "{\"p7\": \"v7 9\"}");
}

#[test]
fn lengths_and_counts() {
    let _alone = alone();
    for most in [1_000, 4_000, 100_000, 1_000_000, u64::from(u32::MAX), u64::MAX] {
        for keyword in ["maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"] {
            let text = match keyword {
                "maxLength" => "\"abc\"",
                "maxItems" => "[1, 2]",
                "minProperties" => "null",
                _ => "{\"a\": 1}",
            };
            let outcome = answer(&format!("{keyword} {most}"), &format!(r#"{{"{keyword}":{most}}}"#), text);
            assert_ne!(outcome, Ok(false), "{keyword} {most}");
        }
        let _ = answer(
            "length and pattern",
            &format!(r#"{{"pattern":"^[a-z]*$","maxLength":{most}}}"#),
            "\"abc\"",
        );
        let _ = answer("between", &format!(r#"{{"minLength":{},"maxLength":{most}}}"#, most / 2), "\"abc\"");
        let inner =
            format!(r#"{{"items":{{"items":{{"type":"null"}},"maxItems":{most}}},"maxItems":{most}}}"#);
        let _ = answer("lists of lists", &inner, "[[null], []]");
    }
    let lengths =
        listed(size(1_000), |at| format!(r#""p{at}":{{"type":"string","maxLength":{}}}"#, 100 + at));
    let _ = answer(
        "a length for each property",
        &format!(r#"{{"properties":{{{lengths}}}}}"#),
        "{\"p7\": \"abc\"}",
    );
    let digits = "9".repeat(size(100_000));
    for keyword in ["minimum", "maximum", "multipleOf", "const", "maxLength", "minItems"] {
        let _ = answer(&format!("{keyword} with many digits"), &format!(r#"{{"{keyword}":{digits}}}"#), "1");
        let _ = answer(
            &format!("{keyword} with a large exponent"),
            &format!(r#"{{"{keyword}":1e{digits}}}"#),
            "1",
        );
        let _ = answer(&format!("{keyword}, 1e1000000"), &format!(r#"{{"{keyword}":1e1000000}}"#), "1");
        let _ = answer(&format!("{keyword}, 1e-1000000"), &format!(r#"{{"{keyword}":1e-1000000}}"#), "1");
    }
    for factor in ["7", "1000003", "0.0001", "123456789012345", "1e-300"] {
        let _ = answer(
            &format!("multiples of {factor}"),
            &format!(r#"{{"multipleOf":{factor},"minimum":-12345.678}}"#),
            "7",
        );
    }
}

#[test]
fn combinations() {
    let _alone = alone();
    for depth in [5, 20] {
        let mut schema = r#"{"type":"string"}"#.to_owned();
        let mut distinct = r#"{"minLength":1}"#.to_owned();
        for level in 0..depth {
            schema = format!(r#"{{"oneOf":[{schema},{{"maxLength":{level}}}]}}"#);
            distinct = format!(
                r#"{{"oneOf":[{{"required":["a{level}"]}},{{"required":["b{level}"]}},{distinct}]}}"#
            );
        }
        let _ = answer(&format!("oneOf in oneOf, {depth}"), &schema, "\"ab\"");
        let _ = answer(&format!("oneOf of required names, {depth}"), &distinct, "{}");
        let both =
            listed(depth, |at| format!(r#"{{"oneOf":[{{"required":["a{at}"]}},{{"required":["b{at}"]}}]}}"#));
        let _ = answer(&format!("allOf oneOf, {depth}"), &format!(r#"{{"allOf":[{both}]}}"#), "{}");
        let conditions = listed(depth, |at| {
            format!(r#"{{"if":{{"properties":{{"k":{{"const":{at}}}}}}},"then":{{"required":["v{at}"]}}}}"#)
        });
        let _ = answer(&format!("allOf if, {depth}"), &format!(r#"{{"allOf":[{conditions}]}}"#), "{}");
        let texts = listed(depth, |at| format!(r#"{{"pattern":"{}"}}"#, "ab?".repeat(at + 1)));
        let _ = answer(
            &format!("oneOf patterns, {depth}"),
            &format!(r#"{{"type":"string","oneOf":[{texts}]}}"#),
            "\"ab\"",
        );
        let _ = answer(
            &format!("not oneOf patterns, {depth}"),
            &format!(r#"{{"not":{{"oneOf":[{texts}]}}}}"#),
            "\"ab\"",
        );
    }
    let count = size(10_000);
    let all = listed(count, |at| format!(r#"{{"minLength":{}}}"#, at % 50));
    let _ = answer("a long allOf", &format!(r#"{{"allOf":[{all}]}}"#), "\"ab\"");
    let all = listed(count, |at| format!(r#"{{"properties":{{"a":{{"minimum":{at}}}}}}}"#));
    let _ = answer("a long allOf of properties", &format!(r#"{{"allOf":[{all}]}}"#), "{}");
    let all = listed(count, |at| format!(r#"{{"properties":{{"p{at}":{{"minimum":{at}}}}}}}"#));
    let _ = answer("a long allOf of different properties", &format!(r#"{{"allOf":[{all}]}}"#), "{}");
    let any = listed(count, |at| {
        format!(r#"{{"properties":{{"p{at}":{{"minimum":{at}}}}},"required":["p{at}"]}}"#)
    });
    let _ = answer("a long anyOf", &format!(r#"{{"anyOf":[{any}]}}"#), "{\"p7\": 8}");
    let _ = answer("a long oneOf", &format!(r#"{{"oneOf":[{any}]}}"#), "{\"p7\": 8}");
    let tagged = listed(size(1_000), |at| {
        format!(
            r#"{{"properties":{{"kind":{{"const":"k{at}"}},"v{at}":{{"type":"integer"}}}},"required":["kind"]}}"#
        )
    });
    let _ = answer("a oneOf of tagged objects", &format!(r#"{{"oneOf":[{tagged}]}}"#), "{\"kind\": \"k7\"}");
    let not = listed(count, |at| format!(r#"{{"not":{{"const":"x{at}"}}}}"#));
    let _ = answer("a long allOf of not", &format!(r#"{{"allOf":[{not}]}}"#), "\"ab\"");
}

#[test]
fn patterns() {
    let _alone = alone();
    for pattern in [
        "^(a|b)*a(a|b){30}$",
        "(a|b)*a(a|b){300}b",
        "^((a{1,100}){1,100}){1,100}$",
        "(((((((a?){9}){9}){9}){9}){9}){9}){9}",
        r"\\p{L}{500}",
        r"^(\\p{L}\\p{N}?){200}\\s*$",
        "(a*)*(a*)*(a*)*b",
        "^.{100000}$",
        "^[^a]{1000,2000}x",
        ".*.*.*.*.*.*x.*.*.*",
    ] {
        let _ = answer(pattern, &format!(r#"{{"type":"string","pattern":"{pattern}"}}"#), "\"aaab\"");
        let _ =
            answer(pattern, &format!(r#"{{"type":"string","not":{{"pattern":"{pattern}"}}}}"#), "\"aaab\"");
        let names = format!(
            r#"{{"patternProperties":{{"{pattern}":{{"type":"null"}}}},"additionalProperties":{{"type":"string"}}}}"#
        );
        let _ = answer(pattern, &names, "{\"aaab\": \"x\"}");
    }
    let deep = format!(r#"{{"pattern":"{}a{}"}}"#, "(".repeat(size(100_000)), ")".repeat(size(100_000)));
    let _ = answer("deep groups", &deep, "\"a\"");
    let long = format!(r#"{{"pattern":"{}"}}"#, "ab".repeat(size(1_000_000)));
    let _ = answer("a long pattern", &long, "\"a\"");
    let many = listed(size(1_000), |at| format!(r#"{{"pattern":"{at}.*{at}"}}"#));
    let _ = answer("many patterns", &format!(r#"{{"type":"string","allOf":[{many}]}}"#), "\"a\"");
}

#[test]
fn five_megabytes() {
    let _alone = alone();
    let mut schema = String::from(r#"{"$defs":{"#);
    let mut at = 0;
    while schema.len() < size(5_000_000) {
        let _ = write!(
            schema,
            r##""d{at}":{{"type":"object","properties":{{"id":{{"type":"integer","minimum":{at}}},"next":{{"$ref":"#/$defs/d{}"}}}},"required":["id"]}},"##,
            at + 1
        );
        at += 1;
    }
    let whole = format!(r##"{schema}"d{at}":true}},"$ref":"#/$defs/d0"}}"##);
    let _ = answer("five megabytes of objects", &whole, "{\"id\": 7}");
    let unused = format!(r#"{schema}"d{at}":true}},"type":"null"}}"#);
    assert_eq!(answer("five megabytes that are not used", &unused, "null"), Ok(true));
    let long = format!(r#"{{"const":"{}"}}"#, "é".repeat(size(2_500_000)));
    let _ = answer("five megabytes of text", &long, "\"é");
    let long = format!(r#"{{"description":"{}","type":"null"}}"#, "é".repeat(size(2_500_000)));
    assert_eq!(answer("a long description", &long, "null"), Ok(true));
    let long = format!(r#"{{"properties":{{"{}":true}}}}"#, "n".repeat(size(5_000_000)));
    let _ = answer_within(size(256 * MIB), "a long name", &long, "{\"nnn");
    let _ = answer("much white space", &format!("{}{{}}", " ".repeat(size(8_000_000))), "1");
    limit(
        answer("nine megabytes", &format!("{}{{}}", " ".repeat(9 << 20)), "1"),
        "SchemaLimits::schema_bytes",
    );
}
