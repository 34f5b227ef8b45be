//! The state that the rollouts of one task share: the constraint, the tree of visited prefixes, and rows of the model.
//!
//! Samplers that reject come back to the same prefixes again and again, since the first tokens of every rollout are
//! drawn from the same row. So a prefix is read once: its numbers stay in the tree, and its row stays in a cache. The
//! tree and the cache are bounded in bytes. A dropped prefix is computed again.
//!
//! States of the constraint are not kept: advancing a state along a prefix takes microseconds, and a state may be
//! large.

mod fit;
mod reading;
mod valuing;

use std::{convert::Infallible, fmt, sync::Arc};

use twox_hash::XxHash3_64;
use unskew_core::{Constraint, Cost, OutputEnd, TokenId, TokenMask};

pub(crate) use reading::Unread;
use valuing::Valuing;

use crate::{
    SampleError, Task, Usage,
    row::{Row, RowCache},
    speculative::{Acceptance, DraftRun, DraftStep, Drafter, Drafts, Verifier},
    task::ModelShape,
    tree::{self, Header, NodeId, PrefixTree, TrieFileError},
};

/// The tokens of a row, which also count as unexplored at a new prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The tokens that the mask allows.
    Allowed,
    /// At the empty prefix the tokens that the mask allows, and after it all tokens. A token is ruled out when it was
    /// drawn and failed.
    Everything,
    /// All tokens, at every prefix. Masks are never computed.
    Unmasked,
}

pub(crate) struct Session<C: Constraint> {
    /// The task, whose prompt is in `prompt`.
    task: Task<ModelShape, C>,
    scratch: C::Scratch,
    prompt: Arc<[TokenId]>,
    scope: Scope,
    tree: PrefixTree,
    rows: RowCache,
    /// Where a mask is made; the row that it is made for keeps it, and another one is made then.
    mask: Arc<TokenMask>,
    /// The state of drafting, if the rollouts are drafted for.
    speculation: Option<Speculation<C::State>>,
    /// The values that rollouts propose by, if they do.
    valuing: Option<Valuing>,
    /// The sum of the masses of forced tokens that were tested, and their number.
    forced: (f64, f64),
    /// All tokens of a row, without the tokens that end a sequence and with them, as masks that rows share.
    open: [Option<Arc<TokenMask>>; 2],
    /// The row of every prefix at which the output ends for certain.
    over: Arc<Row>,
}

/// The drafts of some rollouts, and the cost of the drafts.
type Drafted<S> = (Vec<Vec<DraftStep<S>>>, Cost);

/// The rules by which drafts are verified, and their record. The drafter is elsewhere, since it may be bound to a
/// thread.
struct Speculation<S> {
    verifier: Verifier,
    acceptance: Acceptance,
    /// The tokens that rollouts took since the last drafts, each with the state before it.
    observed: Vec<(S, TokenId)>,
}

impl<C: Constraint> fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("nodes", &self.tree.len())
            .field("tree_bytes", &self.tree.bytes())
            .field("row_bytes", &self.rows.bytes())
            .field("max_tokens", &self.task.max_tokens)
            .finish_non_exhaustive()
    }
}

impl<C: Constraint> Session<C> {
    pub(crate) fn new(mut task: Task<ModelShape, C>, scope: Scope) -> Self {
        let scratch = task.constraint.scratch();
        let prompt = std::mem::take(&mut task.prompt).into();
        task.batch = task.batch.max(1);
        let rows = RowCache::new(task.max_bytes / 4 * 3);
        Self {
            task,
            scratch,
            prompt,
            scope,
            tree: PrefixTree::new(),
            rows,
            mask: Arc::new(TokenMask::new(0)),
            speculation: None,
            valuing: None,
            forced: (0.0, 0.0),
            open: [None, None],
            over: Arc::new(Row::over()),
        }
    }

    /// The most tokens of an output.
    pub(crate) fn max_tokens(&self) -> usize {
        self.task.max_tokens
    }

    /// The most rollouts under way at once.
    pub(crate) fn batch(&self) -> usize {
        self.task.batch
    }

    pub(crate) fn prompt(&self) -> &Arc<[TokenId]> {
        &self.prompt
    }

    /// The length of the model's rows.
    pub(crate) fn row_len(&self) -> usize {
        self.task.model.row_len
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    pub(crate) fn tree(&self) -> &PrefixTree {
        &self.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        &mut self.tree
    }

    /// The memory of the task.
    pub(crate) fn usage(&self) -> Usage {
        let row_bytes = self.rows.bytes();
        Usage { prefixes: self.tree.len(), trie_bytes: self.tree.bytes() + self.lookaheads(), row_bytes }
    }

    /// The memory of what is kept for the values of prefixes.
    fn lookaheads(&self) -> usize {
        self.valuing.as_ref().map_or(0, |valuing| valuing.bytes)
    }

    /// The constraint's state before the first token.
    pub(crate) fn start(&self) -> C::State {
        self.task.constraint.start()
    }

    /// Appends a token that a mask allows to a state; an error where the constraint rejects it all the same, as a
    /// damaged set does whose checksums were not compared.
    pub(crate) fn advance(
        &mut self,
        state: &mut C::State,
        token: TokenId,
    ) -> Result<(), SampleError<Infallible>> {
        self.task
            .constraint
            .advance(&mut self.scratch, state, token)
            .map_err(|_| SampleError::Inconsistent { token })
    }

    pub(crate) fn allows(&mut self, state: &C::State, token: TokenId) -> bool {
        self.task.constraint.allows(&mut self.scratch, state, token)
    }

    pub(crate) fn is_accepting(&self, state: &C::State) -> bool {
        self.task.constraint.is_accepting(state)
    }

    /// Whether the constraint ends outputs, and not the model.
    pub(crate) fn is_free(&self) -> bool {
        self.task.constraint.end() == OutputEnd::Free
    }

    /// Whether the output ends in this state whatever the model writes next.
    pub(crate) fn is_over(&mut self, state: &C::State) -> bool {
        self.task.constraint.is_over(&mut self.scratch, state)
    }

    /// The tokens that stand for the last one of an output, where that has passed its end.
    pub(crate) fn tail<'a>(&self, state: &'a C::State) -> Option<&'a [TokenId]> {
        self.task.constraint.tail(state)
    }

    /// Learns the probability of a forced token that a test was made for.
    pub(crate) fn learn_forced(&mut self, log_mass: f64) {
        let (mass, count) = self.forced;
        self.forced = (mass + log_mass.exp(), count + 1.0);
    }

    /// Whether forced tokens have mostly passed their tests. A test that fails wastes the positions that were
    /// evaluated after the token, and one that passes saves a pass.
    pub(crate) fn forced_tokens_pass(&self) -> bool {
        let (mass, count) = self.forced;
        mass + 1.0 >= 0.5 * (count + 1.0)
    }

    /// The token that must follow, where only one is allowed and the output may not end: its choice needs no model.
    pub(crate) fn forced(&mut self, node: NodeId, state: &C::State) -> Option<TokenId> {
        let Self { task: Task { constraint, max_tokens, .. }, scratch, tree, .. } = self;
        if tree.depth(node) >= *max_tokens || (tree.is_scored(node) && !tree.is_forced(node)) {
            return None;
        }
        constraint.forced(scratch, state)
    }

    /// A prefix's row, if it is in the cache, or no row of the model is needed.
    pub(crate) fn row(&mut self, node: NodeId) -> Option<Arc<Row>> {
        self.rows.get(node).or_else(|| self.tree.is_over(node).then(|| Arc::clone(&self.over)))
    }

    /// Takes a prefix and all prefixes above it into the bounds. `rest` may answer, for a depth, with the mass that
    /// was left in the row when the rollout took its token, and the number of edges that counted before.
    pub(crate) fn back_up(&mut self, node: NodeId, rest: impl Fn(usize) -> Option<(f64, usize)>) {
        let Self { tree, rows, .. } = self;
        tree.back_up(node, |above, depth, edges| {
            let counting = edges.iter().filter(|edge| edge.counts()).count();
            let rest = rest(depth).filter(|(_, counted)| counting == counted + 1);
            // Where rollouts have taken other tokens at the same time, only the row knows the mass.
            rest.map(|(rest, _)| rest).or_else(|| {
                let counted: Vec<TokenId> =
                    edges.iter().filter(|edge| edge.counts()).map(|edge| edge.token).collect();
                // A device that fails here fails at the next question too, and that question reports the error.
                rows.get(above).and_then(|row| row.log_mass(&counted).ok())
            })
        });
    }

    /// Whether the caller has asked for the end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.task.cancel.is_cancelled()
    }

    /// Whether the tree exceeds its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.tree.bytes() + self.lookaheads() > self.task.max_bytes / 4
    }

    /// Forgets old prefixes if the tree exceeds its limit. To be called only while no rollout is under way: the ids
    /// of nodes change.
    pub(crate) fn keep_within_limit(&mut self) {
        if self.is_full() {
            // The lookaheads of the prefixes that stay are as large a part of the memory as they are now.
            let (lookaheads, nodes) = (self.lookaheads(), self.tree.bytes());
            let map = self
                .tree
                .shrink(self.task.max_bytes / 4 / (nodes + lookaheads).div_ceil(nodes.max(1)).max(1));
            self.rows.rename(|node| node.renamed(&map));
            if let Some(valuing) = &mut self.valuing {
                valuing.rename(&map);
            }
        }
    }

    /// Forgets the cached rows.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.rename(|_| None);
    }

    /// A session of the same task that goes on with the recently used prefixes and takes the rows over, for rollouts
    /// that begin while others are under way in this one.
    pub(crate) fn successor(&mut self) -> Self
    where
        C: Clone,
    {
        let mut tree = self.tree.clone();
        let map = tree.shrink(self.task.max_bytes / 4);
        let mut rows = std::mem::replace(&mut self.rows, RowCache::new(0));
        rows.rename(|node| node.renamed(&map));
        Self {
            task: self.task.clone(),
            scratch: self.task.constraint.scratch(),
            prompt: Arc::clone(&self.prompt),
            tree,
            rows,
            mask: Arc::new(TokenMask::new(0)),
            speculation: None,
            valuing: self.valuing.as_ref().map(|valuing| Valuing::new(valuing.values.clone())),
            open: [None, None],
            over: Arc::clone(&self.over),
            ..*self
        }
    }

    /// Lets the rollouts be drafted for.
    pub(crate) fn set_verifier(&mut self, verifier: Verifier) {
        if !verifier.config.budget.is_lossless() {
            // Each position is drafted, known or not: the distribution must not depend on the contents of a cache.
            self.rows = RowCache::new(0);
        }
        self.speculation =
            Some(Speculation { verifier, acceptance: Acceptance::new(), observed: Vec::new() });
    }

    pub(crate) fn verifier(&mut self) -> Option<&mut Verifier> {
        self.speculation.as_mut().map(|speculation| &mut speculation.verifier)
    }

    pub(crate) fn is_drafted_for(&self) -> bool {
        self.speculation.is_some()
    }

    /// The number of positions that a draft reaches after `depth` tokens of output.
    pub(crate) fn draft_len(&self, depth: usize) -> usize {
        let Some(Speculation { verifier, acceptance, .. }) = &self.speculation else { return 0 };
        let room =
            self.task.model.context_len.unwrap_or(usize::MAX).saturating_sub(self.prompt.len() + depth);
        acceptance.best(verifier.config.length).min(room)
    }

    pub(crate) fn record_acceptance(&mut self, accepted: u32, tested: u32) {
        if let Some(speculation) = self.speculation.as_mut().filter(|_| tested > 0) {
            speculation.acceptance.record(accepted, tested);
        }
    }

    /// Remembers for the drafter that `token` followed `state`.
    pub(crate) fn observe(&mut self, state: &C::State, token: TokenId) {
        if let Some(Speculation { observed, .. }) = &mut self.speculation {
            observed.push((state.clone(), token));
        }
    }

    /// Drafts for rollouts by `drafter`, which is told before which tokens were taken. Answers with the drafts and
    /// their cost.
    pub(crate) fn draft(
        &mut self,
        drafter: &mut dyn Drafter<C>,
        runs: Vec<DraftRun<'_, C::State>>,
    ) -> Result<Drafted<C::State>, SampleError<Infallible>> {
        if let Some(Speculation { observed, .. }) = &mut self.speculation {
            for (state, token) in observed.drain(..) {
                drafter.observe(&self.task.constraint, &mut self.scratch, &state, token);
            }
        }
        let mut drafts = Drafts {
            constraint: &self.task.constraint,
            scratch: &mut self.scratch,
            end: &self.task.end,
            mask: TokenMask::new(self.task.constraint.vocab_len()),
            prompt: &self.prompt,
            runs,
        };
        (0..drafts.len()).for_each(|index| drafts.force(index));
        drafter.draft(&mut drafts).map_err(|error| SampleError::Draft { why: error.to_string() })?;
        let steps = drafts.runs.into_iter().map(|run| run.steps).collect();
        Ok((steps, drafter.take_cost()))
    }

    /// The bounds as bytes, for [`load`](Self::load) with the same task and name.
    pub(crate) fn save(&mut self, name: &str) -> Vec<u8> {
        let fingerprint = self.header(name).fingerprint;
        tree::write(&mut self.tree, fingerprint)
    }

    pub(crate) fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.tree = tree::read(bytes, &self.header(name))?;
        self.rows.rename(|_| None);
        if let Some(valuing) = &mut self.valuing {
            valuing.forget_prefixes();
        }
        Ok(())
    }

    fn header(&self, name: &str) -> Header {
        let Self { task: Task { constraint, model, end, max_tokens, top, .. }, prompt, scope, .. } = self;
        let mut bytes = Vec::new();
        let mut number = |value: usize| bytes.extend_from_slice(&(value as u64).to_le_bytes());
        let vocab_len = constraint.vocab_len().max(model.row_len);
        for value in [constraint.vocab_len(), model.row_len, *max_tokens, *scope as usize] {
            number(value);
        }
        for list in [prompt, end.as_slice()] {
            number(list.len());
            list.iter().for_each(|id| number(id.index()));
        }
        top.iter().for_each(|top| number(*top));
        if self.is_free() {
            number(usize::MAX);
        }
        bytes.extend_from_slice(name.as_bytes());
        let fingerprint = XxHash3_64::oneshot(&bytes);
        // One token longer where every token counts that was not ruled out.
        Header {
            fingerprint,
            vocab_len,
            max_depth: max_tokens.saturating_add(1),
            max_bytes: self.task.max_bytes / 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, Unconstrained};

    use super::*;

    #[test]
    fn a_full_tree_forgets() {
        let model = TableModel::uniform(["a", "b"]);
        let vocabulary = model.vocabulary().clone();
        let task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 2);
        let (_, task) = Task { max_bytes: 1600, ..task }.split();
        let mut session = Session::new(task, Scope::Allowed);
        for token in [0, 1] {
            session.tree_mut().tick();
            let node = session.tree_mut().child(PrefixTree::ROOT, TokenId(token));
            session.tree_mut().touch(node);
            session.tree_mut().child(node, TokenId(0));
        }
        assert!(session.is_full());
        session.keep_within_limit();
        assert!(!session.is_full());
    }
}
