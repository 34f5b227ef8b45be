//! Which tokens can be read from each state of the automaton of marked texts: known once for all constraints.
//!
//! A row of a constraint is a part of what its DFA reads and of what the tokenizer's splitting reads. The second does not
//! depend on the constraint, and is asked for in few states: some sixty between characters.

use std::{
    borrow::Cow,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use unskew_core::{DenseTable, MaskMut, TokenTrie, words_for};

use crate::split::SplitDfa;

/// How many bytes of rows are kept.
const KEPT: usize = 64 << 20;

/// By state: the tokens that are read from there, one bit each. Fallback tokens are not among them.
#[derive(Debug)]
pub(crate) struct Ends {
    rows: Box<[OnceLock<Box<[u32]>>]>,
    /// How many more bytes may be kept.
    left: AtomicUsize,
}

impl Ends {
    pub(crate) fn new(states: usize) -> Self {
        Self { rows: (0..states).map(|_| OnceLock::new()).collect(), left: AtomicUsize::new(KEPT) }
    }

    /// The row of `state`: kept, or made now.
    pub(crate) fn of(&self, state: u32, split: &SplitDfa, trie: &TokenTrie) -> Cow<'_, [u32]> {
        let place = &self.rows[state as usize];
        if let Some(row) = place.get() {
            return Cow::Borrowed(row);
        }
        let mut words = vec![0u32; words_for(trie.vocab_len())];
        let classes = &split.classes;
        let mut table = DenseTable { classes: classes.as_array(), width: classes.len(), next: &split.next };
        trie.fill(&mut table, state, MaskMut::new_cleared(&mut words, trie.vocab_len()));
        let bytes = size_of_val(&words[..]);
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            Cow::Borrowed(place.get_or_init(|| words.into()))
        } else {
            Cow::Owned(words)
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let kept = self.rows.iter().filter_map(OnceLock::get);
        size_of_val(&self.rows[..]) + kept.map(|row| size_of_val(&row[..])).sum::<usize>()
    }
}
