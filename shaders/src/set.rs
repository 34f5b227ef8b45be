//! A set of token sequences as sorted columns in flat arrays, in the form of the kernels, and the search in them in
//! plain loops.
//!
//! Column *t* holds token *t* of every item that has one, in the order of the items. A prefix is an interval of the
//! column after its last token. Functions have the names of those in `set.wgsl` and compute the same, step by step.

/// Places of a block of ends: one word counts the items that end before the block, fifteen words hold a bit for each
/// place.
pub const BLOCK_BITS: u32 = 480;

/// Words of a block of ends.
pub const BLOCK_WORDS: u32 = 16;

/// The number of parts that the tokens may be divided into: each part is a binding, and bindings are limited in
/// number and size.
pub const PARTS: usize = 4;

/// The arrays of a set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetArrays {
    /// The number of columns.
    pub columns: u32,
    /// 0, 1 or 2 for tokens of one, two or four bytes.
    pub width_log: u32,
    /// The tokens, in words, least significant first. A column begins at the beginning of a word.
    pub cells: Vec<u32>,
    /// Three words for each column: its length, the place of its first token in `cells`, in tokens, and the place of
    /// its first block in this array, in words. The blocks follow the three words of the last column.
    pub index: Vec<u32>,
}

/// A prefix: 24 bytes on a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interval {
    /// The number of tokens.
    pub depth: u32,
    /// The begin of the interval in column `depth`: the items that are longer than the prefix.
    pub lo: u32,
    /// The end of the interval.
    pub hi: u32,
    /// The first item with this prefix.
    pub first_item: u32,
    /// 1 if the prefix is an item itself.
    pub ends: u32,
    /// 0 after a refused token: no item has the prefix, and the other numbers are those before that token.
    pub valid: u32,
}

impl Interval {
    /// The interval as the words of a buffer.
    pub fn to_words(self) -> [u32; 6] {
        let Self { depth, lo, hi, first_item, ends, valid } = self;
        [depth, lo, hi, first_item, ends, valid]
    }

    /// The interval from the words of [`to_words`](Self::to_words).
    pub fn from_words([depth, lo, hi, first_item, ends, valid]: [u32; 6]) -> Self {
        Self { depth, lo, hi, first_item, ends, valid }
    }
}

/// A column of [`SetArrays`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    len: u32,
    tokens: u32,
    ends: u32,
}

impl SetArrays {
    /// The arrays of these items.
    ///
    /// # Panics
    ///
    /// If the items are not sorted or one is there twice, if a token does not fit into `1 << width_log` bytes, or
    /// there are 2 32 tokens.
    pub fn from_sorted(items: &[&[u32]], width_log: u32) -> Self {
        assert!(items.is_sorted_by(|one, next| one < next), "items are sorted and distinct");
        let columns = items.iter().map(|item| item.len()).max().unwrap_or(0);
        let mut arrays = Self { columns: to_u32(columns), width_log, ..Self::default() };
        arrays.index.resize(3 * columns, 0);
        for depth in 0..columns {
            let column: Vec<(u32, bool)> = items
                .iter()
                .filter(|item| item.len() > depth)
                .map(|item| (item[depth], item.len() == depth + 1))
                .collect();
            let bits = 8 << width_log;
            let in_word = 4 >> width_log;
            let first = to_u32(arrays.cells.len()) * in_word;
            let row = [to_u32(column.len()), first, to_u32(arrays.index.len())];
            arrays.index[3 * depth..3 * depth + 3].copy_from_slice(&row);
            for tokens in column.chunks(in_word as usize) {
                let word = tokens.iter().rev().fold(0u64, |word, (token, _)| {
                    assert!(u64::from(*token) < 1 << bits, "token {token} has more than {bits} bits");
                    word << bits | u64::from(*token)
                });
                arrays.cells.push(u32::try_from(word).expect("no more than a word"));
            }
            let mut rank = 0;
            for places in column.chunks(BLOCK_BITS as usize) {
                let mut block = [0; BLOCK_WORDS as usize];
                block[0] = rank;
                for (place, (_, ends)) in places.iter().enumerate() {
                    block[1 + place / 32] |= u32::from(*ends) << (place % 32);
                    rank += u32::from(*ends);
                }
                arrays.index.extend(block);
            }
        }
        arrays
    }

    /// The empty prefix. `ends` is 1 for a set with the empty item, and else 0.
    pub fn root(&self, ends: u32) -> Interval {
        Interval { hi: self.column_at(0).len, ends, valid: 1, ..Interval::default() }
    }

    pub(crate) fn column_at(&self, depth: u32) -> Column {
        if depth >= self.columns {
            return Column { len: 0, tokens: 0, ends: 0 };
        }
        let at = 3 * depth as usize;
        Column { len: self.index[at], tokens: self.index[at + 1], ends: self.index[at + 2] }
    }

    pub(crate) fn token_at(&self, column: Column, place: u32) -> u32 {
        let at = column.tokens + place;
        let in_word = 2 - self.width_log;
        let word = self.cells[(at >> in_word) as usize];
        if in_word == 0 {
            return word;
        }
        let bits = 8 << self.width_log;
        word >> ((at & ((1 << in_word) - 1)) * bits) & ((1 << bits) - 1)
    }

    /// The first place in `lo..hi` whose token is at least `token`, or `hi`.
    pub(crate) fn lower_bound(&self, column: Column, lo: u32, hi: u32, token: u32) -> u32 {
        let (mut low, mut high) = (lo, hi);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.token_at(column, middle) < token { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The end of the run of equal tokens that begins at `begin`, at most `hi`.
    pub(crate) fn run_end(&self, column: Column, begin: u32, hi: u32) -> u32 {
        let token = self.token_at(column, begin);
        let (mut low, mut step, mut high) = (begin, 1, hi);
        while step < hi - low {
            if self.token_at(column, low + step) != token {
                high = low + step;
                break;
            }
            low += step;
            step *= 2;
        }
        self.lower_bound(column, low + 1, high, token + 1)
    }

    /// The number of items that end in front of a place, and whether an item ends there.
    pub(crate) fn ends_at(&self, column: Column, place: u32) -> (u32, u32) {
        let block = (column.ends + place / BLOCK_BITS * BLOCK_WORDS) as usize;
        let bit = place % BLOCK_BITS;
        let word = |word: u32| self.index[block + 1 + word as usize];
        let mut rank = self.index[block];
        for before in 0..bit / 32 {
            rank += word(before).count_ones();
        }
        let last = word(bit / 32);
        rank += (last & ((1 << (bit % 32)) - 1)).count_ones();
        (rank, last >> (bit % 32) & 1)
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("a set has fewer than 2^32 tokens")
}
