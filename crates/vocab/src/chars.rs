//! The characters that the library's steps tell apart, out of the tables that the library itself has.
//!
//! Which characters are punctuation, or change when they are lowercased, differs between versions of Unicode. The
//! library decides which token sequence is right, so its tables are used: `unicode_categories` and
//! `unicode-normalization-alignments` are dependencies of its own. A test compares each set with the library's step,
//! character by character.

use std::{fmt::Write as _, sync::LazyLock};

use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::char::is_combining_mark;
use unskew_core::Normalizer;

/// The characters for which `is` holds, as ascending ranges, both ends included.
fn ranges(is: impl Fn(char) -> bool) -> Vec<(char, char)> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut last = None;
    for char in ('\0'..=char::MAX).filter(|char| is(*char)) {
        match ranges.last_mut() {
            Some(range) if last == Some(range.1) && is_next(range.1, char) => range.1 = char,
            _ => ranges.push((char, char)),
        }
        last = Some(char);
    }
    ranges
}

/// Whether `next` comes right after `char`, surrogates left out.
fn is_next(char: char, next: char) -> bool {
    u32::from(char) + 1 == u32::from(next) || (char, next) == ('\u{d7ff}', '\u{e000}')
}

/// A class of a regex.
fn class(ranges: &[(char, char)]) -> String {
    let mut class = "[".to_owned();
    for (low, high) in ranges {
        let _ = write!(class, r"\x{{{:x}}}-\x{{{:x}}}", u32::from(*low), u32::from(*high));
    }
    class.push(']');
    class
}

/// The characters that a step keeps and those that it writes, computed once.
type Known = LazyLock<Characters>;

/// Ascending ranges of characters: those that stay, and those that are written for others.
type Characters = (Vec<(char, char)>, Vec<(char, char)>);

/// The step of this name that keeps and writes these characters.
fn step(name: &str, known: &Known) -> Normalizer {
    let (kept, writes) = &**known;
    Normalizer::Characters { step: name.to_owned(), kept: kept.clone(), writes: writes.clone() }
}

/// The characters that stay where each character is rewritten alone, and those that are written for others.
/// `rewritten` calls its second argument with the characters that it writes.
fn characters(rewritten: impl Fn(char, &mut dyn FnMut(char))) -> Characters {
    let mut written: Vec<char> = Vec::new();
    let kept = ranges(|char| {
        let mut all: [Option<char>; 4] = [None; 4];
        let mut len = 0;
        rewritten(char, &mut |one| {
            all[len.min(3)] = Some(one);
            len += 1;
        });
        len == 1 && all[0] == Some(char)
    });
    for char in '\0'..=char::MAX {
        let at = kept.partition_point(|(_, high)| *high < char);
        if kept.get(at).is_none_or(|(low, _)| char < *low) {
            rewritten(char, &mut |one| written.push(one));
        }
    }
    written.sort_unstable();
    written.dedup();
    let writes = ranges(|char| written.binary_search(&char).is_ok());
    (kept, writes)
}

/// The class of characters that `Punctuation` and `BertPreTokenizer` split at.
pub(crate) fn punctuation() -> &'static str {
    static PUNCTUATION: LazyLock<String> =
        LazyLock::new(|| class(&ranges(|char| char.is_ascii_punctuation() || char.is_punctuation())));
    &PUNCTUATION
}

/// The class of characters that `Digits` splits at. It asks the standard library, whose Unicode is newer than that of
/// regexes.
pub(crate) fn numeric() -> &'static str {
    static NUMERIC: LazyLock<String> = LazyLock::new(|| class(&ranges(char::is_numeric)));
    &NUMERIC
}

pub(crate) fn lowercase(name: &str) -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| characters(|char, write| char.to_lowercase().for_each(write)));
    step(name, &KNOWN)
}

pub(crate) fn strip_accents() -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| without(is_combining_mark));
    step("StripAccents", &KNOWN)
}

/// The characters that stay where those are dropped for which `is` holds.
fn without(is: impl Fn(char) -> bool) -> Characters {
    (ranges(|char| !is(char)), Vec::new())
}

/// The rules of neural machine translation: control characters go, odd white space becomes a space.
pub(crate) fn nmt() -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| {
        characters(|char, write| match u32::from(char) {
            0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f | 0x8f | 0x9f => {}
            0x09 | 0x0a | 0x0c | 0x0d | 0x1680 | 0x200b..=0x200f | 0x2028 | 0x2029 => write(' '),
            0x2581 | 0xfeff | 0xfffd => write(' '),
            _ => write(char),
        })
    });
    step("Nmt", &KNOWN)
}

pub(crate) fn bert_clean() -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| {
        characters(|char, write| {
            let is_kept_control = matches!(char, '\t' | '\n' | '\r');
            let goes = matches!(char, '\0' | '\u{fffd}') || !is_kept_control && char.is_other();
            if !goes {
                write(if is_kept_control || char.is_whitespace() { ' ' } else { char });
            }
        })
    });
    step("BertNormalizer", &KNOWN)
}

/// Spaces around each character of a block of Chinese characters.
pub(crate) fn bert_chinese() -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| {
        characters(|char, write| match u32::from(char) {
            0x4e00..=0x9fff
            | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df
            | 0x2a700..=0x2b73f
            | 0x2b740..=0x2b81f
            | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff
            | 0x2f800..=0x2fa1f => [' ', char, ' '].into_iter().for_each(write),
            _ => write(char),
        })
    });
    step("BertNormalizer", &KNOWN)
}

pub(crate) fn bert_accents() -> Normalizer {
    static KNOWN: Known = LazyLock::new(|| without(UnicodeCategories::is_mark_nonspacing));
    step("BertNormalizer", &KNOWN)
}

#[cfg(test)]
mod tests {
    use tokenizers::{
        NormalizedString, Normalizer as _, NormalizerWrapper, OffsetReferential, OffsetType,
        PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
        normalizers::{BertNormalizer, Lowercase, Nmt, StripAccents},
        pre_tokenizers::punctuation::Punctuation,
    };

    use super::*;

    fn every_char() -> impl Iterator<Item = char> {
        // A debug build takes those that are most likely to differ, and some others.
        let step = if cfg!(debug_assertions) { 23 } else { 1 };
        ('\0'..='\u{3400}').chain(('\u{3400}'..=char::MAX).step_by(step))
    }

    fn has(ranges: &[(char, char)], char: char) -> bool {
        let at = ranges.partition_point(|(_, high)| *high < char);
        ranges.get(at).is_some_and(|(low, _)| *low <= char)
    }

    #[test]
    fn what_a_step_keeps_and_writes_is_what_the_library_does() {
        let bert = |change: usize| {
            BertNormalizer::new(change == 0, change == 1, Some(change == 2), change == 3).into()
        };
        let steps: [(Normalizer, NormalizerWrapper); 7] = [
            (lowercase("Lowercase"), Lowercase.into()),
            (strip_accents(), StripAccents.into()),
            (nmt(), Nmt.into()),
            (bert_clean(), bert(0)),
            (bert_chinese(), bert(1)),
            (bert_accents(), bert(2)),
            (lowercase("BertNormalizer"), bert(3)),
        ];
        for (at, (step, library)) in steps.into_iter().enumerate() {
            let Normalizer::Characters { step, kept, writes } = step else { unreachable!() };
            for char in every_char() {
                let mut text = NormalizedString::from(char.to_string());
                library.normalize(&mut text).unwrap();
                let is_kept = text.get() == char.to_string();
                // Accents are stripped after a decomposition, which is a fact of its own.
                let decomposes = at == 5 && !is_kept && text.get().chars().next().is_some();
                assert!(has(&kept, char) == is_kept || decomposes, "{step} {at}: {char:?}");
                assert!(
                    is_kept || decomposes || text.get().chars().all(|one| has(&writes, one)),
                    "{step} {char:?}"
                );
            }
        }
    }

    #[test]
    fn punctuation_is_what_the_library_splits_at() {
        let class = punctuation();
        let ranges: Vec<(char, char)> = class[1..class.len() - 1]
            .split(r"\x{")
            .skip(1)
            .map(|part| {
                char::from_u32(u32::from_str_radix(part.trim_end_matches(['}', '-']), 16).unwrap()).unwrap()
            })
            .collect::<Vec<char>>()
            .chunks(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        for char in every_char() {
            let mut text = PreTokenizedString::from(format!("a{char}a"));
            Punctuation::new(SplitDelimiterBehavior::Isolated).pre_tokenize(&mut text).unwrap();
            let pieces = text.get_splits(OffsetReferential::Original, OffsetType::Byte).len();
            assert_eq!(pieces == 3, has(&ranges, char), "{char:?}");
        }
    }
}
