//! The constraint of a pattern whose DFA is too large to be made: sets of NFA states, followed as far as tokens go.
//!
//! The state of a sequence is the set of NFA states that read its next byte. The NFA is trimmed first: whatever it can
//! still read, it can complete. So a set that is not empty has no dead end, and a mask needs no look ahead.
//!
//! Members that others include are left out of sets (`inclusion`, `closures`): so a chain of optional parts has sets of a
//! few members, however long it is, and a bounded repetition is in one of its copies.
//!
//! **Masks** are walks over the vocabulary through a DFA whose transitions are made when they are first asked for. That
//! DFA is not the pattern's. For a mask it does not matter whether a text may end, so a member of a set is left out
//! where another member reads all that it can read: where some member is the loop of a `.*`, the thousand words that
//! might begin at any place do not count. `(a|b)*a(a|b){20}` has a million states, and masks see one. Which member
//! reads all of another is found by simulation with a bounded number of steps; a pair that is not settled within them
//! counts as not comparable, which costs time and changes no mask.
//!
//! All that is made on the way lies in the [`LazyScratch`], in bounded memory and in two halves: where the younger one is
//! full the older one is forgotten, and what of it is asked for meanwhile is young again. A mask that does not fit even
//! then is a walk that keeps nothing but the sets along one token.
//!
//! Tried instead: the same with whole sets. The first mask of `.*(w1|…|w2000).*` then makes 3,000 sets of 2,000 members.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use unskew_core::{
    AnyConstraint, ByteAutomaton, Constraint, DEAD, MaskMut, MaskRef, Rejected, TokenId, TokenTrie,
    Vocabulary, WORD_BITS,
};

use crate::{
    ByteClasses, Dfa, Limits, RegexConstraint, RegexError,
    closure::{ACCEPTING, Closure},
    closures::{self, Closures},
    determinize::{determinize, mark_begins},
    nfa::{Nfa, NfaId, NfaState, Transition},
    syntax,
};

/// A transition that was not asked for yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// How many members of a set are compared with the others: those that read the most different bytes.
const WIDEST: usize = 4;

/// How many pairs of NFA states are compared before a cache is thrown away, and members looked at for them.
const SIMULATION_STEPS: u32 = 1 << 18;

/// How many of these a single simulation may take.
const SIMULATION: u32 = 1 << 12;

/// What an entry of a map costs beside its contents, in bytes.
const OVERHEAD: usize = 96;

/// Token sequences whose text matches a pattern, with states that are made when they are reached: for the patterns
/// whose DFA passes the [`Limits`]. For all others [`RegexConstraint`] is faster; [`regex`] chooses.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{Dfa, LazyRegexConstraint, Limits};
/// use unskew_core::{Constraint, TokenId, TokenMask, TokenTrie, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "b", "ab"] {
///     builder.text(text.as_bytes());
/// }
/// let vocabulary = Arc::new(builder.build()?);
/// let trie = Arc::new(TokenTrie::new(&vocabulary)?);
///
/// // Two million states: which of the last 21 letters were `a`.
/// let (pattern, limits) = ("(a|b)*a(a|b){20}", Limits::default());
/// assert!(Dfa::from_pattern(pattern, &limits).is_err());
/// let constraint = LazyRegexConstraint::new(pattern, vocabulary, trie, &limits)?;
///
/// let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
/// constraint.advance(&mut scratch, &mut state, TokenId(0))?;
/// for _ in 0..20 {
///     assert!(!constraint.is_accepting(&state));
///     constraint.advance(&mut scratch, &mut state, TokenId(1))?;
/// }
/// assert!(constraint.is_accepting(&state));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LazyRegexConstraint {
    nfa: Nfa,
    classes: ByteClasses,
    start: LazyState,
    closures: Closures,
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    cache_bytes: usize,
}

/// The state of a sequence under a [`LazyRegexConstraint`]. Cloning it copies a pointer. Two are equal only if they
/// allow the same sequences; the converse does not hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LazyState(Arc<[u32]>);

impl LazyState {
    /// How many states of the NFA may read the next byte, without those that others include: what a step costs.
    pub fn members(&self) -> usize {
        self.0.strip_suffix(&[ACCEPTING]).unwrap_or(&self.0).len()
    }
}

/// The buffers and the cache of a [`LazyRegexConstraint`]: four bytes for each state of the NFA, and up to about
/// [`Limits::lazy_bytes`].
pub struct LazyScratch {
    work: Work,
    cache: Cache,
    /// The older half: a DFA with state numbers of its own.
    old: Cache,
}

impl LazyScratch {
    /// The memory of what was made so far, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.cache.memory_usage() + self.old.memory_usage() + self.work.memory_usage()
    }
}

/// A pattern as a constraint of one of two kinds.
#[derive(Clone, Debug)]
pub enum AnyRegex {
    /// Its DFA is within the limits.
    Dfa(Arc<RegexConstraint>),
    /// Its states are made when they are reached.
    Lazy(Arc<LazyRegexConstraint>),
}

impl AnyRegex {
    /// The constraint, whatever its kind.
    pub fn into_any(self) -> AnyConstraint {
        match self {
            Self::Dfa(constraint) => AnyConstraint::new(constraint),
            Self::Lazy(constraint) => AnyConstraint::new(constraint),
        }
    }
}

/// The constraint that the whole output matches `pattern`: a [`RegexConstraint`] if the pattern's DFA is within the
/// limits, else a [`LazyRegexConstraint`].
///
/// # Errors
///
/// [`RegexError`]; that of the DFA where a [`LazyRegexConstraint`] does not do either, because the vocabulary lacks
/// tokens for single bytes.
pub fn regex(
    pattern: &str,
    vocabulary: Arc<Vocabulary>,
    trie: Arc<TokenTrie>,
    limits: &Limits,
) -> Result<AnyRegex, RegexError> {
    let nfa = Nfa::new(&syntax::parse(pattern, limits)?, limits.nfa_size)?;
    let error = match determinize(&nfa, limits) {
        Ok(table) => {
            drop(nfa);
            let dfa = Arc::new(Dfa::from_table(table).ok_or(RegexError::MatchesNothing)?);
            return RegexConstraint::from_dfa(dfa, vocabulary, trie, limits)
                .map(|constraint| AnyRegex::Dfa(Arc::new(constraint)));
        }
        Err(error) => error,
    };
    if !matches!(
        error,
        RegexError::TooManyDfaStates { .. }
            | RegexError::DfaTooLarge { .. }
            | RegexError::DfaTooCostly { .. }
    ) {
        return Err(error);
    }
    match LazyRegexConstraint::from_nfa(nfa, vocabulary, trie, limits) {
        Ok(constraint) => Ok(AnyRegex::Lazy(Arc::new(constraint))),
        Err(RegexError::SpellingTooCostly { .. }) => Err(error),
        Err(other) => Err(other),
    }
}

impl LazyRegexConstraint {
    /// The constraint that the whole output matches `pattern`; for the syntax see
    /// [`Dfa::from_pattern`](crate::Dfa::from_pattern). `trie` is the trie of `vocabulary`.
    ///
    /// Cost: O(n) for n states and transitions of the NFA, which [`Limits::nfa_size`] bounds.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: syntax, an unsupported construct, a limit on the NFA, or a pattern that matches nothing;
    /// [`RegexError::TrieMismatch`]; and [`RegexError::SpellingTooCostly`] if a byte that the pattern uses is not a
    /// token: then every state would have to be known in order to find out which ones tokens can complete.
    pub fn new(
        pattern: &str,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        let nfa = Nfa::new(&syntax::parse(pattern, limits)?, limits.nfa_size)?;
        Self::from_nfa(nfa, vocabulary, trie, limits)
    }

    fn from_nfa(
        nfa: Nfa,
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        if trie.vocab_len() != vocabulary.len() {
            return Err(RegexError::TrieMismatch { trie: trie.vocab_len(), vocabulary: vocabulary.len() });
        }
        let (nfa, accepts) = nfa.trimmed();
        let mut closure = Closure::new(nfa.len());
        closure.run(&nfa, &[nfa.start()], true);
        if closure.set.is_empty() {
            return Err(RegexError::MatchesNothing);
        }
        let mut used = [false; 256];
        for transition in nfa.transitions() {
            used[usize::from(transition.first)..=usize::from(transition.last)].fill(true);
        }
        for (_, text) in vocabulary.text_tokens() {
            if let [byte] = text {
                used[usize::from(*byte)] = false;
            }
        }
        let missing = used.iter().filter(|missing| **missing).count();
        if missing > 0 {
            return Err(RegexError::SpellingTooCostly { limit: limits.spelling_steps, missing });
        }
        let mut begins = [false; 256];
        mark_begins(nfa.transitions(), &mut begins);
        let closures = Closures::new(&nfa, accepts, limits)?;
        let mut start = closure.set;
        let may_end = start.pop_if(|last| *last == ACCEPTING);
        closures.reduce(&nfa, &mut start);
        start.extend(may_end);
        let start = LazyState(Arc::from(start));
        let classes = ByteClasses::from_begins(&begins);
        Ok(Self { nfa, classes, start, closures, vocabulary, trie, cache_bytes: limits.lazy_bytes })
    }

    /// The memory of the NFA, in bytes; scratches, and the vocabulary and its trie, which are shared, are not counted.
    pub fn memory_usage(&self) -> usize {
        self.nfa.memory_usage() + self.closures.memory_usage()
    }

    /// Puts into `work.set` the set after `text`, read from `set`. False if nothing goes on like this.
    fn run(&self, work: &mut Work, set: &[u32], text: &[u8]) -> bool {
        for (index, byte) in text.iter().enumerate() {
            let mut targets = std::mem::take(&mut work.targets);
            targets.clear();
            let members = if index == 0 { set } else { &work.set };
            self.targets(members, *byte, &mut targets);
            self.closures.of(&self.nfa, &targets, &mut work.walk, &mut work.set);
            work.targets = targets;
            if work.targets.is_empty() {
                return false;
            }
        }
        true
    }

    /// Puts into `targets` where `byte` leads from the members of `set`: sorted, each once.
    fn targets(&self, set: &[u32], byte: u8, targets: &mut Vec<NfaId>) {
        targets.clear();
        for member in set.iter().filter(|member| **member != ACCEPTING) {
            let transitions = reads(&self.nfa, *member);
            let at = transitions.partition_point(|transition| transition.last < byte);
            targets.extend(
                transitions
                    .get(at)
                    .filter(|transition| transition.first <= byte)
                    .map(|transition| transition.next),
            );
        }
        targets.sort_unstable();
        targets.dedup();
    }

    /// The text of a token that may be read.
    fn text(&self, token: TokenId) -> Option<&[u8]> {
        self.vocabulary.text(token).filter(|text| !text.is_empty())
    }

    /// The mask of `set` by a walk that keeps only the sets along one token.
    fn fill_uncached(&self, work: &mut Work, set: &[u32], mask: &mut MaskMut<'_>) {
        let mut sets: Vec<Vec<u32>> = vec![set.to_vec()];
        self.trie.walk(
            0usize,
            |depth, byte| {
                let (before, after) = sets.split_at_mut(depth + 1);
                if !self.run(work, &before[depth], &[byte]) {
                    return None;
                }
                match after.first_mut() {
                    Some(next) => next.clone_from(&work.set),
                    None => sets.push(work.set.clone()),
                }
                Some(depth + 1)
            },
            |token, _| mask.insert(token),
        );
    }
}

/// The transitions of a member of a set.
fn reads(nfa: &Nfa, member: u32) -> &[Transition] {
    match nfa.state(NfaId(member)) {
        NfaState::Bytes { first, last } => nfa.bytes(first, last),
        _ => unreachable!("the members of a set read a byte"),
    }
}

/// Buffers without a meaning between calls.
#[derive(Default)]
struct Work {
    walk: closures::Walk,
    /// The present set.
    set: Vec<u32>,
    targets: Vec<NfaId>,
}

impl Work {
    fn memory_usage(&self) -> usize {
        self.walk.memory_usage() + self.set.capacity() * 4 + self.targets.capacity() * 4
    }
}

/// The DFA of masks as far as it was made.
#[derive(Default)]
struct Cache {
    /// By state: members that read all that the members of a whole set read.
    sets: Vec<Arc<[u32]>>,
    ids: HashMap<Arc<[u32]>, u32>,
    /// `next[state * classes + class]`.
    next: Vec<u32>,
    /// By whole set: the state that reads the same.
    of_whole: HashMap<Arc<[u32]>, u32>,
    /// By NFA state that a byte leads to: its closure without the mark of an end, and the widest member.
    closures: HashMap<u32, (Arc<[u32]>, Option<u32>)>,
    /// By NFA state that a byte leads to: members of its closure that read as much.
    reduced: HashMap<u32, Arc<[u32]>>,
    /// By pair: whether the second reads all that the first reads.
    covered: HashMap<(u32, u32), bool>,
    simulation_steps: u32,
    /// By state.
    masks: HashMap<u32, Box<[u32]>>,
    /// The memory of all of these, as far as the limit goes.
    bytes: usize,
    /// The memory of the sets and masks alone.
    owned: usize,
}

impl Cache {
    fn memory_usage(&self) -> usize {
        self.owned
            + self.sets.capacity() * size_of::<Arc<[u32]>>()
            + self.next.capacity() * size_of::<u32>()
            + table(&self.ids)
            + table(&self.of_whole)
            + table(&self.closures)
            + table(&self.reduced)
            + table(&self.covered)
            + table(&self.masks)
    }

    /// Counts a set that is kept, and the entries with it.
    fn count(&mut self, set: &[u32]) {
        self.bytes += OVERHEAD + size_of_val(set);
        self.owned += 2 * size_of::<usize>() + size_of_val(set);
    }
}

/// The memory of a table: one in eight slots of a power of two is free, and each has a byte more.
fn table<K, V>(map: &HashMap<K, V>) -> usize {
    match map.capacity() {
        0 => 0,
        capacity => (capacity * 8 / 7).next_power_of_two() * (size_of::<(K, V)>() + 1),
    }
}

/// A constraint with a scratch, for one mask.
struct Walk<'a> {
    constraint: &'a LazyRegexConstraint,
    work: &'a mut Work,
    cache: &'a mut Cache,
    old: &'a mut Cache,
    /// Whether memory ran out, so that what was walked is of no use.
    overflow: bool,
}

impl ByteAutomaton for Walk<'_> {
    fn class(&self, byte: u8) -> u8 {
        self.constraint.classes.get(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if self.overflow {
            return DEAD;
        }
        let classes = &self.constraint.classes;
        let at = state as usize * classes.len() + usize::from(classes.get(byte));
        match self.cache.next[at] {
            UNKNOWN => self.make(state, byte, at),
            next => next,
        }
    }
}

impl Walk<'_> {
    /// Makes the transition of `state` over `byte`, which is at `at` in the table.
    #[cold]
    fn make(&mut self, state: u32, byte: u8, at: usize) -> u32 {
        let limit = self.constraint.cache_bytes;
        if self.cache.bytes.saturating_add(self.old.bytes) > limit {
            *self.old = Cache::default();
        }
        if self.cache.bytes > limit || self.cache.sets.len() >= UNKNOWN as usize {
            self.overflow = true;
            return DEAD;
        }
        let set = Arc::clone(&self.cache.sets[state as usize]);
        if let Some(next) = self.made_before(&set, byte) {
            self.cache.next[at] = next;
            return next;
        }
        let mut targets = std::mem::take(&mut self.work.targets);
        self.constraint.targets(&set, byte, &mut targets);
        let next = match &targets[..] {
            [] => DEAD,
            [only] => {
                let reduced = self.reduced(only.0);
                self.state(reduced)
            }
            many => {
                let mut union: Vec<u32> = vec![];
                for target in many {
                    union.extend_from_slice(&self.reduced(target.0));
                }
                union.sort_unstable();
                union.dedup();
                self.reduce(&mut union);
                self.state(Arc::from(union))
            }
        };
        self.work.targets = targets;
        self.cache.next[at] = next;
        next
    }

    /// Where `byte` leads from the state of `set`, if the older half knows.
    fn made_before(&mut self, set: &Arc<[u32]>, byte: u8) -> Option<u32> {
        let classes = &self.constraint.classes;
        let state = *self.old.ids.get(set)? as usize;
        match self.old.next[state * classes.len() + usize::from(classes.get(byte))] {
            UNKNOWN => None,
            DEAD => Some(DEAD),
            next => {
                let set = Arc::clone(&self.old.sets[next as usize]);
                Some(self.state(set))
            }
        }
    }

    /// The state of a reduced set.
    fn state(&mut self, set: Arc<[u32]>) -> u32 {
        let cache = &mut *self.cache;
        if let Some(id) = cache.ids.get(&set) {
            return *id;
        }
        let id = cache.sets.len() as u32;
        let width = self.constraint.classes.len();
        cache.next.resize(cache.next.len() + width, UNKNOWN);
        cache.count(&set);
        cache.bytes += width * size_of::<u32>();
        cache.sets.push(Arc::clone(&set));
        cache.ids.insert(set, id);
        id
    }

    /// The state for the masks of a whole set.
    fn state_of_whole(&mut self, whole: &Arc<[u32]>) -> u32 {
        if let Some(id) = self.cache.of_whole.get(whole) {
            return *id;
        }
        let set = match self.old.of_whole.get(whole) {
            Some(id) => Arc::clone(&self.old.sets[*id as usize]),
            None => {
                let mut set = whole.strip_suffix(&[ACCEPTING]).unwrap_or(whole).to_vec();
                self.reduce(&mut set);
                Arc::from(set)
            }
        };
        let id = self.state(set);
        self.cache.count(whole);
        self.cache.of_whole.insert(Arc::clone(whole), id);
        id
    }

    /// The closure of `target`, without the mark of an end, and its widest member.
    fn closure(&mut self, target: u32) -> (Arc<[u32]>, Option<u32>) {
        if let Some(known) = self.cache.closures.get(&target) {
            return known.clone();
        }
        let Work { walk, set, .. } = &mut *self.work;
        self.constraint.closures.of(&self.constraint.nfa, &[NfaId(target)], walk, set);
        let whole: Arc<[u32]> = Arc::from(set.strip_suffix(&[ACCEPTING]).unwrap_or(set));
        let widths = self.constraint.closures.widths();
        let widest = whole.iter().copied().max_by_key(|member| (widths[*member as usize], *member));
        self.cache.count(&whole);
        self.cache.closures.insert(target, (Arc::clone(&whole), widest));
        (whole, widest)
    }

    /// What of the closure of `target` reads as much as all of it.
    fn reduced(&mut self, target: u32) -> Arc<[u32]> {
        if let Some(known) = self.cache.reduced.get(&target) {
            return Arc::clone(known);
        }
        let set = match self.old.reduced.get(&target) {
            Some(known) => Arc::clone(known),
            None => {
                let mut set = self.closure(target).0.to_vec();
                self.reduce(&mut set);
                Arc::from(set)
            }
        };
        self.cache.count(&set);
        self.cache.reduced.insert(target, Arc::clone(&set));
        set
    }

    /// Leaves out members that others cover.
    fn reduce(&mut self, set: &mut Vec<u32>) {
        if set.len() < 2 {
            return;
        }
        // Earlier parts of a pattern have the greater numbers.
        let widths = self.constraint.closures.widths();
        let mut widest: Vec<u32> = Vec::with_capacity(WIDEST + 1);
        for member in set.iter().rev() {
            let width = |member: u32| widths[member as usize];
            let at = widest.partition_point(|other| width(*other) >= width(*member));
            if at < WIDEST {
                widest.insert(at, *member);
                widest.truncate(WIDEST);
            }
        }
        let mut kept: Vec<u32> = Vec::with_capacity(WIDEST);
        for member in widest {
            if !kept.iter().any(|other| self.covers(*other, member)) {
                kept.push(member);
            }
        }
        set.retain(|member| kept.contains(member) || !kept.iter().any(|other| self.covers(*other, *member)));
    }

    /// Whether `wide` is known to read all that `narrow` reads.
    fn covers(&mut self, wide: u32, narrow: u32) -> bool {
        let widths = self.constraint.closures.widths();
        if widths[wide as usize] < widths[narrow as usize] {
            return false;
        }
        if let Some(known) = self.cache.covered.get(&(narrow, wide)) {
            return *known;
        }
        let before = self.old.covered.get(&(narrow, wide)).copied();
        let covered = before.unwrap_or_else(|| self.simulate(narrow, wide));
        self.cache.bytes += OVERHEAD / 2;
        self.cache.covered.insert((narrow, wide), covered);
        covered
    }

    /// Whether each step of `narrow` is one of `wide` too, and so on from there: what is assumed about pairs along the
    /// way holds if no step contradicts it.
    fn simulate(&mut self, narrow: u32, wide: u32) -> bool {
        let constraint = self.constraint;
        let mut assumed = vec![(narrow, wide)];
        let mut seen = HashSet::from([(narrow, wide)]);
        let mut at = 0;
        let limit = self.cache.simulation_steps.saturating_add(SIMULATION).min(SIMULATION_STEPS);
        while let Some((narrow, wide)) = assumed.get(at).copied() {
            at += 1;
            if self.cache.simulation_steps >= limit || self.cache.bytes > constraint.cache_bytes {
                return false;
            }
            self.cache.simulation_steps += 1;
            let wide_reads = reads(&constraint.nfa, wide);
            for step in reads(&constraint.nfa, narrow) {
                // The transitions of `wide` that read these bytes must read all of them.
                let begin = wide_reads.partition_point(|other| other.last < step.first);
                let mut byte = step.first;
                for other in &wide_reads[begin..] {
                    if other.first > byte || !self.assume(step.next.0, other.next.0, &mut assumed, &mut seen)
                    {
                        return false;
                    }
                    if other.last >= step.last {
                        byte = step.last;
                        break;
                    }
                    byte = other.last + 1;
                }
                if wide_reads.last().is_none_or(|last| last.last < step.last) || byte != step.last {
                    return false;
                }
            }
        }
        self.cache.bytes += assumed.len() * OVERHEAD / 2;
        self.cache.covered.extend(assumed.into_iter().map(|pair| (pair, true)));
        true
    }

    /// Adds the pairs that must hold for what follows `wide` to cover what follows `narrow`. False if some cannot.
    fn assume(
        &mut self,
        narrow: u32,
        wide: u32,
        assumed: &mut Vec<(u32, u32)>,
        seen: &mut HashSet<(u32, u32)>,
    ) -> bool {
        if self.constraint.closures.includes(wide, narrow) {
            return true;
        }
        let is_byte = |id: u32| matches!(self.constraint.nfa.state(NfaId(id)), NfaState::Bytes { .. });
        if is_byte(narrow) && is_byte(wide) {
            return self.assume_one(narrow, wide, assumed, seen);
        }
        let ((narrow, _), (wide, widest)) = (self.closure(narrow), self.closure(wide));
        self.cache.simulation_steps = self.cache.simulation_steps.saturating_add(narrow.len() as u32 / 16);
        let mut missing = narrow.iter().filter(|member| wide.binary_search(member).is_err());
        missing.all(|member| widest.is_some_and(|widest| self.assume_one(*member, widest, assumed, seen)))
    }

    /// As [`assume`](Self::assume), for two states that read a byte.
    fn assume_one(
        &self,
        narrow: u32,
        wide: u32,
        assumed: &mut Vec<(u32, u32)>,
        seen: &mut HashSet<(u32, u32)>,
    ) -> bool {
        let widths = self.constraint.closures.widths();
        if widths[wide as usize] < widths[narrow as usize] {
            return false;
        }
        match self.cache.covered.get(&(narrow, wide)) {
            Some(known) => return *known,
            None if seen.insert((narrow, wide)) => assumed.push((narrow, wide)),
            None => {}
        }
        true
    }
}

impl Constraint for LazyRegexConstraint {
    type State = LazyState;
    type Scratch = LazyScratch;

    fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    fn start(&self) -> LazyState {
        self.start.clone()
    }

    fn scratch(&self) -> LazyScratch {
        LazyScratch { work: Work::default(), cache: Cache::default(), old: Cache::default() }
    }

    /// O(b n) for a token of b bytes and a set of n NFA states.
    fn advance(
        &self,
        scratch: &mut LazyScratch,
        state: &mut LazyState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let text = self.text(token).ok_or(Rejected::new(token))?;
        if !self.run(&mut scratch.work, &state.0, text) {
            return Err(Rejected::new(token));
        }
        *state = LazyState(Arc::from(&scratch.work.set[..]));
        Ok(())
    }

    fn is_accepting(&self, state: &LazyState) -> bool {
        state.0.last() == Some(&ACCEPTING)
    }

    fn fill_mask(&self, scratch: &mut LazyScratch, state: &LazyState, mut mask: MaskMut<'_>) {
        let LazyScratch { work, cache, old } = scratch;
        if cache.bytes > self.cache_bytes / 2 {
            *old = std::mem::take(cache);
        }
        let mut walk = Walk { constraint: self, work, cache, old, overflow: false };
        let id = walk.state_of_whole(&state.0);
        if let Some(words) = walk.cache.masks.get(&id) {
            mask.copy_from(MaskRef::new(words, self.vocab_len()));
            return;
        }
        if let Some(words) = walk.old.of_whole.get(&state.0).and_then(|id| walk.old.masks.get(id)) {
            mask.copy_from(MaskRef::new(words, self.vocab_len()));
        } else {
            mask.clear();
            self.trie.fill(&mut walk, id, mask.reborrow());
        }
        if walk.overflow {
            // One mask takes more than the younger half, so there is no older one any more.
            *walk.cache = Cache::default();
            mask.clear();
            self.fill_uncached(walk.work, &state.0, &mut mask);
        } else {
            let words = mask.as_ref().words();
            cache.count(words);
            cache.masks.insert(id, words.into());
        }
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, scratch: &mut LazyScratch, state: &LazyState, token: TokenId) -> bool {
        self.text(token).is_some_and(|text| self.run(&mut scratch.work, &state.0, text))
    }

    /// From the state's mask, which is kept: O(v) for v ids, without an allocation where it was asked for before.
    fn forced(&self, scratch: &mut LazyScratch, state: &LazyState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let id = scratch.cache.of_whole.get(&state.0);
        let words = match id.and_then(|id| scratch.cache.masks.get(id)) {
            Some(words) => words,
            None => {
                let mut mask = unskew_core::TokenMask::new(self.vocab_len());
                self.fill_mask(scratch, state, mask.as_mut());
                return only(mask.words());
            }
        };
        only(words)
    }
}

/// The only bit that is set.
fn only(words: &[u32]) -> Option<TokenId> {
    let mut found = words.iter().enumerate().filter(|(_, word)| **word != 0);
    let (index, word) = found.next()?;
    (word.is_power_of_two() && found.next().is_none())
        .then(|| TokenId::from_index(index * WORD_BITS + word.trailing_zeros() as usize))
}

impl fmt::Debug for LazyRegexConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyRegexConstraint")
            .field("nfa_states", &self.nfa.len())
            .field("vocabulary", &self.vocabulary)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LazyScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyScratch")
            .field("states", &(self.cache.sets.len() + self.old.sets.len()))
            .field("bytes", &(self.cache.bytes + self.old.bytes))
            .finish_non_exhaustive()
    }
}
