//! Patterns with look-ahead and word boundaries, as automata.
//!
//! The matches of a pattern from a position on are a language over the remaining text. A look-ahead narrows this
//! language by an intersection or a difference, and the part before it is concatenated to it. So a pattern is
//! processed from its end to its beginning, and each part maps the language of its continuations to the language of
//! the continuations before the part. `^` and `\b` depend on the preceding text in three ways: it is empty, it ends
//! in a word character, or it ends in another character. One language is kept for each of the three.
//!
//! Repetitions that contain a look-ahead or a `\b` are unrolled up to a few rounds and refused beyond them.
//! Look-behind and back-references are refused where patterns are read.

use unskew_automata::RegexError;

use super::{
    languages::{Language, Languages},
    pattern::{self, Alternatives, Parsed, Part, UnsupportedConstruct},
    standard::TEXT,
};

/// The largest repetition that is unrolled.
const ROUNDS: u32 = 8;

/// The texts that may follow, by the preceding text: empty, ending in a word character, ending in another
/// character.
type Continuations = [Language; 3];

/// The indices of the three kinds of preceding text.
const START: usize = 0;
const WORD: usize = 1;
const OTHER: usize = 2;

const ENDS_IN_WORD: &str = "(?s:.*)[A-Za-z0-9_]";
const ENDS_IN_OTHER: &str = "(?s:.*)[^A-Za-z0-9_]";
const BEGINS_WITH_WORD: &str = "[A-Za-z0-9_](?s:.*)";

/// The reason why there is no automaton.
#[derive(Debug)]
pub(crate) enum Failure {
    Unsupported(UnsupportedConstruct),
    Regex(RegexError),
}

impl From<RegexError> for Failure {
    fn from(error: RegexError) -> Self {
        Self::Regex(error)
    }
}

impl Languages {
    /// The texts in which `pattern`, a pattern of ECMA-262, has a match; or the construct that is not supported.
    pub(crate) fn search(
        &mut self,
        pattern: &str,
    ) -> Result<Result<Language, UnsupportedConstruct>, RegexError> {
        if let Some(known) = self.searches.get(pattern) {
            return Ok(known.clone());
        }
        let made = match pattern::read(pattern) {
            Ok(parsed) if !parsed.has_lookaround => self.pattern(&parsed.searched()).map(Ok)?,
            Ok(parsed) => match matches(self, &parsed) {
                Ok(language) => Ok(language),
                Err(Failure::Unsupported(construct)) => Err(construct),
                Err(Failure::Regex(error)) => return Err(error),
            },
            Err(construct) => Err(construct),
        };
        self.searches.insert(pattern.to_owned(), made.clone());
        Ok(made)
    }
}

/// The texts in which `pattern` has a match.
fn matches(languages: &mut Languages, pattern: &Parsed) -> Result<Language, Failure> {
    let all = languages.pattern(TEXT)?;
    let found = alternatives(languages, &pattern.alternatives, &[all.clone(), all.clone(), all])?;
    let mut union = found[START].clone();
    for (front, kind) in [(ENDS_IN_WORD, WORD), (ENDS_IN_OTHER, OTHER)] {
        let front = languages.pattern(front)?;
        let joined = languages.join(&front, &found[kind])?;
        union = languages.or(&union, &joined)?;
    }
    Ok(union)
}

/// The continuations before the alternatives. Recursion is as deep as groups nest, which is limited.
fn alternatives(
    languages: &mut Languages,
    list: &Alternatives,
    after: &Continuations,
) -> Result<Continuations, Failure> {
    let mut all: Continuations = [None, None, None];
    for sequence in list {
        let mut found = after.clone();
        // Adjacent parts without look-around are one part.
        let mut text: Vec<&str> = vec![];
        for part in sequence.iter().rev() {
            if let Part::Text(own) = part {
                text.push(own);
                continue;
            }
            found = before_text(languages, &mut text, &found)?;
            found = before(languages, part, &found)?;
        }
        found = before_text(languages, &mut text, &found)?;
        all = either(languages, &all, &found)?;
    }
    Ok(all)
}

fn either(
    languages: &mut Languages,
    left: &Continuations,
    right: &Continuations,
) -> Result<Continuations, Failure> {
    let mut both: Continuations = [None, None, None];
    for (both, (left, right)) in both.iter_mut().zip(left.iter().zip(right)) {
        *both = languages.or(left, right)?;
    }
    Ok(both)
}

/// The continuations before a run of plain parts, which are listed from the last to the first.
fn before_text(
    languages: &mut Languages,
    text: &mut Vec<&str>,
    after: &Continuations,
) -> Result<Continuations, Failure> {
    if text.is_empty() {
        return Ok(after.clone());
    }
    let pattern: String = text.drain(..).rev().collect();
    let own = languages.pattern(&pattern)?;
    if after[START] == after[WORD] && after[WORD] == after[OTHER] {
        let joined = languages.join(&own, &after[START])?;
        return Ok([joined.clone(), joined.clone(), joined]);
    }
    let mut filled = None;
    if after[WORD] == after[OTHER] {
        let some = languages.pattern("(?s:.)+")?;
        let own = languages.and(&own, &some)?;
        filled = languages.join(&own, &after[WORD])?;
    } else {
        for (end, kind) in [(ENDS_IN_WORD, WORD), (ENDS_IN_OTHER, OTHER)] {
            let end = languages.pattern(end)?;
            let own = languages.and(&own, &end)?;
            let joined = languages.join(&own, &after[kind])?;
            filled = languages.or(&filled, &joined)?;
        }
    }
    let filled = [filled.clone(), filled.clone(), filled];
    if own.is_some_and(|own| own.accepts(b"")) { either(languages, &filled, after) } else { Ok(filled) }
}

/// The continuations before `part`.
fn before(languages: &mut Languages, part: &Part, after: &Continuations) -> Result<Continuations, Failure> {
    let mut found = after.clone();
    match part {
        Part::Text(text) => return before_text(languages, &mut vec![text], after),
        Part::Start => (found[WORD], found[OTHER]) = (None, None),
        Part::End => {
            let nothing = languages.pattern("")?;
            for language in &mut found {
                *language = languages.and(language, &nothing)?;
            }
        }
        Part::Boundary(positive) => {
            let word = languages.pattern(BEGINS_WITH_WORD)?;
            for (kind, language) in found.iter_mut().enumerate() {
                *language = if (kind == WORD) == *positive {
                    languages.minus(language, &word)?
                } else {
                    languages.and(language, &word)?
                };
            }
        }
        Part::Ahead(positive, inner) => {
            let all = languages.pattern(TEXT)?;
            let seen = alternatives(languages, inner, &[all.clone(), all.clone(), all])?;
            for (language, seen) in found.iter_mut().zip(&seen) {
                *language = if *positive {
                    languages.and(language, seen)?
                } else {
                    languages.minus(language, seen)?
                };
            }
        }
        Part::Group(inner) => return alternatives(languages, inner, after),
        Part::Repeat { inner, min, max } => {
            let max = max.filter(|max| *max <= ROUNDS).ok_or_else(|| {
                Failure::Unsupported(pattern::unsupported(
                    format!("look-ahead, `^`, `$` or `\\b` in a repetition of more than {ROUNDS} rounds"),
                    "put it in front of the repetition",
                ))
            })?;
            for round in 0..max {
                found = before(languages, inner, &found)?;
                if round < max - min {
                    found = either(languages, &found, after)?;
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{SchemaLimits, SchemaOptions, text::pattern};

    fn found(pattern: &str) -> Option<Language> {
        let parsed = pattern::read(pattern).ok()?;
        let mut languages = Languages::new(&SchemaOptions::default(), &SchemaLimits::default());
        match matches(&mut languages, &parsed) {
            Ok(language) => Some(language),
            Err(Failure::Unsupported(_)) => None,
            Err(Failure::Regex(error)) => panic!("{pattern}: {error}"),
        }
    }

    /// All texts of up to four of these characters.
    fn texts() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..4 {
            let to = all.len();
            for index in from..to {
                for char in ['a', 'b', '-', 'é'] {
                    let longer = format!("{}{char}", all[index]);
                    all.push(longer);
                }
            }
            from = to;
        }
        all
    }

    fn compare(pattern: &str) {
        let Some(language) = found(pattern) else { return };
        // Word characters are ASCII, as in ECMA-262.
        let judge = pattern
            .replace("\\b", "(?:(?<=[a-z])(?![a-z])|(?<![a-z])(?=[a-z]))")
            .replace("\\B", "(?:(?<=[a-z])(?=[a-z])|(?<![a-z])(?![a-z]))");
        let judge = fancy_regex::Regex::new(&judge).unwrap();
        for text in texts() {
            let accepted = language.as_ref().is_some_and(|language| language.accepts(text.as_bytes()));
            assert_eq!(accepted, judge.is_match(&text).unwrap(), "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_looks_around_finds_what_an_engine_finds() {
        for pattern in [
            "(?=a)",
            "(?!a)",
            "^(?!a)",
            "^(?!a$).*$",
            "^(?!^a|b).*",
            "a(?=b)",
            "a(?!b)",
            "((?:[^b]*b)*)(?=-(a|b))",
            "^([a-](?:(?!.*--)[a-]*a)?)$",
            "^(?!.*ab)(?=.{1,3}$)((.{1,2}-){1,3}(?![a]*$)[a-]+b?)$",
            "\\ba",
            "a\\b",
            "\\Ba",
            "^\\b",
            "^\\B$",
            "\\ba\\b|b$",
            "(a\\b-?){2}",
            "(^a|b(?=a)){1,2}",
            "(?=(?!a)b)",
            "(?=a$|b)(?=..)",
            "(?!)",
            "(?=)",
            "a$b",
            "(\\b|-)a",
        ] {
            assert!(found(pattern).is_some(), "{pattern}");
            compare(pattern);
        }
        assert!(found("(a(?=b))*").is_none());
        assert!(found("(\\ba){9}").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_patterns_find_what_an_engine_finds(
            pattern in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "b", "-", ".", "[ab]", "^", "$", "\\b", "\\B", "(?=a)", "(?!b)", "(?=a|b$)", "(?!.a)", "(?:a|b)?",
                    "(?:a\\b|-)", "a*", "(?:(?=b)b|a){0,2}", "|", "(?!(?=a)ab)", "é?",
                ]),
                1..6,
            ),
        ) {
            compare(&pattern.concat());
        }
    }
}
