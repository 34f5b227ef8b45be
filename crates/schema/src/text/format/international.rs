//! Host names with characters beyond ASCII, as an automaton: labels of some scripts, with the rules for adjacent
//! characters.
//!
//! The validity of a label depends on tables of Unicode (RFC 5892), contextual rules (its appendix A),
//! normalisation, the direction of its letters (RFC 5893), and the length of its Punycode. The automaton accepts
//! letters that no normalisation changes, of scripts with short rules, in labels so short that their Punycode fits:
//!
//! - from left to right: Latin-1, Greek, Cyrillic, Hiragana, Katakana, Han, Hangul, consonants of Devanagari
//!   followed by a virama and joiners (A.1, A.2), `·` between two `l` (A.3), the keraia before Greek (A.4), `・` in
//!   a label with Hiragana, Katakana or Han (A.7), and extended Arabic-Indic digits (A.9);
//! - from right to left: Hebrew with geresh and gershayim after the first letter (A.5, A.6), and Arabic with
//!   Arabic-Indic digits (A.8) and the non-joiner between letters that would join (A.1). In a name with such
//!   labels, every ASCII label begins with a letter.

use unskew_automata::{Dfa, RegexError, dfa::DfaAlgebra};

/// The largest number of characters of a label with characters beyond ASCII. Punycode takes at most seven digits
/// for each, so the A-label has at most 4 + 8 * 7 characters and a hyphen, and four such labels with their dots
/// have fewer than 253.
const LABEL: u32 = 8;

/// Separators of labels: RFC 3490, section 3.1.
pub(crate) const DOTS: &str = r"[.\x{3002}\x{ff0e}\x{ff61}]";

/// PVALID characters without conditions, and extended Arabic-Indic digits, which conflict with no character here.
const PLAIN: &str = r"a-km-z0-9\x{df}-\x{f6}\x{f8}-\x{ff}\x{3ac}-\x{3ce}\x{430}-\x{45f}\x{6f0}-\x{6f9}\x{f0b}\x{3007}\x{3041}-\x{3096}\x{30a1}-\x{30fa}\x{4e00}-\x{9fa5}\x{ac00}-\x{d7a3}";

/// Characters of which a label with `・` needs at least one.
const KANA_OR_HAN: &str = r"\x{3007}\x{3041}-\x{3096}\x{30a1}-\x{30fa}\x{4e00}-\x{9fa5}";

/// Arabic letters that join on both sides, and letters that join only to the preceding letter.
const JOINS_BOTH: &str = r"\x{626}\x{628}\x{62a}-\x{62e}\x{633}-\x{63a}\x{641}-\x{647}\x{64a}";
const JOINS_RIGHT: &str = r"\x{627}\x{629}\x{62f}-\x{632}\x{648}";

/// The names that are written: up to four labels, each as above or of 31 ASCII letters and digits with single inner
/// hyphens, separated by `dots`; or one ASCII label of 63 characters.
pub(crate) fn names(builder: &mut DfaAlgebra, dots: &str) -> Result<Dfa, RegexError> {
    let short = builder.pattern(&format!("(?s:.{{1,{LABEL}}})"))?;
    let unit = format!(
        r"[{PLAIN}]|l(\x{{b7}}l)*|\x{{375}}[\x{{3ac}}-\x{{3ce}}]|[\x{{915}}-\x{{939}}](\x{{94d}}[\x{{200c}}\x{{200d}}]?)?"
    );
    let without = builder.pattern(&format!("({unit})+"))?;
    let with = builder.pattern(&format!(r"({unit}|\x{{30fb}})+"))?;
    let beside = builder.pattern(&format!("(?s:.*[{KANA_OR_HAN}].*)"))?;
    let with = builder.intersection(&with, &beside)?;
    let wide = builder.union([&without, &with])?;
    let wide = builder.intersection(&wide, &short)?;
    let ascii = builder.pattern("[A-Za-z0-9](-?[A-Za-z0-9]){0,30}")?;
    let ahead = builder.union([&ascii, &wide])?;
    let ahead = several(builder, &ahead, dots)?;

    let letters = format!(r"{JOINS_BOTH}{JOINS_RIGHT}\x{{6fd}}\x{{6fe}}");
    // Letters with non-joiners between them are one unit, so that a non-joiner occurs nowhere else.
    let apart = format!(r"[{JOINS_BOTH}](\x{{200c}}[{JOINS_BOTH}])*\x{{200c}}[{JOINS_BOTH}{JOINS_RIGHT}]");
    let back = builder.pattern(&format!(
        r"[\x{{5d0}}-\x{{5ea}}][\x{{5d0}}-\x{{5ea}}\x{{5f3}}\x{{5f4}}]*|([{letters}]|{apart})([{letters}\x{{660}}-\x{{669}}]|{apart})*"
    ))?;
    let back = builder.intersection(&back, &short)?;
    let latin = builder.pattern("[a-z][a-z0-9]{0,30}")?;
    let any = builder.union([&back, &latin])?;
    let (any, latin) = (several(builder, &any, dots)?, several(builder, &latin, dots)?);
    let back = builder.difference(&any, &latin)?;
    // A single ASCII label may have the full length.
    let (alone, long) = (builder.pattern("[A-Za-z0-9](-?[A-Za-z0-9])*")?, builder.pattern("(?s:.{1,63})")?);
    let alone = builder.intersection(&alone, &long)?;
    builder.union([&alone, &ahead, &back])
}

/// Up to four labels.
fn several(builder: &mut DfaAlgebra, label: &Dfa, dots: &str) -> Result<Dfa, RegexError> {
    let (dot, none) = (builder.pattern(dots)?, builder.pattern("")?);
    let next = builder.concatenation([&dot, label])?;
    let next = builder.union([&none, &next])?;
    builder.concatenation([label, &next, &next, &next])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SchemaLimits;

    #[derive(PartialEq, Eq)]
    enum Side {
        Left,
        Right,
        None,
    }

    fn is_arabic(char: char) -> bool {
        joins(char) != (false, false) || matches!(char, '\u{6fd}' | '\u{6fe}')
    }

    /// Whether an Arabic letter joins to the following letter, and to the preceding one.
    fn joins(char: char) -> (bool, bool) {
        match u32::from(char) {
            0x626 | 0x628 | 0x62a..=0x62e | 0x633..=0x63a | 0x641..=0x647 | 0x64a => (true, true),
            0x627 | 0x629 | 0x62f..=0x632 | 0x648 => (false, true),
            _ => (false, false),
        }
    }

    fn side(char: char) -> Side {
        match u32::from(char) {
            0x5d0..=0x5ea | 0x5f3 | 0x5f4 | 0x660..=0x669 => Side::Right,
            _ if is_arabic(char) => Side::Right,
            0x30..=0x39 | 0x2d | 0x6f0..=0x6f9 | 0x200c | 0x200d | 0xb7 | 0x375 | 0x30fb | 0x94d => {
                Side::None
            }
            _ => Side::Left,
        }
    }

    /// The definition of RFC 5892, appendix A, and RFC 5893, section 2, for the characters of the test.
    fn is_label(label: &[char], beside_right: bool) -> bool {
        let wide = label.iter().any(|char| !char.is_ascii());
        let is_right = label.iter().any(|char| side(*char) == Side::Right);
        if !wide && !is_right {
            let text: String = label.iter().collect();
            let plain =
                !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && !text.contains("--");
            let ascii = plain && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
            let lower = !text.contains('-')
                && text.starts_with(|char: char| char.is_ascii_lowercase())
                && text.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
            return ascii && (!beside_right || lower);
        }
        if label.len() > 8 || (beside_right && !is_right) {
            return false;
        }
        let kana = |char: &char| matches!(u32::from(*char), 0x3007 | 0x3041..=0x3096 | 0x30a1..=0x30fa | 0x4e00..=0x9fa5);
        label.iter().enumerate().all(|(place, char)| {
            let before = place.checked_sub(1).map(|place| label[place]);
            let after = label.get(place + 1).copied();
            match u32::from(*char) {
                0xb7 => before == Some('l') && after == Some('l'),
                0x375 => after.is_some_and(|char| ('\u{3ac}'..='\u{3ce}').contains(&char)),
                0x30fb => label.iter().any(kana),
                0x94d => before.is_some_and(|char| ('\u{915}'..='\u{939}').contains(&char)),
                0x200d => before == Some('\u{94d}'),
                0x200c => {
                    let joined =
                        before.is_some_and(|char| joins(char).0) && after.is_some_and(|char| joins(char).1);
                    before == Some('\u{94d}') || joined
                }
                0x5f3 | 0x5f4 => place > 0,
                0x660..=0x669 => place > 0,
                _ => !matches!(*char, '-' | '\u{3002}') && !char.is_ascii_uppercase(),
            }
        }) && (!is_right || {
            let hebrew = |char: char| ('\u{5d0}'..='\u{5f4}').contains(&char);
            let arabic =
                |char: char| is_arabic(char) || ('\u{660}'..='\u{669}').contains(&char) || char == '\u{200c}';
            label.iter().all(|char| hebrew(*char)) || label.iter().all(|char| arabic(*char))
        })
    }

    fn is_name(text: &str, ascii: bool) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let dot = |char: &char| *char == '.' || !ascii && ['\u{3002}', '\u{ff0e}', '\u{ff61}'].contains(char);
        let labels: Vec<&[char]> = chars.split(dot).collect();
        let right = chars.iter().any(|char| side(*char) == Side::Right);
        labels.len() <= 4 && labels.iter().all(|label| is_label(label, right))
    }

    proptest! {
        #[test]
        fn names_are_those_of_the_rules(
            text in "([albö0βд-]|[·͵]|[あカ丈・]|[कष]|्[\u{200c}\u{200d}]?|[אב׳״]|[ابي]|\u{200c}|[٠۰]|[.。]|l·l|α͵β|بي\u{200c}بي|\u{200c}ب){1,9}",
        ) {
            thread_local! {
                static MADE: [Dfa; 2] = {
                    let limits = SchemaLimits::default().automata;
                    [DOTS, r"\."].map(|dots| names(&mut DfaAlgebra::new(&limits), dots).unwrap())
                };
            }
            // ASCII names belong to another automaton, which has its own test.
            if text.is_ascii() {
                return Ok(());
            }
            MADE.with(|made| {
                for (ascii, made) in [false, true].into_iter().zip(made) {
                    assert_eq!(made.accepts(text.as_bytes()), is_name(&text, ascii), "{text:?}");
                }
            });
        }
    }

    #[test]
    fn letters_are_kept_apart_more_than_once() {
        let limits = SchemaLimits::default().automata;
        let made = names(&mut DfaAlgebra::new(&limits), DOTS).unwrap();
        for (text, accepted) in [
            ("ي\u{200c}بي\u{200c}بي", true),
            ("ب\u{200c}ب\u{200c}ب\u{200c}ا", true),
            ("ب\u{200c}ا\u{200c}ب", false),
            ("ب\u{200c}\u{200c}ب", false),
            ("ب٠\u{200c}ب", false),
            ("ب\u{200c}", false),
        ] {
            assert_eq!(made.accepts(text.as_bytes()), accepted, "{text:?}");
        }
    }

    #[test]
    fn long_labels_of_ascii_are_written() {
        let limits = SchemaLimits::default().automata;
        let made = names(&mut DfaAlgebra::new(&limits), DOTS).unwrap();
        for (text, accepted) in [
            ("a".repeat(63), true),
            ("a".repeat(64), false),
            ("ß".repeat(8), true),
            ("ß".repeat(9), false),
            ("ab--c".to_owned(), false),
            ("xn--ll-0ea".to_owned(), false),
        ] {
            assert_eq!(made.accepts(text.as_bytes()), accepted, "{text}");
        }
    }
}
