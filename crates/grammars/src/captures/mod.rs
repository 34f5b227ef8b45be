//! Captures: parts of an output that a grammar names (`name[capture]: …`), with their places.
//!
//! A mask needs no reading of a text, only the set of all of them, so captures are found afterwards: the tokens of a
//! whole output are parsed once more, by Earley's algorithm, and one reading is chosen. The rule is that of a person
//! who reads from left to right with the grammar beside the text. A rule takes its first alternative that reads the
//! text. In a sequence each part, and in a repetition each round, takes as much text as the rest allows, from the
//! left; a round has a text. A part that may be left out is there if it can be.
//!
//! Where lazy terminals compete with others, the rules are rewritten before they are compiled, and the rewritten ones
//! say where terminals begin and end: of these readings the first one with lazy terminals where they may be. The
//! rules as they were then read these terminals. Where terminals look around, rules are written several times, and
//! the reading is the first one of these.
//!
//! Tried instead: spans in the items of the parser. They keep configurations apart that are the same for every mask,
//! so that masks recur less, and outputs without captures would pay. Regexes with groups do it with registers, and
//! have no recursion.

mod chart;
mod rules;

use std::{ops::Range, sync::Arc};

use unskew_core::{TokenId, Vocabulary};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits, RuleId, kit::budget};

use self::{
    chart::Chart,
    rules::{Rules, unread},
};

/// A part of an output that the grammar names.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Capture {
    /// The name.
    pub name: Arc<str>,
    /// The text.
    pub text: Vec<u8>,
    /// The place of the text in the output, in bytes. Control tokens have none.
    pub bytes: Range<usize>,
    /// The tokens that have a byte of the text, by their index in the output. Those at its borders may have bytes
    /// beside it.
    pub tokens: Range<usize>,
}

/// Why the captures of an output are not known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The output does not satisfy the grammar, or is not whole.
    #[error("the output has no captures: it is no whole output of the grammar")]
    Unfinished,
    /// A rule reads a text through itself alone, so that the first reading has no end.
    #[error(
        "the rule `{rule}` may read a text through itself alone, so no reading is the first one: take the way out that adds no text"
    )]
    #[non_exhaustive]
    Endless {
        /// The rule.
        rule: String,
    },
    /// A construct whose readings are not followed.
    #[error("{construct} in a grammar with captures: their places are not known")]
    #[non_exhaustive]
    Unsupported {
        /// The construct, in words.
        construct: &'static str,
    },
    /// The output has too many partial readings.
    #[error(
        "the captures of the output take more than {limit} partial readings (GrammarLimits::capture_items): give the grammar fewer \
         readings, or raise the limit"
    )]
    #[non_exhaustive]
    TooCostly {
        /// The limit.
        limit: usize,
    },
}

/// The reader of the captures of a grammar. Immutable.
///
/// [`GrammarConstraint::captures`](crate::GrammarConstraint::captures) has one; it stands alone for programs that
/// enforce a grammar by an automaton.
#[derive(Clone, Debug)]
pub struct Captures {
    rules: Result<Rules, CaptureError>,
    vocabulary: Arc<Vocabulary>,
    /// Whether there are names and not temperatures alone.
    has_names: bool,
    limit: usize,
}

/// One place of an output.
#[derive(Clone, Copy, Debug)]
enum Input {
    Byte(u8),
    /// A control token.
    Control,
}

/// An output as the parser reads it. Control tokens take a place, as a byte does.
struct Text {
    places: Vec<Input>,
    /// By place: the token that begins there, and the place after it.
    tokens: Vec<Option<(TokenId, usize)>>,
}

impl Captures {
    /// The reader for outputs in the tokens of `vocabulary`; `None` for a grammar without captures and temperatures.
    ///
    /// # Errors
    ///
    /// [`GrammarError`], where a terminal names a token that the vocabulary does not have, or the sets of tokens of
    /// its budgets are beyond a limit.
    pub fn new(
        grammar: &Grammar,
        vocabulary: &Arc<Vocabulary>,
        limits: &GrammarLimits,
    ) -> Result<Option<Self>, GrammarError> {
        if !grammar.has_readings() {
            return Ok(None);
        }
        let grammar = budget::written_out(grammar, vocabulary, limits, &unread)?;
        let limit = limits.capture_items;
        let rules = Rules::new(&grammar, vocabulary, limits)?;
        let has_names = grammar.rules().any(|rule| names(&grammar, rule));
        Ok(Some(Self { rules, vocabulary: Arc::clone(vocabulary), has_names, limit }))
    }

    /// Whether the grammar names parts of its outputs, and does not have temperatures alone.
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// The memory of the rules, in bytes. The vocabulary is not counted.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.rules.as_ref().map_or(0, Rules::memory_usage)
    }

    /// The captures of a whole output: see [`GrammarConstraint::captures`](crate::GrammarConstraint::captures).
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the output is not whole, has too many readings, or has no first one.
    pub fn read(&self, tokens: &[TokenId]) -> Result<Vec<Capture>, CaptureError> {
        if !self.has_names {
            return Ok(Vec::new());
        }
        let rules = self.rules.as_ref().map_err(Clone::clone)?;
        let (text, bytes, before) = self.text(tokens);
        let whole = 0..number(text.places.len());
        let found = Chart::new(rules, rules.start, &text, whole, None, self.limit)?.first_reading()?;
        Ok(found
            .into_iter()
            .map(|(name, from, to)| {
                let span = before[from].0..before[to].0;
                // A token that begins before the text and has bytes in it belongs to it.
                let begun = before[from].1;
                let inside = text.tokens.get(from).is_some_and(Option::is_none);
                let first = if inside && from < to { begun - 1 } else { begun };
                Capture {
                    name,
                    text: bytes[span.clone()].to_vec(),
                    bytes: span,
                    tokens: first..before[to].1.max(first),
                }
            })
            .collect())
    }

    /// The temperature for the token after `tokens`: see
    /// [`GrammarConstraint::temperature`](crate::GrammarConstraint::temperature).
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the text has too many readings, or a construct of the grammar tells none.
    pub fn temperature(&self, tokens: &[TokenId]) -> Result<Option<f64>, CaptureError> {
        let rules = self.rules.as_ref().map_err(Clone::clone)?;
        let (text, ..) = self.text(tokens);
        let whole = 0..number(text.places.len());
        Chart::new(rules, rules.start, &text, whole, None, self.limit)?.temperature()
    }

    /// The places of `tokens`, their bytes, and by place the bytes before it and the tokens that begin before it.
    fn text(&self, tokens: &[TokenId]) -> (Text, Vec<u8>, Vec<(usize, usize)>) {
        let mut text = Text { places: Vec::new(), tokens: Vec::new() };
        let mut bytes: Vec<u8> = Vec::new();
        let mut before: Vec<(usize, usize)> = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let begin = text.places.len();
            let places: Vec<Input> = match self.vocabulary.text(*token) {
                Some(of) => of.iter().map(|byte| Input::Byte(*byte)).collect(),
                None => vec![Input::Control],
            };
            for (at, place) in places.iter().enumerate() {
                before.push((bytes.len(), index + usize::from(at > 0)));
                text.places.push(*place);
                text.tokens.push(None);
                if let Input::Byte(byte) = place {
                    bytes.push(*byte);
                }
            }
            if let Some(first) = text.tokens.get_mut(begin) {
                *first = Some((*token, begin + places.len()));
            }
        }
        before.push((bytes.len(), tokens.len()));
        (text, bytes, before)
    }
}

/// Whether texts of a rule have a name, or were rewritten so that they may have.
fn names(grammar: &Grammar, rule: RuleId) -> bool {
    let origin =
        || grammar.origin(rule).is_some_and(|(origin, _)| origin.rules().any(|rule| names(origin, rule)));
    grammar.capture(rule).is_some() || origin()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
