//! From walks to draws: one after the other, or many that step together.
//!
//! A method says which walk comes next and what the end of one means; the rest is the same for all. Each draw has a stream
//! of random numbers of its own, seeded from the caller's generator in the order of the draws, and waits for nobody. So
//! what is drawn does not depend on how many draws share a pass, and a draw whose walk was refused begins the next one while
//! the others go on.
//!
//! Methods that learn are different: what a walk proposes depends on what was learned before it began. Their draws come in
//! groups of a fixed size (1, unless the caller asks for more) that go by rounds: all walks of a round propose from the same
//! bounds, and what they found is learned in the order of the draws when all have ended. Each output still has the method's
//! law, because that holds whatever was learned before; and the size of a group belongs to the method, like a seed, and not
//! to how many draws someone asks for. What is drawn ahead is kept for the next call.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use smallvec::SmallVec;
use unskew_core::{Constraint, Cost, Draw, LanguageModel, Origin, TokenId};

use crate::{
    SampleError, Task, TrieFileError, limits,
    prefixes::{Prefixes, Scope, Wanted},
    trie::Trie,
    walk::{End, Output, Progress, Step, Walk, Walker},
};

/// What a sampler holds of its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// Visited prefixes.
    pub prefixes: usize,
    /// What is kept of them for good, in bytes.
    pub trie_bytes: usize,
    /// What the cache of the model's rows takes, in bytes.
    pub row_bytes: usize,
}

/// A sampler made of walks.
pub(crate) trait Method {
    /// What one draw keeps between its walks.
    type Memory: Default;

    /// Whether walks learn. Draws then step together by groups only.
    fn learns(&self) -> bool {
        false
    }

    /// Whether a draw depends on its own cost, which depends on what others have computed: such draws are made one by one.
    fn counts_cost(&self) -> bool {
        false
    }

    /// Refuses counts that memory is not meant for.
    fn check<E>(&self) -> Result<(), SampleError<E>> {
        Ok(())
    }

    /// The next walk of a draw.
    fn begin(&self, memory: &mut Self::Memory, rng: &mut dyn Rng) -> Walk;

    /// The part of an earlier output behind which that walk begins.
    fn prefix<'a>(&self, memory: &'a Self::Memory) -> (&'a [TokenId], &'a [Step]) {
        let _ = memory;
        (&[], &[])
    }

    /// What the end of the `tries`-th walk of a draw means.
    fn judge(
        &self,
        memory: &mut Self::Memory,
        tries: u64,
        positions: u64,
        end: End,
        rng: &mut dyn Rng,
    ) -> Verdict;
}

/// What becomes of a draw after a walk.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// Another walk.
    Again,
    /// This output, with the logarithm of its weight.
    Done(Output, Origin, f64),
    /// The tries are used up.
    NoOutput,
    /// There is no output that the model can write.
    Impossible,
    /// Nothing may follow these tokens.
    DeadEnd(Vec<TokenId>),
}

impl Verdict {
    /// What the end of the `tries`-th walk means to a method that takes the first output, for at most `max_tries` tries.
    pub(crate) fn of_try(end: End, origin: Origin, tries: u64, max_tries: u64) -> Self {
        match end {
            End::Output(output) => Self::Done(output, origin, 0.0),
            // Nothing is left of the empty prefix: no number of tries will help.
            End::Stuck(tokens) if tokens.is_empty() => Self::Impossible,
            End::Stuck(_) | End::Refused if tries < max_tries => Self::Again,
            End::Stuck(_) | End::Refused => Self::NoOutput,
        }
    }
}

/// The samplers of a method.
#[derive(Debug)]
pub(crate) struct Draws<M: LanguageModel, C: Constraint, T> {
    pub(crate) prefixes: Prefixes<M, C>,
    method: T,
    /// The draws that learn together.
    group: usize,
    /// Drawn ahead.
    ready: VecDeque<Draw>,
}

/// A draw under way.
struct Lane<C: Constraint, T> {
    index: usize,
    rng: ChaCha8Rng,
    memory: T,
    cost: Cost,
    walker: Option<Walker<C>>,
    /// Whether the walk waits for the model.
    waits: bool,
    ended: Option<End>,
}

impl<C: Constraint, T> Lane<C, T> {
    /// What its walk waits for, once.
    fn wanted(&mut self) -> Option<Wanted<'_, C::State>> {
        let Self { walker, cost, waits, .. } = self;
        walker.as_mut().filter(|_| std::mem::take(waits)).map(|walker| walker.wanted(cost))
    }
}

/// A stream of random numbers for one draw.
pub(crate) fn stream(rng: &mut dyn Rng) -> ChaCha8Rng {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    ChaCha8Rng::from_seed(seed)
}

impl<M: LanguageModel, C: Constraint, T: Method> Draws<M, C, T> {
    pub(crate) fn new(task: Task<M, C>, scope: Scope, method: T) -> Self {
        Self { prefixes: Prefixes::new(task, scope), method, group: 1, ready: VecDeque::new() }
    }

    /// Lets `group` draws learn together, where the method learns.
    pub(crate) fn grouped(mut self, group: usize) -> Self {
        self.group = group.max(1);
        self
    }

    pub(crate) fn method_mut(&mut self) -> &mut T {
        &mut self.method
    }

    /// The logarithm of what the bounds leave of the model's distribution.
    pub(crate) fn log_bound(&self) -> f64 {
        self.prefixes.trie().bound(Trie::ROOT).min(0.0)
    }

    pub(crate) fn usage(&self) -> Usage {
        let (prefixes, trie_bytes, row_bytes) = self.prefixes.usage();
        Usage { prefixes, trie_bytes, row_bytes }
    }

    pub(crate) fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.prefixes.load(name, bytes)?;
        self.ready.clear();
        Ok(())
    }

    pub(crate) fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, SampleError<M::Error>> {
        if let Some(draw) = self.ready.pop_front() {
            return Ok(draw);
        }
        let count = if self.method.learns() { self.group } else { 1 };
        let mut draws = Vec::new();
        let result = self.run(count, rng, &mut draws);
        self.ready.extend(draws);
        match self.ready.pop_front() {
            Some(draw) => Ok(draw),
            None => result.map(|()| unreachable!("as many draws as were asked for")),
        }
    }

    pub(crate) fn draw_many(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        draws: &mut Vec<Draw>,
    ) -> Result<(), SampleError<M::Error>> {
        if !self.method.learns() && !self.method.counts_cost() {
            return self.run(count, rng, draws);
        }
        for _ in 0..count {
            draws.push(self.draw(rng)?);
        }
        Ok(())
    }

    /// Draws `count` outputs. After an error those that come before the first that was not finished are there: which of the
    /// later ones are finished depends on how long they are.
    fn run(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        draws: &mut Vec<Draw>,
    ) -> Result<(), SampleError<M::Error>> {
        self.method.check()?;
        limits::check("draws that learn together", self.group, limits::MAX_GROUP)?;
        let rounds = self.method.learns();
        let batch = self.prefixes.batch();
        let mut lanes: Vec<Lane<C, T::Memory>> = Vec::new();
        let mut next = 0;
        let mut done: Vec<Option<Result<Draw, SampleError<M::Error>>>> = Vec::new();
        let result = loop {
            // A full trie is emptied when no walk is under way, and no walk begins before.
            let full = self.prefixes.is_full();
            let idle = lanes.iter().all(|lane| lane.walker.is_none());
            if full && idle {
                self.prefixes.keep_within_limit();
            }
            if idle || (!full && !rounds) {
                while next < count && (lanes.len() < batch || rounds) {
                    lanes.push(Lane {
                        index: next,
                        rng: stream(rng),
                        memory: T::Memory::default(),
                        cost: Cost::default(),
                        walker: None,
                        waits: false,
                        ended: None,
                    });
                    done.push(None);
                    next += 1;
                }
                if lanes.is_empty() {
                    break Ok(());
                }
                for lane in lanes.iter_mut().filter(|lane| lane.walker.is_none()) {
                    let mut how = self.method.begin(&mut lane.memory, &mut lane.rng);
                    how.per_token &= count == 1;
                    let (tokens, steps) = self.method.prefix(&lane.memory);
                    lane.walker = Some(Walker::new(&mut self.prefixes, how, tokens, steps));
                    lane.cost.proposals += 1;
                }
            }
            if let Err(error) = self.step(&mut lanes) {
                break Err(error);
            }
            if rounds && lanes.iter().any(|lane| lane.ended.is_none()) {
                continue;
            }
            for lane in &mut lanes {
                let Some(end) = lane.ended.take() else { continue };
                let mut walker = lane.walker.take().expect("its walk has ended");
                if rounds {
                    walker.learn(&mut self.prefixes);
                }
                walker.give_back(&mut self.prefixes);
                let Lane { index, rng, memory, cost, .. } = lane;
                let verdict = self.method.judge(memory, cost.proposals, cost.positions, end, rng);
                let max_tokens = self.prefixes.max_tokens();
                done[*index] = Some(match verdict {
                    Verdict::Again => continue,
                    Verdict::Done(output, origin, log_weight) => Ok(Draw {
                        tokens: output.tokens,
                        log_prob: output.log_prob,
                        log_weight,
                        finish: output.finish,
                        origin,
                        cost: *cost,
                    }),
                    Verdict::NoOutput => Err(SampleError::NoOutput { tries: cost.proposals, max_tokens }),
                    Verdict::Impossible => Err(SampleError::Impossible { max_tokens }),
                    Verdict::DeadEnd(tokens) => Err(SampleError::DeadEnd { tokens }),
                });
            }
            lanes.retain(|lane| done[lane.index].is_none());
            // Nothing after a failure would be handed over.
            if done.iter().any(|done| matches!(done, Some(Err(_)))) {
                let first = done.iter().position(|done| matches!(done, Some(Err(_)))).unwrap_or(0);
                next = count;
                lanes.retain(|lane| lane.index < first);
            }
        };
        for done in done {
            match done {
                Some(Ok(draw)) => draws.push(draw),
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        result
    }

    /// Lets all walks go on to where they wait or end, and gives those that wait what they wait for.
    fn step(&mut self, lanes: &mut [Lane<C, T::Memory>]) -> Result<(), SampleError<M::Error>> {
        self.prefixes.check_cancelled()?;
        if let [lane] = lanes {
            return self.step_alone(lane);
        }
        for lane in lanes.iter_mut().filter(|lane| lane.ended.is_none()) {
            let Some(walker) = &mut lane.walker else { continue };
            match walker.go(&mut self.prefixes, &mut lane.rng)? {
                Progress::Waits => lane.waits = true,
                Progress::Done(end) => lane.ended = Some(end),
                Progress::Paused => {}
            }
        }
        let batch = self.prefixes.batch();
        let mut waiting = lanes.iter_mut().filter_map(Lane::wanted);
        loop {
            let mut wanted: SmallVec<[_; 1]> = waiting.by_ref().take(batch).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            self.prefixes.evaluate(&mut wanted)?;
        }
    }

    /// The same to its end for one walk alone: no other begins before, and so there is nothing to look for after each token.
    fn step_alone(&mut self, lane: &mut Lane<C, T::Memory>) -> Result<(), SampleError<M::Error>> {
        let Lane { walker, ended, rng, cost, .. } = lane;
        let Some(walker) = walker.as_mut().filter(|_| ended.is_none()) else { return Ok(()) };
        loop {
            match walker.go(&mut self.prefixes, rng)? {
                Progress::Waits => self.prefixes.evaluate(&mut [walker.wanted(cost)])?,
                Progress::Done(end) => {
                    *ended = Some(end);
                    return Ok(());
                }
                Progress::Paused => return Ok(()),
            }
        }
    }
}
