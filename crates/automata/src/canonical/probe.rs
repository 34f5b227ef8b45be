//! Temporary.
#[test]
fn probe() {
    use std::{sync::Arc, time::Instant};
    use unskew_core::*;
    let name = std::env::var("NAME").unwrap_or("cl100k".into());
    let path = format!("/work/shared/data/tokenizers/{name}/tokenizer.json");
    let t = unskew_vocab::Tokenizer::from_file(path).unwrap();
    let v = Arc::new(t.vocabulary().clone());
    let a = Arc::new(super::TokenizerAutomaton::new(&v, t.tokenization().unwrap()).unwrap());
    let trie = Arc::new(TokenTrie::new(&v).unwrap());
    let pattern = std::env::var("PATTERN").unwrap();
    let text = std::env::var("TEXT").unwrap();
    for _ in 0..3 {
        let b = Instant::now();
        let c = super::CanonicalConstraint::new(&pattern, Arc::clone(&a), Arc::clone(&v), Arc::clone(&trie), &crate::Limits::default()).unwrap();
        println!("compile {:?}", b.elapsed());
        let mut scratch = c.scratch();
        let mut state = c.start();
        let mut mask = TokenMask::new(v.len());
        let ids = t.encode_continuation(&text).unwrap();
        for i in 0..=ids.len() {
            let b = Instant::now();
            c.fill_mask(&mut scratch, &state, mask.as_mut());
            println!("mask {:?} {}", b.elapsed(), mask.count());
            if i < ids.len() { println!("{:?}", String::from_utf8_lossy(v.text(ids[i]).unwrap())); c.advance(&mut scratch, &mut state, ids[i]).unwrap(); }
        }
    }
}
