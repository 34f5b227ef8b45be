//! One sequence under a constraint, which a server holds for each request.
//!
//! A matcher owns its constraint and its position, and knows nothing of threads: scratches come from the pool of the
//! constraint, so that a matcher may be filled on one thread and accept on another. The tokens so far are kept, and
//! the states after the last of them. So [`rollback`](Matcher::rollback) is exact for any number of tokens and costs
//! nothing for a few: beyond those that are kept, the tokens are read again from the start.
//!
//! # The end
//!
//! Stop ids are those that the caller gives, by default the end-of-sequence ids of the vocabulary. Rows hold them
//! exactly where the constraint may end, and accepting one terminates the matcher. Nothing is accepted then, and the
//! row holds the stop ids alone, so that an engine that goes on sampling a finished row samples its end again. A
//! rollback takes the end back as it takes back any token.

mod forced;

use std::{collections::VecDeque, fmt, sync::Arc};

use unskew_core::{AnyState, Constraint, TokenId, TokenKind, Vocabulary, words_for};
use unskew_grammars::{Capture, CaptureError};

use crate::{
    Compiled,
    pool::{Pool, Slot},
};

/// How many states are kept for a rollback.
const KEPT: usize = 32;

/// The ids that end an output.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MatcherOptions {
    /// The ids that end an output; `None`: the end-of-sequence ids of the vocabulary. With none, rows hold no end and
    /// a matcher never terminates: [`Matcher::is_accepting`] says all of it.
    pub stop_ids: Option<Vec<TokenId>>,
}

/// Wrong use of a matcher. The matcher is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatcherError {
    /// An id beyond the vocabulary.
    #[error("token {token} is beyond the vocabulary of {len} ids: it is of another tokenizer")]
    BeyondVocabulary {
        /// The id.
        token: TokenId,
        /// The ids of the vocabulary.
        len: usize,
    },
    /// A row with fewer words than a mask.
    #[error("a row of {words} words is too short for a mask of {needed} words")]
    ShortRow {
        /// Its words.
        words: usize,
        /// Those of a mask.
        needed: usize,
    },
    /// More tokens to take back than there are.
    #[error("{asked} tokens cannot be taken back: there are {tokens}")]
    Rollback {
        /// The tokens to take back.
        asked: usize,
        /// The tokens so far.
        tokens: usize,
    },
    /// The output has grown beyond a limit of the engine.
    #[error("the output is beyond `{limit}`, which can be raised")]
    Limit {
        /// The limit.
        limit: &'static str,
    },
    /// A stop id with text is the only token that may follow where the output may not end.
    #[error(
        "only the text of a stop id may follow, and the output may not end here: use a stop id without text"
    )]
    StopNeeded,
    /// A draft that names a parent that is not before it, or rows that two matchers share or that are not there.
    #[error("{0}")]
    Batch(String),
}

/// One sequence of tokens under a constraint. Cloning it forks the sequence.
///
/// See [`Compiler`](crate::Compiler) for an example. It is [`Send`] and [`Sync`]: rows may be filled on any thread.
#[derive(Clone)]
pub struct Matcher {
    compiled: Compiled,
    stop_ids: Arc<[TokenId]>,
    /// Whether a stop id is a token of text, so that a mask may need it for its text.
    stops_have_text: bool,
    tokens: Vec<TokenId>,
    /// The states after the last tokens, the present one last. A token that ends the output has none.
    states: VecDeque<AnyState>,
    is_terminated: bool,
    slot: Slot,
}

impl Matcher {
    /// A matcher at the start of an output.
    ///
    /// # Errors
    ///
    /// [`MatcherError::BeyondVocabulary`] for a stop id that is in no vocabulary.
    pub fn new(compiled: &Compiled, options: MatcherOptions) -> Result<Self, MatcherError> {
        let vocabulary = compiled.tokens.vocabulary();
        let mut stop_ids = options.stop_ids.unwrap_or_else(|| vocabulary.end_of_sequence().to_vec());
        stop_ids.sort_unstable();
        stop_ids.dedup();
        let len = compiled.vocab_len();
        if let Some(token) = stop_ids.iter().copied().find(|id| id.index() >= len) {
            return Err(MatcherError::BeyondVocabulary { token, len });
        }
        let stops_have_text = stop_ids
            .iter()
            .any(|id| vocabulary.kind(*id) != TokenKind::Unused && !vocabulary.is_end_of_sequence(*id));
        let start = compiled.start();
        Ok(Self {
            compiled: compiled.clone(),
            stop_ids: stop_ids.into(),
            stops_have_text,
            tokens: Vec::new(),
            states: VecDeque::from([start]),
            is_terminated: false,
            slot: Slot::default(),
        })
    }

    /// The constraint, for other matchers.
    pub fn compiled(&self) -> Compiled {
        self.compiled.clone()
    }

    /// The tokens so far, the end among them.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The parts of the output that the constraint names (`name[capture]` in Lark and XGrammar), once it is whole:
    /// see [`GrammarConstraint::captures`](unskew_grammars::GrammarConstraint::captures). Tokens are counted from the
    /// first of the output.
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the output is not whole, has too many readings, or has no first one.
    pub fn captures(&self) -> Result<Vec<Capture>, CaptureError> {
        let end = self.tokens.len() - usize::from(self.is_terminated);
        self.compiled.captures().map_or(Ok(Vec::new()), |captures| captures.read(&self.tokens[..end]))
    }

    /// The temperature that the constraint asks for at the next token (`name[temperature=0.5]` in Lark and XGrammar),
    /// for samplers that want it: see
    /// [`GrammarConstraint::temperature`](unskew_grammars::GrammarConstraint::temperature). The output is read from
    /// its first token on, so a token costs as much as all before it.
    ///
    /// # Errors
    ///
    /// [`CaptureError`], where the output has too many readings, or lazy terminals compete with others.
    pub fn temperature(&self) -> Result<Option<f64>, CaptureError> {
        let end = self.tokens.len() - usize::from(self.is_terminated);
        self.compiled.captures().map_or(Ok(None), |captures| captures.temperature(&self.tokens[..end]))
    }

    /// How many words of 32 bits a mask has.
    pub fn mask_words(&self) -> usize {
        words_for(self.compiled.vocab_len())
    }

    /// Writes the mask into `row`, one bit for each id, least significant bit first; stop ids are in it exactly where
    /// the output may end. Words of the row beyond the mask are cleared.
    ///
    /// Cost: a copy where the mask lies ready; else the engine makes it, once.
    ///
    /// # Errors
    ///
    /// [`MatcherError::ShortRow`], [`MatcherError::StopNeeded`], and [`MatcherError::Limit`] where the output has
    /// grown beyond a limit.
    pub fn fill(&self, row: &mut [u32]) -> Result<(), MatcherError> {
        self.fill_at(&self.slot, self.state(), self.is_terminated, row)
    }

    /// Appends `token`. `false`: it is not allowed here, and nothing has changed. After the end, nothing is allowed.
    ///
    /// # Errors
    ///
    /// [`MatcherError::BeyondVocabulary`], and [`MatcherError::Limit`] where the output has grown beyond a limit.
    pub fn accept(&mut self, token: TokenId) -> Result<bool, MatcherError> {
        self.check(token)?;
        if self.is_terminated {
            return Ok(false);
        }
        if self.is_stop(token) {
            let may_end = self.is_accepting();
            if may_end {
                self.is_terminated = true;
                self.tokens.push(token);
            }
            return Ok(may_end);
        }
        let mut state = self.state().clone();
        if !self.step(&mut state, token)? {
            return Ok(false);
        }
        if self.states.len() == KEPT {
            self.states.pop_front();
        }
        self.states.push_back(state);
        self.tokens.push(token);
        Ok(true)
    }

    /// Appends the longest allowed beginning of `tokens`; answers with its length.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept); the tokens before the one that is meant are accepted then.
    pub fn accept_all(&mut self, tokens: &[TokenId]) -> Result<usize, MatcherError> {
        for (count, token) in tokens.iter().enumerate() {
            if !self.accept(*token)? {
                return Ok(count);
            }
        }
        Ok(tokens.len())
    }

    /// The length of the longest beginning of `tokens` that is allowed. Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn validate(&self, tokens: &[TokenId]) -> Result<usize, MatcherError> {
        let mut state = None;
        for (count, token) in tokens.iter().enumerate() {
            self.check(*token)?;
            if self.is_terminated {
                return Ok(0);
            }
            let at = state.get_or_insert_with(|| self.state().clone());
            if self.is_stop(*token) {
                return Ok(count + usize::from(self.compiled.is_accepting(at)));
            }
            if !self.step(at, *token)? {
                return Ok(count);
            }
        }
        Ok(tokens.len())
    }

    /// Takes back the last `count` tokens, the end among them.
    ///
    /// Cost: O(1) for up to 31 tokens of text; beyond, the tokens that stay are read again.
    ///
    /// # Errors
    ///
    /// [`MatcherError::Rollback`] where there are fewer.
    pub fn rollback(&mut self, count: usize) -> Result<(), MatcherError> {
        let Some(stay) = self.tokens.len().checked_sub(count) else {
            return Err(MatcherError::Rollback { asked: count, tokens: self.tokens.len() });
        };
        if count == 0 {
            return Ok(());
        }
        let gone = count - usize::from(self.is_terminated);
        if gone < self.states.len() {
            self.states.truncate(self.states.len() - gone);
        } else {
            let mut states = VecDeque::from([self.compiled.start()]);
            for token in &self.tokens[..stay] {
                let mut state = states.back().expect("there is the start").clone();
                // They were accepted before, and acceptance depends on nothing else.
                self.step(&mut state, *token)?;
                if states.len() == KEPT {
                    states.pop_front();
                }
                states.push_back(state);
            }
            self.states = states;
        }
        self.is_terminated = false;
        self.tokens.truncate(stay);
        Ok(())
    }

    /// A second matcher at the same place. Neither knows of the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// Back to the start.
    pub fn reset(&mut self) {
        self.tokens.clear();
        self.states.clear();
        self.states.push_back(self.compiled.start());
        self.is_terminated = false;
    }

    /// Whether the output may end here. After the end it has.
    pub fn is_accepting(&self) -> bool {
        self.compiled.is_accepting(self.state())
    }

    /// Whether a stop id was accepted.
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// The ids that end the output, in ascending order.
    pub fn stop_ids(&self) -> &[TokenId] {
        &self.stop_ids
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.compiled.pool
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(crate) fn state(&self) -> &AnyState {
        self.states.back().expect("the present state is kept")
    }

    pub(crate) fn is_stop(&self, token: TokenId) -> bool {
        self.stop_ids.binary_search(&token).is_ok()
    }

    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.compiled.tokens.vocabulary()
    }

    pub(crate) fn check(&self, token: TokenId) -> Result<(), MatcherError> {
        let len = self.compiled.vocab_len();
        if token.index() < len { Ok(()) } else { Err(MatcherError::BeyondVocabulary { token, len }) }
    }

    fn step(&self, state: &mut AnyState, token: TokenId) -> Result<bool, MatcherError> {
        self.step_with(&self.slot, state, token)
    }

    pub(crate) fn step_with(
        &self,
        slot: &Slot,
        state: &mut AnyState,
        token: TokenId,
    ) -> Result<bool, MatcherError> {
        match self.compiled.pool.with(slot, |constraint, scratch| constraint.advance(scratch, state, token)) {
            Ok(()) => Ok(true),
            Err(rejected) => match rejected.limit {
                Some(limit) => Err(MatcherError::Limit { limit }),
                None => Ok(false),
            },
        }
    }

    /// The row of a state, or of the end.
    pub(crate) fn fill_at(
        &self,
        slot: &Slot,
        state: &AnyState,
        is_terminated: bool,
        row: &mut [u32],
    ) -> Result<(), MatcherError> {
        let needed = self.mask_words();
        let Some((words, rest)) = row.split_at_mut_checked(needed) else {
            return Err(MatcherError::ShortRow { words: row.len(), needed });
        };
        rest.fill(0);
        if is_terminated {
            words.fill(0);
            set(words, &self.stop_ids);
            return Ok(());
        }
        self.compiled.pool.fill_mask(slot, state, words);
        let may_end = self.compiled.is_accepting(state);
        if may_end {
            set(words, &self.stop_ids);
        } else if self.stops_have_text {
            for id in self.stop_ids.iter() {
                words[id.index() / 32] &= !(1 << (id.index() % 32));
            }
        }
        if may_end || words.iter().any(|word| *word != 0) {
            return Ok(());
        }
        // The state is beyond a limit, or the stop ids took the last token.
        let beyond = self.compiled.pool.with(slot, |constraint, scratch| constraint.beyond(scratch, state));
        Err(beyond.map_or(MatcherError::StopNeeded, |limit| MatcherError::Limit { limit }))
    }
}

fn set(words: &mut [u32], ids: &[TokenId]) {
    for id in ids {
        words[id.index() / 32] |= 1 << (id.index() % 32);
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("tokens", &self.tokens.len())
            .field("is_accepting", &self.is_accepting())
            .field("is_terminated", &self.is_terminated)
            .finish_non_exhaustive()
    }
}
