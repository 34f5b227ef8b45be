//! Schemas written in GBNF and read again: the masks are the same along random outputs, and where something is
//! loosened, they allow more.

use std::sync::Arc;

use proptest::prelude::*;
use unskew_core::{Constraint, TokenMask};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{Gbnf, GbnfOptions, LooseningKind, from_gbnf, to_gbnf};
use unskew_schema::{MemberOrder, SchemaLimits, SchemaOptions, Whitespace, grammar};

use crate::{common::Bytes, random::schema};

fn written(schema: &str, options: &SchemaOptions) -> (Grammar, Gbnf) {
    let grammar = grammar(schema, options, &SchemaLimits::default()).unwrap();
    let gbnf = to_gbnf(&grammar, &GbnfOptions::default()).unwrap();
    (grammar, gbnf)
}

/// Compares the masks along one output. Each of `choices` selects the next byte from the mask of the schema.
fn along(bytes: &Bytes, grammar: &Grammar, gbnf: &Gbnf, choices: &[u8]) -> Result<(), String> {
    let limits = GrammarLimits::default();
    let read = from_gbnf(&gbnf.text, &limits).map_err(|error| error.to_string())?;
    let constraint = |grammar| GrammarConstraint::new(grammar, Arc::clone(bytes.trie()), &limits);
    let (left, right) = (constraint(grammar).unwrap(), constraint(&read).map_err(|error| error.to_string())?);
    let (mut left_scratch, mut right_scratch) = (left.scratch(), right.scratch());
    let (mut left_state, mut right_state) = (left.start(), right.start());
    let mut text = vec![];
    for choice in choices {
        let (mut ours, mut theirs) = (TokenMask::new(256), TokenMask::new(256));
        left.fill_mask(&mut left_scratch, &left_state, ours.as_mut());
        right.fill_mask(&mut right_scratch, &right_state, theirs.as_mut());
        let ends = (left.is_accepting(&left_state), right.is_accepting(&right_state));
        let is_right = match gbnf.loosened.is_empty() {
            true => ours == theirs && ends.0 == ends.1,
            false => ours.ids().all(|id| theirs.contains(id)) && (!ends.0 || ends.1),
        };
        if !is_right {
            let [ours, theirs] = [ours, theirs].map(|mask| mask.ids().map(|id| id.0).collect::<Vec<_>>());
            return Err(format!(
                "{:?}: {ours:?} and not {theirs:?}, {ends:?}",
                String::from_utf8_lossy(&text)
            ));
        }
        // The last bytes of a mask close strings and brackets, so that outputs end.
        let allowed: Vec<_> = ours.ids().collect();
        let Some(index) = usize::from(*choice).checked_rem(allowed.len()) else { break };
        let token = allowed[index];
        left.advance(&mut left_scratch, &mut left_state, token).unwrap();
        right.advance(&mut right_scratch, &mut right_state, token).map_err(|error| error.to_string())?;
        text.push(u8::try_from(token.0).unwrap());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(60, 300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_schemas_keep_their_masks(
        schema in schema(),
        choices in prop::collection::vec(prop::collection::vec(any::<u8>(), 40), 4),
        is_any in any::<bool>(),
    ) {
        let (schema, bytes) = (schema.to_string(), Bytes::new());
        let mut options = SchemaOptions::default();
        options.whitespace = Whitespace::Compact;
        options.order = if is_any { MemberOrder::Any } else { MemberOrder::Declared };
        let Ok(grammar) = grammar(&schema, &options, &SchemaLimits::default()) else { return Ok(()) };
        let gbnf = match to_gbnf(&grammar, &GbnfOptions::default()) {
            Ok(gbnf) => gbnf,
            Err(GrammarError::Empty { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{schema}: {error}"))),
        };
        for choices in choices {
            along(&bytes, &grammar, &gbnf, &choices)
                .map_err(|error| TestCaseError::fail(format!("{schema}: {error}\n{}", gbnf.text)))?;
        }
    }
}

#[test]
fn the_text_of_a_tool_is_short_and_says_what_is_lost() {
    let schema = r##"{"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 40},
        "id": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
        "count": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "uniqueItems": true},
        "more": {"$ref": "#/properties/inner"},
        "inner": {"type": "object", "properties": {"deep": {"$ref": "#"}}}
    }, "required": ["name"], "additionalProperties": false}"##;
    let (_, gbnf) = written(schema, &SchemaOptions::default());
    assert!(gbnf.text.len() < 20_000, "{} bytes\n{}", gbnf.text.len(), gbnf.text);
    let lost: Vec<_> = gbnf.loosened.iter().map(|one| (one.kind, &*one.place)).collect();
    assert_eq!(lost, [(LooseningKind::Repeats, "#/properties/inner")], "{}", gbnf.text);
}

/// A bound that llama.cpp would read as none, and a text that would be too long with its exclusions.
#[test]
fn bounds_beyond_those_of_llama_cpp_hold() {
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Compact;
    let (_, gbnf) = written(r#"{"type": "string", "maxLength": 65536}"#, &options);
    assert!(gbnf.loosened.is_empty() && gbnf.text.len() < 1000, "{}", gbnf.text);

    let names: Vec<String> =
        (0..3000).map(|name| format!(r#""a long name of a member {name}": {{}}"#)).collect();
    let schema = format!(r#"{{"type": "object", "properties": {{{}}}}}"#, names.join(","));
    let grammar = grammar(&schema, &options, &SchemaLimits::default()).unwrap();
    let mut gbnf_options = GbnfOptions::default();
    gbnf_options.max_bytes = 279_000;
    let gbnf = to_gbnf(&grammar, &gbnf_options).unwrap();
    let is_lost = gbnf.loosened.iter().any(|one| one.kind == LooseningKind::Exclusions);
    assert!(is_lost, "{} bytes, {:?}", gbnf.text.len(), gbnf.loosened);
}
