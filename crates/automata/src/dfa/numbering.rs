//! The canonical form of an automaton that is given edge by edge, without a table before it.
//!
//! A state of a lifted string has three edges and a hundred columns. Its row was written four times: empty, with its
//! edges, in canonical order, and without the columns that others equal; and was read to find that the state leads to
//! an end. Here the edges are sorted and numbered, equal columns are found by the edges over them, and the row is
//! written once.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::table::{DEAD, Table, begins};
use crate::{Limits, RegexError, StateId, dfa::Cuts};

/// A source, bytes and a target.
pub(super) type GivenEdge = (u32, RangeInclusive<u8>, u32);

/// The edges of all states, those of one in the order of their bytes.
struct Sorted {
    /// By state: the first of its edges.
    begins: Vec<usize>,
    /// First and last byte, and the next state.
    edges: Vec<(u8, u8, u32)>,
}

impl Sorted {
    fn new(states: usize, given: &[GivenEdge]) -> Self {
        let begins = begins(states, given.iter().map(|(from, ..)| *from));
        let (mut edges, mut at) = (vec![(0, 0, 0); given.len()], begins.clone());
        for (from, bytes, to) in given {
            edges[at[*from as usize]] = (*bytes.start(), *bytes.end(), *to);
            at[*from as usize] += 1;
        }
        let (mut sorted, mut ends) = (Vec::with_capacity(edges.len()), vec![0]);
        for state in begins.array_windows() {
            let [begin, end] = *state;
            let begun = sorted.len();
            sorted.extend_from_slice(&edges[begin..end]);
            sorted[begun..].sort_unstable();
            if sorted[begun..].array_windows().any(|[(_, last, _), (first, ..)]| first <= last) {
                sorted.truncate(begun);
                sorted.extend(painted(&edges[begin..end]));
            }
            ends.push(sorted.len());
        }
        Self { begins: ends, edges: sorted }
    }

    fn of(&self, state: u32) -> &[(u8, u8, u32)] {
        &self.edges[self.begins[state as usize]..self.begins[state as usize + 1]]
    }

    /// By state: whether it leads to an end.
    fn alive(&self, accepting: &[bool]) -> Vec<bool> {
        let begins = begins(accepting.len(), self.edges.iter().map(|(.., to)| *to));
        let (mut sources, mut at) = (vec![0; self.edges.len()], begins.clone());
        for state in 0..StateId::from_index(accepting.len()).0 {
            for (.., to) in self.of(state) {
                sources[at[*to as usize]] = state as usize;
                at[*to as usize] += 1;
            }
        }
        let mut alive = accepting.to_vec();
        let mut open: Vec<usize> = (0..alive.len()).filter(|state| alive[*state]).collect();
        while let Some(state) = open.pop() {
            let sources = &sources[begins[state]..begins[state + 1]];
            open.extend(sources.iter().filter(|source| !std::mem::replace(&mut alive[**source], true)));
        }
        alive
    }
}

/// Edges of which later ones replace earlier ones, as edges that do not overlap.
fn painted(edges: &[(u8, u8, u32)]) -> Vec<(u8, u8, u32)> {
    let mut targets = [DEAD; 256];
    edges.iter().for_each(|(first, last, to)| targets[usize::from(*first)..=usize::from(*last)].fill(*to));
    let bytes: Vec<u8> = (0..=u8::MAX).filter(|byte| targets[usize::from(*byte)] != DEAD).collect();
    let target = |byte: u8| targets[usize::from(byte)];
    let runs = bytes.chunk_by(|left, right| left + 1 == *right && target(*left) == target(*right));
    runs.map(|run| (run[0], run[run.len() - 1], target(run[0]))).collect()
}

/// A number whose bits look random: the last step of SplitMix64 (Steele, Lea and Flood 2014). Sums of it differ where
/// sums of a linear hash would not.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The table in canonical form, and whether no state that is reached leads to no end; `None` if there is no text.
///
/// # Errors
///
/// [`RegexError::DfaTooLarge`].
pub(super) fn canonical(
    accepting: &[bool],
    given: &[GivenEdge],
    limits: &Limits,
) -> Result<Option<(Table, bool)>, RegexError> {
    let sorted = Sorted::new(accepting.len(), given);
    let alive = sorted.alive(accepting);
    if alive.first() != Some(&true) {
        return Ok(None);
    }
    let (mut numbers, mut order, mut is_whole) = (vec![DEAD; accepting.len()], vec![0], true);
    numbers[0] = 0;
    let mut at = 0;
    while let Some(state) = order.get(at).copied() {
        at += 1;
        for (.., to) in sorted.of(state) {
            is_whole &= alive[*to as usize];
            if numbers[*to as usize] == DEAD && alive[*to as usize] {
                numbers[*to as usize] = StateId::from_index(order.len()).0;
                order.push(*to);
            }
        }
    }
    let edges = |state: u32| {
        let edges = sorted.of(state).iter().map(|(first, last, to)| (*first, *last, numbers[*to as usize]));
        edges.filter(|(.., to)| *to != DEAD)
    };
    let mut cuts = Cuts::default();
    given.iter().for_each(|(_, bytes, _)| cuts.around(*bytes.start(), *bytes.end()));
    let classes = cuts.to_classes();
    let of = |byte: u8| usize::from(classes.get(byte));
    let bytes = order.len() * classes.len() * size_of::<u32>();
    if bytes > limits.dfa_bytes {
        return Err(RegexError::DfaTooLarge { bytes, limit: limits.dfa_bytes });
    }
    // Columns with the same sum over their edges are equal, which is verified below.
    let mut sums = vec![0u64; classes.len() + 1];
    for state in &order {
        for (first, last, to) in edges(*state) {
            let sum = mixed(u64::from(*state) << 32 | u64::from(to));
            sums[of(first)] = sums[of(first)].wrapping_add(sum);
            sums[of(last) + 1] = sums[of(last) + 1].wrapping_sub(sum);
        }
    }
    let mut firsts: FxHashMap<u64, usize> = FxHashMap::default();
    let mut sum = 0u64;
    let group = |column: usize| {
        sum = sum.wrapping_add(sums[column]);
        *firsts.entry(sum).or_insert(column)
    };
    let groups: Vec<usize> = (0..classes.len()).map(group).collect();
    let fill = |groups: &[usize]| {
        let (merged, representatives) = classes.merged(groups);
        let (mut new, mut sizes) = (vec![0; classes.len()], vec![0; classes.len()]);
        representatives.iter().enumerate().for_each(|(column, old)| new[usize::from(*old)] = column);
        groups.iter().for_each(|group| sizes[*group] += 1);
        let mut table = Table::new(merged);
        table.next = vec![DEAD; order.len() * representatives.len()];
        table.accepting = order.iter().map(|state| accepting[*state as usize]).collect();
        let mut columns = vec![DEAD; classes.len()];
        for (at, state) in order.iter().enumerate() {
            let row = table.row_mut(StateId::from_index(at));
            edges(*state).for_each(|(first, last, to)| columns[of(first)..=of(last)].fill(to));
            // The columns of a group have one target: all that are met have that of the first, and all are met.
            let (mut met, mut asked) = (0, 0);
            for (first, last, to) in edges(*state) {
                for column in of(first)..=of(last) {
                    met += 1;
                    if groups[column] == column {
                        asked += sizes[column];
                        row[new[column]] = to;
                    } else if columns[groups[column]] != to {
                        return None;
                    }
                }
            }
            edges(*state).for_each(|(first, last, _)| columns[of(first)..=of(last)].fill(DEAD));
            if met != asked {
                return None;
            }
        }
        Some(table)
    };
    // Where sums are equal by chance, dense columns are compared.
    let each: Vec<usize> = (0..classes.len()).collect();
    let table = fill(&groups).or_else(|| fill(&each).map(|table| table.canonical()));
    Ok(table.map(|table| (table, is_whole)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dfa::DfaBuilder;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The table is that of dense rows, in canonical form; later edges replace earlier ones.
        #[test]
        fn the_table_is_the_canonical_one(
            states in prop::collection::vec((any::<bool>(), prop::collection::vec(0u32..7, 4)), 1..6),
        ) {
            let ranges = [b'a'..=b'c', b'd'..=b'd', b'c'..=b'i', b'A'..=b'C'];
            let mut builder = DfaBuilder::new(&Limits::default());
            let count = u32::try_from(states.len()).unwrap();
            for (accepting, _) in &states {
                builder.state(*accepting).unwrap();
            }
            for (from, (_, next)) in (0..).zip(&states) {
                for (range, to) in ranges.iter().zip(next).filter(|(_, to)| **to < count) {
                    builder.edge(from, range.clone(), *to);
                }
            }
            let made = canonical(&builder.accepting, &builder.edges, &Limits::default()).unwrap();
            let mut slow = Table::new(crate::dfa::ByteClasses::from_begins(&[true; 256]));
            for (at, (accepting, next)) in states.iter().enumerate() {
                slow.push(*accepting);
                for (range, to) in ranges.iter().zip(next).filter(|(_, to)| **to < count) {
                    let row = slow.row_mut(StateId::from_index(at));
                    row[usize::from(*range.start())..=usize::from(*range.end())].fill(*to);
                }
            }
            let reached = slow.canonical();
            let whole = reached.clone().trimmed().map(|table| (table.canonical(), table.len() == reached.len()));
            prop_assert_eq!(made, whole);
        }
    }
}
