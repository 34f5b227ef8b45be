//! Any bytes as the file of a tokenizer automaton, and valid files with any changes. The result is an error,
//! or an automaton with masks, and never a panic.

#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;
use unskew_automata::{CanonicalConstraint, CanonicalIndex, Limits, TokenizerAutomaton};
use unskew_core::{AddedToken, Constraint, Merge, MergeTable, SplitBehavior, SplitPattern, Symbols, TokenId, TokenMask, Tokenization, Vocabulary};
use unskew_trie::TokenTrie;

#[derive(Arbitrary, Debug)]
enum Case<'a> {
    Bytes(&'a [u8]),
    /// A valid file with replaced words, truncated or extended. Checksum and length are corrected.
    Changed {
        words: Vec<(u16, u32)>,
        bytes: Vec<(u16, u8)>,
        len: Option<i8>,
    },
}

struct Toy {
    trie: Arc<TokenTrie>,
    facts: Tokenization,
    file: Vec<u8>,
}

/// A tokenizer with tokens of all kinds, and its file.
fn toy() -> Toy {
    let mut builder = Vocabulary::builder();
    let [a, b, ab, aab, abab, bb] =
        ["a", "b", "ab", "aab", "abab", "bb"].map(|text| builder.text(text.as_bytes()));
    builder.text(b"abba");
    builder.unused();
    let fallback = "é".bytes().map(|byte| (byte, builder.text(&[byte]))).collect();
    let mut facts = Tokenization::default();
    let merge = |(left, right, result): (TokenId, TokenId, TokenId)| Merge { left, right, result };
    let merges = [(a, b, ab), (ab, ab, abab), (a, ab, aab), (b, b, bb)];
    facts.merges = MergeTable::new(merges.into_iter().map(merge).collect()).unwrap();
    facts.whole_pieces = true;
    facts.symbols = Symbols::Characters { fallback };
    let (pattern, behavior, invert) = ("b|[ab]{1,4}".to_owned(), SplitBehavior::Isolated, false);
    facts.splits.push(SplitPattern::Regex { pattern, behavior, invert });
    let (content, special, normalized) = ("[x]".to_owned(), false, false);
    let id = builder.text(content.as_bytes());
    facts.added.push(AddedToken {
        id,
        content,
        special,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized,
    });
    let vocabulary = builder.build().unwrap();
    let file = TokenizerAutomaton::new(&vocabulary, &facts).unwrap().to_bytes();
    Toy { trie: Arc::new(TokenTrie::new(vocabulary).unwrap()), facts, file }
}

fuzz_target!(|case: Case<'_>| {
    static TOY: OnceLock<Toy> = OnceLock::new();
    let Toy { trie, facts, file } = TOY.get_or_init(toy);
    let bytes = match case {
        Case::Bytes(bytes) => bytes.to_vec(),
        Case::Changed { words, bytes, len } => {
            let mut file = file.clone();
            for (at, word) in words {
                let at = 40 + usize::from(at) % (file.len() / 4 - 10) * 4;
                file[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            for (at, byte) in bytes {
                let at = 40 + usize::from(at) % (file.len() - 40);
                file[at] = byte;
            }
            file.resize(file.len().saturating_add_signed(isize::from(len.unwrap_or(0))), 0);
            let len = file.len() as u64;
            file[24..32].copy_from_slice(&len.to_le_bytes());
            let checksum = XxHash3_64::oneshot(&file[24..]);
            file[16..24].copy_from_slice(&checksum.to_le_bytes());
            file
        }
    };
    let Ok(automaton) = TokenizerAutomaton::from_bytes(&bytes, trie.vocabulary(), facts) else { return };
    for token in (0..automaton.vocab_len()).map(TokenId::from_index) {
        automaton.forbidden_after(token);
    }
    let index = Arc::new(CanonicalIndex::new(Arc::new(automaton), Arc::clone(trie)).unwrap());
    let constraint = CanonicalConstraint::new("([abxé]|\\[|\\])*", &index, &Limits::default());
    let Ok(constraint) = constraint else { return };
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    for step in 0..6 {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let allowed: Vec<TokenId> = mask.ids().collect();
        let Some(token) = allowed.get(step * 7 % allowed.len().max(1)) else { break };
        if constraint.advance(&mut scratch, &mut state, *token).is_err() {
            break;
        }
    }
});
