//! Prints the contents of a tokenizer file: `inspect FILE [TEXT]`.
//!
//! The facts that engines work with (kinds of ids, normaliser, splits, merges), how long loading took, and the ids of a
//! text with the bytes that each spells. With `@PATH` for the text, the file's text is encoded and only counted.

#![allow(clippy::print_stdout, reason = "a tool that prints")]

use std::{error::Error, time::Instant};

use unskew_core::Symbols;
use unskew_vocab::Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: inspect FILE [TEXT | @PATH]")?;
    let start = Instant::now();
    let tokenizer = Tokenizer::from_file(&path)?;
    println!("loaded in {:.0} ms: {:?}", start.elapsed().as_secs_f64() * 1e3, tokenizer.vocabulary());
    println!(
        "in front of a sequence: {:?}, behind: {:?}",
        tokenizer.begin_of_sequence(),
        tokenizer.behind_sequence()
    );
    tokenizer.notes().iter().for_each(|note| println!("note: {note}"));
    match tokenizer.tokenization() {
        Ok(facts) => {
            println!("normalizers: {:?}", facts.normalizers);
            println!("splits: {:?}", facts.splits);
            let (merges, whole) = (facts.merges.len(), facts.whole_pieces);
            let symbols = match &facts.symbols {
                Symbols::Bytes => "bytes".to_owned(),
                Symbols::Characters { fallback } => format!("characters, {} fallback tokens", fallback.len()),
            };
            println!("merges: {merges}, whole pieces: {whole}, symbols: {symbols}");
        }
        Err(error) => println!("segmentation: {error}"),
    }
    match arguments.next() {
        None => {}
        Some(text) if text.starts_with('@') => {
            let text = std::fs::read_to_string(&text[1..])?;
            let start = Instant::now();
            let ids = tokenizer.encode(&text, false)?;
            let seconds = start.elapsed().as_secs_f64();
            let speed = text.len() as f64 / seconds / 1e6;
            println!("{} bytes, {} tokens, {seconds:.2} s ({speed:.2} MB/s)", text.len(), ids.len());
            let exact = tokenizer.vocabulary().decode(&ids) == *tokenizer.expected_bytes(&text)?;
            println!("the tokens spell the text: {exact}");
        }
        Some(text) => {
            for id in tokenizer.encode(&text, true)? {
                println!(
                    "{id:>8} {:?} {:?}",
                    tokenizer.vocabulary().kind(id),
                    tokenizer.vocabulary().name(id)
                );
            }
        }
    }
    Ok(())
}
