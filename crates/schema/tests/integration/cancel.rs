//! Another thread can cancel a compilation.

use std::{
    thread,
    time::{Duration, Instant},
};

use unskew_grammar::Fate;
use unskew_schema::{Registry, SchemaError, SchemaLimits, SchemaOptions, explain, grammar};

/// The limits, with no bound on work.
fn unlimited() -> SchemaLimits {
    let mut limits = SchemaLimits::default();
    limits.rules = usize::MAX;
    limits.alternatives = usize::MAX;
    limits.carried = usize::MAX;
    limits.products = usize::MAX;
    limits.automata_bytes = usize::MAX;
    limits.automata.dfa_steps = u64::MAX;
    limits.automata.dfa_states = usize::MAX;
    limits.automata.dfa_bytes = usize::MAX;
    limits
}

fn listed(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

#[test]
fn hostile_schemas_are_cancelled() {
    // Each would take years, or all memory: branches that multiply, the differences of many patterns, and one
    // automaton.
    let both = listed(60, |at| format!(r#"{{"anyOf":[{{"required":["a{at}"]}},{{"required":["b{at}"]}}]}}"#));
    let patterns = listed(5_000, |at| format!(r#"{{"pattern":"^(a|b)*a(a|b){{{}}}c{at}$"}}"#, at % 8));
    for schema in [
        format!(r#"{{"allOf":[{both}]}}"#),
        format!(r#"{{"type":"string","not":{{"anyOf":[{patterns}]}}}}"#),
        r#"{"type":"string","pattern":"^(a|b)*a(a|b){60}$"}"#.to_owned(),
    ] {
        let options = SchemaOptions::default();
        let cancel = options.cancel.clone();
        let begin = Instant::now();
        let canceller = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        let error = grammar(&schema, &options, &unlimited()).unwrap_err();
        assert!(matches!(error, SchemaError::Cancelled), "{error}");
        // The work had not finished before the cancellation, and it stops soon after, even on a busy machine.
        assert!(begin.elapsed() >= Duration::from_millis(200));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        canceller.join().unwrap();
    }
}

#[test]
fn reading_ends_before_the_end_of_the_text() {
    // The end of the text is no JSON, and is not read.
    let open = |mut text: String| {
        while text.len() < 1 << 20 {
            text += r#"{"const": 1}, "#;
        }
        text
    };
    let mut options = SchemaOptions::default();
    options.registry = Registry::new();
    options.registry.insert("wide.json", &(open("[".to_owned()) + "1]")).unwrap();
    options.cancel.cancel();
    let read = |text: &str| grammar(text, &options, &SchemaLimits::default()).unwrap_err();
    for text in [open(r#"{"anyOf": ["#.to_owned()), "{".to_owned(), r#"{"$ref": "wide.json"}"#.to_owned()] {
        assert!(matches!(read(&text), SchemaError::Cancelled));
    }
}

#[test]
fn a_flag_that_is_up_ends_all_that_share_it() {
    let options = SchemaOptions::default();
    let (copy, other) = (options.clone(), SchemaOptions::default());
    options.cancel.cancel();
    let limits = SchemaLimits::default();
    for schema in ["{}", r#"{"type": "integer"}"#, r#"{"anyOf": [{"const": 1}, {"type": "object"}]}"#] {
        for options in [&options, &copy] {
            assert!(matches!(grammar(schema, options, &limits), Err(SchemaError::Cancelled)), "{schema}");
            let fates = explain(schema, options, &limits);
            let last = fates.last().unwrap();
            assert_eq!(last.fate, Fate::Rejected);
            assert!(last.why.contains("cancelled"), "{last:?}");
        }
        assert!(grammar(schema, &other, &limits).is_ok());
    }
    // Cancellation does not count for equality.
    assert_eq!(options, other);
}
