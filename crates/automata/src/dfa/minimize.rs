//! The smallest DFA of a language: equal rows where texts end, and Hopcroft's partition refinement.
//!
//! States from which no circle is reached have finitely many texts, and two of them have the same ones exactly if
//! their rows are equal once those of their targets are (Revuz, "Minimisation of acyclic deterministic automata in
//! linear time", 1992). They are merged from the ends on, in O(n k). A list of words, or an expression with a bounded
//! length, needs no more.
//!
//! The refinement does the rest.
//! States are in one block until a difference between them is found. The first difference is acceptance. A block on
//! the work list (a splitter) yields further differences: two states of a block differ if one has a transition over
//! some class into the splitter and the other has none. When a block is split, its smaller part becomes a splitter.
//! The larger part need not become one (unless the whole block was on the list anyway): its differences follow from
//! those of the whole block, which were applied before, and those of the smaller part. A state is thus in a splitter
//! at most log2 n times, and the refinement takes O(m log n) for n states and m transitions.
//!
//! The table is partial and every state of it reaches an accepting one. The missing dead state would be a block of
//! its own, and the algorithm may leave out the largest of the first blocks as a splitter; so the dead state never
//! appears.
//!
//! Splitters are blocks with all classes, not pairs of a block and a class as in the textbook: a splitter's incoming
//! transitions are sorted by class once, before anything is split, so that a splitter may split itself. Tried
//! instead: Moore's refinement, which is shorter and takes n rounds on `a{0,n}`.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::table::{DEAD, Inverse, Table};
use crate::StateId;

/// The minimal automaton with the language of `table`, all of whose states must be reachable; `None` if there is no
/// text. Memory: about 10 bytes for each transition.
pub(crate) fn minimized(mut table: Table) -> Option<Table> {
    let mut inverse = Inverse::new(&table);
    let Ends { stays, is_all } = merge_ends(&mut table, &inverse);
    let given = table.len();
    if stays.contains(&false) {
        table = table.with_states(&stays)?;
    }
    if is_all {
        return Some(table);
    }
    // A circle may lead to no end.
    table = table.trimmed()?;
    if table.len() < given {
        inverse = Inverse::new(&table);
    }
    let blocks = refine(&table, &inverse);
    if blocks.count() == table.len() {
        return Some(table);
    }
    let mut small = Table::new(table.classes.clone());
    for block in 0..blocks.count() {
        let one = blocks.members(block)[0];
        let state = small.push(table.accepting[one.index()]);
        for (new, old) in small.row_mut(state).iter_mut().zip(table.row(one)) {
            *new = if *old == DEAD { DEAD } else { blocks.of[*old as usize] };
        }
    }
    small.start = StateId(blocks.of[table.start.index()]);
    Some(small)
}

/// The states of a table after those from which no circle is reached are merged.
struct Ends {
    /// By state: whether it has a text, and if they are finitely many, is the first with them.
    stays: Vec<bool>,
    /// Whether all states have finitely many texts.
    is_all: bool,
}

/// Lets transitions lead to the first of all states with the same finite set of texts, and to none where the set is
/// empty.
fn merge_ends(table: &mut Table, inverse: &Inverse) -> Ends {
    let hash = |table: &Table, state: StateId| {
        FxBuildHasher.hash_one((table.row(state), table.accepting[state.index()]))
    };
    let mut known: HashTable<StateId> = HashTable::new();
    let (mut stays, mut finite) = (table.accepting.clone(), 0);
    let degree = |state: StateId| table.row(state).iter().filter(|next| **next != DEAD).count();
    // By state: the transitions to states that are not known to be finite.
    let mut left: Vec<usize> = table.states().map(degree).collect();
    let mut open: Vec<StateId> = table.states().filter(|state| left[state.index()] == 0).collect();
    while let Some(state) = open.pop() {
        finite += 1;
        let mut first = None;
        if stays[state.index()] {
            let equals = |other: &StateId| {
                table.row(*other) == table.row(state)
                    && table.accepting[other.index()] == table.accepting[state.index()]
            };
            let entry = known.entry(hash(table, state), equals, |other| hash(table, *other));
            first = Some(*entry.or_insert(state).get());
            stays[state.index()] = first == Some(state);
        }
        for (source, class) in inverse.sources(state) {
            table.row_mut(source)[usize::from(class)] = first.map_or(DEAD, |first| first.0);
            stays[source.index()] |= first.is_some();
            left[source.index()] -= 1;
            if left[source.index()] == 0 {
                open.push(source);
            }
        }
    }
    // Whether others have texts is found out later.
    left.iter().zip(&mut stays).for_each(|(left, stays)| *stays |= *left > 0);
    Ends { stays, is_all: finite == table.len() }
}

/// The partition of the states by their languages.
fn refine(table: &Table, inverse: &Inverse) -> Partition {
    let mut blocks = Partition::new(table.len());
    for state in table.states().filter(|state| table.accepting[state.index()]) {
        blocks.mark(state);
    }
    blocks.split_marked(|_, _| {});

    let mut due: Vec<usize> = (0..blocks.count()).collect();
    let mut sources: Vec<Vec<StateId>> = vec![vec![]; table.classes.len()];
    let mut met: Vec<u8> = Vec::new();
    // Once each state is a block of its own, no splitter can find a difference.
    while let Some(splitter) = due.pop().filter(|_| blocks.count() < table.len()) {
        for member in blocks.members(splitter) {
            for (source, class) in inverse.sources(*member) {
                let sources = &mut sources[usize::from(class)];
                if sources.is_empty() {
                    met.push(class);
                }
                sources.push(source);
            }
        }
        for class in met.drain(..) {
            for source in sources[usize::from(class)].drain(..) {
                blocks.mark(source);
            }
            // The smaller part is the new block. If the whole was on the list, the larger part still is, under the
            // old number.
            blocks.split_marked(|_, smaller| due.push(smaller));
        }
    }
    blocks
}

/// Disjoint blocks of states. A split takes time proportional to the part that is split off.
pub(crate) struct Partition {
    /// The states: members of a block are adjacent, and its marked members come first.
    order: Vec<StateId>,
    /// By state: its position in `order`.
    position: Vec<u32>,
    /// By state: its block.
    pub(crate) of: Vec<u32>,
    /// By block: `order[begin..end]` are its members.
    bounds: Vec<(u32, u32)>,
    /// By block: how many members are marked.
    marked: Vec<u32>,
    /// The blocks with marked members.
    touched: Vec<u32>,
}

impl Partition {
    /// One block of `states` states.
    pub(crate) fn new(states: usize) -> Self {
        let count = StateId::from_index(states).0;
        Self {
            order: (0..count).map(StateId).collect(),
            position: (0..count).collect(),
            of: vec![0; states],
            bounds: vec![(0, count)],
            marked: vec![0],
            touched: vec![],
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.bounds.len()
    }

    pub(crate) fn members(&self, block: usize) -> &[StateId] {
        let (begin, end) = self.bounds[block];
        &self.order[begin as usize..end as usize]
    }

    /// Marks `state`, unless it is marked.
    pub(crate) fn mark(&mut self, state: StateId) {
        let block = self.of[state.index()];
        let marked = &mut self.marked[block as usize];
        let boundary = self.bounds[block as usize].0 + *marked;
        let position = self.position[state.index()];
        if position < boundary {
            return;
        }
        if *marked == 0 {
            self.touched.push(block);
        }
        *marked += 1;
        let other = self.order[boundary as usize];
        self.order.swap(boundary as usize, position as usize);
        self.position[state.index()] = boundary;
        self.position[other.index()] = position;
    }

    /// Splits every block that has both marked and unmarked members; the smaller part becomes a new block. Calls
    /// `split` with the old and the new block of each. Afterwards no member is marked.
    pub(crate) fn split_marked(&mut self, mut split: impl FnMut(usize, usize)) {
        while let Some(block) = self.touched.pop() {
            let block = block as usize;
            let (begin, end) = self.bounds[block];
            let marked = std::mem::take(&mut self.marked[block]);
            let middle = begin + marked;
            if middle == end {
                continue;
            }
            let new = self.bounds.len();
            if marked <= end - middle {
                self.bounds[block] = (middle, end);
                self.bounds.push((begin, middle));
            } else {
                self.bounds[block] = (begin, middle);
                self.bounds.push((middle, end));
            }
            self.marked.push(0);
            let (begin, end) = self.bounds[new];
            for state in &self.order[begin as usize..end as usize] {
                self.of[state.index()] = StateId::from_index(new).0;
            }
            split(block, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::dfa::ByteClasses;

    /// A random table over the classes `..a`, `a`, `b`, `c`, `d..`, trimmed and reachable; `None` if nothing is left.
    fn table() -> impl Strategy<Value = Option<Table>> {
        reachable().prop_map(|table| table.trimmed().map(|table| table.canonical()))
    }

    /// The same with states that lead to no end. In some no transition leads back.
    fn reachable() -> impl Strategy<Value = Table> {
        let states = prop::collection::vec((any::<bool>(), prop::collection::vec(0usize..12, 3)), 1..10);
        (states, 0usize..4).prop_map(|(states, circles)| {
            let mut begins = [false; 256];
            for byte in b"abcd" {
                begins[usize::from(*byte)] = true;
            }
            let mut table = Table::new(ByteClasses::from_begins(&begins));
            let count = states.len();
            for (accepting, next) in states {
                let state = table.push(accepting);
                for (class, next) in next.into_iter().enumerate() {
                    // Some transitions are missing.
                    let is_there = next < count && (circles > 1 || next + circles > state.index());
                    table.row_mut(state)[class + 1] =
                        if is_there { StateId::from_index(next).0 } else { DEAD };
                }
            }
            table.canonical()
        })
    }

    /// Pairs of states with different languages, by filling in the table of all pairs until nothing changes.
    fn distinguishable(table: &Table) -> BTreeSet<(u32, u32)> {
        let dead = StateId::from_index(table.len()).0;
        let step = |state: u32, class: usize| match state {
            state if state == dead => dead,
            state => match table.row(StateId(state))[class] {
                DEAD => dead,
                next => next,
            },
        };
        let accepting = |state: u32| state != dead && table.accepting[state as usize];
        let mut different = BTreeSet::new();
        loop {
            let before = different.len();
            for (left, right) in (0..=dead).flat_map(|left| (0..=dead).map(move |right| (left, right))) {
                let by_step = (0..table.classes.len())
                    .any(|class| different.contains(&(step(left, class), step(right, class))));
                if accepting(left) != accepting(right) || by_step {
                    different.insert((left, right));
                }
            }
            if different.len() == before {
                return different;
            }
        }
    }

    /// Whether two tables over the same classes accept the same language: a walk over pairs of states.
    fn equivalent(left: &Table, right: &Table) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![(left.start.0, right.start.0)];
        while let Some(pair) = open.pop() {
            if !seen.insert(pair) {
                continue;
            }
            let accepts = |table: &Table, state: u32| state != DEAD && table.accepting[state as usize];
            if accepts(left, pair.0) != accepts(right, pair.1) {
                return false;
            }
            let step = |table: &Table, state: u32, class: usize| match state {
                DEAD => DEAD,
                state => table.row(StateId(state))[class],
            };
            open.extend(
                (0..left.classes.len()).map(|class| (step(left, pair.0, class), step(right, pair.1, class))),
            );
        }
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The language is unchanged, and no two states of the result have the same language.
        #[test]
        fn the_result_is_equivalent_and_minimal(table in table()) {
            let Some(table) = table else { return Ok(()) };
            let small = minimized(table.clone()).unwrap();
            prop_assert!(equivalent(&table, &small));
            let different = distinguishable(&small);
            for left in 0..small.len() {
                for right in 0..left {
                    let pair = (StateId::from_index(left).0, StateId::from_index(right).0);
                    prop_assert!(different.contains(&pair), "{:?} are equal in {:?}", pair, small);
                }
            }
        }

        /// States that lead to no end make no difference.
        #[test]
        fn what_leads_to_no_end_is_gone(table in reachable()) {
            let form = |table: Table| minimized(table).map(|table| table.canonical());
            prop_assert_eq!(form(table.clone()), table.trimmed().and_then(form));
        }

        /// A language has one canonical form: `table` and the same table with doubled states give equal results.
        #[test]
        fn the_canonical_form_is_unique(table in table(), swaps in prop::collection::vec(any::<bool>(), 40)) {
            let Some(table) = table else { return Ok(()) };
            let mut doubled = Table::new(table.classes.clone());
            for _ in 0..2 {
                for state in table.states() {
                    doubled.push(table.accepting[state.index()]);
                }
            }
            let count = StateId::from_index(table.len()).0;
            let mut swaps = swaps.into_iter().cycle();
            for state in doubled.states() {
                let row = table.row(StateId(state.0 % count)).to_vec();
                for (new, old) in doubled.row_mut(state).iter_mut().zip(row) {
                    *new = if old == DEAD { DEAD } else { old + count * u32::from(swaps.next() == Some(true)) };
                }
            }
            // Only reachable states may remain.
            let doubled = doubled.canonical();
            let forms = [table, doubled].map(|table| minimized(table).unwrap().canonical());
            prop_assert_eq!(&forms[0], &forms[1]);
        }
    }
}
