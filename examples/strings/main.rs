//! Terms over strings, in the kind of the string tasks of grammar-aligned decoding: parts of a name, joined. The embedded
//! model has never seen such terms, so that next to nothing of what it writes is one.
//!
//! Run it with `cargo run --release --example strings`. One sees that rejection, with a constrained first token (RSFT) or
//! learning path by path (ARS), finds nothing in thousands of tries, and that CARS begins some tens of outputs for one that it keeps:
//! what a mask forbids at a prefix, and what comes of it further on, is found out once. With the environment variable `UNSKEW_DATA` set to a folder that holds `gad-slia/grammars`, one of the benchmark's own
//! grammars follows.

#![allow(clippy::print_stdout, reason = "an example that talks to whoever runs it")]

use std::collections::BTreeMap;

use unskew_examples::{Found, Result, Tiny, data};

fn run(count: usize) -> Result<BTreeMap<&'static str, Found>> {
    let mut tiny = Tiny::load()?;
    let found = tiny.compare(include_str!("grammar.ebnf"), "the first letter of a name: ", count)?;
    if let Some(grammar) = data("gad-slia/grammars/dr-name-long.ebnf") {
        println!("\nA grammar of the benchmark:\n");
        let (_, rules) = grammar.split_once("Start ::=").ok_or("the grammar has no rule Start")?;
        let grammar = format!("root ::= Start\nStart ::={rules}");
        tiny.compare(&grammar, "(define-fun f ((name String)) String ", count)?;
    }
    Ok(found)
}

fn main() -> Result<()> {
    run(100).map(|_| ())
}

#[test]
fn what_was_learned_is_not_tried_again() {
    let found = run(10).unwrap();
    assert!(found["cars"].begun < 200.0, "{found:?}");
}
