//! The number of tokens that are drafted before the target verifies them.
//!
//! With `a` the probability that a draft is accepted and `c` the cost of drafting a token as a share of a
//! verification, a pass with `s` drafts yields `(1 - a^(s + 1)) / (1 - a)` tokens on average and costs `1 + c s`
//! (Leviathan et al. 2023, theorem 3.8). The adaptive length is the best one for the recent acceptance. It depends on
//! the past alone, and so changes no distribution.

/// The number of positions that a draft reaches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DraftLength {
    /// A fixed number of positions; 0 is plain decoding.
    Fixed(usize),
    /// As many positions as pay.
    Auto {
        /// The most positions of a draft.
        most: usize,
        /// The cost of drafting a token, as a share of one verification.
        draft_cost: f64,
    },
}

impl Default for DraftLength {
    /// At most 16 positions, each at a tenth of a verification.
    fn default() -> Self {
        Self::Auto { most: 16, draft_cost: 0.1 }
    }
}

/// The recent acceptance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Acceptance {
    accepted: f64,
    tested: f64,
}

impl Acceptance {
    /// The factor by which the weight of a pass falls with each later pass.
    const DECAY: f64 = 0.95;

    pub(crate) fn new() -> Self {
        // Two drafts with the acceptance that is usual.
        Self { accepted: 1.4, tested: 2.0 }
    }

    pub(crate) fn record(&mut self, accepted: u32, tested: u32) {
        self.accepted = self.accepted * Self::DECAY + f64::from(accepted);
        self.tested = self.tested * Self::DECAY + f64::from(tested);
    }

    /// The best length.
    pub(crate) fn best(self, length: DraftLength) -> usize {
        let (most, cost) = match length {
            DraftLength::Fixed(length) => return length,
            DraftLength::Auto { most, draft_cost } => (most, draft_cost),
        };
        // The acceptance is never taken for quite certain, so that drafts have an end. At least one token is drafted,
        // so that a better acceptance is noticed.
        let accepts = if self.tested > 0.0 { (self.accepted / self.tested).clamp(0.0, 0.999) } else { 0.0 };
        let (mut best, mut best_yield) = (most.min(1), 0.0);
        let (mut tokens, mut reached) = (1.0, 1.0);
        for length in 1..=most {
            reached *= accepts;
            tokens += reached;
            #[allow(clippy::cast_precision_loss, reason = "a draft is short")]
            let per_cost = tokens / (1.0 + cost * length as f64);
            if per_cost > best_yield {
                (best, best_yield) = (length, per_cost);
            } else {
                // The function has one maximum.
                break;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_as_long_as_they_pay() {
        let auto = |draft_cost| DraftLength::Auto { most: 16, draft_cost };
        let mut acceptance = Acceptance::new();
        (0..100).for_each(|_| acceptance.record(0, 1));
        assert_eq!(acceptance.best(auto(0.1)), 1);
        (0..100).for_each(|_| acceptance.record(8, 10));
        let best = acceptance.best(auto(0.1));
        // The formula, evaluated for every length.
        let pay = |length: i32| (1.0 - 0.8_f64.powi(length + 1)) / 0.2 / (1.0 + 0.1 * f64::from(length));
        let expected = (1..=16).max_by(|left, right| pay(*left).total_cmp(&pay(*right))).unwrap();
        assert_eq!(i32::try_from(best).unwrap(), expected);
        assert!(acceptance.best(auto(0.01)) > best && acceptance.best(auto(0.5)) < best);
        (0..1_000).for_each(|_| acceptance.record(10, 10));
        assert_eq!(acceptance.best(auto(0.0)), 16);
        assert_eq!(acceptance.best(DraftLength::Fixed(5)), 5);
        assert_eq!(acceptance.best(DraftLength::Auto { most: 0, draft_cost: 0.0 }), 0);
    }
}
