//! The symbols in which the quotient spells tokens: classes of characters that patterns rarely distinguish.
//!
//! Lower-case ASCII letters are one symbol, upper-case ones another, digits a third. Each other ASCII byte is a symbol of its own.
//! Beyond ASCII a symbol is the characters of one kind in a stretch of Unicode, mostly a script. The kinds are small letters,
//! capitals, other letters, marks, digits, and the rest. Only symbols that the vocabulary uses get a number.
//!
//! The partition is a guess at the patterns in use, and only speed depends on it: the automaton is asked every time whether it
//! distinguishes the characters of a symbol.
//!
//! That question must not cost a run over 20,000 ideographs. The UTF-8 encodings of a symbol are therefore kept as *boxes*,
//! products of ranges of bytes: the ideographs are two boxes.
//!
//! Tried instead: classes of bytes instead of characters. Lead bytes cut scripts in two (Cyrillic words of n letters are 2^n
//! strings of classes), and `\p{L}` distinguishes the trailing bytes of all three-byte characters.

use crate::fill::{ByteAutomaton, DEAD, MIXED};

/// The most symbols: a set has room for as many.
pub(crate) const MAX_SYMBOLS: usize = 256;

/// The symbols `a..=z`, `A..=Z` and `0..=9`. The other ASCII bytes have their own value as their number, and these three numbers
/// are free.
pub(crate) const LOWER: u8 = b'a';
pub(crate) const UPPER: u8 = b'A';
pub(crate) const DIGIT: u8 = b'0';

/// The first symbol beyond ASCII.
const FIRST_WIDE: usize = 128;

/// The kinds of characters that a stretch of Unicode is divided into.
const KINDS: usize = 6;

/// The first character of each stretch, and whether the stretch is divided into kinds. The last entry ends the characters that have
/// a symbol.
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

/// Ranges of marks among the letters of scripts with many tokens. The standard library does not distinguish them from letters.
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

/// A product of ranges of bytes, which are all bytes but the last: encodings of equal length, which end in one of the bytes
/// `0x80 + i` for the bits `i` of `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Box {
    /// `ranges[..len]` are the bytes before the last.
    ranges: [(u8, u8); 3],
    len: u8,
    last: u64,
}

/// All characters beyond ASCII.
const ANY: [Box; 8] = {
    const fn any(len: u8, ranges: [(u8, u8); 3]) -> Box {
        Box { ranges, len, last: u64::MAX }
    }
    [
        any(1, [(0xc2, 0xdf), (0, 0), (0, 0)]),
        any(2, [(0xe0, 0xe0), (0xa0, 0xbf), (0, 0)]),
        any(2, [(0xe1, 0xec), (0x80, 0xbf), (0, 0)]),
        any(2, [(0xed, 0xed), (0x80, 0x9f), (0, 0)]),
        any(2, [(0xee, 0xef), (0x80, 0xbf), (0, 0)]),
        any(3, [(0xf0, 0xf0), (0x90, 0xbf), (0x80, 0xbf)]),
        any(3, [(0xf1, 0xf3), (0x80, 0xbf), (0x80, 0xbf)]),
        any(3, [(0xf4, 0xf4), (0x80, 0x8f), (0x80, 0xbf)]),
    ]
};

/// The symbol of each character.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbols {
    /// For each stretch and kind: the symbol, 0 where there is none yet.
    of: Vec<[u8; KINDS]>,
    /// For each symbol from [`FIRST_WIDE`] on: its encodings.
    boxes: Vec<Vec<Box>>,
}

impl Symbols {
    /// The symbols of ASCII alone.
    pub(crate) fn new() -> Self {
        Self { of: vec![[0; KINDS]; STRETCHES.len()], boxes: vec![] }
    }

    /// The symbol of `char`, which gets a new number if needed. `None` if `char` has no symbol: it is in no stretch, or the numbers
    /// are used up.
    pub(crate) fn symbol(&mut self, char: char) -> Option<u8> {
        if char.is_ascii() {
            return Some(ascii(char as u8));
        }
        let stretch = STRETCHES.partition_point(|(begin, _)| *begin <= char as u32) - 1;
        let (begin, divided) = STRETCHES[stretch];
        let end = STRETCHES.get(stretch + 1)?.0;
        let kind = kind(char, divided);
        if self.of[stretch][kind] == 0 {
            let symbol = FIRST_WIDE + self.boxes.len();
            self.of[stretch][kind] = u8::try_from(symbol).ok()?;
            self.boxes.push(boxes(
                (begin..end).filter_map(char::from_u32).filter(|c| self::kind(*c, divided) == kind),
            ));
        }
        Some(self.of[stretch][kind])
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.of.len() * KINDS + self.boxes.iter().map(|boxes| size_of_val(&boxes[..])).sum::<usize>()
    }

    /// The state to which a symbol beyond ASCII leads: a state, [`DEAD`], or [`MIXED`] if its characters do not all lead to one.
    /// `runs` are the runs of bytes that the automaton does not distinguish.
    pub(crate) fn target<A: ByteAutomaton>(
        &self,
        automaton: &mut A,
        runs: &mut Runs,
        state: u32,
        symbol: u8,
    ) -> u32 {
        target(&self.boxes[usize::from(symbol) - FIRST_WIDE], automaton, runs, state)
    }

    /// As [`target`](Self::target), for all characters beyond ASCII.
    pub(crate) fn any_target<A: ByteAutomaton>(&self, automaton: &mut A, runs: &mut Runs, state: u32) -> u32 {
        target(&ANY, automaton, runs, state)
    }
}

/// The state to which the encodings in `boxes` lead, if all lead to one; see [`Symbols::target`].
fn target<A: ByteAutomaton>(boxes: &[Box], automaton: &mut A, runs: &mut Runs, state: u32) -> u32 {
    let mut target = None;
    for encodings in boxes {
        // All encodings must agree byte by byte. That is a coarser question than whether they agree in the end; with rare
        // exceptions, automata without equal states answer both alike.
        let mut at = state;
        for (first, last) in &encodings.ranges[..usize::from(encodings.len)] {
            at = match (*first, *last) {
                (TRAILING, LAST_TRAILING) => runs.any_trailing(automaton, at),
                (first, last) if first == last => automaton.step(at, first),
                (first, last) => runs.target(automaton, at, first, last),
            };
            if at >= MIXED {
                break;
            }
        }
        if at < MIXED {
            at = match runs.any_trailing(automaton, at) {
                MIXED if encodings.last != u64::MAX => runs.target_of_bits(automaton, at, encodings.last),
                target => target,
            };
        }
        if at == MIXED || *target.get_or_insert(at) != at {
            return MIXED;
        }
    }
    target.unwrap_or(MIXED)
}

/// The trailing bytes of UTF-8.
const TRAILING: u8 = 0x80;
const LAST_TRAILING: u8 = 0xbf;

/// Runs of bytes that the automaton does not distinguish, and the known results for the runs of trailing bytes.
pub(crate) struct Runs {
    /// For each byte: the last byte of its run of neighbours of the same class.
    last: [u8; 256],
    /// States, each with the state to which all trailing bytes lead from it. States inside a character are few, every symbol asks
    /// for them again, and in a pattern like `\w` a run is hardly longer than two bytes.
    trailing: [(u32, u32); KNOWN],
}

/// The number of states whose trailing bytes are remembered.
const KNOWN: usize = 32;

impl Runs {
    pub(crate) fn new<A: ByteAutomaton>(automaton: &A) -> Self {
        let mut last = [255; 256];
        for byte in (0..255u8).rev() {
            let same = automaton.class(byte) == automaton.class(byte + 1);
            last[usize::from(byte)] = if same { last[usize::from(byte) + 1] } else { byte };
        }
        Self { last, trailing: [(DEAD, DEAD); KNOWN] }
    }

    /// The last byte of the run of `byte`.
    pub(crate) fn last_of(&self, byte: u8) -> u8 {
        self.last[usize::from(byte)]
    }

    /// The state to which all trailing bytes lead, or [`MIXED`].
    #[inline]
    fn any_trailing<A: ByteAutomaton>(&mut self, automaton: &mut A, state: u32) -> u32 {
        let place = state as usize % KNOWN;
        if self.trailing[place].0 != state {
            self.trailing[place] = (state, self.target(automaton, state, TRAILING, LAST_TRAILING));
        }
        self.trailing[place].1
    }

    /// The state to which the bytes `first..=last` lead, or [`MIXED`].
    #[inline]
    fn target<A: ByteAutomaton>(&self, automaton: &mut A, state: u32, first: u8, last: u8) -> u32 {
        let target = automaton.step(state, first);
        let mut at = self.last[usize::from(first)];
        while at < last {
            if automaton.step(state, at + 1) != target {
                return MIXED;
            }
            at = self.last[usize::from(at) + 1];
        }
        target
    }

    fn target_of_bits<A: ByteAutomaton>(&self, automaton: &mut A, state: u32, mut bits: u64) -> u32 {
        let mut target = None;
        while bits != 0 {
            let byte = 0x80 + bits.trailing_zeros() as u8;
            let next = automaton.step(state, byte);
            if *target.get_or_insert(next) != next {
                return MIXED;
            }
            // All bytes of the run of `byte` are known now.
            let run = u32::from(self.last[usize::from(byte)].min(0xbf)) - 0x80;
            bits = if run == 63 { 0 } else { bits & (u64::MAX << (run + 1)) };
        }
        target.unwrap_or(DEAD)
    }
}

/// The symbol of an ASCII byte.
#[inline]
pub(crate) fn ascii(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' => DIGIT,
        _ => byte,
    }
}

/// The bytes of an ASCII symbol, as a range.
pub(crate) fn ascii_bytes(symbol: u8) -> (u8, u8) {
    match symbol {
        LOWER => (b'a', b'z'),
        UPPER => (b'A', b'Z'),
        DIGIT => (b'0', b'9'),
        _ => (symbol, symbol),
    }
}

impl Symbols {
    /// As [`target`](Self::target), for a symbol of several ASCII characters.
    #[inline]
    pub(crate) fn ascii_target<A: ByteAutomaton>(
        automaton: &mut A,
        runs: &Runs,
        state: u32,
        symbol: u8,
    ) -> u32 {
        let (first, last) = ascii_bytes(symbol);
        runs.target(automaton, state, first, last)
    }
}

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

/// The encodings of `chars`, which ascend, in few boxes.
fn boxes(chars: impl Iterator<Item = char>) -> Vec<Box> {
    let mut boxes: Vec<Box> = Vec::new();
    let mut buffer = [0; 4];
    for char in chars {
        let bytes = char.encode_utf8(&mut buffer).as_bytes();
        let (last, before) = bytes.split_last().expect("an encoding has bytes");
        let mut ranges = [(0, 0); 3];
        before.iter().zip(&mut ranges).for_each(|(byte, range)| *range = (*byte, *byte));
        let bit = 1 << (last - 0x80);
        match boxes.last_mut() {
            Some(open) if open.ranges == ranges => open.last |= bit,
            _ => boxes.push(Box { ranges, len: before.len() as u8, last: bit }),
        }
    }
    // Boxes that differ in one range and are neighbours in it become one, from the innermost range outwards.
    for level in (0..3).rev() {
        let mut merged: Vec<Box> = Vec::new();
        for next in boxes {
            if let Some(open) = merged.last_mut() {
                let mut joined = *open;
                joined.ranges[level].1 = next.ranges[level].1;
                let (mut left, mut right) = (*open, next);
                left.ranges[level] = (0, 0);
                right.ranges[level] = (0, 0);
                if left == right
                    && level < usize::from(next.len)
                    && u16::from(open.ranges[level].1) + 1 == u16::from(next.ranges[level].0)
                {
                    *open = joined;
                    continue;
                }
            }
            merged.push(next);
        }
        boxes = merged;
    }
    boxes
}
