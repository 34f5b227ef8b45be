//! The FIRST sets of a constraint's states, computed when the constraint is built: the bytes that a state reads, and
//! the bytes after which it is certainly live.
//!
//! A mask needs both sets for every state that it visits, for example for a hundred consecutive states of a counted
//! string. Computing them on demand took a tenth of the time for such a mask and as many cache misses, since the
//! rows of these states are scattered over the table. This file reads the table once from beginning to end and
//! shares equal sets. Of thousands of states few have different sets.

use rustc_hash::FxHashMap as Map;
use unskew_trie::ByteSet;

use crate::{
    Dfa, StateId,
    canonical::index::split_liveness::{Safety, SplitLiveness, of_class},
    dfa::table::DEAD,
};

/// Two sets of bytes for each state of a DFA.
#[derive(Debug, Default)]
pub(crate) struct FirstBytes {
    /// By state: the index of its sets.
    at: Box<[u32]>,
    sets: Vec<Sets>,
}

#[derive(Debug, Default)]
struct Sets {
    read: ByteSet,
    live: ByteSet,
}

/// Byte classes with a transition out of a state; the subset with a transition to a [safe](Safety::Always) state; and
/// the subset with a transition to a state that is safe [when calm](Safety::WhenCalm).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Classes {
    read: ByteSet,
    always: ByteSet,
    when_calm: ByteSet,
}

impl FirstBytes {
    /// O(states and classes) of `dfa`. `safe` is the safety of its states.
    pub(crate) fn new(liveness: &SplitLiveness, dfa: &Dfa, safe: &[Safety]) -> Self {
        let mut read: Vec<(u8, ByteSet)> = Vec::new();
        for byte in dfa.bytes() {
            of_class(&mut read, dfa.classes().get(byte)).insert(byte);
        }
        let live = liveness.columns(dfa);
        let mut known: Map<Classes, u32> = Map::default();
        let mut sets: Vec<Sets> = Vec::new();
        let find = |state: StateId| {
            let mut classes = Classes::default();
            for (class, next) in (0..=u8::MAX).zip(dfa.table().row(state)).filter(|(_, next)| **next != DEAD)
            {
                classes.read.insert(class);
                match safe[*next as usize] {
                    Safety::Always => classes.always.insert(class),
                    Safety::WhenCalm => classes.when_calm.insert(class),
                    Safety::Unknown => {}
                }
            }
            *known.entry(classes).or_insert_with(|| {
                let mut new = Sets::default();
                let reads = read.iter().filter(|(class, _)| classes.read.contains(*class));
                reads.for_each(|(_, bytes)| new.read.union(bytes));
                for (class, [bytes, calm]) in &live {
                    if classes.always.contains(*class) {
                        new.live.union(bytes);
                    } else if classes.when_calm.contains(*class) {
                        new.live.union(calm);
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

    /// The ASCII bytes that lead from `state` to a safe state, after any text.
    #[inline]
    pub(crate) fn live(&self, state: StateId) -> &ByteSet {
        &self.sets[self.at[state.index()] as usize].live
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.at[..]) + self.sets.capacity() * size_of::<Sets>()
    }
}
