//! Only token sequences that the tokenizer itself writes: `encode(decode(ids)) = ids`.

mod derivation;
mod forest;
mod nfc;
mod pair;
#[cfg(test)]
mod testing;

/// scratch
pub fn scratch(v: &unskew_core::Vocabulary, t: &unskew_core::Tokenization) {
    let begin = std::time::Instant::now();
    let mut symbols = Vec::new();
    match &t.symbols {
        unskew_core::Symbols::Bytes => {
            symbols.extend(v.text_tokens().filter(|(_, b)| b.len() == 1).map(|x| x.0))
        }
        unskew_core::Symbols::Characters { .. } => symbols.extend(
            v.text_tokens()
                .filter(|(_, b)| std::str::from_utf8(b).is_ok_and(|s| s.chars().count() == 1))
                .map(|x| x.0),
        ),
    }
    let d = derivation::Derivations::new(
        v.len(),
        |t| v.text(unskew_core::TokenId(t)).map_or(0, <[u8]>::len),
        symbols.into_iter(),
        &t.merges,
        derivation::MergeOrder::LowestRank,
    );
    let a = begin.elapsed();
    let begin = std::time::Instant::now();
    let made = d.key.iter().filter(|k| **k != u32::MAX).count();
    let un = d.key.iter().zip(&d.time).filter(|(k, t)| k < t).count();
    let n = forest::Neighbours::new(d, &t.merges);
    let b = begin.elapsed();
    let begin = std::time::Instant::now();
    let mut sum = 0u64;
    let mut max = 0u64;
    for c in &n.class_token {
        let mut k = 0;
        n.forbidden(*c, |_| k += 1);
        sum += k;
        max = max.max(k);
    }
    println!(
        "{} tokens, {} made, {} unordered, {} classes, trees {:?}, rest {:?}, {} MB; forbidden mean {} max {} in {:?}",
        v.len(),
        made,
        un,
        n.class_token.len(),
        a,
        b,
        n.memory_usage() >> 20,
        sum / n.class_token.len() as u64,
        max,
        begin.elapsed()
    );
    for c in v.text_tokens().filter(|x| !n.trees.is_made(x.0.0)).take(8) {
        println!("   not made {:?}", String::from_utf8_lossy(c.1));
    }
}
