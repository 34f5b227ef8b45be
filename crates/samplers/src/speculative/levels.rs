//! The clamp as a function of the probability that it moves, and the search for the point that a budget allows.
//!
//! Let `P` be the probability that a draft is rejected. A rejection moves probability from the outcomes that the
//! draft overrates (`p > q`) to those that it underrates. It takes `sum max(0, p - q cap)` and gives
//! `sum max(0, q floor - p)`. Both are `P`: so `P` determines the two levels `cap = 1 / alpha` and `floor = 1 / beta`
//! of the ratio `pi / q`. With the outcomes of each side in the order of their ratios, and with sums along that
//! order, either level is one division. The divergence falls with `P`, is convex in it (its slope is
//! `f'(floor) - f'(cap)`) and reaches zero at the total variation of `p` and `q`. There both levels are one: lossless
//! speculative sampling.
//!
//! The published algorithm searches over `alpha`, with a tolerance. That search has no answer where the divergence
//! jumps in `alpha`, which it does for targets with zeros; in `P` there is no jump. No tolerance is needed either:
//! tangents close in on the point from the left and chords from the right until no number lies between. The answer is
//! the right end, which is within the budget.

use super::Divergence;

/// A rejection probability below this counts as zero: products with it would lose their digits.
const TINY: f64 = 1e-250;

/// Outcomes that are treated alike, as one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Atom {
    pub(crate) draft: f64,
    pub(crate) target: f64,
    /// `q f(p / q)`.
    pub(crate) term: f64,
    /// `p / q`.
    pub(crate) ratio: f64,
}

impl Atom {
    /// `target` is positive.
    pub(crate) fn new(draft: f64, target: f64, term: f64) -> Self {
        Self { draft, target, term, ratio: draft / target }
    }
}

/// The outcomes that lose probability, or those that gain it.
#[derive(Debug)]
pub(crate) struct Side {
    /// 1 for the outcomes that lose probability, -1 for those that gain it.
    sign: f64,
    /// For each atom, in ascending order: the moved probability at the moment when the atom is about to reach its
    /// level, which is `|sum p - q level|` over the atoms before it.
    moved: Vec<f64>,
    /// The sums of `p` and of `q` over the first 0, 1, ... atoms, up to all of them.
    sums: Vec<(f64, f64)>,
    /// The sum of the terms of all other atoms.
    rest: Vec<f64>,
}

impl Side {
    /// The side that loses probability: `p >= q`.
    pub(crate) const OVERRATED: f64 = 1.0;
    /// The side that gains probability.
    pub(crate) const UNDERRATED: f64 = -1.0;

    /// The side of `atoms`, in the order in which they reach their level. Atoms that have reached it already come
    /// before, with the sums `settled` of `p` and `q`. `inner` is the sum of the terms of the atoms that never reach
    /// it.
    pub(crate) fn new(
        sign: f64,
        settled: (f64, f64),
        atoms: impl DoubleEndedIterator<Item = Atom> + Clone,
        inner: f64,
    ) -> Self {
        let len = atoms.size_hint().0;
        let (mut moved, mut sums) = (Vec::with_capacity(len), Vec::with_capacity(len + 1));
        let mut rest = Vec::with_capacity(len + 1);
        rest.push(inner);
        let mut sum = settled;
        sums.push(sum);
        for atom in atoms.clone() {
            moved.push(sign * (sum.0 - sum.1 * atom.ratio));
            sum = (sum.0 + atom.draft, sum.1 + atom.target);
            sums.push(sum);
        }
        // From the inside out: the outermost terms may be infinite.
        let mut terms = inner;
        for atom in atoms.rev() {
            terms += atom.term;
            rest.push(terms);
        }
        rest.reverse();
        Self { sign, moved, sums, rest }
    }

    /// The probability that is moved when all atoms of the side have reached `level`.
    pub(crate) fn moved_at_inner(&self, level: f64) -> f64 {
        let (draft, target) = self.sums[self.sums.len() - 1];
        self.sign * (draft - target * level)
    }

    /// The probability that is moved when no atom of the side has reached its level, and the settled ones have `level`.
    pub(crate) fn moved_at_outer(&self, level: f64) -> f64 {
        let (draft, target) = self.sums[0];
        if target > 0.0 { self.sign * (draft - target * level) } else { self.sign * draft }
    }

    /// The level at which the probability `moved` is moved, the mass of `q` at that level, and the terms of the other
    /// atoms.
    fn at(&self, moved: f64) -> (f64, f64, f64) {
        let reached = self.moved.partition_point(|at| *at < moved);
        let (draft, target) = self.sums[reached];
        let level = if target > 0.0 {
            (draft - self.sign * moved) / target
        } else if self.sign > 0.0 {
            // No outcome is capped.
            f64::INFINITY
        } else {
            0.0
        };
        // Rounding must not carry a level beyond one: the draft's probability would change in the wrong direction.
        (if self.sign > 0.0 { level.max(1.0) } else { level.clamp(0.0, 1.0) }, target, self.rest[reached])
    }
}

/// A point of the search: a clamp.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    /// `P`.
    pub(crate) moved: f64,
    /// `1 / alpha`.
    pub(crate) cap: f64,
    /// `1 / beta`.
    pub(crate) floor: f64,
    pub(crate) divergence: f64,
    slope: f64,
}

impl Point {
    /// Whether a larger budget would move less probability.
    pub(crate) fn is_binding(&self) -> bool {
        self.moved > TINY
    }
}

/// The two sides.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) overrated: Side,
    pub(crate) underrated: Side,
}

impl Levels {
    /// The clamp that moves the probability `moved`.
    pub(crate) fn at<F: Divergence + ?Sized>(&self, f: &F, moved: f64) -> Point {
        // An empty sum is minus zero, which becomes zero.
        let moved = moved + 0.0;
        let (cap, capped, above) = self.overrated.at(moved);
        let (floor, raised, below) = self.underrated.at(moved);
        let mut divergence = above + below;
        if capped > 0.0 {
            divergence += capped * f.value(cap);
        }
        if raised > 0.0 {
            divergence += raised * f.value(floor);
        }
        Point { moved, cap, floor, divergence, slope: f.slope(floor) - f.slope(cap) }
    }

    /// The point of least `P` between `left` and `right` that is within the budget, given that `left` is not and
    /// `right` is.
    pub(crate) fn search<F: Divergence + ?Sized>(
        &self,
        f: &F,
        budget: f64,
        mut left: Point,
        mut right: Point,
    ) -> Point {
        /// The distance of the two ends, as numbers between them, at which the search ends: a few roundings of `P`.
        const CLOSE: u64 = 4;
        /// By the tangent at `left`, the curve comes within the budget at this point or later, since it is convex.
        fn tangent(left: &Point, _: &Point, budget: f64) -> f64 {
            left.moved - (left.divergence - budget) / left.slope
        }
        /// By the chord, the curve is within the budget from this point on.
        fn chord(left: &Point, right: &Point, budget: f64) -> f64 {
            let share = (left.divergence - budget) / (left.divergence - right.divergence);
            left.moved + (right.moved - left.moved) * share
        }

        // `P` is not negative (nor minus zero), so that numbers are in the order of their bits. Halving the bits ends
        // after 64 steps also where `P` spans many powers of two.
        if left.moved < TINY && TINY < right.moved {
            left = self.at(f, TINY);
            if left.divergence <= budget {
                return left;
            }
        }
        if left.moved >= right.moved {
            return right;
        }
        loop {
            let before = right.moved.to_bits() - left.moved.to_bits();
            for step in [tangent, chord] {
                let (first, last) = (left.moved.to_bits(), right.moved.to_bits());
                if last - first <= CLOSE {
                    return right;
                }
                let to = step(&left, &right, budget);
                // A step of less than a few roundings does not move, and is made longer. A step beyond the other end
                // is not made.
                let to = if to >= left.moved { to.to_bits().max(first + CLOSE / 2) } else { last };
                if to < last {
                    self.divide(f, budget, f64::from_bits(to), &mut left, &mut right);
                }
            }
            let (first, last) = (left.moved.to_bits(), right.moved.to_bits());
            if last - first > before / 2 {
                self.divide(f, budget, f64::from_bits(first + (last - first) / 2), &mut left, &mut right);
            }
        }
    }

    /// Moves one of the two ends to `moved`.
    fn divide<F: Divergence + ?Sized>(
        &self,
        f: &F,
        budget: f64,
        moved: f64,
        left: &mut Point,
        right: &mut Point,
    ) {
        let point = self.at(f, moved);
        if point.divergence <= budget { *right = point } else { *left = point }
    }
}
