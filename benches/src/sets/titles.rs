//! Synthetic titles: token sequences with the statistics of names, as the published task sizes have them.
//!
//! Tokens are drawn by Zipf's distribution (exponent 1.05 over 100,000 ids in random order), and a title has 1 +
//! Poisson(6.7) of them, at most 15: 7.7 on average. Frequent tokens make the shared prefixes. The end is one id
//! more.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use rustc_hash::FxHashSet;

/// Ids of tokens are below this.
pub(crate) const TOKENS: u32 = 100_000;

/// The id that stands for the end of a title in structures that need one.
pub(crate) const END: u32 = TOKENS;

/// The length of a mask: that of a vocabulary with some ids after the last token.
pub(crate) const VOCAB: usize = 100_352;

/// The most tokens of a title.
pub(crate) const LONGEST: usize = 15;

/// Draws titles and tokens.
pub(crate) struct Titles {
    rng: ChaCha8Rng,
    /// The probability of the ids up to each, in order of frequency, times 2^64.
    cumulative: Vec<u64>,
    /// The id of each rank.
    ids: Vec<u32>,
    /// The probability of at most so many tokens more than one.
    lengths: Vec<f64>,
    /// The length of every title, where it is given.
    length: Option<usize>,
}

impl Titles {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let weights: Vec<f64> = (1..=TOKENS).map(|rank| f64::from(rank).powf(-1.05)).collect();
        let sum: f64 = weights.iter().sum();
        let mut below = 0.0;
        let up_to = |weight: &f64| {
            below += weight / sum;
            (below * u64::MAX as f64) as u64
        };
        let cumulative = weights.iter().map(up_to).collect();
        let mut ids: Vec<u32> = (0..TOKENS).collect();
        for last in (1..ids.len()).rev() {
            ids.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
        }
        let (mut mass, mut total) = ((-6.7f64).exp(), 0.0);
        let lengths = (1..=LONGEST).map(|more| {
            total += mass;
            mass *= 6.7 / more as f64;
            total
        });
        Self { cumulative, ids, lengths: lengths.collect(), length: None, rng }
    }

    /// Gives every title so many tokens.
    pub(crate) fn length(&mut self, length: Option<usize>) {
        self.length = length;
    }

    /// A token.
    pub(crate) fn token(&mut self) -> u32 {
        let at = self.rng.next_u64();
        self.ids[self.cumulative.partition_point(|up_to| *up_to < at).min(self.ids.len() - 1)]
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.rng.next_u64() % limit as u64) as usize
    }

    fn title(&mut self) -> Vec<u32> {
        if let Some(length) = self.length {
            return (0..length).map(|_| self.token()).collect();
        }
        let uniform = self.rng.next_u64() as f64 / u64::MAX as f64;
        let more = self.lengths.partition_point(|up_to| *up_to < uniform).min(LONGEST - 1);
        (0..=more).map(|_| self.token()).collect()
    }

    /// So many different titles.
    pub(crate) fn set(&mut self, len: usize) -> Vec<Vec<u32>> {
        let mut seen = FxHashSet::default();
        while seen.len() < len {
            seen.insert(self.title());
        }
        let mut titles: Vec<Vec<u32>> = seen.into_iter().collect();
        // A hash set has an order of its own, which is no order of the input.
        for last in (1..titles.len()).rev() {
            let other = self.below(last + 1);
            titles.swap(last, other);
        }
        titles
    }

    /// So many lines of text: each token of a title is a word of its own.
    pub(crate) fn lines(&mut self, len: usize) -> String {
        let mut text = String::new();
        for title in self.set(len) {
            for (at, token) in title.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { " " });
                text.push_str(&word(*token, at == 0));
            }
            text.push('\n');
        }
        text
    }
}

/// A pronounceable word for a number, the shorter the smaller.
fn word(mut number: u32, capital: bool) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut word = String::new();
    loop {
        word.push(char::from(CONSONANTS[number as usize % CONSONANTS.len()]));
        number /= CONSONANTS.len() as u32;
        word.push(char::from(VOWELS[number as usize % VOWELS.len()]));
        number /= VOWELS.len() as u32;
        if number == 0 {
            break;
        }
    }
    if capital {
        word[..1].make_ascii_uppercase();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_the_length_that_is_said() {
        let titles = Titles::new(1).set(20_000);
        let mean = titles.iter().map(Vec::len).sum::<usize>() as f64 / 20_000.0;
        assert!((mean - 7.7).abs() < 0.15, "{mean}");
        assert!(titles.iter().all(|title| (1..=LONGEST).contains(&title.len())));
        let words: FxHashSet<String> = (0..TOKENS).map(|token| word(token, false)).collect();
        assert_eq!(words.len(), TOKENS as usize);
    }
}
