//! SipHash-2-4 with 128 bits: the names of blocks, and the checksum of files.
//!
//! Blocks are looked up by a hash and not compared in full. A block of a bounded string has a million transitions,
//! and its serialisation would take more memory than the results that are kept for it. So two different blocks must
//! never have one hash, even if a pattern was written for that purpose. SipHash is a pseudo-random function. Each
//! library draws its own key. An author of patterns who does not know the key finds a collision among n blocks with
//! probability n^2 / 2^129, which is 10^-26 for a million blocks. An unkeyed 128-bit hash of the same speed would
//! have the same odds against chance, and none against intent.
//!
//! Tried instead: the standard library's hasher. It is the same function with 64 bits and fewer rounds. It may
//! change between versions, and a hash in a file must not change.

/// The hasher. Words are hashed as their bytes in little-endian order.
#[derive(Clone, Debug)]
pub(super) struct Sip {
    state: [u64; 4],
    /// Bytes that do not fill a word yet.
    tail: u64,
    len: u64,
}

impl Sip {
    pub(super) fn new([first, second]: [u64; 2]) -> Self {
        Self {
            state: [
                first ^ 0x736f_6d65_7073_6575,
                second ^ 0x646f_7261_6e64_6f6d ^ 0xee,
                first ^ 0x6c79_6765_6e65_7261,
                second ^ 0x7465_6462_7974_6573,
            ],
            tail: 0,
            len: 0,
        }
    }

    fn rounds(&mut self, count: usize) {
        let [mut a, mut b, mut c, mut d] = self.state;
        for _ in 0..count {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.state = [a, b, c, d];
    }

    fn compress(&mut self, word: u64) {
        self.state[3] ^= word;
        self.rounds(2);
        self.state[0] ^= word;
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.tail |= u64::from(byte) << (8 * (self.len % 8));
        self.len = self.len.wrapping_add(1);
        if self.len.is_multiple_of(8) {
            let word = std::mem::take(&mut self.tail);
            self.compress(word);
        }
    }

    /// Hashes a word. Fast as long as only words are hashed.
    pub(super) fn word(&mut self, word: u64) {
        if self.len.is_multiple_of(8) {
            self.len = self.len.wrapping_add(8);
            self.compress(word);
        } else {
            word.to_le_bytes().iter().for_each(|byte| self.byte(*byte));
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in words.by_ref() {
            self.word(u64::from_le_bytes(word.try_into().expect("8 bytes")));
        }
        words.remainder().iter().for_each(|byte| self.byte(*byte));
    }

    pub(super) fn finish(mut self) -> u128 {
        let last = self.tail | self.len << 56;
        self.compress(last);
        self.state[2] ^= 0xee;
        self.rounds(4);
        let [a, b, c, d] = self.state;
        let low = a ^ b ^ c ^ d;
        self.state[1] ^= 0xdd;
        self.rounds(4);
        let [a, b, c, d] = self.state;
        u128::from(a ^ b ^ c ^ d) << 64 | u128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of the reference implementation (`vectors_sip128`): key 00..0f, messages `[]`, `[0]`, ...
    #[test]
    fn reference_vectors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |len: u8| {
            let mut sip = Sip::new(key);
            sip.bytes(&(0..len).collect::<Vec<u8>>());
            sip.finish().to_le_bytes()
        };
        let expected =
            [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93];
        assert_eq!(hash(0), expected);
        let expected =
            [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45];
        assert_eq!(hash(1), expected);
    }

    #[test]
    fn words_are_their_bytes() {
        let mut by_word = Sip::new([1, 2]);
        by_word.byte(7);
        by_word.word(0x0123_4567_89ab_cdef);
        let mut by_byte = Sip::new([1, 2]);
        by_byte.bytes(&[7, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01]);
        assert_eq!(by_word.finish(), by_byte.finish());
    }
}
