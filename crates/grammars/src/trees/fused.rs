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

use hashbrown::HashSet;
use unskew_automata::{Dfa, DfaAlgebra, Limits, StateId};

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

/// Whether `right` reads all texts of `left`, each from a state on. Answers false also where there are more than `most`
/// pairs of states.
pub(crate) fn is_within(left: (&Dfa, StateId), right: (&Dfa, StateId), most: usize) -> bool {
    let mut pairs = vec![(left.1, right.1)];
    let mut known: HashSet<(StateId, StateId)> = pairs.iter().copied().collect();
    while let Some((from, beside)) = pairs.pop() {
        if left.0.is_accepting(from) && !right.0.is_accepting(beside) {
            return false;
        }
        // Some text is accepted from every state of an automaton.
        let mut others = right.0.edges(beside).peekable();
        for edge in left.0.edges(from) {
            let mut byte = *edge.bytes.start();
            loop {
                while others.next_if(|other| *other.bytes.end() < byte).is_some() {}
                let Some(other) = others.peek().filter(|other| *other.bytes.start() <= byte) else {
                    return false;
                };
                let pair = (edge.target, other.target);
                if known.insert(pair) {
                    if known.len() > most {
                        return false;
                    }
                    pairs.push(pair);
                }
                if other.bytes.end() >= edge.bytes.end() {
                    break;
                }
                byte = *other.bytes.end() + 1;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of at most `most` letters.
    fn texts(most: usize) -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new()];
        let mut first = 0;
        for _ in 0..most {
            let last = texts.len();
            for index in first..last {
                for letter in b"abcz" {
                    let text = [&texts[index][..], &[*letter]].concat();
                    texts.push(text);
                }
            }
            first = last;
        }
        texts
    }

    #[test]
    fn what_is_within_is_read_by_both() {
        let patterns = [
            "[a-z]+",
            "[a-z][a-b]*",
            "a+",
            "a+b?",
            "(ab)+",
            "[ab]+",
            "[ab]{2,3}",
            "z?[ab]+",
            "[a-z]{2}",
            "[b-z]b*",
            "a",
            "[bz]a*",
            "([a-z][a-z])+",
            "(a|b)*z",
        ];
        let automata = patterns.map(|pattern| Dfa::from_pattern(pattern, &Limits::default()).unwrap());
        let texts = texts(6);
        let mut seen = [0, 0];
        for (left, pattern) in automata.iter().zip(patterns) {
            for (right, other) in automata.iter().zip(patterns) {
                for from in left.states() {
                    let reads = |dfa: &Dfa, state, text: &[u8]| {
                        dfa.run(state, text).is_some_and(|behind| dfa.is_accepting(behind))
                    };
                    let expected = texts
                        .iter()
                        .all(|text| !reads(left, from, text) || reads(right, right.start(), text));
                    let found = is_within((left, from), (right, right.start()), 1 << 12);
                    assert_eq!(found, expected, "{pattern} from {from:?} in {other}");
                    seen[usize::from(found)] += 1;
                }
            }
        }
        assert!(seen[0] > 100 && seen[1] > 30, "{seen:?}");
    }
}
