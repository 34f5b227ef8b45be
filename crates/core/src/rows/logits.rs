//! The rows of one pass: in host memory, in a buffer that is used again for the next pass, or elsewhere.

use std::borrow::Cow;

use super::{LogitRows, RowAnswer, RowError, RowQuestion, reference};

/// Rows of next-token logits.
///
/// A logit is an unnormalised natural-log probability; minus infinity means probability zero. Most models write their
/// rows into host memory ([`reset`](Self::reset)). A model on a device, or a model with only some of its
/// probabilities known, hands over rows that [answer](LogitRows) questions instead ([`place`](Self::place)).
#[derive(Debug, Default)]
pub struct Logits {
    vocab_len: usize,
    /// Row-major.
    values: Vec<f32>,
    elsewhere: Option<Box<dyn LogitRows>>,
}

impl Logits {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the buffer hold `rows` rows of `vocab_len` values and returns them, row-major. The model must write
    /// every value: the buffer holds the values of the call before, since writing zeros would cost a model of many
    /// tokens as much as its sampler does.
    pub fn reset(&mut self, rows: usize, vocab_len: usize) -> &mut [f32] {
        self.elsewhere = None;
        self.vocab_len = vocab_len;
        self.values.resize(rows * vocab_len, 0.0);
        &mut self.values
    }

    /// Replaces all rows by rows outside host memory.
    pub fn place(&mut self, rows: Box<dyn LogitRows>) {
        self.vocab_len = rows.vocab_len();
        self.values.clear();
        self.elsewhere = Some(rows);
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.elsewhere {
            Some(rows) => rows.len(),
            None => self.values.len().checked_div(self.vocab_len).unwrap_or(0),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a row.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// Row `index`, if it lies in host memory.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn host(&self, index: usize) -> Option<&[f32]> {
        match self.elsewhere {
            Some(_) => None,
            None => Some(&self.values[index * self.vocab_len..(index + 1) * self.vocab_len]),
        }
    }

    /// Row `index`: where it lies in host memory, or a copy there.
    ///
    /// # Errors
    ///
    /// [`RowError`] where the row lies elsewhere and cannot be read.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn to_host(&self, index: usize) -> Result<Cow<'_, [f32]>, RowError> {
        if let Some(row) = self.host(index) {
            return Ok(Cow::Borrowed(row));
        }
        let mut row = vec![0.0; self.vocab_len];
        LogitRows::read(self, index, &mut row)?;
        Ok(Cow::Owned(row))
    }

    /// Row `index`.
    ///
    /// # Panics
    ///
    /// If there is no such row, or the rows lie outside host memory: [`read_all`](Self::read_all) copies them there.
    pub fn row(&self, index: usize) -> &[f32] {
        self.host(index).expect("the rows lie in host memory, or were read to it")
    }

    /// Row `index`, to be changed in place.
    ///
    /// # Panics
    ///
    /// As [`row`](Self::row).
    pub fn row_mut(&mut self, index: usize) -> &mut [f32] {
        assert!(self.elsewhere.is_none(), "the rows lie in host memory, or were read to it");
        &mut self.values[index * self.vocab_len..(index + 1) * self.vocab_len]
    }

    /// All rows, in order.
    ///
    /// # Panics
    ///
    /// As [`row`](Self::row).
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        assert!(self.elsewhere.is_none(), "the rows lie in host memory, or were read to it");
        // `chunks_exact` refuses a length of zero; a buffer that was never reset has no values either.
        self.values.chunks_exact(self.vocab_len.max(1))
    }

    /// Copies all rows to host memory; no copy where they are there already.
    ///
    /// # Errors
    ///
    /// [`RowError`]; the rows then stay where they are.
    pub fn read_all(&mut self) -> Result<(), RowError> {
        let Some(rows) = self.elsewhere.take() else { return Ok(()) };
        let (len, vocab_len) = (rows.len(), rows.vocab_len());
        let mut rest = self.reset(len, vocab_len);
        for row in 0..len {
            let (out, after) = std::mem::take(&mut rest).split_at_mut(vocab_len);
            rest = after;
            if let Err(error) = rows.read(row, out) {
                self.place(rows);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Divides all logits by `temperature`: where the rows lie if that is possible, and in host memory otherwise. A
    /// quotient is rounded once.
    ///
    /// # Errors
    ///
    /// [`RowError`] where rows that must be read to host memory cannot be.
    pub fn divide(&mut self, temperature: f64) -> Result<(), RowError> {
        if let Some(rows) = &mut self.elsewhere {
            if rows.divide(temperature) {
                return Ok(());
            }
            self.read_all()?;
        }
        for logit in &mut self.values {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let quotient = (f64::from(*logit) / temperature) as f32;
            *logit = quotient;
        }
        Ok(())
    }
}

impl LogitRows for Logits {
    fn len(&self) -> usize {
        self.len()
    }

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError> {
        match (&self.elsewhere, self.host(row)) {
            (Some(rows), _) => rows.read(row, out)?,
            (None, Some(values)) => out.copy_from_slice(values),
            (None, None) => unreachable!("a row lies in host memory or elsewhere"),
        }
        Ok(())
    }

    fn answer(&self, questions: &[RowQuestion<'_>], answers: &mut Vec<RowAnswer>) -> Result<(), RowError> {
        if let Some(rows) = &self.elsewhere {
            return rows.answer(questions, answers);
        }
        let all: Vec<RowAnswer> = questions
            .iter()
            .map(|question| reference::answer(self.row(question.row), question))
            .collect::<Result<_, _>>()?;
        answers.extend(all);
        Ok(())
    }

    fn divide(&mut self, temperature: f64) -> bool {
        self.divide(temperature).is_ok()
    }
}
