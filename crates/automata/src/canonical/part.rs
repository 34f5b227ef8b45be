//! Parts of texts that are regular languages, such as the terminals of a grammar. The facts about a part hold wherever
//! the part occurs.
//!
//! A state of a grammar is where a text stands in a terminal, and what comes after that terminal. The first decides
//! about nearly all tokens: inside of a JSON string, whether `hello` may come depends on the string and on the
//! tokenizer, and not on the object around it. So the tokens of a state of a terminal are found once for a tokenizer,
//! by a walk over the vocabulary through the automaton of the terminal alone, and all grammars share them. It is the
//! idea of Vegas caching (V. Tran-Thien 2024) with the states of terminals in the place of those of a whole regex.
//!
//! A token is certain here if the part goes on after it with a byte that the tokenizer reads in any case, and has an
//! end after that. The caller lists all other tokens, such as those that reach behind the part.

use std::{
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rustc_hash::FxBuildHasher;
use unskew_core::{Generations, TokenId};
use unskew_trie::ByteSet;

use super::{
    CanonicalError,
    index::{
        CanonicalIndex,
        shared_cache::SharedCache,
        split_liveness::{Safety, places_of},
    },
    texts::utf8::utf8,
    viability::{
        context::{Context, texts_of},
        language::{DfaLanguage, LazyDfa},
        lazy_product::{LazyProduct, OVERHEAD},
        liveness::distances,
        lookahead::PartTokens,
        memo::Memo,
    },
};
use crate::{Dfa, StateId};

/// The capacities of the caches of an index, in bytes: of parts, and of their tokens.
const PARTS: usize = 16 << 20;
const TOKENS: usize = 48 << 20;
const COMPLETES: usize = 1 << 20;

/// The number of maps of the cache of tokens.
const MAPS: usize = 16;

/// A regular language whose texts are parts of the texts of a constraint.
pub struct TextPart {
    /// Unique among the parts of a process.
    number: u64,
    texts: Inside,
    /// By state: the number of bytes to an end.
    to_end: Vec<u32>,
    product: LazyProduct,
}

/// Which texts of a part a constraint allows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Allowed {
    /// All of them.
    All,
    /// All but some, which depend on the text before. Then a state is [safe](TextPart::safety) if it has more texts
    /// of ordinary ASCII than are ever left out: texts of any length, or 2^32 of them.
    AllButSome,
    /// Those that end later. By state: whether it may be [safe](TextPart::safety).
    Later(Arc<[bool]>),
}

/// A DFA as a part of texts: where it accepts, the text goes on.
struct Inside(DfaLanguage);

impl LazyDfa for Inside {
    fn start(&self) -> StateId {
        self.0.start()
    }

    #[inline]
    fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
        self.0.step(state, byte)
    }

    fn is_accepting(&self, _: StateId) -> bool {
        false
    }

    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.0.class(byte)
    }

    fn bytes(&self) -> ByteSet {
        self.0.bytes()
    }

    fn read(&self, state: StateId) -> ByteSet {
        self.0.read(state)
    }

    fn live(&self, state: StateId) -> ByteSet {
        self.0.live(state)
    }

    fn safety(&self, state: StateId) -> Safety {
        self.0.safety(state)
    }

    fn distance(&self, state: StateId) -> u32 {
        self.0.distance(state)
    }

    fn places(&self, state: StateId) -> u8 {
        self.0.places(state)
    }

    fn most_positions(&self) -> usize {
        0
    }
}

impl TextPart {
    /// `None` if a text of `dfa` is not UTF-8.
    fn new(dfa: &Arc<Dfa>, allowed: &Allowed, index: &CanonicalIndex) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let mut texts = DfaLanguage::of(Arc::clone(dfa), places_of(dfa)?, index);
        match allowed {
            Allowed::All => {}
            Allowed::AllButSome => texts = texts.with_safe(&index.liveness().has_many(dfa), index),
            Allowed::Later(kept) => texts = texts.with_safe(kept, index),
        }
        let texts = Inside(texts);
        let product = LazyProduct::new(texts.context(index), 0);
        let to_end = distances(dfa, |state| dfa.is_accepting(state));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Some(Self { number, texts, to_end, product })
    }

    /// Whether ordinary text leads from the state to an end that is allowed.
    #[inline]
    pub fn safety(&self, state: StateId) -> Safety {
        self.texts.safety(state)
    }

    /// ASCII bytes that lead to a [safe](Self::safety) state, after any text.
    #[inline]
    pub fn live(&self, state: StateId) -> ByteSet {
        self.texts.live(state)
    }

    /// The UTF-8 states in which the state is reached, one bit each.
    #[inline]
    pub fn places(&self, state: StateId) -> u8 {
        self.texts.places(state)
    }

    /// The number of bytes from the state to an end, at least.
    #[inline]
    pub fn to_end(&self, state: StateId) -> u32 {
        self.to_end[state.index()]
    }

    fn memory_usage(&self) -> usize {
        self.texts.0.memory_usage() + self.product.memory_usage() + size_of_val(&self.to_end[..])
    }
}

impl Inside {
    fn context<'a>(&'a self, index: &'a CanonicalIndex) -> Context<'a, Self> {
        Context { language: self, form: texts_of(index, self.0.places.is_empty()), index }
    }
}

impl fmt::Debug for TextPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPart").field("states", &self.to_end.len()).finish_non_exhaustive()
    }
}

type Parts = Generations<(Arc<Dfa>, Allowed), Option<Arc<TextPart>>, FxBuildHasher>;

/// The parts of an index, and their tokens by number and state.
#[derive(Debug)]
pub(crate) struct PartCache {
    parts: RwLock<Parts>,
    tokens: SharedCache<(u64, StateId), Arc<PartTokens>>,
    /// By number, state and UTF-8 state: see [`CanonicalIndex::part_completes`].
    completes: SharedCache<(u64, StateId, u8), bool>,
}

impl Default for PartCache {
    fn default() -> Self {
        Self {
            parts: RwLock::new(Generations::new(PARTS)),
            tokens: SharedCache::new(MAPS, TOKENS),
            completes: SharedCache::new(MAPS, COMPLETES),
        }
    }
}

impl PartCache {
    pub(crate) fn memory_usage(&self) -> usize {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).bytes()
            + self.tokens.memory_usage()
            + self.completes.memory_usage()
    }
}

impl CanonicalIndex {
    /// The texts of `dfa` as a part of longer texts. They are shared by all that ask for an equal automaton. `None`
    /// if one of the texts is not UTF-8.
    pub fn part(&self, dfa: &Arc<Dfa>, allowed: Allowed) -> Option<Arc<TextPart>> {
        let write = || self.parts.parts.write().unwrap_or_else(PoisonError::into_inner);
        let key = (Arc::clone(dfa), allowed);
        let allowed = &key.1;
        if let Some(known) = write().get(&key) {
            return known.clone();
        }
        // Without the lock: a large automaton takes a while.
        let made = TextPart::new(dfa, allowed, self).map(Arc::new);
        let bytes = made.as_ref().map_or(0, |made| made.memory_usage());
        write().insert(key, made.clone(), bytes + OVERHEAD);
        made
    }

    /// The tokens that `part` reads from `state`, without those after which nothing is certain. The first time this
    /// is a walk over the vocabulary.
    pub fn part_tokens(&self, part: &TextPart, state: StateId) -> Arc<PartTokens> {
        let key = (part.number, state);
        self.parts.tokens.get(key).unwrap_or_else(|| {
            let mut memo = Memo::default();
            let (tokens, _) =
                part.product.query(part.texts.context(self), &mut memo).walk_by_lookahead(state);
            let tokens = Arc::new(tokens);
            self.parts.tokens.keep(key, Arc::clone(&tokens), tokens.memory_usage());
            tokens
        })
    }

    /// Whether `part` reads each completion of a character from `state`, which is inside of one in UTF-8 state
    /// `place`, and ordinary text goes on in another piece after it.
    pub fn part_completes(&self, part: &TextPart, state: StateId, place: u8) -> bool {
        let key = (part.number, state, place);
        self.parts.completes.get(key).unwrap_or_else(|| {
            let mut memo = Memo::default();
            let completes =
                part.product.query(part.texts.context(self), &mut memo).accepts_completions(state, place);
            self.parts.completes.keep(key, completes, 0);
            completes
        })
    }

    /// By number of bytes of `text` that were read: whether ordinary text leads to the end of `text`, which is a
    /// part of longer texts. `None` if it is not UTF-8.
    pub fn text_safety(&self, text: &[u8]) -> Option<Vec<Safety>> {
        std::str::from_utf8(text).ok()?;
        Some(self.liveness().text_safety(text, &self.automaton))
    }

    /// Whether a text is certain to go on with `byte`, an ASCII character, to a state of this safety, after any text.
    #[inline]
    pub fn is_live(&self, byte: u8, after: Safety) -> bool {
        self.liveness().is_live(byte, after)
    }

    /// Whether `byte` is not the last but one byte of an added token.
    pub fn is_calm(&self, byte: u8) -> bool {
        self.liveness().is_calm_byte(byte)
    }

    /// Whether `byte` is an ordinary character: the tokenizer reads it after any text.
    pub fn is_ordinary(&self, byte: u8) -> bool {
        self.liveness().place(&[byte]).is_some_and(|_| byte.is_ascii())
    }

    /// Whether the text after `token`, read by its id, may be any ordinary text.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::ControlToken`] if that text is not known.
    pub fn begins_anew(&self, token: TokenId) -> Result<bool, CanonicalError> {
        let Some(start) = self.automaton.after_control(token.0) else {
            let name = self.vocabulary.name(token).into_owned();
            return Err(CanonicalError::ControlToken { token, name });
        };
        Ok(self.liveness().universal[start])
    }
}

/// The state of UTF-8 after `text`, as the place of a bit in [`LazyDfa::places`]; 0 between characters, and for
/// bytes that are not UTF-8.
pub fn utf8_state(text: &[u8]) -> u8 {
    text.iter().try_fold(0, |place, byte| utf8(place, *byte)).unwrap_or(0)
}
