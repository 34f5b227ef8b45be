//! Classes whose case does not count, in each dialect.
//!
//! Python compares `str.lower` of single characters, and has a list of exceptions: lower-case characters that have one
//! upper case are equal (`s` and `ſ`, `i` and `ı`). ECMA-262 has simple case folding, in which `i` and `ı` differ.
//! XGrammar knows the letters of ASCII.
//!
//! Tried instead: simple folding for all. It differs from CPython at `i`, `ı`, `İ` and some Greek letters.

use std::{collections::HashMap, sync::LazyLock};

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// The cases of Python's characters.
struct Cases {
    /// Characters that are not in lower case, ascending, each with its lower case.
    lower: Vec<(char, char)>,
    /// Characters in lower case that have an upper case with others, ascending, each with one of them.
    equal: Vec<(char, char)>,
}

static CASES: LazyLock<Cases> = LazyLock::new(|| {
    let (mut lower, mut by_upper) = (vec![], HashMap::<String, Vec<char>>::new());
    for char in '\u{80}'..=char::MAX {
        // Only U+0130 has a lower case of two characters. Its simple one is the first.
        let own = char.to_lowercase().next().unwrap_or(char);
        if own != char {
            lower.push((char, own));
        } else if !char.to_uppercase().eq([char]) {
            by_upper.entry(char.to_uppercase().collect()).or_default().push(char);
        }
    }
    for char in 'a'..='z' {
        by_upper.entry(char.to_ascii_uppercase().to_string()).or_default().push(char);
        lower.push((char.to_ascii_uppercase(), char));
    }
    let mut equal = vec![];
    for group in by_upper.values() {
        for char in group {
            equal.extend(group.iter().filter(|other| *other != char).map(|other| (*char, *other)));
        }
    }
    lower.sort_unstable();
    equal.sort_unstable();
    Cases { lower, equal }
});

/// The pairs of `all` whose first character is in `class`.
fn inside<'a>(
    all: &'a [(char, char)],
    class: &'a ClassUnicode,
) -> impl Iterator<Item = (char, char)> + use<'a> {
    class.iter().flat_map(|range| {
        let from = all.partition_point(|(char, _)| *char < range.start());
        let to = all.partition_point(|(char, _)| *char <= range.end());
        all[from..to].iter().copied()
    })
}

fn one(char: char) -> ClassUnicodeRange {
    ClassUnicodeRange::new(char, char)
}

/// The characters that Python's flag `i` takes for one of `class`.
pub(super) fn python(class: &ClassUnicode) -> ClassUnicode {
    let cases = &*CASES;
    let mut found = class.clone();
    found.difference(&ClassUnicode::new(inside(&cases.lower, class).map(|(char, _)| one(char))));
    found.union(&ClassUnicode::new(inside(&cases.lower, class).map(|(_, lower)| one(lower))));
    let equal: Vec<_> = inside(&cases.equal, &found).map(|(_, other)| one(other)).collect();
    found.union(&ClassUnicode::new(equal));
    let upper = cases.lower.iter().filter(|(_, lower)| contains(&found, *lower)).map(|(char, _)| one(*char));
    let upper = ClassUnicode::new(upper.collect::<Vec<_>>());
    found.union(&upper);
    found
}

pub(super) fn contains(class: &ClassUnicode, char: char) -> bool {
    let at = class.ranges().partition_point(|range| range.end() < char);
    class.ranges().get(at).is_some_and(|range| range.start() <= char)
}

/// The characters that are those of `class` in either case of ASCII.
pub(super) fn ascii(class: &ClassUnicode) -> ClassUnicode {
    let mut found = class.clone();
    for letter in 'a'..='z' {
        let upper = letter.to_ascii_uppercase();
        if contains(class, letter) || contains(class, upper) {
            found.union(&ClassUnicode::new([one(letter), one(upper)]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_exceptions_are_found() {
        let of = |char: char| {
            let found = python(&ClassUnicode::new([one(char)]));
            found.iter().flat_map(|range| range.start()..=range.end()).collect::<String>()
        };
        // By CPython 3.11: `[c for c in map(chr, range(0x110000)) if re.fullmatch('(?i)' + char, c)]`.
        assert_eq!(of('i'), "Iiİı");
        assert_eq!(of('S'), "Ssſ");
        assert_eq!(of('k'), "Kk\u{212a}");
        assert_eq!(of('µ'), "µΜμ");
        assert_eq!(of('ﬅ'), "ﬅﬆ");
        assert_eq!(of('ß'), "ßẞ");
        assert_eq!(of('1'), "1");
    }
}
