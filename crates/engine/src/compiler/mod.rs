//! From a [`Spec`] to a constraint that matchers share: once for each spec, within limits of memory and time.
//!
//! A server gets the same spec from many requests at once, and a new one with every agent. So one thread compiles a
//! spec while others that ask for it wait, compiled constraints are kept within a limit in bytes ([`cache`]), and
//! compiling ends at a deadline or when the client has left. Each thread waits until its own deadline: if the thread
//! that compiles gives up, the next one takes over.
//!
//! A server makes its own compiler and sets its limits. All other parts of a program that have the same tokens share
//! one ([`Compiler::shared`]): requests, audits and commands.
//!
//! Files are read each time, and a kept constraint is found by their contents. A text file of items is an exception,
//! since it may hold millions: it is found by its path, its length and the time of its last change. A built set is
//! opened each time, which takes less than a look-up would save.
//!
//! Grammars share the trees of one library ([`TreeLibrary`]): its nodes are made by need, which costs the first
//! grammars some milliseconds and makes later masks two to three times faster. The alternative is a walk over the
//! vocabulary for each mask. A benchmark compared the two, each grammar compiled anew for each of 31 texts;
//! microseconds of the process, over cl100k cut after its first tokens (`benches/record/trees.md` has all, and
//! llama3):
//!
//! | tokens | a text with compiling: walk | trees | first mask: walk | trees | the slowest first mask: walk | trees |
//! |--:|--:|--:|--:|--:|--:|--:|
//! | 512 | 1,545 | 817 | 162 | 140 | 328 | 401 |
//! | 2,048 | 1,908 | 833 | 164 | 150 | 509 | 505 |
//! | 8,192 | 2,997 | 1,065 | 215 | 184 | 517 | 817 |
//! | 16,384 | 4,019 | 1,435 | 254 | 243 | 683 | 1,320 |
//! | 65,536 | 7,624 | 2,931 | 414 | 500 | 1,808 | 4,527 |
//! | 100,256 | 9,590 | 4,017 | 515 | 712 | 2,797 | 7,147 |
//!
//! Trees are faster for a text at each size that was measured. Their mean first mask is slower from 65,536 tokens on,
//! up to 1.4 times, and the slowest first mask is up to 2.6 times slower. Vocabularies of less than 16,384 tokens
//! have no library all the same: with one for 2,048 tokens, the memory that is counted for JSON Schemas is 1.21 times
//! that of the allocator, and `tests/memory.rs` allows 1.2.

mod cache;
pub(crate) mod compile;
pub(crate) mod grammars;
mod guidance;

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use unskew_core::{AnyState, Cancel, Constraint, OutputEnd, WithEnd, words_for};
use unskew_grammars::{Captures, GrammarConstraint, GrammarScratch, GrammarState, LeftOut, TreeLibrary};
#[cfg(feature = "sets")]
use unskew_sets::SetConstraint;

use self::{
    cache::{Cache, Costed, Found},
    compile::Work,
};
use crate::{
    Error, LastScratch, Matcher, MatcherOptions, Progress, Result, Spec, TokenSpace,
    pool::{Growth, Pool},
};

/// The fewest tokens of a vocabulary with a library of trees.
const LIBRARY_TOKENS: usize = 16_384;

/// Some 5 seconds of compiling, as fuel ([`Until::fuel`]).
///
/// A unit is an elementary step, some 10 ns. Of 33 constraints that take 3 to 320 ms (large patterns, lists, schemas
/// and grammars), half take 94 units a microsecond or more, the least 26 (a terminal with look-around) and the most
/// 257 (a pattern whose automaton is too large and is given up). So this is 2 to 19 seconds.
pub const COMPILE_FUEL: u64 = 500_000_000;

/// How often a thread that waits for another looks whether its client has left.
const LOOK: Duration = Duration::from_millis(5);

/// The limits of a [`Compiler`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompilerOptions {
    /// Compiled constraints with the scratches of their matchers, and errors, in bytes. A constraint that is evicted
    /// while a matcher holds it is not counted any more. Default: 1 GiB.
    pub cache_bytes: usize,
    /// The trees that grammars share, in bytes. Default: 256 MiB.
    pub library_bytes: usize,
    /// The bytes that one constraint, and each of its scratches, may keep of masks and of other findings. `None`: the
    /// limits of its spec. Default: 32 MiB.
    pub constraint_bytes: Option<usize>,
}

impl Default for CompilerOptions {
    fn default() -> Self {
        Self { cache_bytes: 1 << 30, library_bytes: 256 << 20, constraint_bytes: Some(32 << 20) }
    }
}

/// How long one call may compile.
///
/// Programs that run beside each other and must decide alike, such as the ranks of a model on several devices, give
/// fuel: whether it suffices depends on the spec and the tokens alone. A deadline may fall on one of them and not on
/// the other.
#[derive(Clone, Debug, Default)]
pub struct Until {
    /// The units of work that it takes at most, or [`Error::Fuel`]. [`COMPILE_FUEL`] is some seconds of it. A kept
    /// constraint counts as if it was compiled now. Work that is done once for a vocabulary or a process is free.
    pub fuel: Option<u64>,
    /// The time by which it has an answer, or [`Error::Deadline`]. It is looked at wherever work is counted; single
    /// steps of bounded work go on a little longer.
    pub deadline: Option<Instant>,
    /// Ends the work from another thread, with [`Error::Cancelled`].
    pub cancel: Cancel,
}

/// The work of a [`Compiler`] so far, and its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CompilerStats {
    /// Calls that were answered by a kept entry, or by another thread that compiled the same.
    pub hits: u64,
    /// Calls that compiled.
    pub misses: u64,
    /// Constraints and errors that are kept.
    pub entries: usize,
    /// Their memory in bytes, scratches included.
    pub bytes: usize,
    /// Constraints and errors that had to go.
    pub evicted: u64,
    /// Specs that are compiled now.
    pub compiling: usize,
    /// The memory of the trees that grammars share, in bytes.
    pub library_bytes: usize,
    /// The memory of the trie of the vocabulary and of the index of canonical sequences, in bytes.
    pub tokens_bytes: usize,
}

/// Compiles constraints for the tokens of one model, and keeps them. Threads share it.
///
/// # Example
///
/// ```
/// use unskew_core::Vocabulary;
/// use unskew_engine::{Compiler, Spec, TokenSpace};
///
/// let mut builder = Vocabulary::builder();
/// for byte in 0..=255 {
///     builder.text(&[byte]);
/// }
/// let end = builder.control("<end>");
/// builder.end_of_sequence(end);
/// let compiler = Compiler::new(TokenSpace::from_vocabulary(builder.build()?));
///
/// let compiled = compiler.compile(&Spec::regex("[0-9]{2}"))?;
/// let mut matcher = compiled.matcher();
/// let mut row = vec![0; compiler.mask_words()];
/// for byte in *b"42" {
///     matcher.fill(&mut row)?;
///     assert!(matcher.accept(u32::from(byte).into())?);
/// }
/// matcher.fill(&mut row)?;
/// assert_eq!((row[8], matcher.is_accepting()), (1, true)); // only the end may follow
/// assert!(matcher.accept(end)? && matcher.is_terminated());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compiler {
    tokens: Arc<TokenSpace>,
    kept: Arc<Kept>,
}

/// The constraints, the trees and the limits that compilers for the same tokens share.
pub(crate) struct Kept {
    options: CompilerOptions,
    library: OnceLock<Arc<TreeLibrary>>,
    cache: Mutex<Cache>,
    growth: Growth,
    /// Something was compiled, or is no longer.
    changed: Condvar,
}

impl Kept {
    fn new(options: CompilerOptions) -> Self {
        let cache = Cache::new(options.cache_bytes);
        let (library, growth) = (OnceLock::new(), cache.growth());
        Self { options, library, cache: Mutex::new(cache), growth, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // Nothing is computed while it is locked.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A constraint, compiled for the tokens of a [`Compiler`]. A clone is another handle to it.
#[derive(Clone)]
pub struct Compiled {
    pub(crate) pool: Arc<Pool>,
    pub(crate) tokens: Arc<TokenSpace>,
    fuel: u64,
}

impl Compiler {
    /// A compiler for `tokens` with the default options. Nothing is made yet.
    pub fn new(tokens: impl Into<Arc<TokenSpace>>) -> Self {
        Self::with_options(tokens, CompilerOptions::default())
    }

    /// The same with other options.
    pub fn with_options(tokens: impl Into<Arc<TokenSpace>>, options: CompilerOptions) -> Self {
        Self { tokens: tokens.into(), kept: Arc::new(Kept::new(options)) }
    }

    /// The compiler that all parts of a program share which have these tokens. A spec's own limits on memory that stays
    /// hold in it.
    pub fn shared(tokens: &Arc<TokenSpace>) -> Self {
        let options = CompilerOptions { constraint_bytes: None, ..CompilerOptions::default() };
        let kept = tokens.kept.get_or_init(|| Arc::new(Kept::new(options)));
        Self { tokens: Arc::clone(tokens), kept: Arc::clone(kept) }
    }

    /// The tokens.
    pub fn tokens(&self) -> &Arc<TokenSpace> {
        &self.tokens
    }

    /// How many words of 32 bits a mask has.
    pub fn mask_words(&self) -> usize {
        words_for(self.tokens.vocabulary().len())
    }

    /// The constraint that `spec` describes: compiled, or kept from before.
    ///
    /// Cost of a kept entry: a look-up by the text of the spec, O(n) for n bytes.
    ///
    /// # Errors
    ///
    /// [`Error`], shared by all that asked for this spec at the same time. Errors are kept too, but for those of files.
    pub fn compile(&self, spec: &Spec) -> Result<Compiled, Arc<Error>> {
        self.compile_until(spec, &Until::default())
    }

    /// The same, until a deadline or until the caller asks for the end.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile), [`Error::Fuel`], [`Error::Deadline`] and [`Error::Cancelled`].
    pub fn compile_until(&self, spec: &Spec, until: &Until) -> Result<Compiled, Arc<Error>> {
        self.compile_behind("", spec, until, &())
    }

    /// The same on outputs that begin with `healed`, which was taken off a prompt. Where the constraint was not kept,
    /// `progress` hears of lines that are left out of a set, and of the reading of large files.
    ///
    /// # Errors
    ///
    /// As [`compile_until`](Self::compile_until).
    pub fn compile_behind(
        &self,
        healed: &str,
        spec: &Spec,
        until: &Until,
        progress: &dyn Progress,
    ) -> Result<Compiled, Arc<Error>> {
        // Masks are the same under both ends.
        let whole;
        let spec = match spec.end {
            None => spec,
            Some(_) => {
                whole = Spec { end: None, ..spec.clone() };
                &whole
            }
        };
        let resolved = spec.resolve()?;
        let work = Work { resolved: &resolved, healed, until, progress };
        let (pool, fuel) = match resolved.key() {
            None => self.make(&work),
            Some(key) => {
                let key = if healed.is_empty() { key } else { format!("{key}\n{healed:?}") };
                self.kept(&key.into(), &work)?
            }
        };
        let pool = pool.map_err(|error| resolved.named(error))?;
        Ok(Compiled { pool, tokens: Arc::clone(&self.tokens), fuel })
    }

    /// Its work so far and its memory. O(n) for n constraints.
    pub fn stats(&self) -> CompilerStats {
        let mut stats = self.kept.lock().stats();
        stats.library_bytes = self.kept.library.get().map_or(0, |library| library.memory_usage());
        stats.tokens_bytes = self.tokens.memory_usage();
        stats
    }

    /// Forgets all constraints. Matchers keep theirs; trees stay.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }

    fn kept(&self, key: &Arc<str>, work: &Work<'_>) -> Result<Costed> {
        let until = work.until;
        let mut cache = self.kept.lock();
        loop {
            match cache.find(key, until.fuel.unwrap_or(u64::MAX)) {
                Found::Made(made) => return Ok(made),
                Found::Nothing => break,
                Found::Compiling => {}
            }
            over(until)?;
            let left = until.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let wait = left.map_or(LOOK, |left| left.min(LOOK));
            (cache, _) = self.kept.changed.wait_timeout(cache, wait).unwrap_or_else(PoisonError::into_inner);
        }
        drop(cache);
        // Also if it panics.
        let mut open = Open { kept: &self.kept, key, made: None };
        let made = self.make(work);
        open.made = Some(made.clone());
        Ok(made)
    }

    /// The constraint, and the fuel that it took.
    fn make(&self, work: &Work<'_>) -> Costed {
        let until = work.until;
        let mut cancel = until.cancel.with_fuel(until.fuel.unwrap_or(u64::MAX));
        if let Some(deadline) = until.deadline {
            cancel = cancel.until(deadline);
        }
        let made = over(until).and_then(|()| self.compiled(work, &cancel));
        let made = match (made, until.fuel) {
            // Also where the last work took it.
            (_, Some(limit)) if cancel.is_out_of_fuel() => Err(Error::Fuel { limit }),
            (Ok(pool), _) => Ok(pool),
            (Err(error), _) => Err(over(until).err().unwrap_or(error)),
        };
        (made.map_err(Arc::new), cancel.fuel_taken())
    }

    fn library(&self) -> Result<Option<Arc<TreeLibrary>>> {
        let vocabulary = self.tokens.vocabulary();
        if vocabulary.len() < LIBRARY_TOKENS || self.kept.options.library_bytes == 0 {
            return Ok(None);
        }
        let trie = self.tokens.trie()?;
        let made = || TreeLibrary::new(trie, self.kept.options.library_bytes);
        Ok(Some(Arc::clone(self.kept.library.get_or_init(|| Arc::new(made())))))
    }
}

/// An error if the time is over or the end was asked for.
fn over(until: &Until) -> Result<()> {
    if until.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    match until.deadline {
        Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline),
        _ => Ok(()),
    }
}

/// A spec that this thread compiles. When it is dropped, others stop waiting.
struct Open<'a> {
    kept: &'a Kept,
    key: &'a Arc<str>,
    made: Option<Costed>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut cache = self.kept.lock();
        cache.close(self.key, self.made.take());
        drop(cache);
        self.kept.changed.notify_all();
    }
}

impl Compiled {
    /// A matcher at the start, which the tokens end that the vocabulary says.
    pub fn matcher(&self) -> Matcher {
        Matcher::new(self, MatcherOptions::default())
            .expect("the end-of-sequence ids of a vocabulary are in it")
    }

    /// The constraint of samplers whose outputs end so: [`Spec::end`] of what was compiled. A constraint that is used
    /// as it is ends with the model.
    pub fn with_end(self, end: OutputEnd) -> WithEnd<Self> {
        match end {
            OutputEnd::Model => WithEnd::model(self),
            OutputEnd::Free => {
                let (order, cache) = (Arc::clone(self.tokens.text_order()), Arc::clone(&self.pool.ends));
                WithEnd::free_with(self, order, cache)
            }
        }
    }

    /// A constraint of a user's own over `tokens`. Nobody counts its memory.
    pub fn own(constraint: impl Constraint + 'static, tokens: &Arc<TokenSpace>) -> Self {
        Self { pool: Arc::new(Pool::own(constraint)), tokens: Arc::clone(tokens), fuel: 0 }
    }

    /// The grammar that it is, for programs that read more of it than masks. `None`: it is none, or has only the
    /// tokenizer's own sequences.
    pub fn grammar(&self) -> Option<&GrammarConstraint> {
        self.pool.kind()
    }

    /// Calls `read` with the grammar that it is, a scratch of it, and the grammar's own `state`; `None` as
    /// [`grammar`](Self::grammar).
    pub fn with_grammar<T>(
        &self,
        last: &LastScratch,
        state: &AnyState,
        read: impl FnOnce(&GrammarConstraint, &mut GrammarScratch, &GrammarState) -> T,
    ) -> Option<T> {
        let (grammar, state) = (self.grammar()?, state.downcast_ref()?);
        self.pool.with(&last.slot, |_, scratch| Some(read(grammar, scratch.downcast_mut()?, state)))
    }

    /// The set that it is, for programs that read more of it than masks.
    #[cfg(feature = "sets")]
    pub fn set(&self) -> Option<&SetConstraint> {
        self.pool.kind()
    }

    /// The reader of the parts of outputs that the constraint names, and of its temperatures, where it has one.
    pub fn captures(&self) -> Option<&Arc<Captures>> {
        self.pool.captures.as_ref()
    }

    /// The tokens that it was compiled for.
    pub fn tokens(&self) -> &Arc<TokenSpace> {
        &self.tokens
    }

    /// The characters of the constraint that no tokens write, so that no output has them; `None`: they write all, or
    /// the constraint reads tokens, and not text. O(n) for the characters of Unicode.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.pool.left_out()
    }

    /// What a user should know of the constraint: [`Spec::notes`].
    pub fn notes(&self) -> &[String] {
        &self.pool.notes
    }

    /// Whether both are handles to one constraint.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// The [fuel](Until::fuel) that compiling took. Equal specs take the same for equal tokens.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// The memory of the constraint with the scratches of its matchers, in bytes, as it was counted last: scratches
    /// after each use, and the rest when it has doubled its masks, or the compiler has looked. Handles to one
    /// constraint [share](Self::is_same) it. O(1): a few numbers are added.
    pub fn memory_usage(&self) -> usize {
        self.pool.bytes()
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler")
            .field("options", &self.kept.options)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}
