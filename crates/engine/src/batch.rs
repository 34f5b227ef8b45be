//! The masks of many sequences at once, and those after each token of their drafts.
//!
//! A server wants one row for each sequence of a batch, and under speculation one more for each draft token.
//! Sequences of one constraint share the knowledge of its scratch, so a batch is cut into pieces that each hold rows
//! of one constraint, and a piece is the work of one thread with one scratch. The rows do not depend on how it is
//! cut, nor on the number of threads.
//!
//! Tried instead: one row, one task, whichever thread takes it. Threads then meet at the scratch of the constraint
//! that most rows have, and read states again that another scratch knows.

#[cfg(feature = "rayon")]
use rayon::prelude::*;
use unskew_core::{AnyState, Constraint, TokenId};

use crate::{Matcher, MatcherError, pool::Slot};

/// The threads that fill a batch: those of rayon.
#[cfg(feature = "rayon")]
pub type Threads = rayon::ThreadPool;

/// The threads that fill a batch. There are none without the feature `rayon`.
#[cfg(not(feature = "rayon"))]
pub type Threads = std::convert::Infallible;

/// The most sequences of one piece of work.
#[cfg(feature = "rayon")]
const PIECE: usize = 16;

/// The tokens that a draft proposes after a sequence.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Drafts<'a> {
    /// One after the other.
    Chain(&'a [TokenId]),
    /// Several ways on. Parents come first.
    Tree(&'a [DraftNode]),
}

/// A token of a draft tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DraftNode {
    /// The token.
    pub token: TokenId,
    /// The place in the tree of the token before it; `None` where it comes right after the sequence.
    pub parent: Option<usize>,
}

/// The rows of one sequence in a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRow<'a> {
    /// The sequence.
    pub matcher: &'a Matcher,
    /// The row of its mask. The rows of its draft follow: row `row + 1 + i` is the mask after draft token `i`.
    pub row: usize,
    /// The draft. The row after a token that is not allowed is a copy of the row before it, and so are the rows after
    /// the end.
    pub drafts: Drafts<'a>,
}

impl Drafts<'_> {
    /// No draft.
    pub const NONE: Self = Self::Chain(&[]);

    fn len(&self) -> usize {
        match self {
            Self::Chain(tokens) => tokens.len(),
            Self::Tree(nodes) => nodes.len(),
        }
    }

    /// A token, and the place of the one before it.
    fn get(&self, at: usize) -> (TokenId, Option<usize>) {
        match self {
            Self::Chain(tokens) => (tokens[at], at.checked_sub(1)),
            Self::Tree(nodes) => (nodes[at].token, nodes[at].parent),
        }
    }
}

/// A sequence and its rows.
struct Job<'a, 'm> {
    of: BatchRow<'a>,
    rows: Vec<&'m mut [u32]>,
}

/// A sequence in the order of constraints.
#[cfg(feature = "rayon")]
struct Ordered<'a, 'm> {
    /// Of the constraint.
    address: usize,
    /// Its place in the batch.
    at: usize,
    job: Job<'a, 'm>,
}

/// Writes the masks of `batch` into `masks`, which are rows of `row_words` words each; rows that nobody asks for are
/// left as they are. With `threads`, the work is theirs, else that of the caller. The rows are the same.
///
/// # Errors
///
/// [`MatcherError`]: of a row ([`Matcher::fill`]) or a draft ([`Matcher::accept`]), and [`MatcherError::Batch`] where
/// rows are not there or asked for twice, or a parent does not come before its child. Of several errors it is that of
/// the first sequence; other rows may be written then.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, Vocabulary};
/// use unskew_engine::{BatchRow, Compiler, Drafts, Spec, TokenSpace, fill_batch};
///
/// let mut builder = Vocabulary::builder();
/// let [a, b] = ["a", "b"].map(|text| builder.text(text.as_bytes()));
/// let compiler = Compiler::new(TokenSpace::from_vocabulary(builder.build()?));
/// let matcher = compiler.compile(&Spec::regex("ab|bb"))?.matcher();
/// let mut masks = [0; 3];
/// let rows = [BatchRow { matcher: &matcher, row: 0, drafts: Drafts::Chain(&[a, b]) }];
/// fill_batch(&rows, &mut masks, compiler.mask_words(), None)?;
/// assert_eq!(masks, [0b11, 0b10, 0b00]); // `a` or `b`; `b`; nothing
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fill_batch(
    batch: &[BatchRow<'_>],
    masks: &mut [u32],
    row_words: usize,
    threads: Option<&Threads>,
) -> Result<(), MatcherError> {
    let mut jobs = jobs(batch, masks, row_words)?;
    let Some(threads) = threads else {
        return jobs.iter_mut().try_for_each(|job| job.fill(&job.of.matcher.slot().clone()));
    };
    #[cfg(feature = "rayon")]
    return fill_on(threads, jobs);
    #[cfg(not(feature = "rayon"))]
    match *threads {}
}

/// Fills rows on these threads.
#[cfg(feature = "rayon")]
fn fill_on(threads: &Threads, mut jobs: Vec<Job<'_, '_>>) -> Result<(), MatcherError> {
    // Rows of one constraint lie together, and where there are several pieces of it each has a slot of its own.
    let address = |job: &Job<'_, '_>| std::ptr::from_ref(job.of.matcher.pool()).addr();
    let mut order: Vec<Ordered<'_, '_>> =
        jobs.drain(..).enumerate().map(|(at, job)| Ordered { address: address(&job), at, job }).collect();
    order.sort_unstable_by_key(|ordered| (ordered.address, ordered.at));
    let mut pieces = Vec::new();
    for of_one in order.chunk_by_mut(|left, right| left.address == right.address) {
        pieces.extend((0u32..).zip(of_one.chunks_mut(PIECE)));
    }
    let first_error = threads.install(|| {
        let errors = pieces.into_par_iter().filter_map(|(slot, piece)| {
            let slot = Slot::new(slot);
            piece
                .iter_mut()
                .find_map(|ordered| ordered.job.fill(&slot).err().map(|error| (ordered.at, error)))
        });
        errors.min_by_key(|(at, _)| *at)
    });
    first_error.map_or(Ok(()), |(_, error)| Err(error))
}

/// Gives each sequence its rows.
fn jobs<'a, 'm>(
    batch: &[BatchRow<'a>],
    masks: &'m mut [u32],
    row_words: usize,
) -> Result<Vec<Job<'a, 'm>>, MatcherError> {
    if row_words == 0 {
        return match batch.first() {
            Some(row) => Err(MatcherError::ShortRow { words: 0, needed: row.matcher.mask_words() }),
            None => Ok(Vec::new()),
        };
    }
    let mut rows: Vec<Option<&mut [u32]>> = masks.chunks_exact_mut(row_words).map(Some).collect();
    let mut jobs = Vec::with_capacity(batch.len());
    for of in batch {
        let mut own = Vec::with_capacity(1 + of.drafts.len());
        for row in of.row..=of.row.saturating_add(of.drafts.len()) {
            let found = rows
                .get_mut(row)
                .ok_or_else(|| MatcherError::Batch(format!("row {row} is beyond the end of the masks")))?;
            own.push(
                found.take().ok_or_else(|| MatcherError::Batch(format!("row {row} is asked for twice")))?,
            );
        }
        jobs.push(Job { of: *of, rows: own });
    }
    Ok(jobs)
}

/// The place of a sequence after a draft token.
#[derive(Clone)]
enum Behind {
    /// In front of a token that is not allowed, or at the end: at the place of the sequence or of an earlier token.
    Same(Option<usize>),
    At(AnyState),
    End,
}

impl Job<'_, '_> {
    fn fill(&mut self, slot: &Slot) -> Result<(), MatcherError> {
        let BatchRow { matcher, drafts, .. } = self.of;
        matcher.fill_at(slot, matcher.state(), matcher.is_terminated(), self.rows[0])?;
        let mut behind: Vec<Behind> = Vec::with_capacity(drafts.len());
        for at in 0..drafts.len() {
            let (token, parent) = drafts.get(at);
            if let Some(parent) = parent.filter(|parent| *parent >= at) {
                return Err(MatcherError::Batch(format!(
                    "draft token {at} has the parent {parent}, which does not come before it"
                )));
            }
            matcher.check(token)?;
            let next = next(matcher, slot, &behind, parent, token)?;
            match &next {
                Behind::At(state) => matcher.fill_at(slot, state, false, self.rows[1 + at])?,
                Behind::End => matcher.fill_at(slot, matcher.state(), true, self.rows[1 + at])?,
                Behind::Same(place) => {
                    let (before, rest) = self.rows.split_at_mut(1 + at);
                    rest[0].copy_from_slice(before[place.map_or(0, |place| 1 + place)]);
                }
            }
            behind.push(next);
        }
        Ok(())
    }
}

/// The place that `token` leads to after the draft token `parent`.
fn next(
    matcher: &Matcher,
    slot: &Slot,
    behind: &[Behind],
    parent: Option<usize>,
    token: TokenId,
) -> Result<Behind, MatcherError> {
    let mut state = match parent.map(|parent| &behind[parent]) {
        None if matcher.is_terminated() => return Ok(Behind::Same(None)),
        None => matcher.state().clone(),
        Some(Behind::At(state)) => state.clone(),
        Some(Behind::End | Behind::Same(_)) => return Ok(Behind::Same(parent)),
    };
    if matcher.is_stop(token) {
        let may_end = matcher.pool().constraint.is_accepting(&state);
        return Ok(if may_end { Behind::End } else { Behind::Same(parent) });
    }
    Ok(if matcher.step_with(slot, &mut state, token)? { Behind::At(state) } else { Behind::Same(parent) })
}
