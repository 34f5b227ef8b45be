//! Random merge tables for the tests of `canonical`.

use std::collections::HashMap;

use unskew_core::{Merge, MergeTable, TokenId};

/// A small generator: the tests need the same cases on every machine, not good random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

/// The order and the completeness of a table's merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listing {
    /// Each token once, after its parts.
    Proper,
    /// All splits of each token, by the rank of the token, as in tables converted from rank files.
    AllSplits,
    /// All splits of each token, in any order.
    Shuffled,
}

/// A random table over the first `letters` letters: the texts of the tokens (symbols first), and the merges.
pub(crate) fn table(
    random: &mut Random,
    letters: usize,
    merges: usize,
    listing: Listing,
) -> (Vec<Vec<u8>>, MergeTable) {
    let mut texts: Vec<Vec<u8>> =
        (0..letters).map(|letter| vec![b'a' + u8::try_from(letter).unwrap()]).collect();
    let mut ids: HashMap<Vec<u8>, u32> = texts.iter().cloned().zip(0..).collect();
    let mut list: Vec<(u32, u32, u32)> = Vec::new();
    for _ in 0..merges {
        let (left, right) = (random.below(texts.len()), random.below(texts.len()));
        let text = [texts[left].clone(), texts[right].clone()].concat();
        if text.len() > 8 || ids.contains_key(&text) {
            continue;
        }
        let id = u32::try_from(texts.len()).unwrap();
        ids.insert(text.clone(), id);
        texts.push(text);
        list.push((u32::try_from(left).unwrap(), u32::try_from(right).unwrap(), id));
    }
    if listing != Listing::Proper {
        list.clear();
        for (text, id) in texts.iter().zip(0u32..) {
            for cut in 1..text.len() {
                if let (Some(left), Some(right)) = (ids.get(&text[..cut]), ids.get(&text[cut..])) {
                    list.push((*left, *right, id));
                }
            }
        }
    }
    if listing == Listing::Shuffled {
        for at in (1..list.len()).rev() {
            list.swap(at, random.below(at + 1));
        }
    }
    let merge = |(left, right, result): (u32, u32, u32)| Merge {
        left: TokenId(left),
        right: TokenId(right),
        result: TokenId(result),
    };
    (texts, MergeTable::new(list.into_iter().map(merge).collect()).unwrap())
}
