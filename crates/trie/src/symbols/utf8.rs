//! Sets of UTF-8 encodings as products of ranges of bytes, and the state to which all encodings of such a set lead.

use super::runs::{LAST_TRAILING, Runs, TRAILING};
use crate::automaton::{ByteAutomaton, MIXED};

/// Encodings of equal length. All bytes but the last are each in a range; the last is one of `0x80 + i` for the bits
/// `i` of `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Utf8Range {
    /// `ranges[..len]` are the bytes before the last.
    pub(super) ranges: [(u8, u8); 3],
    pub(super) len: u8,
    pub(super) last: u64,
}

/// All characters beyond ASCII.
pub(super) const ANY: [Utf8Range; 8] = {
    const fn any(len: u8, ranges: [(u8, u8); 3]) -> Utf8Range {
        Utf8Range { ranges, len, last: u64::MAX }
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

/// The state to which the encodings in `ranges` lead, if all lead to one; see
/// [`Symbols::target`](super::Symbols::target).
pub(super) fn target<A: ByteAutomaton>(
    ranges: &[Utf8Range],
    automaton: &mut A,
    runs: &mut Runs,
    state: u32,
) -> u32 {
    let mut target = None;
    for encodings in ranges {
        // All encodings must agree byte by byte. That is a coarser question than whether they agree in the end; with
        // rare exceptions, automata without equal states answer both alike.
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

/// The encodings of `chars`, which ascend, in few products.
pub(super) fn ranges_of(chars: impl Iterator<Item = char>) -> Vec<Utf8Range> {
    let mut all: Vec<Utf8Range> = Vec::new();
    let mut buffer = [0; 4];
    for char in chars {
        let bytes = char.encode_utf8(&mut buffer).as_bytes();
        let (last, before) = bytes.split_last().expect("an encoding has bytes");
        let mut ranges = [(0, 0); 3];
        before.iter().zip(&mut ranges).for_each(|(byte, range)| *range = (*byte, *byte));
        let bit = 1 << (last - 0x80);
        match all.last_mut() {
            Some(open) if open.ranges == ranges => open.last |= bit,
            _ => all.push(Utf8Range { ranges, len: before.len() as u8, last: bit }),
        }
    }
    // Products that differ in one range and are neighbours in it become one, from the innermost range outwards.
    for level in (0..3).rev() {
        let mut merged: Vec<Utf8Range> = Vec::new();
        for next in all {
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
        all = merged;
    }
    all
}
