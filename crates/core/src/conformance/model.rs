//! The contract of [`LanguageModel`]: all ways to a context yield the same row.

use super::ConformanceError;
use crate::{Extension, LanguageModel, Logits, Rows, TokenId};

/// Checks the contract of [`LanguageModel`] over `texts`, each a sequence of ids that the model can read, up to an
/// absolute difference of `tolerance` between logits.
///
/// The oracle is a fresh sequence for every position. Cost: about `6 n^2` positions for a text of `n` tokens.
///
/// # Errors
///
/// The first rule that does not hold. An error of the model itself counts as one.
pub fn check_model<M: LanguageModel>(
    model: &mut M,
    texts: &[Vec<u32>],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    let texts: Vec<Vec<TokenId>> =
        texts.iter().map(|text| text.iter().copied().map(TokenId).collect()).collect();
    let mut rows_of = Vec::new();
    for text in &texts {
        let rows = fresh_rows(model, text)?;
        check_at_once(model, text, &rows, tolerance)?;
        check_fork_and_truncate(model, text, &rows, tolerance)?;
        check_error(model, text, &rows, tolerance)?;
        rows_of.push(rows);
    }
    check_batch(model, &texts, &rows_of, tolerance)
}

/// The row after each non-empty prefix, each from a sequence of its own.
fn fresh_rows<M: LanguageModel>(model: &mut M, text: &[TokenId]) -> Result<Vec<Vec<f32>>, ConformanceError> {
    (1..=text.len())
        .map(|len| {
            let mut sequence = model.start();
            Ok(extend(model, &mut sequence, &text[..len], Rows::Last)?.row(0).to_vec())
        })
        .collect()
}

fn extend<M: LanguageModel>(
    model: &mut M,
    sequence: &mut M::Sequence,
    tokens: &[TokenId],
    rows: Rows,
) -> Result<Logits, ConformanceError> {
    let mut logits = Logits::new();
    let before = model.len(sequence);
    model
        .extend(&mut [Extension { sequence, tokens, rows }], &mut logits)
        .map_err(|error| ConformanceError::new("a model reads its own tokens", error.to_string()))?;
    read_all(&mut logits)?;
    if model.len(sequence) != before + tokens.len() {
        return Err(ConformanceError::new(
            "a sequence is as long as what was appended",
            format!("{tokens:?}"),
        ));
    }
    if logits.len() != rows.count(tokens.len())
        || (!logits.is_empty() && logits.vocab_len() != model.vocab_len())
    {
        let detail = format!("{} rows of {} for {rows:?} of {tokens:?}", logits.len(), logits.vocab_len());
        return Err(ConformanceError::new("as many rows as were asked for", detail));
    }
    Ok(logits)
}

fn compare(
    rule: &'static str,
    at: &str,
    got: &[f32],
    expected: &[f32],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    for (id, (got, expected)) in got.iter().zip(expected).enumerate() {
        // Equal values come first: the difference of two infinities is no number.
        let near = got == expected || (got - expected).abs() <= tolerance;
        if !near {
            let detail = format!("{at}, token {id}: {got} instead of {expected} (tolerance {tolerance})");
            return Err(ConformanceError::new(rule, detail));
        }
    }
    Ok(())
}

fn check_at_once<M: LanguageModel>(
    model: &mut M,
    text: &[TokenId],
    rows: &[Vec<f32>],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    let rule = "tokens at once are tokens one by one";
    let mut at_once = model.start();
    let logits = extend(model, &mut at_once, text, Rows::All)?;
    for (position, (got, expected)) in logits.rows().zip(rows).enumerate() {
        compare(rule, &format!("all of {text:?}, position {position}"), got, expected, tolerance)?;
    }
    for first in [1, text.len(), text.len() + 1] {
        let mut some = model.start();
        let logits = extend(model, &mut some, text, Rows::From(first))?;
        for (position, (got, expected)) in (first..).zip(logits.rows().zip(rows.iter().skip(first))) {
            compare(
                rule,
                &format!("from {first} of {text:?}, position {position}"),
                got,
                expected,
                tolerance,
            )?;
        }
    }
    let mut one_by_one = model.start();
    for (position, token) in text.iter().enumerate() {
        let logits = extend(model, &mut one_by_one, &[*token], Rows::Last)?;
        compare(rule, &format!("{text:?}, position {position}"), logits.row(0), &rows[position], tolerance)?;
    }
    if let Some(last) = rows.last() {
        let again = extend(model, &mut one_by_one, &[], Rows::Last)?;
        compare("a row can be asked for again", &format!("{text:?}"), again.row(0), last, tolerance)?;
    }
    Ok(())
}

fn check_fork_and_truncate<M: LanguageModel>(
    model: &mut M,
    text: &[TokenId],
    rows: &[Vec<f32>],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    let mut whole = model.start();
    extend(model, &mut whole, text, Rows::Last)
        .or_else(|error| if text.is_empty() { Ok(Logits::new()) } else { Err(error) })?;
    for cut in 1..text.len() {
        let at = format!("{text:?} cut at {cut}");
        let mut fork = model.fork(&whole);
        model.truncate(&mut fork, cut);
        if model.len(&fork) != cut || model.len(&whole) != text.len() {
            return Err(ConformanceError::new("truncating a fork leaves the original", at));
        }
        // The fork takes another way first, so that it would overwrite any shared data.
        extend(model, &mut fork, &text[..1], Rows::Last)?;
        model.truncate(&mut fork, cut);
        let logits = extend(model, &mut fork, &text[cut..], Rows::All)?;
        for (offset, got) in logits.rows().enumerate() {
            compare("truncating and appending again", &at, got, &rows[cut + offset], tolerance)?;
        }
        let again = extend(model, &mut whole, &[], Rows::Last)?;
        compare(
            "a fork and its original are independent",
            &at,
            again.row(0),
            &rows[text.len() - 1],
            tolerance,
        )?;
    }
    Ok(())
}

/// A batch with one wrong item changes no item.
fn check_error<M: LanguageModel>(
    model: &mut M,
    text: &[TokenId],
    rows: &[Vec<f32>],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    let rule = "an error changes no sequence";
    let Some(half) = (text.len() / 2).checked_sub(1).map(|half| half + 1) else { return Ok(()) };
    let beyond = TokenId::from_index(model.vocab_len());
    let (mut good, mut bad) = (model.start(), model.start());
    extend(model, &mut good, &text[..half], Rows::Last)?;
    let mut batch = [
        Extension { sequence: &mut good, tokens: &text[half..], rows: Rows::Last },
        Extension { sequence: &mut bad, tokens: &[beyond], rows: Rows::Last },
    ];
    if model.extend(&mut batch, &mut Logits::new()).is_ok() {
        return Err(ConformanceError::new(
            "a token beyond the vocabulary is an error",
            format!("token {beyond}"),
        ));
    }
    if model.len(&good) != half || !model.is_empty(&bad) {
        return Err(ConformanceError::new(rule, format!("{text:?}")));
    }
    let logits = extend(model, &mut good, &text[half..], Rows::Last)?;
    compare(rule, &format!("{text:?}"), logits.row(0), &rows[text.len() - 1], tolerance)
}

/// All texts in one pass, half of each first, so that items differ in length and position.
fn check_batch<M: LanguageModel>(
    model: &mut M,
    texts: &[Vec<TokenId>],
    rows: &[Vec<Vec<f32>>],
    tolerance: f32,
) -> Result<(), ConformanceError> {
    let rule = "a batch is its items";
    let mut sequences: Vec<_> = texts.iter().map(|_| model.start()).collect();
    for second_half in [false, true] {
        let part = |text: &[TokenId]| {
            let half = text.len() / 2;
            if second_half { half..text.len() } else { 0..half }
        };
        let mut batch: Vec<_> = sequences
            .iter_mut()
            .zip(texts)
            .map(|(sequence, text)| Extension { sequence, tokens: &text[part(text)], rows: Rows::All })
            .collect();
        let mut logits = Logits::new();
        model
            .extend(&mut batch, &mut logits)
            .map_err(|error| ConformanceError::new(rule, error.to_string()))?;
        read_all(&mut logits)?;
        let expected = texts.iter().zip(rows).flat_map(|(text, rows)| &rows[part(text)]);
        if logits.len() != expected.clone().count() {
            return Err(ConformanceError::new(rule, format!("{} rows", logits.len())));
        }
        for (row, (got, expected)) in logits.rows().zip(expected).enumerate() {
            compare(rule, &format!("row {row} of the batch"), got, expected, tolerance)?;
        }
    }
    Ok(())
}

/// Rows are compared in host memory.
fn read_all(logits: &mut Logits) -> Result<(), ConformanceError> {
    logits.read_all().map_err(|error| ConformanceError::new("rows can be read", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableModel;

    /// A table model whose forks share their tokens.
    struct Shared(TableModel);

    impl LanguageModel for Shared {
        type Sequence = std::rc::Rc<std::cell::RefCell<Vec<TokenId>>>;
        type Error = crate::TableModelError;

        fn vocab_len(&self) -> usize {
            self.0.vocab_len()
        }
        fn context_len(&self) -> Option<usize> {
            None
        }
        fn start(&mut self) -> Self::Sequence {
            Self::Sequence::default()
        }
        fn len(&self, sequence: &Self::Sequence) -> usize {
            sequence.borrow().len()
        }
        fn fork(&mut self, sequence: &Self::Sequence) -> Self::Sequence {
            sequence.clone()
        }
        fn truncate(&mut self, sequence: &mut Self::Sequence, len: usize) {
            sequence.borrow_mut().truncate(len);
        }
        fn extend(
            &mut self,
            batch: &mut [Extension<'_, Self::Sequence>],
            logits: &mut Logits,
        ) -> Result<(), Self::Error> {
            let mut owned: Vec<_> = batch.iter().map(|item| item.sequence.borrow().clone()).collect();
            let mut inner: Vec<_> = owned
                .iter_mut()
                .zip(batch.iter())
                .map(|(sequence, item)| Extension { sequence, tokens: item.tokens, rows: item.rows })
                .collect();
            self.0.extend(&mut inner, logits)?;
            for (item, tokens) in batch.iter_mut().zip(owned) {
                *item.sequence.borrow_mut() = tokens;
            }
            Ok(())
        }
    }

    fn model() -> TableModel {
        let row = |values: [f64; 3]| values.to_vec();
        let contexts = [
            (vec![TokenId(0)], row([0.2, 0.3, 0.5])),
            (vec![TokenId(0), TokenId(1)], row([0.0, 0.5, 0.5])),
            (vec![TokenId(1), TokenId(1), TokenId(0)], row([1.0, 0.0, 0.0])),
        ];
        TableModel::new(["a", "b"], row([0.5, 0.25, 0.25]), contexts).unwrap()
    }

    #[test]
    fn a_table_keeps_the_contract_and_shared_forks_break_them() {
        let texts = [vec![0, 1, 1, 0], vec![1, 1, 0], vec![], vec![0]];
        check_model(&mut model(), &texts, 0.0).unwrap();
        let error = check_model(&mut Shared(model()), &texts, 0.0).unwrap_err();
        assert_eq!(error.rule, "truncating a fork leaves the original");
    }
}
