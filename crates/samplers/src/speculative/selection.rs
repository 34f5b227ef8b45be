//! The optimum without a sort.
//!
//! Only the ratios next to the two levels matter one by one; of all other outcomes, only sums matter. So one pass
//! sorts the outcomes into buckets by the logarithm of their ratio, and adds up `p`, `q` and the divergence in each
//! bucket. The buckets, each taken for one outcome, are a small problem. It is solved as in [`optimum()`], and names
//! the two buckets in which the levels lie. Only the outcomes in these two buckets are sorted, with the sums of all
//! others around them, and the problem is solved again, now exactly. The coarse solution does not promise that the
//! exact one lies between the edges of these buckets. If it does not, more buckets are sorted.
//!
//! The pass reads three numbers for each outcome, from memory where the vocabulary is large. It is fastest with
//! blocks so small that reading and adding go on at the same time: with blocks of 512 outcomes it took 80 us more at
//! 128,000 outcomes.
//!
//! Tried instead: selection around a pivot, as in quicksort, which reads the remaining outcomes about five times with
//! a branch on each; and Newton's method on both levels, which reads all outcomes about fifteen times.

use super::{
    BudgetError, Divergence, Optimum, Pair,
    levels::{Atom, Levels, Side},
    optimum::{check, optimum},
    pair::log_ratio,
};

/// The number of buckets, a power of two. Half of the buckets are for each side.
const BUCKETS: usize = 1 << 11;
const HALF: usize = BUCKETS / 2;
/// Buckets for each unit of the logarithm of the ratio. The outermost buckets begin at a ratio of e^8.
const PER_UNIT: f64 = 128.0;
/// Below this number of outcomes a sort is as fast.
const FEW: usize = 1 << 11;

/// Buffers that find optima without a sort, and are used again from call to call.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The sums of each bucket.
    sums: Vec<Sums>,
    /// The bucket of each outcome.
    buckets: Vec<u16>,
    /// The outcomes whose bucket is in one of the windows.
    near: Vec<usize>,
}

/// The sums of `p`, of `q` and of the terms of a bucket, and a zero: added up as two registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Sums([f64; 4]);

/// A run of adjacent buckets.
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

/// The pass over the outcomes, with the widest registers that the processor has: the sums of a bucket are then one
/// addition. The numbers are the same with any registers.
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

/// The pass over the buckets of the outcomes: it finds the outcomes in one of two windows.
struct Look<'a> {
    buckets: &'a [u16],
    windows: [Window; 2],
    near: &'a mut Vec<usize>,
}

impl pulp::WithSimd for Look<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let bounds = self.windows.map(|window| {
            let narrow = |bucket: usize| u16::try_from(bucket).expect("there are fewer buckets");
            (narrow(window.first), narrow(window.last - window.first))
        });
        // One comparison for each window: a bucket below the first one wraps around.
        let within = |bucket: u16| {
            (bucket.wrapping_sub(bounds[0].0) <= bounds[0].1)
                | (bucket.wrapping_sub(bounds[1].0) <= bounds[1].1)
        };
        // Most chunks have no outcome in a window: many outcomes are tested at a time, without a branch for each.
        let (many, rest) = self.buckets.as_chunks::<64>();
        for (index, many) in many.iter().enumerate() {
            if many.iter().fold(0, |any, bucket| any | u16::from(within(*bucket))) == 0 {
                continue;
            }
            for (part, few) in many.as_chunks::<16>().0.iter().enumerate() {
                let mut here = 0u32;
                for (bit, bucket) in few.iter().enumerate() {
                    here |= u32::from(within(*bucket)) << bit;
                }
                while here != 0 {
                    self.near.push(64 * index + 16 * part + here.trailing_zeros() as usize);
                    here &= here - 1;
                }
            }
        }
        let first = self.buckets.len() - rest.len();
        let rest = rest.iter().enumerate().filter(|(_, bucket)| within(**bucket));
        self.near.extend(rest.map(|(index, _)| first + index));
    }
}

const OVERRATED: Window = Window { first: 0, last: HALF - 1 };
const UNDERRATED: Window = Window { first: HALF, last: BUCKETS - 1 };

/// The bucket of `ln(q / p)`, in ascending order. Minus infinity and NaN are in the first.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
#[allow(clippy::manual_clamp, reason = "clamp keeps a NaN")]
fn bucket(log_ratio: f64) -> u16 {
    /// Added to a number, this leaves the rounded number in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LEAST: f64 = -(HALF as f64);
    const GREATEST: f64 = (HALF - 1) as f64;
    // One half is subtracted, so that an edge is at zero.
    let at = (log_ratio * PER_UNIT - 0.5).max(LEAST).min(GREATEST);
    ((at + (ROUND - LEAST)).to_bits() as u16) & (BUCKETS - 1) as u16
}

/// `p / q` at the lower edge of a bucket, in the sense of `ln(q / p)`.
#[allow(clippy::cast_precision_loss, reason = "a few thousand")]
fn edge(bucket: usize) -> f64 {
    ((HALF as f64 - bucket as f64) / PER_UNIT).exp()
}

impl Selection {
    /// A selection whose buffers are empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// The optimum, as by [`optimum()`]. Cost: one pass over the outcomes, and a sort of the few whose ratio is near
    /// a level. In the worst case all outcomes are sorted: where the ratios of most are within 1/128 of each other
    /// and of a level.
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
            // Rounding decides, and the sort has less of it.
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
                // All buckets were sorted: the rest is rounding at an edge.
                return optimum(pair, divergence, budget);
            }
        }
    }

    /// Sorts the outcomes into buckets.
    #[inline(always)]
    fn fill<F: Divergence + ?Sized>(&mut self, pair: &Pair<'_>, divergence: &F) {
        /// The number of outcomes in a block: enough for wide registers, and so few that the next ones are read from
        /// memory while the additions wait for each other.
        const BLOCK: usize = 64;
        self.sums.clear();
        self.sums.resize(BUCKETS, Sums::default());
        // All entries are overwritten.
        self.buckets.resize(pair.len(), 0);
        let sums: &mut [Sums; BUCKETS] =
            self.sums.as_mut_slice().try_into().expect("as many as there are buckets");
        let mut ratios = [0.0; BLOCK];
        let blocks =
            pair.draft.chunks(BLOCK).zip(pair.target.chunks(BLOCK)).zip(self.buckets.chunks_mut(BLOCK));
        for (block, ((draft, target), buckets)) in blocks.enumerate() {
            // The ratios come first, since they do not depend on each other as the additions do.
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
                // A branch for each would be predicted, and would keep the additions apart.
                let term = std::hint::select_unpredictable(*target > 0.0, term, 0.0);
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

    /// The draft's probability of the outcomes that the target forbids. They are in the first bucket.
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
        // A list, since the iterator is read twice.
        let mut atoms = Vec::with_capacity(HALF);
        atoms.extend((side.first..=side.last).filter_map(atom));
        if side == OVERRATED {
            Side::new(Side::OVERRATED, (forbidden, 0.0), atoms.into_iter(), 0.0)
        } else {
            Side::new(Side::UNDERRATED, (0.0, 0.0), atoms.into_iter().rev(), 0.0)
        }
    }

    /// The optimum, if its levels lie within the windows.
    fn solve<F: Divergence + ?Sized>(
        &mut self,
        pair: &Pair<'_>,
        divergence: &F,
        budget: f64,
        forbidden: f64,
        [capped, raised]: [Window; 2],
    ) -> Option<Optimum> {
        // The indices of the outcomes come first, and then their values: the processor then reads scattered values
        // without waiting for one before it asks for the next.
        let mut near = std::mem::take(&mut self.near);
        near.clear();
        pulp::Arch::new().dispatch(Look {
            buckets: &self.buckets,
            windows: [capped, raised],
            near: &mut near,
        });
        let (mut overrated, mut underrated) = (Vec::new(), Vec::new());
        for index in &near {
            let (draft, target) = (pair.draft[*index], pair.target[*index]);
            if target > 0.0 {
                let term = divergence.term(draft, target, pair.log_ratio(*index));
                let list =
                    if usize::from(self.buckets[*index]) < HALF { &mut overrated } else { &mut underrated };
                list.push(Atom::new(draft, target, term));
            }
        }
        self.near = near;
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
        // The probability that is moved when the levels are at the outer and at the inner edges of the windows.
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
            // The total variation, where it is zero up to rounding.
            most.divergence = most.divergence.min(0.0);
        }
        (most.divergence <= budget).then(|| Optimum::found(levels.search(divergence, budget, least, most)))
    }
}
