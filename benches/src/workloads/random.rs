//! Numbers from a fixed seed.

/// A generator (xorshift).
pub(super) struct Random(u64);

impl Random {
    /// Seeded by a name (FNV-1a).
    pub(super) fn new(name: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    /// From `first` to `last`, both included.
    pub(super) fn range(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// `make`, from `least` to `most` times, with `between` in between.
    pub(super) fn list(
        &mut self,
        [least, most]: [usize; 2],
        between: &str,
        mut make: impl FnMut(&mut Self) -> String,
    ) -> String {
        let count = self.range(least, most);
        (0..count).map(|_| make(self)).collect::<Vec<_>>().join(between)
    }

    /// Pieces of `make` until they are `least` bytes long.
    pub(super) fn until(&mut self, least: usize, mut make: impl FnMut(&mut Self) -> String) -> String {
        let mut text = String::new();
        while text.len() < least {
            text += &make(self);
        }
        text
    }
}
