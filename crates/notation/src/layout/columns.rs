//! The newline terminal, divided at its last line feed: the text up to there, and the indentation after it by column.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc};

use unskew_automata::{
    Dfa, Limits, RegexError, StateId,
    dfa::{Cuts, DfaAlgebra},
};
use unskew_trie::ByteSet;

use super::Ignoring;

/// An indentation of one column.
pub(super) struct Indentation {
    pub(super) text: Arc<Dfa>,
    /// The texts that may follow it: an index of [`Columns::afters`]. `None` for any.
    pub(super) after: Option<usize>,
}

/// The texts that may follow an indentation: those with which the newline terminal has no longer text.
pub(super) struct After {
    /// As whole texts.
    pub(super) texts: Arc<Dfa>,
    /// Whether one of them is not empty.
    pub(super) goes_on: bool,
    /// The ignored texts that may follow, without the empty one. `None` if what is ignored is no automaton.
    pub(super) ignored: Option<Vec<Way>>,
    /// The newline terminals that may follow, up to their last line feeds.
    pub(super) breaks: Vec<Way>,
}

/// Texts after an indentation.
pub(super) struct Way {
    pub(super) text: Arc<Dfa>,
    /// The whole texts that may follow them. `None` for any.
    pub(super) after: Option<Arc<Dfa>>,
}

pub(super) struct Columns {
    /// The texts of the newline terminal that end in a line feed and may be continued by an indentation.
    pub(super) breaks: Arc<Dfa>,
    /// By column.
    pub(super) indentations: Vec<Vec<Indentation>>,
    pub(super) afters: Vec<After>,
    /// The first bytes that no indentation forbids, and with which all that follows is allowed.
    pub(super) harmless: ByteSet,
}

/// Why there are no columns.
pub(super) enum Trouble {
    /// No text has a line feed.
    NoLineFeed,
    /// The line feeds lead to different states.
    Unlike,
    Automaton(RegexError),
}

impl From<RegexError> for Trouble {
    fn from(error: RegexError) -> Self {
        Self::Automaton(error)
    }
}

impl Columns {
    /// The columns 0 to `most` of `newline`. A blank is one column, and a tab `tab` columns.
    pub(super) fn new(
        newline: &Dfa,
        ignored: Ignoring<'_>,
        tab: u32,
        most: u32,
        limits: &Limits,
    ) -> Result<Self, Trouble> {
        let lines: BTreeSet<StateId> =
            newline.states().filter_map(|state| newline.step(state, b'\n')).collect();
        let mut lines = lines.into_iter();
        let (Some(line), others) = (lines.next(), lines.next()) else { return Err(Trouble::NoLineFeed) };
        if others.is_some() {
            return Err(Trouble::Unlike);
        }
        let ranges = ranges(&[newline]);
        let breaks = Dfa::explored(
            &ranges,
            (newline.start(), false),
            |(state, _), byte| Some((newline.step(*state, byte)?, byte == b'\n')),
            |(_, is_break)| *is_break,
            limits,
        )?;
        // By accepting state: the index of what may follow.
        let (mut ends, mut afters) = (vec![], vec![]);
        let mut harmless: ByteSet = (0..=255).collect();
        for end in newline.states().filter(|state| newline.is_accepting(*state)) {
            if newline.edges(end).next().is_none() {
                ends.push((end, None));
                continue;
            }
            let texts = texts_after(newline, end, limits)?;
            harmless = harmless.iter().filter(|byte| allows_all(&texts, *byte)).collect();
            let mut algebra = DfaAlgebra::new(limits);
            let some = algebra.pattern("(?s).+")?;
            let goes_on = match algebra.intersection(&texts, &some) {
                Ok(_) => true,
                Err(RegexError::MatchesNothing) => false,
                Err(error) => return Err(error.into()),
            };
            let ignored = match ignored {
                Ignoring::Nothing => Some(vec![]),
                Ignoring::Automaton(ignored) => Some(ways(&texts, ignored, limits)?),
                Ignoring::Other => None,
            };
            let breaks = ways(&texts, &breaks, limits)?;
            ends.push((end, Some(afters.len())));
            afters.push(After { texts: Arc::new(texts), goes_on, ignored, breaks });
        }
        let mut indentations = vec![];
        for column in 0..=most {
            let mut own = vec![];
            for (end, after) in &ends {
                let text = Dfa::explored(
                    &ranges,
                    (line, 0u32),
                    |(state, count), byte| {
                        let more = match byte {
                            b' ' => 1,
                            b'\t' => tab,
                            b'\n' => return None,
                            _ => 0,
                        };
                        let count = count.checked_add(more).filter(|count| *count <= column)?;
                        Some((newline.step(*state, byte)?, count))
                    },
                    |(state, count)| state == end && *count == column,
                    limits,
                );
                match text {
                    Ok(text) => own.push(Indentation { text: Arc::new(text), after: *after }),
                    Err(RegexError::MatchesNothing) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            indentations.push(own);
        }
        Ok(Self { breaks: Arc::new(breaks), indentations, afters, harmless })
    }
}

/// The whole texts after `end` no beginning of which, but for the empty one, leads to an end of `newline`.
fn texts_after(newline: &Dfa, end: StateId, limits: &Limits) -> Result<Dfa, RegexError> {
    // `None` is where the terminal cannot go on.
    Dfa::explored(
        &ranges(&[newline]),
        Some((end, true)),
        |place, byte| match place {
            None => Some(None),
            Some((state, _)) => match newline.step(*state, byte) {
                None => Some(None),
                Some(next) => (!newline.is_accepting(next)).then_some(Some((next, false))),
            },
        },
        |_| true,
        limits,
    )
}

/// Whether `texts`, which is minimal, has every text from this state on.
fn has_all(texts: &Dfa, state: StateId) -> bool {
    texts.is_accepting(state) && (0..=255).all(|byte| texts.step(state, byte) == Some(state))
}

fn allows_all(texts: &Dfa, byte: u8) -> bool {
    texts.step(texts.start(), byte).is_some_and(|next| has_all(texts, next))
}

/// The texts of `dfa` with which texts of `after` begin, without the empty one, by what may follow them.
fn ways(after: &Dfa, dfa: &Dfa, limits: &Limits) -> Result<Vec<Way>, RegexError> {
    let mut algebra = DfaAlgebra::new(limits);
    let (mut found, ranges) = (vec![], ranges(&[after, dfa]));
    for end in after.states() {
        let text = Dfa::explored(
            &ranges,
            (after.start(), dfa.start(), false),
            |(state, own, _), byte| Some((after.step(*state, byte)?, dfa.step(*own, byte)?, true)),
            |(state, own, has_begun)| *has_begun && *state == end && dfa.is_accepting(*own),
            limits,
        );
        let text = match text {
            Ok(text) => Arc::new(text),
            Err(RegexError::MatchesNothing) => continue,
            Err(error) => return Err(error),
        };
        let after = match has_all(after, end) {
            true => None,
            false => Some(Arc::new(algebra.left_quotient(after, end)?)),
        };
        found.push(Way { text, after });
    }
    Ok(found)
}

/// Ranges of bytes that none of `dfas` tells apart, and no layout: line feeds, blanks and tabs are ranges of their own.
fn ranges(dfas: &[&Dfa]) -> Vec<RangeInclusive<u8>> {
    let mut cuts = Cuts::default();
    cuts.bytes(b"\t\n ");
    dfas.iter().for_each(|dfa| cuts.classes(dfa.classes()));
    cuts.ranges()
}
