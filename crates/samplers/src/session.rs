//! The state that the rollouts of one task share: the constraint, the tree of visited prefixes, and rows of the model.
//!
//! Samplers that reject come back to the same prefixes again and again, since the first tokens of every rollout are drawn from
//! the same row. So a prefix is read once: its numbers stay in the tree, its row in a cache. Both are bounded in bytes, and a
//! dropped one is computed again.
//!
//! States of the constraint are not kept: advancing one along a prefix takes microseconds, and a state may be large.

use std::{convert::Infallible, fmt, sync::Arc};

use twox_hash::XxHash3_64;
use unskew_core::{Cancel, Constraint, Cost, Logits, TokenId, TokenMask, logprob};

use crate::{
    SampleError, Task,
    rows::{LONG, Listed, Row, RowCache, digits},
    speculative::{Acceptance, DraftRun, DraftStep, Drafter, Drafts, Verifier},
    task::ModelShape,
    tree::{self, Header, NodeId, NodeStats, PrefixTree, TrieFileError, add},
};

/// Which tokens a row has, and which count as unexplored at a new prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those that the mask allows.
    Allowed,
    /// After the empty prefix, all: a token is ruled out when it was drawn and failed.
    Everything,
    /// All, and masks are never computed.
    Unmasked,
}

/// Where fewer than one in 1,000 outputs comes to a prefix, its long row is not kept the first time: only some hundreds fit.
const LN_RARE: f64 = -6.9;

/// So many tokens of a long row are listed one by one.
const FEW: usize = 1 << 10;

pub(crate) struct Session<C: Constraint> {
    constraint: C,
    scratch: C::Scratch,
    prompt: Arc<[TokenId]>,
    end: Vec<TokenId>,
    max_tokens: usize,
    /// The length of the model's rows.
    row_len: usize,
    /// The most tokens of a sequence of the model.
    context_len: Option<usize>,
    batch: usize,
    max_bytes: usize,
    cancel: Cancel,
    scope: Scope,
    /// So many of the most probable tokens are candidates, where one of them is allowed. All are without it.
    top: Option<usize>,
    tree: PrefixTree,
    rows: RowCache,
    /// Where a mask is made; the row that it is made for may keep it.
    mask: Arc<TokenMask>,
    /// Masks that rows have given back.
    masks: Vec<Arc<TokenMask>>,
    /// Buffers of a row.
    tokens: Vec<TokenId>,
    values: Vec<f32>,
    /// Long rows that nobody reads any more.
    spare: Vec<Arc<Row>>,
    /// The drafter of the rollouts, where there is one.
    speculation: Option<Speculation<C>>,
    /// All tokens of a row, without those that end a sequence and with them, as masks that rows share.
    open: [Option<Arc<TokenMask>>; 2],
}

/// The drafts of some rollouts, and their cost.
type Drafted<S> = (Vec<Vec<DraftStep<S>>>, Cost);

/// A drafter, and its record.
struct Speculation<C: Constraint> {
    drafter: Box<dyn Drafter<C>>,
    verifier: Verifier,
    acceptance: Acceptance,
}

impl<C: Constraint> fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("nodes", &self.tree.len())
            .field("tree_bytes", &self.tree.bytes())
            .field("row_bytes", &self.rows.bytes())
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

impl<C: Constraint> Session<C> {
    pub(crate) fn new(task: Task<ModelShape, C>, scope: Scope) -> Self {
        let Task { model, constraint, prompt, end, max_tokens, top, batch, max_bytes, cancel } = task;
        let scratch = constraint.scratch();
        let mask = Arc::new(TokenMask::new(constraint.vocab_len()));
        Self {
            constraint,
            scratch,
            prompt: prompt.into(),
            end,
            max_tokens,
            row_len: model.row_len,
            context_len: model.context_len,
            batch: batch.max(1),
            max_bytes,
            cancel,
            scope,
            top,
            tree: PrefixTree::new(),
            rows: RowCache::new(max_bytes / 4 * 3),
            mask,
            masks: Vec::new(),
            tokens: Vec::new(),
            values: Vec::new(),
            spare: Vec::new(),
            speculation: None,
            open: [None, None],
        }
    }

    /// The most tokens of an output.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The most rollouts under way at once.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    pub(crate) fn prompt(&self) -> &Arc<[TokenId]> {
        &self.prompt
    }

    /// The length of the model's rows.
    pub(crate) fn row_len(&self) -> usize {
        self.row_len
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

    /// The prefixes, the bytes of the tree, and the bytes of rows that are held at the moment.
    pub(crate) fn usage(&self) -> (usize, usize, usize) {
        (self.tree.len(), self.tree.bytes(), self.rows.bytes())
    }

    /// The constraint's state before the first token.
    pub(crate) fn start(&self) -> C::State {
        self.constraint.start()
    }

    /// Appends an allowed token to a state.
    ///
    /// # Panics
    ///
    /// If the token is not allowed.
    pub(crate) fn advance(&mut self, state: &mut C::State, token: TokenId) {
        let Self { constraint, scratch, .. } = self;
        constraint.advance(scratch, state, token).expect("a token of the mask is allowed");
    }

    pub(crate) fn allows(&mut self, state: &C::State, token: TokenId) -> bool {
        self.constraint.allows(&mut self.scratch, state, token)
    }

    pub(crate) fn is_accepting(&self, state: &C::State) -> bool {
        self.constraint.is_accepting(state)
    }

    /// The token that must follow, where there is only one and the output may not end: its choice needs no model.
    pub(crate) fn forced(&mut self, node: NodeId, state: &C::State) -> Option<TokenId> {
        let Self { constraint, scratch, tree, max_tokens, .. } = self;
        if tree.depth(node) >= *max_tokens || (tree.is_scored(node) && !tree.is_forced(node)) {
            return None;
        }
        constraint.forced(scratch, state)
    }

    /// A prefix's row, where it is in the cache.
    pub(crate) fn row(&mut self, node: NodeId) -> Option<Arc<Row>> {
        self.rows.get(node)
    }

    /// Takes back rows that were pinned for a rollout. A row that nobody else has is used again, mask and all: the blocks of a
    /// long row are more than an allocator hands out in a hurry.
    pub(crate) fn give_back(&mut self, pinned: &mut Vec<(NodeId, Arc<Row>)>) {
        while let Some((_, mut row)) = pinned.pop() {
            let Some(mut mask) = Arc::get_mut(&mut row).and_then(Row::release) else { continue };
            if self.spare.len() < self.batch {
                self.spare.push(row);
            }
            if self.masks.len() < self.batch
                && Arc::get_mut(&mut mask).is_some()
                && mask.len() == self.mask.len()
            {
                self.masks.push(mask);
            }
        }
    }

    /// Takes a prefix and all above it into the bounds. `rest` may know, for a depth, the mass that was left when the rollout
    /// took its token, and how many edges counted before.
    pub(crate) fn back_up(&mut self, node: NodeId, rest: impl Fn(usize) -> Option<(f64, usize)>) {
        let Self { tree, rows, .. } = self;
        tree.back_up(node, |above, depth, edges| {
            let counting = edges.iter().filter(|edge| edge.counts()).count();
            let rest = rest(depth).filter(|(_, counted)| counting == counted + 1);
            // Where rollouts have taken other tokens at the same time, only the row can tell.
            rest.map(|(rest, _)| rest).or_else(|| {
                let counted = edges.iter().filter(|edge| edge.counts()).map(|edge| edge.token);
                rows.get(above).map(|row| row.log_mass(counted))
            })
        });
    }

    /// Whether the end was asked for.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Whether the tree is larger than it may be.
    pub(crate) fn is_full(&self) -> bool {
        self.tree.bytes() > self.max_bytes / 4
    }

    /// Forgets old prefixes if there are too many. While no rollout is under way only: ids of nodes do not survive it.
    pub(crate) fn keep_within_limit(&mut self) {
        if self.is_full() {
            let map = self.tree.shrink(self.max_bytes / 4);
            self.rows.rename(|node| node.renamed(&map));
        }
    }

    /// Lets `drafter` draft for the rollouts.
    pub(crate) fn set_drafter(&mut self, drafter: Box<dyn Drafter<C>>, verifier: Verifier) {
        if !verifier.config.budget.is_lossless() {
            // Each position is drafted, known or not: the distribution must not depend on the contents of a cache.
            self.rows = RowCache::new(0);
        }
        self.speculation = Some(Speculation { drafter, verifier, acceptance: Acceptance::new() });
    }

    pub(crate) fn verifier(&mut self) -> Option<&mut Verifier> {
        self.speculation.as_mut().map(|speculation| &mut speculation.verifier)
    }

    pub(crate) fn is_drafted_for(&self) -> bool {
        self.speculation.is_some()
    }

    /// How many positions a draft reaches after `depth` tokens of output.
    pub(crate) fn draft_len(&self, depth: usize) -> usize {
        let Some(Speculation { verifier, acceptance, .. }) = &self.speculation else { return 0 };
        let room = self.context_len.unwrap_or(usize::MAX).saturating_sub(self.prompt.len() + depth);
        acceptance.best(verifier.config.length).min(room)
    }

    pub(crate) fn record_acceptance(&mut self, accepted: u32, tested: u32) {
        if let Some(speculation) = self.speculation.as_mut().filter(|_| tested > 0) {
            speculation.acceptance.record(accepted, tested);
        }
    }

    /// Tells the drafter that `token` followed `state`.
    pub(crate) fn observe(&mut self, state: &C::State, token: TokenId) {
        if let Some(Speculation { drafter, .. }) = &mut self.speculation {
            drafter.observe(&self.constraint, &mut self.scratch, state, token);
        }
    }

    /// Drafts for rollouts, and answers with the drafts and their cost.
    pub(crate) fn draft(
        &mut self,
        runs: Vec<DraftRun<'_, C::State>>,
    ) -> Result<Drafted<C::State>, SampleError<Infallible>> {
        let Some(Speculation { drafter, .. }) = &mut self.speculation else { return Ok(Default::default()) };
        let mut drafts = Drafts {
            constraint: &self.constraint,
            scratch: &mut self.scratch,
            end: &self.end,
            mask: TokenMask::new(self.constraint.vocab_len()),
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
        Ok(())
    }

    fn header(&self, name: &str) -> Header {
        let Self { constraint, prompt, end, max_tokens, row_len, scope, top, .. } = self;
        let mut bytes = Vec::new();
        let mut number = |value: usize| bytes.extend_from_slice(&(value as u64).to_le_bytes());
        let vocab_len = constraint.vocab_len().max(*row_len);
        for value in [constraint.vocab_len(), *row_len, *max_tokens, *scope as usize] {
            number(value);
        }
        for list in [prompt, end.as_slice()] {
            number(list.len());
            list.iter().for_each(|id| number(id.index()));
        }
        top.iter().for_each(|top| number(*top));
        bytes.extend_from_slice(name.as_bytes());
        let fingerprint = XxHash3_64::oneshot(&bytes);
        // One token longer where everything counts that was not ruled out.
        Header {
            fingerprint,
            vocab_len,
            max_depth: max_tokens.saturating_add(1),
            max_bytes: self.max_bytes / 4,
        }
    }

    /// Adds the allowed ones of the most probable tokens, in ascending order; each is asked for by itself, and no mask is
    /// made. Answers false if all tokens are candidates, or none of these is allowed.
    fn add_candidates(&mut self, state: &C::State, logits: &[f32], tokens: &mut Vec<TokenId>) -> bool {
        let Some(top) = self.top else { return false };
        let mut best: Vec<TokenId> = (0..logits.len().min(self.constraint.vocab_len()))
            .map(TokenId::from_index)
            .filter(|id| logits[id.index()] > f32::NEG_INFINITY && !self.end.contains(id))
            .collect();
        if top < best.len() {
            // Of equal ones the first.
            let order = |left: &TokenId, right: &TokenId| {
                logits[right.index()].total_cmp(&logits[left.index()]).then(left.cmp(right))
            };
            best.select_nth_unstable_by(top, order);
            best.truncate(top);
            best.sort_unstable();
        }
        best.retain(|id| self.constraint.allows(&mut self.scratch, state, *id));
        tokens.extend_from_slice(&best);
        !best.is_empty()
    }

    /// Reads a row of logits after a prefix.
    pub(crate) fn read(
        &mut self,
        node: NodeId,
        state: &C::State,
        logits: &Arc<Logits>,
        index: usize,
    ) -> Result<Arc<Row>, SampleError<Infallible>> {
        let depth = self.tree.depth(node);
        let accepting = self.constraint.is_accepting(state);
        let row = logits.row(index);
        // Buffers, so that a row of a large vocabulary makes nothing grow.
        let (mut tokens, mut values) = (std::mem::take(&mut self.tokens), std::mem::take(&mut self.values));
        tokens.clear();
        values.clear();
        let candidates = self.candidates(state, depth, accepting, row, &mut tokens);
        if tokens.is_empty() && matches!(candidates, Candidates::Listed(_)) && !accepting {
            // No output is lost in silence.
            if let Some(limit) = self.limit_beyond(state, depth) {
                return Err(SampleError::Beyond { limit, tokens: depth });
            }
        }
        let ready;
        let mask = match &candidates {
            Candidates::Listed(_) => None,
            Candidates::Masked => Some(&self.mask),
            Candidates::Ready => {
                let mask = self.constraint.ready_mask(&self.scratch, state);
                ready = Arc::new(mask.expect("nothing has changed since it was ready").to_owned());
                Some(&ready)
            }
            Candidates::Open(mask) => Some(mask),
        };
        let mut place =
            (row.len() >= LONG).then(|| self.spare.pop().unwrap_or_else(|| Arc::new(Row::unread())));
        let wide = place.as_mut().and_then(Arc::get_mut).and_then(Row::parts_mut);
        let normalizer = match wide {
            Some((wide, _)) => wide.read(row, mask.map(|mask| mask.words())),
            None => digits::log_normalizer(row),
        };
        if !normalizer.is_finite() {
            return Err(SampleError::NotADistribution { tokens: depth });
        }
        // A constraint may cover padding beyond the model's row.
        let logit = |id: TokenId| row.get(id.index()).copied().unwrap_or(f32::NEG_INFINITY);
        let end = match self.end[..] {
            [id] => f64::from(logit(id)) - normalizer,
            _ => logprob::log_sum_exp(self.end.iter().map(|id| f64::from(logit(*id)) - normalizer)),
        };
        let eos = if accepting { end } else { f64::NEG_INFINITY };
        let mut keeps = true;
        let wide = place.as_mut().and_then(Arc::get_mut).and_then(Row::parts_mut);
        let row = match (wide, mask) {
            (Some((wide, place_of_end)), Some(mask)) if wide.is_usable() => {
                wide.hold(logits, index, mask);
                *place_of_end = end;
                // A second visit is a reason too.
                keeps = self.tree.is_scored(node) || self.is_likely(node);
                if keeps {
                    wide.detach();
                }
                place.expect("it was filled")
            }
            _ => {
                self.spare.extend(place);
                let has = |id: &TokenId| logit(*id) > f32::NEG_INFINITY;
                tokens.extend(mask.into_iter().flat_map(|mask| mask.ids()));
                tokens.retain(has);
                values.extend(tokens.iter().map(|id| logit(*id)));
                Arc::new(Row::listed(Listed::new(&tokens, &values, normalizer), end))
            }
        };
        (self.tokens, self.values) = (tokens, values);
        let sum = row.sum();
        let mass = add([eos, sum]);
        let forced = candidates == Candidates::Listed(Forced(true));
        self.tree.score(node, NodeStats { eos, tokens: sum, valid_mass: mass, forced });
        if keeps {
            self.rows.insert(node, Arc::clone(&row));
        }
        Ok(row)
    }

    /// The tokens that may be proposed: a list in `tokens`, or, of a long row, so many that they are left as a mask where that is. A list may
    /// have tokens of which the row says nothing.
    fn candidates(
        &mut self,
        state: &C::State,
        depth: usize,
        accepting: bool,
        row: &[f32],
        tokens: &mut Vec<TokenId>,
    ) -> Candidates {
        if self.scope == Scope::Unmasked || (self.scope == Scope::Everything && depth > 0) {
            // An end that is not accepted fails like a token.
            let fails = self.scope == Scope::Everything && !accepting;
            if row.len() >= LONG {
                return Candidates::Open(self.open(fails, row.len()));
            }
            let all = (0..row.len()).map(TokenId::from_index);
            tokens.extend(all.filter(|id| fails || !self.end.contains(id)));
            return Candidates::Listed(Forced(false));
        }
        if depth >= self.max_tokens {
            return Candidates::Listed(Forced(false));
        }
        if self.add_candidates(state, row, tokens) {
            return Candidates::Listed(Forced(self.constraint.forced(&mut self.scratch, state).is_some()));
        }
        let (mask, place) = match self.constraint.ready_mask(&self.scratch, state) {
            Some(mask) => (mask, Candidates::Ready),
            None => {
                // Another one where a row keeps the last.
                if Arc::get_mut(&mut self.mask).is_none() {
                    let new = || Arc::new(TokenMask::new(self.constraint.vocab_len()));
                    self.mask = self.masks.pop().unwrap_or_else(new);
                }
                let mask = Arc::get_mut(&mut self.mask).expect("nobody else has it");
                self.constraint.fill_mask(&mut self.scratch, state, mask.as_mut());
                ((*self.mask).as_ref(), Candidates::Masked)
            }
        };
        if row.len() >= LONG && has_more_than(mask.words(), FEW) {
            return place;
        }
        tokens.extend(mask.into_ids());
        Candidates::Listed(Forced(tokens.len() == 1 && !accepting))
    }

    /// The limit that the constraint is beyond, where it allows nothing for that reason.
    fn limit_beyond(&mut self, state: &C::State, depth: usize) -> Option<&'static str> {
        if depth >= self.max_tokens || self.constraint.vocab_len() == 0 {
            return None;
        }
        // No token is allowed there, and each is rejected for the same reason.
        self.constraint.advance(&mut self.scratch, &mut state.clone(), TokenId(0)).err()?.limit
    }

    /// All tokens of a row, as a mask: the same one each time. `ends` says whether the ends of a sequence are among them.
    fn open(&mut self, ends: bool, len: usize) -> Arc<TokenMask> {
        let Self { end, open, .. } = self;
        let open = &mut open[usize::from(ends)];
        if let Some(mask) = open.as_ref().filter(|mask| mask.len() == len) {
            return Arc::clone(mask);
        }
        let mut mask = TokenMask::new(len);
        mask.as_mut().fill();
        end.iter().filter(|id| !ends && id.index() < len).for_each(|id| mask.as_mut().remove(*id));
        Arc::clone(open.insert(Arc::new(mask)))
    }

    /// Whether enough outputs come to a prefix that its row is worth a copy. By the masked distributions along it, as far as
    /// they are known; nothing but the number of model calls depends on it.
    fn is_likely(&self, node: NodeId) -> bool {
        let (mut at, mut log_q) = (node, 0.0);
        while let Some(above) = self.tree.parent(at) {
            let step = self.tree.log_p(at) - self.tree.valid_mass(above);
            // An unknown step was forced.
            log_q += if step.is_nan() { 0.0 } else { step };
            if log_q < LN_RARE {
                return false;
            }
            at = above;
        }
        true
    }
}

/// Where the tokens stand that may be proposed.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Candidates {
    /// In a list.
    Listed(Forced),
    /// In the mask that was filled for it.
    Masked,
    /// In a mask of the constraint.
    Ready,
    /// All tokens may.
    Open(Arc<TokenMask>),
}

/// Whether the output may not end here and only one token is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Forced(bool);

/// Whether a mask has more than `many` tokens; looks no further than it must.
fn has_more_than(words: &[u32], many: usize) -> bool {
    let mut count = 0;
    let (chunks, rest) = words.as_chunks::<16>();
    // A mask of few tokens is zeros nearly everywhere, which are passed over together.
    let chunks = chunks.iter().filter(|words| words.iter().fold(0, |any, word| any | word) != 0);
    chunks.map(<[u32; 16]>::as_slice).chain([rest]).any(|words| {
        count += words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        count > many
    })
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
