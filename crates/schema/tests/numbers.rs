//! Numbers in every spelling: what is accepted is what arithmetic says, for all exponents that are written.

mod common;

use common::{Bytes, Compiled};
use unskew_schema::{SchemaOptions, Whitespace};

/// The value of a spelling times ten to the power of eight, by the digits.
fn scaled(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = exponent.parse::<i32>().ok()? + 8 - i32::try_from(fraction.len()).ok()?;
    let factor = 10i128.pow(places.unsigned_abs());
    // Nothing here has more digits than fit.
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
