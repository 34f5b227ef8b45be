//! A byte automaton read token by token: the tokens that a state allows, and the states after them.
//!
//! A token is allowed if the automaton reads all of its bytes and tokens can complete the state after it. Over single
//! bytes no state of the DFA is a dead end. Over tokens a state can be one. With the tokens `a`, `ab` and `c` and the
//! regex `abc|ad`, the byte `a` is allowed and the token `a` is not: no token is `d` or begins with `b`. So if the
//! vocabulary lacks a token for some byte, this file computes the states from which whole tokens reach acceptance,
//! and allows only tokens into these states.
//!
//! Rejected: to follow all tokens from all states and then search backwards. That is a walk over the vocabulary for
//! each state, half a millisecond for a large vocabulary. Here a backward search over the bytes that are tokens finds
//! nearly all live states, and a walk decides one of the others when it reaches a known live state.

use std::{cell::Cell, sync::Arc};

use unskew_core::{MaskMut, TokenId, Vocabulary};
use unskew_trie::{ByteAutomaton, DenseTable, TokenTrie, Verdict};

use crate::{
    Dfa, Limits, RegexError, StateId,
    dfa::{state::StateVec, table::Inverse},
};

/// A DFA over bytes with a vocabulary. Immutable, without a cache: every mask is a walk.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{Dfa, Limits, TokenDfa};
/// use unskew_core::{TokenId, TokenMask, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// for text in ["ab", "c", "cab"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = Arc::new(TokenTrie::new(builder.build()?)?);
/// let dfa = Arc::new(Dfa::from_pattern("(abc)*", &Limits::default())?);
/// let tokens = TokenDfa::new(dfa, trie, &Limits::default())?;
///
/// let after_ab = tokens.step(tokens.start(), TokenId(0)).unwrap();
/// let mut mask = TokenMask::new(3);
/// tokens.fill_mask(after_ab, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(1), TokenId(2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenDfa {
    dfa: Arc<Dfa>,
    trie: Arc<TokenTrie>,
    /// By state: whether tokens can complete it. `None` if they can complete all states.
    live: Option<StateVec<bool>>,
}

impl TokenDfa {
    /// Reads `dfa` by the tokens of `trie`.
    ///
    /// Cost: O(n) for n states if each byte that `dfa` uses is a token. Otherwise walks over the vocabulary decide
    /// the states that single bytes leave open: about one walk for each open state, n^2 at worst, which
    /// [`Limits::spelling_steps`] bounds.
    ///
    /// # Errors
    ///
    /// [`RegexError::Unspellable`] if no sequence of tokens is accepted, [`RegexError::SpellingTooCostly`].
    pub fn new(dfa: Arc<Dfa>, trie: Arc<TokenTrie>, limits: &Limits) -> Result<Self, RegexError> {
        // The tokens of one byte are the first level of the trie, so this walk stops at depth one.
        let mut single = [false; 256];
        trie.walk(
            None,
            |before: Option<u8>, byte| before.is_none().then_some(Some(byte)),
            |_, byte| byte.into_iter().for_each(|byte| single[usize::from(byte)] = true),
        );
        let missing: Vec<u8> = dfa.bytes().filter(|byte| !single[usize::from(*byte)]).collect();
        let live = if missing.is_empty() {
            None
        } else {
            let live = Search::new(&dfa, &trie, &single).run(limits, missing.len())?;
            if !live[dfa.start()] {
                return Err(RegexError::Unspellable { missing });
            }
            Some(live)
        };
        Ok(Self { dfa, trie, live })
    }

    /// The state before the first token.
    pub fn start(&self) -> StateId {
        self.dfa.start()
    }

    /// The state after `token`. `None` if the token is not allowed: no accepted sequence of tokens continues with it,
    /// or the token has no text.
    ///
    /// # Panics
    ///
    /// If the DFA has no such state. The other methods that take a state also panic.
    #[inline]
    pub fn step(&self, state: StateId, token: TokenId) -> Option<StateId> {
        let text = self.vocabulary().text(token).filter(|text| !text.is_empty())?;
        self.dfa.run(state, text).filter(|state| self.is_live(*state))
    }

    /// Whether the sequence may end here.
    pub fn is_accepting(&self, state: StateId) -> bool {
        self.dfa.is_accepting(state)
    }

    /// Replaces the content of `mask` by the tokens that are allowed in `state`. O(p) for p prefixes of tokens that
    /// the DFA reads from `state`.
    ///
    /// # Panics
    ///
    /// If the mask does not cover the ids of the vocabulary.
    pub fn fill_mask(&self, state: StateId, mut mask: MaskMut<'_>) {
        assert!(state.index() < self.dfa.len(), "the DFA has no state {state}");
        mask.clear();
        let mut table = self.dfa.dense();
        match &self.live {
            None => self.trie.fill(&mut table, state.0, mask),
            Some(live) => self.trie.fill(&mut LiveStates { table, live }, state.0, mask),
        }
    }

    /// The only token that is allowed in `state`, if there is exactly one. The walk ends at the second allowed token.
    ///
    /// # Panics
    ///
    /// If the DFA has no such state.
    pub fn only(&self, state: StateId) -> Option<TokenId> {
        let (only, several) = (Cell::new(None), Cell::new(false));
        self.trie.walk(
            state,
            |state, byte| self.dfa.step(state, byte).filter(|_| !several.get()),
            |token, state| {
                if self.is_live(state) && only.replace(Some(token)).is_some() {
                    several.set(true);
                }
            },
        );
        only.get().filter(|_| !several.get())
    }

    /// The automaton over bytes.
    pub fn dfa(&self) -> &Arc<Dfa> {
        &self.dfa
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.trie.vocabulary()
    }

    /// The trie of the vocabulary.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    pub(crate) fn is_live(&self, state: StateId) -> bool {
        self.live.as_ref().is_none_or(|live| live[state])
    }
}

/// A DFA with states that tokens cannot complete.
struct LiveStates<'a> {
    table: DenseTable<'a>,
    live: &'a StateVec<bool>,
}

impl ByteAutomaton for LiveStates<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.table.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.table.step(state, byte)
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        if self.live[StateId(state)] { Verdict::All } else { Verdict::None }
    }
}

/// The search for the states from which tokens reach an accepting one.
struct Search<'a> {
    dfa: &'a Dfa,
    trie: &'a TokenTrie,
    inverse: Inverse,
    /// By byte class: whether some byte of the class is a token.
    single_classes: Vec<bool>,
    /// By state: whether tokens are known to reach an accepting state from it.
    live: StateVec<bool>,
    /// The fixed cost of a walk, in steps: it allocates a stack for the longest token.
    walk_steps: u64,
    steps: u64,
}

impl<'a> Search<'a> {
    fn new(dfa: &'a Dfa, trie: &'a TokenTrie, single: &[bool; 256]) -> Self {
        let classes = dfa.classes();
        let mut single_classes = vec![false; classes.len()];
        for byte in (0..=255u8).filter(|byte| single[usize::from(*byte)]) {
            single_classes[usize::from(classes.get(byte))] = true;
        }
        Self {
            dfa,
            trie,
            inverse: Inverse::new(dfa.table()),
            single_classes,
            live: dfa.states().map(|_| false).collect(),
            walk_steps: 10 + trie.vocabulary().longest_text() as u64 / 16,
            steps: 0,
        }
    }

    /// The live states, by a fixpoint. `missing` is the number of bytes of the automaton that are not tokens, for the
    /// error.
    fn run(mut self, limits: &Limits, missing: usize) -> Result<StateVec<bool>, RegexError> {
        let (limit, mut spent) = (limits.spelling_steps, 0);
        for state in self.dfa.states().filter(|state| self.dfa.is_accepting(*state)) {
            self.mark_live(state);
        }
        // States are numbered from the start, so the last ones are nearest to acceptance, and are decided first.
        let mut open: Vec<StateId> = self.dfa.states().rev().collect();
        loop {
            open.retain(|state| !self.live[*state]);
            let before = open.len();
            for state in &open {
                limits.spend(self.steps - spent)?;
                spent = self.steps;
                if self.steps > limit {
                    return Err(RegexError::SpellingTooCostly { limit, missing });
                }
                if !self.live[*state] && self.reaches_live(*state) {
                    self.mark_live(*state);
                }
            }
            if open.iter().filter(|state| !self.live[**state]).count() == before {
                return Ok(self.live);
            }
        }
    }

    /// Marks `state` and all states that reach it through bytes that are tokens.
    fn mark_live(&mut self, state: StateId) {
        self.live[state] = true;
        let mut found = vec![state];
        while let Some(state) = found.pop() {
            for (source, class) in self.inverse.sources(state) {
                if self.single_classes[usize::from(class)] && !self.live[source] {
                    self.live[source] = true;
                    found.push(source);
                }
            }
        }
    }

    /// Whether some token leads from `state` to a marked state.
    fn reaches_live(&mut self, state: StateId) -> bool {
        let found = Cell::new(false);
        let mut steps = self.walk_steps;
        self.trie.walk(
            state,
            |state, byte| {
                steps += 1;
                // After the first success the walk leaves every other prefix at once.
                self.dfa.step(state, byte).filter(|_| !found.get())
            },
            |_, state| found.set(found.get() | self.live[state]),
        );
        self.steps += steps;
        found.get()
    }
}
