//! What samplers share: the task, the trie of visited prefixes, rows of the model, and the passes that fill both.
//!
//! Samplers that reject come back to the same prefixes again and again, since the first tokens of every try are drawn from
//! the same row. So a prefix is read once: its numbers stay in the trie, its row in a cache. Both are bounded in bytes, and
//! what was dropped is computed again.
//!
//! States of the constraint are not kept: advancing one along a prefix takes microseconds, and a state may be large.

use std::{fmt, sync::Arc};

use smallvec::{SmallVec, smallvec};
use twox_hash::XxHash3_64;
use unskew_core::{Cancel, Constraint, Cost, LanguageModel, Logits, TokenId, TokenMask, logprob};

use crate::{
    SampleError, Task,
    evaluator::{Evaluator, Request},
    rows::{LONG, Listed, Row, RowCache, digits},
    trie::{self, Facts, Header, NodeId, Trie, TrieFileError, add},
};

/// What rows hold, and what counts as not yet excluded at a new prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// What the mask allows.
    Allowed,
    /// Below the empty prefix, everything: a token is excluded when it was drawn and failed.
    Everything,
    /// Everything, and masks are never computed.
    Unmasked,
}

/// Prefixes that a walk passed and that were not evaluated, with their states, the deepest last.
pub(crate) type Passed<S> = Vec<(NodeId, S)>;

/// Rows that are held for a walk, so that they outlive the cache.
pub(crate) type Held = Vec<(NodeId, Arc<Row>)>;

/// What one walk wants of a pass.
pub(crate) struct Wanted<'a, S> {
    /// The tokens of its deepest prefix, or more.
    pub(crate) tokens: &'a [TokenId],
    /// The prefixes; none are left when they are evaluated.
    pub(crate) passed: &'a mut Passed<S>,
    /// Where the rows go.
    pub(crate) held: &'a mut Held,
    /// What the pass is added to.
    pub(crate) cost: &'a mut Cost,
}

/// Where fewer than one in 1,000 outputs comes to a prefix, its long row is not kept the first time: only some hundreds fit.
const LN_RARE: f64 = -6.9;

/// So many tokens of a long row are listed one by one.
const FEW: usize = 1 << 10;

/// The constraint's side: reads rows of logits into the trie.
struct Reader<C: Constraint> {
    constraint: C,
    scratch: C::Scratch,
    /// Where a mask is made; the row that it is made for may keep it.
    mask: Arc<TokenMask>,
    /// Masks that rows have given back.
    masks: Vec<Arc<TokenMask>>,
    end: Vec<TokenId>,
    max_tokens: usize,
    scope: Scope,
    /// So many of the most probable tokens are candidates, where one of them is allowed. All are without it.
    top: Option<usize>,
    trie: Trie,
    rows: RowCache,
    /// Buffers of a row.
    tokens: Vec<TokenId>,
    values: Vec<f32>,
    /// Long rows that nobody reads any more.
    spare: Vec<Arc<Row>>,
    /// All tokens of a row, without what ends a sequence and with it, as masks that rows share.
    open: [Option<Arc<TokenMask>>; 2],
}

pub(crate) struct Prefixes<M: LanguageModel, C: Constraint> {
    reader: Reader<C>,
    evaluator: Evaluator<M>,
    batch: usize,
    max_bytes: usize,
    cancel: Cancel,
}

impl<M: LanguageModel, C: Constraint> fmt::Debug for Prefixes<M, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixes")
            .field("nodes", &self.reader.trie.len())
            .field("trie_bytes", &self.reader.trie.bytes())
            .field("row_bytes", &self.reader.rows.bytes())
            .field("max_tokens", &self.reader.max_tokens)
            .finish_non_exhaustive()
    }
}

impl<M: LanguageModel, C: Constraint> Prefixes<M, C> {
    pub(crate) fn new(task: Task<M, C>, scope: Scope) -> Self {
        let Task { model, constraint, prompt, end, max_tokens, batch, max_bytes, cancel } = task;
        let scratch = constraint.scratch();
        let mask = Arc::new(TokenMask::new(constraint.vocab_len()));
        Self {
            reader: Reader {
                constraint,
                scratch,
                mask,
                masks: Vec::new(),
                end,
                max_tokens,
                scope,
                top: None,
                trie: Trie::new(),
                rows: RowCache::new(max_bytes / 4 * 3),
                tokens: Vec::new(),
                values: Vec::new(),
                spare: Vec::new(),
                open: [None, None],
            },
            evaluator: Evaluator::new(model, prompt, batch),
            batch: batch.max(1),
            max_bytes,
            cancel,
        }
    }

    /// Makes candidates of the `top` most probable tokens alone, where one of them is allowed. What was visited is forgotten.
    pub(crate) fn limit_candidates(&mut self, top: usize) {
        self.reader.top = Some(top);
        self.reader.trie = Trie::new();
        self.reader.rows.rename(|_| None);
    }

    /// The most tokens of an output.
    pub(crate) fn max_tokens(&self) -> usize {
        self.reader.max_tokens
    }

    /// The most draws that step together.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    pub(crate) fn scope(&self) -> Scope {
        self.reader.scope
    }

    pub(crate) fn trie(&self) -> &Trie {
        &self.reader.trie
    }

    pub(crate) fn trie_mut(&mut self) -> &mut Trie {
        &mut self.reader.trie
    }

    /// What is held at the moment: prefixes, bytes of the trie, bytes of rows.
    pub(crate) fn usage(&self) -> (usize, usize, usize) {
        (self.reader.trie.len(), self.reader.trie.bytes(), self.reader.rows.bytes())
    }

    /// The constraint's state before the first token.
    pub(crate) fn start(&self) -> C::State {
        self.reader.constraint.start()
    }

    /// Appends an allowed token to a state.
    ///
    /// # Panics
    ///
    /// If the token is not allowed.
    pub(crate) fn advance(&mut self, state: &mut C::State, token: TokenId) {
        let Reader { constraint, scratch, .. } = &mut self.reader;
        constraint.advance(scratch, state, token).expect("a token of the mask is allowed");
    }

    pub(crate) fn allows(&mut self, state: &C::State, token: TokenId) -> bool {
        self.reader.constraint.allows(&mut self.reader.scratch, state, token)
    }

    pub(crate) fn is_accepting(&self, state: &C::State) -> bool {
        self.reader.constraint.is_accepting(state)
    }

    /// The token that must follow, where there is only one and the output may not end: its choice needs no model.
    pub(crate) fn forced(&mut self, node: NodeId, state: &C::State) -> Option<TokenId> {
        let Reader { constraint, scratch, trie, max_tokens, .. } = &mut self.reader;
        if trie.depth(node) >= *max_tokens || (trie.is_evaluated(node) && !trie.is_forced(node)) {
            return None;
        }
        constraint.forced(scratch, state)
    }

    /// A prefix's row, where it is in the cache.
    pub(crate) fn row(&mut self, node: NodeId) -> Option<Arc<Row>> {
        self.reader.rows.get(node)
    }

    /// Takes back rows that were held for a walk. What nobody else has is used again, mask and all: the blocks of a long row are
    /// more than an allocator hands out in a hurry.
    pub(crate) fn give_back(&mut self, held: &mut Held) {
        let Self { reader, batch, .. } = self;
        while let Some((_, mut row)) = held.pop() {
            let Some(mut mask) = Arc::get_mut(&mut row).and_then(Row::release) else { continue };
            if reader.spare.len() < *batch {
                reader.spare.push(row);
            }
            if reader.masks.len() < *batch
                && Arc::get_mut(&mut mask).is_some()
                && mask.len() == reader.mask.len()
            {
                reader.masks.push(mask);
            }
        }
    }

    /// Takes a prefix and all above it into the bounds. `rest` may know, for a depth, the mass that was left when the walk
    /// took its token, and how many edges counted before.
    pub(crate) fn learn(&mut self, node: NodeId, rest: impl Fn(usize) -> Option<(f64, usize)>) {
        let Reader { trie, rows, .. } = &mut self.reader;
        trie.learn(node, |above, depth, edges| {
            let counting = edges.iter().filter(|edge| edge.counts()).count();
            let rest = rest(depth).filter(|(_, counted)| counting == counted + 1);
            // Where walks have taken other tokens at the same time, only the row can tell.
            rest.map(|(rest, _)| rest).or_else(|| {
                let counted = edges.iter().filter(|edge| edge.counts()).map(|edge| edge.token);
                rows.get(above).map(|row| row.log_mass(counted))
            })
        });
    }

    /// Whether the end was asked for.
    pub(crate) fn check_cancelled(&self) -> Result<(), SampleError<M::Error>> {
        if self.cancel.is_cancelled() { Err(SampleError::Cancelled) } else { Ok(()) }
    }

    /// Whether the trie is larger than it may be.
    pub(crate) fn is_full(&self) -> bool {
        self.reader.trie.bytes() > self.max_bytes / 4
    }

    /// Forgets old prefixes if there are too many. While no walk is under way only: ids of nodes do not survive it.
    pub(crate) fn keep_within_limit(&mut self) {
        if self.is_full() {
            let map = self.reader.trie.shrink(self.max_bytes / 4);
            self.reader.rows.rename(|node| node.renamed(&map));
        }
    }

    /// Evaluates what walks want, in one pass. Prefixes that are wanted twice are evaluated once, for the first walk.
    ///
    /// One walk alone that goes on by one token is the common case, and has a short way of its own.
    pub(crate) fn evaluate(
        &mut self,
        wanted: &mut [Wanted<'_, C::State>],
    ) -> Result<(), SampleError<M::Error>> {
        self.check_cancelled()?;
        let Self { reader, evaluator, .. } = self;
        if let [Wanted { tokens, passed, held, cost }] = wanted
            && let [(node, _)] = passed[..]
            && let tokens = &tokens[..reader.trie.depth(node)]
            && let Some(logits) = evaluator.next(tokens, cost).map_err(SampleError::Model)?
        {
            held.push((node, reader.read(&passed[0], logits, 0)?));
            passed.clear();
            return Ok(());
        }
        self.evaluate_many(wanted)
    }

    fn evaluate_many(&mut self, wanted: &mut [Wanted<'_, C::State>]) -> Result<(), SampleError<M::Error>> {
        let mut broken: Option<usize> = None;
        let Self { reader, evaluator, .. } = self;
        let from_root = |wanted: &Wanted<'_, C::State>| wanted.passed[0].0 == Trie::ROOT;
        if let Some(first) = wanted.iter_mut().find(|wanted| from_root(wanted)) {
            let row = evaluator.root(first.cost).map_err(SampleError::Model)?;
            let root = reader.read(&first.passed[0], &row, 0)?;
            for wanted in wanted.iter_mut().filter(|wanted| from_root(wanted)) {
                wanted.held.push((Trie::ROOT, Arc::clone(&root)));
            }
        }
        // By the deepest prefix, the first walk that wants it.
        let mut requests: SmallVec<[Request<'_>; 1]> = SmallVec::new();
        let mut owners: SmallVec<[usize; 1]> = SmallVec::new();
        let mut same: SmallVec<[usize; 1]> = SmallVec::new();
        for index in 0..wanted.len() {
            let Wanted { tokens, passed, .. } = &wanted[index];
            let deepest = deepest(passed);
            let owner = owners.iter().copied().find(|owner| self::deepest(wanted[*owner].passed) == deepest);
            same.push(owner.unwrap_or(index));
            if deepest == Trie::ROOT || owner.is_some_and(|owner| wanted[owner].passed.len() >= passed.len())
            {
                continue;
            }
            let first = passed.iter().map(|(node, _)| reader.trie.depth(*node)).find(|depth| *depth > 0);
            let first = first.expect("the deepest is not the root");
            if let Some(at) = owner.and_then(|owner| owners.iter().position(|other| *other == owner)) {
                // The later walk wants more of the same.
                requests[at].first = requests[at].first.min(first);
                owners[at] = index;
                same.iter_mut().filter(|same| Some(**same) == owner).for_each(|same| *same = index);
            } else {
                requests.push(Request { tokens: &tokens[..reader.trie.depth(deepest)], first });
                owners.push(index);
            }
        }
        let mut own: SmallVec<[Cost; 1]> = smallvec![Cost::default(); requests.len()];
        evaluator
            .evaluate(&requests, &mut own, |request, depth, logits, row| {
                let Wanted { passed, held, .. } = &mut wanted[owners[request]];
                let wanted = passed.iter().find(|(node, _)| reader.trie.depth(*node) == depth);
                if let Some(wanted) = wanted {
                    match reader.read::<M::Error>(wanted, logits, row) {
                        Ok(row) => held.push((wanted.0, row)),
                        Err(_) => broken = broken.or(Some(depth)),
                    }
                }
            })
            .map_err(SampleError::Model)?;
        for (owner, cost) in owners.iter().zip(own) {
            *wanted[*owner].cost += cost;
        }
        if let Some(tokens) = broken {
            return Err(SampleError::NotADistribution { tokens });
        }
        for (index, owner) in same.into_iter().enumerate() {
            if index != owner {
                let held = wanted[owner].held.clone();
                wanted[index].held.extend(held);
            }
            wanted[index].passed.clear();
        }
        Ok(())
    }

    /// The bounds as bytes, for [`load`](Self::load) with the same task and name.
    pub(crate) fn save(&mut self, name: &str) -> Vec<u8> {
        let fingerprint = self.header(name).fingerprint;
        trie::write(&mut self.reader.trie, fingerprint)
    }

    pub(crate) fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.reader.trie = trie::read(bytes, &self.header(name))?;
        self.reader.rows.rename(|_| None);
        Ok(())
    }

    fn header(&self, name: &str) -> Header {
        let Reader { constraint, end, max_tokens, scope, top, .. } = &self.reader;
        let mut bytes = Vec::new();
        let mut number = |value: usize| bytes.extend_from_slice(&(value as u64).to_le_bytes());
        let vocab_len = constraint.vocab_len().max(self.evaluator.vocab_len());
        for value in [constraint.vocab_len(), self.evaluator.vocab_len(), *max_tokens, *scope as usize] {
            number(value);
        }
        for list in [self.evaluator.prompt(), end] {
            number(list.len());
            list.iter().for_each(|id| number(id.index()));
        }
        top.iter().for_each(|top| number(*top));
        bytes.extend_from_slice(name.as_bytes());
        let fingerprint = XxHash3_64::oneshot(&bytes);
        // One token longer where everything counts that was not excluded.
        Header {
            fingerprint,
            vocab_len,
            max_depth: max_tokens.saturating_add(1),
            max_bytes: self.max_bytes / 4,
        }
    }
}

fn deepest<S>(passed: &Passed<S>) -> NodeId {
    passed[passed.len() - 1].0
}

impl<C: Constraint> Reader<C> {
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
    fn read<E>(
        &mut self,
        (node, state): &(NodeId, C::State),
        logits: &Arc<Logits>,
        index: usize,
    ) -> Result<Arc<Row>, SampleError<E>> {
        let depth = self.trie.depth(*node);
        let accepting = self.constraint.is_accepting(state);
        let row = logits.row(index);
        // Buffers, so that a row of a large vocabulary makes nothing grow.
        let (mut tokens, mut values) = (std::mem::take(&mut self.tokens), std::mem::take(&mut self.values));
        tokens.clear();
        values.clear();
        let candidates = self.candidates(state, depth, accepting, row, &mut tokens);
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
        let stop = if accepting { end } else { f64::NEG_INFINITY };
        let mut keeps = true;
        let wide = place.as_mut().and_then(Arc::get_mut).and_then(Row::parts_mut);
        let row = match (wide, mask) {
            (Some((wide, place_of_end)), Some(mask)) if wide.is_usable() => {
                wide.hold(logits, index, mask);
                *place_of_end = end;
                // A second visit is a reason too.
                keeps = self.trie.is_evaluated(*node) || self.is_likely(*node);
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
        let mass = add([stop, sum]);
        let forced = candidates == Candidates::Listed(Forced(true));
        self.trie.evaluate(*node, Facts { stop, tokens: sum, mass, forced });
        if keeps {
            self.rows.insert(*node, Arc::clone(&row));
        }
        Ok(row)
    }

    /// What may be proposed: a list in `tokens`, or, of a long row, so many that they are left as a mask where that is. A list may
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

    /// All tokens of a row, as a mask: the same one each time. `ends` says whether what ends a sequence is among them.
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
        while let Some(above) = self.trie.parent(at) {
            let step = self.trie.log_p(at) - self.trie.mass(above);
            // What is not known yet was forced.
            log_q += if step.is_nan() { 0.0 } else { step };
            if log_q < LN_RARE {
                return false;
            }
            at = above;
        }
        true
    }
}

/// Where it stands what may be proposed.
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
    // A mask of few tokens is zeros nearly everywhere, and these are passed over together.
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

    fn prefixes(max_bytes: usize) -> Prefixes<TableModel, Unconstrained> {
        let contexts =
            [(vec![TokenId(0)], vec![0.2, 0.3, 0.5]), (vec![TokenId(0), TokenId(1)], vec![0.0, 0.4, 0.6])];
        let model = TableModel::new(["a", "b"], vec![0.5, 0.25, 0.25], contexts).unwrap();
        let vocabulary = model.vocabulary().clone();
        let task = Task { max_bytes, ..Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 2) };
        Prefixes::new(task, Scope::Allowed)
    }

    fn near(log: f64, probability: f64) -> bool {
        (log.exp() - probability).abs() < 1e-6
    }

    #[test]
    fn passed_prefixes_are_evaluated_in_the_same_pass() {
        let mut prefixes = prefixes(1 << 20);
        let a = prefixes.trie_mut().child(Trie::ROOT, TokenId(0));
        let ab = prefixes.trie_mut().child(a, TokenId(1));
        let mut passed = [Trie::ROOT, a, ab].map(|node| (node, prefixes.start())).to_vec();
        let mut shorter = vec![(ab, prefixes.start())];
        let mut costs = [Cost::default(), Cost::default()];
        let mut held = [Vec::new(), Vec::new()];
        let tokens = prefixes.trie().tokens(ab);
        let [first, second] = &mut costs;
        let [few, all] = &mut held;
        let wants = |passed, held, cost| Wanted { tokens: &tokens, passed, held, cost };
        prefixes.evaluate(&mut [wants(&mut shorter, few, first), wants(&mut passed, all, second)]).unwrap();
        // One for the prompt, one for both; the walk that wanted more pays.
        assert_eq!(costs[1], Cost { positions: 3, passes: 2, proposals: 0 });
        assert_eq!(costs[0], Cost::default());
        assert!(held[0].iter().any(|(node, _)| *node == ab) && held[1].len() == 3);
        assert!(passed.is_empty() && shorter.is_empty());
        let trie = prefixes.trie();
        assert!(near(trie.stop(a), 0.5) && near(trie.mass(a), 1.0) && near(trie.fresh(a), 0.5));
        // At the length limit only the end remains.
        assert!(near(trie.stop(ab), 0.6) && near(trie.mass(ab), 0.6) && trie.fresh(ab) == f64::NEG_INFINITY);
        assert!(prefixes.row(ab).unwrap().list().tokens().is_empty());
        assert_eq!(prefixes.row(a).unwrap().list().tokens(), [0, 1].map(TokenId));
    }

    #[test]
    fn a_full_trie_forgets() {
        let mut prefixes = prefixes(1600);
        for token in [0, 1] {
            prefixes.trie_mut().tick();
            let node = prefixes.trie_mut().child(Trie::ROOT, TokenId(token));
            prefixes.trie_mut().touch(node);
            prefixes.trie_mut().child(node, TokenId(0));
        }
        assert!(prefixes.is_full());
        prefixes.keep_within_limit();
        assert!(!prefixes.is_full());
    }
}
