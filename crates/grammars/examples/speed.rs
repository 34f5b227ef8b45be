//! scratch
use std::{sync::Arc, time::Instant};
use unskew_core::{Constraint, TokenMask, TokenTrie};
use unskew_grammars::*;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let tk = unskew_vocab::Tokenizer::from_file(&dir).unwrap();
    let vocabulary = Arc::new(tk.vocabulary().clone());
    let trie = Arc::new(TokenTrie::new(&vocabulary).unwrap());
    let limits = GrammarLimits::default();
    let build = || {
        let mut b = Grammar::builder(&limits);
        let value = b.rule("value");
        let object = b.rule("object");
        let array = b.rule("array");
        let pair = b.rule("pair");
        let ws = b.regex("WS", "[ \t\n]+").unwrap();
        let ws = b.optional(ws);
        let string = b.regex("STRING", r#""([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*""#).unwrap();
        let number = b.regex("NUMBER", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").unwrap();
        let (o, a, p, v) = (b.call(object), b.call(array), b.call(pair), b.call(value));
        let lits = ["true", "false", "null"].map(|l| b.literal(l));
        let body = b.choice([o, a, string, number, lits[0], lits[1], lits[2]]);
        b.define(value, body);
        let (lb, rb, ls, rs, comma, colon) =
            (b.literal("{"), b.literal("}"), b.literal("["), b.literal("]"), b.literal(","), b.literal(":"));
        let body = b.sequence([string, ws, colon, ws, v]);
        b.define(pair, body);
        let more = b.sequence([ws, comma, ws, p]);
        let more = b.repeat(more, 0, None);
        let inner = b.sequence([p, more]);
        let inner = b.optional(inner);
        let body = b.sequence([lb, ws, inner, ws, rb]);
        b.define(object, body);
        let more = b.sequence([ws, comma, ws, v]);
        let more = b.repeat(more, 0, None);
        let inner = b.sequence([v, more]);
        let inner = b.optional(inner);
        let body = b.sequence([ls, ws, inner, ws, rs]);
        b.define(array, body);
        b.build(value).unwrap()
    };
    let library = Arc::new(TreeLibrary::new(Arc::clone(&vocabulary), Arc::clone(&trie), 256 << 20));
    if std::env::var("PERF").is_ok() {
        let g = build();
        let c = GrammarConstraint::with_library(&g, &library, &limits).unwrap();
        let doc = r#"{"name": "Jane Doe", "age": 31, "tags": ["a", "bc", "the quick brown fox"], "address": {"street": "12 Main St\nApt", "zip": "12345", "geo": [1.25, -3e10, null, true]}, "nested": [[{"k": []}], {}], "text": "Lorem ipsum dolor sit amet, consectetur adipiscing elit."}"#;
        let ids = tk.encode(doc, false).unwrap();
        let mut m = TokenMask::new(c.vocab_len());
        let t = Instant::now();
        for _ in 0..2000 {
            let mut s = c.scratch();
            let mut state = c.start();
            for id in &ids {
                c.fill_mask(&mut s, &state, m.as_mut());
                c.advance(&mut s, &mut state, *id).unwrap();
            }
        }
        println!("cold document {:?}", t.elapsed() / 2000);
        return;
    }
    for round in 0..6 {
        let t = Instant::now();
        let g = build();
        let t1 = t.elapsed();
        let c = if round < 3 {
            GrammarConstraint::new(&g, Arc::clone(&vocabulary), Arc::clone(&trie), &limits).unwrap()
        } else {
            GrammarConstraint::with_library(&g, &library, &limits).unwrap()
        };
        let t2 = t.elapsed();
        let mut s = c.scratch();
        let mut m = TokenMask::new(c.vocab_len());
        c.fill_mask(&mut s, &c.start(), m.as_mut());
        println!(
            "round {round}: grammar {t1:?} compiled {t2:?} first mask {:?} count {}",
            t.elapsed(),
            m.count()
        );
        let doc = r#"{"name": "Jane Doe", "age": 31, "tags": ["a", "bc", "the quick brown fox"], "address": {"street": "12 Main St\nApt", "zip": "12345", "geo": [1.25, -3e10, null, true]}, "nested": [[{"k": []}], {}], "text": "Lorem ipsum dolor sit amet, consectetur adipiscing elit."}"#;
        for pass in 0..2 {
            let mut state = c.start();
            let mut times = vec![];
            for id in tk.encode(doc, false).unwrap() {
                let before = s.stats();
                let t = Instant::now();
                c.fill_mask(&mut s, &state, m.as_mut());
                let tm = t.elapsed();
                let t = Instant::now();
                c.advance(&mut s, &mut state, id).unwrap();
                let tc = t.elapsed();
                if round == 5 && pass == 0 {
                    println!(
                        "{:?} {:?} {:?} steps {}",
                        String::from_utf8_lossy(vocabulary.text(id).unwrap()),
                        tm,
                        tc,
                        s.stats().steps - before.steps
                    );
                }
                times.push(tm);
            }
            assert!(c.is_accepting(&state));
            times.sort();
            println!(
                "pass {pass} n {} p50 {:?} p90 {:?} p99 {:?} max {:?} sizes {:?} mem {}",
                times.len(),
                times[times.len() / 2],
                times[times.len() * 9 / 10],
                times[times.len() * 99 / 100],
                times.last().unwrap(),
                s.sizes(),
                s.memory_usage()
            );
        }
    }
}
