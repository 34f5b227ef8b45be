//! The constraints that a [`Compiler`](super::Compiler) keeps, within a limit in bytes: the least recently used go
//! first.
//!
//! Constraints grow as they are used, by masks and by the tables of their scratches, and a service that has all its
//! constraints only ever finds them. So what they grow by is summed up as it happens ([`Growth`]), and each call looks
//! at two numbers. Where the limit may be passed, and what has grown is a sixteenth of it, all entries are counted
//! again and the oldest go. Until then a sixteenth is the most by which it is passed. The growth of
//! constraints that have gone is summed up too, which brings a count sooner, and does no harm.
//!
//! An entry knows the fuel that it took. Who gives less finds what compiling would have answered.
//!
//! Tried instead: [`Generations`](unskew_core::Generations). It counts an entry once, when it is inserted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
};

use super::CompilerStats;
use crate::{
    Error,
    pool::{Growth, Pool},
};

/// The bytes of an entry beside its key and its value: places in two tables with their slack.
const ENTRY: usize = 256;

/// The answer to a spec.
pub(super) type Made = Result<Arc<Pool>, Arc<Error>>;

/// An answer and the fuel that it took.
pub(super) type Costed = (Made, u64);

/// The state of a key.
pub(super) enum Found {
    Made(Costed),
    /// Another thread compiles it.
    Compiling,
    /// Nothing was there: now it is open, and the caller has to [close](Cache::close) it.
    Nothing,
}

enum Entry {
    Open,
    Made { made: Made, fuel: u64, used: u64, bytes: usize },
}

pub(super) struct Cache {
    limit: usize,
    entries: HashMap<Arc<str>, Entry>,
    /// The keys of made entries, by the time of the last use.
    by_use: BTreeMap<u64, Arc<str>>,
    time: u64,
    /// The bytes of all entries, as they were counted last.
    bytes: usize,
    growth: Growth,
    stats: CompilerStats,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        let (entries, by_use) = (HashMap::new(), BTreeMap::new());
        let (growth, stats) = (Growth::default(), CompilerStats::default());
        Self { limit, entries, by_use, time: 0, bytes: 0, growth, stats }
    }

    /// Where constraints note what they grow by.
    pub(super) fn growth(&self) -> Growth {
        Arc::clone(&self.growth)
    }

    /// The answer to a key for a caller who gives `fuel`.
    pub(super) fn find(&mut self, key: &Arc<str>, given: u64) -> Found {
        self.keep_within_limit();
        match self.entries.get_mut(key) {
            Some(Entry::Open) => Found::Compiling,
            Some(Entry::Made { made, fuel, used, .. }) => {
                self.stats.hits += 1;
                if let Some(key) = self.by_use.remove(used) {
                    self.time += 1;
                    *used = self.time;
                    self.by_use.insert(self.time, key);
                }
                let made = match *fuel > given {
                    true => Err(Arc::new(Error::Fuel { limit: given })),
                    false => made.clone(),
                };
                Found::Made((made, *fuel))
            }
            None => {
                self.stats.misses += 1;
                self.stats.compiling += 1;
                self.entries.insert(Arc::clone(key), Entry::Open);
                Found::Nothing
            }
        }
    }

    /// Ends the work on a key that was open, with the answer and the fuel that it took. `None`, and errors that say
    /// nothing of the spec itself, are not kept.
    pub(super) fn close(&mut self, key: &Arc<str>, made: Option<Costed>) {
        self.entries.remove(key);
        self.stats.compiling -= 1;
        let Some((made, fuel)) = made.filter(|(made, _)| is_of_the_spec(made)) else { return };
        self.time += 1;
        let (used, bytes) = (self.time, entry_bytes(key, &made));
        self.by_use.insert(used, Arc::clone(key));
        self.entries.insert(Arc::clone(key), Entry::Made { made, fuel, used, bytes });
        self.bytes += bytes;
        self.keep_within_limit();
    }

    /// Forgets the entries that were used least recently while the limit is passed.
    fn keep_within_limit(&mut self) {
        let growth = self.growth.load(Ordering::Relaxed);
        if growth > self.limit / 16 && self.bytes.saturating_add(growth) > self.limit {
            self.growth.store(0, Ordering::Relaxed);
            self.bytes = 0;
            for (key, entry) in &mut self.entries {
                if let Entry::Made { made, bytes, .. } = entry {
                    if let Ok(pool) = made {
                        pool.measure();
                    }
                    *bytes = entry_bytes(key, made);
                    self.bytes += *bytes;
                }
            }
        }
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some(Entry::Made { bytes, .. }) = self.entries.remove(&oldest) {
                self.bytes -= bytes;
            }
            self.stats.evicted += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        for (_, key) in std::mem::take(&mut self.by_use) {
            self.entries.remove(&key);
            self.stats.evicted += 1;
        }
        self.bytes = 0;
    }

    pub(super) fn stats(&self) -> CompilerStats {
        let entries = self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Made { made, .. } => Some((key, made)),
            Entry::Open => None,
        });
        let bytes = entries.map(|(key, made)| {
            made.iter().for_each(|pool| _ = pool.measure());
            entry_bytes(key, made)
        });
        CompilerStats { entries: self.by_use.len(), bytes: bytes.sum(), ..self.stats }
    }
}

fn entry_bytes(key: &str, made: &Made) -> usize {
    let made = match made {
        Ok(pool) => pool.bytes(),
        Err(error) => size_of::<Error>() + 2 * error.to_string().len(),
    };
    ENTRY + key.len() + made
}

/// Whether the next one that asks for the same spec has the same answer.
fn is_of_the_spec(made: &Made) -> bool {
    match made {
        Ok(_) => true,
        Err(error) => {
            !matches!(**error, Error::File { .. } | Error::Cancelled | Error::Deadline | Error::Fuel { .. })
        }
    }
}
