//! The factors of a sequence of texts: the concatenations of adjacent ones.
//!
//! The suffix automaton of the sequence (Blumer et al., "The smallest automaton recognizing the subwords of a text",
//! 1985) has at most two states for each part, and it is deterministic over parts. Over bytes, a state reads the parts
//! that may come next side by side, as a trie. Where one part begins with another one, a text may be read in two ways,
//! so the states over bytes are sets; for words and characters a set has one or two members.
//!
//! Tried instead: the subset construction from all positions at once. Its sets have each place where a factor occurs,
//! so 20 KB of a sentence again and again take more than 30 million steps, and 50 KB of other prose more than 24 MB.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{builder::DfaBuilder, explore::Numbered};
use crate::{Dfa, Limits, RegexError};

/// A state of the suffix automaton.
#[derive(Clone, Default)]
struct State {
    /// The longest factor that leads here.
    len: u32,
    /// The state of its longest suffix that leads elsewhere.
    link: Option<u32>,
    /// By part.
    next: FxHashMap<u32, u32>,
}

/// A state that has read the first `depth` bytes of the parts `first` to `end` of its edges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Reading {
    state: u32,
    first: u32,
    end: u32,
    depth: u32,
}

type Readings = SmallVec<[Reading; 2]>;

/// The factors of `parts`, none of which is empty. `spend` counts steps.
///
/// # Errors
///
/// [`RegexError`]: a limit, or an error of `spend`.
pub(super) fn factors(
    parts: &[&[u8]],
    limits: &Limits,
    mut spend: impl FnMut(u64) -> Result<(), RegexError>,
) -> Result<Dfa, RegexError> {
    let mut sorted: Vec<&[u8]> = parts.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let ids: FxHashMap<&[u8], u32> = (0..).zip(&sorted).map(|(id, part)| (*part, id)).collect();
    let sequence: Vec<u32> = parts.iter().map(|part| ids[part]).collect();
    let states = suffix_automaton(&sequence, &mut spend)?;
    // By state: its parts in the order of their bytes, with the states after them.
    let edges: Vec<Vec<(u32, u32)>> = states
        .into_iter()
        .map(|state| {
            let mut edges: Vec<(u32, u32)> = state.next.into_iter().collect();
            edges.sort_unstable();
            edges
        })
        .collect();
    let at = |state: u32| {
        let end = u32::try_from(edges[state as usize].len()).expect("there are no more than parts");
        Reading { state, first: 0, end, depth: 0 }
    };
    let mut builder = DfaBuilder::new(limits);
    let start: Readings = [at(0)].into_iter().collect();
    let mut found: Numbered<Readings> = Numbered::from_iter([start]);
    let mut from = builder.state(true)?;
    // By byte: where it leads.
    let mut after: Vec<(u8, Reading)> = vec![];
    while let Some(readings) = found.get_index(from as usize) {
        after.clear();
        for reading in readings {
            let Reading { state, mut first, end, depth } = *reading;
            let byte = |index: u32| {
                let (part, _) = edges[state as usize][index as usize];
                sorted[part as usize].get(depth as usize).copied()
            };
            // A part that ends here was followed already.
            while first < end && byte(first).is_none() {
                first += 1;
            }
            while first < end {
                let next = byte(first).expect("parts are sorted, and shorter ones come first");
                let rest = &edges[state as usize][first as usize..end as usize];
                let same = rest.partition_point(|(part, _)| sorted[*part as usize][depth as usize] <= next);
                let last = first + u32::try_from(same).expect("there are no more than parts");
                let (part, target) = edges[state as usize][first as usize];
                let is_whole = sorted[part as usize].len() == depth as usize + 1;
                if is_whole {
                    after.push((next, at(target)));
                }
                if !is_whole || last > first + 1 {
                    after.push((next, Reading { state, first, end: last, depth: depth + 1 }));
                }
                first = last;
            }
        }
        spend(2 * after.len() as u64 + 1)?;
        after.sort_unstable();
        after.dedup();
        for same in after.chunk_by(|left, right| left.0 == right.0) {
            let next: Readings = same.iter().map(|(_, reading)| *reading).collect();
            let may_end = next.iter().any(|reading| reading.depth == 0);
            let (to, is_new) = found.insert_full(next);
            if is_new {
                builder.state(may_end)?;
            }
            builder.edge(from, same[0].0..=same[0].0, number(to));
        }
        from += 1;
    }
    builder.build()
}

/// The suffix automaton of a sequence of parts. The first state is its start.
fn suffix_automaton(
    sequence: &[u32],
    spend: &mut impl FnMut(u64) -> Result<(), RegexError>,
) -> Result<Vec<State>, RegexError> {
    let mut states = vec![State::default()];
    let mut last = 0u32;
    for part in sequence {
        spend(4)?;
        let added = number(states.len());
        states.push(State { len: states[last as usize].len + 1, ..State::default() });
        let mut at = Some(last);
        while let Some(state) = at.filter(|state| !states[*state as usize].next.contains_key(part)) {
            states[state as usize].next.insert(*part, added);
            at = states[state as usize].link;
        }
        states[added as usize].link = match at {
            None => Some(0),
            Some(before) => {
                let target = states[before as usize].next[part];
                if states[target as usize].len == states[before as usize].len + 1 {
                    Some(target)
                } else {
                    // The suffixes of this length and less go on in more ways than the longer ones.
                    spend(states[target as usize].next.len() as u64)?;
                    let shorter = number(states.len());
                    states.push(State {
                        len: states[before as usize].len + 1,
                        ..states[target as usize].clone()
                    });
                    let mut at = Some(before);
                    while let Some(state) =
                        at.filter(|state| states[*state as usize].next.get(part) == Some(&target))
                    {
                        states[state as usize].next.insert(*part, shorter);
                        at = states[state as usize].link;
                    }
                    states[target as usize].link = Some(shorter);
                    Some(shorter)
                }
            }
        };
        last = added;
    }
    Ok(states)
}

fn number(len: usize) -> u32 {
    u32::try_from(len).expect("there are two states for each part, and parts are less than 2^31")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Random sequences over parts that begin with each other, against the list of all factors.
    #[test]
    fn factors_are_those_of_the_definition() {
        let limits = Limits::default();
        let mut random = 1u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        let kinds: [&[&str]; 4] =
            [&["a", "b", "c"], &["a", "ab", "abc", "b", "bc"], &["a", "aa"], &["é", "è", "ab", "a", " "]];
        for case in 0..200 {
            let of = kinds[case % 4];
            let parts: Vec<&[u8]> = (0..draw(12)).map(|_| of[draw(of.len())].as_bytes()).collect();
            let made = factors(&parts, &limits, |_| Ok(())).unwrap();
            let all: BTreeSet<Vec<u8>> = (0..=parts.len())
                .flat_map(|first| (first..=parts.len()).map(move |end| (first, end)))
                .map(|(first, end)| parts[first..end].concat())
                .collect();
            let filled = all.iter().filter(|text| !text.is_empty());
            let mut algebra = crate::dfa::DfaAlgebra::new(&limits);
            let empty = algebra.pattern("").unwrap();
            let expected = match algebra.literals(filled) {
                Ok(texts) => algebra.union([&texts, &empty]).unwrap(),
                Err(_) => empty,
            };
            assert_eq!(made, expected, "{parts:?}");
        }
    }

    /// The states grow with the text, also where factors occur again and again.
    #[test]
    fn work_is_linear_in_the_text() {
        let text = "the cat sat on the mat. a cat, the mat ".repeat(1_300);
        for parts in [
            text.as_bytes().chunks(1).collect::<Vec<_>>(),
            text.split_inclusive(' ').map(str::as_bytes).collect(),
        ] {
            let mut steps = 0;
            let made = factors(&parts, &Limits::default(), |more| {
                steps += more;
                Ok(())
            });
            let made = made.unwrap();
            assert!(made.accepts(&text.as_bytes()[390..780]) && !made.accepts(b"the dog"));
            assert!(steps < 40 * text.len() as u64, "{steps} steps");
        }
    }
}
