//! Reading rows of the model: the tokens that may be proposed from each row, and the numbers of its prefix.
//!
//! The rows of one pass are read together. Their masks are made in one batch where the constraint gains by a batch.
//! Rows outside host memory are asked about in one submission, together with the draws that rollouts wait for.

use std::{convert::Infallible, sync::Arc};

use unskew_core::{
    Constraint, Logits, MaskBatch, RowError, TokenId, TokenMask, logprob,
    rows::{Among, LogitRows, Outcome, Pick, RowQuestion},
};

use super::{Scope, Session};
use crate::{
    SampleError, Task,
    row::{DenseRow, Elsewhere, LONG, Row},
    tree::{NodeId, NodeStats, add},
};

/// If fewer than one in 1,000 outputs reach a prefix, its long row is not kept at the first visit: only some hundreds
/// of long rows fit.
const LN_RARE: f64 = -6.9;

/// At most this many tokens of a long row are kept as a list.
const FEW: usize = 1 << 10;

/// A row to be read.
#[derive(Debug)]
pub(crate) struct Unread<'a, S> {
    /// The prefix.
    pub(crate) node: NodeId,
    /// The constraint's state after the prefix.
    pub(crate) state: &'a S,
    /// The index of the row among the logits.
    pub(crate) row: usize,
    /// The outcomes that rollouts pick from this row at once, if it lies outside host memory.
    pub(crate) picks: Vec<Pick>,
}

/// A row that was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) row: Arc<Row>,
    /// The outcomes of the picks, for a row outside host memory.
    pub(crate) picked: Vec<Option<Outcome>>,
}

/// The tokens that may be proposed at a prefix.
struct Candidates {
    mask: Arc<TokenMask>,
    /// Whether the output may end.
    accepting: bool,
    /// Whether the output may not end and only one token is allowed.
    forced: bool,
    /// The tokens that end the output, where these are not the ids that end a sequence.
    ends: Option<Arc<TokenMask>>,
}

impl<C: Constraint> Session<C> {
    /// Reads rows of one pass in host memory.
    pub(crate) fn read(
        &mut self,
        unread: &[Unread<'_, C::State>],
        logits: &Arc<Logits>,
    ) -> Result<Vec<Read>, SampleError<Infallible>> {
        let candidates = self.candidates(unread, logits)?;
        if unread.first().is_some_and(|unread| logits.host(unread.row).is_none()) {
            return self.read_elsewhere(unread, candidates, logits);
        }
        let mut all = Vec::with_capacity(unread.len());
        for (Unread { node, state, row: index, .. }, candidates) in unread.iter().zip(candidates) {
            let row = logits.row(*index);
            let Candidates { mask, accepting, forced, ends } = candidates;
            let long = row.len() >= LONG;
            let few = long && !has_more_than(mask.words(), FEW);
            let mut dense = match few {
                true => DenseRow::listed(row, mask.ids().take_while(|id| id.index() < row.len()).collect()),
                false => DenseRow::under(logits, *index, mask),
            };
            let normalizer = dense.normalizer();
            if !normalizer.is_finite() {
                return Err(SampleError::NotADistribution { tokens: self.tree.depth(*node) });
            }
            // A constraint may cover padding tokens beyond the model's row.
            let log_p = |id: &TokenId| {
                row.get(id.index()).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit) - normalizer)
            };
            let end = match (ends, &self.task.end[..]) {
                (Some(ends), _) => DenseRow::under(logits, *index, ends).sum().min(0.0),
                (None, [id]) => log_p(id),
                (None, ends) => logprob::log_sum_exp(ends.iter().map(log_p)),
            };
            let eos = if accepting { end } else { f64::NEG_INFINITY };
            // A second visit is a reason to keep a row too.
            let keeps = !long || few || self.tree.is_scored(*node) || self.is_likely(*node);
            if keeps {
                dense.detach();
            }
            let row = Arc::new(Row::dense(dense, end));
            self.score(*node, eos, &row, forced, keeps);
            self.look_ahead(*node, state, &row, eos)?;
            all.push(Read { row, picked: Vec::new() });
        }
        Ok(all)
    }

    /// The same for rows outside host memory: all questions go in one submission.
    fn read_elsewhere(
        &mut self,
        unread: &[Unread<'_, C::State>],
        candidates: Vec<Candidates>,
        logits: &Arc<Logits>,
    ) -> Result<Vec<Read>, SampleError<Infallible>> {
        let mut questions = Vec::with_capacity(unread.len());
        let lists: Vec<Option<Vec<TokenId>>> = candidates
            .iter()
            .map(|Candidates { ends, .. }| ends.as_ref().map(|ends| ends.ids().collect()))
            .collect();
        for ((Unread { row, picks, .. }, Candidates { mask, accepting, .. }), list) in
            unread.iter().zip(&candidates).zip(&lists)
        {
            let among = Among::Mask(mask.as_ref().as_ref());
            let all = picks.iter().copied().chain(picks.is_empty().then_some(Pick::Nothing));
            // Where no outcome is picked, the probability of the end is asked even if the end is not allowed: AWRS
            // proposes it.
            let asks_end = *accepting || picks.is_empty();
            let ends = if asks_end { list.as_deref().unwrap_or(&self.task.end) } else { &[] };
            let of = |pick| RowQuestion { ends, pick, ..RowQuestion::mass(*row, among) };
            questions.extend(all.map(of));
        }
        let mut answers = Vec::with_capacity(questions.len());
        logits.answer(&questions, &mut answers).map_err(|error| match error {
            RowError::NotADistribution { row } => {
                let node = unread.iter().find(|unread| unread.row == row).map(|unread| unread.node);
                SampleError::NotADistribution { tokens: node.map_or(0, |node| self.tree.depth(node)) }
            }
            error => error.into(),
        })?;
        let mut answers = answers.into_iter();
        let mut all = Vec::with_capacity(unread.len());
        for (Unread { node, state, row, picks }, candidates) in unread.iter().zip(candidates) {
            let Candidates { mask, accepting, forced, .. } = candidates;
            let own: Vec<_> = answers.by_ref().take(picks.len().max(1)).collect();
            let first = own.first().expect("there is an answer to each question");
            let row =
                Arc::new(Row::elsewhere(Elsewhere::new(logits, *row, mask, first.log_mass), first.log_end));
            let eos = if accepting { first.log_end } else { f64::NEG_INFINITY };
            // The row keeps the whole pass on its device.
            let keeps = self.tree.is_scored(*node) || self.is_likely(*node);
            self.score(*node, eos, &row, forced, keeps);
            self.look_ahead(*node, state, &row, eos)?;
            let picked = own.iter().take(picks.len()).map(|answer| answer.picked).collect();
            all.push(Read { row, picked });
        }
        Ok(all)
    }

    /// Enters the numbers of a prefix into the tree, and keeps its row.
    fn score(&mut self, node: NodeId, eos: f64, row: &Arc<Row>, forced: bool, keeps: bool) {
        let tokens = row.sum();
        self.tree.score(node, NodeStats { eos, tokens, valid_mass: add([eos, tokens]), forced });
        if keeps {
            self.rows.insert(node, Arc::clone(row));
        }
    }

    /// The tokens that may be proposed at each prefix.
    fn candidates(
        &mut self,
        unread: &[Unread<'_, C::State>],
        logits: &Logits,
    ) -> Result<Vec<Candidates>, SampleError<Infallible>> {
        let vocab_len = self.task.constraint.vocab_len();
        let mut all = Vec::with_capacity(unread.len());
        // The indices of the masks that have to be made.
        let mut unmade = Vec::new();
        let is_open = self.scope == Scope::Unmasked;
        let mut top = if is_open { vec![None; unread.len()] } else { self.top_candidates(unread, logits)? };
        for (place, Unread { node, state, .. }) in unread.iter().enumerate() {
            let depth = self.tree.depth(*node);
            let accepting = self.task.constraint.is_accepting(state);
            let mut forced = false;
            let ends = if accepting { self.ends(state, logits.vocab_len()) } else { None };
            let mask = if self.scope == Scope::Unmasked || (self.scope == Scope::Everything && depth > 0) {
                match &ends {
                    Some(ends) => Arc::new(all_but(ends)),
                    // An end that is not accepted fails as a token does.
                    None => self.open(self.scope == Scope::Everything && !accepting, logits.vocab_len()),
                }
            } else if depth >= self.task.max_tokens {
                Arc::new(TokenMask::new(0))
            } else if let Some(mask) = top[place].take() {
                forced = self.task.constraint.forced(&mut self.scratch, state).is_some();
                Arc::new(mask)
            } else if let Some(mask) = self.task.constraint.ready_mask(&self.scratch, state) {
                forced = !accepting && has_one(mask.words());
                Arc::new(mask.to_owned())
            } else {
                unmade.push(place);
                Arc::clone(&self.mask)
            };
            all.push(Candidates { mask, accepting, forced, ends });
        }
        match unmade[..] {
            [] => {}
            [place] => {
                all[place].mask = Arc::new(TokenMask::new(0));
                let of_vocab = self.mask.len() == vocab_len;
                if !of_vocab || Arc::get_mut(&mut self.mask).is_none() {
                    self.mask = Arc::new(TokenMask::new(vocab_len));
                }
                let mask = Arc::get_mut(&mut self.mask).expect("nobody else has it");
                self.task.constraint.fill_mask(&mut self.scratch, unread[place].state, mask.as_mut());
                all[place].mask = Arc::clone(&self.mask);
            }
            _ => {
                let mut masks = MaskBatch::new(unmade.len(), vocab_len);
                let mut states = unmade.iter().map(|place| unread[*place].state);
                self.task.constraint.fill_masks(&mut self.scratch, &mut states, &mut masks);
                for (row, place) in unmade.iter().enumerate() {
                    all[*place].mask = Arc::new(masks.row(row).to_owned());
                }
            }
        }
        for place in unmade {
            let Candidates { mask, accepting, forced, .. } = &mut all[place];
            *forced = !*accepting && has_one(mask.words());
            // No output is lost in silence.
            if !*accepting && !has_more_than(mask.words(), 0) {
                let Unread { node, state, .. } = &unread[place];
                if let Some(limit) = self.task.constraint.beyond(&mut self.scratch, state) {
                    return Err(SampleError::Beyond { limit, tokens: self.tree.depth(*node) });
                }
            }
        }
        Ok(all)
    }

    /// The tokens that end the output in a state that accepts, where these are not the ids that end a sequence.
    fn ends(&mut self, state: &C::State, len: usize) -> Option<Arc<TokenMask>> {
        if !self.is_free() {
            return None;
        }
        let mut ends = TokenMask::new(len.max(self.task.constraint.vocab_len()));
        let known = self.task.constraint.fill_ends(&mut self.scratch, state, ends.as_mut());
        known.then(|| Arc::new(ends))
    }

    /// Scores a prefix at which the output ends whatever the model writes next. Answers whether it is one.
    pub(crate) fn end_surely(&mut self, node: NodeId, state: &C::State) -> bool {
        if !self.is_over(state) {
            return false;
        }
        self.tree.score(node, NodeStats::OVER);
        if self.valuing.is_some() {
            let key = self.task.constraint.state_key(&mut self.scratch, state);
            self.note_end(node, key);
        }
        true
    }

    /// For each row, the allowed tokens among the most probable ones. They are verified together, and no mask is
    /// made. `None` if all tokens are candidates, or if none of the most probable ones is allowed.
    fn top_candidates(
        &mut self,
        unread: &[Unread<'_, C::State>],
        logits: &Logits,
    ) -> Result<Vec<Option<TokenMask>>, SampleError<Infallible>> {
        let Some(top) = self.task.top else { return Ok(vec![None; unread.len()]) };
        let mut rows = Vec::with_capacity(unread.len());
        for Unread { row, .. } in unread {
            rows.push(self.most_probable(&logits.to_host(*row)?, top));
        }
        let each = rows.iter().map(Vec::len).max().unwrap_or(0);
        // The rows of one batch have the same length. A shorter row repeats its first token; an empty row asks about
        // token 0, and its answer is not read.
        let padded = |row: &Vec<TokenId>| {
            let pad = row.first().copied().unwrap_or_default();
            row.iter().copied().chain(std::iter::repeat(pad)).take(each).collect::<Vec<_>>()
        };
        let candidates: Vec<TokenId> = rows.iter().flat_map(padded).collect();
        let mut valid = vec![false; candidates.len()];
        let mut states = unread.iter().map(|unread| unread.state);
        self.task.constraint.verify(&mut self.scratch, &mut states, each, &candidates, &mut valid);
        let mut masks = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let mut mask = TokenMask::new(self.task.constraint.vocab_len());
            for (token, valid) in row.iter().zip(&valid[index * each..]) {
                if *valid {
                    mask.as_mut().insert(*token);
                }
            }
            masks.push((!mask.none()).then_some(mask));
        }
        Ok(masks)
    }

    /// The `top` most probable tokens of a row, in ascending order. Of equally probable tokens, the first.
    fn most_probable(&self, row: &[f32], top: usize) -> Vec<TokenId> {
        let mut best: Vec<TokenId> = (0..row.len().min(self.task.constraint.vocab_len()))
            .map(TokenId::from_index)
            .filter(|id| row[id.index()] > f32::NEG_INFINITY && !self.task.end.contains(id))
            .collect();
        if top < best.len() {
            let order = |left: &TokenId, right: &TokenId| {
                row[right.index()].total_cmp(&row[left.index()]).then(left.cmp(right))
            };
            best.select_nth_unstable_by(top, order);
            best.truncate(top);
            best.sort_unstable();
        }
        best
    }

    /// All tokens of a row, as a mask that is made once. `ends` says whether the tokens that end a sequence are among
    /// them.
    fn open(&mut self, ends: bool, len: usize) -> Arc<TokenMask> {
        let Self { task: Task { end, .. }, open, .. } = self;
        let open = &mut open[usize::from(ends)];
        if let Some(mask) = open.as_ref().filter(|mask| mask.len() == len) {
            return Arc::clone(mask);
        }
        let mut mask = TokenMask::new(len);
        mask.as_mut().fill();
        end.iter().filter(|id| !ends && id.index() < len).for_each(|id| mask.as_mut().remove(*id));
        Arc::clone(open.insert(Arc::new(mask)))
    }

    /// Whether enough outputs come to a prefix that its row is worth a copy. The estimate uses the masked
    /// distributions along the prefix, as far as they are known. The number of model calls depends on it, and no
    /// output does.
    fn is_likely(&self, node: NodeId) -> bool {
        let (mut at, mut log_q) = (node, 0.0);
        while let Some(above) = self.tree.parent(at) {
            let step = self.tree.log_p(at) - self.tree.valid_mass(above);
            // A step that is not known was forced.
            log_q += if step.is_nan() { 0.0 } else { step };
            if log_q < LN_RARE {
                return false;
            }
            at = above;
        }
        true
    }
}

/// The tokens that a mask does not have.
fn all_but(mask: &TokenMask) -> TokenMask {
    let mut others = TokenMask::new(mask.len());
    let mut all = others.as_mut();
    all.fill();
    mask.ids().for_each(|id| all.remove(id));
    others
}

/// Whether a mask has exactly one token.
fn has_one(words: &[u32]) -> bool {
    has_more_than(words, 0) && !has_more_than(words, 1)
}

/// Whether a mask has more than `many` tokens. Stops reading as soon as the answer is known.
fn has_more_than(words: &[u32], many: usize) -> bool {
    let mut count = 0;
    let (chunks, rest) = words.as_chunks::<16>();
    // A mask of few tokens is zero nearly everywhere. Zero words are passed over in chunks.
    let chunks = chunks.iter().filter(|words| words.iter().fold(0, |any, word| any | word) != 0);
    chunks.map(<[u32; 16]>::as_slice).chain([rest]).any(|words| {
        count += words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        count > many
    })
}
