//! The model's side of a sampler: rows for many prefixes in one pass, with as little computed twice as a bounded number of
//! sequences allows.
//!
//! A sequence holds what the model keeps for its tokens (keys and values). One with the prompt alone is always there, and a
//! few others follow the walks. A prefix is evaluated by the sequence that shares most of its tokens: taken as it is where
//! nothing of it is lost, truncated or forked otherwise. A sequence for each visited prefix was the alternative: it saves
//! the appending of known tokens, and costs a cache of keys and values for each.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;
use unskew_core::{Cost, Extension, LanguageModel, Logits, Rows, TokenId};

/// The most logits that one pass may return, in numbers: 256 MiB. Long runs of forced tokens are evaluated in pieces.
const MAX_LOGITS: usize = 1 << 26;

/// Sequences that are kept beside those of the draws that step together.
const SPARE: usize = 2;

/// Buffers of rows that are kept for the next pass.
const BUFFERS: usize = 2;

/// A prefix whose rows are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request<'a> {
    /// The output tokens.
    pub(crate) tokens: &'a [TokenId],
    /// The depth of the first prefix of it whose row is wanted, at least 1; all from there on are.
    pub(crate) first: usize,
}

struct Slot<S> {
    sequence: S,
    /// The output tokens that it holds behind the prompt.
    tokens: Vec<TokenId>,
    used: u64,
    /// Whether a request of the present batch has it.
    taken: bool,
}

pub(crate) struct Evaluator<M: LanguageModel> {
    model: M,
    prompt: Vec<TokenId>,
    /// The prompt, and nothing else.
    base: M::Sequence,
    prompted: bool,
    slots: Vec<Slot<M::Sequence>>,
    max_slots: usize,
    /// Where the model writes rows, the last written at the end; those that nobody reads any more are used again.
    buffers: Vec<Arc<Logits>>,
    clock: u64,
    /// The sequence that was used last.
    latest: usize,
}

impl<M: LanguageModel> fmt::Debug for Evaluator<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("sequences", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Where the rows of a pass belong.
struct Item {
    request: usize,
    slot: usize,
    /// How many of the request's tokens the sequence holds.
    held: usize,
}

impl<M: LanguageModel> Evaluator<M> {
    /// `batch` is the number of sequences that step together.
    pub(crate) fn new(mut model: M, prompt: Vec<TokenId>, batch: usize) -> Self {
        let base = model.start();
        Self {
            model,
            prompt,
            base,
            prompted: false,
            slots: Vec::new(),
            max_slots: batch.max(1).saturating_add(SPARE),
            buffers: Vec::new(),
            clock: 0,
            latest: 0,
        }
    }

    pub(crate) fn vocab_len(&self) -> usize {
        self.model.vocab_len()
    }

    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.prompt
    }

    /// Puts a buffer that nobody reads at the end: the last one that was written, since the nearest cache still has it.
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

    /// The row after the prompt, the only one of what it answers with.
    pub(crate) fn root(&mut self, cost: &mut Cost) -> Result<Arc<Logits>, M::Error> {
        self.free_buffer();
        let logits = written(&mut self.buffers);
        let tokens: &[TokenId] = if self.prompted { &[] } else { &self.prompt };
        let extension = Extension { sequence: &mut self.base, tokens, rows: Rows::Last };
        self.model.extend(&mut [extension], logits)?;
        // Asking for the last row again evaluates one position.
        cost.positions += tokens.len().max(1) as u64;
        cost.passes += 1;
        self.prompted = true;
        Ok(Arc::clone(self.buffers.last().expect("it was put there")))
    }

    /// The row of one prefix, where the sequence that was used last holds all of it but the last token: so it is, token after
    /// token, while one walk goes on alone. None where it does not, and nothing has changed then. What it does is what
    /// [`evaluate`](Self::evaluate) does there, by a way that is short: behind a pass over a long row, whatever code a token
    /// runs through comes from a far cache, and a list of one request and one sequence is most of it.
    pub(crate) fn next(
        &mut self,
        tokens: &[TokenId],
        cost: &mut Cost,
    ) -> Result<Option<&Arc<Logits>>, M::Error> {
        let Some((last, before)) = tokens.split_last() else { return Ok(None) };
        if !self.slots.get(self.latest).is_some_and(|slot| self.prompted && slot.tokens == before) {
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
        cost.positions += 1;
        cost.passes += 1;
        Ok(self.buffers.last())
    }

    /// The wanted rows of all requests, in as few passes as the limit on logits allows: `read` takes the index of a request,
    /// the depth of a prefix, and its row by index in what a pass wrote. The positions of each request are added to its cost; a pass is counted once, with
    /// the first request that it serves.
    ///
    /// The requests are different from each other, and no more than the batch.
    pub(crate) fn evaluate(
        &mut self,
        requests: &[Request<'_>],
        costs: &mut [Cost],
        mut read: impl FnMut(usize, usize, &Arc<Logits>, usize),
    ) -> Result<(), M::Error> {
        if requests.is_empty() {
            return Ok(());
        }
        if !self.prompted {
            self.root(&mut costs[0])?;
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
                let Request { tokens, first } = &requests[item.request];
                let piece = &tokens[item.held..tokens.len().min(item.held + chunk)];
                let (_, slot) =
                    slots.find(|(index, _)| *index == item.slot).expect("items are in the order of slots");
                // More than the last row is wanted where a prefix before it is.
                let rows = if *first < item.held + piece.len() { Rows::All } else { Rows::Last };
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
            for (item, (piece, rows)) in items.iter_mut().zip(pieces) {
                costs[item.request].positions += piece.len() as u64;
                self.slots[item.slot].tokens.extend_from_slice(piece);
                let count = rows.count(piece.len());
                item.held += piece.len();
                for index in 0..count {
                    let depth = item.held + 1 + index - count;
                    if depth >= requests[item.request].first {
                        read(item.request, depth, logits, row + index);
                    }
                }
                row += count;
            }
            items.retain(|item| item.held < requests[item.request].tokens.len());
        }
        for slot in &mut self.slots {
            slot.taken = false;
        }
        Ok(())
    }

    /// A sequence for each request, which holds none of the tokens whose rows are wanted.
    fn assign(&mut self, requests: &[Request<'_>]) -> SmallVec<[Item; 1]> {
        for slot in &mut self.slots {
            slot.taken = false;
        }
        requests
            .iter()
            .enumerate()
            .map(|(request, Request { tokens, first })| {
                let (slot, held) = self.slot(tokens, *first);
                self.latest = slot;
                Item { request, slot, held }
            })
            .collect()
    }

    fn slot(&mut self, tokens: &[TokenId], first: usize) -> (usize, usize) {
        self.clock += 1;
        let keep = |slot: &Slot<M::Sequence>| {
            // The row of a prefix is computed when its last token is appended.
            let shared = slot.tokens.iter().zip(tokens).take_while(|(left, right)| left == right).count();
            shared.min(first - 1)
        };
        let best = (0..self.slots.len()).max_by_key(|index| {
            let slot = &self.slots[*index];
            (keep(slot), !slot.taken, slot.used)
        });
        let kept = best.map_or(0, |index| keep(&self.slots[index]));
        // As it is, where nothing is lost.
        if let Some(index) =
            best.filter(|index| !self.slots[*index].taken && self.slots[*index].tokens.len() == kept)
        {
            return (self.take(index, kept), kept);
        }
        let oldest = || {
            (0..self.slots.len())
                .filter(|index| !self.slots[*index].taken)
                .min_by_key(|index| self.slots[*index].used)
        };
        let index = if self.slots.len() < self.max_slots {
            None
        } else {
            Some(oldest().expect("there are more sequences than requests"))
        };
        if let Some(index) = index.filter(|index| best == Some(*index)) {
            return (self.take(index, kept), kept);
        }
        // A copy of what is shared.
        let source = best.filter(|_| kept > 0).map_or(&self.base, |best| &self.slots[best].sequence);
        let mut sequence = self.model.fork(source);
        self.model.truncate(&mut sequence, self.prompt.len() + kept);
        // The list of the sequence that it takes the place of has grown already.
        let mut own = index.map_or_else(Vec::new, |index| std::mem::take(&mut self.slots[index].tokens));
        own.clear();
        own.extend_from_slice(&tokens[..kept]);
        let slot = Slot { sequence, tokens: own, used: self.clock, taken: true };
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

    fn take(&mut self, index: usize, kept: usize) -> usize {
        let slot = &mut self.slots[index];
        self.model.truncate(&mut slot.sequence, self.prompt.len() + kept);
        slot.tokens.truncate(kept);
        (slot.used, slot.taken) = (self.clock, true);
        index
    }
}

/// The buffer that [`free_buffer`](Evaluator::free_buffer) has found.
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
        let prompt = vec![TokenId(1)];
        let mut evaluator = Evaluator::new(model(), prompt.clone(), 3);
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
            let requests: Vec<Request<'_>> =
                texts.iter().map(|(tokens, first)| Request { tokens, first: *first }).collect();
            let mut costs = vec![Cost::default(); requests.len()];
            let mut seen = Vec::new();
            evaluator
                .evaluate(&requests, &mut costs, |request, depth, logits, row| {
                    let row = logits.row(row);
                    let context = [&prompt[..], &requests[request].tokens[..depth]].concat();
                    for (logit, probability) in row.iter().zip(oracle.row(&context)) {
                        assert!((f64::from(logit.exp()) - probability).abs() < 1e-6, "{context:?}");
                    }
                    seen.push((request, depth));
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
            assert!(evaluator.slots.len() <= 3 + SPARE);
        }
    }

    #[test]
    fn the_short_way_is_the_long_one() {
        let ids = |text: &[u32]| text.iter().copied().map(TokenId).collect::<Vec<_>>();
        let (mut short, mut long) = (Evaluator::new(model(), vec![], 2), Evaluator::new(model(), vec![], 2));
        let mut taken = 0;
        // Longer by a token, another branch, the same again, shorter, and longer by two.
        for text in [&[0][..], &[0, 1], &[0, 1, 1], &[0, 0, 1], &[0, 0, 1], &[0, 0, 1, 0], &[0], &[0, 1, 1]] {
            let tokens = ids(text);
            let requests = [Request { tokens: &tokens, first: tokens.len() }];
            let (mut costs, mut expected) = ([Cost::default()], [Cost::default()]);
            let mut rows = [Vec::new(), Vec::new()];
            long.evaluate(&requests, &mut expected, |_, _, logits, row| rows[0] = logits.row(row).to_vec())
                .unwrap();
            if let Some(logits) = short.next(&tokens, &mut costs[0]).unwrap() {
                taken += 1;
                assert_eq!(logits.len(), 1);
                rows[1] = logits.row(0).to_vec();
            } else {
                assert_eq!(costs[0], Cost::default());
                short
                    .evaluate(&requests, &mut costs, |_, _, logits, row| rows[1] = logits.row(row).to_vec())
                    .unwrap();
            }
            assert_eq!((rows[0] == rows[1], costs), (true, expected), "{text:?}");
            let of = |slots: &[Slot<_>]| -> Vec<_> {
                slots.iter().map(|slot| (slot.tokens.clone(), slot.used)).collect()
            };
            assert_eq!(of(&short.slots), of(&long.slots));
        }
        assert_eq!(taken, 3);
        assert!(short.next(&[], &mut Cost::default()).unwrap().is_none());
    }

    #[test]
    fn a_shared_prefix_is_not_computed_twice() {
        let mut evaluator = Evaluator::new(model(), vec![], 4);
        let mut cost = Cost::default();
        let ids = |text: &[u32]| text.iter().copied().map(TokenId).collect::<Vec<_>>();
        let mut run = |texts: &[&[u32]]| {
            let texts: Vec<_> = texts.iter().map(|text| ids(text)).collect();
            let requests: Vec<_> =
                texts.iter().map(|tokens| Request { tokens, first: tokens.len() }).collect();
            let mut costs = vec![Cost::default(); requests.len()];
            evaluator.evaluate(&requests, &mut costs, |_, _, _, _| {}).unwrap();
            cost = costs.into_iter().fold(Cost::default(), |mut sum, cost| {
                sum += cost;
                sum
            });
            (cost.positions, cost.passes)
        };
        // The empty prompt's row, and three tokens.
        assert_eq!(run(&[&[0, 1, 1]]), (4, 2));
        // Two ways on, in one pass: the first goes on, the second is a fork.
        assert_eq!(run(&[&[0, 1, 1, 0], &[0, 1, 1, 1]]), (2, 1));
        assert_eq!(run(&[&[0, 1, 0], &[0, 1, 1, 1, 1], &[0, 1, 1, 0, 0]]), (3, 1));
    }
}
