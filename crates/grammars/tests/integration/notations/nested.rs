//! Grammars inside of grammars: `%lark`, `%json` and `@name`.

use std::sync::Arc;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, TokenId, Vocabulary, conformance};
use unskew_grammar::{Fate, Grammar, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarFormat, GrammarOptions, Resolve, Resolver, explain, from_lark};
use unskew_trie::TokenTrie;

use crate::common::enumeration::short;

/// Supplies numbers as `@number`, and one member in an object for every JSON Schema.
#[derive(Debug)]
struct Outside;

impl Resolve for Outside {
    fn json_schema(&self, schema: &str) -> Result<Grammar, String> {
        let wanted = schema.replace(|char: char| !char.is_alphabetic(), "");
        read(&format!("start: \"{{\" /{wanted}/ \"}}\"")).map_err(|_| "no schema".to_owned())
    }

    fn named(&self, name: &str) -> Result<Grammar, String> {
        match name {
            "number" => Ok(read("start: /[0-9]+/").unwrap()),
            _ => Err("it is not there".to_owned()),
        }
    }
}

fn options() -> GrammarOptions {
    GrammarOptions::default().with_resolver(Resolver::new(Outside))
}

fn read(text: &str) -> Result<Grammar, String> {
    from_lark(text, &options(), &GrammarLimits::default()).map_err(|error| error.to_string())
}

fn texts(text: &str, longest: usize) -> Vec<String> {
    let grammar = read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let words = short(&grammar, longest).words;
    words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

/// The constraint over single bytes and some longer tokens.
fn constraint(grammar: &Grammar) -> GrammarConstraint {
    let mut builder = Vocabulary::builder();
    (0..=255u8).for_each(|byte| _ = builder.text(&[byte]));
    for text in ["ab", "x{", "}y", "{\"", "ba", "<b"] {
        builder.text(text.as_bytes());
    }
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    GrammarConstraint::new(grammar, trie, &GrammarLimits::default()).unwrap()
}

fn accepts(constraint: &GrammarConstraint, text: &str) -> bool {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut tokens = text.bytes().map(|byte| TokenId(byte.into()));
    tokens.all(|token| constraint.advance(&mut scratch, &mut state, token).is_ok())
        && constraint.is_accepting(&state)
}

#[test]
fn a_grammar_inside_another_has_names_and_ignored_texts_of_its_own() {
    let text = "start: a %lark {\n  start: a a?\n  a: \"x\"\n  %ignore \" \"\n} a\na: \"y\"";
    assert_eq!(texts(text, 4), ["y xy", "yx y", "yxxy", "yxy"]);
    assert_eq!(texts("start: %lark { start: \"{\" %lark { start: \"a\"~2 } \"}\" }", 6), ["{aa}"]);
    assert_eq!(texts("start: (%lark { start: \"a\" | \"b\" }){2}", 3), ["aa", "ab", "ba", "bb"]);
    // Text that the outer grammar ignores may follow the inner one.
    assert_eq!(texts("start: %lark { start: \"a\" } \"b\"\n%ignore \" \"", 3), [" ab", "a b", "ab", "ab "]);
}

#[test]
fn schemas_and_named_grammars_are_parts() {
    let grammar = read("start: \"x\" %json {\"b\": 1} \"y\" | \"<\" @number \">\"").unwrap();
    let constraint = constraint(&grammar);
    conformance::check_constraint(&constraint, 4).unwrap();
    for (text, accepted) in [("x{b}y", true), ("x{c}y", false), ("<12>", true), ("<>", false), ("<1", false)]
    {
        assert_eq!(accepts(&constraint, text), accepted, "{text}");
    }
    // A token crosses both borders.
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    assert!(constraint.allows(&mut scratch, &state, TokenId(257)));
    constraint.advance(&mut scratch, &mut state, TokenId(257)).unwrap();
}

#[test]
fn a_lazy_terminal_competes_across_the_border() {
    // The call ends free text, in the grammar around the one with the call and in it.
    let around =
        "start: (%lark {\n  start: head \"1\" | \"2\"\n  head[lazy]: /[a-z]*!/\n})* rest\nrest: /[a-z!]*/";
    let flat = "start: inner* rest\ninner: head \"1\" | \"2\"\nhead[lazy]: /[a-z]*!/\nrest: /[a-z!]*/";
    let (around, flat) = (constraint(&read(around).unwrap()), constraint(&read(flat).unwrap()));
    for (text, accepted) in
        [("abc", true), ("ab!1", true), ("ab!1cd", true), ("ab!c", false), ("2ab!12", true)]
    {
        assert_eq!((accepts(&around, text), accepts(&flat, text)), (accepted, accepted), "{text}");
    }
}

#[test]
fn references_that_lead_nowhere_are_errors_with_their_place() {
    let refusal = |text: &str| read(text).unwrap_err();
    for (text, message) in [
        ("start: @letter", "line 1, column 8: `@letter`: it is not there"),
        (
            "start: \"a\" %json {\"b\": }",
            "line 1, column 18: not JSON: expected value at line 1 column 7, counted from here",
        ),
        (
            "start: %json",
            "line 1, column 13: found the end of the grammar, expected a JSON Schema after `%json`",
        ),
        ("start: %lark \"a\"", "line 1, column 14: found `\"`, expected `{` and definitions after `%lark`"),
        (
            "start: %lark { start: \"a\"",
            "line 1, column 14: the grammar is not closed: expected `}` after its last definition",
        ),
        ("start: %lark { other: \"a\" }", "line 1, column 8: start rule `start` is not defined"),
        (
            "start: A\nA: @number",
            "line 2, column 4: a grammar in a terminal is not supported: use it in a rule (in lower case): a terminal is one automaton",
        ),
    ] {
        assert_eq!(refusal(text), message, "{text}");
    }
    let deep =
        |levels: usize| format!("start: {}\"a\"{}", "%lark { start: ".repeat(levels), " }".repeat(levels));
    assert!(read(&deep(32)).is_ok());
    assert!(refusal(&deep(33)).ends_with("grammars nest deeper than 32 levels: flatten them"));
    let alone = from_lark("start: %json true", &GrammarOptions::default(), &GrammarLimits::default());
    assert!(alone.unwrap_err().to_string().contains("no JSON Schema is read here"));
}

#[test]
fn explain_tells_of_the_grammars_inside() {
    let text = "start: %lark { start: A\n A[lazy]: /a+/ } @number";
    let fates = explain(text, GrammarFormat::Lark, &options(), &GrammarLimits::default());
    let constructs: Vec<_> = fates.iter().map(|fate| (fate.construct.as_str(), fate.fate)).collect();
    assert!(constructs.contains(&("grammar `%lark`", Fate::Enforced)), "{constructs:?}");
    assert!(constructs.contains(&("grammar `@number`", Fate::Enforced)), "{constructs:?}");
    assert!(constructs.contains(&("terminal `A`", Fate::Enforced)), "{constructs:?}");
}

/// Rules with the names of `names`, at random.
fn rules(random: &mut ChaCha8Rng, names: [&str; 3]) -> String {
    let mut below = |end: u32| random.next_u32() % end;
    let mut text = String::new();
    for name in names {
        let alternatives: Vec<String> = (0..1 + below(2))
            .map(|_| {
                let items = (0..1 + below(3)).map(|_| match below(6) {
                    0 => "\"a\"".to_owned(),
                    1 => "\"b\"?".to_owned(),
                    2 => "/[ab]/".to_owned(),
                    3 => format!("({} | \"a\")", names[below(3) as usize]),
                    4 => "\"ab\"*".to_owned(),
                    _ => names[below(3) as usize].to_owned(),
                });
                items.collect::<Vec<_>>().join(" ")
            })
            .collect();
        text += &format!("{name}: {}\n", alternatives.join(" | "));
    }
    text
}

#[test]
fn a_grammar_inside_is_its_rules_with_other_names() {
    let mut random = ChaCha8Rng::seed_from_u64(32);
    let mut some = 0;
    for _ in 0..600 {
        let outer = rules(&mut random, ["one", "two", "three"]);
        let inner = rules(&mut random, ["start", "two", "three"]);
        // The same names inside are other rules.
        let renamed = inner.replace("start", "in_one").replace("two", "in_two").replace("three", "in_three");
        let nested = format!("start: \"x\" one | one %lark {{\n{inner}}} two\n{outer}");
        let flat = format!("start: \"x\" one | one in_one two\n{outer}{renamed}");
        let (nested_words, flat_words) = (short(&read(&nested).unwrap(), 4), short(&read(&flat).unwrap(), 4));
        assert_eq!(nested_words, flat_words, "{nested}\n{flat}");
        some += usize::from(!flat_words.words.is_empty());
    }
    assert!(some > 200, "{some} with words");
}
