//! The canonical form of an automaton that is given edge by edge, without a table before it.
//!
//! A state of a lifted string has three edges and a hundred columns. Its row was written four times: empty, with its
//! edges, in canonical order, and without the columns that others equal; and was read to find that the state leads to an
//! end. Here the edges are sorted and numbered, equal columns are found by the edges over them, and the row is written
//! once.
//!
//! Only what is usual is done so. Where edges overlap, or a state is not reached or leads to no end, the caller has the
//! other way.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::table::{DEAD, Table};
use crate::{Limits, RegexError, StateId, dfa::Cuts};

/// The sweeps over all edges in which states are found to lead to an end.
const SWEEPS: usize = 8;

/// The edges of all states, those of one in the order of their bytes.
struct Sorted {
    /// By state: the first of its edges.
    begins: Vec<usize>,
    /// First and last byte, and the next state.
    edges: Vec<(u8, u8, u32)>,
}

impl Sorted {
    /// `None` if edges of a state overlap.
    fn new(states: usize, edges: &[(u32, RangeInclusive<u8>, u32)]) -> Option<Self> {
        let mut begins: Vec<usize> = vec![0; states + 1];
        edges.iter().for_each(|(from, ..)| begins[*from as usize + 1] += 1);
        (0..states).for_each(|state| begins[state + 1] += begins[state]);
        let (mut sorted, mut at) = (vec![(0, 0, 0); edges.len()], begins.clone());
        for (from, bytes, to) in edges {
            let at = &mut at[*from as usize];
            sorted[*at] = (*bytes.start(), *bytes.end(), *to);
            *at += 1;
        }
        for state in begins.array_windows() {
            let [begin, end] = *state;
            sorted[begin..end].sort_unstable();
            if sorted[begin..end].array_windows().any(|[(_, last, _), (first, ..)]| first <= last) {
                return None;
            }
        }
        Some(Self { begins, edges: sorted })
    }

    fn of(&self, state: u32) -> &[(u8, u8, u32)] {
        &self.edges[self.begins[state as usize]..self.begins[state as usize + 1]]
    }

    /// The states in canonical order, and the number of each; `None` if one is not reached, or is not found to lead to an
    /// end.
    fn numbered(&self, accepting: &[bool]) -> Option<(Vec<u32>, Vec<u32>)> {
        let mut numbers = vec![DEAD; accepting.len()];
        let mut order: Vec<u32> = Vec::with_capacity(accepting.len());
        *numbers.first_mut()? = 0;
        order.push(0);
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            at += 1;
            for (.., to) in self.of(state) {
                let number = numbers.get_mut(*to as usize)?;
                if *number == DEAD {
                    *number = StateId::from_index(order.len()).0;
                    order.push(*to);
                }
            }
        }
        let mut alive = accepting.to_vec();
        let mut left: Vec<u32> =
            order.iter().rev().copied().filter(|state| !alive[*state as usize]).collect();
        for _ in 0..SWEEPS {
            left.retain(|state| {
                alive[*state as usize] = self.of(*state).iter().any(|(.., to)| alive[*to as usize]);
                !alive[*state as usize]
            });
        }
        (left.is_empty() && order.len() == accepting.len()).then_some((order, numbers))
    }
}

/// A number whose bits look random: the last step of SplitMix64 (Steele, Lea and Flood 2014). Sums of it differ where sums
/// of a linear hash would not.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The table in canonical form; `None` where this is not the way.
///
/// # Errors
///
/// [`RegexError::DfaTooLarge`].
pub(super) fn canonical(
    accepting: &[bool],
    edges: &[(u32, RangeInclusive<u8>, u32)],
    limits: &Limits,
) -> Result<Option<Table>, RegexError> {
    let Some(sorted) = Sorted::new(accepting.len(), edges) else { return Ok(None) };
    let Some((order, numbers)) = sorted.numbered(accepting) else { return Ok(None) };
    let mut cuts = Cuts::default();
    edges.iter().for_each(|(_, bytes, _)| cuts.around(*bytes.start(), *bytes.end()));
    let classes = cuts.to_classes();
    let bytes = accepting.len() * classes.len() * size_of::<u32>();
    if bytes > limits.dfa_bytes {
        return Err(RegexError::DfaTooLarge { bytes, limit: limits.dfa_bytes });
    }
    // Columns with the same sum over their edges are equal, which is verified below.
    let mut sums = vec![0u64; classes.len() + 1];
    let of = |byte: u8| usize::from(classes.get(byte));
    for state in &order {
        for (first, last, to) in sorted.of(*state) {
            let sum = mixed(u64::from(*state) << 32 | u64::from(*to));
            sums[of(*first)] = sums[of(*first)].wrapping_add(sum);
            sums[of(*last) + 1] = sums[of(*last) + 1].wrapping_sub(sum);
        }
    }
    let mut firsts: FxHashMap<u64, usize> = FxHashMap::default();
    let mut sum = 0u64;
    let group = |column: usize| {
        sum = sum.wrapping_add(sums[column]);
        *firsts.entry(sum).or_insert(column)
    };
    let groups: Vec<usize> = (0..classes.len()).map(group).collect();
    let (merged, representatives) = classes.merged(&groups);
    let mut new = vec![0; classes.len()];
    representatives.iter().enumerate().for_each(|(column, old)| new[usize::from(*old)] = column);
    let mut sizes = vec![0; classes.len()];
    groups.iter().for_each(|group| sizes[*group] += 1);

    let mut table = Table::new(merged);
    table.next = vec![DEAD; order.len() * representatives.len()];
    table.accepting = order.iter().map(|state| accepting[*state as usize]).collect();
    let mut columns = vec![DEAD; classes.len()];
    for (at, state) in order.iter().enumerate() {
        let row = table.row_mut(StateId::from_index(at));
        let (mut met, mut asked) = (0, 0);
        for (first, last, to) in sorted.of(*state) {
            let next = numbers[*to as usize];
            columns[of(*first)..=of(*last)].fill(next);
        }
        for (first, last, to) in sorted.of(*state) {
            let next = numbers[*to as usize];
            for column in of(*first)..=of(*last) {
                met += 1;
                if groups[column] == column {
                    asked += sizes[column];
                    row[new[column]] = next;
                } else if columns[groups[column]] != next {
                    return Ok(None);
                }
            }
        }
        if met != asked {
            return Ok(None);
        }
        for (first, last, _) in sorted.of(*state) {
            columns[of(*first)..=of(*last)].fill(DEAD);
        }
    }
    Ok(Some(table))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dfa::DfaBuilder;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The table is that of the other way, which is taken only where a state is not reached or leads to no end.
        #[test]
        fn the_table_is_the_canonical_one(
            states in prop::collection::vec((any::<bool>(), prop::collection::vec(0u32..7, 4)), 1..6),
        ) {
            let ranges = [b'a'..=b'c', b'd'..=b'd', b'f'..=b'i', b'A'..=b'C'];
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
            let slow = builder.table().unwrap().canonical();
            let is_whole = slow.len() == states.len();
            let slow = slow.trimmed().filter(|table| is_whole && table.len() == states.len());
            prop_assert_eq!(made, slow);
        }
    }

    #[test]
    fn overlapping_edges_are_not_for_this_way() {
        let edges = [(0, b'a'..=b'c', 1), (0, b'c'..=b'd', 1)];
        assert_eq!(canonical(&[false, true], &edges, &Limits::default()), Ok(None));
        let edges = [(0, b'a'..=b'b', 1), (0, b'c'..=b'd', 1)];
        assert_eq!(canonical(&[false, true], &edges, &Limits::default()).unwrap().unwrap().classes.len(), 2);
    }
}
