//! Schemas with unique names or items, and long documents: no dead end, and JSON without a repeated name or
//! item. libFuzzer's limits of time and memory bound the growth.

#![no_main]

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use unskew_automata::Limits;
use unskew_core::{Constraint, TokenMask, Vocabulary};
use unskew_fuzz::Choices;
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_schema::{SchemaLimits, SchemaOptions, Whitespace, grammar};
use unskew_trie::TokenTrie;

/// The greatest length of a document, in tokens.
const LONGEST: usize = 1_500;
const ITEMS: [&str; 7] = [
    r#"{"type":"string"}"#,
    r#"{"type":"string","maxLength":3}"#,
    r#"{"type":"string","pattern":"^[ab]{1,4}$"}"#,
    r#"{"type":"integer"}"#,
    r#"{"type":"integer","minimum":0,"maximum":300}"#,
    r#"{"enum":["a","b","ab",1,11,null,true]}"#,
    r#"{"type":"boolean"}"#,
];

static BYTES: LazyLock<Arc<TokenTrie>> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    (0..=255).for_each(|byte| _ = builder.text(&[byte]));
    for text in ["\",\"", "\":", "\":1,\"", "aa", "ab", "11", ",1", ",", "[\"", "{\""] {
        builder.text(text.as_bytes());
    }
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
});

/// Whether no array has an item twice. Repeated names are an error of the reader.
fn is_unique(value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            items.iter().map(Value::to_string).collect::<HashSet<_>>().len() == items.len()
        }
        _ => true,
    }
}

/// The number of elements of an array.
fn members(text: &str) -> usize {
    serde_json::from_str::<Vec<Value>>(text).map_or(0, |items| items.len())
}

fuzz_target!(|bytes: &[u8]| {
    let mut code = Choices::new(bytes);
    let (item, least) = (code.pick(&ITEMS), [0, 1, 5, 40][code.next(4)]);
    let is_object = code.next(2) == 0;
    let schema = if is_object {
        let names = code.pick(&ITEMS[..3]);
        format!(
            r#"{{"type":"object","additionalProperties":{item},"propertyNames":{names},"minProperties":{least}}}"#
        )
    } else {
        format!(r#"{{"type":"array","uniqueItems":true,"items":{item},"minItems":{least}}}"#)
    };
    let regex = Limits::default().nfa_size(20_000).dfa_states(5_000).dfa_steps(2_000_000);
    let mut grammars = GrammarLimits::default();
    (grammars.nodes, grammars.regex) = (20_000, regex.clone());
    let mut limits = SchemaLimits::default();
    (limits.automata, limits.grammar) = (regex, grammars);
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Compact;
    let made = match grammar(&schema, &options, &limits) {
        Ok(made) => made,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let trie = &*BYTES;
    let made = GrammarConstraint::new(&made, Arc::clone(trie), &limits.grammar);
    let constraint = match made {
        Ok(constraint) => constraint,
        Err(GrammarError::Empty { .. }) => return,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(trie.vocab_len());
    let (mut text, tail) = (Vec::new(), code.rest());
    for at in 0..LONGEST {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let allowed: Vec<_> = mask.ids().collect();
        let accepting = constraint.is_accepting(&state);
        assert!(accepting || !allowed.is_empty(), "a dead end after {:?}", String::from_utf8_lossy(&text));
        if allowed.is_empty() {
            let text = String::from_utf8(text).expect("a grammar of JSON writes UTF-8");
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(is_unique(&value), "{text}");
            let count = value.as_object().map_or_else(|| members(&text), |object| object.len());
            assert!(count >= least, "{text}");
            return;
        }
        // Mostly letters and digits, so that names are short and members many.
        let choice = usize::from(tail.get(at % tail.len().max(1)).copied().unwrap_or(0)) + at / 7;
        let token = allowed[choice % allowed.len()];
        constraint.advance(&mut scratch, &mut state, token).unwrap();
        text.extend_from_slice(trie.vocabulary().text(token).unwrap_or_default());
    }
});
