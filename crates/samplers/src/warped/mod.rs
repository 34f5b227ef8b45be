//! A model at another temperature, or with its improbable tokens cut off, is a model too: samplers keep its
//! distribution.

mod truncation;

use unskew_core::{
    Extension, LanguageModel, LogitRows, Logits, RowError,
    rows::{RowAnswer, RowQuestion},
};

use crate::log_normalizer;

pub use truncation::{Truncation, TruncationError};

/// A model whose logits are divided by a temperature and then, if asked for, truncated.
///
/// # Example
///
/// ```
/// use unskew_core::{Extension, LanguageModel, Logits, Rows, TableModel};
/// use unskew_samplers::Warped;
///
/// let table = TableModel::new(["a", "b"], vec![0.5, 0.25, 0.25], [])?;
/// let mut cold = Warped::new(table, 0.5, None)?;
/// let (mut sequence, mut logits) = (cold.start(), Logits::new());
/// cold.extend(&mut [Extension { sequence: &mut sequence, tokens: &[], rows: Rows::Last }], &mut logits)?;
/// // Squared and renormalised: 4/6, 1/6, 1/6.
/// let ratio = (logits.row(0)[0] - logits.row(0)[1]).exp();
/// assert!((ratio - 4.0).abs() < 1e-5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Warped<M> {
    model: M,
    warp: Warp,
}

/// A temperature, and a truncation after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Warp {
    temperature: f64,
    truncation: Option<Truncation>,
}

/// The least temperature. A lower one would turn logits of 10^8 into infinities, which are no distribution. For
/// models in use, temperatures far above this one leave only the most probable token.
pub const MIN_TEMPERATURE: f64 = 1e-30;

/// The greatest temperature. All tokens are equally probable at far lower ones.
pub const MAX_TEMPERATURE: f64 = 1e30;

/// A temperature outside the range by which logits can be divided.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error(
    "the temperature {value:?} is {}: give one from {MIN_TEMPERATURE:e} to {MAX_TEMPERATURE:e} (for the most probable tokens \
     alone there is greedy decoding)",
    if value.is_nan() { "not a number" } else if *value < 1.0 { "too small" } else { "too large" }
)]
#[non_exhaustive]
pub struct TemperatureError {
    /// The temperature.
    pub value: f64,
}

impl Default for Warp {
    fn default() -> Self {
        Self { temperature: 1.0, truncation: None }
    }
}

impl Warp {
    /// A division of logits by `temperature`, and then a truncation.
    ///
    /// # Errors
    ///
    /// [`TemperatureError`] when the temperature is below [`MIN_TEMPERATURE`] or above [`MAX_TEMPERATURE`].
    pub fn new(temperature: f64, truncation: Option<Truncation>) -> Result<Self, TemperatureError> {
        if !(MIN_TEMPERATURE..=MAX_TEMPERATURE).contains(&temperature) {
            return Err(TemperatureError { value: temperature });
        }
        Ok(Self { temperature, truncation })
    }

    /// Divides the logits where they lie. A truncation needs all logits in host memory.
    pub(crate) fn apply(&self, logits: &mut Logits) -> Result<(), RowError> {
        #[allow(clippy::float_cmp, reason = "exactly one is the temperature that changes nothing")]
        if self.temperature != 1.0 {
            logits.divide(self.temperature)?;
        }
        if let Some(truncation) = self.truncation {
            logits.read_all()?;
            (0..logits.len()).for_each(|row| truncate(truncation, logits.row_mut(row)));
        }
        Ok(())
    }
}

impl<M: LanguageModel> Warped<M> {
    /// `model` at `temperature`, with its distribution then truncated. At temperature 1 without truncation it is the
    /// model itself, bit by bit.
    ///
    /// # Errors
    ///
    /// [`TemperatureError`] when the temperature is below [`MIN_TEMPERATURE`] or above [`MAX_TEMPERATURE`].
    pub fn new(model: M, temperature: f64, truncation: Option<Truncation>) -> Result<Self, TemperatureError> {
        Ok(Self { model, warp: Warp::new(temperature, truncation)? })
    }
}

fn truncate(truncation: Truncation, row: &mut [f32]) {
    let kept = truncation.keep(row, log_normalizer(row));
    let kept: Vec<(usize, f32)> = kept.into_iter().map(|index| (index, row[index])).collect();
    row.fill(f32::NEG_INFINITY);
    for (index, logit) in kept {
        row[index] = logit;
    }
}

/// Rows that could not be warped: each question is answered with the reason. The error type of a warped model is that
/// of the model, which has no variant for rows.
#[derive(Debug)]
struct Unwarped {
    len: usize,
    vocab_len: usize,
    why: String,
}

impl LogitRows for Unwarped {
    fn len(&self) -> usize {
        self.len
    }

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn read(&self, _row: usize, _out: &mut [f32]) -> Result<(), RowError> {
        Err(RowError::Device { source: self.why.clone().into() })
    }

    fn answer(&self, _questions: &[RowQuestion<'_>], _answers: &mut Vec<RowAnswer>) -> Result<(), RowError> {
        Err(RowError::Device { source: self.why.clone().into() })
    }
}

impl<M: LanguageModel> LanguageModel for Warped<M> {
    type Sequence = M::Sequence;
    type Error = M::Error;

    fn vocab_len(&self) -> usize {
        self.model.vocab_len()
    }

    fn context_len(&self) -> Option<usize> {
        self.model.context_len()
    }

    fn start(&mut self) -> M::Sequence {
        self.model.start()
    }

    fn len(&self, sequence: &M::Sequence) -> usize {
        self.model.len(sequence)
    }

    fn fork(&mut self, sequence: &M::Sequence) -> M::Sequence {
        self.model.fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut M::Sequence, len: usize) {
        self.model.truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, M::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), M::Error> {
        self.model.extend(batch, logits)?;
        if let Err(error) = self.warp.apply(logits) {
            let why = error.to_string();
            logits.place(Box::new(Unwarped { len: logits.len(), vocab_len: logits.vocab_len(), why }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, conformance};

    use super::*;

    #[test]
    fn a_warped_model_keeps_the_contract_of_models() {
        let table = TableModel::new(["a", "b"], vec![0.5, 0.25, 0.25], []).unwrap();
        let truncation = Truncation::new(Some(2), None).unwrap();
        let mut warped = Warped::new(table, 0.7, Some(truncation)).unwrap();
        conformance::check_model(&mut warped, &[vec![0, 1, 1, 0], vec![], vec![1]], 0.0).unwrap();
    }

    #[test]
    fn a_temperature_that_is_none_is_an_error() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320, 1e31] {
            assert!(Warped::new(TableModel::uniform(["a"]), value, None).is_err());
        }
        let message = Warped::new(TableModel::uniform(["a"]), 1e-320, None).unwrap_err().to_string();
        assert!(
            message.starts_with("the temperature 1e-320 is too small: give one from 1e-30 to 1e30"),
            "{message}"
        );
    }

    #[test]
    fn the_least_temperature_leaves_a_distribution() {
        let table = TableModel::new(["a", "b"], vec![0.5, 0.3, 0.2], []).unwrap();
        for temperature in [MIN_TEMPERATURE, MAX_TEMPERATURE] {
            let mut warped = Warped::new(table.clone(), temperature, None).unwrap();
            let (mut sequence, mut logits) = (warped.start(), Logits::new());
            let rows = unskew_core::Rows::Last;
            warped
                .extend(&mut [Extension { sequence: &mut sequence, tokens: &[], rows }], &mut logits)
                .unwrap();
            assert!(logits.row(0).iter().all(|logit| logit.is_finite()), "{:?}", logits.row(0));
        }
    }
}
