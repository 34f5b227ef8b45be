//! Places in a text: from bytes to lines, columns and the indices of JavaScript.
//!
//! An explanation has thousands of places, and a text may be one line of megabytes. So the text is read once, and what
//! was counted is kept every few bytes. Tried instead: counting from the beginning of the line each time, which is
//! quadratic in such a text.

use std::ops::Range;

use crate::fault::Place;

/// The bytes between two counts.
const STEP: usize = 128;

/// What was counted in front of a byte.
#[derive(Clone, Copy, Default)]
struct Count {
    byte: usize,
    chars: usize,
    units: usize,
}

/// A text whose places are asked for.
pub(crate) struct Text<'a> {
    text: &'a str,
    /// A character is a byte, and nothing is to be counted.
    is_ascii: bool,
    counts: Vec<Count>,
    /// The first byte of each line.
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (mut counts, mut lines) = (vec![Count::default()], vec![0]);
        let mut count = Count::default();
        for char in text.chars() {
            count.byte += char.len_utf8();
            count.chars += 1;
            count.units += char.len_utf16();
            if char == '\n' {
                lines.push(count.byte);
            }
            if count.byte / STEP > counts.len() - 1 {
                counts.push(count);
            }
        }
        Self { text, is_ascii: text.is_ascii(), counts, lines }
    }

    /// The counts in front of a byte; of one inside of a character, those in front of it.
    fn count(&self, byte: usize) -> Count {
        let byte = byte.min(self.text.len());
        if self.is_ascii {
            return Count { byte, chars: byte, units: byte };
        }
        let mut count = self.counts[self.counts.partition_point(|count| count.byte <= byte) - 1];
        for char in self.text[count.byte..].chars() {
            if count.byte + char.len_utf8() > byte {
                break;
            }
            count.byte += char.len_utf8();
            count.chars += 1;
            count.units += char.len_utf16();
        }
        count
    }

    /// The place of a range of bytes.
    pub(crate) fn place(&self, range: &Range<usize>) -> Place {
        let (start, end) = (self.count(range.start), self.count(range.end.max(range.start)));
        let line = self.lines.partition_point(|begin| *begin <= start.byte);
        let column = 1 + start.chars - self.count(self.lines[line - 1]).chars;
        Place {
            path: None,
            line: Some(line),
            column: Some(column),
            start: Some(start.units),
            end: Some(end.units),
        }
    }

    /// The byte at a line and a column, both from 1.
    pub(crate) fn byte(&self, line: usize, column: usize) -> Option<usize> {
        let begin = *self.lines.get(line.checked_sub(1)?)?;
        let chars = self.count(begin).chars + column.checked_sub(1)?;
        let mut count = self.counts[self.counts.partition_point(|count| count.chars <= chars) - 1];
        for char in self.text[count.byte..].chars() {
            if count.chars == chars {
                break;
            }
            count.byte += char.len_utf8();
            count.chars += 1;
        }
        (count.chars == chars).then_some(count.byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place is that which counting from the beginning gives.
    #[test]
    fn places_are_those_of_counting() {
        let text = "aé\n𝄞b\n\n".repeat(60) + &"x𝄞".repeat(200);
        for text in [&text, "{\n  \"a\": 1,\n}".repeat(20).as_str()] {
            let places = Text::new(text);
            for (byte, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let before = &text[..byte];
                let place = places.place(&(byte..byte));
                let begin = before.rfind('\n').map_or(0, |at| at + 1);
                assert_eq!(place.line, Some(before.matches('\n').count() + 1));
                assert_eq!(place.column, Some(before[begin..].chars().count() + 1));
                assert_eq!(place.start, Some(before.encode_utf16().count()));
                assert_eq!(places.byte(place.line.unwrap(), place.column.unwrap()), Some(byte));
            }
        }
        let places = Text::new(&text);
        // Inside of a character and beyond the end.
        assert_eq!(places.place(&(2..2)).start, Some(1));
        assert_eq!(places.place(&(9..1 << 40)).end, Some(text.encode_utf16().count()));
        assert_eq!((places.byte(0, 1), places.byte(1 << 40, 1), places.byte(1, 1 << 40)), (None, None, None));
        assert_eq!(Text::new("").place(&(0..0)).column, Some(1));
    }
}
