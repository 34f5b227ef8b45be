//! A rollout: one left-to-right generation. It is a machine that stops where it needs the model, so that many
//! rollouts can wait for one pass.
//!
//! Masked sampling draws each token from the part of the model's distribution that the mask leaves, renormalised. The
//! mass of that part, multiplied along the output, is the ratio of the model's probability to the proposal's: `x` in
//! the paper (DISC, section 2). Rejection sampling is the same rollout with an accept test at each prefix. The test
//! passes with the mass as its probability, since the model itself would have drawn an allowed token with just that
//! probability. One test with probability `x` at the end gives the same distribution as a test with the mass at each
//! prefix. The tests at each prefix stop early, and most of their refusals cost nothing, because the first prefixes
//! of a rollout are known.
//!
//! A rollout can also use the bounds of earlier rollouts ([`PrefixTree`]). It then draws tokens in proportion to the
//! model's probability times the bound of the prefix that the token leads to (ASAp's proposal). Its accept tests
//! correct for the failures that the bounds did not know. [`paid`](Rollout::paid) is the bound with which the present
//! prefix was proposed, 0 (the logarithm of one) at an unknown prefix. The test at that prefix passes with
//! probability `bound now / paid`. All factors along an output cancel but the first, so that the output is accepted
//! with probability `P / b`, where `b` is the bound of the empty prefix when the rollout leaves it (CARS, Parys et
//! al. 2025). No known failure is proposed twice.
//!
//! Because each factor is paid for when it is known, bounds may fall while a rollout is under way. Rollouts that step
//! together learn from each other at once, and each output keeps its distribution. Tried instead: groups of rollouts
//! that propose from the same bounds and learn when all of them have ended. A group waits for its longest member.
//!
//! A forced token is appended without waiting for the model. Its probability is computed in the same pass as the next
//! position that needs the model. The random numbers of a rollout depend on the task and on the bounds that the
//! rollout meets, and not on the contents of a cache.

mod accept;
mod drafted;
mod propose;
mod value;
mod waiting;

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use rand_core::Rng;
use unskew_core::{
    Constraint, Finish, TokenId,
    rows::{Outcome, Pick},
    with_tail,
};

pub(crate) use waiting::{HasRollout, Waiting};

use crate::{
    SampleError, Truncation,
    random::uniform,
    row::Row,
    session::{Scope, Session},
    speculative::{Drawn, SpeculationStats},
    tree::{NodeId, PrefixTree},
};

/// The prefixes that have an accept test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AcceptTest {
    /// No prefix.
    Never,
    /// All but the empty prefix. The mass of the empty prefix is the same for every output: without its test, the
    /// probability of every acceptance grows by the same factor, and the distribution stays.
    ExceptFirst,
    /// Every prefix.
    Every,
}

/// The most tokens that a new rollout allocates room for.
const ROOM: usize = 63;

/// A factor whose logarithm is above the negative of this is one: sums of `f64` in another order differ by as much.
const ROUNDING: f64 = 1e-12;

/// The weight in proportion to which a token is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Proposal {
    /// The model's probability of the tokens that the mask leaves: masked sampling.
    Masked,
    /// The model's probability of the most probable of these tokens.
    Truncated(Truncation),
    /// The most probable token alone.
    Greedy,
    /// The model's probability times the bound of the prefix that the token leads to.
    Cars,
    /// The same over all tokens: a token that is not allowed is drawn too, and ends the rollout.
    Ars,
    /// The model's probability times the value of the prefix that the token leads to.
    Twisted,
    /// The model's probability, by adaptive weighted rejection, which asks the constraint about single tokens.
    Awrs,
}

impl Proposal {
    /// The tokens that the proposal draws from.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::Masked | Self::Truncated(_) | Self::Greedy | Self::Cars | Self::Twisted => Scope::Allowed,
            Self::Ars => Scope::Everything,
            Self::Awrs => Scope::Unmasked,
        }
    }

    pub(crate) fn uses_bounds(self) -> bool {
        matches!(self, Self::Cars | Self::Ars)
    }

    /// Whether a token that the mask forces is appended without the model. The other proposals know no mask, or count
    /// the bound of the prefix.
    fn follows_masks(self) -> bool {
        self.scope() == Scope::Allowed
    }
}

/// The rules of a rollout: its proposal, and its accept tests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RolloutConfig {
    pub(crate) proposal: Proposal,
    pub(crate) accept: AcceptTest,
    /// At the length limit, end with a prefix, as plain decoding does. Otherwise the output must stop at the limit,
    /// and the mass there is the probability of the end.
    pub(crate) cut: bool,
    /// Yield after each token, for populations.
    pub(crate) yields: bool,
    /// Compute the entropy of each masked distribution.
    pub(crate) entropy: bool,
    /// Append forced tokens before their rows are there.
    pub(crate) jumps: bool,
}

impl RolloutConfig {
    pub(crate) const fn new(proposal: Proposal, accept: AcceptTest) -> Self {
        Self { proposal, accept, cut: false, yields: false, entropy: false, jumps: true }
    }
}

/// How a rollout ended.
#[derive(Clone, PartialEq, Debug)]
pub enum End {
    /// With an output of the proposal.
    Output(Output),
    /// An accept test failed, or a drawn token is not allowed.
    Rejected,
    /// No allowed continuation of this prefix has a positive probability.
    Stuck(Vec<TokenId>),
}

/// One step of an output: a token, or the end of it. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The model's probability.
    pub(crate) log_p: f64,
    /// The mass of the model's distribution that the mask leaves.
    pub(crate) valid_mass: f64,
    /// The entropy of the masked distribution, in nats, if the configuration asks for it.
    pub(crate) entropy: f64,
}

/// An output of the proposal.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) finish: Finish,
    /// The log-probability of the output under the model, its end included if it has one.
    pub(crate) log_prob: f64,
    /// The log-probability of the output under the rollout without accept tests; NaN where it is not known (AWRS).
    pub(crate) log_proposal: f64,
    /// The logarithm of the weight with which the output stands for the model's distribution; see
    /// [`Rollout::log_weight`].
    pub(crate) log_weight: f64,
    /// The tokens that stand for the last one, where that has passed the end of the output.
    tail: Option<Box<[TokenId]>>,
    /// The logarithm of the mass of the empty prefix.
    pub(crate) log_root_mass: f64,
    /// One step for each token, and one for the end.
    pub(crate) steps: Vec<Step>,
}

impl Output {
    /// The ratio of the model's probability to the proposal's; for masked sampling, `ln x`.
    pub(crate) fn log_ratio(&self) -> f64 {
        self.log_prob - self.log_proposal
    }

    /// The tokens of the output's own text.
    pub(crate) fn into_tokens(self) -> Vec<TokenId> {
        with_tail(self.tokens, self.tail.as_deref())
    }
}

/// A step of a rollout, or the failure of a row to answer.
pub(crate) type RowResult<T> = Result<T, SampleError<Infallible>>;

/// The state of a rollout after a poll.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Progress {
    /// The rollout waits for the rows of its pending prefixes.
    NeedsRows,
    /// The rollout has drawn a token, and its configuration asks to yield.
    Yielded,
    Done(End),
}

/// The continuation of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Token(TokenId),
    End,
}

/// A prefix that the rollout left by a token.
#[derive(Clone, Copy, Debug)]
struct Left {
    node: NodeId,
    /// Where the token was drawn from its row: the mass of the other tokens, and the number of edges that counted then.
    rest: Option<(f64, usize)>,
}

/// A rollout that drew "some unexplored token" and waits for the row to choose which.
#[derive(Clone, Debug)]
struct Unexplored {
    /// The bound of the prefix at that draw.
    bound: f64,
    /// The explored tokens at that draw, ascending.
    without: Vec<TokenId>,
}

/// A rollout under way.
pub(crate) struct Rollout<C: Constraint> {
    config: RolloutConfig,
    tokens: Vec<TokenId>,
    /// The prefixes that the rollout left, one for each token.
    left: Vec<Left>,
    /// The steps of the tokens whose probability is known.
    steps: Vec<Step>,
    /// The present prefix.
    node: NodeId,
    /// The constraint's state after the first `advanced` tokens.
    state: C::State,
    advanced: usize,
    /// Prefixes that wait for their rows, with their states, the deepest last.
    pending: Vec<(NodeId, C::State)>,
    /// Rows that outlive the cache, until the token after them is drawn.
    pinned: Vec<(NodeId, Arc<Row>)>,
    /// The number of left prefixes that have had their accept tests.
    tested: usize,
    /// The bound with which the present prefix was proposed, lowered by the accept tests that it has had. A logarithm.
    paid: f64,
    unexplored: Option<Unexplored>,
    /// The number by which the continuation of the present prefix is drawn. The rollout makes it on arrival, before
    /// any test, so that a row elsewhere can draw by it, and the order of random numbers is the same for every row.
    uniform: Option<f64>,
    /// The outcome that the row of the present prefix has picked by that number. The inner option is `None` where the
    /// row had none to pick.
    picked: Option<Option<Outcome>>,
    /// The mass of the other tokens of the row that the last token was drawn from.
    rest: Option<(f64, usize)>,
    /// The drafted continuation of the present prefix.
    draft: VecDeque<(Option<TokenId>, Drawn)>,
    /// Counts of the present draft.
    accepted_drafts: u32,
    tested_drafts: u32,
    stats: SpeculationStats,
    /// The number of tokens drawn at prefixes that were not known before.
    new_tokens: u64,
    log_proposal: f64,
    log_weight: f64,
    /// The logarithm of the bound of the empty prefix that the rollout was drawn by.
    log_root_bound: f64,
}

impl<C: Constraint> Clone for Rollout<C> {
    fn clone(&self) -> Self {
        Self {
            config: self.config,
            tokens: self.tokens.clone(),
            left: self.left.clone(),
            steps: self.steps.clone(),
            node: self.node,
            state: self.state.clone(),
            advanced: self.advanced,
            pending: self.pending.clone(),
            pinned: self.pinned.clone(),
            tested: self.tested,
            paid: self.paid,
            unexplored: self.unexplored.clone(),
            uniform: self.uniform,
            picked: self.picked,
            rest: self.rest,
            draft: self.draft.clone(),
            accepted_drafts: self.accepted_drafts,
            tested_drafts: self.tested_drafts,
            stats: self.stats,
            new_tokens: self.new_tokens,
            log_proposal: self.log_proposal,
            log_weight: self.log_weight,
            log_root_bound: self.log_root_bound,
        }
    }
}

impl<C: Constraint> Rollout<C> {
    /// A rollout that begins after a part of an earlier output, with the steps of that part.
    pub(crate) fn new(
        session: &mut Session<C>,
        config: RolloutConfig,
        tokens: &[TokenId],
        steps: &[Step],
    ) -> Self {
        session.tree_mut().tick();
        let room = session.max_tokens().min(ROOM) + 1;
        let mut own = Vec::with_capacity(room);
        own.extend_from_slice(steps);
        let mut rollout = Self {
            config,
            tokens: Vec::with_capacity(room),
            left: Vec::with_capacity(room),
            steps: own,
            node: PrefixTree::ROOT,
            state: session.start(),
            advanced: 0,
            pending: Vec::new(),
            pinned: Vec::new(),
            tested: tokens.len(),
            paid: 0.0,
            unexplored: None,
            uniform: None,
            picked: None,
            rest: None,
            draft: VecDeque::new(),
            accepted_drafts: 0,
            tested_drafts: 0,
            stats: SpeculationStats::default(),
            new_tokens: 0,
            log_proposal: 0.0,
            log_weight: 0.0,
            log_root_bound: 0.0,
        };
        for token in tokens {
            session.tree_mut().touch(rollout.node);
            rollout.descend(session, *token, 0.0);
        }
        rollout
    }

    /// The logarithm of the weight with which the rollout so far, without accept tests, stands for the model's
    /// distribution: the product of the factors that the accept tests pass with; with AWRS, an estimate of that.
    pub(crate) fn log_weight(&self) -> f64 {
        self.log_weight
    }

    /// The number of its tokens so far.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The number of tokens drawn at prefixes that were not known before.
    pub(crate) fn new_tokens(&self) -> u64 {
        self.new_tokens
    }

    /// The statistics of the rollout's drafts, after its end.
    pub(crate) fn stats(&mut self, session: &mut Session<C>) -> SpeculationStats {
        if let Some(verifier) = session.verifier() {
            self.stats.close(verifier.config.budget, self.tokens.len());
        }
        self.stats
    }

    /// Takes the prefixes that the rollout visited into the bounds.
    pub(crate) fn back_up(&self, session: &mut Session<C>) -> RowResult<()> {
        // A rollout that was rejected in the middle of forced tokens has rows of tokens beyond its steps.
        for index in self.steps.len()..self.tokens.len() {
            let child = self.left.get(index + 1).map_or(self.node, |left| left.node);
            if let Some(row) = self.row(session, self.left[index].node) {
                session.tree_mut().set_log_p(child, row.of_token(self.tokens[index])?);
            }
        }
        session.back_up(self.node, |depth| self.left.get(depth).and_then(|left| left.rest));
        Ok(())
    }

    /// Whether the rollout waits for rows that were not fed.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The outcome that the rollout picks from the row that it waits for, where the row may pick at once: the present
    /// prefix is new, so that its mask alone decides.
    fn pick(&self) -> Option<Pick> {
        let waits_here = self.pending.last().is_some_and(|(node, _)| *node == self.node);
        if !waits_here || self.unexplored.is_some() || !self.draft.is_empty() {
            return None;
        }
        match self.config.proposal {
            Proposal::Greedy => Some(Pick::Best),
            Proposal::Masked | Proposal::Cars => self.uniform.map(Pick::Uniform),
            Proposal::Truncated(_) | Proposal::Ars | Proposal::Awrs | Proposal::Twisted => None,
        }
    }

    /// Appends a token. The prefix after it is proposed with the bound `paid`.
    fn descend(&mut self, session: &mut Session<C>, token: TokenId, paid: f64) {
        self.left.push(Left { node: self.node, rest: self.rest.take() });
        self.tokens.push(token);
        self.node = session.tree_mut().child(self.node, token);
        self.paid = paid;
    }

    fn catch_up(&mut self, session: &mut Session<C>) -> RowResult<()> {
        while self.advanced < self.tokens.len() {
            session.advance(&mut self.state, self.tokens[self.advanced])?;
            self.advanced += 1;
        }
        Ok(())
    }

    /// Whether the output ends here whatever the model writes next.
    fn is_over(&mut self, session: &mut Session<C>) -> RowResult<bool> {
        self.catch_up(session)?;
        Ok(session.is_over(&self.state))
    }

    fn wait(&mut self, session: &mut Session<C>) -> RowResult<Progress> {
        self.catch_up(session)?;
        self.draft.clear();
        self.pending.push((self.node, self.state.clone()));
        Ok(Progress::NeedsRows)
    }

    fn row(&self, session: &mut Session<C>, node: NodeId) -> Option<Arc<Row>> {
        if let Some((_, row)) = self.pinned.iter().rev().find(|(other, _)| *other == node) {
            return Some(Arc::clone(row));
        }
        session.row(node)
    }

    /// Goes on until the rollout needs rows, yields, or ends.
    pub(crate) fn poll(&mut self, session: &mut Session<C>, rng: &mut dyn Rng) -> RowResult<Progress> {
        let proposal = self.config.proposal;
        loop {
            session.tree_mut().touch(self.node);
            let depth = self.tokens.len();
            if self.config.cut && depth == session.max_tokens() && !self.is_over(session)? {
                if !self.pending.is_empty() {
                    return Ok(Progress::NeedsRows);
                }
                let end = self.test_forced(session, rng)?;
                return Ok(Progress::Done(end.unwrap_or_else(|| self.output(session, None))));
            }
            let backed_up = proposal.uses_bounds() && session.tree().is_backed_up(self.node);
            if self.unexplored.is_none() {
                // The state is needed unless the tree says that no token is forced.
                let may_jump = self.config.accept == AcceptTest::Never
                    || proposal != Proposal::Cars
                    || session.forced_tokens_pass();
                if (self.config.jumps && may_jump && !backed_up)
                    && proposal.follows_masks()
                    && (!session.tree().is_scored(self.node) || session.tree().is_forced(self.node))
                {
                    self.catch_up(session)?;
                    if let Some(token) = session.forced(self.node, &self.state) {
                        self.append_forced(session, token);
                        continue;
                    }
                }
                self.uniform.get_or_insert_with(|| uniform(rng));
                if !session.tree().is_scored(self.node) {
                    self.catch_up(session)?;
                    if !session.end_surely(self.node, &self.state) {
                        return self.wait(session);
                    }
                }
                if !self.pending.is_empty() {
                    return Ok(Progress::NeedsRows);
                }
                if let Some(end) = self.test_forced(session, rng)? {
                    return Ok(Progress::Done(end));
                }
                if proposal != Proposal::Twisted
                    && let Some(end) = self.test_here(session, rng, backed_up)
                {
                    return Ok(Progress::Done(end));
                }
            }
            let is_drafted = matches!(self.draft.front(), Some((_, Drawn::Surely | Drawn::From { .. })));
            let progress = match proposal {
                Proposal::Masked if is_drafted => self.draw_by_draft(session, rng),
                Proposal::Cars if is_drafted && !backed_up && self.unexplored.is_none() => {
                    self.draw_by_draft(session, rng)
                }
                Proposal::Awrs => self.draw_by_rejection(session, rng),
                Proposal::Twisted => self.draw_by_values(session, rng),
                Proposal::Ars => self.draw_by_bounds(session, backed_up, rng),
                Proposal::Cars if backed_up || self.unexplored.is_some() => {
                    self.draw_by_bounds(session, backed_up, rng)
                }
                _ => self.draw_by_mask(session, rng),
            }?;
            match progress {
                None if self.config.yields => return Ok(Progress::Yielded),
                None => {}
                Some(progress) => return Ok(progress),
            }
        }
    }

    /// Appends a forced token. Where its probability is not known, it is computed later.
    fn append_forced(&mut self, session: &mut Session<C>, token: TokenId) {
        let node = self.node;
        let state = self.state.clone();
        self.new_tokens += 1;
        session.observe(&state, token);
        self.follow_draft(session, Some(token));
        // A prefix that was proposed by a value and is left without a draw pays for it here. Its mass is counted with
        // its row.
        if self.config.proposal == Proposal::Twisted {
            self.log_weight -= self.paid;
        }
        self.descend(session, token, 0.0);
        let known = session.tree().is_scored(node)
            && (!session.tree().log_p(self.node).is_nan() || self.row(session, node).is_some());
        if !known {
            self.pending.push((node, state));
        }
    }

    /// Takes a choice whose probabilities are known. `None` where the rollout goes on, at a prefix that was proposed
    /// with the bound `paid`.
    fn commit(
        &mut self,
        session: &mut Session<C>,
        choice: Choice,
        step: Step,
        log_q: f64,
        paid: f64,
    ) -> RowResult<Option<Progress>> {
        self.log_proposal += log_q;
        self.steps.push(step);
        (self.uniform, self.picked) = (None, None);
        match choice {
            Choice::End => {
                // Bounds of known prefixes choose tokens without the constraint. They may come from a file.
                self.catch_up(session)?;
                if !session.is_accepting(&self.state) {
                    return Err(SampleError::Unfinished { tokens: self.tokens.len() });
                }
                self.follow_draft(session, None);
                Ok(Some(Progress::Done(self.output(session, Some(self.node)))))
            }
            Choice::Token(token) => {
                if session.is_drafted_for() {
                    self.catch_up(session)?;
                    session.observe(&self.state, token);
                    self.follow_draft(session, Some(token));
                }
                let left = self.node;
                self.descend(session, token, paid);
                self.tested = self.left.len();
                let is_drafted = !self.draft.is_empty();
                // The rows of the draft are still needed, and the last of them also after the draft.
                let needed = |node: NodeId| node == self.node || (is_drafted && node != left);
                if session.is_drafted_for() {
                    self.pinned.retain(|(node, _)| needed(*node));
                } else {
                    self.pinned.clear();
                }
                session.tree_mut().set_log_p(self.node, step.log_p);
                Ok(None)
            }
        }
    }

    /// The output of a rollout whose steps are all known. `end` is the prefix that the output ends after.
    fn output(&self, session: &Session<C>, end: Option<NodeId>) -> End {
        End::Output(Output {
            tokens: self.tokens.clone(),
            finish: if end.is_some() { Finish::Stop } else { Finish::Length },
            log_prob: self.steps.iter().map(|step| step.log_p).sum(),
            log_proposal: self.log_proposal,
            log_weight: self.log_weight,
            tail: end.and_then(|_| session.tail(&self.state)).map(Box::from),
            log_root_mass: session.tree().valid_mass(PrefixTree::ROOT),
            steps: self.steps.clone(),
        })
    }
}
