//! Terms over four bits, in the kind of the bit-vector tasks of grammar-aligned decoding: a few operations on a few
//! constants, nested as deep as one likes. The embedded model writes such terms with other operations and all numbers.
//!
//! Run it with `cargo run --release --example bit_vectors`. One sees that what masked sampling draws is much less probable under the
//! model than what the exact samplers draw, and how many outputs each begins for one that it keeps. With the environment variable
//! `UNSKEW_DATA` set to a folder that holds `gad-bv4/grammar.ebnf`, the benchmark's own grammar follows.

#![allow(clippy::print_stdout, reason = "an example that talks to whoever runs it")]

use std::collections::BTreeMap;

use unskew_examples::{Found, Result, Tiny, data};

fn run(count: usize) -> Result<BTreeMap<&'static str, Found>> {
    let mut tiny = Tiny::load()?;
    let found = tiny.compare(include_str!("grammar.ebnf"), "(+ 2 (* 2 1)) => 4\n", count)?;
    if let Some(grammar) = data("gad-bv4/grammar.ebnf") {
        println!("\nThe benchmark's grammar, behind the head of the function:\n");
        let (_, term) = grammar.split_once("Start ::= ").ok_or("the grammar has no rule Start")?;
        let grammar = format!("root ::= Start\nStart ::= {term}");
        tiny.compare(&grammar, "(define-fun inv ((s (BitVec 4)) (t (BitVec 4))) (BitVec 4) ", count)?;
    }
    Ok(found)
}

fn main() -> Result<()> {
    run(100).map(|_| ())
}

#[test]
fn exact_samplers_draw_what_is_more_probable() {
    let found = run(10).unwrap();
    assert!(found["cars"].log_prob > found["masked"].log_prob);
    assert!(found["masked"].begun == 1.0 && found["cars"].begun >= 1.0);
}
