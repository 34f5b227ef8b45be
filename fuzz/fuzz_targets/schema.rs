//! Any bytes as a schema, and any bytes as choices. A schema is an error of one line or a grammar. The texts
//! of the grammar are JSON, and `jsonschema` accepts them.
//!
//! An input that begins with a brace is a schema, up to a zero byte, followed by choices. These schemas are not given
//! to `jsonschema`, which has limits of its own. Any other input is a list of choices in three parts: for a schema of
//! known keywords, for an instance, and for a text. Texts are written along masks, so a dead end is detected too.
//!
//! The limits are small, so that a run covers many schemas and not a few huge ones.

#![no_main]

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use unskew_automata::Limits;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_fuzz::Choices;
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_schema::{SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};
use unskew_trie::TokenTrie;

/// The greatest length of a written text, in bytes.
const LONGEST: usize = 300;

static BYTES: LazyLock<Arc<TokenTrie>> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
});

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const NAMES: [&str; 4] = ["a", "b", "ab", "é\\\""];
const PATTERNS: [&str; 6] = ["^a", "b$", "^[a-c]{1,3}$", "a.b", "^(ab|ba)*$", "[^a]"];
const NUMBERS: [&str; 8] = ["0", "1", "-1", "2.5", "3", "10", "-0.25", "1e1"];
const COUNTS: [&str; 4] = ["0", "1", "2", "3"];
const FORMATS: [&str; 4] = ["date", "ipv4", "uuid", "no-such-format"];
const KEYWORDS: [&str; 34] = [
    "type",
    "types",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "contains",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "dependentRequired",
    "dependentSchemas",
    "$ref",
];

/// A schema. It has references only if its value is a part of another value (`inside`), because `jsonschema`
/// follows all others forever.
fn schema(code: &mut Choices<'_>, depth: usize, inside: bool) -> String {
    match code.next(8) {
        0 => return "true".to_owned(),
        1 if depth < 3 => return "false".to_owned(),
        _ if depth == 0 => return format!("{{\"type\": \"{}\"}}", code.pick(&TYPES)),
        _ => {}
    }
    let mut seen: Vec<&str> = vec![];
    let mut out = "{".to_owned();
    for _ in 0..1 + code.next(4) {
        let keyword = code.pick(&KEYWORDS);
        let written = if keyword == "types" { "type" } else { keyword };
        if seen.contains(&written) || keyword == "$ref" && !inside {
            continue;
        }
        seen.push(written);
        let mut below = |inside| schema(code, depth - 1, inside);
        let value = match keyword {
            "properties" => {
                let (one, other) = (below(true), below(true));
                format!("{{\"a\": {one}, \"é\\\"\": {other}}}")
            }
            "patternProperties" => {
                let one = below(true);
                format!("{{\"{}\": {one}}}", code.pick(&PATTERNS))
            }
            "additionalProperties" | "items" | "contains" => below(true),
            "prefixItems" => format!("[{}, {}]", below(true), below(true)),
            "propertyNames" | "not" | "if" | "then" => below(inside),
            "allOf" | "anyOf" | "oneOf" => format!("[{}, {}]", below(inside), below(inside)),
            "dependentSchemas" => format!("{{\"b\": {}}}", below(inside)),
            "type" => format!("\"{}\"", code.pick(&TYPES)),
            "types" => format!("[\"{}\", \"object\"]", code.pick(&TYPES[..6])),
            "enum" => format!("[{}]", instance(code, 2)),
            "const" => instance(code, 2),
            "required" => format!("[\"{}\"]", code.pick(&NAMES)),
            "dependentRequired" => format!("{{\"a\": [\"{}\"]}}", code.pick(&NAMES)),
            "uniqueItems" => "true".to_owned(),
            "pattern" => format!("\"{}\"", code.pick(&PATTERNS)),
            "format" => format!("\"{}\"", code.pick(&FORMATS)),
            "minimum" | "maximum" | "exclusiveMinimum" => code.pick(&NUMBERS).to_owned(),
            "multipleOf" => code.pick(&["1", "2", "0.5", "3"]).to_owned(),
            "$ref" => format!("\"{}\"", code.pick(&["#", "#/$defs/d"])),
            _ => code.pick(&COUNTS).to_owned(),
        };
        let comma = if seen.len() > 1 { ", " } else { "" };
        let _ = write!(out, "{comma}\"{written}\": {value}");
    }
    out + "}"
}

/// A value.
fn instance(code: &mut Choices<'_>, depth: usize) -> String {
    match code.next(if depth == 0 { 5 } else { 7 }) {
        0 => "null".to_owned(),
        1 => code.pick(&["true", "false"]).to_owned(),
        2 => code.pick(&NUMBERS).to_owned(),
        3 => format!("\"{}\"", code.pick(&NAMES)),
        4 => code.pick(&["\"abc\"", "\"2024-02-29\"", "\"\"", "\"\\u0061\""]).to_owned(),
        5 => {
            let items: Vec<String> = (0..code.next(3)).map(|_| instance(code, depth - 1)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => {
            let count = code.next(3);
            let members =
                NAMES.iter().take(count).map(|name| format!("\"{name}\": {}", instance(code, depth - 1)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The constraint of the grammar; `None` for a schema that no text satisfies, and for a rejected schema.
fn compiled(text: &str) -> Option<GrammarConstraint> {
    let regex = Limits::default().nfa_size(20_000).dfa_states(5_000).dfa_steps(2_000_000);
    let mut grammars = GrammarLimits::default();
    (grammars.nodes, grammars.automata_bytes, grammars.regex) = (20_000, 1 << 22, regex.clone());
    let mut limits = SchemaLimits::default();
    (limits.rules, limits.alternatives) = (2_000, 2_000);
    (limits.automata, limits.automata_bytes, limits.grammar) = (regex, 4 << 20, grammars);
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Bounded(1);
    assert!(!explain(text, &options, &limits).iter().any(|fate| fate.why.is_empty()));
    let made = match grammar(text, &options, &limits) {
        Ok(made) => made,
        Err(SchemaError::Unsatisfiable { .. }) => return None,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return None;
        }
    };
    let trie = &*BYTES;
    match GrammarConstraint::new(&made, Arc::clone(trie), &limits.grammar) {
        Ok(constraint) => Some(constraint),
        Err(GrammarError::Empty { .. }) => None,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            None
        }
    }
}

/// A text of the constraint, by choices; `None` if it is too long.
fn written(constraint: &GrammarConstraint, code: &mut Choices<'_>) -> Option<String> {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut text = Vec::new();
    while text.len() < LONGEST {
        mask.as_mut().clear();
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let allowed: Vec<u8> = (0..=255).filter(|byte| mask.contains(TokenId(u32::from(*byte)))).collect();
        let accepting = constraint.is_accepting(&state);
        assert!(accepting || !allowed.is_empty(), "a dead end behind {:?}", String::from_utf8_lossy(&text));
        let choice = code.byte();
        if allowed.is_empty() || accepting && choice.is_none_or(|choice| choice % 2 == 0) {
            let text = String::from_utf8(text);
            return Some(text.expect("a grammar of JSON writes UTF-8"));
        }
        // Closing bytes, after the last choice.
        let close = *b"\"}]";
        let byte = match choice {
            Some(choice) => allowed[usize::from(choice) % allowed.len()],
            None => close.into_iter().find(|byte| allowed.contains(byte)).unwrap_or(allowed[0]),
        };
        constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).expect("the mask allows it");
        text.push(byte);
    }
    None
}

fn accepts(constraint: &GrammarConstraint, text: &str) -> bool {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut bytes = text.bytes();
    bytes.all(|byte| constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).is_ok())
        && constraint.is_accepting(&state)
}

/// Whether `jsonschema`, which uses binary fractions, can represent all numbers of the text.
fn is_plain(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_digit()).all(|digits| digits.len() <= 12)
        && !text.split(['e', 'E']).skip(1).any(|behind| {
            behind.trim_start_matches(['+', '-']).starts_with(|char: char| char.is_ascii_digit())
        })
}

fuzz_target!(|input: &[u8]| {
    if input.starts_with(b"{") {
        let (schema, choices) =
            input.split_at(input.iter().position(|byte| *byte == 0).unwrap_or(input.len()));
        let Some(constraint) = std::str::from_utf8(schema).ok().and_then(compiled) else { return };
        // Numbers too large for the reader are still JSON.
        if let Some(text) = written(&constraint, &mut Choices::new(choices)).filter(|text| is_plain(text)) {
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
        return;
    }
    let third = input.len() / 3;
    let (of_schema, rest) = input.split_at(third);
    let (of_instance, of_text) = rest.split_at(third);
    let code = &mut Choices::new(of_schema);
    let (root, definition) = (schema(code, 3, false), schema(code, 2, false));
    let text = match root.strip_prefix('{') {
        Some("}") => format!("{{\"$defs\": {{\"d\": {definition}}}}}"),
        Some(rest) => format!("{{\"$defs\": {{\"d\": {definition}}}, {rest}"),
        None => root,
    };
    let Some(constraint) = compiled(&text) else { return };
    let value: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let Ok(judge) = jsonschema::options().should_validate_formats(true).build(&value) else { return };
    let check = |output: &str| {
        let value: Value = serde_json::from_str(output).unwrap_or_else(|error| panic!("{error}: {output}"));
        assert!(judge.is_valid(&value), "{output} does not satisfy {text}");
    };
    let instance = instance(&mut Choices::new(of_instance), 3);
    if accepts(&constraint, &instance) {
        check(&instance);
    }
    if let Some(output) = written(&constraint, &mut Choices::new(of_text)).filter(|output| is_plain(output)) {
        check(&output);
    }
});
