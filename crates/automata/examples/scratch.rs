//! scratch
#![allow(clippy::print_stdout, reason = "x")]
use std::{sync::Arc, time::Instant};
use unskew_automata::*;
use unskew_core::*;
fn main() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let which: Vec<String> = std::env::args().skip(1).collect();
    for name in ["gpt2", "cl100k", "llama3", "qwen2", "llama2", "mistral-v1"] {
        if !which.is_empty() && !which.iter().any(|w| w == name) {
            continue;
        }
        let t =
            unskew_vocab::Tokenizer::from_file(format!("/work/shared/data/tokenizers/{name}/tokenizer.json"))
                .unwrap();
        let begin = Instant::now();
        let a = match TokenizerAutomaton::new(t.vocabulary(), t.tokenization().unwrap()) {
            Ok(a) => Arc::new(a),
            Err(e) => {
                println!("{name}: {e}");
                continue;
            }
        };
        println!("{name}: {:?}, {} classes, {} MB", begin.elapsed(), a.classes(), a.memory_usage() >> 20);
        let v = Arc::new(t.vocabulary().clone());
        let trie = Arc::new(TokenTrie::new(&v).unwrap());
        let spell = |id: &TokenId| String::from_utf8_lossy(v.text(*id).unwrap_or(b"?")).into_owned();
        for r in [
            "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]",
            r#"\{"name": "[A-Za-z ]{1,40}", "age": [0-9]{1,3}, "city": "[A-Za-z ]{1,40}"\}"#,
            r"(\p{L}+[ ,.])*\p{L}+\.",
            "[a-z]{1,200}",
            "[a-z]{5}",
            "(?s:.*)",
            r#"\{"a": "[^"\\\x00-\x1f]*"\}"#,
        ] {
            let begin = Instant::now();
            let c = match CanonicalConstraint::new(r, a.clone(), v.clone(), trie.clone(), &Limits::default())
            {
                Ok(c) => c,
                Err(e) => {
                    println!("  {r}: {e}");
                    continue;
                }
            };
            let t1 = begin.elapsed();
            let begin = Instant::now();
            let mut mask = TokenMask::new(v.len());
            let mut sc = c.scratch();
            c.fill_mask(&mut sc, &c.start(), mask.as_mut());
            let t2 = begin.elapsed();
            let mut times = Vec::new();
            let mut seed = 1u64;
            let mut bad = 0;
            let mut walks = 0;
            for _ in 0..300 {
                let mut s = c.start();
                let mut ids = Vec::new();
                loop {
                    let begin = Instant::now();
                    c.fill_mask(&mut sc, &s, mask.as_mut());
                    times.push(begin.elapsed().as_nanos() as f64 / 1e3);
                    let allowed: Vec<TokenId> = mask.ids().collect();
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    if c.is_accepting(&s) && (allowed.is_empty() || ids.len() > 30 || seed % 16 == 0) {
                        break;
                    }
                    if allowed.is_empty() {
                        println!("DEAD END {:?}", ids.iter().map(&spell).collect::<Vec<_>>());
                        break;
                    }
                    let id = allowed[(seed >> 20) as usize % allowed.len()];
                    c.advance(&mut sc, &mut s, id).unwrap();
                    ids.push(id);
                    if ids.len() > 300 {
                        break;
                    }
                }
                if !c.is_accepting(&s) {
                    continue;
                }
                let text = String::from_utf8(v.decode(&ids)).unwrap();
                walks += 1;
                let e = t.encode_continuation(&text).unwrap();
                if e != ids {
                    bad += 1;
                    if bad < 3 {
                        println!(
                            "   BAD {text:?}: {:?} vs {:?}",
                            ids.iter().map(&spell).collect::<Vec<_>>(),
                            e.iter().map(&spell).collect::<Vec<_>>()
                        );
                    }
                }
            }
            times.sort_by(f64::total_cmp);
            let p = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
            println!(
                "  {:>40.40}: compile {t1:?}, first {t2:?}, {} states; masks p50 {:.1} p99 {:.1} max {:.1}; {bad} bad of {walks}",
                r,
                c.states(),
                p(0.5),
                p(0.99),
                p(1.0)
            );
        }
    }
}
