//! The followers of the prefixes with the most items, found once when a set is built.
//!
//! By Zipf's law some intervals of the first columns are a good part of the whole set, and a search in such an
//! interval goes through memory that no cache holds. For prefixes of one and two tokens with at least [`MIN_WIDE`]
//! items, the set therefore also stores the tokens that may follow, in a section of their own. Many followers are one
//! bit for each id: a candidate is one look, and a mask is read word by word. Few followers are a sorted list. All of
//! this storage may take a twenty-fourth of the tokens' bytes ([`SHARE`]). The prefixes with the most items come
//! first.
//!
//! An entry names its interval by the depth and the begin. Entries are sorted; a step to a prefix searches them once.

use super::column::Tokens;
use crate::error::SetFileError;

/// Prefixes with fewer items have no entry: their interval lies in some lines of the cache.
pub(crate) const MIN_WIDE: u32 = 256;

/// The most tokens of a prefix with an entry.
pub(crate) const DEEPEST: u32 = 2;

/// The divisor of the limit: the entries' tokens take at most the bytes of all tokens divided by this.
pub(crate) const SHARE: u64 = 24;

/// Bytes of an entry: the depth, the begin of the interval, the place of its tokens, and their form and number.
const ENTRY: usize = 16;

/// The stored tokens of an entry begin at multiples of this, a line of the cache.
const ALIGN: usize = 64;

/// Set in the last word of an entry whose tokens are bits; the other bits are the number of tokens.
const BITS: u32 = 1 << 31;

/// The bytes of one bit for each id, in words of 32 bits.
fn bit_bytes(vocab_len: u32) -> usize {
    vocab_len.div_ceil(u32::BITS) as usize * 4
}

/// The tokens that may follow a prefix.
#[derive(Clone, Copy)]
pub(crate) enum Followers<'a, const W: usize> {
    /// Tokens in order; equal ones may follow each other.
    Sorted(Tokens<'a, W>),
    /// A bit for each id.
    Bits(&'a [[u8; 4]]),
}

impl<const W: usize> Followers<'_, W> {
    #[inline]
    pub(crate) fn contains(self, token: u32) -> bool {
        match self {
            Self::Sorted(tokens) => {
                let at = tokens.lower_bound(token);
                at < tokens.len() && tokens.get(at) == token
            }
            Self::Bits(words) => words
                .get((token / u32::BITS) as usize)
                .is_some_and(|word| u32::from_le_bytes(*word) >> (token % u32::BITS) & 1 == 1),
        }
    }
}

/// The entries of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wide {
    /// The depth and the begin of each interval, sorted.
    keys: Vec<u64>,
    /// The place of the interval's tokens, in bytes, and their form and number.
    values: Vec<(usize, u32)>,
}

fn key(depth: u32, lo: u32) -> u64 {
    u64::from(depth) << 32 | u64::from(lo)
}

impl Wide {
    /// Reads the entries, whose tokens lie in a section of `followers` bytes.
    pub(crate) fn read<const W: usize>(
        bytes: &[u8],
        followers: usize,
        vocab_len: u32,
    ) -> Result<Self, SetFileError> {
        let invalid = SetFileError::Invalid { part: "wide prefixes" };
        let mut wide = Self::default();
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        for entry in entries {
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| entry[4 * at + byte]));
            let (key, begin, what) = (key(word(0), word(1)), word(2) as usize * ALIGN, word(3));
            let len = if what & BITS == 0 { what as usize * W } else { bit_bytes(vocab_len) };
            let fits = begin.checked_add(len).is_some_and(|end| end <= followers);
            if !fits || wide.keys.last().is_some_and(|last| *last >= key) {
                return Err(invalid);
            }
            wide.keys.push(key);
            wide.values.push((begin, what));
        }
        if rest.is_empty() { Ok(wide) } else { Err(invalid) }
    }

    /// The number of the entry of an interval, from 1; 0 where there is none.
    #[inline]
    pub(crate) fn find(&self, depth: u32, lo: u32, hi: u32) -> u32 {
        if depth > DEEPEST || hi - lo < MIN_WIDE {
            return 0;
        }
        self.keys.binary_search(&key(depth, lo)).map_or(0, |at| at as u32 + 1)
    }

    /// The tokens of the entry with this number.
    #[inline]
    pub(crate) fn followers<'a, const W: usize>(
        &self,
        entry: u32,
        bytes: &'a [u8],
        vocab_len: u32,
    ) -> Option<Followers<'a, W>> {
        let (begin, what) = *self.values.get((entry as usize).checked_sub(1)?)?;
        let bytes = &bytes[begin..];
        Some(if what & BITS == 0 {
            Followers::Sorted(Tokens::new(&bytes[..what as usize * W]))
        } else {
            Followers::Bits(bytes[..bit_bytes(vocab_len)].as_chunks().0)
        })
    }

    /// The memory of the entries, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.keys[..]) + size_of_val(&self.values[..])
    }
}

/// A prefix that may get an entry, and the tokens that follow it.
struct Candidate {
    rows: u32,
    depth: u32,
    lo: u32,
    tokens: Vec<u32>,
}

/// The prefixes of one length, in the order of the items.
#[derive(Default)]
struct Level {
    prefix: Option<Vec<u32>>,
    /// The places of the column so far, and the begin of the prefix's interval.
    rows: u32,
    lo: u32,
    /// The tokens that follow the prefix.
    tokens: Vec<u32>,
}

/// Finds the entries of a set while its items are written.
pub(crate) struct WideWriter {
    levels: [Level; DEEPEST as usize],
    candidates: Vec<Candidate>,
    vocab_len: u32,
    width: usize,
}

impl WideWriter {
    pub(crate) fn new(vocab_len: u32, width: usize) -> Self {
        Self { levels: Default::default(), candidates: Vec::new(), vocab_len, width }
    }

    /// Takes the next item.
    pub(crate) fn push(&mut self, item: &[u32]) {
        for (level, depth) in self.levels.iter_mut().zip(1..) {
            let Some(prefix) = item.get(..depth) else { break };
            if level.prefix.as_deref() != Some(prefix) {
                self.candidates.extend(level.end(depth as u32));
                level.prefix = Some(prefix.to_vec());
            }
            if let Some(token) = item.get(depth) {
                level.rows += 1;
                if level.tokens.last() != Some(token) {
                    level.tokens.push(*token);
                }
            }
        }
    }

    /// The entries and their tokens, in at most `left` bytes.
    pub(crate) fn finish(mut self, mut left: u64) -> (Vec<u8>, Vec<u8>) {
        let ends = self.levels.iter_mut().zip(1..).filter_map(|(level, depth)| level.end(depth));
        self.candidates.extend(ends);
        self.candidates.sort_unstable_by_key(|one| (std::cmp::Reverse(one.rows), one.depth, one.lo));
        let bits = bit_bytes(self.vocab_len);
        let mut kept: Vec<(Candidate, bool)> = Vec::new();
        for candidate in self.candidates {
            let list = candidate.tokens.len() * self.width;
            // A list that is as long as the interval is not faster than the interval.
            let list_helps = 2 * list <= candidate.rows as usize * self.width;
            let mut fits = |bytes: usize| {
                let bytes = (bytes.next_multiple_of(ALIGN) + ENTRY) as u64;
                let fits = bytes <= left;
                left -= if fits { bytes } else { 0 };
                fits
            };
            let as_bits = (bits <= 2 * list || !list_helps) && fits(bits);
            if as_bits || list_helps && fits(list) {
                kept.push((candidate, as_bits));
            }
        }
        kept.sort_unstable_by_key(|(one, _)| (one.depth, one.lo));

        let (mut entries, mut bytes) = (Vec::new(), Vec::new());
        for (Candidate { depth, lo, tokens, .. }, as_bits) in kept {
            let begin = u32::try_from(bytes.len() / ALIGN).expect("a part of the tokens");
            let what = tokens.len() as u32 | if as_bits { BITS } else { 0 };
            entries.extend([depth, lo, begin, what].into_iter().flat_map(u32::to_le_bytes));
            if as_bits {
                let mut words = vec![0u32; bits / 4];
                tokens
                    .iter()
                    .for_each(|token| words[(token / u32::BITS) as usize] |= 1 << (token % u32::BITS));
                bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
            } else {
                bytes
                    .extend(tokens.iter().flat_map(|token| token.to_le_bytes().into_iter().take(self.width)));
            }
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        }
        (entries, bytes)
    }
}

impl Level {
    /// The candidate of the prefix that ends here, if the prefix has many items.
    fn end(&mut self, depth: u32) -> Option<Candidate> {
        let (lo, rows) = (self.lo, self.rows - self.lo);
        self.lo = self.rows;
        if rows < MIN_WIDE {
            self.tokens.clear();
            return None;
        }
        Some(Candidate { rows, depth, lo, tokens: std::mem::take(&mut self.tokens) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form of the followers of the prefix `[1]`, true for bits, and the followers.
    fn kept(rows: u32, distinct: u32, vocab_len: u32, left: u64) -> Option<(bool, Vec<u32>)> {
        let mut writer = WideWriter::new(vocab_len, 4);
        let mut items: Vec<Vec<u32>> = (0..rows).map(|at| vec![1, at % distinct, at]).collect();
        items.sort();
        items.iter().for_each(|item| writer.push(item));
        let (entries, bytes) = writer.finish(left);
        let wide = Wide::read::<4>(&entries, bytes.len(), vocab_len).unwrap();
        assert_eq!(wide.find(1, 1, rows + 1), 0);
        let followers = wide.followers::<4>(wide.find(1, 0, rows), &bytes, vocab_len)?;
        let tokens = (0..vocab_len).filter(|token| followers.contains(*token)).collect();
        Some((matches!(followers, Followers::Bits(_)), tokens))
    }

    #[test]
    fn what_is_kept_is_small_and_right() {
        // 1,000 ids are 128 bytes, or 32 tokens; 100,000 are 12,500. An entry takes 16.
        for (rows, distinct, vocab_len, left, expected) in [
            (255, 3, 1000, u64::MAX, None),
            (256, 15, 1000, u64::MAX, Some(false)),
            (256, 16, 1000, u64::MAX, Some(true)),
            (256, 16, 1000, 144, Some(true)),
            (256, 16, 1000, 143, Some(false)),
            (256, 16, 1000, 80, Some(false)),
            (256, 16, 1000, 79, None),
            (256, 250, 1000, u64::MAX, Some(true)),
            (256, 250, 1000, 143, None),
            (256, 128, 100_000, u64::MAX, Some(false)),
            (256, 129, 100_000, u64::MAX, Some(true)),
            (256, 129, 100_000, 12_000, None),
        ] {
            let kept = kept(rows, distinct, vocab_len, left);
            let form = kept.as_ref().map(|(bits, _)| *bits);
            assert_eq!(form, expected, "{rows} {distinct} {vocab_len} {left}");
            assert!(kept.is_none_or(|(_, tokens)| tokens.into_iter().eq(0..distinct)));
        }
    }

    #[test]
    fn entries_out_of_order_or_of_nothing_are_refused() {
        let entry = |words: [u32; 4]| words.map(u32::to_le_bytes).concat();
        let read = |bytes: &[u8]| Wide::read::<2>(bytes, 256 - 64, 900).is_ok();
        assert!(read(&[entry([1, 5, 0, 64]), entry([1, 6, 1, BITS]), entry([2, 0, 2, 0])].concat()));
        // Wrong entries: the same interval again, one that sorts in front, tokens and bits that exceed the section, a
        // cut entry.
        for wrong in
            [[1, 5, 0, 1], [1, 4, 0, 1], [0, 9, 0, 1], [1, 6, 2, 33], [1, 6, 3, BITS], [1, 6, u32::MAX, 0]]
        {
            assert!(!read(&[entry([1, 5, 0, 64]), entry(wrong)].concat()), "{wrong:?}");
        }
        assert!(!read(&entry([1, 6, 2, 1])[..15]));
    }
}
