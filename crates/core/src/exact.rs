//! The exact distribution of a task, by enumeration: samplers are compared with it, where the outputs are few enough.

use std::collections::BTreeMap;

use crate::{
    Constraint, Extension, LanguageModel, Logits, Rows, TokenId, TokenMask, logprob::log_normalizer,
    with_tail,
};

/// Every output that a constraint accepts, with its probability under the model given that the output is accepted.
///
/// # Example
///
/// ```
/// use unskew_core::{ExactDistribution, TableModel, TokenId, Unconstrained};
///
/// let mut model = TableModel::uniform(["a"]);
/// let constraint = Unconstrained::new(model.vocabulary());
/// let end = model.vocabulary().end_of_sequence().to_vec();
/// // Outputs of at most one token: "" has probability 1/2, "a" has 1/4; 1/4 is lost to longer ones.
/// let distribution = ExactDistribution::enumerate(&mut model, &constraint, &[], &end, 1, 100)?;
/// assert!((distribution.mass() - 0.75).abs() < 1e-6);
/// assert!((distribution.probability(&[]) - 2.0 / 3.0).abs() < 1e-6);
/// # Ok::<(), unskew_core::EnumerationError<unskew_core::TableModelError>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExactDistribution {
    outputs: BTreeMap<Vec<TokenId>, f64>,
    mass: f64,
}

/// The reasons why a distribution could not be enumerated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnumerationError<E> {
    /// The number of prefixes exceeds the limit.
    #[error(
        "more than {limit} prefixes of outputs have a positive probability; shorten the outputs or raise the limit"
    )]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// No output is both accepted and possible under the model.
    #[error("no accepted output of at most {max_tokens} tokens has a positive probability under the model")]
    NoOutput {
        /// The length limit, in tokens.
        max_tokens: usize,
    },
    /// The model failed.
    #[error(transparent)]
    Model(E),
    /// A row of logits cannot be read to host memory.
    #[error("{why}")]
    Row {
        /// The error of the row, in words.
        why: String,
    },
}

impl ExactDistribution {
    /// Enumerates the outputs of at most `max_tokens` tokens after `prompt`. `end` are the ids that end a sequence.
    ///
    /// Cost: one evaluation of the model for each prefix of positive probability, at most `max_prefixes`.
    ///
    /// # Errors
    ///
    /// [`EnumerationError`] when there are more prefixes than `max_prefixes`, when no output is possible, or when the
    /// model fails.
    pub fn enumerate<M: LanguageModel, C: Constraint>(
        model: &mut M,
        constraint: &C,
        prompt: &[TokenId],
        end: &[TokenId],
        max_tokens: usize,
        max_prefixes: usize,
    ) -> Result<Self, EnumerationError<M::Error>> {
        let mut scratch = constraint.scratch();
        let mut logits = Logits::new();
        let mut mask = TokenMask::new(constraint.vocab_len());
        let mut ends = TokenMask::new(model.vocab_len().max(constraint.vocab_len()));
        let mut outputs: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
        let mut prefixes = 0;

        // Depth first. Each entry holds the sequence without its last tokens, which the entry's own pass appends.
        let root = model.start();
        let mut stack = vec![(root, prompt.to_vec(), Vec::new(), constraint.start(), 0.0_f64)];
        while let Some((mut sequence, appended, output, state, log_prob)) = stack.pop() {
            if constraint.is_over(&mut scratch, &state) {
                // Several tokens may pass the end after the same text.
                *outputs.entry(with_tail(output, constraint.tail(&state))).or_default() += log_prob.exp();
                continue;
            }
            prefixes += 1;
            if prefixes > max_prefixes {
                return Err(EnumerationError::TooMany { limit: max_prefixes });
            }
            let extension = Extension { sequence: &mut sequence, tokens: &appended, rows: Rows::Last };
            model.extend(&mut [extension], &mut logits).map_err(EnumerationError::Model)?;
            logits.read_all().map_err(|error| EnumerationError::Row { why: error.to_string() })?;
            let row = logits.row(0);
            let normalizer = log_normalizer(row);
            let log_next = |id: TokenId| {
                row.get(id.index()).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit)) - normalizer
            };

            if constraint.is_accepting(&state) {
                let stop: f64 = if constraint.fill_ends(&mut scratch, &state, ends.as_mut()) {
                    ends.ids().map(|id| log_next(id).exp()).sum()
                } else {
                    end.iter().map(|id| log_next(*id).exp()).sum()
                };
                if stop > 0.0 {
                    *outputs.entry(output.clone()).or_default() += log_prob.exp() * stop;
                }
            }
            if output.len() == max_tokens {
                continue;
            }
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            for id in mask.ids() {
                let next = log_next(id);
                if next == f64::NEG_INFINITY {
                    continue;
                }
                let mut after = state.clone();
                constraint.advance(&mut scratch, &mut after, id).expect("the mask allows the token");
                let mut longer = output.clone();
                longer.push(id);
                stack.push((model.fork(&sequence), vec![id], longer, after, log_prob + next));
            }
        }

        let mass: f64 = outputs.values().sum();
        if mass <= 0.0 {
            return Err(EnumerationError::NoOutput { max_tokens });
        }
        outputs.values_mut().for_each(|probability| *probability /= mass);
        Ok(Self { outputs, mass })
    }

    /// The probability, under the model, that an output is accepted and short enough: P(L) in the literature.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// The probability of `output` given that an output is accepted; zero when `output` is not.
    pub fn probability(&self, output: &[TokenId]) -> f64 {
        self.outputs.get(output).copied().unwrap_or(0.0)
    }

    /// Every output of positive probability with its probability, in lexicographic order of ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[TokenId], f64)> {
        self.outputs.iter().map(|(output, probability)| (output.as_slice(), *probability))
    }

    /// The number of outputs.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// False: a distribution has at least one output.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}
