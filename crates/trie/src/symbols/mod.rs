//! The symbols in which a quotient spells tokens: classes of characters that patterns rarely distinguish.
//!
//! Lower-case ASCII letters are one symbol, upper-case ones another, digits a third. Each other ASCII byte is a
//! symbol of its own. Beyond ASCII a symbol is the characters of one kind in a stretch of Unicode, mostly a script.
//! The kinds are small letters, capitals, other letters, marks, digits, and the rest. Only symbols that the
//! vocabulary uses get a number.
//!
//! The partition is a guess at the patterns in use, and only speed depends on it: the automaton is asked every time
//! whether it distinguishes the characters of a symbol.
//!
//! That question must not cost a run over 20,000 ideographs. The UTF-8 encodings of a symbol are therefore kept as
//! products of ranges of bytes ([`Utf8Range`]): the ideographs are two of them.
//!
//! Tried instead: classes of bytes instead of characters. Lead bytes cut scripts in two (Cyrillic words of n letters
//! are 2^n strings of classes), and `\p{L}` distinguishes the trailing bytes of all three-byte characters.

mod runs;
#[cfg(test)]
mod tests;
mod utf8;

pub(crate) use self::runs::Runs;
use self::utf8::{ANY, Utf8Range, ranges_of, target};
use crate::automaton::ByteAutomaton;

/// The most symbols: a [`SymbolSet`] has room for as many.
pub(crate) const MAX_SYMBOLS: usize = 256;

/// The number of a symbol. An ASCII byte that is a symbol by itself has its own value as its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Symbol(pub(crate) u8);

/// The symbol `a..=z`. The numbers of this and the next two are those of bytes that are no symbols by themselves.
pub(crate) const LOWER: Symbol = Symbol(b'a');
/// The symbol `A..=Z`.
pub(crate) const UPPER: Symbol = Symbol(b'A');
/// The symbol `0..=9`.
pub(crate) const DIGIT: Symbol = Symbol(b'0');

/// The number of the first symbol beyond ASCII.
const FIRST_NON_ASCII: u8 = 128;

impl Symbol {
    /// The symbol of an ASCII byte.
    #[inline]
    pub(crate) const fn of_ascii(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            _ => Self(byte),
        }
    }

    /// The bytes of an ASCII symbol, as a range.
    #[inline]
    pub(crate) fn ascii_bytes(self) -> (u8, u8) {
        match self {
            LOWER => (b'a', b'z'),
            UPPER => (b'A', b'Z'),
            DIGIT => (b'0', b'9'),
            Self(byte) => (byte, byte),
        }
    }

    #[inline]
    pub(crate) fn is_ascii(self) -> bool {
        self.0 < FIRST_NON_ASCII
    }

    /// The symbol as an index.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The state to which a symbol of ASCII leads: a state, [`DEAD`](crate::DEAD), or
    /// [`MIXED`](crate::automaton::MIXED) if its characters do not all lead to one.
    #[inline]
    pub(crate) fn ascii_target<A: ByteAutomaton>(self, automaton: &mut A, runs: &Runs, state: u32) -> u32 {
        let (first, last) = self.ascii_bytes();
        runs.target(automaton, state, first, last)
    }
}

/// A set of symbols.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct SymbolSet([u64; 4]);

impl SymbolSet {
    #[inline]
    pub(crate) fn insert(&mut self, symbol: Symbol) {
        self.0[symbol.index() / 64] |= 1 << (symbol.0 % 64);
    }

    #[inline]
    pub(crate) fn union(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    /// The symbols of ASCII, one bit each.
    #[inline]
    pub(crate) fn ascii(self) -> u128 {
        u128::from(self.0[1]) << 64 | u128::from(self.0[0])
    }

    /// Whether the set has symbols beyond ASCII.
    #[inline]
    pub(crate) fn has_non_ascii(self) -> bool {
        self.0[2] | self.0[3] != 0
    }

    /// The symbols, in ascending order.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = Symbol> {
        let (mut words, mut index) = (self.0, 0);
        std::iter::from_fn(move || {
            while words[index] == 0 {
                if index == 3 {
                    return None;
                }
                index += 1;
            }
            let bit = words[index].trailing_zeros() as u8;
            words[index] &= words[index] - 1;
            Some(Symbol(index as u8 * 64 + bit))
        })
    }
}

/// The kinds of characters that a stretch of Unicode is divided into.
const KINDS: usize = 6;

/// The first character of each stretch, and whether the stretch is divided into kinds. The last entry ends the
/// characters that have a symbol.
const STRETCHES: [(u32, bool); 68] = [
    (0x80, true),
    (0x100, true),
    (0x250, true),
    (0x300, false),
    (0x370, true),
    (0x400, true),
    (0x530, true),
    (0x590, true),
    (0x600, true),
    (0x700, true),
    (0x900, true),
    (0x980, true),
    (0xa00, true),
    (0xa80, true),
    (0xb00, true),
    (0xb80, true),
    (0xc00, true),
    (0xc80, true),
    (0xd00, true),
    (0xd80, true),
    (0xe00, true),
    (0xe80, true),
    (0xf00, true),
    (0x1000, true),
    (0x10a0, true),
    (0x1100, false),
    (0x1200, true),
    (0x1780, true),
    (0x1800, true),
    (0x1e00, true),
    (0x1f00, true),
    (0x2000, true),
    (0x2070, true),
    (0x20a0, false),
    (0x2100, true),
    (0x2190, false),
    (0x2460, true),
    (0x2500, false),
    (0x27c0, true),
    (0x2c00, true),
    (0x3000, true),
    (0x3040, true),
    (0x30a0, true),
    (0x3100, true),
    (0x3130, true),
    (0x3190, true),
    (0x3400, false),
    (0x4dc0, false),
    (0x4e00, false),
    (0xa000, true),
    (0xac00, false),
    (0xd7a4, false),
    (0xe000, false),
    (0xf900, false),
    (0xfb00, true),
    (0xfe00, true),
    (0xfe10, true),
    (0xff00, true),
    (0xff61, true),
    (0x1_0000, false),
    (0x1_d400, false),
    (0x1_d800, false),
    (0x1_f000, false),
    (0x1_fb00, false),
    (0x2_0000, false),
    (0x2_a6e0, false),
    (0x3_0000, false),
    (0x4_0000, false),
];

/// Ranges of marks among the letters of scripts with many tokens. The standard library does not distinguish them from
/// letters.
const MARKS: [(u32, u32); 20] = [
    (0x591, 0x5bd),
    (0x610, 0x61a),
    (0x64b, 0x65f),
    (0x670, 0x670),
    (0x6d6, 0x6dc),
    (0x6df, 0x6e4),
    (0x6e7, 0x6e8),
    (0x6ea, 0x6ed),
    (0xe31, 0xe31),
    (0xe34, 0xe3a),
    (0xe47, 0xe4e),
    (0xeb1, 0xeb1),
    (0xeb4, 0xebc),
    (0xec8, 0xece),
    (0x102b, 0x103e),
    (0x1056, 0x1059),
    (0x17b4, 0x17d3),
    (0x302a, 0x302f),
    (0x3099, 0x309a),
    (0xfe20, 0xfe2f),
];

/// The symbol of each character.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbols {
    /// For each stretch and kind: the symbol. `None` where there is none yet.
    of: Vec<[Option<Symbol>; KINDS]>,
    /// For each symbol beyond ASCII: its encodings.
    ranges: Vec<Vec<Utf8Range>>,
}

impl Symbols {
    /// The symbols of ASCII alone.
    pub(crate) fn new() -> Self {
        Self { of: vec![[None; KINDS]; STRETCHES.len()], ranges: vec![] }
    }

    /// The symbol of `char`, which gets a new number if needed. `None` if `char` has no symbol: it is in no stretch,
    /// or the numbers are used up.
    pub(crate) fn symbol(&mut self, char: char) -> Option<Symbol> {
        if char.is_ascii() {
            return Some(Symbol::of_ascii(char as u8));
        }
        let stretch = STRETCHES.partition_point(|(begin, _)| *begin <= char as u32) - 1;
        let (begin, divided) = STRETCHES[stretch];
        let end = STRETCHES.get(stretch + 1)?.0;
        let kind = kind(char, divided);
        if self.of[stretch][kind].is_none() {
            let number = usize::from(FIRST_NON_ASCII) + self.ranges.len();
            self.of[stretch][kind] = Some(Symbol(u8::try_from(number).ok()?));
            self.ranges.push(ranges_of(
                (begin..end).filter_map(char::from_u32).filter(|c| self::kind(*c, divided) == kind),
            ));
        }
        self.of[stretch][kind]
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.of[..]) + self.ranges.iter().map(|ranges| size_of_val(&ranges[..])).sum::<usize>()
    }

    /// The state to which a symbol beyond ASCII leads: a state, [`DEAD`](crate::DEAD), or
    /// [`MIXED`](crate::automaton::MIXED) if its characters do not all lead to one. `runs` are the runs of bytes that
    /// the automaton does not distinguish.
    pub(crate) fn target<A: ByteAutomaton>(
        &self,
        automaton: &mut A,
        runs: &mut Runs,
        state: u32,
        symbol: Symbol,
    ) -> u32 {
        target(&self.ranges[symbol.index() - usize::from(FIRST_NON_ASCII)], automaton, runs, state)
    }

    /// As [`target`](Self::target), for all characters beyond ASCII.
    pub(crate) fn any_target<A: ByteAutomaton>(automaton: &mut A, runs: &mut Runs, state: u32) -> u32 {
        target(&ANY, automaton, runs, state)
    }
}

/// The kind of `char` within its stretch.
fn kind(char: char, divided: bool) -> usize {
    if !divided {
        return 0;
    }
    let code = char as u32;
    // The scripts of India put their marks at the same places of blocks of 128.
    let indic_mark = (0x900..0xe00).contains(&code)
        && matches!(code & 0x7f, 0x00..=0x03 | 0x3a..=0x3c | 0x3e..=0x4f | 0x51..=0x57 | 0x62..=0x63);
    if indic_mark || MARKS.iter().any(|(first, last)| (*first..=*last).contains(&code)) {
        3
    } else if char.is_lowercase() {
        0
    } else if char.is_uppercase() {
        1
    } else if char.is_alphabetic() {
        2
    } else if char.is_numeric() {
        4
    } else {
        5
    }
}
