//! Rows of masks for other programs: reads `{"spec": ..., "ids": [...]}` a line, and writes the mask after these
//! tokens as hexadecimal words.
//!
//! The tests of the Python package compare its masks with these. With `--time`, a line has the nanoseconds of one
//! fill behind its mask: the least mean of some rounds.
//!
//! `cargo run --release --package unskew-engine --example rows -- tokenizer.json [--time] < lines`

#![allow(clippy::print_stdout, reason = "a program that answers on its output")]

use std::{
    fmt::Write as _,
    io::BufRead,
    time::{Duration, Instant},
};

use serde::Deserialize;
use unskew_core::TokenId;
use unskew_engine::{Compiler, Matcher, Spec, TokenSpace};
use unskew_vocab::Tokenizer;

#[derive(Deserialize)]
struct Line {
    spec: Box<serde_json::value::RawValue>,
    ids: Vec<u32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("give a tokenizer.json")?;
    let timed = args.next().is_some_and(|arg| arg == "--time");
    let compiler = Compiler::new(TokenSpace::from_tokenizer(Tokenizer::from_file(path)?, &[], 0)?);
    let mut row = vec![0; compiler.mask_words()];
    for line in std::io::stdin().lock().lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let mut matcher = compiler.compile(&Spec::from_json(line.spec.get())?)?.matcher();
        let ids: Vec<TokenId> = line.ids.into_iter().map(TokenId).collect();
        if matcher.accept_all(&ids)? != ids.len() {
            return Err(format!("a token of {ids:?} is not allowed").into());
        }
        matcher.fill(&mut row)?;
        let mut answer = String::with_capacity(8 * row.len());
        for word in &row {
            write!(answer, "{word:08x}")?;
        }
        if timed {
            write!(answer, " {}", nanoseconds(&matcher, &mut row)?)?;
        }
        println!("{answer}");
    }
    Ok(())
}

fn nanoseconds(matcher: &Matcher, row: &mut [u32]) -> Result<u128, Box<dyn std::error::Error>> {
    const CALLS: u32 = 5_000;
    let mut least = Duration::MAX;
    for _ in 0..9 {
        let begin = Instant::now();
        for _ in 0..CALLS {
            matcher.fill(std::hint::black_box(row))?;
        }
        least = least.min(begin.elapsed());
    }
    Ok((least / CALLS).as_nanos())
}
