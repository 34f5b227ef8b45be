//! The tree of a pattern.
//!
//! A look-around is a [`Capture`](regex_syntax::hir::Capture) with its opening as the name. No name in a pattern can be
//! the same, because names have no `?`. There are no other captures that matter.

use regex_syntax::{
    ast::{Position, Span},
    hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition},
};

use super::{Dialect, Pattern, reader, rust};
use crate::{Construct, Limits, Place, RegexError};

/// The openings of look-arounds, each with whether it looks ahead and whether it is positive.
pub(crate) const OPENINGS: [(&str, bool, bool); 4] =
    [("?<=", false, true), ("?<!", false, false), ("?=", true, true), ("?!", true, false)];

/// A pattern that was read.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The tree. Its texts are valid UTF-8.
    pub(crate) hir: Hir,
    pub(crate) dialect: Dialect,
    /// The first part that looks at the text around it, but for the beginning and the end of the whole text.
    pub(crate) look: Option<(Construct, Place)>,
}

/// The tree of `pattern`, which is to match whole texts.
///
/// Cost: O(n) for n bytes of pattern, but for classes and, in the dialect of the crate `regex`, look-around, which
/// [`Limits::syntax_steps`] bounds.
pub(crate) fn parse<'t>(pattern: impl Into<Pattern<'t>>, limits: &Limits) -> Result<Parsed, RegexError> {
    read(pattern.into(), limits, true)
}

/// The tree of `pattern`; `whole` is whether it matches whole texts, or parts of them.
pub(crate) fn read(pattern: Pattern<'_>, limits: &Limits, whole: bool) -> Result<Parsed, RegexError> {
    /// The cost of reading a byte.
    const BYTE_STEPS: u64 = 50;
    let Pattern { text, dialect } = pattern;
    limits.spend(BYTE_STEPS * text.len() as u64)?;
    if text.len() > limits.pattern_bytes {
        return Err(RegexError::PatternTooLong { bytes: text.len(), limit: limits.pattern_bytes });
    }
    let (hir, look) = match dialect {
        Dialect::Rust => rust::read(text, limits)?,
        _ => reader::read(text, dialect, limits, whole)?,
    };
    Ok(Parsed { hir, dialect, look })
}

/// The place of `text[from..to]`.
pub(super) fn place(text: &str, from: usize, to: usize) -> Place {
    let position = |offset: usize| {
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Position::new(offset, line, before[line_start..].chars().count() + 1)
    };
    Place::from(&Span::new(position(from), position(to)))
}

/// A class of characters, a number of times: see [`Pattern::counted`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The class, as a pattern of the crate `regex`.
    pub class: String,
    /// The least number of characters.
    pub min: u32,
    /// The greatest one.
    pub max: u32,
}

impl Pattern<'_> {
    /// The class and the numbers of `^[class]{min,max}$`, where the pattern is one like that. Its texts may then be
    /// counted, where an automaton has a copy of the class for each character.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: as for [`Dfa::from_pattern`](crate::Dfa::from_pattern), but for automata.
    pub fn counted(self, limits: &Limits) -> Result<Option<Counted>, RegexError> {
        let parsed = parse(self, limits)?;
        let HirKind::Concat(parts) = parsed.hir.kind() else { return Ok(None) };
        let [start, item, end] = &parts[..] else { return Ok(None) };
        let is = |part: &Hir, look| *part.kind() == HirKind::Look(look);
        let HirKind::Repetition(Repetition { min, max: Some(max), sub, .. }) = item.kind() else {
            return Ok(None);
        };
        let HirKind::Class(Class::Unicode(class)) = sub.kind() else { return Ok(None) };
        if !is(start, Look::Start) || !is(end, Look::End) {
            return Ok(None);
        }
        Ok(Some(Counted { class: class_text(class), min: *min, max: *max }))
    }
}

/// A length beside a pattern: see [`Pattern::bounded`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounded {
    /// The pattern without the length, in the same dialect.
    pub rest: String,
    /// The least number of characters.
    pub min: u32,
    /// The greatest one.
    pub max: u32,
}

impl Pattern<'_> {
    /// The length of whole texts that a look-ahead at the beginning of the pattern asks for, as in
    /// `^(?=.{1,253}$)([a-z]+\.)+$`, and the rest of the pattern. An automaton of both has a copy of the rest for each
    /// length. `None` for any other pattern, and where it writes the length in another way.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: as for [`Dfa::from_pattern`](crate::Dfa::from_pattern), but for automata.
    pub fn bounded(self, limits: &Limits) -> Result<Option<Bounded>, RegexError> {
        let Pattern { text, dialect } = self;
        let Some((at, opening)) = text.match_indices("(?=.{").next().filter(|_| text.starts_with('^')) else {
            return Ok(None);
        };
        let numbers = &text[at + opening.len()..];
        let Some((numbers, behind)) = numbers.split_once("}$)") else { return Ok(None) };
        let Some((min, max)) = numbers.split_once(',') else { return Ok(None) };
        let (Ok(min), Ok(max)) = (min.parse::<u32>(), max.parse::<u32>()) else { return Ok(None) };
        let rest = format!("{}(?=.*$){behind}", &text[..at]);
        // Whether the look-ahead is a part of the whole, behind its beginning, shows in the trees alone.
        let (own, other) = (parse(self, limits)?.hir, parse(dialect.pattern(&rest), limits)?.hir);
        let (HirKind::Concat(own), HirKind::Concat(other)) = (own.kind(), other.kind()) else {
            return Ok(None);
        };
        let is_free = |part: &Hir| *part.kind() == HirKind::Look(Look::Start) || look_ahead(part).is_some();
        let same = own.iter().zip(other).take_while(|(own, other)| own == other).count();
        let length = own.get(same).and_then(look_ahead).is_some_and(|length| match length.kind() {
            HirKind::Concat(parts) => match &parts[..] {
                [count, end] => {
                    *end.kind() == HirKind::Look(Look::End)
                        && matches!(count.kind(), HirKind::Repetition(count) if (count.min, count.max) == (min, Some(max)))
                }
                _ => false,
            },
            _ => false,
        });
        let is_beside = length
            && own.len() == other.len()
            && own[..same].iter().all(is_free)
            && own[same + 1..] == other[same + 1..];
        Ok(is_beside.then_some(Bounded { rest, min, max }))
    }
}

/// The text that a look-ahead asks for, or forbids.
fn look_ahead(part: &Hir) -> Option<&Hir> {
    let HirKind::Capture(capture) = part.kind() else { return None };
    let is_ahead =
        |(opening, ahead, _): &(&str, bool, bool)| *ahead && capture.name.as_deref() == Some(*opening);
    OPENINGS.iter().any(is_ahead).then_some(&*capture.sub)
}

fn class_text(class: &ClassUnicode) -> String {
    let range = |range: &ClassUnicodeRange| {
        format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(range.start()), u32::from(range.end()))
    };
    format!("[{}]", class.iter().map(range).collect::<String>())
}

impl Parsed {
    /// The tree, where nothing in it looks around.
    ///
    /// # Errors
    ///
    /// [`RegexError::Unsupported`].
    pub(crate) fn plain(self) -> Result<Hir, RegexError> {
        match self.look {
            None => Ok(self.hir),
            Some((construct, place)) => Err(RegexError::Unsupported { construct, place }),
        }
    }

    /// The texts in which the pattern has a match.
    ///
    /// A repetition at an end of the pattern matches there if the fewest rounds do, which are all that is kept of it:
    /// `\p{L}{1,2000}` has a match where `\p{L}` has one.
    ///
    /// Where every alternative begins with `^`, any text before it is none, and the pattern needs no anchor.
    pub(crate) fn searched(self) -> Self {
        let any = || {
            let class = ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]);
            let sub = Box::new(Hir::class(Class::Unicode(class)));
            Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub })
        };
        let (mut hir, mut open) = (self.hir, [true; 2]);
        for (open, look) in open.iter_mut().zip([Look::Start, Look::End]) {
            if let Some(rest) = without(&hir, look) {
                (hir, *open) = (rest, false);
            }
        }
        let around = open.map(|open| if open { any() } else { Hir::empty() });
        let [before, after] = around;
        Self { hir: Hir::concat(vec![before, fewest(hir, open), after]), ..self }
    }
}

/// `hir` without the anchor at an end of each alternative; `None` if an alternative has none there.
fn without(hir: &Hir, anchor: Look) -> Option<Hir> {
    match hir.kind() {
        HirKind::Look(look) if *look == anchor => Some(Hir::empty()),
        HirKind::Alternation(ways) => {
            let ways: Option<Vec<Hir>> = ways.iter().map(|way| without(way, anchor)).collect();
            ways.map(Hir::alternation)
        }
        HirKind::Concat(parts) => {
            let at = if anchor == Look::Start { 0 } else { parts.len() - 1 };
            let rest = without(&parts[at], anchor)?;
            let mut parts = parts.clone();
            parts[at] = rest;
            Some(Hir::concat(parts))
        }
        _ => None,
    }
}

/// `hir` with the fewest rounds of repetitions at those of its ends that are `open`, in each alternative.
fn fewest(hir: Hir, open: [bool; 2]) -> Hir {
    if open == [false; 2] {
        return hir;
    }
    match hir.into_kind() {
        HirKind::Alternation(ways) => {
            Hir::alternation(ways.into_iter().map(|way| fewest(way, open)).collect())
        }
        HirKind::Concat(mut parts) => {
            for (end, _) in [0, parts.len() - 1].into_iter().zip(open).filter(|(_, open)| *open) {
                let part = std::mem::replace(&mut parts[end], Hir::empty());
                parts[end] = rounds(part);
            }
            Hir::concat(parts)
        }
        kind => rounds(of(kind)),
    }
}

fn rounds(part: Hir) -> Hir {
    match part.into_kind() {
        HirKind::Repetition(repetition) => {
            Hir::repetition(Repetition { max: Some(repetition.min), ..repetition })
        }
        kind => of(kind),
    }
}

/// The node of a kind that a node had.
fn of(kind: HirKind) -> Hir {
    match kind {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(repetition) => Hir::repetition(repetition),
        HirKind::Capture(capture) => Hir::capture(capture),
        HirKind::Concat(parts) => Hir::concat(parts),
        HirKind::Alternation(parts) => Hir::alternation(parts),
    }
}
