//! The optimum without a sort.
//!
//! Of all ratios only those next to the two levels matter one by one; of the others, only sums. So outcomes are thrown into
//! buckets by the logarithm of their ratio, one pass that adds up `p`, `q` and the divergence in each. The buckets, each taken
//! for one outcome, are a small problem that is solved as in [`optimum()`], and say in which two buckets the levels lie. Only
//! the outcomes in these are sorted, with the sums of all others around them, and the problem is solved again, now exactly. If
//! its answer is not between the edges of the buckets, which the coarse one does not promise, more of them are sorted.
//!
//! Tried instead: selection around a pivot, as quicksort does it, which reads what is left about five times with a branch on
//! each; and Newton's method on both levels, which reads everything about fifteen times.

use super::{
    BudgetError, Divergence, Optimum, Pair,
    levels::{Atom, Levels, Side},
    optimum::{check, optimum},
    pair::log_ratio,
};

/// Buckets, in powers of two; half of them for each side.
const BUCKETS: usize = 1 << 11;
const HALF: usize = BUCKETS / 2;
/// Buckets for each unit of the logarithm of the ratio: those at the ends begin at a ratio of e^8.
const PER_UNIT: f64 = 128.0;
/// Below this many outcomes a sort is as fast.
const FEW: usize = 1 << 11;

/// Buffers for finding optima without a sort, used again from call to call.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Of each bucket.
    sums: Vec<Sums>,
    /// The bucket of each outcome.
    buckets: Vec<u16>,
}

/// The sums of `p`, of `q` and of the terms of a bucket, and a zero: added up as two registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Sums([f64; 4]);

/// Buckets in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    first: usize,
    last: usize,
}

impl Window {
    fn around(bucket: usize, more: usize, within: Self) -> Self {
        let first = bucket.saturating_sub(more).clamp(within.first, within.last);
        Self { first, last: (bucket + more).clamp(within.first, within.last) }
    }
}

/// The pass over the outcomes, with the widest registers that the processor has: the sums of a bucket are one addition then. It
/// makes no difference to the numbers.
struct Fill<'a, F: ?Sized> {
    selection: &'a mut Selection,
    pair: &'a Pair<'a>,
    divergence: &'a F,
}

impl<F: Divergence + ?Sized> pulp::WithSimd for Fill<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.selection.fill(self.pair, self.divergence);
    }
}

const OVERRATED: Window = Window { first: 0, last: HALF - 1 };
const UNDERRATED: Window = Window { first: HALF, last: BUCKETS - 1 };

/// The bucket of `ln(q / p)`, in ascending order; minus infinity and NaN are in the first.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
#[allow(clippy::manual_clamp, reason = "clamp keeps a NaN")]
fn bucket(log_ratio: f64) -> u16 {
    /// Added to a number, it leaves the number rounded in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LEAST: f64 = -(HALF as f64);
    const GREATEST: f64 = (HALF - 1) as f64;
    // Half less, so that an edge is at zero.
    let at = (log_ratio * PER_UNIT - 0.5).max(LEAST).min(GREATEST);
    ((at + (ROUND - LEAST)).to_bits() as u16) & (BUCKETS - 1) as u16
}

/// `p / q` at the lower edge of a bucket, in the sense of `ln(q / p)`.
#[allow(clippy::cast_precision_loss, reason = "a few thousand")]
fn edge(bucket: usize) -> f64 {
    ((HALF as f64 - bucket as f64) / PER_UNIT).exp()
}

impl Selection {
    /// Without buffers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The optimum, as by [`optimum()`]. Cost: one pass over the outcomes, and a sort of the few whose ratio is near a level;
    /// of all of them in the worst case, where the ratios of most are within 1/128 of each other and of a level.
    ///
    /// # Errors
    ///
    /// [`BudgetError`] when the budget is negative or not a number.
    pub fn optimum<F: Divergence + ?Sized>(
        &mut self,
        pair: &Pair<'_>,
        divergence: &F,
        budget: f64,
    ) -> Result<Optimum, BudgetError> {
        check(budget)?;
        if pair.len() <= FEW {
            return optimum(pair, divergence, budget);
        }
        pulp::Arch::new().dispatch(Fill { selection: self, pair, divergence });
        let forbidden = self.forbidden(pair);
        let (overrated, underrated) = (self.coarse(forbidden, OVERRATED), self.coarse(forbidden, UNDERRATED));
        let all = overrated.moved_at_inner(1.0).min(underrated.moved_at_inner(1.0)).max(forbidden);
        if budget == 0.0 {
            return Ok(Optimum::lossless(all, forbidden));
        }
        if all <= forbidden {
            // Rounding decides; the slow way has less of it.
            return optimum(pair, divergence, budget);
        }
        let coarse = Levels { overrated, underrated };
        let (mut least, mut lossless) = (coarse.at(divergence, forbidden), coarse.at(divergence, all));
        lossless.divergence = 0.0;
        if least.divergence > budget {
            least = coarse.search(divergence, budget, least, lossless);
        }
        let near_cap = usize::from(bucket(-least.cap.ln()));
        let near_floor = usize::from(bucket(-least.floor.ln()));
        let mut more = 0;
        loop {
            let windows =
                [Window::around(near_cap, more, OVERRATED), Window::around(near_floor, more, UNDERRATED)];
            if let Some(optimum) = self.solve(pair, divergence, budget, forbidden, windows) {
                return Ok(optimum);
            }
            more = 4 * more + 1;
            if more > HALF {
                // Everything was looked at: what is left is rounding at an edge.
                return optimum(pair, divergence, budget);
            }
        }
    }

    /// Throws the outcomes into buckets.
    #[inline(always)]
    fn fill<F: Divergence + ?Sized>(&mut self, pair: &Pair<'_>, divergence: &F) {
        /// As many at a time as leave the next cache alone.
        const BLOCK: usize = 512;
        self.sums.clear();
        self.sums.resize(BUCKETS, Sums::default());
        // All of them are overwritten.
        self.buckets.resize(pair.len(), 0);
        let sums: &mut [Sums; BUCKETS] =
            self.sums.as_mut_slice().try_into().expect("as many as there are buckets");
        let mut ratios = [0.0; BLOCK];
        let blocks =
            pair.draft.chunks(BLOCK).zip(pair.target.chunks(BLOCK)).zip(self.buckets.chunks_mut(BLOCK));
        for (block, ((draft, target), buckets)) in blocks.enumerate() {
            // What is the same for all first, without the additions that depend on each other.
            let ratios = match pair.log_ratios {
                Some(log_ratios) => &log_ratios[block * BLOCK..][..draft.len()],
                None => {
                    for ((ratio, draft), target) in ratios.iter_mut().zip(draft).zip(target) {
                        *ratio = log_ratio(*draft, *target);
                    }
                    &ratios[..draft.len()]
                }
            };
            for (to, ratio) in buckets.iter_mut().zip(ratios) {
                *to = bucket(*ratio);
            }
            for (((draft, target), ratio), bucket) in draft.iter().zip(target).zip(ratios).zip(buckets) {
                let term = divergence.term(*draft, *target, *ratio);
                let term = if *target > 0.0 { term } else { 0.0 };
                let Sums(sum) = &mut sums[usize::from(*bucket) & (BUCKETS - 1)];
                for (sum, value) in sum.iter_mut().zip([*draft, *target, term, 0.0]) {
                    *sum += value;
                }
            }
        }
    }

    fn sum(&self, bucket: usize) -> [f64; 3] {
        let Sums([draft, target, terms, _]) = self.sums[bucket];
        [draft, target, terms]
    }

    /// The draft's probability of outcomes that the target forbids, which are in the first bucket.
    fn forbidden(&self, pair: &Pair<'_>) -> f64 {
        let [draft, ..] = self.sum(0);
        if draft <= 0.0 {
            return 0.0;
        }
        let outcomes = self.buckets.iter().zip(pair.draft).zip(pair.target);
        outcomes
            .filter(|((bucket, _), target)| **bucket == 0 && **target <= 0.0)
            .map(|((_, draft), _)| draft)
            .sum()
    }

    /// A side with each bucket taken for one outcome.
    fn coarse(&self, forbidden: f64, side: Window) -> Side {
        let atom = |bucket: usize| {
            let [draft, target, term] = self.sum(bucket);
            let draft = if bucket == 0 { (draft - forbidden).max(0.0) } else { draft };
            (target > 0.0).then(|| Atom::new(draft, target, term))
        };
        // In a list: the iterator is read twice.
        let atoms: Vec<Atom> = (side.first..=side.last).filter_map(atom).collect();
        if side == OVERRATED {
            Side::new(Side::OVERRATED, (forbidden, 0.0), atoms.into_iter(), 0.0)
        } else {
            Side::new(Side::UNDERRATED, (0.0, 0.0), atoms.into_iter().rev(), 0.0)
        }
    }

    /// The optimum, if its levels lie within the windows.
    fn solve<F: Divergence + ?Sized>(
        &self,
        pair: &Pair<'_>,
        divergence: &F,
        budget: f64,
        forbidden: f64,
        [capped, raised]: [Window; 2],
    ) -> Option<Optimum> {
        let (mut overrated, mut underrated) = (Vec::new(), Vec::new());
        let mut take = |index: usize, bucket: usize| {
            let (draft, target) = (pair.draft[index], pair.target[index]);
            if target > 0.0 {
                let term = divergence.term(draft, target, pair.log_ratio(index));
                let list = if bucket < HALF { &mut overrated } else { &mut underrated };
                list.push(Atom::new(draft, target, term));
            }
        };
        let bounds = [capped, raised].map(|window| {
            let narrow = |bucket: usize| u16::try_from(bucket).expect("there are fewer buckets");
            (narrow(window.first), narrow(window.last - window.first))
        });
        // One comparison for each window: what is below the first wraps around.
        let within = |bucket: u16| {
            (bucket.wrapping_sub(bounds[0].0) <= bounds[0].1)
                | (bucket.wrapping_sub(bounds[1].0) <= bounds[1].1)
        };
        let chunks = self.buckets.chunks_exact(16);
        let rest = self.buckets.len() - chunks.remainder().len();
        for (chunk, buckets) in chunks.enumerate() {
            // Most have none: without a branch for each.
            if buckets.iter().fold(false, |any, bucket| any | within(*bucket)) {
                for (index, bucket) in buckets.iter().enumerate() {
                    if within(*bucket) {
                        take(16 * chunk + index, usize::from(*bucket));
                    }
                }
            }
        }
        for (index, bucket) in self.buckets.iter().enumerate().skip(rest) {
            if within(*bucket) {
                take(index, usize::from(*bucket));
            }
        }
        overrated.sort_unstable_by(|left, right| right.ratio.total_cmp(&left.ratio));
        underrated.sort_unstable_by(|left, right| left.ratio.total_cmp(&right.ratio));

        let sums = |buckets: std::ops::Range<usize>| {
            buckets.map(|bucket| self.sum(bucket)).fold((0.0, 0.0), |(p, q), sum| (p + sum[0], q + sum[1]))
        };
        let terms = |buckets: std::ops::Range<usize>| buckets.map(|bucket| self.sum(bucket)[2]).sum::<f64>();
        let is_whole = [capped.first == OVERRATED.first, raised.last == UNDERRATED.last];
        let settled = if is_whole[0] { (forbidden, 0.0) } else { sums(0..capped.first) };
        let levels = Levels {
            overrated: Side::new(
                Side::OVERRATED,
                settled,
                overrated.into_iter(),
                terms(capped.last + 1..HALF),
            ),
            underrated: Side::new(
                Side::UNDERRATED,
                sums(raised.last + 1..BUCKETS),
                underrated.into_iter(),
                terms(HALF..raised.first),
            ),
        };
        // What is moved when the levels are at the outer and at the inner edges of the windows.
        let outer = [
            levels.overrated.moved_at_outer(edge(capped.first)),
            if is_whole[1] { 0.0 } else { levels.underrated.moved_at_outer(edge(raised.last + 1)) },
        ];
        let inner = [
            levels.overrated.moved_at_inner(edge(capped.last + 1)),
            levels.underrated.moved_at_inner(edge(raised.first)),
        ];
        let (outer, inner) = (outer[0].max(outer[1]).max(forbidden), inner[0].min(inner[1]));
        if outer > inner {
            return None;
        }
        let least = levels.at(divergence, outer);
        if least.divergence <= budget {
            return (outer <= forbidden).then(|| Optimum::new(least, false));
        }
        let mut most = levels.at(divergence, inner);
        if capped.last + 1 == HALF && raised.first == HALF {
            // The total variation, where it is zero but for rounding.
            most.divergence = most.divergence.min(0.0);
        }
        (most.divergence <= budget).then(|| Optimum::found(levels.search(divergence, budget, least, most)))
    }
}
