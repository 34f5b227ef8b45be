//! The dialect of the crate `regex`, under limits, with look-around besides.
//!
//! The syntax is exactly that of the crate, because `regex-syntax` reads it; a parser of our own would differ in
//! corners that users know. This file adds the order of checks (the price of expansion before the tree is expanded),
//! errors with a place, and look-around.
//!
//! `regex-syntax` reads no look-around and reports the place of the first one that it meets. So this file repairs the
//! text there and tries again: the opening of a look-around becomes the opening of a plain group of the same length, so
//! that all places stay true, and the group becomes a capture with the opening as its name once the tree is read.
//!
//! Tried instead: a scan for `(?=` beforehand, which has to know classes, escapes and comments.

use std::collections::HashMap;

use regex_syntax::{
    ast::{self, AssertionKind, Ast, CaptureName, ErrorKind, GroupKind, Span},
    hir::{Hir, translate::TranslatorBuilder},
};

use super::{OPENINGS, check, parsed::place};
use crate::{Construct, Limits, Place, RegexError};

/// The syntax tree of `pattern`, and its first part that looks around.
///
/// Cost: O(n m) for n bytes of pattern and m look-arounds, which [`Limits::syntax_steps`] bounds.
pub(super) fn read(pattern: &str, limits: &Limits) -> Result<(Hir, Option<(Construct, Place)>), RegexError> {
    check_names(pattern, limits)?;
    let nest = limits.nest.min(Limits::MAX_NEST);
    let mut text = pattern.to_owned();
    let mut looks: HashMap<usize, &'static str> = HashMap::new();
    let mut steps = 0;
    let mut tree = loop {
        let error = match ast::parse::ParserBuilder::new().nest_limit(nest).build().parse(&text) {
            Ok(tree) => break tree,
            Err(error) => error,
        };
        if *error.kind() != ErrorKind::UnsupportedLookAround {
            return Err(syntax_error(error));
        }
        steps += text.len() as u64;
        if steps > limits.syntax_steps {
            let place = Place::from(error.span());
            return Err(RegexError::SyntaxTooCostly { steps, limit: limits.syntax_steps, place });
        }
        let at = error.span().start.offset;
        let opening = OPENINGS.iter().find(|(opening, ..)| text[at + 1..].starts_with(opening));
        let (opening, ..) = opening.expect("a look-around begins here");
        looks.insert(at, opening);
        text.replace_range(at + 1..=at + opening.len(), if opening.len() == 2 { "?:" } else { "?u:" });
    };
    restore(&mut tree, &looks)?;
    let look = check::check(&tree, limits)?;
    let hir = TranslatorBuilder::new().utf8(true).build().translate(pattern, &tree).map_err(|error| {
        RegexError::Syntax { message: describe(&error.kind().to_string()), place: Place::from(error.span()) }
    })?;
    let first = looks
        .into_iter()
        .min()
        .map(|(at, opening)| (Construct::LookAround, place(pattern, at, at + 1 + opening.len())));
    let look = [first, look].into_iter().flatten().min_by_key(|(_, place)| place.span.start);
    Ok((hir, look))
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
            let place = place(pattern, at, at);
            return Err(RegexError::SyntaxTooCostly { steps, limit: limits.syntax_steps, place });
        }
    }
    Ok(())
}

/// Puts look-arounds back into the tree, by their places. Refuses look-ahead inside look-behind: a
/// look-behind is judged by the text before it alone.
fn restore(tree: &mut Ast, looks: &HashMap<usize, &'static str>) -> Result<(), RegexError> {
    let refused = |span: &Span| RegexError::Unsupported {
        construct: Construct::AheadInBehind,
        place: Place::from(span),
    };
    let mut open: Vec<(&mut Ast, bool)> = vec![(tree, false)];
    while let Some((node, behind)) = open.pop() {
        match node {
            Ast::Group(group) => {
                let mut behind = behind;
                if let Some(opening) = looks.get(&group.span.start.offset) {
                    let ahead = opening.len() == 2;
                    if behind && ahead {
                        return Err(refused(&group.span));
                    }
                    behind |= !ahead;
                    let name = CaptureName { span: group.span, name: (*opening).to_owned(), index: 1 };
                    group.kind = GroupKind::CaptureName { starts_with_p: true, name };
                }
                open.push((&mut group.ast, behind));
            }
            Ast::Assertion(assertion)
                if behind
                    && !matches!(assertion.kind, AssertionKind::StartText | AssertionKind::StartLine) =>
            {
                return Err(refused(&assertion.span));
            }
            Ast::Repetition(repetition) => open.push((&mut repetition.ast, behind)),
            Ast::Alternation(parts) => open.extend(parts.asts.iter_mut().map(|part| (part, behind))),
            Ast::Concat(parts) => open.extend(parts.asts.iter_mut().map(|part| (part, behind))),
            _ => {}
        }
    }
    Ok(())
}
fn syntax_error(error: ast::Error) -> RegexError {
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
fn describe(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if message == "pattern can match invalid UTF-8" {
        return format!("{message} (write it without `(?-u)`)");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regex::{parse, parsed::Parsed};

    fn error(pattern: &str) -> RegexError {
        parse(pattern, &Limits::default()).and_then(Parsed::plain).unwrap_err()
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
            parse(fine, &Limits::default()).unwrap().plain().unwrap();
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
