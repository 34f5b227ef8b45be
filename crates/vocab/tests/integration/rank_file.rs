//! Rank files: the derived merges segment texts as the definition of such files does.

use std::collections::HashMap;

use proptest::prelude::*;
use unskew_core::TokenId;
use unskew_vocab::{Tokenizer, TokenizerError};

use crate::common::base64;

fn file(tokens: &[Vec<u8>]) -> String {
    tokens.iter().enumerate().map(|(rank, token)| format!("{} {rank}\n", base64(token))).collect()
}

/// The encoder of rank files, by definition: a piece that is a token, or the lowest join, leftmost first.
fn by_definition(ranks: &HashMap<Vec<u8>, u32>, piece: &[u8]) -> Vec<TokenId> {
    if let Some(rank) = ranks.get(piece) {
        return vec![TokenId(*rank)];
    }
    let mut parts: Vec<Vec<u8>> = piece.iter().map(|byte| vec![*byte]).collect();
    while let Some((_, at)) =
        parts.windows(2).enumerate().filter_map(|(at, pair)| Some((*ranks.get(&pair.concat())?, at))).min()
    {
        let right = parts.remove(at + 1);
        parts[at].extend(right);
    }
    parts.iter().map(|part| TokenId(ranks[part])).collect()
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(3);
    ProptestConfig { cases: 1000, failure_persistence: None, rng_seed, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Over three letters, with tokens that cannot be reached and tokens that overlap themselves. The pattern splits
    /// nothing.
    #[test]
    fn merges_are_those_of_the_definition(
        tokens in prop::collection::vec(prop_oneof!["[abc]{2,6}", "[ab]{2,5}"], 0..25),
        pieces in prop::collection::vec("[abc]{0,14}", 1..20),
    ) {
        let mut table: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
        for token in tokens {
            if !table.contains(&token.clone().into_bytes()) {
                table.push(token.into_bytes());
            }
        }
        let tokenizer = Tokenizer::from_rank_file(file(&table).as_bytes(), "[^☃]+", &[]).unwrap();
        let ranks: HashMap<Vec<u8>, u32> = table.into_iter().zip(0..).collect();
        for piece in pieces {
            let ids = tokenizer.encode(&piece, false).unwrap();
            prop_assert_eq!(&ids, &by_definition(&ranks, piece.as_bytes()), "{}", piece);
            prop_assert_eq!(tokenizer.vocabulary().decode(&ids), piece.as_bytes());
        }
    }
}

#[test]
fn special_tokens_and_holes() {
    let mut table: Vec<Vec<u8>> = (0..=255u8).rev().map(|byte| vec![byte]).collect();
    table.push(b"ab".to_vec());
    let special = [("<|endoftext|>", 300), ("<|x y|>", 302)];
    let tokenizer = Tokenizer::from_rank_file(file(&table).as_bytes(), r"\s+|\S+", &special).unwrap();
    assert_eq!(tokenizer.vocabulary().len(), 303);
    assert_eq!(tokenizer.vocabulary().text_tokens().count(), 257);
    assert_eq!(tokenizer.vocabulary().text(TokenId(0)), Some(&[255][..]));
    assert_eq!(tokenizer.vocabulary().end_of_sequence(), [TokenId(300)]);
    assert!(tokenizer.tokenization().unwrap().whole_pieces);
    assert_eq!(tokenizer.encode("ab<|x y|>", false).unwrap(), [256, 302].map(TokenId));
}

#[test]
fn errors_name_the_line() {
    let good: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    let message = |bytes: &[u8]| Tokenizer::from_rank_file(bytes, ".", &[]).unwrap_err().to_string();
    let with = |line: &str| message(format!("{}{line}", file(&good)).as_bytes());
    let way = "each line is the base64 of a token, a space and its rank";
    assert_eq!(with("QUJD"), format!("rank file, line 257: there is no space; {way}"));
    assert_eq!(with("QUJ 256"), format!("rank file, line 257: \"QUJ\" is not base64; {way}"));
    assert_eq!(with("QUJD x"), format!("rank file, line 257: the rank of \"QUJD\" is not a number; {way}"));
    assert_eq!(with("QUJD 7"), format!("rank file, line 257: rank 7 is also on line 8; {way}"));
    assert_eq!(
        with("QQ== 256"),
        format!("rank file, line 257: the token \"QQ==\" is also on line 66; {way}")
    );
    assert_eq!(with(" 256"), format!("rank file, line 257: there is no space; {way}"));
    let long = format!("{} 256", base64(&[b'a'; 513]));
    assert!(with(&long).contains("a token of 513 bytes; 1 to 512 are possible"));
    assert!(with("QUJD 4194304").contains("has id 4194304, the limit is 4194304"));
    assert!(message(b"").contains("line 0: the byte 0x00 has no token"));
    assert!(matches!(
        Tokenizer::from_rank_file(file(&good).as_bytes(), "(", &[]),
        Err(TokenizerError::Refused { place, .. }) if place == "pre_tokenizer"
    ));
    assert!(matches!(
        Tokenizer::from_rank_file(file(&good).as_bytes(), ".", &[("a", 300)]),
        Err(TokenizerError::DuplicateToken { .. })
    ));
}

/// A known vocabulary, written as a rank file, comes back with the merges of its `tokenizer.json`.
#[test]
fn a_known_rank_file() {
    for (name, path) in crate::common::known_files() {
        if name != "cl100k" {
            continue;
        }
        let known = Tokenizer::from_file(path).unwrap();
        let text = known.vocabulary().text_tokens().map(|(id, bytes)| format!("{} {id}\n", base64(bytes)));
        let pattern = match &known.tokenization().unwrap().splits[0] {
            unskew_core::SplitPattern::Regex { pattern, .. } => pattern.clone(),
            other => panic!("{other:?}"),
        };
        let control: Vec<_> = known.vocabulary().control_tokens().collect();
        let special: Vec<(&str, u32)> = control.iter().map(|(id, name)| (name.as_ref(), id.0)).collect();
        let read =
            Tokenizer::from_rank_file(text.collect::<String>().as_bytes(), &pattern, &special).unwrap();
        assert_eq!(read.vocabulary(), known.vocabulary());
        assert_eq!(read.tokenization(), known.tokenization());
        for text in crate::common::texts() {
            assert_eq!(read.encode(&text, true).unwrap(), known.encode(&text, true).unwrap());
        }
    }
}
