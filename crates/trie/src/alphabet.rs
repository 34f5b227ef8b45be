//! The characters that tokens write.
//!
//! A vocabulary of 49,152 tokens may have none with the byte `f1`. No output then has a character from U+40000 to
//! U+7FFFF, and a constraint that allows such a character loses nothing else. A vocabulary without tokens of single
//! bytes writes the characters that are tokens themselves.
//!
//! Texts are put together of **units**: bytes that are tokens, and characters of several bytes that are. From every
//! place in such a text tokens lead on, so that masks have no dead end there. A character that only longer tokens have,
//! or that a token can begin and none can finish, is no unit.

use std::{collections::HashSet, ops::RangeInclusive};

use crate::ByteSet;

/// What the tokens of a vocabulary write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alphabet {
    bytes: Box<[bool; 256]>,
    /// In ascending order: characters that bytes alone do not write.
    characters: Box<[char]>,
}

impl Alphabet {
    /// Of all texts that are not empty.
    pub(crate) fn new<'t>(texts: impl Iterator<Item = &'t [u8]> + Clone) -> Self {
        let mut bytes = Box::new([false; 256]);
        for text in texts.clone() {
            if let [byte] = text {
                bytes[usize::from(*byte)] = true;
            }
        }
        let mut alphabet = Self { bytes, characters: Box::default() };
        if !alphabet.is_complete() {
            let parts: HashSet<&[u8]> = texts.clone().filter(|text| text.len() < 4).collect();
            let begun: HashSet<&[u8]> = texts.clone().filter_map(begun).collect();
            let whole = texts.filter_map(|text| std::str::from_utf8(text).ok()).filter_map(|text| {
                let mut characters = text.chars();
                characters.next().filter(|_| characters.next().is_none())
            });
            let is_unit =
                |character: &char| !alphabet.has_bytes(*character) && may_end(*character, &parts, &begun);
            let mut characters: Vec<char> = whole.filter(is_unit).collect();
            characters.sort_unstable();
            characters.dedup();
            alphabet.characters = characters.into();
        }
        alphabet
    }

    /// Whether every byte is a token, so that tokens write every text.
    pub fn is_complete(&self) -> bool {
        self.bytes.iter().all(|has| *has)
    }

    /// Whether some token is just `byte`.
    #[inline]
    pub fn has_byte(&self, byte: u8) -> bool {
        self.bytes[usize::from(byte)]
    }

    /// Whether tokens write the character.
    pub fn has(&self, character: char) -> bool {
        self.has_bytes(character) || self.characters.binary_search(&character).is_ok()
    }

    fn has_bytes(&self, character: char) -> bool {
        character.encode_utf8(&mut [0; 4]).bytes().all(|byte| self.has_byte(byte))
    }

    /// The bytes and the characters of which texts are put together.
    pub fn units(&self) -> impl Iterator<Item = Vec<u8>> {
        let bytes = (0..=u8::MAX).filter(|byte| self.has_byte(*byte)).map(|byte| vec![byte]);
        bytes.chain(self.characters.iter().map(|character| character.to_string().into_bytes()))
    }

    /// The characters of these bytes that no tokens write, in ascending order. O(n) for the 1,112,064 characters of
    /// Unicode.
    pub fn unwritten(&self, bytes: &ByteSet) -> Vec<RangeInclusive<char>> {
        let mut ranges: Vec<RangeInclusive<char>> = Vec::new();
        let mut goes_on = false;
        for character in '\0'..=char::MAX {
            let is_of_bytes = character.encode_utf8(&mut [0; 4]).bytes().all(|byte| bytes.contains(byte));
            let is_unwritten = is_of_bytes && !self.has(character);
            match ranges.last_mut().filter(|_| goes_on) {
                Some(range) if is_unwritten => *range = *range.start()..=character,
                _ if is_unwritten => ranges.push(character..=character),
                _ => {}
            }
            goes_on = is_unwritten;
        }
        ranges
    }
}

/// The bytes of a character that begins at the end of `text`, and does not end there.
fn begun(text: &[u8]) -> Option<&[u8]> {
    let first = (1..=text.len().min(3)).map(|len| text.len() - len).find(|at| text[*at] & 0xc0 != 0x80)?;
    let len = match text[first] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    (text.len() - first < len).then(|| &text[first..])
}

/// Whether tokens lead on to the end of the character from each place in it that tokens reach.
fn may_end(character: char, parts: &HashSet<&[u8]>, begun: &HashSet<&[u8]>) -> bool {
    let mut bytes = [0; 4];
    let bytes = character.encode_utf8(&mut bytes).as_bytes();
    let len = bytes.len();
    let mut reached = [false; 4];
    let mut finished = [false; 5];
    finished[len] = true;
    for at in (1..len).rev() {
        finished[at] = (at + 1..=len).any(|next| finished[next] && parts.contains(&bytes[at..next]));
    }
    for at in 1..len {
        reached[at] = begun.contains(&bytes[..at])
            || (1..at).any(|before| reached[before] && parts.contains(&bytes[before..at]));
    }
    (1..len).all(|at| !reached[at] || finished[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alphabet(texts: &[&[u8]]) -> Alphabet {
        Alphabet::new(texts.iter().copied())
    }

    #[test]
    fn characters_are_tokens_or_bytes() {
        let made = alphabet(&[b"a", b"\xc3", b"\xa9", "\u{df}x".as_bytes(), "\u{20ac}".as_bytes()]);
        // The bytes of the first are tokens, the second is within a longer token alone.
        let has = |character| made.has(character);
        assert_eq!(['a', '\u{e9}', '\u{df}', '\u{20ac}', 'x'].map(has), [true, true, false, true, false]);
        let units: Vec<Vec<u8>> = made.units().collect();
        assert_eq!(units, [b"a".to_vec(), vec![0xa9], vec![0xc3], "\u{20ac}".into()]);
    }

    #[test]
    fn what_is_begun_can_be_finished() {
        let whole = "\u{20ac}".as_bytes();
        // The first two bytes are a token, and the last one is none.
        assert!(!alphabet(&[whole, &whole[..2]]).has('\u{20ac}'));
        assert!(!alphabet(&[whole, b"a\xe2", b"\x82"]).has('\u{20ac}'));
        assert!(alphabet(&[whole, &whole[..2], &whole[2..]]).has('\u{20ac}'));
        assert!(alphabet(&[whole, b"\x82\xac"]).has('\u{20ac}'));
    }

    #[test]
    fn unwritten_characters_are_ranges() {
        let all: Vec<[u8; 1]> =
            (0..=u8::MAX).filter(|byte| !matches!(byte, 0xf1 | 4)).map(|byte| [byte]).collect();
        let made = Alphabet::new(all.iter().map(|byte| &byte[..]));
        let of = |bytes: std::ops::RangeInclusive<u8>| made.unwritten(&bytes.collect());
        assert_eq!(of(0..=255), ['\u{4}'..='\u{4}', '\u{40000}'..='\u{7ffff}']);
        assert_eq!(of(0..=0x7f), ['\u{4}'..='\u{4}']);
        assert!(!made.is_complete() && made.units().count() == 254);
    }
}
