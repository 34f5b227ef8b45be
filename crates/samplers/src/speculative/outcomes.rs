//! The distribution of a draft model over the allowed outcomes of one position.

use unskew_core::{TokenId, logprob};

use crate::row::{exp64, log_normalizer};

/// Log-probabilities of the allowed outcomes: of the end of the output, and of each allowed token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Outcomes {
    /// The model's own log-probabilities. The end comes first.
    pub(crate) logs: Vec<f64>,
    /// The logarithm of the sum of the probabilities: the mass that the mask leaves.
    pub(crate) log_mass: f64,
}

impl Outcomes {
    /// Reads a row of logits: the tokens `ids`, and the end, which any of the tokens `end` means. `end` is empty
    /// where the output may not end. `None` if the row is no distribution.
    pub(crate) fn read(logits: &[f32], ids: &[TokenId], end: &[TokenId]) -> Option<Self> {
        let normalizer = log_normalizer(logits);
        if !normalizer.is_finite() {
            return None;
        }
        let log = |id: &TokenId| {
            // A constraint may cover padding tokens beyond the model's row.
            logits.get(id.index()).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit)) - normalizer
        };
        let stop = logprob::log_sum_exp(end.iter().map(log));
        let logs: Vec<f64> = std::iter::once(stop).chain(ids.iter().map(log)).collect();
        let log_mass = logprob::log_sum_exp(logs.iter().copied());
        Some(Self { logs, log_mass })
    }

    /// Whether an allowed outcome has a positive probability.
    pub(crate) fn has_mass(&self) -> bool {
        self.log_mass > f64::NEG_INFINITY
    }

    /// The logarithms of the probabilities given that the outcome is allowed.
    pub(crate) fn masked_logs(&self) -> Vec<f64> {
        self.logs.iter().map(|log| log - self.log_mass).collect()
    }

    /// The probabilities given that the outcome is allowed.
    pub(crate) fn masked(&self) -> Vec<f64> {
        exp64::probabilities(&self.logs, self.log_mass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_one_outcome_and_padding_has_no_probability() {
        let logits = [0.5_f32, 0.25, 0.125, 0.125].map(f32::ln);
        let ids = [TokenId(0), TokenId(9)];
        let row = Outcomes::read(&logits, &ids, &[TokenId(2), TokenId(3)]).unwrap();
        assert!((row.log_mass.exp() - 0.75).abs() < 1e-6);
        let masked = row.masked();
        assert!(
            (masked[0] - 1.0 / 3.0).abs() < 1e-6 && (masked[1] - 2.0 / 3.0).abs() < 1e-6 && masked[2] == 0.0
        );
        assert!(!Outcomes::read(&logits, &[TokenId(9)], &[]).unwrap().has_mass());
        assert_eq!(Outcomes::read(&[f32::NAN], &[], &[]), None);
    }
}
