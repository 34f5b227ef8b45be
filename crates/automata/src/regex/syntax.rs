//! Pattern text to syntax tree, under limits: every pattern passes through this file.
//!
//! The syntax is exactly that of the `regex` crate, because `regex-syntax` reads it; a parser of our own would differ
//! in corners that users know. This file adds the order of checks (the length before the text is read, the price of
//! expansion before the tree is expanded) and errors with a place.
//!
//! The resulting tree (`Hir`) matches valid UTF-8 only, and its only look-around is [`Look::Start`] and
//! [`Look::End`]; the rest of the crate relies on both.

use regex_syntax::{
    ast::{self, Ast, Position, Span},
    hir::{Hir, Look, translate::TranslatorBuilder},
};

use super::check;
use crate::{Construct, Limits, Place, RegexError};

/// The syntax tree of `pattern`. O(n) for n bytes of pattern, but for character classes, which
/// [`Limits::syntax_steps`] bounds.
pub(crate) fn parse(pattern: &str, limits: &Limits) -> Result<Hir, RegexError> {
    check_text(pattern, limits)?;
    let nest = limits.nest.min(Limits::MAX_NEST);
    let ast =
        ast::parse::ParserBuilder::new().nest_limit(nest).build().parse(pattern).map_err(syntax_error)?;
    check::check(&ast, limits, false)?;
    translate(pattern, &ast)
}

/// The checks before the text is read.
pub(super) fn check_text(pattern: &str, limits: &Limits) -> Result<(), RegexError> {
    /// The cost of reading a byte.
    const BYTE_STEPS: u64 = 50;
    limits.spend(BYTE_STEPS * pattern.len() as u64)?;
    if pattern.len() > limits.pattern_bytes {
        return Err(RegexError::PatternTooLong { bytes: pattern.len(), limit: limits.pattern_bytes });
    }
    check_names(pattern, limits)
}

/// The parser keeps the names of groups in a sorted vector, so n names take up to n^2 moves: 8 seconds for a megabyte
/// of them.
fn check_names(pattern: &str, limits: &Limits) -> Result<(), RegexError> {
    let named = |at: usize| pattern[at..].starts_with("(?<") || pattern[at..].starts_with("(?P<");
    let mut count = 0u64;
    for (at, _) in pattern.match_indices("(?").filter(|(at, _)| named(*at)) {
        count += 1;
        let steps = count * count / 4;
        if steps > limits.syntax_steps {
            let place = Place::from(&Span::splat(position(pattern, at)));
            return Err(RegexError::SyntaxTooCostly { steps, limit: limits.syntax_steps, place });
        }
    }
    Ok(())
}

fn position(pattern: &str, offset: usize) -> Position {
    let before = &pattern[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    Position::new(offset, line, before[line_start..].chars().count() + 1)
}

fn translate(pattern: &str, ast: &Ast) -> Result<Hir, RegexError> {
    let hir = TranslatorBuilder::new().utf8(true).build().translate(pattern, ast).map_err(|error| {
        RegexError::Syntax { message: describe(&error.kind().to_string()), place: Place::from(error.span()) }
    })?;
    let looks = hir.properties().look_set();
    let known = looks.remove(Look::Start).remove(Look::End).is_empty();
    assert!(known, "the check of the syntax tree finds every other look-around");
    Ok(hir)
}

pub(super) fn syntax_error(error: ast::Error) -> RegexError {
    let place = Place::from(error.span());
    match error.kind() {
        ast::ErrorKind::UnsupportedLookAround => {
            RegexError::Unsupported { construct: Construct::LookAround, place }
        }
        // Python's way to repeat a named group.
        ast::ErrorKind::FlagUnrecognized
            if error.pattern().get(place.span.start..).is_some_and(|rest| rest.starts_with("P=")) =>
        {
            RegexError::Unsupported { construct: Construct::BackReference, place }
        }
        ast::ErrorKind::UnsupportedBackreference => {
            RegexError::Unsupported { construct: Construct::BackReference, place }
        }
        ast::ErrorKind::NestLimitExceeded(limit) => RegexError::NestTooDeep { limit: *limit, place },
        kind => RegexError::Syntax { message: describe(&kind.to_string()), place },
    }
}

/// The parser's description as a clause of ours: one line, with a way out if the parser names none.
pub(super) fn describe(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if message == "pattern can match invalid UTF-8" {
        return format!("{message} (write it without `(?-u)`)");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pattern: &str) -> RegexError {
        parse(pattern, &Limits::default()).unwrap_err()
    }

    fn message(pattern: &str) -> String {
        error(pattern).to_string()
    }

    #[test]
    fn unsupported_constructs_name_their_place() {
        assert_eq!(
            message("ab\n(?=c)"),
            "look-around is not supported, at line 2, column 1: write the alternatives out"
        );
        assert_eq!(
            message(r"(é)\1"),
            "a back-reference is not supported, at line 1, column 4: list the texts that may repeat as alternatives"
        );
        assert_eq!(
            message(r"a\b{start}b"),
            "a word boundary is not supported, at line 1, column 2: write out which characters may stand on both \
             sides"
        );
        assert_eq!(
            message("(?m)a$"),
            "a line anchor under the flag `m` is not supported, at line 1, column 6: drop the flag `m` and write \
             `\\n` where a line ends"
        );
        for boundary in [r"\B", r"\<", r"\>", r"\b{end}", r"\b{start-half}", r"\b{end-half}", r"(?-u:\b)"] {
            let error = error(boundary);
            assert!(
                matches!(error, RegexError::Unsupported { construct: Construct::WordBoundary, .. }),
                "{boundary}"
            );
        }
    }

    #[test]
    fn flags_are_followed_through_groups() {
        for fine in ["(?m)a", "(?m:a)^", "(?:(?m)a)$", r"(?m)\Aa\z", "(?m:(?-m:^a))", "((?m)a|b)^"] {
            parse(fine, &Limits::default()).unwrap();
        }
        for (pattern, column) in [("(?m)a|^", 7), ("(?m:^)", 5), ("(?i)(?sm)(a|(b$))", 15), ("((?m)a|b$)", 9)]
        {
            let error = error(pattern);
            assert!(
                matches!(error, RegexError::Unsupported { construct: Construct::LineAnchor, .. }),
                "{pattern}"
            );
            assert_eq!(error.place().unwrap().column, column, "{pattern}");
        }
    }

    #[test]
    fn syntax_errors_are_one_line_with_a_place() {
        assert_eq!(message("a(b"), "unclosed group, at line 1, column 2");
        assert_eq!(
            message("x\n[z-a]"),
            "invalid character class range, the start must be <= the end, at line 2, column 2"
        );
        assert_eq!(
            message(r"a(?-u:\xFF)"),
            "pattern can match invalid UTF-8 (write it without `(?-u)`), at line 1, column 7"
        );
        assert_eq!(message(r"\p{Nope}"), "Unicode property not found, at line 1, column 1");
    }

    #[test]
    fn a_caret_points_at_the_place() {
        let pattern = "日本\nab(?=c)d";
        assert_eq!(error(pattern).place().unwrap().caret(pattern), "ab(?=c)d\n  ^^^");
        let long = format!("{}(", "é".repeat(1_000));
        let caret = error(&long).place().unwrap().caret(&long);
        let (text, carets) = caret.split_once('\n').unwrap();
        assert_eq!(text.chars().position(|char| char == '('), carets.find('^'));
        // Another pattern than the one of the error.
        error(&long).place().unwrap().caret("é");
        error(pattern).place().unwrap().caret("日本\n日本日本日本");
    }

    #[test]
    fn many_names_are_refused_before_they_are_read() {
        let names: String = (0..60_000).map(|name| format!("(?P<n{name}>)")).collect();
        let error = error(&names);
        assert!(matches!(error, RegexError::SyntaxTooCostly { limit: 100_000_000, .. }), "{error}");
    }
}
