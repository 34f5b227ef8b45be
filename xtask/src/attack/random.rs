//! Numbers by a seed (xorshift64*, Vigna 2016): the same case on every machine, and `xtask` needs no more crates.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03 | 1);
        // Neighbours among the seeds part.
        (0..8).for_each(|_| _ = random.next());
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize * limit) >> 32
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A length: small ones are as likely as large ones.
    pub(crate) fn length(&mut self, most: usize) -> usize {
        let bits = (usize::BITS - most.leading_zeros()) as usize;
        let power = self.below(bits + 1);
        self.below(1 << power).min(most)
    }
}
