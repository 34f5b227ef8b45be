//! Which bytes a constraint reads from each of its states, and with which it certainly goes on: known when it is compiled.
//!
//! Both are asked for of every state that a mask meets: where a string is counted, of a hundred in a row. To find them then
//! took a tenth of such a mask, and as many misses, as the rows of those states are scattered over the table. Here the
//! table is read once from its beginning to its end, and states are told apart by which classes lead where: of thousands
//! of them few differ.

use rustc_hash::FxHashMap as Map;
use unskew_trie::ByteSet;

use crate::{
    Dfa, StateId,
    canonical::index::certain::{Certain, Safe, of_class},
    dfa::table::DEAD,
};

/// Two sets of bytes for each state of a DFA.
#[derive(Debug)]
pub(crate) struct Reads {
    /// By state: the place of its sets.
    at: Box<[u32]>,
    sets: Vec<Sets>,
}

#[derive(Debug, Default)]
struct Sets {
    read: ByteSet,
    sure: ByteSet,
}

/// Classes that lead on from a state, and those of them that lead to a [safe](Safe::Always) state, and to one that is safe
/// [when calm](Safe::WhenCalm).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Classes {
    read: ByteSet,
    always: ByteSet,
    when_calm: ByteSet,
}

impl Reads {
    /// O(states and classes) of `dfa`, of which `safe` is what is certain of its states.
    pub(crate) fn new(certain: &Certain, dfa: &Dfa, safe: &[Safe]) -> Self {
        let mut read: Vec<(u8, ByteSet)> = Vec::new();
        for byte in dfa.bytes() {
            of_class(&mut read, dfa.classes().get(byte)).insert(byte);
        }
        let sure = certain.columns(dfa);
        let mut known: Map<Classes, u32> = Map::default();
        let mut sets: Vec<Sets> = Vec::new();
        let find = |state: StateId| {
            let mut classes = Classes::default();
            for (class, next) in (0..=u8::MAX).zip(dfa.table().row(state)).filter(|(_, next)| **next != DEAD)
            {
                classes.read.insert(class);
                match safe[*next as usize] {
                    Safe::Always => classes.always.insert(class),
                    Safe::WhenCalm => classes.when_calm.insert(class),
                    Safe::No => {}
                }
            }
            *known.entry(classes).or_insert_with(|| {
                let mut new = Sets::default();
                let reads = read.iter().filter(|(class, _)| classes.read.contains(*class));
                reads.for_each(|(_, bytes)| new.read.union(bytes));
                for (class, [bytes, calm]) in &sure {
                    if classes.always.contains(*class) {
                        new.sure.union(bytes);
                    } else if classes.when_calm.contains(*class) {
                        new.sure.union(calm);
                    }
                }
                sets.push(new);
                u32::try_from(sets.len() - 1).expect("no more than states")
            })
        };
        Self { at: dfa.states().map(find).collect(), sets }
    }

    /// The bytes that the DFA reads from `state`.
    #[inline]
    pub(crate) fn read(&self, state: StateId) -> &ByteSet {
        &self.sets[self.at[state.index()] as usize].read
    }

    /// The bytes of ASCII that lead from `state` to a safe one, whatever was read before.
    #[inline]
    pub(crate) fn sure(&self, state: StateId) -> &ByteSet {
        &self.sets[self.at[state.index()] as usize].sure
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.at[..]) + self.sets.capacity() * size_of::<Sets>()
    }
}
