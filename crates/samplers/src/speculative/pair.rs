//! Two distributions over the same outcomes: the draft's, and the target's.

/// A draft's distribution `p` and the target's `q` at one position, outcome by outcome.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub(crate) draft: &'a [f64],
    pub(crate) target: &'a [f64],
    pub(crate) log_ratios: Option<&'a [f64]>,
}

/// The most by which the sum of a distribution may differ from one. The guarantees of the solvers hold up to this
/// difference.
const TOLERANCE: f64 = 1e-9;

/// An error: two lists are not two distributions over the same outcomes.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The lists are of different lengths.
    #[error("the draft has {draft} outcomes and the target {target}: they must be over the same ones")]
    Length {
        /// The number of the draft's outcomes.
        draft: usize,
        /// The number of the target's outcomes.
        target: usize,
    },
    /// An entry is negative or not a number.
    #[error("outcome {index} of the {which} has the probability {value}")]
    NotAProbability {
        /// `draft` or `target`.
        which: &'static str,
        /// The index of the outcome.
        index: usize,
        /// The entry.
        value: f64,
    },
    /// The entries do not sum to one.
    #[error("the probabilities of the {which} sum to {sum}, not to 1 within 1e-9")]
    Sum {
        /// `draft` or `target`.
        which: &'static str,
        /// Their sum.
        sum: f64,
    },
}

impl<'a> Pair<'a> {
    /// The pair of `draft` and `target`, entry by entry over the same outcomes. Any entry may be zero. Cost: one pass.
    ///
    /// # Errors
    ///
    /// [`PairError`] when they are not two distributions over the same outcomes.
    pub fn new(draft: &'a [f64], target: &'a [f64]) -> Result<Self, PairError> {
        if draft.len() != target.len() {
            return Err(PairError::Length { draft: draft.len(), target: target.len() });
        }
        for (which, entries) in [("draft", draft), ("target", target)] {
            check(which, entries)?;
        }
        Ok(Self { draft, target, log_ratios: None })
    }

    /// The same pair with `ln(q / p)` of each outcome. A caller who has logits has these logarithms already;
    /// otherwise the solvers take a logarithm for each outcome. They must be those of the probabilities up to
    /// rounding: minus infinity for `q = 0`, infinity for `p = 0`, and any number where both are zero.
    ///
    /// # Errors
    ///
    /// [`PairError::Length`] when the number of logarithms is not that of the outcomes.
    pub fn with_log_ratios(mut self, log_ratios: &'a [f64]) -> Result<Self, PairError> {
        if log_ratios.len() != self.target.len() {
            return Err(PairError::Length { draft: log_ratios.len(), target: self.target.len() });
        }
        self.log_ratios = Some(log_ratios);
        Ok(self)
    }

    /// The number of outcomes.
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// False: probabilities sum to one, so a pair has outcomes.
    pub fn is_empty(&self) -> bool {
        self.draft.is_empty()
    }

    pub(crate) fn log_ratio(&self, index: usize) -> f64 {
        let given = self.log_ratios.map(|log_ratios| log_ratios[index]);
        given.unwrap_or_else(|| log_ratio(self.draft[index], self.target[index]))
    }
}

/// `ln(q / p)`; the quotient itself may overflow.
pub(crate) fn log_ratio(draft: f64, target: f64) -> f64 {
    let ratio = target / draft;
    if ratio.is_normal() { ratio.ln() } else { target.ln() - draft.ln() }
}

fn check(which: &'static str, entries: &[f64]) -> Result<(), PairError> {
    // Four sums, so that one addition does not wait for the other.
    let mut sums = [0.0; 4];
    let mut least = [f64::INFINITY; 4];
    let chunks = entries.chunks_exact(4);
    for entry in chunks.remainder() {
        sums[0] += entry;
        least[0] = least[0].min(*entry);
    }
    for chunk in chunks {
        for lane in 0..4 {
            sums[lane] += chunk[lane];
            least[lane] = least[lane].min(chunk[lane]);
        }
    }
    let sum: f64 = sums.iter().sum();
    // A NaN shows in the sum; a minimum ignores it.
    if sum.is_nan() || least.iter().any(|least| *least < 0.0) {
        let index = entries.iter().position(|entry| entry.is_nan() || *entry < 0.0);
        // The sum of both infinities is NaN too, and one of them is negative.
        let index = index.unwrap_or_default();
        return Err(PairError::NotAProbability { which, index, value: entries[index] });
    }
    if (sum - 1.0).abs() > TOLERANCE {
        return Err(PairError::Sum { which, sum });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_distribution_is_refused_by_name() {
        let good = [0.5, 0.25, 0.0, 0.25, 0.0];
        assert!(Pair::new(&good, &good).is_ok());
        assert_eq!(Pair::new(&good, &good[..4]).unwrap_err(), PairError::Length { draft: 5, target: 4 });
        assert_eq!(Pair::new(&[], &[]).unwrap_err(), PairError::Sum { which: "draft", sum: 0.0 });
        for (index, value) in [(0, f64::NAN), (2, -0.25), (4, f64::NEG_INFINITY)] {
            let mut bad = good;
            bad[index] = value;
            let error = Pair::new(&good, &bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("outcome {index} of the target")), "{error}");
        }
        let error = Pair::new(&[0.5, 0.6], &[1.0, 0.0]).unwrap_err();
        assert_eq!(error.to_string(), "the probabilities of the draft sum to 1.1, not to 1 within 1e-9");
        assert!(Pair::new(&[1.0], &[f64::INFINITY]).is_err());
        assert!(Pair::new(&good, &good).unwrap().with_log_ratios(&[0.0]).is_err());
    }
}
