//! The constraints that a [`Compiler`](super::Compiler) keeps, within a limit in bytes: the least recently used go
//! first.
//!
//! Constraints grow as they are used, by masks and by the tables of their scratches. So the bytes of all entries are
//! counted again when one is added. That is a sum over a few numbers of each entry, and far less work than to compile
//! one.
//!
//! Tried instead: [`Generations`](unskew_core::Generations). It counts an entry once, when it is inserted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::CompilerStats;
use crate::{Error, machine::Machine};

/// The bytes of an entry beside its key and its value: places in two tables with their slack.
const ENTRY: usize = 256;

/// The answer to a spec.
pub(super) type Made = Result<Arc<dyn Machine>, Arc<Error>>;

/// The state of a key.
pub(super) enum Found {
    Made(Made),
    /// Another thread compiles it.
    Compiling,
    /// Nothing was there: now it is open, and the caller has to [close](Cache::close) it.
    Nothing,
}

enum Entry {
    Open,
    Made { made: Made, used: u64 },
}

pub(super) struct Cache {
    limit: usize,
    entries: HashMap<Arc<str>, Entry>,
    /// The keys of made entries, by the time of the last use.
    by_use: BTreeMap<u64, Arc<str>>,
    time: u64,
    stats: CompilerStats,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        let (entries, by_use) = (HashMap::new(), BTreeMap::new());
        Self { limit, entries, by_use, time: 0, stats: CompilerStats::default() }
    }

    pub(super) fn find(&mut self, key: &Arc<str>) -> Found {
        match self.entries.get_mut(key) {
            Some(Entry::Open) => Found::Compiling,
            Some(Entry::Made { made, used }) => {
                self.stats.hits += 1;
                if let Some(key) = self.by_use.remove(used) {
                    self.time += 1;
                    *used = self.time;
                    self.by_use.insert(self.time, key);
                }
                Found::Made(made.clone())
            }
            None => {
                self.stats.misses += 1;
                self.stats.compiling += 1;
                self.entries.insert(Arc::clone(key), Entry::Open);
                Found::Nothing
            }
        }
    }

    /// Ends the work on a key that was open. `None`, and errors that say nothing of the spec itself, are not kept.
    pub(super) fn close(&mut self, key: &Arc<str>, made: Option<Made>) {
        self.entries.remove(key);
        self.stats.compiling -= 1;
        let Some(made) = made.filter(is_of_the_spec) else { return };
        self.time += 1;
        let used = self.time;
        self.by_use.insert(used, Arc::clone(key));
        self.entries.insert(Arc::clone(key), Entry::Made { made, used });
        let mut bytes = self.bytes();
        while bytes > self.limit {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some(Entry::Made { made, .. }) = self.entries.remove(&oldest) {
                bytes = bytes.saturating_sub(entry_bytes(&oldest, &made));
            }
            self.stats.evicted += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        for (_, key) in std::mem::take(&mut self.by_use) {
            self.entries.remove(&key);
            self.stats.evicted += 1;
        }
    }

    pub(super) fn stats(&self) -> CompilerStats {
        CompilerStats { entries: self.by_use.len(), bytes: self.bytes(), ..self.stats }
    }

    fn bytes(&self) -> usize {
        let entries = self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Open => None,
            Entry::Made { made, .. } => Some(entry_bytes(key, made)),
        });
        entries.sum()
    }
}

fn entry_bytes(key: &str, made: &Made) -> usize {
    let made = match made {
        Ok(machine) => machine.bytes(),
        Err(error) => size_of::<Error>() + 2 * error.to_string().len(),
    };
    ENTRY + key.len() + made
}

/// Whether the next one that asks for the same spec has the same answer.
fn is_of_the_spec(made: &Made) -> bool {
    match made {
        Ok(_) => true,
        Err(error) => !matches!(**error, Error::File { .. } | Error::Cancelled | Error::Deadline),
    }
}
