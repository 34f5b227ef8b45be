//! The newline terminal, divided at its last line feed: the text up to there, and the indentation after it by column.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

use unskew_automata::{Dfa, DfaAlgebra, DfaBuilder, Limits, RegexError, StateId};

/// An indentation of one column.
pub(super) struct Indentation {
    pub(super) text: Arc<Dfa>,
    /// The whole texts that may follow it: those with which the newline terminal has no longer text. `None` for any.
    pub(super) after: Option<Arc<Dfa>>,
    /// Whether some text may follow.
    pub(super) goes_on: bool,
}

pub(super) struct Columns {
    /// The texts of the newline terminal that end in a line feed and may be continued by an indentation.
    pub(super) breaks: Arc<Dfa>,
    /// By column.
    pub(super) indentations: Vec<Vec<Indentation>>,
}

/// Why there are no columns.
pub(super) enum Trouble {
    /// No text has a line feed.
    NoLineFeed,
    /// What follows a line feed is not alike after all of them.
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
    pub(super) fn new(newline: &Dfa, tab: u32, most: u32, limits: &Limits) -> Result<Self, Trouble> {
        let lines: BTreeSet<StateId> =
            newline.states().filter_map(|state| newline.step(state, b'\n')).collect();
        let mut lines = lines.into_iter();
        let (Some(line), others) = (lines.next(), lines.next()) else { return Err(Trouble::NoLineFeed) };
        if others.is_some() {
            return Err(Trouble::Unlike);
        }
        let breaks = automaton(
            newline,
            (newline.start(), false),
            |(state, _), byte| Some((newline.step(state, byte)?, byte == b'\n')),
            |(_, is_break)| is_break,
            limits,
        )?;
        let mut afters = vec![];
        for end in newline.states().filter(|state| newline.is_accepting(*state)) {
            let (after, goes_on) = after(newline, end, limits)?;
            afters.push((end, after, goes_on));
        }
        let mut indentations = vec![];
        for column in 0..=most {
            let mut own = vec![];
            for (end, after, goes_on) in &afters {
                let text = automaton(
                    newline,
                    (line, 0u32),
                    |(state, count), byte| {
                        let more = match byte {
                            b' ' => 1,
                            b'\t' => tab,
                            b'\n' => return None,
                            _ => 0,
                        };
                        let count = count.checked_add(more).filter(|count| *count <= column)?;
                        Some((newline.step(state, byte)?, count))
                    },
                    |(state, count)| state == *end && count == column,
                    limits,
                );
                match text {
                    Ok(text) => {
                        let (text, after) = (Arc::new(text), after.clone());
                        own.push(Indentation { text, after, goes_on: *goes_on });
                    }
                    Err(RegexError::MatchesNothing) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            indentations.push(own);
        }
        Ok(Self { breaks: Arc::new(breaks), indentations })
    }
}

/// The whole texts after `end` no beginning of which, but for the empty one, leads to an end of `newline`; `None` for all. And whether
/// one of them is not empty.
fn after(newline: &Dfa, end: StateId, limits: &Limits) -> Result<(Option<Arc<Dfa>>, bool), RegexError> {
    if newline.edges(end).next().is_none() {
        return Ok((None, true));
    }
    // `None` is where the terminal cannot go on.
    let made = automaton(
        newline,
        Some((end, true)),
        |place, byte| match place {
            None => Some(None),
            Some((state, _)) => match newline.step(state, byte) {
                None => Some(None),
                Some(next) => (!newline.is_accepting(next)).then_some(Some((next, false))),
            },
        },
        |_| true,
        limits,
    )?;
    let mut algebra = DfaAlgebra::new(limits);
    let some = algebra.pattern("(?s).+")?;
    let goes_on = match algebra.intersection(&made, &some) {
        Ok(_) => true,
        Err(RegexError::MatchesNothing) => false,
        Err(error) => return Err(error),
    };
    Ok((Some(Arc::new(made)), goes_on))
}

/// The automaton of the places that `step` leads to.
fn automaton<P: Copy + Eq + Hash>(
    dfa: &Dfa,
    start: P,
    step: impl Fn(P, u8) -> Option<P>,
    accepts: impl Fn(P) -> bool,
    limits: &Limits,
) -> Result<Dfa, RegexError> {
    let begins = |byte: &u8| {
        let begins = [0, b'\t', b'\n', b'\n' + 1, b' ', b' ' + 1].contains(byte);
        begins || dfa.classes().get(*byte) != dfa.classes().get(byte - 1)
    };
    let firsts: Vec<u8> = (0..=255u8).filter(begins).collect();
    let mut made = DfaBuilder::new(limits);
    made.state(accepts(start))?;
    let mut ids: HashMap<P, u32> = HashMap::from([(start, 0)]);
    let mut open = vec![start];
    while let Some(place) = open.pop() {
        let from = ids[&place];
        for (at, first) in firsts.iter().enumerate() {
            let Some(next) = step(place, *first) else { continue };
            let to = match ids.get(&next) {
                Some(known) => *known,
                None => {
                    let to = made.state(accepts(next))?;
                    ids.insert(next, to);
                    open.push(next);
                    to
                }
            };
            let last = firsts.get(at + 1).map_or(255, |next| next - 1);
            made.edge(from, *first..=last, to);
        }
    }
    made.build()
}
