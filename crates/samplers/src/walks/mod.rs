//! Walks: rollouts along sequences that a serving engine owns.
//!
//! A serving engine batches, delays and ends its sequences by itself, and calls a plug-in with the row of logits
//! after each token. A walk is one rollout along one such sequence: it is fed the row, and answers with the token
//! that the engine has to append, the end, or a rejection. All walks of a task share one tree of visited prefixes, so
//! that they learn from each other while hundreds of them are under way. A walk that is rejected is over: the engine
//! cannot go back, and its caller begins another one.
//!
//! **A walk knows its place.** The caller names the position that it asks about, and a walk that has decided that
//! position answers in the same way again, without its row. So an engine may take a sequence out of its batch and put
//! it back, drop the token that was in flight, or read a prompt in pieces: nothing has to be counted beside the walk.
//! Tried instead: a call for each step. Each plug-in then counts the tokens that it was told, compares the count with
//! its engine's, and finds the walk of a sequence that comes back; three engines had three ways to do that wrong.
//!
//! **The walk draws, and not the engine.** Tried instead: to write the proposal into the row, with the rejected mass
//! on a reserved token, and to let the engine draw. That needs no random numbers here, and it has three faults. The
//! engine's arithmetic becomes a part of the distribution: rows of 32 bits, a softmax over them, and whatever is
//! configured after the plug-in. It is a second way to propose beside that of [`Rollout`]. And a rejection always
//! costs a token of the engine, while a walk here looks ahead as far as rows are known: it makes all tests there, and
//! begins again where one fails, before the engine has appended anything. The price is that the log-probabilities
//! that an engine reports *after* its processors are those of a row with one token. Those before them, which engines
//! report by default, are the model's own, and a walk tells its own sum.
//!
//! **Outputs keep their distribution** for the reason that is told in [`rollout`](crate::rollout): an accepted output
//! follows the model given the constraint whatever was learned before, so that it does not matter that a walk is
//! given up where another sampler would go on, nor that walks that are dropped half-way never end. One rule is the
//! caller's: outputs are taken in the order in which their walks were begun, and never as they end, since short ones
//! end first.
//!
//! Forced tokens wait for their rows too: a sequence of an engine passes there anyway, and a test that fails ends it
//! sooner.

mod table;
mod tally;

use std::{
    convert::Infallible,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

pub use self::table::{WalkKey, WalkTable};

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{Constraint, Finish, Logits, TokenId};

pub use self::tally::WalkSums;
use self::tally::{Ended, Tally};
use crate::{
    SampleError, Task, Usage, Warp,
    rollout::{AcceptTest, End, Progress, Proposal, Rollout, RolloutConfig, RowResult},
    session::Session,
    task::ModelShape,
    tree::PrefixTree,
    values::StateValues,
};

/// The most sessions of a task that live at once; see [`Walks::begin`].
const MAX_SESSIONS: usize = 4;

/// The most tries of a walk before its first token. Each of them learns something.
const MAX_TRIES: usize = 256;

/// The memory of the values that the walks of a task learn, in bytes.
const VALUES_BYTES: usize = 4 << 20;

/// The rules of the walks of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WalkMode {
    /// [`Exact::cars`](crate::Exact::cars): accepted outputs follow the target distribution, and fewer walks are
    /// rejected the more is known.
    Cars,
    /// [`Exact::rejection`](crate::Exact::rejection): accepted outputs follow the target distribution, nothing is
    /// learned, and a walk is accepted with probability `P(constraint)`.
    Rejection,
    /// Masked sampling with weights: every walk is accepted unless it comes to a dead end, and its weight stands for
    /// the model's distribution. The mean of the weights, with 0 for dead ends, is `P(constraint)`.
    Weights,
    /// As [`Weights`](Self::Weights), with proposals twisted by values of the constraint's states
    /// ([`Twisted`](crate::Twisted)): the weights become nearly equal as walks end. The walks of a task share the
    /// values.
    Twisted,
}

impl WalkMode {
    fn config(self) -> RolloutConfig {
        let (proposal, accept) = match self {
            Self::Cars => (Proposal::Cars, AcceptTest::ExceptFirst),
            Self::Rejection => (Proposal::Masked, AcceptTest::Every),
            Self::Weights => (Proposal::Masked, AcceptTest::Never),
            Self::Twisted => (Proposal::Twisted, AcceptTest::Never),
        };
        RolloutConfig { jumps: false, ..RolloutConfig::new(proposal, accept) }
    }
}

/// The token that the engine has to append to the sequence of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkStep {
    /// This one.
    Token(TokenId),
    /// One that ends the sequence: the walk is accepted.
    End,
    /// None: the walk is over without an output.
    Over,
}

/// How a walk ended.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WalkEnd {
    /// With an output.
    Accepted(WalkOutput),
    /// A test has failed, or the walk came to a dead end.
    Rejected,
    /// The walk cannot go on, nor can any other one where the model gives probability zero to all outputs.
    Failed(SampleError<Infallible>),
}

/// The output of a walk.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct WalkOutput {
    /// The tokens, without the end.
    pub tokens: Vec<TokenId>,
    /// The natural logarithm of the model's probability of the output, its end included.
    pub log_prob: f64,
    /// The logarithm of the weight; 0 but for [`WalkMode::Weights`] and [`WalkMode::Twisted`].
    pub log_weight: f64,
    /// The logarithms of the model's mass that the mask leaves, before each token and at the end.
    pub log_masks: Vec<f64>,
}

/// Rows of an engine, read to host memory one at a time: a buffer that the walks of a step share.
#[derive(Debug, Default)]
pub struct FedRows {
    logits: Arc<Logits>,
}

impl FedRows {
    /// A row at a temperature and truncated, as a pass of one row.
    fn warped(&mut self, row: &[f32], row_len: usize, warp: Warp, tokens: usize) -> RowResult<&Arc<Logits>> {
        if row.len() < row_len {
            let why = format!("a row of {} logits was fed, and the model has {row_len} tokens", row.len());
            return Err(SampleError::Row { why });
        }
        // A row that was kept has a copy of its own; one that a rollout still looks at keeps the buffer.
        if Arc::get_mut(&mut self.logits).is_none() {
            self.logits = Arc::default();
        }
        let logits = Arc::get_mut(&mut self.logits).expect("nobody else has it");
        logits.reset(1, row_len).copy_from_slice(&row[..row_len]);
        // The samplers' own message, before a division of infinities.
        if logits.row(0).iter().any(|logit| logit.is_nan()) {
            return Err(SampleError::NotADistribution { tokens });
        }
        warp.apply(logits)?;
        Ok(&self.logits)
    }
}

/// The findings of the walks of a task so far.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct WalkStats {
    /// The tries that have ended, with those that walks made before their first token.
    pub tries: u64,
    /// The tries that ended with an output.
    pub accepted: u64,
    /// The logarithm of the estimate of `P(constraint)`; none before a try has ended.
    pub log_estimate: Option<f64>,
    /// The standard error of the estimate, as a part of it.
    pub relative_error: Option<f64>,
    /// The logarithm of an upper bound on `P(constraint)`.
    pub log_bound: f64,
    /// The sums that the estimate is made of, so that those of several processes can be [merged](Self::merged).
    pub sums: Option<WalkSums>,
    /// The memory of the walks, but for the tokens of those under way.
    pub usage: Usage,
}

impl WalkStats {
    /// The findings of tries and accepted ones with these sums, with this upper bound on the logarithm of
    /// `P(constraint)`, and with prefixes and their bytes.
    pub fn new(
        (tries, accepted): (u64, u64),
        sums: Option<WalkSums>,
        log_bound: f64,
        (prefixes, bytes): (usize, usize),
    ) -> Self {
        let mut tally = Tally::default();
        tally.add((tries, accepted), sums);
        tally.stats(log_bound, Usage { prefixes, trie_bytes: bytes, row_bytes: 0 })
    }

    /// The findings of processes that have learned apart about one task, together. `None` of none.
    pub fn merged(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let mut tally = Tally::default();
        for stats in all {
            tally.add((stats.tries, stats.accepted), stats.sums);
        }
        // Each is a bound.
        let log_bound = all.iter().map(|stats| stats.log_bound).fold(f64::INFINITY, f64::min);
        let mut usage = Usage::default();
        for stats in all {
            usage.prefixes += stats.usage.prefixes;
            usage.trie_bytes += stats.usage.trie_bytes;
            usage.row_bytes += stats.usage.row_bytes;
        }
        Some(tally.stats(log_bound, usage)).filter(|_| all.len() > 1).or(Some(*first))
    }
}

/// A session, and its memory after the last step.
struct Shared<C: Constraint> {
    session: Mutex<Session<C>>,
    bytes: AtomicUsize,
}

impl<C: Constraint> Shared<C> {
    fn new(session: Session<C>) -> Arc<Self> {
        Arc::new(Self { session: Mutex::new(session), bytes: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Session<C>> {
        // A panic in a constraint leaves the tree as it was before the token: each change of it is made in one call.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The walks of one task. Threads share it.
///
/// [`Task::prompt`] and [`Task::batch`] have no meaning here: the engine has the prompt, and the batch.
pub struct Walks<C: Constraint> {
    constraint: C,
    mode: WalkMode,
    warp: Warp,
    row_len: usize,
    current: Mutex<Current<C>>,
    tally: Arc<Mutex<Tally>>,
    /// Whether the model was replaced: walks under way are over.
    is_replaced: Arc<AtomicBool>,
}

struct Current<C: Constraint> {
    shared: Arc<Shared<C>>,
    /// Sessions before it, in which walks are under way.
    before: Vec<Weak<Shared<C>>>,
}

/// Why no walk begins: walks in too many sessions are under way. One begins when the oldest have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the memory of a task is full, and walks that are under way hold it: begin again when they have ended"
)]
#[non_exhaustive]
pub struct FullError;

impl FullError {
    /// The error, for programs that limit the memory of many tasks.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Default for FullError {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Constraint + Clone> Walks<C> {
    /// The walks of `task`, over the model whose rows are warped by `warp`.
    pub fn new(task: Task<ModelShape, C>, mode: WalkMode, warp: Warp) -> Self {
        let (constraint, row_len) = (task.constraint.clone(), task.model.row_len);
        let mut session = Session::new(task, mode.config().proposal.scope());
        if mode == WalkMode::Twisted {
            session.set_values(StateValues::new(VALUES_BYTES));
        }
        let shared = Shared::new(session);
        let current = Mutex::new(Current { shared, before: Vec::new() });
        let is_replaced = Arc::new(AtomicBool::new(false));
        Self { constraint, mode, warp, row_len, current, tally: Arc::default(), is_replaced }
    }

    /// The constraint of the task.
    pub fn constraint(&self) -> &C {
        &self.constraint
    }

    /// A walk at the start of an output. `seed` decides its random numbers.
    ///
    /// Prefixes are forgotten when their limit ([`Task::max_bytes`]) is reached. Walks under way stand on them, so
    /// that they keep their tree, and the new walk begins on a copy that has forgotten.
    ///
    /// # Errors
    ///
    /// [`FullError`] where walks under way hold several such trees.
    pub fn begin(&self, seed: u64) -> Result<Walk<C>, FullError> {
        let shared = self.session()?;
        let number = lock(&self.tally).begin();
        Ok(Walk {
            shared,
            tally: Arc::clone(&self.tally),
            is_replaced: Arc::clone(&self.is_replaced),
            mode: self.mode,
            warp: self.warp,
            row_len: self.row_len,
            rng: ChaCha8Rng::seed_from_u64(seed),
            rollout: None,
            tries: 0,
            number,
            log_bound: None,
            told: Vec::new(),
            end: None,
        })
    }

    /// The session that a new walk begins in.
    fn session(&self) -> Result<Arc<Shared<C>>, FullError> {
        let mut current = lock(&self.current);
        let Current { shared, before } = &mut *current;
        let is_idle = Arc::strong_count(shared) == 1;
        let next = {
            let mut session = shared.lock();
            if session.is_full() && is_idle {
                session.keep_within_limit();
            }
            if session.is_full() {
                before.retain(|before| before.strong_count() > 0);
                if before.len() + 1 >= MAX_SESSIONS {
                    return Err(FullError);
                }
                Some(Shared::new(session.successor()))
            } else {
                None
            }
        };
        if let Some(next) = next {
            before.push(Arc::downgrade(shared));
            *shared = next;
        }
        Ok(Arc::clone(shared))
    }

    /// The findings so far.
    pub fn stats(&self) -> WalkStats {
        let shared = Arc::clone(&lock(&self.current).shared);
        let (log_bound, usage) = {
            let session = shared.lock();
            (session.tree().bound(PrefixTree::ROOT).min(0.0), session.usage())
        };
        lock(&self.tally).stats(log_bound, usage)
    }

    /// Ends the walks under way: the model that they follow is no longer there.
    pub fn replace_model(&self) {
        self.is_replaced.store(true, Ordering::Relaxed);
    }

    /// The memory of all trees and rows, in bytes, as it was after the last step of each.
    pub fn bytes(&self) -> usize {
        let current = lock(&self.current);
        let before = current.before.iter().filter_map(Weak::upgrade);
        let before: usize = before.map(|shared| shared.bytes.load(Ordering::Relaxed)).sum();
        before + current.shared.bytes.load(Ordering::Relaxed)
    }

    /// Whether no walk is under way.
    pub fn is_idle(&self) -> bool {
        let current = lock(&self.current);
        Arc::strong_count(&current.shared) == 1
            && current.before.iter().all(|before| before.strong_count() == 0)
    }

    /// Forgets the rows of the model. No output depends on them.
    pub fn forget_rows(&self) {
        let shared = Arc::clone(&lock(&self.current).shared);
        let mut session = shared.lock();
        session.forget_rows();
        shared.bytes.store(bytes(&session), Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes<C: Constraint>(session: &Session<C>) -> usize {
    let Usage { trie_bytes, row_bytes, .. } = session.usage();
    trie_bytes + row_bytes
}

/// One rollout along one sequence of an engine.
pub struct Walk<C: Constraint> {
    shared: Arc<Shared<C>>,
    tally: Arc<Mutex<Tally>>,
    is_replaced: Arc<AtomicBool>,
    mode: WalkMode,
    warp: Warp,
    row_len: usize,
    rng: ChaCha8Rng,
    /// None before the first row, and after the end.
    rollout: Option<Rollout<C>>,
    tries: usize,
    /// The number of the present try.
    number: u64,
    /// The logarithm of the bound with which the present try has left the empty prefix.
    log_bound: Option<f64>,
    /// The tokens that the engine was told, by their positions.
    told: Vec<TokenId>,
    end: Option<WalkEnd>,
}

impl<C: Constraint> Walk<C> {
    /// The decision at `position`, the number of tokens of the output before it: `row` are the logits there. A position
    /// that was decided before has the same decision again, and its row is not read.
    ///
    /// After the end all later positions have the decision of the end. A position beyond the next one ends the walk:
    /// some token before it is not its own.
    pub fn at(&mut self, position: usize, row: &[f32], rows: &mut FedRows) -> WalkStep {
        self.decide(position, Some((row, rows))).expect("the row is there")
    }

    /// The same where no row is needed: the position was decided, or other walks have read its row. `None` where it is.
    pub fn known_at(&mut self, position: usize) -> Option<WalkStep> {
        self.decide(position, None)
    }

    fn decide(&mut self, position: usize, row: Option<(&[f32], &mut FedRows)>) -> Option<WalkStep> {
        if let Some(token) = self.told.get(position) {
            return Some(WalkStep::Token(*token));
        }
        let over = |end: &WalkEnd, told| match end {
            WalkEnd::Accepted(output) => output.tokens.len() == told,
            _ => true,
        };
        if self.end.is_none() && self.is_replaced.load(Ordering::Relaxed) {
            self.finish(WalkEnd::Failed(SampleError::Replaced), Ended::Dropped);
        }
        if position > self.told.len() && !self.end.as_ref().is_some_and(|end| over(end, self.told.len())) {
            let error = SampleError::Gap { position, told: self.told.len() };
            self.finish(WalkEnd::Failed(error), Ended::Dropped);
        }
        if self.end.is_none() {
            let shared = Arc::clone(&self.shared);
            let mut session = shared.lock();
            let advanced = self.advance(&mut session, row);
            if let Err(error) = advanced {
                self.finish(WalkEnd::Failed(error), Ended::Dropped);
            }
            shared.bytes.store(bytes(&session), Ordering::Relaxed);
        }
        let tokens = match (&self.end, &self.rollout) {
            (Some(WalkEnd::Accepted(output)), _) => &output.tokens[..],
            (None, Some(rollout)) => rollout.tokens(),
            _ => return Some(WalkStep::Over),
        };
        match (tokens.get(self.told.len()).copied(), &self.end) {
            (Some(token), _) => {
                self.told.push(token);
                Some(WalkStep::Token(token))
            }
            (None, Some(_)) => Some(WalkStep::End),
            (None, None) => None,
        }
    }

    /// How the walk ended. A walk may know its end before the engine has appended all of its tokens.
    pub fn end(&self) -> Option<&WalkEnd> {
        self.end.as_ref()
    }

    /// Goes on until there is a token to tell, or the end, or a row is needed that is not there.
    fn advance(
        &mut self,
        session: &mut Session<C>,
        mut row: Option<(&[f32], &mut FedRows)>,
    ) -> RowResult<()> {
        while self.end.is_none() {
            let config = self.mode.config();
            let rollout = match &mut self.rollout {
                Some(rollout) => rollout,
                none => none.insert(Rollout::new(session, config, &[], &[])),
            };
            if rollout.is_pending() {
                if self.told.len() < rollout.tokens().len() {
                    return Ok(());
                }
                if !rollout.is_known_meanwhile(session) {
                    let Some((row, rows)) = row.take() else { return Ok(()) };
                    let logits = rows.warped(row, self.row_len, self.warp, self.told.len())?;
                    rollout.feed(session, logits)?;
                }
            }
            let progress = rollout.poll(session, &mut self.rng)?;
            if self.log_bound.is_none() && (rollout.has_drawn() || progress != Progress::NeedsRows) {
                // Nothing was learned since the draw.
                let tree = session.tree();
                self.log_bound = Some(match self.mode {
                    WalkMode::Rejection => 0.0,
                    _ if tree.is_backed_up(PrefixTree::ROOT) => tree.bound(PrefixTree::ROOT),
                    _ => tree.valid_mass(PrefixTree::ROOT),
                });
            }
            if let Progress::Done(end) = progress {
                self.on_end(session, end)?;
            }
        }
        Ok(())
    }

    fn on_end(&mut self, session: &mut Session<C>, end: End) -> RowResult<()> {
        let Some(rollout) = self.rollout.take() else { return Ok(()) };
        if self.mode == WalkMode::Cars {
            rollout.back_up(session)?;
        }
        rollout.teach(session);
        let is_impossible = match self.mode {
            WalkMode::Cars => session.tree().bound(PrefixTree::ROOT) == f64::NEG_INFINITY,
            _ => matches!(&end, End::Stuck(tokens) if tokens.is_empty()),
        };
        let log_bound = self.log_bound.take().unwrap_or(0.0);
        let ended = |accepted, log_weight| match self.mode {
            WalkMode::Weights | WalkMode::Twisted => Ended::Weighed { log_weight },
            _ => Ended::Tested { accepted, log_bound },
        };
        match end {
            End::Output(output) => {
                debug_assert_eq!(output.finish, Finish::Stop, "outputs are not cut");
                let log_weight = match self.mode {
                    WalkMode::Weights | WalkMode::Twisted => output.log_weight,
                    WalkMode::Cars | WalkMode::Rejection => 0.0,
                };
                let steps = output.steps.iter();
                let (log_prob, log_masks) = (output.log_prob, steps.map(|step| step.valid_mass).collect());
                let tokens = output.into_tokens();
                if tokens.len() > session.max_tokens() {
                    // A token has passed the end, and its part takes several.
                    self.finish(WalkEnd::Rejected, ended(false, f64::NEG_INFINITY));
                } else {
                    let output = WalkOutput { tokens, log_prob, log_weight, log_masks };
                    self.finish(WalkEnd::Accepted(output), ended(true, log_weight));
                }
            }
            _ if is_impossible => {
                let error = SampleError::Impossible { max_tokens: session.max_tokens() };
                self.finish(WalkEnd::Failed(error), ended(false, f64::NEG_INFINITY));
            }
            End::Rejected | End::Stuck(_) => {
                let ended = ended(false, f64::NEG_INFINITY);
                self.tries += 1;
                // The engine has appended nothing: another try may take the same sequence. One that learns nothing
                // would be repeated without end.
                if self.told.is_empty() && self.mode == WalkMode::Cars && self.tries < MAX_TRIES {
                    let mut tally = lock(&self.tally);
                    tally.end(self.number, ended);
                    self.number = tally.begin();
                } else {
                    self.finish(WalkEnd::Rejected, ended);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, end: WalkEnd, ended: Ended) {
        self.rollout = None;
        self.end = Some(end);
        lock(&self.tally).end(self.number, ended);
    }
}

impl<C: Constraint> Drop for Walk<C> {
    fn drop(&mut self) {
        if self.end.is_none() {
            lock(&self.tally).end(self.number, Ended::Dropped);
        }
    }
}

impl<C: Constraint> fmt::Debug for Walks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walks").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<C: Constraint> fmt::Debug for Walk<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("told", &self.told.len()).field("end", &self.end).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
