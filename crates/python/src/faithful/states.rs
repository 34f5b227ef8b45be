//! The walks of many tasks, one state for each, within a limit in bytes.
//!
//! A server gets the same prompt and constraint again and again, and new ones all the time. A state is found by all
//! that its distribution depends on, written out: a hash of it could be met on purpose. Beyond the limit rows of the
//! model are forgotten first, then the states that were used least recently and have no walk under way. Both cost
//! learning, and change no distribution.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use unskew::{
    engine::Compiled,
    samplers::{FullError, Walk, WalkMode, Walks},
};

/// The most states, however small they are.
const MAX_STATES: usize = 1 << 14;

/// The bytes of a state beside its tree, its rows and its key.
const STATE_BYTES: usize = 2_048;

/// Everything that the distribution of an output depends on, but for the model and the contents of files.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) spec: String,
    pub(super) prompt: Vec<u32>,
    pub(super) mode: WalkMode,
    pub(super) max_tokens: usize,
    /// The bits of the temperature.
    pub(super) temperature: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) walks: Walks<Compiled>,
    /// Kept to see whether a file has changed, and so that the compiler's cache may forget it.
    pub(super) compiled: Compiled,
    key_bytes: usize,
}

impl State {
    pub(super) fn new(walks: Walks<Compiled>, compiled: Compiled, key: &Key) -> Self {
        let key_bytes = key.spec.len() + key.prompt.len() * size_of::<u32>();
        Self { walks, compiled, key_bytes }
    }

    fn bytes(&self) -> usize {
        self.walks.bytes() + self.key_bytes + STATE_BYTES
    }
}

#[derive(Debug)]
struct Entry {
    state: Arc<State>,
    used: u64,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct States {
    table: Mutex<Table>,
    max_bytes: usize,
}

impl States {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { table: Mutex::default(), max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a key, if it is of the constraint `compiled`.
    pub(super) fn find(&self, key: &Key, compiled: Option<&Compiled>) -> Option<Arc<State>> {
        let mut table = self.lock();
        table.clock += 1;
        let clock = table.clock;
        let entry = table.entries.get_mut(key)?;
        if compiled.is_some_and(|compiled| !entry.state.compiled.is_same(compiled)) {
            return None;
        }
        entry.used = clock;
        Some(Arc::clone(&entry.state))
    }

    pub(super) fn insert(&self, key: Key, state: State) -> Arc<State> {
        let mut table = self.lock();
        table.clock += 1;
        let state = Arc::new(state);
        let entry = Entry { state: Arc::clone(&state), used: table.clock };
        table.entries.insert(key, entry);
        state
    }

    /// A walk of a state. `Err`: its memory, or that of all states, is held by walks under way.
    pub(super) fn begin(&self, state: &State, seed: u64) -> Result<Walk<Compiled>, FullError> {
        self.keep_within_limit()?;
        state.walks.begin(seed)
    }

    /// The number of states, and their memory.
    pub(super) fn usage(&self) -> (usize, usize) {
        let table = self.lock();
        (table.entries.len(), table.entries.values().map(|entry| entry.state.bytes()).sum())
    }

    /// Forgets what may be forgotten while the limit is exceeded.
    pub(super) fn keep_within_limit(&self) -> Result<(), FullError> {
        let mut table = self.lock();
        let mut bytes: usize = table.entries.values().map(|entry| entry.state.bytes()).sum();
        if bytes <= self.max_bytes && table.entries.len() <= MAX_STATES {
            return Ok(());
        }
        let mut oldest: Vec<(u64, Key)> =
            table.entries.iter().map(|(key, entry)| (entry.used, key.clone())).collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        // Down to three quarters, so that this is not done at every call.
        let enough = self.max_bytes / 4 * 3;
        for (_, key) in &oldest {
            if bytes <= enough {
                break;
            }
            let state = &table.entries[key].state;
            let before = state.bytes();
            state.walks.forget_rows();
            bytes = (bytes + state.bytes()).saturating_sub(before);
        }
        for (_, key) in &oldest {
            if bytes <= enough && table.entries.len() <= MAX_STATES / 4 * 3 {
                break;
            }
            let entry = &table.entries[key];
            if entry.state.walks.is_idle() && Arc::strong_count(&entry.state) == 1 {
                bytes = bytes.saturating_sub(entry.state.bytes());
                table.entries.remove(key);
            }
        }
        if bytes <= self.max_bytes { Ok(()) } else { Err(FullError::new()) }
    }
}
