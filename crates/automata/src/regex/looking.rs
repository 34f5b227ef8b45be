//! Pattern text with look-around to syntax tree.
//!
//! `regex-syntax` reads no look-around and reports the place of the first one that it meets. So the reader repairs the
//! text there and tries again: the opening of a look-around becomes the opening of a plain group of the same length, so
//! that all places stay true, and the group becomes a capture with the opening as its name once the tree is read. No
//! name in a pattern can be the same, because names have no `?`. In the `Hir` a look-around is therefore
//! [`HirKind::Capture`](regex_syntax::hir::HirKind::Capture) with one of the [`OPENINGS`] as its name.
//!
//! Tried instead: a parser of our own, which would differ from `regex-syntax` in corners that users know, and a scan
//! for `(?=` beforehand, which has to know classes, escapes and comments.

use std::collections::HashMap;

use regex_syntax::{
    ast::{self, AssertionKind, Ast, CaptureName, ErrorKind, GroupKind, Span},
    hir::{Hir, translate::TranslatorBuilder},
};

use super::{check, syntax};
use crate::{Construct, Limits, Place, RegexError};

/// The openings of look-arounds, each with whether it looks ahead and whether it is positive.
pub(crate) const OPENINGS: [(&str, bool, bool); 4] =
    [("?<=", false, true), ("?<!", false, false), ("?=", true, true), ("?!", true, false)];

/// Takes the place of a brace that is a character. It has one byte, as the brace has.
const BRACE: char = '\u{1}';

/// The syntax tree of `pattern`, with look-arounds as named captures and with all of [`Look`](regex_syntax::hir::Look).
/// `braces` is whether a `{` that begins no repetition is a character, as in Python.
///
/// Cost: O(n m) for n bytes of pattern and m look-arounds, which [`Limits::syntax_steps`] bounds.
pub(crate) fn read(pattern: &str, limits: &Limits, braces: bool) -> Result<Hir, RegexError> {
    syntax::check_text(pattern, limits)?;
    let nest = limits.nest.min(Limits::MAX_NEST);
    let mut text = pattern.to_owned();
    let mut looks: HashMap<usize, &'static str> = HashMap::new();
    let mut literal: Vec<usize> = vec![];
    let mut steps = 0;
    let mut tree = loop {
        let error = match ast::parse::ParserBuilder::new().nest_limit(nest).build().parse(&text) {
            Ok(tree) => break tree,
            Err(error) => error,
        };
        steps += text.len() as u64;
        if steps > limits.syntax_steps {
            let place = Place::from(error.span());
            return Err(RegexError::SyntaxTooCostly { steps, limit: limits.syntax_steps, place });
        }
        let at = error.span().start.offset;
        match error.kind() {
            ErrorKind::UnsupportedLookAround => {
                let opening = OPENINGS.iter().find(|(opening, ..)| text[at + 1..].starts_with(opening));
                let (opening, ..) = opening.expect("a look-around begins here");
                looks.insert(at, opening);
                text.replace_range(
                    at + 1..=at + opening.len(),
                    if opening.len() == 2 { "?:" } else { "?u:" },
                );
            }
            ErrorKind::RepetitionCountUnclosed
            | ErrorKind::RepetitionCountDecimalEmpty
            | ErrorKind::RepetitionMissing
                if braces =>
            {
                let Some(brace) = text[..text.len().min(at + 1)].rfind('{') else {
                    return Err(syntax::syntax_error(error));
                };
                literal.push(brace);
                text.replace_range(brace..=brace, BRACE.encode_utf8(&mut [0; 4]));
            }
            _ => return Err(syntax::syntax_error(error)),
        }
    };
    restore(&mut tree, &looks, &literal)?;
    check::check(&tree, limits, true)?;
    TranslatorBuilder::new().utf8(true).build().translate(pattern, &tree).map_err(|error| {
        RegexError::Syntax {
            message: syntax::describe(&error.kind().to_string()),
            place: Place::from(error.span()),
        }
    })
}

/// Puts look-arounds and braces back into the tree, by their places. Refuses look-ahead inside look-behind: a
/// look-behind is judged by the text before it alone.
fn restore(
    tree: &mut Ast,
    looks: &HashMap<usize, &'static str>,
    literal: &[usize],
) -> Result<(), RegexError> {
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
            Ast::Literal(character) if literal.contains(&character.span.start.offset) => character.c = '{',
            Ast::Repetition(repetition) => open.push((&mut repetition.ast, behind)),
            Ast::Alternation(parts) => open.extend(parts.asts.iter_mut().map(|part| (part, behind))),
            Ast::Concat(parts) => open.extend(parts.asts.iter_mut().map(|part| (part, behind))),
            _ => {}
        }
    }
    Ok(())
}
