//! From rollouts to draws: many of them under way at once, over one session.
//!
//! A policy says which rollout comes next and how the end of a rollout counts; the rest is the same for all policies.
//! Each draw has its own stream of random numbers, seeded from the caller's generator in the order of the draws. No
//! draw waits for another: a draw whose rollout was rejected begins the next rollout while the others go on. All
//! draws are handed over, in the order in which they were begun: handing over the first draws that end would prefer
//! short outputs.
//!
//! Where fewer draws are wanted than rollouts may be under way, a draw whose rollouts were rejected tries **ahead**: a
//! quarter as many rollouts as were rejected so far go beside its first one, while there is room. They count in the
//! order in which they were begun, each once those before it were rejected, and no bound learns of one before its
//! turn. So the draw is what the same rollouts would have given one after the other. Tried instead: the rollout that
//! is accepted first in time. It is a short one, and what it has taught the others would decide whether it is chosen.
//!
//! A policy that learns takes each rollout into the bounds when it ends, and rollouts under way go on with the new
//! bounds ([`rollout`](crate::rollout) says why each output keeps its distribution). So, under such a policy, the
//! outputs of a seed depend on the number of rollouts under way. Under other policies they do not.

mod cut_off;
mod mass;

use std::{collections::VecDeque, convert::Infallible, fmt, sync::Arc};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Constraint, Cost, Draw, Finish, Logits, Origin};

use crate::{
    Drawing, FedRow, Machine, Poll, SampleError, Task, TrieFileError,
    policy::{Outcome, Policy, Tries},
    rollout::{End, HasRollout, Output, Progress, Rollout, RolloutConfig, RowResult, Waiting},
    session::Session,
    speculative::{
        Divergence, Drafter, KullbackLeibler, Selection, SpeculationConfig, SpeculationError,
        SpeculationStats, Verifier,
    },
    task::ModelShape,
    tree::PrefixTree,
};

pub(crate) use cut_off::CutOff;
use mass::Mass;

/// The memory that a sampler holds for its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// The number of visited prefixes.
    pub prefixes: usize,
    /// The bytes of the tree of visited prefixes.
    pub trie_bytes: usize,
    /// The bytes of the cached rows of the model.
    pub row_bytes: usize,
}

/// The most draws whose statistics wait for a caller.
const MAX_STATS: usize = 1 << 16;

/// For each rollout that may be under way: the number of draws that may be made, or under way, after the draw that is
/// handed over next. Without this limit, a draw of a hundred thousand rollouts would keep all draws that are made
/// meanwhile in memory.
const AHEAD: usize = 64;

/// One rollout is begun ahead for so many that were rejected: few of them are for nothing.
const AHEAD_OF: u64 = 4;

/// A draw that is made, or the error that prevents it.
type Done = (Result<Draw, SampleError<Infallible>>, SpeculationStats);

/// A draw under way, or a rollout that tries ahead for one.
struct Slot<C: Constraint, T> {
    index: usize,
    /// Of a rollout that tries ahead: its rules, and its end once it has ended.
    ahead: Option<(RolloutConfig, Option<End>)>,
    rng: ChaCha8Rng,
    memory: T,
    cost: Cost,
    stats: SpeculationStats,
    rollout: Option<Rollout<C>>,
    /// How many rollouts were begun ahead.
    begun_ahead: u64,
    waits: bool,
}

impl<C: Constraint, T> Slot<C, T> {
    fn new(index: usize, rng: ChaCha8Rng, memory: T) -> Self {
        let (cost, stats) = (Cost::default(), SpeculationStats::default());
        Self { index, ahead: None, rng, memory, cost, stats, rollout: None, begun_ahead: 0, waits: false }
    }
}

impl<C: Constraint, T> HasRollout<C> for Slot<C, T> {
    fn rollout(&self) -> Option<&Rollout<C>> {
        self.rollout.as_ref().filter(|_| self.waits)
    }

    fn rollout_mut(&mut self) -> Option<&mut Rollout<C>> {
        self.rollout.as_mut()
    }
}

/// A stream of random numbers for one draw.
pub(crate) fn stream(rng: &mut dyn Rng) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(seed(rng))
}

fn seed(rng: &mut dyn Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}

/// A policy and its rollouts, as a [`Machine`].
pub struct Scheduler<C: Constraint, P: Policy> {
    session: Session<C>,
    /// The drafter of the rollouts, if they are drafted for.
    drafter: Option<Box<dyn Drafter<C> + Send>>,
    policy: P,
    slots: Vec<Slot<C, P::Memory>>,
    waiting: Waiting,
    /// The seeds of draws that were asked for and are not begun.
    seeds: VecDeque<[u8; 32]>,
    /// The draws that were begun, in their order; `None` for a draw under way.
    done: VecDeque<Option<Done>>,
    /// The number of the first draw in `done`.
    first: usize,
    failure: Option<SampleError<Infallible>>,
    /// The number of tokens that the tries of all draws drew at prefixes that were not known.
    new_tokens: u64,
    mass: Mass,
    cut_off: CutOff,
    /// The statistics of all draws made so far, and those of each draw that no caller has taken yet.
    stats: SpeculationStats,
    draw_stats: VecDeque<SpeculationStats>,
}

impl<C: Constraint, P: Policy + fmt::Debug> fmt::Debug for Scheduler<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("policy", &self.policy)
            .field("session", &self.session)
            .field("under_way", &self.slots.len())
            .finish_non_exhaustive()
    }
}

impl<C: Constraint, P: Policy> Scheduler<C, P> {
    /// The machine of a policy for `task`. Up to [`Task::batch`] of its draws are under way at once.
    pub fn new(task: Task<ModelShape, C>, policy: P) -> Self {
        let mut session = Session::new(task, policy.scope());
        if let Some(values) = policy.values() {
            session.set_values(values);
        }
        Self {
            session,
            drafter: None,
            policy,
            slots: Vec::new(),
            waiting: Waiting::default(),
            seeds: VecDeque::new(),
            done: VecDeque::new(),
            first: 0,
            failure: None,
            new_tokens: 0,
            mass: Mass::default(),
            cut_off: CutOff::default(),
            stats: SpeculationStats::default(),
            draw_stats: VecDeque::new(),
        }
    }

    /// The same machine, whose rollouts are drafted for by `drafter`.
    ///
    /// # Errors
    ///
    /// [`SpeculationError`] when the budget is no divergence, the drafter has other tokens, or the parameters do not
    /// fit together.
    pub fn with_drafter(
        self,
        drafter: Box<dyn Drafter<C> + Send>,
        config: SpeculationConfig,
    ) -> Result<Self, SpeculationError> {
        self.with_divergence(drafter, config, Box::new(KullbackLeibler))
    }

    /// The same machine, with budgets of another divergence. Whether a divergence adds up along a sequence is another
    /// question: the total variation of outputs is at most the sum over positions, and so is the Kullback-Leibler
    /// divergence.
    ///
    /// # Errors
    ///
    /// As for [`with_drafter`](Self::with_drafter).
    pub fn with_divergence(
        mut self,
        drafter: Box<dyn Drafter<C> + Send>,
        config: SpeculationConfig,
        divergence: Box<dyn Divergence>,
    ) -> Result<Self, SpeculationError> {
        config.check(self.policy.weighs(), self.session.row_len(), drafter.vocab_len())?;
        self.session.set_verifier(Verifier { config, divergence, selection: Selection::new() });
        self.drafter = Some(drafter);
        Ok(self)
    }

    /// The statistics of speculation so far.
    pub fn speculation(&self) -> &SpeculationStats {
        &self.stats
    }

    /// The logarithm of an upper bound on `P(L)`, the probability that the model satisfies the constraint by itself.
    /// It is 0 at first, and falls with each rollout of a policy that learns.
    pub fn log_bound(&self) -> f64 {
        self.session.tree().bound(PrefixTree::ROOT).min(0.0)
    }

    #[cfg(test)]
    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        self.session.tree_mut()
    }

    /// The memory of the sampler.
    pub fn usage(&self) -> Usage {
        self.session.usage()
    }

    /// Begins rollouts while there is room. A full tree is shrunk when no rollout is under way, and no rollout begins
    /// before.
    fn fill(&mut self) {
        let full = self.session.is_full();
        let idle = self.slots.iter().all(|slot| slot.rollout.is_none());
        if full && !idle {
            return;
        }
        if full {
            self.session.keep_within_limit();
        }
        // Draws that propose by one copy of the values begin together, and the copy is made anew before.
        let freezes = self.policy.freezes();
        let begins = self.slots.is_empty() || !freezes;
        if freezes && begins && !self.seeds.is_empty() {
            self.session.freeze_values();
        }
        while begins
            && self.slots.len() < self.session.batch()
            && let Some(seed) = self.seeds.pop_front()
        {
            let index = self.first + self.done.len();
            self.slots.push(Slot::new(index, ChaCha8Rng::from_seed(seed), P::Memory::default()));
            self.done.push_back(None);
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.rollout.is_none()) {
            let config = self.policy.begin(&mut slot.memory, &mut slot.rng);
            let (tokens, steps) = self.policy.prefix(&slot.memory);
            slot.rollout = Some(Rollout::new(&mut self.session, config, tokens, steps));
            slot.cost.proposals += 1;
        }
        if self.seeds.is_empty() && !full && self.drafter.is_none() {
            self.try_ahead();
        }
    }

    /// Begins rollouts beside those of draws that were rejected, while there is room.
    fn try_ahead(&mut self) {
        for at in 0..self.slots.len() {
            let Slot { index, ahead: None, cost, begun_ahead, .. } = &self.slots[at] else { continue };
            let (index, rejected) = (*index, cost.proposals - 1);
            let Some(config) = self.policy.ahead(&self.slots[at].memory) else { continue };
            let beside = |slot: &&Slot<C, P::Memory>| slot.index == index && slot.ahead.is_some();
            let under_way = self.slots.iter().filter(beside).count() as u64;
            let more = (rejected / AHEAD_OF).saturating_sub(under_way);
            let mut begun = *begun_ahead;
            for _ in 0..more {
                if self.slots.len() >= self.session.batch() {
                    break;
                }
                begun += 1;
                // Each has a stream of the draw's generator for itself.
                let mut rng = self.slots[at].rng.clone();
                rng.set_stream(begun);
                rng.set_word_pos(0);
                let rollout = Rollout::new(&mut self.session, config, &[], &[]);
                let slot = Slot::new(index, rng, P::Memory::default());
                self.slots.push(Slot { ahead: Some((config, None)), rollout: Some(rollout), ..slot });
            }
            self.slots[at].begun_ahead = begun;
        }
    }

    /// Puts the first rollout that was begun ahead of a draw in the place of the rejected one. Answers its end, if it
    /// has ended.
    fn next_ahead(&mut self, at: usize) -> Option<End> {
        let index = self.slots[at].index;
        let config = self.policy.ahead(&self.slots[at].memory);
        let is_next = |slot: &Slot<C, P::Memory>| slot.index == index && slot.ahead.is_some();
        loop {
            let next = self.slots.iter().position(is_next)?;
            let mut next = self.slots.remove(next);
            let (rules, end) = next.ahead.take()?;
            self.slots[at].cost += next.cost;
            if Some(rules) == config {
                let slot = &mut self.slots[at];
                (slot.rng, slot.rollout, slot.waits) = (next.rng, next.rollout, next.waits);
                slot.cost.proposals += 1;
                return end;
            }
        }
    }

    /// Advances the rollouts that do not wait. Answers whether one has ended.
    fn step(&mut self) -> RowResult<bool> {
        let mut some_ended = false;
        let mut at = 0;
        while at < self.slots.len() {
            let slot = &mut self.slots[at];
            let is_ended = matches!(slot.ahead, Some((_, Some(_))));
            let Some(rollout) = slot.rollout.as_mut().filter(|_| !slot.waits && !is_ended) else {
                at += 1;
                continue;
            };
            let end = loop {
                match rollout.poll(&mut self.session, &mut slot.rng)? {
                    Progress::NeedsRows => break None,
                    Progress::Yielded => {}
                    Progress::Done(end) => break Some(end),
                }
            };
            at += 1;
            let index = slot.index;
            match (end, &mut slot.ahead) {
                (None, _) => slot.waits = true,
                (Some(end), Some((_, known))) => *known = Some(end),
                (Some(end), None) => {
                    some_ended = true;
                    self.end(index, end)?;
                }
            }
        }
        if some_ended {
            let failed = self.done.iter().position(|done| matches!(done, Some((Err(_), _))));
            let (done, first) = (&self.done, self.first);
            self.slots.retain(|slot| {
                let at = slot.index - first;
                done[at].is_none() && failed.is_none_or(|failed| at < failed)
            });
        }
        Ok(some_ended)
    }

    /// What the draw in a slot has cost: what was tried ahead for nothing is a part of the price.
    fn price(&self, at: usize) -> Cost {
        let mut cost = self.slots[at].cost;
        let index = self.slots[at].index;
        let ahead = self.slots.iter().filter(|slot| slot.index == index && slot.ahead.is_some());
        ahead.for_each(|slot| cost += slot.cost);
        cost
    }

    /// Counts the end of the rollout of a draw, and those of rollouts ahead whose turn has come.
    fn end(&mut self, index: usize, end: End) -> RowResult<()> {
        let mut next = Some(end);
        while let Some(end) = next.take() {
            let at = self.slots.iter().position(|slot| slot.index == index && slot.ahead.is_none());
            let at = at.expect("the draw is under way");
            let slot = &mut self.slots[at];
            let mut rollout = slot.rollout.take().expect("a rollout has ended");
            self.mass.count(rollout.log_untested(), &end);
            if matches!(&end, End::Output(output) if output.finish == Finish::Stop) {
                self.cut_off.output();
            }
            if self.policy.learns() {
                rollout.back_up(&mut self.session)?;
            }
            rollout.teach(&mut self.session);
            if self.policy.is_try(&slot.memory) {
                self.new_tokens += rollout.new_tokens();
            }
            slot.stats += rollout.stats(&mut self.session);
            let max_tokens = self.session.max_tokens();
            let rollouts = slot.cost.proposals;
            let draws = (self.first + self.done.len()) as u64;
            let tries = Tries { rollouts, draws, new_tokens: self.new_tokens, max_tokens };
            let made = |output: Output, cost, origin, log_weight, effective| {
                let (log_prob, finish) = (output.log_prob, output.finish);
                Draw { log_prob, log_weight, finish, origin, effective, cost, tokens: output.into_tokens() }
            };
            let work = if self.policy.learns() { rollout.new_tokens() } else { rollout.len() as u64 };
            let tokens = (rollout.len(), work);
            let result = match self.policy.on_end(&mut slot.memory, tries, end, &mut slot.rng) {
                Outcome::Again => {
                    let run = (rollouts, self.policy.is_bounded());
                    if let Some(error) = self.cut_off.after(tokens, &mut self.session, run) {
                        Err(error)
                    } else {
                        next = self.next_ahead(at);
                        continue;
                    }
                }
                Outcome::Done(output, origin, log_weight) => {
                    Ok(made(output, self.price(at), origin, log_weight, None))
                }
                Outcome::Resampled(output, effective) => {
                    Ok(made(output, self.price(at), Origin::Resampled, 0.0, Some(effective)))
                }
                Outcome::NoOutput => Err(self.cut_off.in_vain(&mut self.session, rollouts)),
                Outcome::Impossible => Err(SampleError::Impossible { max_tokens }),
                Outcome::DeadEnd(tokens) => Err(SampleError::DeadEnd { tokens }),
            };
            if result.is_ok() {
                self.cut_off.output();
            } else {
                // No draw after a failure is handed over.
                self.seeds.clear();
            }
            self.done[index - self.first] = Some((result, self.slots[at].stats));
        }
        Ok(())
    }
}

impl<C: Constraint, P: Policy> Scheduler<C, P> {
    /// Drafts for all rollouts that wait.
    fn draft(&mut self) -> Result<(), SampleError<Infallible>> {
        let Self { session, drafter: Some(drafter), slots, .. } = self else { return Ok(()) };
        let (mut places, mut runs) = (Vec::new(), Vec::new());
        for (place, slot) in slots.iter_mut().enumerate() {
            let Slot { rollout: Some(rollout), rng, .. } = slot else { continue };
            if let Some(run) = rollout.begin_draft(session, rng) {
                places.push(place);
                runs.push(run);
            }
        }
        let (drafts, cost) = session.draft(&mut **drafter, runs)?;
        for (place, steps) in places.iter().zip(drafts) {
            if let Some(rollout) = &mut slots[*place].rollout {
                rollout.take_draft(session, steps);
            }
        }
        if let Some(first) = places.first() {
            slots[*first].stats.draft += cost;
        }
        Ok(())
    }
}

impl<C: Constraint, P: Policy> Drawing for Scheduler<C, P> {
    fn begin(&mut self, count: usize, rng: &mut dyn Rng) {
        self.seeds.extend((0..count).map(|_| seed(rng)));
    }

    /// The number of draws that may still begin: one batch under way, and another ready.
    fn room(&self) -> usize {
        let batch = self.session.batch();
        let ahead = batch.saturating_mul(AHEAD).saturating_sub(self.done.len() + self.seeds.len());
        batch.saturating_mul(2).saturating_sub(self.slots.len() + self.seeds.len()).min(ahead)
    }

    fn is_idle(&self) -> bool {
        self.seeds.is_empty() && self.done.is_empty() && self.failure.is_none()
    }

    fn take(&mut self) -> Option<Result<Draw, SampleError<Infallible>>> {
        match self.done.front() {
            Some(Some(_)) => {}
            _ => {
                let failure = self.failure.take()?;
                self.give_up();
                return Some(Err(failure));
            }
        }
        self.first += 1;
        let (draw, stats) = self.done.pop_front().flatten()?;
        if self.session.is_drafted_for() {
            self.stats += stats;
            self.draw_stats.push_back(stats);
            self.draw_stats.truncate(MAX_STATS);
        }
        if draw.is_err() {
            self.give_up();
        }
        Some(draw)
    }

    fn give_up(&mut self) {
        self.slots.clear();
        self.seeds.clear();
        self.first += self.done.len();
        self.done.clear();
        self.failure = None;
    }

    fn save(&mut self, name: &str) -> Vec<u8> {
        self.session.save(name)
    }

    fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        // The present prefixes of draws under way are nodes of the tree that is replaced.
        self.give_up();
        self.session.load(name, bytes)
    }

    /// The logarithm of an estimate of `P(L)`, from the rollouts with accept tests so far; `None` before one was
    /// accepted.
    ///
    /// A rollout is accepted with probability `P(L) / b`, for the bound `b` of the empty prefix at that time. So the
    /// estimate is the number of accepted rollouts divided by the sum of all `1 / b`. It is exact where all prefixes
    /// are known.
    fn log_mass(&self) -> Option<f64> {
        let Mass { accepted, log_expected } = self.mass;
        #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 outputs")]
        let estimate = (accepted as f64).ln() - log_expected;
        (accepted > 0).then(|| estimate.min(self.log_bound()))
    }

    fn take_speculation(&mut self) -> Option<SpeculationStats> {
        self.draw_stats.pop_front()
    }
}

impl<C: Constraint, P: Policy> Machine for Scheduler<C, P> {
    fn poll(&mut self) -> Poll {
        if self.failure.is_none() {
            self.failure = self.policy.check().err();
        }
        loop {
            if self.session.is_cancelled() && (!self.slots.is_empty() || !self.seeds.is_empty()) {
                self.failure.get_or_insert(SampleError::Cancelled);
            }
            if self.failure.is_some() {
                self.slots.clear();
                self.seeds.clear();
                return Poll::Done;
            }
            self.fill();
            if self.slots.is_empty() {
                return Poll::Done;
            }
            let needs_rows = self.step().and_then(|some_ended| match some_ended {
                true => Ok(false),
                false => self.draft().map(|()| true),
            });
            match needs_rows {
                Ok(true) => return Poll::Rows(self.waiting.gather(&self.session, &self.slots)),
                Ok(false) => {}
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn feed(&mut self, logits: &Arc<Logits>, rows: &[FedRow]) {
        if self.failure.is_some() {
            return;
        }
        let Self { session, slots, waiting, .. } = self;
        if let Err(error) = waiting.feed(session, slots, logits, rows) {
            self.failure = Some(error);
        }
        for FedRow { request, depth, .. } in rows {
            for place in self.waiting.released(*request, *depth) {
                self.slots[*place].waits = false;
            }
        }
    }

    fn charge(&mut self, request: usize, cost: Cost) {
        if let Some(slot) = self.slots.get_mut(self.waiting.owner(request)) {
            slot.cost += cost;
        }
    }
}
