//! Fused terminals: the concatenation of terminals that overlap, as one automaton.
//!
//! A subterminal tree leaves a terminal where it cannot read the next byte. Where it could read that byte and could
//! also end, and the next terminal begins with the same byte, a text has several hypotheses: `node` is a name, or
//! `no` and then `de`. The hypotheses differ in the cut, but their union does not depend on it: the texts of a name
//! and then a name. So two terminals with an open cut are one automaton, their concatenation, and the tree continues
//! from that. It is an automaton like any other, its nodes are in the library, and it is fused in turn with the next
//! terminal that it overlaps.
//!
//! A list of names without separators would be fused for ever. But terminals that lead back to the parser state from
//! which they came are a loop, and any number of them is one automaton too: their repetition.
//!
//! Tried instead: to read on by configurations, which keep every cut. That remains where an automaton would be too
//! large. It takes the time of a walk over the vocabulary for each mask: most of a millisecond, in a tenth of the
//! masks of some grammars.

use unskew_automata::{Dfa, Limits, StateId, dfa::DfaAlgebra};

use super::cache::LibraryId;
use crate::tuning::Tuning;

/// The second part of a concatenation.
#[derive(Clone, Debug)]
pub(crate) enum Next<'a> {
    /// A text.
    Literal(&'a [u8]),
    /// An automaton, with its number in a library.
    Once(LibraryId, &'a Dfa),
    /// One or more texts of these automata, in any order.
    Many(Vec<(LibraryId, &'a Dfa)>),
}

/// A second part, by the numbers of automata in a library.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NextKey {
    Literal(Box<[u8]>),
    Once(LibraryId),
    Many(Box<[LibraryId]>),
}

impl NextKey {
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            Self::Literal(text) => text.len(),
            Self::Once(_) => 0,
            Self::Many(numbers) => size_of_val(&numbers[..]),
        }
    }
}

impl Next<'_> {
    pub(crate) fn key(&self) -> NextKey {
        match self {
            Self::Literal(text) => NextKey::Literal((*text).into()),
            Self::Once(number, _) => NextKey::Once(*number),
            Self::Many(parts) => NextKey::Many(parts.iter().map(|(number, _)| *number).collect()),
        }
    }
}

/// The concatenation of the language of `dfa` from `state` on and `next`. `None` where the automaton is too large.
pub(crate) fn fuse(dfa: &Dfa, state: StateId, next: &Next<'_>, tuning: &Tuning) -> Option<Dfa> {
    let limits = Limits::default().dfa_states(tuning.fused_states).dfa_steps(tuning.fused_steps);
    let mut builder = DfaAlgebra::new(&limits);
    let fused = builder.left_quotient(dfa, state).and_then(|first| {
        let next = match next {
            Next::Literal(text) => builder.literals([text]),
            Next::Once(_, dfa) => return builder.concatenation([&first, dfa]),
            Next::Many(parts) => {
                let any = builder.union(parts.iter().map(|(_, dfa)| *dfa))?;
                builder.repetition(&any, 1, None)
            }
        }?;
        builder.concatenation([&first, &next])
    });
    fused.ok()
}
