//! Rows of which only some probabilities are known: the rows of an endpoint that returns the most probable tokens.
//!
//! An answer is exact, or an error. A mask that leaves only tokens of known probability has an exact mass. Where the
//! mask leaves others, the mass lies between two bounds, and no sampler could keep the distribution of the model. A
//! way out is the truncated model: it gives probability zero to all other tokens, and it is a model of its own.

use std::slice;

use super::{Among, LogitRows, Outcome, RowAnswer, RowError, RowQuestion, reference};
use crate::{TokenId, logprob};

/// One row: the probabilities of some tokens.
#[derive(Clone, PartialEq, Debug)]
pub struct KnownRow {
    /// The tokens in ascending order of ids, with their natural log-probabilities.
    tokens: Vec<(TokenId, f64)>,
    /// The logarithm of the mass of all other tokens.
    unknown: f64,
}

impl KnownRow {
    /// The row in which `tokens` have these natural log-probabilities, and all other tokens share the rest. If a
    /// token comes twice, its first probability counts.
    ///
    /// The mass of the other tokens is 1 minus the sum, at least 0: endpoints round.
    pub fn new(tokens: impl IntoIterator<Item = (TokenId, f64)>) -> Self {
        let mut tokens: Vec<(TokenId, f64)> = tokens.into_iter().collect();
        tokens.sort_by_key(|(token, _)| *token);
        tokens.dedup_by_key(|(token, _)| *token);
        let known: f64 = tokens.iter().map(|(_, log_prob)| log_prob.exp()).sum();
        Self { tokens, unknown: (1.0 - known).max(0.0).ln() }
    }

    /// The same row of the truncated model: other tokens have probability zero, and the probabilities of the row's
    /// tokens sum to one.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        let mass = logprob::log_sum_exp(self.tokens.iter().map(|(_, log_prob)| *log_prob));
        self.tokens.iter_mut().for_each(|(_, log_prob)| *log_prob -= mass);
        self.unknown = f64::NEG_INFINITY;
        self
    }

    fn get(&self, token: TokenId) -> Option<f64> {
        self.tokens.binary_search_by_key(&token, |(token, _)| *token).ok().map(|index| self.tokens[index].1)
    }

    fn is_distribution(&self) -> bool {
        let odd = |log_prob: f64| log_prob.is_nan() || log_prob == f64::INFINITY;
        !self.tokens.iter().any(|(_, log_prob)| odd(*log_prob))
            && (self.unknown > f64::NEG_INFINITY
                || self.tokens.iter().any(|(_, log_prob)| *log_prob > f64::NEG_INFINITY))
    }
}

/// Rows of which some probabilities are known.
#[derive(Clone, PartialEq, Debug)]
pub struct KnownRows {
    vocab_len: usize,
    rows: Vec<KnownRow>,
}

impl KnownRows {
    /// Rows over `vocab_len` tokens.
    pub fn new(vocab_len: usize, rows: Vec<KnownRow>) -> Self {
        Self { vocab_len, rows }
    }

    /// The log-probability of a token; an error where it is not known.
    fn log_prob(&self, row: usize, token: TokenId) -> Result<f64, RowError> {
        let known = &self.rows[row];
        match known.get(token) {
            Some(log_prob) => Ok(log_prob),
            None if known.unknown == f64::NEG_INFINITY || token.index() >= self.vocab_len => {
                Ok(f64::NEG_INFINITY)
            }
            None => Err(RowError::Unknown { row, known: known.tokens.len(), token, unknown: known.unknown }),
        }
    }

    fn answer_one(&self, question: &RowQuestion<'_>) -> Result<RowAnswer, RowError> {
        let RowQuestion { row, among, without, ends, pick } = *question;
        let known = &self.rows[row];
        if !known.is_distribution() {
            return Err(RowError::NotADistribution { row });
        }
        let is_asked = |token: &TokenId| among.contains(*token) && without.binary_search(token).is_err();
        if known.unknown > f64::NEG_INFINITY {
            let unknown = |token: &TokenId| is_asked(token) && known.get(*token).is_none();
            let ids = || (0..self.vocab_len).map(TokenId::from_index);
            let first = match among {
                Among::List(list) => list.iter().copied().find(unknown),
                Among::All | Among::Mask(_) => ids().find(unknown),
            };
            first.map_or(Ok(f64::NEG_INFINITY), |token| self.log_prob(row, token))?;
        }
        let ends: Vec<f64> = ends.iter().map(|id| self.log_prob(row, *id)).collect::<Result<_, _>>()?;
        let log_end = logprob::log_sum_exp(ends);
        let asked = || known.tokens.iter().filter(|(token, _)| is_asked(token));
        let log_mass = logprob::log_sum_exp(asked().map(|(_, log_prob)| *log_prob).collect::<Vec<_>>());
        let end = Outcome { token: None, log_prob: log_end };
        let tokens = asked().map(|(token, log_prob)| Outcome { token: Some(*token), log_prob: *log_prob });
        let picked = reference::pick(std::iter::once(end).chain(tokens), pick);
        Ok(RowAnswer { log_end, log_mass, picked })
    }
}

impl LogitRows for KnownRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError> {
        // A row with unknown logits has no form in host memory.
        self.answer_one(&RowQuestion::mass(row, Among::All))?;
        out.fill(f32::NEG_INFINITY);
        for (token, log_prob) in &self.rows[row].tokens {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            if let Some(out) = out.get_mut(token.index()) {
                *out = *log_prob as f32;
            }
        }
        Ok(())
    }

    fn answer(&self, questions: &[RowQuestion<'_>], answers: &mut Vec<RowAnswer>) -> Result<(), RowError> {
        let all: Vec<RowAnswer> =
            questions.iter().map(|question| self.answer_one(question)).collect::<Result<_, _>>()?;
        answers.extend(all);
        Ok(())
    }
}

impl<'a> IntoIterator for &'a KnownRows {
    type Item = &'a KnownRow;
    type IntoIter = slice::Iter<'a, KnownRow>;

    fn into_iter(self) -> slice::Iter<'a, KnownRow> {
        self.rows.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    fn row() -> KnownRow {
        KnownRow::new([(TokenId(3), 0.25f64.ln()), (TokenId(0), 0.5f64.ln())])
    }

    #[test]
    fn questions_about_known_tokens_have_exact_answers_and_others_are_errors() {
        let rows = KnownRows::new(5, vec![row()]);
        let mut answers = Vec::new();
        let known = [0, 3].map(TokenId);
        rows.answer(&[RowQuestion::mass(0, Among::List(&known))], &mut answers).unwrap();
        assert!((answers[0].log_mass.exp() - 0.75).abs() < 1e-12);
        let error =
            rows.answer(&[RowQuestion::mass(0, Among::List(&[TokenId(1)]))], &mut answers).unwrap_err();
        assert!(
            error.to_string().contains("has the probabilities of 2 tokens and not that of token 1"),
            "{error}"
        );
        assert!(matches!(
            rows.answer(&[RowQuestion::mass(0, Among::All)], &mut answers),
            Err(RowError::Unknown { token: TokenId(1), .. })
        ));
        assert_eq!(answers.len(), 1);
    }

    #[test]
    fn truncated_rows_keep_the_contract_of_rows() {
        conformance::check_rows(&KnownRows::new(5, vec![row().truncated()]), 1e-6).unwrap();
    }
}
