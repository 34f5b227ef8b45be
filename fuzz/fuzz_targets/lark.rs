//! Any text as a grammar in Lark: see `unskew_fuzz::read_grammar`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use unskew_fuzz::read_grammar;
use unskew_notation::GrammarFormat;

fuzz_target!(|text: &str| read_grammar(text, GrammarFormat::Lark));
