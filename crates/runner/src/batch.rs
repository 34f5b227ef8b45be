//! A batch of extensions as passes: which positions of which sequences are evaluated together, and the errors of a
//! batch.
//!
//! The new positions of all sequences of a batch are one matrix of rows, without padding. Sequences of any length
//! therefore share a pass, with one new token or many (a prompt, a draft to verify). Long prompts are cut into passes
//! of at most [`PASS_ROWS`] rows, which bounds the memory of intermediate results.

use std::sync::atomic::{AtomicU64, Ordering};

use unskew_core::{BatchError, BatchLimits, Rows, TokenId};

use crate::caches::Held;
use crate::config::ModelConfig;
use crate::math::rotary::{Regime, Regimes};

/// The most rows of one pass. Above a few hundred rows a pass is no faster per row.
const PASS_ROWS: usize = 512;

/// An error of evaluating a batch. No sequence of the batch has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The batch is refused.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The device failed to compute or to hand over the logits.
    #[error("the device failed to evaluate the batch: {reason}")]
    Device {
        /// The device's error.
        reason: String,
    },
}

/// An id that no other model of this process has; its sequences have it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelId(u64);

impl ModelId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// An extension of a batch: a sequence's own tokens, and those to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) model: ModelId,
    pub(crate) old: &'a [TokenId],
    pub(crate) new: &'a [TokenId],
    pub(crate) rows: Rows,
    pub(crate) held: Held,
}

impl Item<'_> {
    /// The token at a position.
    pub(crate) fn token(&self, position: usize) -> TokenId {
        self.old.get(position).copied().unwrap_or_else(|| self.new[position - self.old.len()])
    }

    /// The positions to evaluate, regime by regime, so that the logits from `wanted_from` on are known.
    fn work(&self, index: usize, wanted_from: usize, regimes: Regimes, out: &mut Vec<Work>) {
        let len = self.old.len() + self.new.len();
        let mut push = |regime, from: usize, end| {
            let start = self.held.in_regime(regime).min(from);
            out.push(Work { item: index, regime, start, end, wanted_from: from });
        };
        if wanted_from >= len {
            // Nothing is asked for. Other regimes wait until a row is.
            let regime = len.checked_sub(1).map_or(0, |last| regimes.of(last));
            if regime == 0 {
                push(0, len, len);
            }
            return;
        }
        let mut position = wanted_from;
        while position < len {
            let end = regimes.next(position).min(len);
            push(regimes.of(position), position, end);
            position = end;
        }
    }
}

/// The positions `start..end` of an item, of which the logits from `wanted_from` on are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) item: usize,
    pub(crate) regime: Regime,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) wanted_from: usize,
}

impl Work {
    /// The number of rows of logits.
    pub(crate) fn wanted(&self) -> usize {
        self.end - self.wanted_from.clamp(self.start, self.end)
    }

    /// Cuts off at most `rows` positions from the front.
    fn split_front(&mut self, rows: usize) -> Self {
        let end = self.end.min(self.start + rows);
        let front = Self { end, ..*self };
        self.start = end;
        front
    }
}

/// Checks a batch and returns the work, item by item. The batch stays unchanged.
pub(crate) fn plan<'a>(
    config: &ModelConfig,
    model: ModelId,
    items: impl Iterator<Item = Item<'a>>,
) -> Result<Vec<Work>, ModelError> {
    let begin = config.bos_token_id.map(TokenId);
    let limits = BatchLimits { vocab_len: config.vocab_size, context: config.context_len(), begin };
    let regimes = Regimes::new(config);
    let mut plan = Vec::new();
    let mut check = |(index, item): (usize, Item<'a>)| -> Result<(), ModelError> {
        if item.model != model {
            return Err(BatchError::ForeignSequence { item: index }.into());
        }
        let wanted = limits.check(index, item.old.len(), item.new, item.rows)?;
        item.work(index, wanted.start, regimes, &mut plan);
        Ok(())
    };
    items.enumerate().try_for_each(&mut check)?;
    Ok(plan)
}

/// The work of a batch as passes, none of them empty. An item is in a pass at most once.
pub(crate) fn passes(mut plan: Vec<Work>) -> Vec<Vec<Work>> {
    let (mut passes, mut pieces, mut room) = (Vec::new(), Vec::<Work>::new(), PASS_ROWS);
    for work in &mut plan {
        while work.start < work.end {
            if room == 0 || pieces.last().is_some_and(|last| last.item == work.item) {
                passes.push(std::mem::take(&mut pieces));
                room = PASS_ROWS;
            }
            let piece = work.split_front(room);
            room -= piece.end - piece.start;
            pieces.push(piece);
        }
    }
    passes.extend((!pieces.is_empty()).then_some(pieces));
    passes
}
