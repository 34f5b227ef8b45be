//! Byte classes: bytes that no state of an automaton distinguishes. Its table has a column for each class and not for
//! each byte: 4 to 30 columns for patterns over ASCII, about 100 for patterns with `\w`, instead of 256.

use std::{fmt, ops::RangeInclusive};

/// An equivalence relation on bytes: classes are numbered from 0 without gaps.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ByteClasses {
    /// The class of each byte. Class numbers appear in ascending order of their smallest byte.
    of: Box<[u8; 256]>,
    /// 1 to 256.
    len: u16,
    /// The last byte of each run of adjacent bytes of one class, ascending. A loop over all bytes visits only these.
    ends: Box<[u8]>,
}

impl ByteClasses {
    /// The classes that are intervals: `begins[b]` means that byte `b` is the first of a class.
    pub(crate) fn from_begins(begins: &[bool; 256]) -> Self {
        let mut class = 0u16;
        let mut of = Box::new([0; 256]);
        for byte in 1..256 {
            class += u16::from(begins[byte]);
            of[byte] = u8::try_from(class).expect("256 bytes are in at most 256 classes");
        }
        Self::new(of, class + 1)
    }

    fn new(of: Box<[u8; 256]>, len: u16) -> Self {
        let is_end = |byte: &u8| *byte == 255 || of[usize::from(*byte)] != of[usize::from(*byte) + 1];
        let ends = (0..=255).filter(is_end).collect();
        Self { of, len, ends }
    }

    /// A coarser equivalence: two classes become one if `columns` has the same number for both. Also returns an old
    /// class for each new one.
    pub(crate) fn merged(&self, columns: &[usize]) -> (Self, Vec<u8>) {
        let mut new_of_column: Vec<Option<u8>> = vec![None; columns.len()];
        let mut representatives = Vec::new();
        let mut of = Box::new([0; 256]);
        for byte in 0..256 {
            let column = columns[usize::from(self.of[byte])];
            of[byte] = *new_of_column[column].get_or_insert_with(|| {
                representatives.push(self.of[byte]);
                u8::try_from(representatives.len() - 1).expect("256 bytes are in at most 256 classes")
            });
        }
        let len = u16::try_from(representatives.len()).expect("256 bytes are in at most 256 classes");
        (Self::new(of, len), representatives)
    }

    /// The class of `byte`.
    #[inline]
    pub fn get(&self, byte: u8) -> u8 {
        self.of[usize::from(byte)]
    }

    /// The class of each byte.
    pub fn as_array(&self) -> &[u8; 256] {
        &self.of
    }

    /// The number of classes: 1 to 256.
    #[allow(clippy::len_without_is_empty, reason = "there is always a class")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The last byte of each run of adjacent bytes of one class, ascending.
    pub(crate) fn ends(&self) -> &[u8] {
        &self.ends
    }

    /// For each class its smallest byte.
    pub fn representatives(&self) -> impl Iterator<Item = u8> {
        let mut next = 0;
        (0..=255).filter(move |byte| {
            let new = usize::from(self.get(*byte)) == next;
            next += usize::from(new);
            new
        })
    }
}

/// The bytes at which ranges begin that are told apart: by transitions, by the classes of automata, or by texts.
#[derive(Clone, Debug)]
pub struct Cuts([bool; 256]);

impl Default for Cuts {
    /// All bytes are one range.
    fn default() -> Self {
        Self([false; 256])
    }
}

impl Cuts {
    /// Tells the bytes `first` to `last` apart from all others.
    #[inline]
    pub fn around(&mut self, first: u8, last: u8) {
        self.0[usize::from(first)] = true;
        if let Some(after) = last.checked_add(1) {
            self.0[usize::from(after)] = true;
        }
    }

    /// Tells each byte of `text` apart from all others.
    pub fn bytes(&mut self, text: &[u8]) {
        text.iter().for_each(|byte| self.around(*byte, *byte));
    }

    /// Tells bytes of different classes apart.
    pub fn classes(&mut self, classes: &ByteClasses) {
        for end in classes.ends.iter().filter(|end| **end < u8::MAX) {
            self.0[usize::from(*end) + 1] = true;
        }
    }

    /// The ranges, in ascending order: all bytes are in one.
    pub fn ranges(&self) -> Vec<RangeInclusive<u8>> {
        let firsts: Vec<u8> = (0..=255u8).filter(|byte| *byte == 0 || self.0[usize::from(*byte)]).collect();
        let lasts = firsts.iter().skip(1).map(|next| next - 1).chain([255]);
        firsts.iter().zip(lasts).map(|(first, last)| *first..=last).collect()
    }

    /// The bytes with which something begins, or that follow its last byte, in ascending order.
    #[inline]
    pub(crate) fn marks(&self) -> impl Iterator<Item = u8> {
        (0..=255u8).filter(|byte| self.0[usize::from(*byte)])
    }

    /// The ranges as classes.
    pub(crate) fn to_classes(&self) -> ByteClasses {
        ByteClasses::from_begins(&self.0)
    }
}

impl fmt::Debug for ByteClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} classes: ", self.len)?;
        let mut list = f.debug_list();
        let mut first = 0u8;
        for end in &self.ends {
            list.entry(&format_args!("{first:#04x}..={end:#04x} => {}", self.get(*end)));
            first = end.wrapping_add(1);
        }
        list.finish()
    }
}
