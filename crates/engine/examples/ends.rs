//! Masks under both ends of outputs: the time of each position of some outputs, for a new state and for a known one,
//! with the tokens that pass the end there and those that end it.
//!
//! `cargo run --release --package unskew-engine --example ends -- tokenizer.json`

#![allow(clippy::print_stdout, reason = "a program that answers on its output")]

use std::{hint::black_box, time::Instant};

use unskew_core::{Constraint, OutputEnd, TokenId, TokenMask};
use unskew_engine::{Compiled, Compiler, Spec, TokenSpace};
use unskew_vocab::Tokenizer;

const ROUNDS: u32 = 1_000;

const RECORD: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": false}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a tokenizer.json")?;
    let compiler = Compiler::new(TokenSpace::from_tokenizer(Tokenizer::from_file(path)?, &[], 0)?);
    let begin = Instant::now();
    compiler.tokens().text_order();
    println!("{} ids, in order after {:?}\n", compiler.tokens().vocabulary().len(), begin.elapsed());
    println!("| output | position | allowed | passing | ending | new: model, free | known: model, free |");
    println!("|:--|--:|--:|--:|--:|--:|--:|");
    for (name, spec, text) in [
        ("a choice", Spec::choices(["A", "B", "C", "D"]), "A"),
        ("a number", Spec::regex("[0-9]{1,4}"), "1234"),
        ("a string", Spec::regex("\"[^\"]*\""), "\"hello world\""),
        ("a record", Spec::json_schema(RECORD), r#"{"name": "John Smith", "age": 30}"#),
        ("any JSON", Spec::json_schema("true"), r#"{"a": ["x", "hello"], "b": {"c": 1.5}}"#),
    ] {
        let ids = compiler.tokens().encode_output(text)?;
        table(name, &compiler.compile(&spec)?, &ids)?;
    }
    Ok(())
}

fn table(name: &str, compiled: &Compiled, ids: &[TokenId]) -> Result<(), Box<dyn std::error::Error>> {
    let ends = [OutputEnd::Model, OutputEnd::Free].map(|end| compiled.clone().with_end(end));
    let mut scratches = ends.each_ref().map(Constraint::scratch);
    let mut states = ends.each_ref().map(Constraint::start);
    let mut mask = TokenMask::new(compiled.vocab_len());
    for position in 0..=ids.len() {
        let (mut allowed, mut new, mut known) = ([0; 2], Vec::new(), Vec::new());
        for (at, constraint) in ends.iter().enumerate() {
            let mut fill = || constraint.fill_mask(&mut scratches[at], &states[at], black_box(mask.as_mut()));
            let begin = Instant::now();
            fill();
            new.push(format!("{:?}", begin.elapsed()));
            let begin = Instant::now();
            (0..ROUNDS).for_each(|_| fill());
            known.push(format!("{:?}", begin.elapsed() / ROUNDS));
            allowed[at] = mask.count();
        }
        let [model, free] = allowed;
        let mut ending = 0;
        if ends[1].is_accepting(&states[1]) && ends[1].fill_ends(&mut scratches[1], &states[1], mask.as_mut())
        {
            ending = mask.count();
        }
        let passing = free - model;
        println!(
            "| {name} | {position} | {model} | {passing} | {ending} | {} | {} |",
            new.join(", "),
            known.join(", ")
        );
        if let Some(id) = ids.get(position) {
            for (at, constraint) in ends.iter().enumerate() {
                constraint.advance(&mut scratches[at], &mut states[at], *id)?;
            }
        }
    }
    Ok(())
}
