//! x
mod common;
use common::oracle::{Alphabet, Oracle, bytes};
use unskew_grammars::{Grammar, GrammarLimits, LarkOptions};

fn verdict(grammar: &str, text: &str) -> String {
    let grammar = match Grammar::from_lark(grammar, &LarkOptions::default(), &GrammarLimits::default()) {
        Ok(grammar) => grammar,
        Err(error) => return error.to_string(),
    };
    let oracle = Oracle::new(&grammar, &Alphabet::all());
    let text = bytes(text);
    let viable = oracle.viable_len(&text);
    if viable < text.len() { return format!("rej {viable}"); }
    if oracle.accepts(&text) { format!("acc {viable}") } else { format!("inc {viable}") }
}

#[test]
fn dump() {
    let text = std::fs::read_to_string("/tmp/lazycases.txt").unwrap();
    let mut grammar = String::new();
    for case in text.split("\u{1}") {
        let Some((g, texts)) = case.split_once("\u{2}") else { continue };
        grammar = g.to_owned();
        println!("--- {grammar}");
        for text in texts.split("\u{3}") {
            let (text, theirs) = text.split_once("\u{4}").unwrap();
            let ours = verdict(&grammar, text);
            println!("{} {text:?}: {ours}   [{theirs}]", if ours == theirs { "  " } else { "!!" });
        }
    }
}
