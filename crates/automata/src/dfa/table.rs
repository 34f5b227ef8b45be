//! The transition table that the stages pass on: subset construction, trimming, minimisation, canonical form.
//!
//! It is dense, one row of 32-bit state numbers for each state and one column for each byte class. Sparse rows would
//! save memory where Unicode classes make a table large, but they would put a search into the innermost loop of the
//! walk over a vocabulary.
//!
//! Tried instead, in that walk over 128,000 tokens:
//!
//! | alternative | time | memory |
//! |---|---|---|
//! | state numbers premultiplied by the width of a row | 2 to 7 % less | the same |
//! | rows of 256 without classes | 2 to 14 % less | 3 to 60 times as much |
//!
//! The table keeps plain numbers, because all other vectors are indexed by them too.

use rustc_hash::FxHashMap;

use crate::{StateId, dfa::ByteClasses};

/// No transition.
pub(crate) use unskew_trie::DEAD;

/// A partial deterministic automaton.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub(crate) classes: ByteClasses,
    /// `next[state * classes.len() + class]` is a state or [`DEAD`].
    pub(crate) next: Vec<u32>,
    /// One for each state.
    pub(crate) accepting: Vec<bool>,
    pub(crate) start: StateId,
}

impl Table {
    /// A table without states yet.
    pub(crate) fn new(classes: ByteClasses) -> Self {
        Self { classes, next: vec![], accepting: vec![], start: StateId::from_index(0) }
    }

    /// Adds a state without transitions.
    pub(crate) fn push(&mut self, accepting: bool) -> StateId {
        self.next.resize(self.next.len() + self.classes.len(), DEAD);
        self.accepting.push(accepting);
        StateId::from_index(self.accepting.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    pub(crate) fn row(&self, state: StateId) -> &[u32] {
        let width = self.classes.len();
        &self.next[state.index() * width..][..width]
    }

    pub(crate) fn row_mut(&mut self, state: StateId) -> &mut [u32] {
        let width = self.classes.len();
        &mut self.next[state.index() * width..][..width]
    }

    /// The transitions of `state` as pairs of class and target.
    pub(crate) fn transitions(&self, state: StateId) -> impl Iterator<Item = (u8, StateId)> {
        let row = (0..=255).zip(self.row(state));
        row.filter(|(_, next)| **next != DEAD).map(|(class, next)| (class, StateId(*next)))
    }

    pub(crate) fn states(&self) -> impl DoubleEndedIterator<Item = StateId> + use<> {
        (0..self.len()).map(StateId::from_index)
    }

    /// The memory of the table, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.next[..]) + self.accepting.len()
    }

    /// The table without the states that cannot reach acceptance. `None` if the start is one of them. Time and memory
    /// O(n k) for n states and k classes.
    pub(crate) fn trimmed(self) -> Option<Self> {
        let alive = self.alive();
        if alive.iter().all(|alive| *alive) { Some(self) } else { self.with_states(&alive) }
    }

    /// The table with the states that `stays` has alone, by state. Transitions to others are gone. `None` if the
    /// start is one of those.
    pub(crate) fn with_states(mut self, stays: &[bool]) -> Option<Self> {
        if !stays[self.start.index()] {
            return None;
        }
        let mut count = 0;
        let new_ids: Vec<u32> = stays
            .iter()
            .map(|stays| {
                count += u32::from(*stays);
                if *stays { count - 1 } else { DEAD }
            })
            .collect();
        // Rows move only towards the beginning, so this works in place.
        let width = self.classes.len();
        for state in 0..self.len() {
            if new_ids[state] == DEAD {
                continue;
            }
            let row = new_ids[state] as usize * width;
            for class in 0..width {
                let next = self.next[state * width + class];
                self.next[row + class] = if next == DEAD { DEAD } else { new_ids[next as usize] };
            }
            self.accepting[new_ids[state] as usize] = self.accepting[state];
        }
        self.next.truncate(count as usize * width);
        self.accepting.truncate(count as usize);
        self.start = StateId(new_ids[self.start.index()]);
        Some(self)
    }

    /// By state: whether it can reach an accepting state.
    fn alive(&self) -> Vec<bool> {
        /// Sweeps over the rows of the other states, backwards: most targets have higher numbers, so the first sweep
        /// mostly finds most states, and the next ones have few left.
        const SWEEPS: usize = 32;
        let mut alive = self.accepting.clone();
        let mut left: Vec<StateId> = self.states().rev().filter(|state| !alive[state.index()]).collect();
        for _ in 0..SWEEPS {
            let before = left.len();
            left.retain(|state| {
                let is_alive = self.row(*state).iter().any(|next| *next != DEAD && alive[*next as usize]);
                alive[state.index()] = is_alive;
                !is_alive
            });
            if left.is_empty() || left.len() == before {
                return alive;
            }
        }
        let inverse = Inverse::new(self);
        let mut found: Vec<StateId> = self.states().filter(|state| alive[state.index()]).collect();
        while let Some(state) = found.pop() {
            for (source, _) in inverse.sources(state) {
                if !std::mem::replace(&mut alive[source.index()], true) {
                    found.push(source);
                }
            }
        }
        alive
    }

    /// The canonical form: states numbered breadth-first from the start, equal columns merged. Two minimal trimmed
    /// tables have the same canonical form exactly when they accept the same language. Time O(n k).
    pub(crate) fn canonical(&self) -> Self {
        let (classes, representatives) = self.classes.merged(&equal_columns(&self.next, self.classes.len()));
        let mut new_ids = vec![DEAD; self.len()];
        let mut order = vec![self.start];
        new_ids[self.start.index()] = 0;
        let mut table = Self::new(classes);
        table.next.reserve_exact(self.len() * representatives.len());
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            at += 1;
            let row = self.row(state);
            for class in &representatives {
                let next = row[usize::from(*class)];
                if next == DEAD {
                    table.next.push(DEAD);
                    continue;
                }
                if new_ids[next as usize] == DEAD {
                    new_ids[next as usize] = StateId::from_index(order.len()).0;
                    order.push(StateId(next));
                }
                table.next.push(new_ids[next as usize]);
            }
            table.accepting.push(self.accepting[state.index()]);
        }
        table
    }
}

/// For each of `width` columns of the rows `next` the first one that equals it.
pub(crate) fn equal_columns(next: &[u32], width: usize) -> Vec<usize> {
    /// An odd multiplier whose bits look random.
    const FACTOR: u32 = 0x9e37_79b9;
    let rows = || next.chunks_exact(width);
    // A sum with a factor for each row has no chain of operations from row to row.
    let (mut hashes, mut factor): (Vec<u32>, u32) = (vec![0; width], 1);
    for row in rows() {
        factor = factor.rotate_left(5).wrapping_mul(FACTOR) | 1;
        for (hash, next) in hashes.iter_mut().zip(row) {
            *hash = hash.wrapping_add(next.wrapping_mul(factor));
        }
    }
    let mut firsts: FxHashMap<u32, usize> = FxHashMap::default();
    let mut group: Vec<usize> = Vec::with_capacity(width);
    group.extend(hashes.iter().enumerate().map(|(column, hash)| *firsts.entry(*hash).or_insert(column)));
    if firsts.len() == width {
        return group;
    }
    // Equal hashes prove nothing: the loop separates columns that differ in some row.
    for row in rows() {
        if (0..width).all(|column| row[column] == row[group[column]]) {
            continue;
        }
        let mut firsts: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        group =
            (0..width).map(|column| *firsts.entry((group[column], row[column])).or_insert(column)).collect();
    }
    group
}

/// By number below `count`: where its entries begin, if all are sorted by their numbers.
pub(crate) fn begins(count: usize, numbers: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut begins = vec![0; count + 1];
    numbers.for_each(|number| begins[number as usize + 1] += 1);
    (0..count).for_each(|number| begins[number + 1] += begins[number]);
    begins
}

/// The transitions of a table, grouped by target.
pub(crate) struct Inverse {
    /// `sources[offsets[s]..offsets[s + 1]]` have a transition to state `s`.
    offsets: Vec<usize>,
    sources: Vec<u32>,
    classes: Vec<u8>,
}

impl Inverse {
    pub(crate) fn new(table: &Table) -> Self {
        let offsets = begins(table.len(), table.next.iter().copied().filter(|next| *next != DEAD));
        let edges = offsets[table.len()];
        let (mut sources, mut classes) = (vec![0; edges], vec![0; edges]);
        let mut at = offsets.clone();
        for source in table.states() {
            for (class, target) in table.transitions(source) {
                let position = &mut at[target.index()];
                sources[*position] = source.0;
                classes[*position] = class;
                *position += 1;
            }
        }
        Self { offsets, sources, classes }
    }

    /// The transitions with target `target`: their sources and classes.
    pub(crate) fn sources(&self, target: StateId) -> impl Iterator<Item = (StateId, u8)> {
        let range = self.offsets[target.index()]..self.offsets[target.index() + 1];
        self.sources[range.clone()]
            .iter()
            .map(|source| StateId(*source))
            .zip(self.classes[range].iter().copied())
    }
}
