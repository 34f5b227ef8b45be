//! The library: what was computed for the blocks of products, for all constraints of one tokenizer.
//!
//! A block ([`super::block`]) is computed once: for each of its states what may stand in front of it, when a constraint
//! is built, and the row of tokens, when a mask first needs it. Constraints hold the blocks that they are made of, so no
//! mask ever looks into the library or takes its locks. Rows lie in the blocks, each in a cell that is written once.
//!
//! Blocks are kept in shards by their hash, each behind a mutex that is held for one look-up or insertion. Each shard forgets in
//! generations ([`Generations`]), all of them together: when half of the limit was taken since they turned last, or when there is no
//! room. A block gives its bytes back when nobody holds it any more, so the limit counts what is in use too. A block or row for which
//! there is no room is used by its own constraint alone. Tried instead: no eviction. Then the first constraints of a service keep
//! their blocks for ever, and later ones never come in.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use unskew_core::Generations;

use super::{block::Blocks, hard::HardBigrams};
use crate::{
    canonical::{
        index::CanonicalIndex,
        token_set::TokenSet,
        viability::{
            completion::{Before, Completion},
            product::Product,
        },
    },
    dfa::table::DEAD,
};

const SHARDS: usize = 16;

/// Bounded by what the library has room for, and not by itself.
type Shard = Generations<u128, Arc<Block>>;

/// Sub-automata of constraints, computed once per tokenizer: the published idea of Vegas configurations, for the parts that
/// constraints have in common.
///
/// [`CanonicalConstraint::with_library`](crate::canonical::CanonicalConstraint::with_library) uses and fills one. Constraints
/// allow the same tokens with any library and without one.
pub struct VegasLibrary {
    pub(super) fingerprint: u64,
    /// The number of ids of the tokenizer.
    pub(super) tokens: usize,
    /// The number of ids of the vocabulary.
    pub(super) vocab_len: usize,
    pub(super) key: [u64; 2],
    /// The tokenizer's own, kept for whoever asks what blocks are cut at.
    hard: HardBigrams,
    shards: [Mutex<Shard>; SHARDS],
    room: Arc<Room>,
    hits: [AtomicU64; 2],
    misses: [AtomicU64; 2],
}

/// How many bytes are kept, and how often rows were there.
#[derive(Debug)]
pub(super) struct Room {
    limit: usize,
    taken: AtomicUsize,
    /// The bytes that were taken since the generations turned.
    fresh: AtomicUsize,
    /// Whether something was not kept since then.
    lacks: AtomicBool,
    row_hits: AtomicU64,
    row_misses: AtomicU64,
}

impl Room {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: AtomicUsize::new(0),
            fresh: AtomicUsize::new(0),
            lacks: AtomicBool::new(false),
            row_hits: AtomicU64::new(0),
            row_misses: AtomicU64::new(0),
        }
    }

    /// Takes `bytes`, if there are as many.
    fn take(&self, bytes: usize) -> bool {
        let take = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.limit);
        let is_taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if is_taken {
            self.fresh.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.lacks.store(true, Ordering::Relaxed);
        }
        is_taken
    }

    /// Whether old blocks should go; `false` until that is so again.
    fn should_turn(&self) -> bool {
        let is_due =
            self.lacks.swap(false, Ordering::Relaxed) || self.fresh.load(Ordering::Relaxed) > self.limit / 2;
        if is_due {
            self.fresh.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

/// What is known of a block, by the numbers of its canonical form.
#[derive(Debug)]
pub(super) struct BlockParts {
    pub(super) before: Box<[Before]>,
    pub(super) rows: Box<[OnceLock<TokenSet>]>,
}

/// A block and its share of the room.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) parts: BlockParts,
    room: Arc<Room>,
    taken: AtomicUsize,
}

impl BlockParts {
    fn bytes(&self) -> usize {
        let cells = self.before.len() * (size_of::<Before>() + size_of::<OnceLock<TokenSet>>());
        let lists = self.before.iter().map(|before| match before {
            Before::Any | Before::None => 0,
            Before::FollowedBy(tokens) | Before::Except(tokens) => size_of_val(&tokens[..]),
        });
        let rows = self.rows.iter().filter_map(OnceLock::get).map(row_bytes);
        size_of::<Block>() + 64 + cells + lists.sum::<usize>() + rows.sum::<usize>()
    }
}

impl Block {
    fn take(&self, bytes: usize) -> bool {
        let is_taken = self.room.take(bytes);
        if is_taken {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(*self.taken.get_mut(), Ordering::Relaxed);
    }
}

pub(super) fn row_bytes(row: &TokenSet) -> usize {
    let (TokenSet::Short(list) | TokenSet::Long(list)) = row;
    size_of_val(&list[..])
}

/// The blocks that a constraint is made of.
pub(crate) struct Shared {
    blocks: Vec<Arc<Block>>,
    /// By state: the block, and the number there.
    places: Vec<(u32, u32)>,
}

impl Shared {
    /// The block of `state`, and its cell there.
    fn cell(&self, state: u32) -> (&Block, &OnceLock<TokenSet>) {
        let (block, number) = self.places[state as usize];
        let block = &self.blocks[block as usize];
        (block, &block.parts.rows[number as usize])
    }

    /// The row of `state`, if some constraint has made it.
    pub(crate) fn row(&self, state: u32) -> Option<&TokenSet> {
        let (block, cell) = self.cell(state);
        let row = cell.get()?;
        block.room.row_hits.fetch_add(1, Ordering::Relaxed);
        Some(row)
    }

    /// Keeps the row of `state` for all; gives it back if there is no room.
    pub(crate) fn keep(&self, state: u32, row: TokenSet) -> Result<&TokenSet, TokenSet> {
        let (block, cell) = self.cell(state);
        block.room.row_misses.fetch_add(1, Ordering::Relaxed);
        if !block.take(row_bytes(&row)) {
            return Err(row);
        }
        Ok(cell.get_or_init(|| row))
    }

    /// The number of states of the block that `state` belongs to.
    pub(super) fn block_len(&self, state: u32) -> usize {
        self.blocks[self.places[state as usize].0 as usize].parts.before.len()
    }
}

/// How much a [`VegasLibrary`] holds, and how often it helped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LibraryStats {
    /// The number of blocks.
    pub blocks: usize,
    /// The memory of the blocks, in bytes, with forgotten blocks that constraints still hold.
    pub bytes: usize,
    /// How many blocks were forgotten to make room.
    pub evicted: u64,
    /// How many blocks of constraints were there, and how many states these had.
    pub hits: (u64, u64),
    /// How many blocks of constraints had to be computed, and how many states these had.
    pub misses: (u64, u64),
    /// How often a constraint used a row for the first time or again that was in a block.
    pub row_hits: u64,
    /// How many rows had to be computed.
    pub row_misses: u64,
}

impl VegasLibrary {
    /// The default bound on memory: 256 MiB.
    pub const DEFAULT_BYTES: usize = 256 << 20;

    /// An empty library for constraints from `index`, which keeps at most `limit` bytes and forgets its older half when it is full.
    pub fn new(index: &CanonicalIndex, limit: usize) -> Self {
        let random = RandomState::new();
        Self::with_key(index, limit, [random.hash_one(0), random.hash_one(1)])
    }

    pub(super) fn with_key(index: &CanonicalIndex, limit: usize, key: [u64; 2]) -> Self {
        Self {
            fingerprint: index.automaton.fingerprint,
            tokens: index.automaton.vocab_len(),
            vocab_len: index.vocabulary.len(),
            key,
            hard: index.facts().hard.clone(),
            // A map of its own limit keeps less than half of it.
            shards: std::array::from_fn(|_| Mutex::new(Generations::new(usize::MAX))),
            room: Arc::new(Room::new(limit)),
            hits: Default::default(),
            misses: Default::default(),
        }
    }

    /// The pairs of bytes at which products are cut.
    pub fn hard(&self) -> &HardBigrams {
        &self.hard
    }

    /// What it holds and how often it helped.
    pub fn stats(&self) -> LibraryStats {
        let load = |counters: &[AtomicU64; 2]| {
            (counters[0].load(Ordering::Relaxed), counters[1].load(Ordering::Relaxed))
        };
        LibraryStats {
            blocks: self.shards.iter().map(|shard| lock(shard).len()).sum(),
            bytes: self.room.taken.load(Ordering::Relaxed),
            evicted: self.shards.iter().map(|shard| lock(shard).evicted()).sum(),
            hits: load(&self.hits),
            misses: load(&self.misses),
            row_hits: self.room.row_hits.load(Ordering::Relaxed),
            row_misses: self.room.row_misses.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_of(&self, index: &CanonicalIndex) -> bool {
        (self.fingerprint, self.tokens, self.vocab_len)
            == (index.automaton.fingerprint, index.automaton.vocab_len(), index.vocabulary.len())
    }

    fn shard(&self, key: u128) -> &Mutex<Shard> {
        &self.shards[(key % SHARDS as u128) as usize]
    }

    /// Forgets the blocks that were not used since the last time, if it is time for that.
    fn keep_within_limit(&self) {
        if self.room.should_turn() {
            self.shards.iter().for_each(|shard| lock(shard).turn());
        }
    }

    /// Keeps a block, unless there is no room, or one that another thread has inserted; answers the one to use.
    pub(super) fn insert(&self, key: u128, parts: BlockParts) -> Arc<Block> {
        let bytes = parts.bytes();
        let block = Block { parts, room: Arc::clone(&self.room), taken: AtomicUsize::new(0) };
        self.keep_within_limit();
        let is_kept = block.take(bytes) || {
            self.keep_within_limit();
            block.take(bytes)
        };
        let block = Arc::new(block);
        if !is_kept {
            return block;
        }
        let mut shard = lock(self.shard(key));
        if let Some(other) =
            shard.get(&key).filter(|other| other.parts.before.len() == block.parts.before.len())
        {
            return Arc::clone(other);
        }
        shard.insert(key, Arc::clone(&block), 0);
        block
    }

    /// All blocks, in the order of their keys.
    pub(super) fn blocks(&self) -> Vec<(u128, Arc<Block>)> {
        let mut blocks: Vec<(u128, Arc<Block>)> = Vec::new();
        for shard in &self.shards {
            blocks.extend(lock(shard).entries().map(|(key, block)| (*key, Arc::clone(block))));
        }
        blocks.sort_unstable_by_key(|(key, _)| *key);
        blocks
    }

    /// Completes `product` block by block. `None` if it cannot be cut: then it has to be completed whole.
    pub(crate) fn complete(&self, product: &Product, index: &CanonicalIndex) -> Option<(Completion, Shared)> {
        let blocks = Blocks::new(product, &index.automaton, index.facts())?;
        let mut before = vec![Before::None; product.len()];
        let mut places = vec![(0, 0); product.len()];
        let mut numbers = vec![DEAD; product.len()];
        let mut used = Vec::with_capacity(blocks.len());
        for number in 0..blocks.len() {
            let form = blocks.form(number, self.key, &mut numbers);
            let len = form.states.len();
            let found = lock(self.shard(form.key)).get(&form.key).cloned();
            let found = found.filter(|block| block.parts.before.len() == len);
            let counters = if found.is_some() { &self.hits } else { &self.misses };
            counters[0].fetch_add(1, Ordering::Relaxed);
            counters[1].fetch_add(len as u64, Ordering::Relaxed);
            let block = match found {
                Some(block) => block,
                None => {
                    let alone = blocks.alone(&form);
                    let known = form.states.iter().map(|state| blocks.known[*state as usize]);
                    let known = known.chain([true; 2]).collect();
                    let mut own = Completion::knowing(&alone, index, known, alone.accepting.clone()).before;
                    own.truncate(len);
                    let rows = (0..len).map(|_| OnceLock::new()).collect();
                    self.insert(form.key, BlockParts { before: own.into(), rows })
                }
            };
            let number = u32::try_from(number).expect("fewer blocks than states");
            for ((state, own), at) in form.states.iter().zip(&block.parts.before).zip(0..) {
                before[*state as usize] = own.clone();
                places[*state as usize] = (number, at);
            }
            used.push(block);
        }
        let completion = Completion { before, boundary: blocks.boundary };
        Some((completion, Shared { blocks: used, places }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A map is whole after every insertion, whatever happened to the thread.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for VegasLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VegasLibrary").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
