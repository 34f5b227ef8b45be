//! The library: the results for the blocks of products, shared by all constraints of one tokenizer.
//!
//! Each block ([`super::block`]) is computed once. The tokens that may precede its states are computed when a
//! constraint is built, and each token set when a mask first needs it. A constraint holds its blocks, so no mask
//! looks into the library or takes its locks. Token sets are in the blocks, each in a cell that is written once.
//!
//! Blocks are stored in shards by their hash. A mutex per shard is held for one look-up or insertion. The shards
//! drop old blocks in generations ([`Generations`]), all together: when half of the limit was taken since the last
//! turn, or when there is no room. A block gives its bytes back when nobody holds it any more, so the limit also
//! counts dropped blocks that are still in use. A block or token set that does not fit is used by its own constraint
//! alone. Tried instead: no eviction. Then the first constraints of a service keep their blocks forever, and the
//! blocks of later ones never fit.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use unskew_core::Generations;

use super::{
    backward::Backward,
    block::Blocks,
    completion::{Before, Completion},
    hard::HardBigrams,
    product::Product,
};
use crate::{
    canonical::{index::CanonicalIndex, token_set::TokenSet},
    dfa::table::DEAD,
    ids::{ProductState, Table},
};

const SHARDS: usize = 16;

/// The library bounds its shards together, not each by itself.
type Shard = Generations<u128, Arc<Block>>;

/// Sub-automata of constraints, computed once per tokenizer. This is the published idea of Vegas configurations, for
/// the parts that constraints have in common.
///
/// A [`VegasConstraint`](super::VegasConstraint) uses a library and adds to it. Constraints allow the same tokens with
/// any library, and the same as a [`CanonicalConstraint`](crate::CanonicalConstraint).
pub struct VegasLibrary {
    pub(super) fingerprint: u64,
    /// The number of ids of the tokenizer.
    pub(super) tokens: usize,
    /// The number of ids of the vocabulary.
    pub(super) vocab_len: usize,
    pub(super) key: [u64; 2],
    /// The tokenizer's hard bigrams, for [`hard`](Self::hard).
    hard: HardBigrams,
    backward: OnceLock<Backward>,
    shards: [Mutex<Shard>; SHARDS],
    room: Arc<Room>,
    hits: [AtomicU64; 2],
    misses: [AtomicU64; 2],
}

/// The memory accounting of a library, and counters of its token sets.
#[derive(Debug)]
pub(super) struct Room {
    limit: usize,
    taken: AtomicUsize,
    /// The bytes that were taken since the last turn of the generations.
    fresh: AtomicUsize,
    /// Whether a block or token set did not fit since then.
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

    /// Takes `bytes`, if they are available.
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

    /// Whether old blocks should be dropped now. Resets the counters if so.
    fn should_turn(&self) -> bool {
        let is_due =
            self.lacks.swap(false, Ordering::Relaxed) || self.fresh.load(Ordering::Relaxed) > self.limit / 2;
        if is_due {
            self.fresh.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

/// The results for a block, by the numbers of its canonical form.
#[derive(Debug)]
pub(super) struct BlockParts {
    pub(super) before: Box<[Before]>,
    pub(super) token_sets: Box<[OnceLock<TokenSet>]>,
}

/// A block and the bytes that it takes of the room.
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
        let token_sets = self.token_sets.iter().filter_map(OnceLock::get).map(token_set_bytes);
        size_of::<Block>() + 64 + cells + lists.sum::<usize>() + token_sets.sum::<usize>()
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

pub(super) fn token_set_bytes(token_set: &TokenSet) -> usize {
    let (TokenSet::Short(list) | TokenSet::Long(list)) = token_set;
    size_of_val(&list[..])
}

/// The blocks of a constraint.
pub(crate) struct Shared {
    blocks: Vec<Arc<Block>>,
    /// By state: the block, and the state's number in it.
    places: Table<ProductState, (u32, u32)>,
}

impl Shared {
    /// The block of `state`, and the state's cell in it.
    fn cell(&self, state: ProductState) -> (&Block, &OnceLock<TokenSet>) {
        let (block, number) = self.places[state];
        let block = &self.blocks[block as usize];
        (block, &block.parts.token_sets[number as usize])
    }

    /// The token set of `state`, if some constraint has computed it.
    pub(crate) fn token_set(&self, state: ProductState) -> Option<&TokenSet> {
        let (block, cell) = self.cell(state);
        let token_set = cell.get()?;
        block.room.row_hits.fetch_add(1, Ordering::Relaxed);
        Some(token_set)
    }

    /// Keeps the token set of `state` for all constraints, or returns it if there is no room.
    pub(crate) fn keep(&self, state: ProductState, token_set: TokenSet) -> Result<&TokenSet, TokenSet> {
        let (block, cell) = self.cell(state);
        block.room.row_misses.fetch_add(1, Ordering::Relaxed);
        if !block.take(token_set_bytes(&token_set)) {
            return Err(token_set);
        }
        Ok(cell.get_or_init(|| token_set))
    }

    /// The number of states of the block that `state` belongs to.
    pub(super) fn block_len(&self, state: ProductState) -> usize {
        self.blocks[self.places[state].0 as usize].parts.before.len()
    }
}

/// The contents of a [`VegasLibrary`], and how often it was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LibraryStats {
    /// The number of blocks.
    pub blocks: usize,
    /// The memory of the blocks, in bytes, including dropped blocks that constraints still hold.
    pub bytes: usize,
    /// The number of blocks that were dropped to make room.
    pub evicted: u64,
    /// The number of blocks of constraints that the library had, and their number of states.
    pub hits: (u64, u64),
    /// The number of blocks of constraints that had to be computed, and their number of states.
    pub misses: (u64, u64),
    /// How often a constraint read a token set that a block had.
    pub row_hits: u64,
    /// The number of token sets that had to be computed.
    pub row_misses: u64,
}

impl VegasLibrary {
    /// The default bound on memory: 256 MiB.
    pub const DEFAULT_BYTES: usize = 256 << 20;

    /// An empty library for constraints over `index`. It keeps at most `limit` bytes and drops its older half when
    /// it is full.
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
            hard: HardBigrams(index.bigram_facts().hard.clone()),
            backward: OnceLock::new(),
            // The limit of a single map would keep less than half of it.
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

    /// The contents of the library, and how often it was used.
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

    /// The tables for the search backwards. `index` is the library's.
    pub(super) fn backward(&self, index: &CanonicalIndex) -> &Backward {
        self.backward.get_or_init(|| Backward::new(index))
    }

    fn shard(&self, key: u128) -> &Mutex<Shard> {
        &self.shards[(key % SHARDS as u128) as usize]
    }

    /// Drops the blocks that were not used since the last turn, if a turn is due.
    fn keep_within_limit(&self) {
        if self.room.should_turn() {
            self.shards.iter().for_each(|shard| lock(shard).turn());
        }
    }

    /// Keeps a block if there is room, unless another thread has inserted it. Returns the block to use.
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

    /// All blocks, in ascending order of their keys.
    pub(super) fn blocks(&self) -> Vec<(u128, Arc<Block>)> {
        let mut blocks: Vec<(u128, Arc<Block>)> = Vec::new();
        for shard in &self.shards {
            blocks.extend(lock(shard).entries().map(|(key, block)| (*key, Arc::clone(block))));
        }
        blocks.sort_unstable_by_key(|(key, _)| *key);
        blocks
    }

    /// Completes `product` block by block. `None` if it cannot be cut and so has to be completed whole.
    pub(crate) fn complete(&self, product: &Product, index: &CanonicalIndex) -> Option<(Completion, Shared)> {
        let blocks = Blocks::new(product, &index.automaton, index.bigram_facts())?;
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
                    let (backward, boundary) = (self.backward(index), alone.accepting.clone());
                    let own = Completion::knowing(&alone, index, backward, known, boundary).before;
                    let mut own = own.into_entries();
                    own.truncate(len);
                    let token_sets = (0..len).map(|_| OnceLock::new()).collect();
                    self.insert(form.key, BlockParts { before: own.into(), token_sets })
                }
            };
            let number = u32::try_from(number).expect("fewer blocks than states");
            for ((state, own), at) in form.states.iter().zip(&block.parts.before).zip(0..) {
                before[*state as usize] = own.clone();
                places[*state as usize] = (number, at);
            }
            used.push(block);
        }
        let completion = Completion { before: before.into(), boundary: blocks.boundary.into() };
        Some((completion, Shared { blocks: used, places: places.into() }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A map is consistent after every insertion, even if a thread panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for VegasLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VegasLibrary").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
