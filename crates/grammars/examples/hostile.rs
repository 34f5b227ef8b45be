//! scratch
use std::{sync::Arc, time::Instant};
use unskew_core::{Constraint, TokenId, TokenMask, TokenTrie};
use unskew_grammars::*;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let tk = unskew_vocab::Tokenizer::from_file(&dir).unwrap();
    let vocabulary = Arc::new(tk.vocabulary().clone());
    let trie = Arc::new(TokenTrie::new(&vocabulary).unwrap());
    let limits = GrammarLimits::default();
    let alts: String = (0..100_000).map(|i| format!("\"k{i}\"")).collect::<Vec<_>>().join(" | ");
    let chain: String = (0..100_000).map(|i| format!("r{i} ::= \"a\" r{} | \"b\"\n", i + 1)).collect();
    let unit: String = (0..100_000).map(|i| format!("u{i} ::= u{}\n", i + 1)).collect();
    let opts: String = (0..1000).map(|i| format!("\"o{i}\"?")).collect::<Vec<_>>().join(" ");
    let cases: Vec<(&str, String, String)> = vec![
        ("ss", "root ::= root root | \"a\"".into(), "a".repeat(1000)),
        ("sss", "root ::= root root root | root root | \"a\"".into(), "a".repeat(500)),
        ("nest", "root ::= \"(\" root \")\" | \"x\"".into(), "(".repeat(20000)),
        ("alts", format!("root ::= ({alts})*"), "k1k22k333k4444".into()),
        ("chain", format!("root ::= r0\n{chain}r100000 ::= \"c\""), "a".repeat(3000)),
        ("unit", format!("root ::= u0\n{unit}u100000 ::= \"c\" | \"d\" root"), "dddc".into()),
        (
            "cycle",
            "root ::= root | \"a\" root | a\na ::= b | \"a\"\nb ::= a | \"b\"".into(),
            "a".repeat(1000),
        ),
        ("opts", format!("root ::= {opts}"), "o1o5o999".into()),
        ("count", "root ::= [a-z]{0,100000}".into(), "hello".repeat(200)),
        ("expo", "root ::= a*\na ::= b*\nb ::= c*\nc ::= \"a\" | \"aa\" | \"aaa\"".into(), "a".repeat(500)),
        ("idid", "root ::= i+\ni ::= [a-z]+".into(), "hello".repeat(100)),
        (
            "palin",
            "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"".into(),
            "ab".repeat(200),
        ),
    ];
    for (name, text, doc) in &cases {
        let t = Instant::now();
        let g = match Grammar::from_gbnf(text, &limits) {
            Ok(g) => g,
            Err(e) => {
                println!("{name}: {:?} {e}", t.elapsed());
                continue;
            }
        };
        let t0 = t.elapsed();
        let c = match GrammarConstraint::new(&g, Arc::clone(&vocabulary), Arc::clone(&trie), &limits) {
            Ok(c) => c,
            Err(e) => {
                println!("{name}: {:?} {e}", t.elapsed());
                continue;
            }
        };
        let t1 = t.elapsed();
        let mut s = c.scratch();
        let mut m = TokenMask::new(c.vocab_len());
        c.fill_mask(&mut s, &c.start(), m.as_mut());
        let t2 = t.elapsed();
        let mut state = c.start();
        let (mut tm, mut ta) = (vec![], vec![]);
        let ids: Vec<TokenId> = tk.encode(doc, false).unwrap();
        for id in &ids {
            let t = Instant::now();
            c.fill_mask(&mut s, &state, m.as_mut());
            tm.push(t.elapsed());
            let t = Instant::now();
            if c.advance(&mut s, &mut state, *id).is_err() {
                println!("rejected");
                break;
            }
            ta.push(t.elapsed());
        }
        tm.sort();
        ta.sort();
        println!(
            "{name}: read {t0:?} compile {t1:?} first {t2:?} tokens {} mask p50 {:?} max {:?} adv p50 {:?} max {:?} sizes {:?} mem {} {:?}",
            ids.len(),
            tm[tm.len() / 2],
            tm.last().unwrap(),
            ta[ta.len() / 2],
            ta.last(),
            s.sizes(),
            s.memory_usage(),
            s.stats()
        );
    }
}
