//! Temporary.
#[test]
fn probe() {
    use std::time::Instant;
    use unskew_core::*;
    for name in ["cl100k", "gpt2", "llama2", "llama3", "qwen2", "mistral-v1"] {
    let path = format!("/work/shared/data/tokenizers/{name}/tokenizer.json");
    let t = unskew_vocab::Tokenizer::from_file(path).unwrap();
    let v = t.vocabulary().clone();
    let a = super::TokenizerAutomaton::new(unsafe_cast(&v), t.tokenization().unwrap()).unwrap();
    let b = Instant::now();
    let c = a.certain();
    println!("{name}: certain {:?}; split {} uncertain {} characters {} universal {} regular {}", b.elapsed(), a.split.accepting.len(), c.uncertain(), c.characters_len(), c.universal.iter().filter(|u| **u).count(), a.facts(&v).regular());
    let trie = TokenTrie::new(&v).unwrap();
    for q in 0..a.split.accepting.len() {
        if c.universal[q] {
            let mut counts = std::collections::BTreeMap::new();
            let b = Instant::now();
            trie.walk(q as u32, |s, byte| { let n = a.split.next[s as usize * a.split.classes.len() + a.split.classes.get(byte) as usize]; (n != u32::MAX).then_some(n) }, |_, s| *counts.entry(s).or_insert(0) += 1);
            let w = b.elapsed();
            let mut counts: Vec<_> = counts.into_iter().collect(); counts.sort_by_key(|c| std::cmp::Reverse(c.1));
            println!("  {q}: acc {} mark {} begins {:?} goes {} walk {:?} {} ends {:?}", a.split.accepting[q], a.split.mark[q] as i32, c.begins[q].iter().count(), c.goes[q].iter().count(), w, counts.len(), &counts[..counts.len().min(8)]);
        }
    }
    }
}
fn unsafe_cast(v: &unskew_core::Vocabulary) -> &unskew_core::Vocabulary { v }
