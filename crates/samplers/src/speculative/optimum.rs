//! The optimum of mentored decoding: the distribution that accepts the most drafts within a divergence budget.
//!
//! A draft `i` is drawn from `p`, accepted with probability `r_i`, and replaced by a draw from `s` otherwise, so that
//! the distribution is `pi_i = p_i r_i + s_i (1 - sum p r)`. The acceptance rate for a given distribution is at most
//! `sum min(p, pi)`. To make it as large as possible with `D(q, pi) <= D` (Tran-Thien, "Mentored decoding", 2023, for
//! the Kullback-Leibler divergence) is a convex problem, and its solution is a clamp:
//!
//! ```text
//! pi_i = min(max(p_i, q_i / beta), q_i / alpha),   0 <= alpha <= 1 <= beta
//! r_i  = min(1, pi_i / p_i)                        s_i = max(0, pi_i - p_i) / (1 - R)
//! ```
//!
//! With `D = 0` both levels are one: speculative sampling (Leviathan et al. 2023, Chen et al. 2023), which loses
//! nothing and accepts with `R = 1 - TV(p, q)`. An outcome with `q_i = 0` is never emitted, with any budget. The
//! published problem accepts some of these outcomes once the divergence allows it, and under a mask they are the
//! forbidden ones. Here the optimum is that over all distributions without them.
//!
//! This file finds the optimum by one sort and sums along it ([`levels`](super::levels));
//! [`Selection`](super::Selection) finds the same without sorting.

use super::{
    Divergence, Pair,
    levels::{Atom, Levels, Point, Side},
};

/// The distribution of one position.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Optimum {
    cap: f64,
    floor: f64,
    rejection: f64,
    divergence: f64,
    is_binding: bool,
}

/// A budget that is negative or not a number.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error(
    "a divergence of at most {value} cannot be asked for; the budget must be a number from 0 on, or infinite"
)]
#[non_exhaustive]
pub struct BudgetError {
    /// The budget.
    pub value: f64,
}

impl Optimum {
    /// `alpha`: the least `q / pi`. 0 where no outcome is capped.
    pub fn alpha(&self) -> f64 {
        self.cap.recip()
    }

    /// `beta`: the greatest `q / pi`. Infinite where no outcome is raised.
    pub fn beta(&self) -> f64 {
        self.floor.recip()
    }

    /// `1 - R`: the probability that a draft is rejected.
    pub fn rejection(&self) -> f64 {
        self.rejection
    }

    /// The divergence of the distribution from the target: at most the budget, up to the rounding of floating-point
    /// sums.
    pub fn divergence(&self) -> f64 {
        self.divergence
    }

    /// Whether a larger budget would accept more drafts.
    pub fn is_binding(&self) -> bool {
        self.is_binding
    }

    /// `pi_i` of an outcome with these probabilities.
    #[inline]
    pub fn distribution(&self, draft: f64, target: f64) -> f64 {
        // Infinity times zero is no number, and a forbidden outcome has probability zero.
        if target > 0.0 { draft.max(target * self.floor).min(target * self.cap) } else { 0.0 }
    }

    /// `r_i`: the probability with which a draft of this outcome is accepted.
    #[inline]
    pub fn accepts(&self, draft: f64, target: f64) -> f64 {
        if target > 0.0 { (target * self.cap / draft).min(1.0) } else { 0.0 }
    }

    /// `s_i (1 - R)`: the weight of this outcome after a rejected draft.
    #[inline]
    pub fn residual(&self, draft: f64, target: f64) -> f64 {
        (target * self.floor - draft).max(0.0)
    }

    pub(crate) fn new(point: Point, is_binding: bool) -> Self {
        Self {
            cap: point.cap,
            floor: point.floor,
            rejection: point.moved,
            divergence: point.divergence,
            is_binding,
        }
    }

    pub(crate) fn found(point: Point) -> Self {
        Self::new(point, point.is_binding())
    }

    /// Speculative sampling that loses nothing, between distributions of this total variation. The draft proposes
    /// `forbidden` outcomes with that probability.
    pub(crate) fn lossless(variation: f64, forbidden: f64) -> Self {
        Self {
            cap: 1.0,
            floor: 1.0,
            rejection: variation,
            divergence: 0.0,
            is_binding: variation > forbidden,
        }
    }
}

/// Refuses a budget that is negative or not a number.
pub(crate) fn check(budget: f64) -> Result<(), BudgetError> {
    if budget >= 0.0 { Ok(()) } else { Err(BudgetError { value: budget }) }
}

/// The optimum within `budget`, which may be zero or infinite. Cost: one sort of the outcomes.
///
/// # Errors
///
/// [`BudgetError`] when the budget is negative or not a number.
pub fn optimum<F: Divergence + ?Sized>(
    pair: &Pair<'_>,
    divergence: &F,
    budget: f64,
) -> Result<Optimum, BudgetError> {
    check(budget)?;
    let mut forbidden = 0.0;
    let (mut overrated, mut underrated) = (Vec::new(), Vec::new());
    for (index, (draft, target)) in pair.draft.iter().copied().zip(pair.target.iter().copied()).enumerate() {
        if target > 0.0 {
            let term = divergence.term(draft, target, pair.log_ratio(index));
            let atom = Atom::new(draft, target, term);
            if draft >= target { overrated.push(atom) } else { underrated.push(atom) }
        } else {
            forbidden += draft;
        }
    }
    overrated.sort_unstable_by(|left, right| right.ratio.total_cmp(&left.ratio));
    underrated.sort_unstable_by(|left, right| left.ratio.total_cmp(&right.ratio));
    let levels = Levels {
        overrated: Side::new(Side::OVERRATED, (forbidden, 0.0), overrated.into_iter(), 0.0),
        underrated: Side::new(Side::UNDERRATED, (0.0, 0.0), underrated.into_iter(), 0.0),
    };
    // Both sides move the total variation of the two distributions.
    let all = levels.overrated.moved_at_inner(1.0).min(levels.underrated.moved_at_inner(1.0)).max(forbidden);
    if budget == 0.0 {
        return Ok(Optimum::lossless(all, forbidden));
    }
    let least = levels.at(divergence, forbidden);
    if least.divergence <= budget {
        return Ok(Optimum::new(least, false));
    }
    if all <= forbidden {
        // Nothing can be gained, up to rounding.
        return Ok(Optimum::lossless(all, forbidden));
    }
    let mut lossless = levels.at(divergence, all);
    // The divergence is zero up to rounding, and a budget may be smaller than this rounding.
    lossless.divergence = 0.0;
    Ok(Optimum::found(levels.search(divergence, budget, least, lossless)))
}
