//! The steps of an output with the mass that each mask leaves: an audit shows where an output loses the model's mass.

use unskew_core::{Constraint, Extension, LanguageModel, Logits, Rows, TokenId, TokenMask, logprob};

use crate::{SampleError, Task};

/// The number of rows that are requested in one pass.
const ROWS: usize = 64;

/// One step of an output. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TraceStep {
    /// The token; `None` for the end of the output.
    pub token: Option<TokenId>,
    /// The log-probability of the token under the model.
    pub log_prob: f64,
    /// The logarithm of the mass of the model's distribution that the mask leaves at this step, at most 0. Masked
    /// sampling draws the token with `log_prob - log_mass`.
    pub log_mass: f64,
    /// The most probable token that the mask forbids, with its log-probability: what the model would rather write where
    /// little mass is left.
    pub instead: Option<(TokenId, f64)>,
}

/// The steps of an output of `task`. The end is one of them where the constraint accepts the output.
///
/// Cost: one position for each token, and one pass for every 64 of them.
///
/// # Errors
///
/// [`SampleError::Model`] when the model fails (or does not know a token), [`SampleError::NotADistribution`], and
/// [`SampleError::DeadEnd`] with the tokens up to the first that the constraint does not allow.
pub fn trace<M: LanguageModel, C: Constraint>(
    task: &mut Task<M, C>,
    tokens: &[TokenId],
) -> Result<Vec<TraceStep>, SampleError<M::Error>> {
    let Task { model, constraint, prompt, end, max_tokens, .. } = task;
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut ends = TokenMask::new(model.vocab_len().max(constraint.vocab_len()));
    let (mut sequence, mut logits) = (model.start(), Logits::new());
    let mut steps = Vec::with_capacity(tokens.len() + 1);
    let mut appended: &[TokenId] = prompt;
    let mut next = 0;
    loop {
        let rows = if next == 0 { Rows::Last } else { Rows::All };
        let extension = Extension { sequence: &mut sequence, tokens: appended, rows };
        model.extend(&mut [extension], &mut logits).map_err(SampleError::Model)?;
        logits.read_all()?;
        for row in logits.rows() {
            let at = steps.len();
            let normalizer = logprob::log_normalizer(row);
            if !normalizer.is_finite() {
                return Err(SampleError::NotADistribution { tokens: at });
            }
            let log_prob = |id: TokenId| {
                row.get(id.index()).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit) - normalizer)
            };
            ends.as_mut().clear();
            if constraint.is_accepting(&state) && !constraint.fill_ends(&mut scratch, &state, ends.as_mut()) {
                end.iter().for_each(|id| ends.as_mut().insert(*id));
            }
            let stop = logprob::log_sum_exp(ends.ids().map(log_prob).collect::<Vec<_>>()).min(0.0);
            let mut left = vec![stop];
            mask.as_mut().clear();
            if at < *max_tokens {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                left.extend(mask.ids().map(log_prob));
            }
            let log_mass = logprob::log_sum_exp(left).min(0.0);
            let forbidden = (0..row.len()).map(TokenId::from_index).filter(|id| {
                let is_in = |mask: &TokenMask| id.index() < mask.len() && mask.contains(*id);
                !is_in(&mask) && !is_in(&ends)
            });
            let instead =
                forbidden.map(|id| (id, log_prob(id))).max_by(|left, right| left.1.total_cmp(&right.1));
            match tokens.get(at) {
                Some(token) => {
                    steps.push(TraceStep {
                        token: Some(*token),
                        log_prob: log_prob(*token),
                        log_mass,
                        instead,
                    });
                    if constraint.advance(&mut scratch, &mut state, *token).is_err() {
                        return Err(SampleError::DeadEnd { tokens: tokens[..at].to_vec() });
                    }
                }
                None if stop > f64::NEG_INFINITY => {
                    steps.push(TraceStep { token: None, log_prob: stop, log_mass, instead });
                }
                None => {}
            }
        }
        if next == tokens.len() {
            return Ok(steps);
        }
        let until = tokens.len().min(next + ROWS);
        appended = &tokens[next..until];
        next = until;
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, Unconstrained};

    use super::*;

    #[test]
    fn steps_have_the_models_numbers() {
        let model =
            TableModel::new(["a", "b"], vec![0.5, 0.25, 0.25], [(vec![TokenId(0)], vec![0.2, 0.3, 0.5])])
                .unwrap();
        let vocabulary = model.vocabulary().clone();
        let mut task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 2);
        let steps = trace(&mut task, &[TokenId(0), TokenId(1)]).unwrap();
        let numbers: Vec<_> = steps.iter().map(|step| (step.log_prob.exp(), step.log_mass.exp())).collect();
        // At the length limit only the end is allowed.
        for ((p, mass), (expected, left)) in numbers.into_iter().zip([(0.5, 1.0), (0.3, 1.0), (0.25, 0.25)]) {
            assert!((p - expected).abs() < 1e-6 && (mass - left).abs() < 1e-6);
        }
        assert_eq!(steps[2].token, None);
        // A hundred tokens, in several passes.
        task.max_tokens = 200;
        let long = vec![TokenId(1); 100];
        assert_eq!(trace(&mut task, &long).unwrap().len(), 101);
    }
}
