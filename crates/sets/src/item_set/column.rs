//! One column of a set: the tokens at one place of all items that reach the place, and the bits of the items that end
//! there.
//!
//! Tokens lie one after the other, in one, two or four bytes each, little-endian. Next to them lies one bit a token:
//! the item ends with this token. The bits come in blocks of 64 bytes, a line of the cache. A block begins with the
//! number of items that end in front of the block, and 480 bits follow. One look into memory therefore says whether
//! an item ends, and where the next column continues.
//!
//! All reads go through byte slices. Columns of a mapped file, of any alignment and on any platform, are therefore read
//! like columns in memory. The compiler makes each read a single load.

/// Bits of a block: 16 words, the first of which is a count.
const BLOCK_BITS: u32 = 480;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64;

/// The number of bytes that the bits of `len` tokens take.
pub(crate) fn end_bytes(len: u32) -> usize {
    len.div_ceil(BLOCK_BITS) as usize * BLOCK_BYTES
}

/// The number of bytes of a token where ids are below `vocab_len`.
pub(crate) fn width_for(vocab_len: usize) -> usize {
    match vocab_len {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

/// Sorted or unsorted tokens of `W` bytes each.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a, const W: usize>(&'a [[u8; W]]);

impl<'a, const W: usize> Tokens<'a, W> {
    /// The tokens in `bytes`; bytes after the last whole token are not read.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Token `at`.
    #[inline]
    pub(crate) fn get(self, at: usize) -> u32 {
        number(self.0[at])
    }

    /// The tokens of a range.
    #[inline]
    pub(crate) fn slice(self, begin: usize, end: usize) -> Self {
        Self(&self.0[begin..end])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.iter().map(|bytes| number(*bytes))
    }

    /// Whether the token is there; the tokens need no order.
    #[inline]
    pub(crate) fn contains(self, token: u32) -> bool {
        self.0.iter().any(|bytes| number(*bytes) == token)
    }

    /// The number of tokens that are smaller than `token`; the tokens are sorted.
    #[inline]
    pub(crate) fn lower_bound(self, token: u32) -> usize {
        self.0.partition_point(|bytes| number(*bytes) < token)
    }

    /// The end of the run of tokens that equal token `begin`: steps that double, then a search in the last step.
    /// O(log n) for a run of n.
    #[inline]
    pub(crate) fn run_end(self, begin: usize) -> usize {
        let token = self.get(begin);
        let (mut low, mut step) = (begin, 1);
        // token(low) is the token; places at or beyond `high` are not known to hold it.
        loop {
            let next = low + step;
            if next >= self.len() || self.get(next) != token {
                let high = next.min(self.len());
                return low + 1 + self.0[low + 1..high].partition_point(|bytes| number(*bytes) == token);
            }
            (low, step) = (next, 2 * step);
        }
    }

    /// The begin and the end of the run of `token`; the tokens are sorted.
    #[inline]
    pub(crate) fn run_of(self, token: u32) -> Option<(usize, usize)> {
        let begin = self.lower_bound(token);
        if begin == self.len() || self.get(begin) != token {
            return None;
        }
        Some((begin, self.run_end(begin)))
    }
}

/// A token of at most four bytes as a number.
#[inline]
fn number<const W: usize>(bytes: [u8; W]) -> u32 {
    let mut word = [0; 4];
    word[..W].copy_from_slice(&bytes);
    u32::from_le_bytes(word)
}

/// The bits of a column that mark the ends of items.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a>(&'a [u8]);

impl<'a> Ends<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The number of items that end in front of token `at`, and whether an item ends with token `at`. For bytes that
    /// are not those of a column the answer is wrong, and there is no panic.
    #[inline]
    pub(crate) fn at(self, at: u32) -> (u32, bool) {
        let (block, bit) = (at / BLOCK_BITS, at % BLOCK_BITS);
        let bytes = &self.0[block as usize * BLOCK_BYTES..][..BLOCK_BYTES];
        let words = bytes.as_chunks::<4>().0;
        let word = |index: u32| u32::from_le_bytes(words[1 + index as usize]);
        let mut rank = u32::from_le_bytes(words[0]);
        for index in 0..bit / 32 {
            rank = rank.wrapping_add(word(index).count_ones());
        }
        let last = word(bit / 32);
        let below = last & ((1 << (bit % 32)) - 1);
        (rank.wrapping_add(below.count_ones()), last >> (bit % 32) & 1 == 1)
    }
}

/// Makes the blocks of [`Ends`] bit by bit.
#[derive(Debug, Default)]
pub(crate) struct EndsWriter {
    block: [u32; 16],
    bits: u32,
    /// The number of ended items.
    ended: u32,
}

impl EndsWriter {
    /// Appends a bit; a full block is written first.
    pub(crate) fn push(&mut self, ends: bool, out: &mut Vec<u8>) {
        if self.bits == BLOCK_BITS {
            self.flush(out);
        }
        if ends {
            self.block[1 + self.bits as usize / 32] |= 1 << (self.bits % 32);
            self.ended += 1;
        }
        self.bits += 1;
    }

    /// Writes the block that is not full yet, if there is one.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        if self.bits > 0 {
            out.extend(self.block.iter().flat_map(|word| word.to_le_bytes()));
        }
        (self.block, self.bits) = ([0; 16], 0);
        self.block[0] = self.ended;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn runs_are_those_of_a_scan(mut tokens in prop::collection::vec(0u32..12, 0..80), token in 0u32..13) {
            tokens.sort_unstable();
            let bytes = bytes(&tokens);
            let column = Tokens::<4>::new(&bytes);
            let first = tokens.iter().position(|other| *other == token);
            let naive = first.map(|first| (first, first + tokens.iter().filter(|other| **other == token).count()));
            prop_assert_eq!(column.run_of(token), naive);
            prop_assert_eq!(column.contains(token), naive.is_some());
            if let Some((begin, end)) = naive {
                for at in begin..end {
                    prop_assert_eq!(column.run_end(at), end);
                }
            }
        }

        #[test]
        fn ranks_are_those_of_a_scan(bits in prop::collection::vec(any::<bool>(), 1..1500)) {
            let (mut writer, mut out) = (EndsWriter::default(), Vec::new());
            bits.iter().for_each(|bit| writer.push(*bit, &mut out));
            writer.flush(&mut out);
            prop_assert_eq!(out.len(), end_bytes(bits.len() as u32));
            let mut rank = 0;
            for (at, bit) in bits.iter().enumerate() {
                prop_assert_eq!(Ends::new(&out).at(at as u32), (rank, *bit));
                rank += u32::from(*bit);
            }
        }
    }
}
