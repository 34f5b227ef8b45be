//! One walk from the empty prefix to an output: the proposal that most samplers share, as a machine that stops where it
//! needs the model, so that many walks can wait for one pass.
//!
//! Masked sampling draws each token from what the mask leaves of the model's distribution, renormalised. The mass that
//! it leaves, multiplied along the output, is the ratio of the model's probability to the proposal's: `x` in the paper
//! (DISC, section 2). Rejection sampling is the same walk with a coin at each prefix that goes on with the probability
//! of that mass: the model itself would have drawn an allowed token with just that probability. So a test with
//! probability `x` at the end, and a test with probability mass at each prefix, are the same law; the second stops
//! early, and most of its refusals cost nothing, because the first prefixes of a walk are known.
//!
//! A walk can also use what earlier ones have found: at a learned prefix it draws tokens in proportion to the bounds of
//! what they lead to (ASAp's proposal), and only new prefixes toss a coin. With `b` the bound of the empty prefix when
//! the walk begins, an output then comes through with probability `P / b`: the factors of the learned prefixes cancel one
//! by one, since each divides by the bound that the one before it multiplied by (CARS, Parys et al. 2025). No known
//! failure is proposed twice, and when all prefixes are known no coin is left. No bound may change while a walk is under way.
//!
//! A token that is forced is appended without waiting for the model; its probability is computed with the next position that
//! needs the model, in the same pass. What random numbers a walk uses depends on the task, on what was learned before it and
//! on nothing else: not on what happens to be in a cache.

use std::sync::Arc;

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Finish, LanguageModel, TokenId};

use crate::{
    SampleError, Truncation, awrs,
    prefixes::{Held, Passed, Prefixes, Scope, Wanted},
    random::{uniform, weighted},
    rows::{Drawn, Listed, Row},
    trie::{self, Facts, NodeId, Trie},
};

/// Which prefixes toss a coin with their mass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coins {
    /// None.
    None,
    /// All but the empty prefix. Its mass is the same for every output: leaving it out multiplies the probability of
    /// every acceptance alike, and so changes no law.
    BelowRoot,
    /// All.
    All,
}

/// So many tokens a walk has room for at once.
const ROOM: usize = 63;

/// In proportion to what a token is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Proposal {
    /// The model's probability, of those that the mask leaves: masked sampling.
    Masked,
    /// The same, of the most probable ones alone.
    Truncated(Truncation),
    /// The most probable one.
    Greedy,
    /// The model's probability times the bound of what it leads to. Learned prefixes then toss no coins.
    Learned,
    /// The same with [`Scope::Everything`]: what is not allowed is drawn too, and ends the walk. There are no coins.
    Unguarded,
    /// By adaptive weighted rejection, which asks the constraint about single tokens.
    Rejecting,
}

impl Proposal {
    fn uses_bounds(self) -> bool {
        matches!(self, Self::Learned | Self::Unguarded)
    }
}

/// What a walk does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Walk {
    pub(crate) coins: Coins,
    pub(crate) proposal: Proposal,
    /// At the length limit: end with a prefix, as plain decoding does. Otherwise the output must stop there, and its
    /// mass is the probability that it does.
    pub(crate) cut: bool,
    /// Stop after each token, for those who compare walks half-way.
    pub(crate) single: bool,
    /// Take what is found into the bounds at each token. For one walk at a time only.
    pub(crate) per_token: bool,
    /// Compute the entropy of each masked distribution.
    pub(crate) entropy: bool,
}

impl Walk {
    pub(crate) const fn new(proposal: Proposal, coins: Coins) -> Self {
        Self { coins, proposal, cut: false, single: false, per_token: false, entropy: false }
    }
}

/// How a walk ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum End {
    /// With an output.
    Output(Output),
    /// With a coin that fell on the other side, or a token that is not allowed.
    Refused,
    /// At a prefix after which nothing allowed has a positive probability.
    Stuck(Vec<TokenId>),
}

/// One step of an output: a token, or the end of it. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Step {
    /// The model's probability.
    pub(crate) log_p: f64,
    /// What the mask left of the model's distribution.
    pub(crate) mass: f64,
    /// The entropy of what was drawn from, in nats, where the walk was asked for it.
    pub(crate) entropy: f64,
}

/// An output of the proposal.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) finish: Finish,
    /// Its log-probability under the model, the end included if there was one.
    pub(crate) log_prob: f64,
    /// Its log-probability under the walk without coins; NaN where that is not known (rejecting).
    pub(crate) log_proposal: f64,
    /// The logarithm of a weight with which it stands for the model's law; see [`Walker::log_weight`].
    pub(crate) log_weight: f64,
    /// The log of the mass of the empty prefix.
    pub(crate) log_root_mass: f64,
    /// For each token, and for the end.
    pub(crate) steps: Vec<Step>,
}

impl Output {
    /// What the model's probability is to the proposal's; for masked sampling, `ln x`.
    pub(crate) fn log_ratio(&self) -> f64 {
        self.log_prob - self.log_proposal
    }
}

/// Where a walk stands after it went on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Progress {
    /// It waits for what [`Walker::wanted`] names.
    Waits,
    /// After a token.
    Paused,
    Done(End),
}

/// What follows a prefix in a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Token(TokenId),
    End,
}

/// A prefix that was left.
#[derive(Clone, Copy, Debug)]
struct Left {
    node: NodeId,
    /// Whether its bound was known.
    learned: bool,
    /// Where a token was drawn from its row: the mass of the others, and how many edges counted then.
    rest: Option<(f64, usize)>,
}

/// A walk under way.
pub(crate) struct Walker<C: Constraint> {
    how: Walk,
    tokens: Vec<TokenId>,
    /// The prefixes that were left, one for each token.
    left: Vec<Left>,
    /// For each token that is settled.
    steps: Vec<Step>,
    /// Where it is now.
    node: NodeId,
    /// The constraint's state after the first `advanced` tokens.
    state: C::State,
    advanced: usize,
    /// What waits for the model.
    passed: Passed<C::State>,
    held: Held,
    /// How many prefixes have tossed their coins.
    settled: usize,
    /// It has chosen to leave a learned prefix by a token that was not visited, and waits for the row to choose which.
    leaves: bool,
    /// What was left of the row that the last token was drawn from.
    rest: Option<(f64, usize)>,
    log_proposal: f64,
    log_weight: f64,
}

impl<C: Constraint> Clone for Walker<C> {
    fn clone(&self) -> Self {
        Self {
            how: self.how,
            tokens: self.tokens.clone(),
            left: self.left.clone(),
            steps: self.steps.clone(),
            node: self.node,
            state: self.state.clone(),
            advanced: self.advanced,
            passed: self.passed.clone(),
            held: self.held.clone(),
            settled: self.settled,
            leaves: self.leaves,
            rest: self.rest,
            log_proposal: self.log_proposal,
            log_weight: self.log_weight,
        }
    }
}

impl<C: Constraint> Walker<C> {
    /// A walk that begins behind a part of an earlier output, with the steps of that.
    pub(crate) fn new<M: LanguageModel>(
        prefixes: &mut Prefixes<M, C>,
        how: Walk,
        tokens: &[TokenId],
        steps: &[Step],
    ) -> Self {
        prefixes.trie_mut().tick();
        let room = prefixes.max_tokens().min(ROOM) + 1;
        let mut own = Vec::with_capacity(room);
        own.extend_from_slice(steps);
        let mut walker = Self {
            how,
            tokens: Vec::with_capacity(room),
            left: Vec::with_capacity(room),
            steps: own,
            node: Trie::ROOT,
            state: prefixes.start(),
            advanced: 0,
            passed: Vec::new(),
            held: Vec::new(),
            settled: tokens.len(),
            leaves: false,
            rest: None,
            log_proposal: 0.0,
            log_weight: 0.0,
        };
        // The whole is never less than its part: the bound of the empty prefix is a factor of every output.
        if how.proposal.uses_bounds() {
            walker.log_weight = prefixes.trie().bound(Trie::ROOT);
        }
        for token in tokens {
            prefixes.trie_mut().touch(walker.node);
            walker.leave(prefixes, *token, false);
        }
        walker
    }

    /// The logarithm of the weight with which the walk so far, without its coins, stands for the model's law: the mass that
    /// masks left at new prefixes, times the bound of the empty one (which all outputs share); with rejecting, the estimate
    /// of that mass.
    pub(crate) fn log_weight(&self) -> f64 {
        self.log_weight
    }

    /// What waits for the model; the pass is added to `cost`.
    pub(crate) fn wanted<'a>(&'a mut self, cost: &'a mut Cost) -> Wanted<'a, C::State> {
        Wanted { tokens: &self.tokens, passed: &mut self.passed, held: &mut self.held, cost }
    }

    /// Takes what it found into the bounds.
    pub(crate) fn learn<M: LanguageModel>(&self, prefixes: &mut Prefixes<M, C>) {
        // A walk that was refused half-way along forced tokens knows more of these than it has used.
        for index in self.steps.len()..self.tokens.len() {
            let child = self.left.get(index + 1).map_or(self.node, |left| left.node);
            if let Some(row) = self.row(prefixes, self.left[index].node) {
                prefixes.trie_mut().set_log_p(child, row.of(self.tokens[index]));
            }
        }
        prefixes.learn(self.node, |depth| self.left.get(depth).and_then(|left| left.rest));
    }

    /// Gives back the rows that it holds, when it has ended.
    pub(crate) fn give_back<M: LanguageModel>(&mut self, prefixes: &mut Prefixes<M, C>) {
        prefixes.give_back(&mut self.held);
    }

    fn leave<M: LanguageModel>(&mut self, prefixes: &mut Prefixes<M, C>, token: TokenId, learned: bool) {
        self.left.push(Left { node: self.node, learned, rest: self.rest.take() });
        self.tokens.push(token);
        self.node = prefixes.trie_mut().child(self.node, token);
    }

    fn catch_up<M: LanguageModel>(&mut self, prefixes: &mut Prefixes<M, C>) {
        while self.advanced < self.tokens.len() {
            prefixes.advance(&mut self.state, self.tokens[self.advanced]);
            self.advanced += 1;
        }
    }

    fn wait<M: LanguageModel>(&mut self, prefixes: &mut Prefixes<M, C>) -> Progress {
        self.catch_up(prefixes);
        self.passed.push((self.node, self.state.clone()));
        Progress::Waits
    }

    fn row<M: LanguageModel>(&self, prefixes: &mut Prefixes<M, C>, node: NodeId) -> Option<Arc<Row>> {
        if let Some((_, row)) = self.held.iter().rev().find(|(other, _)| *other == node) {
            return Some(Arc::clone(row));
        }
        prefixes.row(node)
    }

    /// Goes on until it needs the model, or ends.
    pub(crate) fn go<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        rng: &mut dyn Rng,
    ) -> Result<Progress, SampleError<M::Error>> {
        let Walk { proposal, .. } = self.how;
        loop {
            prefixes.trie_mut().touch(self.node);
            let depth = self.tokens.len();
            if self.how.cut && depth == prefixes.max_tokens() {
                if !self.passed.is_empty() {
                    return Ok(Progress::Waits);
                }
                let end = self.settle(prefixes, rng, false);
                return Ok(Progress::Done(end.unwrap_or_else(|| self.output(prefixes, None))));
            }
            let learned = proposal.uses_bounds() && prefixes.trie().is_learned(self.node);
            if !learned && proposal != Proposal::Rejecting && proposal != Proposal::Unguarded {
                // The state is needed unless the trie says that nothing is forced.
                if !prefixes.trie().is_evaluated(self.node) || prefixes.trie().is_forced(self.node) {
                    self.catch_up(prefixes);
                    if let Some(token) = prefixes.forced(self.node, &self.state) {
                        self.pass(prefixes, token);
                        continue;
                    }
                }
            }
            if !prefixes.trie().is_evaluated(self.node) {
                return Ok(self.wait(prefixes));
            }
            if !self.passed.is_empty() {
                return Ok(Progress::Waits);
            }
            if let Some(end) = self.settle(prefixes, rng, true) {
                return Ok(Progress::Done(end));
            }
            let progress = if proposal == Proposal::Rejecting {
                self.reject(prefixes, rng)
            } else if proposal.uses_bounds() && (learned || proposal == Proposal::Unguarded) {
                self.by_bounds(prefixes, learned, rng)
            } else {
                self.by_mask(prefixes, rng)
            };
            match progress {
                None if self.how.single => return Ok(Progress::Paused),
                // The prefix that was left, and not the one that it has come to.
                None if self.how.per_token => {
                    let left = self.left.last().map_or(Trie::ROOT, |left| left.node);
                    prefixes.learn(left, |depth| self.left.get(depth).and_then(|left| left.rest));
                }
                None => {}
                Some(progress) => return Ok(progress),
            }
        }
    }

    /// Appends a forced token, and leaves its probability for later where it is not known.
    fn pass<M: LanguageModel>(&mut self, prefixes: &mut Prefixes<M, C>, token: TokenId) {
        let node = self.node;
        let state = self.state.clone();
        self.leave(prefixes, token, false);
        let known = prefixes.trie().is_evaluated(node)
            && (!prefixes.trie().log_p(self.node).is_nan() || self.row(prefixes, node).is_some());
        if !known {
            self.passed.push((node, state));
        }
    }

    /// Tosses the coins of the prefixes that have not tossed them, with the present one or without; the end of the walk, if
    /// it is one. All of them are evaluated.
    fn settle<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        rng: &mut dyn Rng,
        here: bool,
    ) -> Option<End> {
        let many = self.left.len() + usize::from(here);
        while self.settled < many {
            let index = self.settled;
            let at_root = index == 0;
            let (node, learned) = match self.left.get(index) {
                Some(left) => (left.node, left.learned),
                None => {
                    let learned = self.how.proposal.uses_bounds() && prefixes.trie().is_learned(self.node);
                    (self.node, learned)
                }
            };
            let trie = prefixes.trie();
            let (mass, bound) = (trie.mass(node), trie.bound(node));
            if mass == f64::NEG_INFINITY || (learned && bound == f64::NEG_INFINITY) {
                return Some(End::Stuck(trie.tokens(node)));
            }
            self.settled += 1;
            if !learned && !matches!(self.how.proposal, Proposal::Unguarded | Proposal::Rejecting) {
                self.log_weight += mass;
            }
            let tosses = match self.how.coins {
                Coins::None => false,
                Coins::BelowRoot => !at_root,
                Coins::All => true,
            };
            if tosses && !learned && uniform(rng).ln() >= mass {
                return Some(End::Refused);
            }
            // A token that was passed: nothing else was possible.
            if index < self.tokens.len() && index == self.steps.len() {
                let child = self.left.get(index + 1).map_or(self.node, |left| left.node);
                let mut log_p = prefixes.trie().log_p(child);
                if log_p.is_nan() {
                    log_p =
                        self.row(prefixes, node).map_or(f64::NEG_INFINITY, |row| row.of(self.tokens[index]));
                    prefixes.trie_mut().set_log_p(child, log_p);
                }
                self.steps.push(Step { log_p, mass, entropy: 0.0 });
            }
        }
        None
    }

    /// Takes a choice whose probabilities are known; `None` where the walk goes on.
    fn take<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        choice: Choice,
        step: Step,
        log_q: f64,
        learned: bool,
    ) -> Option<Progress> {
        self.log_proposal += log_q;
        self.steps.push(step);
        match choice {
            Choice::End => Some(Progress::Done(self.output(prefixes, Some(self.node)))),
            Choice::Token(token) => {
                self.leave(prefixes, token, learned);
                prefixes.give_back(&mut self.held);
                prefixes.trie_mut().set_log_p(self.node, step.log_p);
                None
            }
        }
    }

    /// From what the mask leaves.
    fn by_mask<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        rng: &mut dyn Rng,
    ) -> Option<Progress> {
        let Some(row) = self.row(prefixes, self.node) else { return Some(self.wait(prefixes)) };
        let trie = prefixes.trie();
        let (stop, mass) = (trie.stop(self.node), trie.mass(self.node));
        let mut log_q = None;
        let drawn = match self.how.proposal {
            Proposal::Greedy => row.best().filter(|(_, log_p)| *log_p > stop),
            Proposal::Truncated(truncation) => {
                let row = row.list();
                let (index, probability) = truncated(&row, stop, truncation, rng);
                log_q = Some(probability.ln());
                index.map(|index| (row.tokens()[index], row.log_prob(index)))
            }
            // Zero, mostly, and then not even the exponential is needed.
            _ if uniform(rng) < if stop == f64::NEG_INFINITY { 0.0 } else { (stop - mass).exp() } => None,
            // Where no token is left the end is, and the line above has drawn it but for rounding.
            _ => {
                // Who learns nothing needs nothing of the others.
                let rest_above = if self.how.proposal.uses_bounds() {
                    trie.rest_matters_above(self.node)
                } else {
                    f64::INFINITY
                };
                row.draw_any(rest_above, rng).map(|drawn| {
                    self.rest = drawn.rest.map(|rest| (rest, 0));
                    (drawn.token, drawn.log_p)
                })
            }
        };
        let (choice, log_p) =
            drawn.map_or((Choice::End, stop), |(token, log_p)| (Choice::Token(token), log_p));
        let entropy = if self.how.entropy { row.entropy(stop) } else { 0.0 };
        drop(row);
        self.take(prefixes, choice, Step { log_p, mass, entropy }, log_q.unwrap_or(log_p - mass), false)
    }

    /// By the bounds of what it leads to.
    fn by_bounds<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        learned: bool,
        rng: &mut dyn Rng,
    ) -> Option<Progress> {
        let trie = prefixes.trie();
        let (stop, fresh, mass) = (trie.stop(self.node), trie.fresh(self.node), trie.mass(self.node));
        let bound = if learned { trie.bound(self.node) } else { trie::add([stop, fresh]) };
        let step = |log_p| Step { log_p, mass, entropy: 0.0 };
        if !self.leaves {
            let edges = trie.edges(self.node).iter().filter(|edge| edge.counts());
            let weights = [stop, fresh].into_iter().chain(edges.clone().map(|edge| edge.weight));
            let weights: Vec<f64> = weights.map(|weight| (weight - bound).exp()).collect();
            match weighted(&weights, rng) {
                Some(0) | None => return self.take(prefixes, Choice::End, step(stop), stop - bound, learned),
                Some(1) => self.leaves = true,
                Some(index) => {
                    let edge = *edges.clone().nth(index - 2).expect("there is a weight for each edge");
                    let log_p = prefixes.trie().log_p(edge.node);
                    let choice = Choice::Token(edge.token);
                    return self.take(prefixes, choice, step(log_p), edge.weight - bound, learned);
                }
            }
        }
        let Some(row) = self.row(prefixes, self.node) else { return Some(self.wait(prefixes)) };
        self.leaves = false;
        let trie = prefixes.trie();
        let edges = trie.edges(self.node).iter().filter(|edge| edge.counts());
        let counted = edges.clone().count();
        let rest_above = trie.rest_matters_above(self.node);
        // A rest of rounding where all tokens are visited: choose again.
        let Drawn { token, log_p, rest } = row.draw(edges.map(|edge| edge.token), rest_above, rng)?;
        drop(row);
        self.rest = rest.map(|rest| (rest, counted));
        if prefixes.scope() == Scope::Everything {
            self.catch_up(prefixes);
            if self.tokens.len() >= prefixes.max_tokens() || !prefixes.allows(&self.state, token) {
                // This token fails here, whatever is drawn with it again.
                self.leave(prefixes, token, learned);
                self.advanced += 1;
                let trie = prefixes.trie_mut();
                trie.touch(self.node);
                trie.set_log_p(self.node, log_p);
                trie.evaluate(self.node, Facts::DEAD);
                return Some(Progress::Done(End::Refused));
            }
        }
        self.take(prefixes, Choice::Token(token), step(log_p), log_p - bound, learned)
    }

    /// By asking the constraint about single tokens, in a random order.
    fn reject<M: LanguageModel>(
        &mut self,
        prefixes: &mut Prefixes<M, C>,
        rng: &mut dyn Rng,
    ) -> Option<Progress> {
        let Some(row) = self.row(prefixes, self.node) else { return Some(self.wait(prefixes)) };
        self.catch_up(prefixes);
        let accepting = prefixes.is_accepting(&self.state);
        let drawn = if self.tokens.len() >= prefixes.max_tokens() {
            // At the length limit the only token that is asked about is the end.
            accepting.then(|| awrs::Local { token: None, log_p: row.end(), log_mass: row.end() })
        } else {
            let state = self.state.clone();
            awrs::local(&row, rng, |token| match token {
                Some(token) => prefixes.allows(&state, token),
                None => accepting,
            })
        };
        let Some(awrs::Local { token, log_p, log_mass }) =
            drawn.filter(|drawn| drawn.log_mass > f64::NEG_INFINITY)
        else {
            return Some(Progress::Done(End::Stuck(self.tokens.clone())));
        };
        drop(row);
        self.log_weight += log_mass;
        let choice = token.map_or(Choice::End, Choice::Token);
        self.take(prefixes, choice, Step { log_p, mass: log_mass, entropy: 0.0 }, f64::NAN, false)
    }

    /// The output of a walk whose steps are all known; `end` is the prefix after which it stopped.
    fn output<M: LanguageModel>(&self, prefixes: &Prefixes<M, C>, end: Option<NodeId>) -> End {
        End::Output(Output {
            tokens: self.tokens.clone(),
            finish: if end.is_some() { Finish::Stop } else { Finish::Length },
            log_prob: self.steps.iter().map(|step| step.log_p).sum(),
            log_proposal: self.log_proposal,
            log_weight: self.log_weight,
            log_root_mass: prefixes.trie().mass(Trie::ROOT),
            steps: self.steps.clone(),
        })
    }
}

/// From the most probable outcomes: the index of a token, or none for the end; and its probability.
fn truncated(row: &Listed, stop: f64, truncation: Truncation, rng: &mut dyn Rng) -> (Option<usize>, f64) {
    let logs: Vec<f64> =
        std::iter::once(stop).chain((0..row.tokens().len()).map(|index| row.log_prob(index))).collect();
    let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - greatest).exp()).collect();
    let kept = truncation.keep(&weights);
    let weights: Vec<f64> = kept.iter().map(|index| weights[*index]).collect();
    let drawn = weighted(&weights, rng).expect("the most probable outcome is kept");
    (kept[drawn].checked_sub(1), weights[drawn] / weights.iter().sum::<f64>())
}

/// Lets the walks that wait go on together until each has ended or paused: all that wait at one time share a pass.
pub(crate) fn together<M: LanguageModel, C: Constraint>(
    prefixes: &mut Prefixes<M, C>,
    walkers: &mut [Walker<C>],
    rngs: &mut [impl Rng],
    progress: &mut [Progress],
    cost: &mut Cost,
) -> Result<(), SampleError<M::Error>> {
    loop {
        // Where all rows are at hand no pass of the model asks.
        prefixes.check_cancelled()?;
        for (walker, (rng, progress)) in walkers.iter_mut().zip(rngs.iter_mut().zip(progress.iter_mut())) {
            if *progress == Progress::Waits {
                *progress = walker.go(prefixes, rng)?;
            }
        }
        let waits = |progress: &Progress| *progress == Progress::Waits;
        if !progress.iter().any(waits) {
            return Ok(());
        }
        let batch = prefixes.batch();
        let mut costs = vec![Cost::default(); walkers.len()];
        let mut waiting = walkers.iter_mut().zip(&mut costs).zip(progress.iter());
        loop {
            let waiting = waiting.by_ref().filter(|(_, progress)| waits(progress)).take(batch);
            let mut wanted: Vec<_> = waiting.map(|((walker, cost), _)| walker.wanted(cost)).collect();
            if wanted.is_empty() {
                break;
            }
            prefixes.evaluate(&mut wanted)?;
        }
        costs.into_iter().for_each(|own| *cost += own);
    }
}
