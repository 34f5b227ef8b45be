//! The walks of many tasks, one entry for each, within a limit in bytes.
//!
//! A server gets the same prompt and constraint again and again, and new ones all the time. A task is found by
//! everything that its distribution depends on, written out in a [`WalkKey`]: a hash of it could be met on purpose. A
//! key names the model too, or a walk under one adapter follows what was learned under another. Beyond the limit rows
//! of the model are forgotten first, then the tasks that were used least recently and have no walk under way. Both
//! cost learning, and change no distribution.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use unskew_core::Constraint;

use super::{FullError, Walk, Walks};

/// The most tasks, however small they are.
const MAX_TASKS: usize = 1 << 14;

/// The bytes of a task beside its tree, its rows, its key and its constraint.
const TASK_BYTES: usize = 2_048;

/// Everything that the distribution of an output depends on: the constraint, the prompt, the model with its
/// adapter, weights and warp, the rules of the walks.
pub trait WalkKey: Clone + Eq + Hash {
    /// The memory that the key points to, in bytes.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
struct Entry<C: Constraint> {
    walks: Arc<Walks<C>>,
    /// The bytes of the key, of the constraint, and of the entry.
    fixed_bytes: usize,
    used: u64,
}

impl<C: Constraint + Clone> Entry<C> {
    fn bytes(&self) -> usize {
        self.walks.bytes() + self.fixed_bytes
    }
}

struct Tasks<K, C: Constraint> {
    entries: HashMap<K, Entry<C>>,
    clock: u64,
    /// The walks that begin before all bytes are counted again.
    rest: usize,
}

/// The tasks of a server, by their keys. Threads share it.
pub struct WalkTable<K, C: Constraint> {
    tasks: Mutex<Tasks<K, C>>,
    max_bytes: usize,
}

impl<K, C: Constraint> fmt::Debug for WalkTable<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalkTable").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl<K: WalkKey, C: Constraint + Clone> WalkTable<K, C> {
    /// A table that forgets beyond `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        let tasks = Tasks { entries: HashMap::new(), clock: 0, rest: 0 };
        Self { tasks: Mutex::new(tasks), max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks<K, C>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of a key.
    pub fn find(&self, key: &K) -> Option<Arc<Walks<C>>> {
        let mut tasks = self.lock();
        tasks.clock += 1;
        let clock = tasks.clock;
        let entry = tasks.entries.get_mut(key)?;
        entry.used = clock;
        Some(Arc::clone(&entry.walks))
    }

    /// Keeps a task, in place of one that was known by the key. `constraint_bytes` is the memory of its constraint.
    pub fn insert(&self, key: K, walks: Walks<C>, constraint_bytes: usize) -> Arc<Walks<C>> {
        let mut tasks = self.lock();
        tasks.clock += 1;
        let walks = Arc::new(walks);
        let fixed_bytes = key.bytes() + constraint_bytes + TASK_BYTES;
        let entry = Entry { walks: Arc::clone(&walks), fixed_bytes, used: tasks.clock };
        tasks.entries.insert(key, entry);
        walks
    }

    /// A walk of a task. `seed` decides its random numbers.
    ///
    /// # Errors
    ///
    /// [`FullError`] where its memory, or that of all tasks, is held by walks under way.
    pub fn begin(&self, walks: &Walks<C>, seed: u64) -> Result<Walk<C>, FullError> {
        self.keep_within_limit()?;
        walks.begin(seed)
    }

    /// Forgets the tasks whose keys fulfil a condition, since their model was replaced. Walks of them that are under
    /// way end at their next position: they would go on with another model than they began with.
    pub fn forget(&self, mut is_gone: impl FnMut(&K) -> bool) {
        self.lock().entries.retain(|key, entry| {
            let gone = is_gone(key);
            if gone {
                entry.walks.replace_model();
            }
            !gone
        });
    }

    /// The number of tasks, and their memory in bytes.
    pub fn usage(&self) -> (usize, usize) {
        let tasks = self.lock();
        (tasks.entries.len(), tasks.entries.values().map(Entry::bytes).sum())
    }

    /// Forgets what may be forgotten while the limit is exceeded.
    fn keep_within_limit(&self) -> Result<(), FullError> {
        let mut tasks = self.lock();
        let len = tasks.entries.len();
        if tasks.rest > 0 && len <= MAX_TASKS {
            tasks.rest -= 1;
            return Ok(());
        }
        let mut bytes: usize = tasks.entries.values().map(Entry::bytes).sum();
        if bytes <= self.max_bytes && len <= MAX_TASKS {
            // A walk adds a part of its task's limit at most. Where little memory is free, all are looked at.
            tasks.rest = if bytes <= self.max_bytes / 2 { len / 16 } else { 0 };
            return Ok(());
        }
        let mut oldest: Vec<(u64, K)> =
            tasks.entries.iter().map(|(key, entry)| (entry.used, key.clone())).collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        // Down to three quarters, so that this is not done at every call.
        let enough = self.max_bytes / 4 * 3;
        for (_, key) in &oldest {
            if bytes <= enough {
                break;
            }
            let entry = &tasks.entries[key];
            let before = entry.bytes();
            entry.walks.forget_rows();
            bytes = (bytes + entry.bytes()).saturating_sub(before);
        }
        for (_, key) in &oldest {
            if bytes <= enough && tasks.entries.len() <= MAX_TASKS / 4 * 3 {
                break;
            }
            let entry = &tasks.entries[key];
            if entry.walks.is_idle() && Arc::strong_count(&entry.walks) == 1 {
                bytes = bytes.saturating_sub(entry.bytes());
                tasks.entries.remove(key);
            }
        }
        if bytes <= self.max_bytes { Ok(()) } else { Err(FullError::new()) }
    }
}
