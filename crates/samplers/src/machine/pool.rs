//! The sequences of a model that rollouts share: rows for many prefixes in one pass, with few tokens computed twice.
//!
//! A sequence holds the model's keys and values for its tokens. The pool has one sequence with each prompt alone, and
//! a few others that follow the rollouts. A prefix is evaluated by the sequence that shares most of its tokens. The
//! pool uses this sequence as it is where nothing of it is lost, and truncates or forks it otherwise. Tried instead:
//! a sequence for each visited prefix. It saves the appending of known tokens, and costs a cache of keys and values
//! for each prefix.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;
use unskew_core::{Cost, Extension, LanguageModel, Logits, Rows, TokenId};

use crate::{FedRow, Request};

/// The most logits that one pass may return, in numbers: 256 MiB. Long runs of forced tokens are evaluated in pieces.
const MAX_LOGITS: usize = 1 << 26;

/// The number of sequences that are kept in addition to those of one pass.
const SPARE: usize = 2;

/// The number of buffers of rows that are kept for the next pass.
const BUFFERS: usize = 2;

/// A sequence that holds a prompt and nothing else.
struct Prompt<S> {
    tokens: Arc<[TokenId]>,
    sequence: S,
    /// Whether the sequence has read the prompt.
    read: bool,
    used: u64,
}

struct Slot<S> {
    sequence: S,
    prompt: Arc<[TokenId]>,
    /// The tokens that the sequence holds after the prompt.
    tokens: Vec<TokenId>,
    /// The number of these tokens that were not drafted. The others may be forgotten.
    settled: usize,
    used: u64,
    /// Whether a request of the present pass uses the sequence.
    taken: bool,
}

/// A model and its sequences: as many as one pass extends, and two more.
///
/// One pool serves any number of [machines](crate::Machine), of one prompt or of several.
pub struct SequencePool<M: LanguageModel> {
    model: M,
    prompts: SmallVec<[Prompt<M::Sequence>; 1]>,
    slots: Vec<Slot<M::Sequence>>,
    batch: usize,
    /// Buffers for the model's rows, the last written at the end. A buffer is used again when it has no reader.
    buffers: Vec<Arc<Logits>>,
    clock: u64,
    /// The index of the sequence that was used last.
    latest: usize,
}

impl<M: LanguageModel> fmt::Debug for SequencePool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequencePool").field("sequences", &self.slots.len()).finish_non_exhaustive()
    }
}

/// The place of a request's rows in a pass.
struct Item {
    request: usize,
    slot: usize,
    /// The number of the request's tokens that the sequence holds.
    held: usize,
}

impl<M: LanguageModel> SequencePool<M> {
    /// A pool over `model` whose passes extend up to `batch` sequences.
    pub fn new(model: M, batch: usize) -> Self {
        Self {
            model,
            prompts: SmallVec::new(),
            slots: Vec::new(),
            batch: batch.max(1),
            buffers: Vec::new(),
            clock: 0,
            latest: 0,
        }
    }

    /// The most sequences that one pass extends.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Moves a buffer without readers to the end: the one that was written last, since the nearest cache still has it.
    fn free_buffer(&mut self) {
        let free = self.buffers.iter_mut().rposition(|buffer| Arc::get_mut(buffer).is_some());
        if let Some(index) = free {
            self.buffers[index..].rotate_left(1);
            return;
        }
        if self.buffers.len() == BUFFERS {
            self.buffers.remove(0);
        }
        self.buffers.push(Arc::default());
    }

    /// The sequence of a prompt, which is made if it is new. Requests of the present pass keep their sequences.
    fn prompt(&mut self, tokens: &Arc<[TokenId]>) -> usize {
        self.clock += 1;
        let same = |prompt: &Prompt<_>| Arc::ptr_eq(&prompt.tokens, tokens) || prompt.tokens == *tokens;
        let index = self.prompts.iter().position(same).unwrap_or_else(|| {
            if self.prompts.len() >= self.batch.saturating_add(SPARE) {
                let oldest = (0..self.prompts.len()).min_by_key(|index| self.prompts[*index].used);
                self.prompts.remove(oldest.expect("there are some"));
            }
            let sequence = self.model.start();
            self.prompts.push(Prompt { tokens: Arc::clone(tokens), sequence, read: false, used: 0 });
            self.prompts.len() - 1
        });
        self.prompts[index].used = self.clock;
        index
    }

    /// Reads a prompt, and writes the row after it.
    fn read_prompt(&mut self, index: usize, cost: &mut Cost) -> Result<&Arc<Logits>, M::Error> {
        self.free_buffer();
        let logits = written(&mut self.buffers);
        let Prompt { tokens, sequence, read, .. } = &mut self.prompts[index];
        let tokens: &[TokenId] = if *read { &[] } else { tokens };
        self.model.extend(&mut [Extension { sequence, tokens, rows: Rows::Last }], logits)?;
        // Asking for the last row again evaluates one position.
        cost.positions += tokens.len().max(1) as u64;
        cost.passes += 1;
        *read = true;
        Ok(self.buffers.last().expect("it was put there"))
    }

    /// The row of one prefix, where the sequence that was used last holds all of the prefix but its last token. That
    /// is the case token after token while one rollout goes on alone. `None` otherwise, and nothing has changed then.
    ///
    /// The result is that of the general way, and the code is short: after a pass over a long row, the code for a
    /// token comes from a far cache, and the handling of lists of one request and one sequence is most of that code.
    fn next(&mut self, request: &Request, cost: &mut Cost) -> Result<Option<&Arc<Logits>>, M::Error> {
        let Request { prompt, tokens, first, .. } = request;
        let Some((last, before)) = tokens.split_last().filter(|_| *first == tokens.len()) else {
            return Ok(None);
        };
        let follows = |slot: &Slot<_>| slot.tokens == before && Arc::ptr_eq(&slot.prompt, prompt);
        if !self.slots.get(self.latest).is_some_and(follows) {
            return Ok(None);
        }
        self.free_buffer();
        let logits = written(&mut self.buffers);
        self.clock += 1;
        let slot = &mut self.slots[self.latest];
        slot.used = self.clock;
        let tokens = std::slice::from_ref(last);
        let extension = Extension { sequence: &mut slot.sequence, tokens, rows: Rows::Last };
        self.model.extend(&mut [extension], logits)?;
        slot.tokens.push(*last);
        slot.settled = slot.tokens.len() - request.drafted;
        cost.positions += 1;
        cost.passes += 1;
        Ok(self.buffers.last())
    }

    /// Evaluates the rows of `requests`, [`batch`](Self::batch) requests in a pass, and in more passes where the
    /// prompts are unread or a pass would write more than 256 MiB of logits.
    ///
    /// `read` takes the logits of a pass and the rows of requests among them, those of each request in the order of
    /// depths. The positions of a request are added to its cost. A pass is counted once, with the first request that
    /// it serves. No two requests have the same tokens, unless they have none.
    ///
    /// # Errors
    ///
    /// When the model fails.
    pub fn evaluate(
        &mut self,
        requests: &[Request],
        costs: &mut [Cost],
        mut read: impl FnMut(&Arc<Logits>, &[FedRow]),
    ) -> Result<(), M::Error> {
        if let ([request], [cost]) = (requests, &mut *costs)
            && let Some(logits) = self.next(request, cost)?
        {
            read(logits, &[FedRow { request: 0, depth: request.tokens.len(), row: 0 }]);
            return Ok(());
        }
        if let ([request], [cost]) = (requests, &mut *costs)
            && request.first == 0
            && !request.tokens.is_empty()
            && !request.prompt.is_empty()
        {
            return self.with_prompt(request, cost, read);
        }
        for first in (0..requests.len()).step_by(self.batch) {
            let end = requests.len().min(first.saturating_add(self.batch));
            let read = |logits: &Arc<Logits>, rows: &mut [FedRow]| {
                rows.iter_mut().for_each(|row| row.request += first);
                read(logits, rows);
            };
            self.pass(&requests[first..end], &mut costs[first..end], read)?;
        }
        Ok(())
    }

    /// The row after the prompt and the rows after tokens that follow it, in one pass. The prompt is read in the same
    /// pass, or its last token is read again.
    fn with_prompt(
        &mut self,
        request: &Request,
        cost: &mut Cost,
        mut read: impl FnMut(&Arc<Logits>, &[FedRow]),
    ) -> Result<(), M::Error> {
        let Request { prompt, tokens, drafted, .. } = request;
        self.assign(&[]);
        let base = self.prompt(prompt);
        let (index, _) = self.slot(request);
        let slot = &mut self.slots[index];
        let read_before = self.model.len(&slot.sequence).min(prompt.len() - 1);
        self.model.truncate(&mut slot.sequence, read_before);
        let piece: Vec<TokenId> = prompt[read_before..].iter().chain(tokens).copied().collect();
        self.free_buffer();
        let logits = written(&mut self.buffers);
        let slot = &mut self.slots[index];
        let rows = Rows::From(prompt.len() - read_before - 1);
        let extension = Extension { sequence: &mut slot.sequence, tokens: &piece, rows };
        if let Err(error) = self.model.extend(&mut [extension], logits) {
            // The sequence does not hold the prompt any more.
            self.slots.remove(index);
            return Err(error);
        }
        slot.tokens.extend_from_slice(tokens);
        slot.settled = tokens.len() - drafted;
        self.latest = index;
        cost.positions += piece.len() as u64;
        cost.passes += 1;
        if !self.prompts[base].read {
            let mut sequence = self.model.fork(&slot.sequence);
            self.model.truncate(&mut sequence, prompt.len());
            self.prompts[base].sequence = sequence;
            self.prompts[base].read = true;
        }
        let logits = self.buffers.last().expect("it was put there");
        let rows: Vec<FedRow> =
            (0..=tokens.len()).map(|depth| FedRow { request: 0, depth, row: depth }).collect();
        read(logits, &rows);
        Ok(())
    }

    fn pass(
        &mut self,
        requests: &[Request],
        costs: &mut [Cost],
        mut read: impl FnMut(&Arc<Logits>, &mut [FedRow]),
    ) -> Result<(), M::Error> {
        for index in 0..requests.len() {
            let Request { prompt, first, .. } = &requests[index];
            let same = |other: &Request| other.first == 0 && other.prompt == *prompt;
            let at = self.prompt(prompt);
            if *first == 0 && !requests[..index].iter().any(same) {
                let logits = self.read_prompt(at, &mut costs[index])?;
                let with_same = (index..requests.len()).filter(|other| same(&requests[*other]));
                let mut rows: Vec<FedRow> =
                    with_same.map(|request| FedRow { request, depth: 0, row: 0 }).collect();
                read(logits, &mut rows);
            } else if !self.prompts[at].read {
                self.read_prompt(at, &mut costs[index])?;
            }
        }
        let mut items = self.assign(requests);
        while !items.is_empty() {
            self.free_buffer();
            let logits = written(&mut self.buffers);
            let chunk = (MAX_LOGITS / (self.model.vocab_len() * items.len()).max(1)).max(1);
            items.sort_unstable_by_key(|item| item.slot);
            let mut pieces: SmallVec<[(&[TokenId], Rows); 1]> = SmallVec::new();
            let mut batch: SmallVec<[Extension<'_, M::Sequence>; 1]> = SmallVec::new();
            let mut slots = self.slots.iter_mut().enumerate();
            for item in &items {
                let Request { tokens, first, .. } = &requests[item.request];
                let piece = &tokens[item.held..tokens.len().min(item.held + chunk)];
                let (_, slot) =
                    slots.find(|(index, _)| *index == item.slot).expect("items are in the order of slots");
                // The row of depth d comes with the token of index d - 1.
                let rows = Rows::From((*first).max(1).saturating_sub(item.held + 1));
                batch.push(Extension { sequence: &mut slot.sequence, tokens: piece, rows });
                pieces.push((piece, rows));
            }
            self.model.extend(&mut batch, logits)?;
            drop(batch);
            let logits = self.buffers.last().expect("it was put there");
            if let Some(first) = items.iter().map(|item| item.request).min() {
                costs[first].passes += 1;
            }
            let mut row = 0;
            let mut fed = Vec::with_capacity(logits.len());
            for (item, (piece, rows)) in items.iter_mut().zip(pieces) {
                costs[item.request].positions += piece.len() as u64;
                self.slots[item.slot].tokens.extend_from_slice(piece);
                let count = rows.count(piece.len());
                item.held += piece.len();
                for index in 0..count {
                    let depth = item.held + 1 + index - count;
                    if depth >= requests[item.request].first {
                        fed.push(FedRow { request: item.request, depth, row: row + index });
                    }
                }
                row += count;
            }
            // In the order of requests, so that the rows of one machine come together.
            fed.sort_by_key(|fed| fed.request);
            read(logits, &mut fed);
            items.retain(|item| item.held < requests[item.request].tokens.len());
        }
        for slot in &mut self.slots {
            slot.taken = false;
        }
        Ok(())
    }

    /// A sequence for each request that has tokens. It holds none of the tokens whose rows are requested.
    fn assign(&mut self, requests: &[Request]) -> SmallVec<[Item; 1]> {
        for slot in &mut self.slots {
            slot.taken = false;
        }
        let with_tokens = requests.iter().enumerate().filter(|(_, request)| !request.tokens.is_empty());
        with_tokens
            .map(|(index, request)| {
                let (slot, held) = self.slot(request);
                self.latest = slot;
                Item { request: index, slot, held }
            })
            .collect()
    }

    fn slot(&mut self, Request { prompt, tokens, first, drafted }: &Request) -> (usize, usize) {
        let base = self.prompt(prompt);
        let settled = tokens.len() - drafted;
        let prompt = Arc::clone(&self.prompts[base].tokens);
        let keep = |slot: &Slot<M::Sequence>| {
            if !Arc::ptr_eq(&slot.prompt, &prompt) {
                return 0;
            }
            // The row of a prefix is computed when its last token is appended.
            let shared = slot.tokens.iter().zip(tokens).take_while(|(left, right)| left == right).count();
            shared.min((*first).max(1) - 1)
        };
        let best = (0..self.slots.len()).max_by_key(|index| {
            let slot = &self.slots[*index];
            (keep(slot), Arc::ptr_eq(&slot.prompt, &prompt), !slot.taken, slot.used)
        });
        let best = best.filter(|index| Arc::ptr_eq(&self.slots[*index].prompt, &prompt));
        let kept = best.map_or(0, |index| keep(&self.slots[index]));
        // The sequence is used as it is, where nothing of it is lost.
        if let Some(index) =
            best.filter(|index| !self.slots[*index].taken && self.slots[*index].settled <= kept)
        {
            return (self.take(index, kept, settled), kept);
        }
        let oldest = || {
            (0..self.slots.len())
                .filter(|index| !self.slots[*index].taken)
                .min_by_key(|index| self.slots[*index].used)
        };
        let index = if self.slots.len() < self.batch.saturating_add(SPARE) {
            None
        } else {
            Some(oldest().expect("there are more sequences than requests"))
        };
        if let Some(index) = index.filter(|index| best == Some(*index)) {
            return (self.take(index, kept, settled), kept);
        }
        // Otherwise a copy of the shared part.
        let source = best.filter(|_| kept > 0);
        let source = source.map_or(&self.prompts[base].sequence, |best| &self.slots[best].sequence);
        let mut sequence = self.model.fork(source);
        // A prompt that is read in the same pass is not in the sequence yet.
        let len = self.model.len(&sequence).min(prompt.len() + kept);
        self.model.truncate(&mut sequence, len);
        // The list of the replaced sequence has its capacity already.
        let mut own = index.map_or_else(Vec::new, |index| std::mem::take(&mut self.slots[index].tokens));
        own.clear();
        own.extend_from_slice(&tokens[..kept]);
        let slot = Slot { sequence, prompt, tokens: own, settled, used: self.clock, taken: true };
        match index {
            Some(index) => {
                self.slots[index] = slot;
                (index, kept)
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1, kept)
            }
        }
    }

    fn take(&mut self, index: usize, kept: usize, settled: usize) -> usize {
        let slot = &mut self.slots[index];
        self.model.truncate(&mut slot.sequence, slot.prompt.len() + kept);
        slot.tokens.truncate(kept);
        (slot.used, slot.taken, slot.settled) = (self.clock, true, settled);
        index
    }
}

/// The buffer that [`free_buffer`](SequencePool::free_buffer) has moved to the end.
fn written(buffers: &mut [Arc<Logits>]) -> &mut Logits {
    buffers.last_mut().and_then(Arc::get_mut).expect("nobody reads it")
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};
    use unskew_core::TableModel;

    use super::*;

    /// Every prefix has a row of its own.
    fn model() -> TableModel {
        let mut contexts: Vec<Vec<TokenId>> = vec![vec![]];
        for length in 0..6 {
            let longer: Vec<_> = contexts.iter().filter(|context| context.len() == length).cloned().collect();
            contexts.extend(
                longer.iter().flat_map(|context| [0, 1].map(|id| [&context[..], &[TokenId(id)]].concat())),
            );
        }
        let rows = contexts.into_iter().enumerate().map(|(index, context)| {
            let index = f64::from(u32::try_from(index).unwrap());
            (context, vec![(index + 1.0) / 1000.0, 0.1, 0.9 - (index + 1.0) / 1000.0])
        });
        TableModel::new(["0", "1"], vec![0.2, 0.3, 0.5], rows.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn rows_are_those_of_a_fresh_sequence_in_any_order() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let prompt: Arc<[TokenId]> = [TokenId(1)].into();
        let mut pool = SequencePool::new(model(), 3);
        let oracle = model();
        for _ in 0..300 {
            let mut texts: Vec<(Vec<TokenId>, usize)> = Vec::new();
            for _ in 0..1 + rng.next_u32() % 3 {
                let length = 1 + (rng.next_u32() % 4) as usize;
                let tokens = (0..length).map(|_| TokenId(rng.next_u32() % 2)).collect();
                if texts.iter().all(|(other, _)| *other != tokens) {
                    texts.push((tokens, 1 + rng.next_u32() as usize % length));
                }
            }
            let request =
                |(tokens, first)| Request { prompt: Arc::clone(&prompt), tokens, first, drafted: 0 };
            let requests: Vec<Request> = texts.into_iter().map(request).collect();
            let mut costs = vec![Cost::default(); requests.len()];
            let mut seen = Vec::new();
            pool.evaluate(&requests, &mut costs, |logits, rows| {
                for FedRow { request, depth, row } in rows {
                    let row = logits.row(*row);
                    let context = [&prompt[..], &requests[*request].tokens[..*depth]].concat();
                    for (logit, probability) in row.iter().zip(oracle.row(&context)) {
                        assert!((f64::from(logit.exp()) - probability).abs() < 1e-6, "{context:?}");
                    }
                    seen.push((*request, *depth));
                }
            })
            .unwrap();
            let mut wanted: Vec<_> = requests
                .iter()
                .enumerate()
                .flat_map(|(index, request)| {
                    (request.first..=request.tokens.len()).map(move |depth| (index, depth))
                })
                .collect();
            seen.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(seen, wanted);
            assert!(costs.iter().map(|cost| cost.passes).sum::<u64>() <= 2);
            assert!(pool.slots.len() <= 3 + SPARE);
        }
    }

    #[test]
    fn the_short_way_is_the_long_one() {
        let ids = |text: &[u32]| text.iter().copied().map(TokenId).collect::<Vec<_>>();
        let prompt: Arc<[TokenId]> = Arc::default();
        let (mut short, mut long) = (SequencePool::new(model(), 2), SequencePool::new(model(), 2));
        let mut taken = 0;
        // A token longer, another branch, the same again, shorter, and longer by two.
        for text in [&[0][..], &[0, 1], &[0, 1, 1], &[0, 0, 1], &[0, 0, 1], &[0, 0, 1, 0], &[0], &[0, 1, 1]] {
            let tokens = ids(text);
            let request = Request { prompt: Arc::clone(&prompt), first: tokens.len(), tokens, drafted: 0 };
            let requests = std::slice::from_ref(&request);
            let (mut costs, mut expected) = ([Cost::default()], [Cost::default()]);
            let mut rows = [Vec::new(), Vec::new()];
            let read = |logits: &Arc<Logits>, fed: &mut [FedRow]| rows[0] = logits.row(fed[0].row).to_vec();
            long.pass(requests, &mut expected, read).unwrap();
            if let Some(logits) = short.next(&request, &mut costs[0]).unwrap() {
                taken += 1;
                assert_eq!(logits.len(), 1);
                rows[1] = logits.row(0).to_vec();
            } else {
                assert_eq!(costs[0], Cost::default());
                let read =
                    |logits: &Arc<Logits>, fed: &mut [FedRow]| rows[1] = logits.row(fed[0].row).to_vec();
                short.pass(requests, &mut costs, read).unwrap();
            }
            assert_eq!((rows[0] == rows[1], costs), (true, expected), "{text:?}");
            let of = |slots: &[Slot<_>]| -> Vec<_> { slots.iter().map(|slot| slot.tokens.clone()).collect() };
            assert_eq!(of(&short.slots), of(&long.slots));
        }
        assert_eq!(taken, 3);
        let empty = Request { prompt, tokens: Vec::new(), first: 0, drafted: 0 };
        assert!(short.next(&empty, &mut Cost::default()).unwrap().is_none());
    }

    #[test]
    fn a_shared_prefix_is_not_computed_twice() {
        let mut pool = SequencePool::new(model(), 4);
        let mut cost = Cost::default();
        let ids = |text: &[u32]| text.iter().copied().map(TokenId).collect::<Vec<_>>();
        let mut run = |texts: &[&[u32]]| {
            let texts: Vec<_> = texts.iter().map(|text| ids(text)).collect();
            let request = |tokens: Vec<TokenId>| Request {
                prompt: Arc::default(),
                first: tokens.len(),
                tokens,
                drafted: 0,
            };
            let requests: Vec<_> = texts.into_iter().map(request).collect();
            let mut costs = vec![Cost::default(); requests.len()];
            pool.evaluate(&requests, &mut costs, |_, _| {}).unwrap();
            cost = costs.into_iter().fold(Cost::default(), |mut sum, cost| {
                sum += cost;
                sum
            });
            (cost.positions, cost.passes)
        };
        // The row of the empty prompt, and three tokens.
        assert_eq!(run(&[&[0, 1, 1]]), (4, 2));
        // Two continuations in one pass: the sequence goes on with the first, and is forked for the second.
        assert_eq!(run(&[&[0, 1, 1, 0], &[0, 1, 1, 1]]), (2, 1));
        assert_eq!(run(&[&[0, 1, 0], &[0, 1, 1, 1, 1], &[0, 1, 1, 0, 0]]), (3, 1));
    }
}
