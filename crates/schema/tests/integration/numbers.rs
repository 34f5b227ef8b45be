//! Numbers in every spelling: for all exponents that are written, the accepted numbers are the ones that satisfy
//! the arithmetic condition.

use crate::common::{Bytes, Compiled};
use unskew_schema::{SchemaOptions, Spelling, Whitespace};

/// The value of a spelling times 10^8, computed from its digits.
fn scaled(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = exponent.parse::<i32>().ok()? + 8 - i32::try_from(fraction.len()).ok()?;
    let factor = 10i128.pow(places.unsigned_abs());
    // No number here has more digits than fit.
    if places >= 0 { Some(digits * factor) } else { (digits % factor == 0).then(|| digits / factor) }
}

fn spellings() -> Vec<String> {
    let mut all = vec![];
    for sign in ["", "-"] {
        for whole in ["0", "1", "9", "10", "12", "99", "100", "101", "1000", "1200"] {
            for fraction in ["", ".0", ".5", ".05", ".50", ".25", ".999", ".001"] {
                for exponent in
                    ["", "e0", "E+00", "e1", "E+1", "e01", "e2", "E2", "e-1", "E-02", "e-2", "e3", "e-3"]
                {
                    all.push(format!("{sign}{whole}{fraction}{exponent}"));
                }
            }
        }
    }
    all
}

fn compile(schema: &str, exponents: u32) -> Compiled {
    let mut options = SchemaOptions::default();
    (options.exponents, options.whitespace) = (exponents, Whitespace::Compact);
    Bytes::new().compile_with(schema, &options).unwrap()
}

#[test]
fn every_spelling_is_judged_by_its_value() {
    const ONE: i128 = 100_000_000;
    type Judge = fn(i128) -> bool;
    let cases: [(&str, Judge); 12] = [
        (r#"{"type":"integer"}"#, |value| value % ONE == 0),
        (r#"{"type":"number","minimum":0}"#, |value| value >= 0),
        (r#"{"type":"number","exclusiveMinimum":0}"#, |value| value > 0),
        (r#"{"type":"number","minimum":10,"maximum":100}"#, |value| (10 * ONE..=100 * ONE).contains(&value)),
        (r#"{"type":"number","exclusiveMinimum":-1.5,"exclusiveMaximum":0.05}"#, |value| {
            -3 * ONE / 2 < value && value < ONE / 20
        }),
        (r#"{"type":"integer","minimum":-100,"exclusiveMaximum":1000}"#, |value| {
            value % ONE == 0 && (-100 * ONE..1000 * ONE).contains(&value)
        }),
        (r#"{"const":100}"#, |value| value == 100 * ONE),
        (r#"{"enum":[0,-1.25,1e3]}"#, |value| [0, -5 * ONE / 4, 1000 * ONE].contains(&value)),
        (r#"{"type":"number","not":{"type":"integer"}}"#, |value| value % ONE != 0),
        (r#"{"type":"number","not":{"enum":[1,10]}}"#, |value| value != ONE && value != 10 * ONE),
        (r#"{"type":"number","not":{"minimum":9.05}}"#, |value| value < ONE * 181 / 20),
        (r#"{"type":"number","maximum":1e3}"#, |value| value <= 1000 * ONE),
    ];
    for (schema, judge) in cases {
        for exponents in [0u32, 1, 2] {
            let compiled = compile(schema, exponents);
            for text in spellings() {
                let value = scaled(&text).unwrap();
                let size = text.split_once(['e', 'E']).map(|(_, exponent)| exponent.parse::<i32>().unwrap());
                let written = match size {
                    None => true,
                    Some(size) => exponents > 0 && size.unsigned_abs() <= exponents,
                };
                assert_eq!(compiled.accepts(&text), written && judge(value), "{schema} {text} {exponents}");
            }
        }
    }
}

#[test]
fn multiples_are_written_plainly() {
    let compiled = compile(r#"{"type":"number","multipleOf":5}"#, 3);
    assert!(compiled.accepts("10.0") && !compiled.accepts("1e1") && !compiled.accepts("11"));
    let others = compile(r#"{"type":"number","not":{"multipleOf":5}}"#, 3);
    assert!(others.accepts("11") && !others.accepts("1e1") && !others.accepts("10"));
}

#[test]
fn draft_4_has_whole_numbers_without_exponents() {
    let schema = r#"{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer"}"#;
    let compiled = compile(schema, 3);
    assert!(compiled.accepts("100") && !compiled.accepts("1e2") && !compiled.accepts("1.0"));
}

/// The spelling of a number of many digits without an exponent.
fn plain(digits: &str, exponent: i32) -> String {
    match usize::try_from(exponent) {
        Ok(zeros) => format!("{digits}{}", "0".repeat(zeros)),
        Err(_) => format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - digits.len())),
    }
}

#[test]
fn numbers_of_any_size_are_themselves() {
    for (schema, yes, no) in [
        (
            r#"{"const":1e-1000}"#,
            vec![plain("1", -1000), "1e-1000".to_owned(), "1.0E-01000".to_owned(), plain("1", -1000) + "0"],
            vec![
                "0".to_owned(),
                plain("1", -999),
                "1e-999".to_owned(),
                "1e1000".to_owned(),
                "10e-1001".to_owned(),
            ],
        ),
        (
            r#"{"const":-12.5e400}"#,
            vec![format!("-{}", plain("125", 399)), "-1.25e+401".to_owned()],
            vec![plain("125", 399)],
        ),
        (
            r#"{"enum":[1E+2,-0.0,1e500]}"#,
            vec!["100".to_owned(), "0".to_owned(), "-0".to_owned(), plain("1", 500)],
            vec!["1".to_owned()],
        ),
        (
            r#"{"type":"integer","const":1e1000}"#,
            vec![plain("1", 1000)],
            vec![plain("1", 999), "1e1000".to_owned()],
        ),
        (r#"{"const":[1e-1000]}"#, vec![format!("[{}]", plain("1", -1000))], vec!["[0]".to_owned()]),
        (
            r#"{"type":"number","minimum":1e1000}"#,
            vec![plain("1", 1000), plain("2", 1000), plain("1", 1001)],
            vec![plain("9", 999), "0".to_owned(), format!("-{}", plain("1", 1001))],
        ),
        (
            r#"{"type":"number","exclusiveMinimum":0,"maximum":1e-500}"#,
            vec![plain("1", -500), plain("1", -501)],
            vec![plain("2", -500), "0".to_owned()],
        ),
        (
            r#"{"type":"number","not":{"const":1e-1000}}"#,
            vec!["0".to_owned(), plain("1", -999)],
            vec![plain("1", -1000), "1e-1000".to_owned()],
        ),
        (
            r#"{"items":{"enum":[1e-1000,1e1000,1,2]},"uniqueItems":true}"#,
            vec![format!("[{},1]", plain("1", -1000))],
            vec![format!("[{0},{0}]", plain("1", -1000)), "[1,1.0]".to_owned()],
        ),
        (r#"{"enum":[1e-1000,1e-1001],"minimum":1e-1000}"#, vec![plain("1", -1000)], vec![plain("1", -1001)]),
    ] {
        let compiled = compile(schema, 0);
        for (texts, expected) in [(yes, true), (no, false)] {
            for text in texts {
                assert_eq!(compiled.accepts(&text), expected, "{schema} {text}");
            }
        }
    }
    let small = compile(r#"{"const":1e-1000}"#, 2);
    assert!(
        small.accepts("1e-1000")
            && small.accepts(&(plain("1", -999) + "e-1"))
            && !small.accepts("1e-1000e-1")
    );
}

#[test]
fn numbers_beyond_the_limit_are_refused_by_name() {
    for schema in [
        r#"{"const":1e-100000}"#,
        r#"{"const":1e99999999999999999999}"#,
        r#"{"enum":["a",1e100000]}"#,
        r#"{"enum":[[1e100000]]}"#,
        r#"{"const":1e100000,"minimum":2}"#,
        r#"{"not":{"const":1e100000}}"#,
        r#"{"minimum":1e100000}"#,
        r#"{"maximum":-1e-100000}"#,
        r#"{"type":"array","items":{"enum":[1e100000]},"uniqueItems":true}"#,
        r#"{"enum":[[1e100000]],"items":{"minimum":2}}"#,
    ] {
        let error = unskew_schema::grammar(
            schema,
            &SchemaOptions::default(),
            &unskew_schema::SchemaLimits::default(),
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("the limit is 4096") && error.contains("SchemaLimits::digits"),
            "{schema}: {error}"
        );
    }
    // A number is irrelevant where no number is allowed.
    assert!(compile(r#"{"type":"string","not":{"const":1e100000}}"#, 0).accepts("\"\""));
}

/// The spellings of programs: of the texts of each schema those without a needless fraction and without a negative
/// zero, and no value is lost.
#[test]
fn plain_spellings_lose_no_value() {
    let schemas = [
        r#"{"type":"integer"}"#,
        r#"{"type":"number"}"#,
        r#"{"type":"integer","minimum":-100,"exclusiveMaximum":1000}"#,
        r#"{"type":"number","exclusiveMinimum":-1.5,"maximum":10}"#,
        r#"{"type":"number","multipleOf":0.05}"#,
        r#"{"type":"number","multipleOf":5}"#,
        r#"{"const":-0.0}"#,
        r#"{"enum":[0,-1.25,10,100]}"#,
        r#"{"type":["integer","string"],"not":{"const":1}}"#,
        r#"{"anyOf":[{"type":"integer"},{"type":"number","maximum":0}]}"#,
    ];
    for schema in schemas {
        let mut options = SchemaOptions::default();
        options.whitespace = Whitespace::Compact;
        let any = Bytes::new().compile_with(schema, &options).unwrap();
        options.spelling = Spelling::Plain;
        let plain = Bytes::new().compile_with(schema, &options).unwrap();
        let all: Vec<String> = spellings().into_iter().filter(|text| any.accepts(text)).collect();
        let kept: Vec<&String> = all.iter().filter(|text| plain.accepts(text)).collect();
        let has_fraction = all.iter().filter_map(|text| scaled(text)).any(|value| value % 100_000_000 != 0);
        for text in &all {
            let value = scaled(text);
            assert!(kept.iter().any(|kept| scaled(kept) == value), "{schema}: no spelling of {text} is left");
            let is_zero = value == Some(0) && text.starts_with('-');
            let is_whole_with_point = !has_fraction && text.contains('.');
            assert_eq!(plain.accepts(text), !is_zero && !is_whole_with_point, "{schema}: {text}");
        }
    }
}

#[test]
fn printers_write_blanks_and_indentations() {
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Printed;
    let compiled =
        Bytes::new().compile_with(r#"{"type":"array","items":{"type":"object"}}"#, &options).unwrap();
    for (text, expected) in [
        ("[]", true),
        ("[{}, {}]", true),
        ("[\n  {\n    \"a\": 1\n  },\n  {}\n]", true),
        ("[\r\n\t{}\r\n]", true),
        ("[  {}]", false),
        ("[\n\n{}]", false),
        ("[\n \t{}]", false),
        ("[{}\n\n\n]", false),
    ] {
        assert_eq!(compiled.accepts(text), expected, "{text:?}");
    }
    assert_eq!("printed".parse(), Ok(Whitespace::Printed));
    options.whitespace = "line".parse().unwrap();
    let compiled =
        Bytes::new().compile_with(r#"{"type":"array","items":{"type":"object"}}"#, &options).unwrap();
    for (text, expected) in
        [("[]", true), ("[{}, {\"a\": 1}]", true), ("[ {} ,{} ]", true), ("[\n{}]", false), ("[  {}]", false)]
    {
        assert_eq!(compiled.accepts(text), expected, "{text:?}");
    }
}
