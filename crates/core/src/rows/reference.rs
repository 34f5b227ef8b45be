//! The answers of a row in host memory, by definition: the oracle of every other implementation.

use super::{Outcome, Pick, RowAnswer, RowError, RowQuestion};
use crate::{TokenId, logprob};

/// The answer of the row `logits` to `question`, whose row number is used only in errors. Sums are in `f64` and in
/// log space. Of the tokens, the lower id comes first. Cost: several passes over the row.
///
/// # Errors
///
/// [`RowError::NotADistribution`].
pub fn answer(logits: &[f32], question: &RowQuestion<'_>) -> Result<RowAnswer, RowError> {
    let normalizer = logprob::log_normalizer(logits);
    if !normalizer.is_finite() {
        return Err(RowError::NotADistribution { row: question.row });
    }
    let log_prob = |id: TokenId| {
        logits.get(id.index()).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit) - normalizer)
    };
    let tokens: Vec<TokenId> = (0..logits.len())
        .map(TokenId::from_index)
        .filter(|id| question.among.contains(*id) && question.without.binary_search(id).is_err())
        .collect();
    let log_end = logprob::log_sum_exp(question.ends.iter().map(|id| log_prob(*id)));
    let log_mass = logprob::log_sum_exp(tokens.iter().map(|id| log_prob(*id)));
    let end = std::iter::once(Outcome { token: None, log_prob: log_end });
    let of_token = |id: &TokenId| Outcome { token: Some(*id), log_prob: log_prob(*id) };
    Ok(RowAnswer { log_end, log_mass, picked: pick(end.chain(tokens.iter().map(of_token)), question.pick) })
}

/// The picked outcome, of those with a positive probability.
fn pick(outcomes: impl Iterator<Item = Outcome> + Clone, pick: Pick) -> Option<Outcome> {
    let possible = outcomes.filter(|outcome| outcome.log_prob > f64::NEG_INFINITY);
    let total = logprob::log_sum_exp(possible.clone().map(|outcome| outcome.log_prob).collect::<Vec<_>>());
    match pick {
        Pick::Nothing => None,
        Pick::Best => {
            possible.reduce(|best, other| if other.log_prob > best.log_prob { other } else { best })
        }
        Pick::Uniform(uniform) => {
            let mut left = uniform;
            let mut last = None;
            for outcome in possible {
                let share = (outcome.log_prob - total).exp();
                // The last outcome takes the part that rounding leaves.
                last = Some(outcome).filter(|_| share > 0.0).or(last);
                if left < share {
                    break;
                }
                left -= share;
            }
            last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Among;

    #[test]
    fn an_answer_has_the_masses_and_an_outcome_by_its_share() {
        let logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
        let list = [0, 1, 3].map(TokenId);
        let question = RowQuestion {
            among: Among::List(&list),
            without: &[TokenId(1)],
            ends: &[TokenId(2)],
            pick: Pick::Uniform(0.1),
            ..RowQuestion::mass(0, Among::All)
        };
        let end = answer(&logits, &question).unwrap();
        assert!((end.log_end.exp() - 0.125).abs() < 1e-6 && (end.log_mass.exp() - 0.625).abs() < 1e-6);
        assert_eq!(end.picked.unwrap().token, None);
        for (uniform, token) in [(0.2, 0), (0.8, 0), (0.9, 3)] {
            let picked =
                answer(&logits, &RowQuestion { pick: Pick::Uniform(uniform), ..question }).unwrap().picked;
            assert_eq!(picked.unwrap().token, Some(TokenId(token)));
        }
        let nothing = RowQuestion { ends: &[], among: Among::List(&[]), ..question };
        assert_eq!(answer(&logits, &nothing).unwrap().picked, None);
        let best = answer(&logits, &RowQuestion { pick: Pick::Best, ..question }).unwrap();
        assert_eq!(best.picked.unwrap().token, Some(TokenId(0)));
        // Of equally probable outcomes, the end.
        let equal = RowQuestion { among: Among::List(&list[2..]), pick: Pick::Best, ..question };
        assert_eq!(answer(&logits, &equal).unwrap().picked.unwrap().token, None);
        assert!(answer(&[f32::NAN], &question).is_err());
    }
}
