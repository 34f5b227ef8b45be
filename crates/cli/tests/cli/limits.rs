//! `--limit`: an error names the flag that raises the limit, and the flag raises it.

use crate::support::Files;

const LONG: &str = "root ::= item{300}\nitem ::= \"(\" item? \")\" | \"[\" item? \"]\"\n";

#[test]
fn the_error_names_the_flag_and_the_flag_helps() {
    let files = Files::new(&[
        ("long.gbnf", LONG.as_bytes()),
        ("spec.json", br#"{"grammar_file": "long.gbnf", "limits": {"grammar.positions": 100}}"#),
    ]);
    let low =
        files.run(&["check", "--grammar", "long.gbnf", "--text", "()", "--limit", "grammar.positions=100"]);
    let refusal = low.refusal();
    assert!(refusal.contains("GrammarLimits::positions"), "{refusal}");
    assert!(refusal.trim_end().ends_with("; here that is --limit grammar.positions=N"), "{refusal}");
    // The flag is stronger than the file.
    assert!(
        files
            .run(&["check", "--spec", "spec.json", "--text", "()"])
            .refusal()
            .contains("--limit grammar.positions=N")
    );
    for args in [
        &["--grammar", "long.gbnf", "--limit", "grammar.positions=5000", "--limit", "regex.nest=9"][..],
        &["--spec", "spec.json", "--limit", "grammar.positions=5000"],
    ] {
        let run = files.run(&[&["check", "--text", "()", "--format", "jsonl"], args].concat());
        assert_eq!(run.json()[0]["rejected_at"], serde_json::Value::Null);
    }
}

#[test]
fn a_parser_beyond_its_limit_is_an_error_of_check() {
    let files = Files::new(&[("p.gbnf", b"root ::= [ab] | \"a\" root \"a\" | \"b\" root \"b\"\n")]);
    let text = "a".repeat(240);
    let args = ["check", "--grammar", "p.gbnf", "--text", &text];
    let refusal = files.run(&[&args[..], &["--limit", "grammar.state_items=20"]].concat());
    assert!(refusal.refusal().contains("--limit grammar.state_items=N"), "{}", refusal.refusal());
    let run = files.run(&args);
    assert!(run.stdout.contains("incomplete") && run.stderr.is_empty(), "{} {}", run.stdout, run.stderr);
}

#[test]
fn wrong_limits_are_refused_by_name() {
    let files = Files::new(&[]);
    for (given, message) in [
        ("regex.nest", "give a name and a number, as in `--limit grammar.positions=5000000`"),
        ("regex.nest=many", "is no whole number"),
        ("regex.nest=5000", "give a whole number from 1 to 1000"),
        ("regex.depth=3", "the limits are grammar.automata_bytes,"),
    ] {
        let run = files.run(&["mask", "--regex", "a", "--limit", given]);
        assert!(run.refusal().contains(message), "{given}: {}", run.refusal());
    }
}
