//! The contract of [`LogitRows`]: answers agree with the definition over the rows that are read.

use crate::{
    TokenId, TokenMask,
    rows::{Among, LogitRows, Pick, RowAnswer, RowQuestion, answer},
};

use super::ConformanceError;

/// The masks of the questions: all tokens, none, and every second and third token.
const STRIDES: [usize; 4] = [1, usize::MAX, 2, 3];

/// Compares the answers of `rows` with those of the definition ([`answer`]) over the logits that it reads. Masses
/// agree up to `tolerance` in the logarithm. Picked outcomes agree in their probability, and in the interval of
/// random numbers that leads to the end. Questions are asked one by one, and all at once.
///
/// # Errors
///
/// The first answer that differs.
///
/// # Panics
///
/// If the rows cannot be read or asked.
pub fn check_rows(rows: &dyn LogitRows, tolerance: f64) -> Result<(), ConformanceError> {
    let len = rows.vocab_len();
    let mut values = vec![0.0; len];
    let masks = STRIDES.map(|stride| {
        let mut mask = TokenMask::new(len);
        (0..len).step_by(stride).filter(|_| stride < usize::MAX).for_each(|id| {
            mask.as_mut().insert(TokenId::from_index(id));
        });
        mask
    });
    let lists = masks.each_ref().map(|mask| mask.ids().collect::<Vec<_>>());
    let half: Vec<TokenId> = (0..len / 2).map(TokenId::from_index).collect();
    let ends: Vec<TokenId> = (len.saturating_sub(2)..len).map(TokenId::from_index).collect();
    let mut questions = Vec::new();
    for row in 0..rows.len() {
        for (mask, list) in masks.iter().zip(&lists) {
            for among in [Among::All, Among::Mask(mask.as_ref()), Among::List(list)] {
                for without in [&[][..], &half] {
                    for ends in [&[][..], &ends] {
                        for pick in [
                            Pick::Nothing,
                            Pick::Best,
                            Pick::Uniform(0.0),
                            Pick::Uniform(0.3),
                            Pick::Uniform(0.999),
                        ] {
                            questions.push(RowQuestion { row, among, without, ends, pick });
                        }
                    }
                }
            }
        }
    }
    let mut all = Vec::new();
    rows.answer(&questions, &mut all).expect("the rows answer");
    for (question, at_once) in questions.iter().zip(&all) {
        rows.read(question.row, &mut values).expect("the rows can be read");
        let exact = answer(&values, question).expect("the row is a distribution");
        let mut alone = Vec::new();
        rows.answer(std::slice::from_ref(question), &mut alone).expect("the rows answer");
        for found in [at_once, &alone[0]] {
            if !agrees(found, &exact, question, &values, tolerance) {
                let detail = format!("{question:?}: {found:?} and not {exact:?}");
                return Err(ConformanceError::new("answers are those of the definition", detail));
            }
        }
    }
    Ok(())
}

fn agrees(
    found: &RowAnswer,
    exact: &RowAnswer,
    question: &RowQuestion<'_>,
    logits: &[f32],
    tolerance: f64,
) -> bool {
    let near = |left: f64, right: f64| left == right || (left - right).abs() <= tolerance;
    if !near(found.log_end, exact.log_end) || !near(found.log_mass, exact.log_mass) {
        return false;
    }
    match (found.picked, exact.picked) {
        (None, None) => true,
        (Some(found), Some(exact)) => {
            // The order of the tokens is free; the end comes first.
            if found.token.is_none() != exact.token.is_none() {
                return false;
            }
            let Some(token) = found.token else { return near(found.log_prob, exact.log_prob) };
            if question.pick == Pick::Best && !near(found.log_prob, exact.log_prob) {
                return false;
            }
            let of_token = answer(logits, &RowQuestion::mass(0, Among::List(&[token])));
            question.among.contains(token)
                && question.without.binary_search(&token).is_err()
                && of_token.is_ok_and(|of_token| near(found.log_prob, of_token.log_mass))
                && found.log_prob > f64::NEG_INFINITY
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Logits, rows::RowError};

    fn rows() -> Logits {
        let mut logits = Logits::new();
        for (index, logit) in logits.reset(2, 9).iter_mut().enumerate() {
            *logit = [1.5, -2.0, 0.25, f32::NEG_INFINITY, 3.0][index % 5];
        }
        logits
    }

    #[test]
    fn rows_in_host_memory_keep_it_and_a_planted_error_is_seen() {
        check_rows(&rows(), 0.0).unwrap();

        /// Rows that ignore the excluded tokens.
        #[derive(Debug)]
        struct Forgets(Logits);

        impl LogitRows for Forgets {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn vocab_len(&self) -> usize {
                self.0.vocab_len()
            }
            fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError> {
                self.0.read(row, out)
            }
            fn answer(
                &self,
                questions: &[RowQuestion<'_>],
                answers: &mut Vec<RowAnswer>,
            ) -> Result<(), RowError> {
                let all: Vec<_> =
                    questions.iter().map(|question| RowQuestion { without: &[], ..*question }).collect();
                self.0.answer(&all, answers)
            }
        }

        check_rows(&Forgets(rows()), 1e-9).unwrap_err();
        // Rows elsewhere are read, and divided, as rows in host memory are.
        let mut elsewhere = Logits::new();
        elsewhere.place(Box::new(Forgets(rows())));
        assert_eq!((elsewhere.len(), elsewhere.vocab_len(), elsewhere.host(0)), (2, 9, None));
        elsewhere.divide(0.5).unwrap();
        assert!(elsewhere.row(1).iter().zip(rows().row(1)).all(|(left, right)| *left == right * 2.0));
    }
}
