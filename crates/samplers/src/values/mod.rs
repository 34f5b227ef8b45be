//! Values: estimates of the probability that the model, from a prefix, satisfies the constraint.
//!
//! At a prefix x the law of the next token, given that the output will be accepted, is
//!
//! ```text
//! p(t | x) h(x t) / h(x)        h(x) = the probability that the model completes x to an accepted output
//! ```
//!
//! Masked sampling takes h for a constant. The [bounds](crate::tree) of exact samplers are above h: an unknown prefix
//! has the bound one, so they lead into unknown prefixes. A value is an estimate of h itself, and an unknown prefix
//! has about the value of its known siblings. A proposal by values ("twisted", in the words of sequential Monte
//! Carlo) therefore needs no visit of a prefix to avoid it. Values decide which outputs are proposed. They never
//! decide which distribution a sampler keeps: each output has its weight.
//!
//! h depends on a prefix mostly through the state of the constraint, and states come again at other prefixes. A value
//! is taken from the first of these that is known:
//!
//! | source | of |
//! |---|---|
//! | [`Lookahead::value`] | the prefix itself, once a rollout has passed it |
//! | [`StateValues`] | the state of the constraint, by its [key](unskew_core::Constraint::state_key) |
//! | the mean of the known values of its siblings, by probability | neither |
//!
//! A rollout that has ended teaches the values of its prefixes, the last first: the value of a prefix is the sum over
//! its continuations of their probability times their value (temporal differences with the expectation over the next
//! token, so that no noise of the draw enters). The value of a state is the mean of the values of its prefixes, of
//! the last ones with more weight, and of its siblings', which counts less with each visit.
//!
//! Tried instead, on eight constraints over the embedded model (divergence of a proposal from the model's
//! distribution, in nats, after 0, 5 and 100 rollouts): only prefixes (dates 12.8, 11.2, 1.4; optional members 63,
//! 53, 47), only states (dates 12.8, 5.3, 3.3; optional members 63, 3.9, 1.8), states with the last byte (dates 12.8,
//! 11.0, 8.2), and both, which is this (dates 12.8, 4.1, 0.3; optional members 63, 6.9, 1.2). A part of the mean of
//! all siblings in each value of a state kept proposals wider, and was no better.

mod lookahead;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use lookahead::{CANDIDATES, LEAST_LOG_RATIO, Lookahead, Outlook, Successor, Way};
use unskew_core::{Generations, TokenId};

use crate::tree::add;

/// The number of earlier values that a new value is averaged with, at most.
const MEMORY: f64 = 9.0;

/// The number of visits that the mean of its siblings counts for in the value of a state.
const PRIOR: f64 = 0.5;

/// The values of a constraint's states. A clone is the same table: samplers of one constraint may share it, also over
/// several prompts.
///
/// A table belongs to one compiled constraint and one model. With another one, proposals are worse, and no
/// distribution changes.
///
/// # Example
///
/// ```
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// use unskew_core::{Sampler, TableModel, Unconstrained};
/// use unskew_samplers::{Sampling, StateValues, Task, Twisted};
///
/// let values = StateValues::new(1 << 20);
/// for prompt in [vec![], vec![unskew_core::TokenId(0)]] {
///     let model = TableModel::uniform(["a", "b"]);
///     let vocabulary = model.vocabulary().clone();
///     let task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 3).after(prompt);
///     let policy = Twisted::new().with_values(values.clone());
///     Sampling::new(task, policy).draw(&mut ChaCha8Rng::seed_from_u64(7))?;
/// }
/// assert_eq!(values.len(), 1); // this constraint has one state
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StateValues(Arc<Mutex<Table>>);

#[derive(Clone, Debug)]
struct Table {
    means: Generations<u64, Mean>,
}

/// A mean of values; natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mean {
    log_mean: f64,
    /// The number of values that it was learned from.
    count: f64,
}

impl Mean {
    /// The value of a state among siblings whose values have the mean `other`. A state that was met once or twice may
    /// have had bad luck: without the part of `other` it would not be proposed again for long.
    fn among(self, other: f64) -> f64 {
        add([self.log_mean + self.count.ln(), other + PRIOR.ln()]) - (self.count + PRIOR).ln()
    }
}

/// The least logarithm of a value that is not zero. Weights are differences of such numbers, and a greater one leaves
/// them no digits.
const LEAST_LOG_VALUE: f64 = -1e6;

fn within(log_value: f64) -> f64 {
    if log_value == f64::NEG_INFINITY { log_value } else { log_value.clamp(LEAST_LOG_VALUE, 0.0) }
}

/// Bytes that do not hold values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("these are no values of states, or their file is damaged")]
#[non_exhaustive]
pub struct ValuesError;

/// The most visits that a file of values may claim.
const MOST: f64 = 9e15;

/// The first bytes of a file of values.
const MAGIC: &[u8; 8] = b"unskewv1";

impl StateValues {
    /// An empty table of at most so many bytes. The states that were not met for longest are forgotten beyond it.
    pub fn new(max_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Table { means: Generations::new(max_bytes) })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A table is whole between any two instructions that might panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table of its own with the same values.
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.table().clone())))
    }

    /// The number of states whose value is known.
    pub fn len(&self) -> usize {
        self.table().means.len()
    }

    /// Whether no value is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The logarithm of the value of a state, by its [key](unskew_core::Constraint::state_key).
    pub fn log_value(&self, key: u64) -> Option<f64> {
        self.table().means.peek(&key).map(|mean| mean.log_mean)
    }

    /// Calls `each` with the values of states.
    fn each(&self, keys: impl Iterator<Item = Option<u64>>, mut each: impl FnMut(Option<Mean>)) {
        let table = self.table();
        keys.for_each(|key| each(key.and_then(|key| table.means.peek(&key)).copied()));
    }

    /// Takes the logarithm of the value of a prefix in this state into the state's mean. A value is a probability:
    /// one above it counts as one, and NaN is left out. A logarithm below -1,000,000 counts as that, unless the value
    /// is zero.
    pub fn learn(&self, key: u64, log_value: f64) {
        if log_value.is_nan() {
            return;
        }
        let log_value = within(log_value);
        let mut table = self.table();
        let old = table.means.get(&key).copied().unwrap_or(Mean { log_mean: f64::NEG_INFINITY, count: 0.0 });
        let weight = old.count.min(MEMORY);
        let sum = add([old.log_mean + weight.ln(), log_value]);
        let mean = Mean { log_mean: within(sum - (weight + 1.0).ln()), count: old.count + 1.0 };
        table.means.insert(key, mean, 0);
    }

    /// The values as bytes, for [`load`](Self::load). O(n log n) for n states.
    pub fn save(&self) -> Vec<u8> {
        let table = self.table();
        let mut entries: Vec<_> = table.means.entries().map(|(key, mean)| (*key, *mean)).collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let mut bytes = MAGIC.to_vec();
        for (key, Mean { log_mean, count }) in entries {
            for word in [key, log_mean.to_bits(), count.to_bits()] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }

    /// Adds values that were [saved](Self::save); they replace values of the same states.
    ///
    /// # Errors
    ///
    /// [`ValuesError`] where the bytes are no such file; nothing is added then.
    pub fn load(&self, bytes: &[u8]) -> Result<(), ValuesError> {
        let words = bytes.strip_prefix(MAGIC).ok_or(ValuesError)?;
        let (entries, rest) = words.as_chunks::<24>();
        let entry = |bytes: &[u8; 24]| {
            let (words, _) = bytes.as_chunks::<8>();
            let [key, log_mean, count] = [0, 1, 2].map(|index| u64::from_le_bytes(words[index]));
            let mean = Mean { log_mean: f64::from_bits(log_mean), count: f64::from_bits(count) };
            let is_valid = mean.log_mean <= 0.0 && (1.0..=MOST).contains(&mean.count);
            is_valid.then_some((key, mean))
        };
        let entries: Option<Vec<_>> = entries.iter().map(entry).collect();
        let entries = entries.filter(|_| rest.is_empty()).ok_or(ValuesError)?;
        let mut table = self.table();
        for (key, mean) in entries {
            table.means.insert(key, Mean { log_mean: within(mean.log_mean), ..mean }, 0);
        }
        Ok(())
    }
}

/// The keys of the states that tokens lead to, by the key of the state before.
pub(crate) type SuccessorKeys = Generations<(u64, TokenId), Option<u64>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_mean_in_which_old_values_fade() {
        let values = StateValues::new(1 << 16);
        assert_eq!(values.log_value(1), None);
        for value in [0.5f64, 0.25] {
            values.learn(1, value.ln());
        }
        assert!((values.log_value(1).unwrap().exp() - 0.375).abs() < 1e-12);
        values.learn(1, f64::NEG_INFINITY);
        assert!((values.log_value(1).unwrap().exp() - 0.25).abs() < 1e-12);
        for _ in 0..200 {
            values.learn(1, 0.125f64.ln());
        }
        assert!((values.log_value(1).unwrap().exp() - 0.125).abs() < 1e-6);
        values.learn(2, f64::NAN);
        assert_eq!(values.len(), 1);
        values.learn(2, f64::INFINITY);
        assert_eq!(values.log_value(2), Some(0.0));
    }

    #[test]
    fn saved_values_are_loaded_and_damaged_ones_refused() {
        let values = StateValues::new(1 << 16);
        (0..50).for_each(|key| values.learn(key, -f64::from(key as u32)));
        let bytes = values.save();
        let again = StateValues::new(1 << 16);
        again.load(&bytes).unwrap();
        assert_eq!(again.save(), bytes);
        for damaged in [&bytes[1..], &bytes[..bytes.len() - 1], b"", &[&bytes[..], &[0xff; 24]].concat()] {
            assert_eq!(again.load(damaged), Err(ValuesError));
        }
        assert_eq!(again.save(), bytes);
    }

    #[test]
    fn the_table_keeps_its_limit() {
        let values = StateValues::new(4_000);
        (0..10_000).for_each(|key| values.learn(key, -1.0));
        assert!(values.table().means.bytes() <= 4_000);
        assert!(values.log_value(9_999).is_some());
    }
}
