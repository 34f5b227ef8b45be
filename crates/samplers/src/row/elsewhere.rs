//! A row outside host memory, on a device or at an endpoint. It answers questions.

use std::sync::Arc;

use unskew_core::{
    Logits, RowError, TokenId, TokenMask,
    rows::{Among, LogitRows, Pick, RowAnswer, RowQuestion},
};

use super::{DenseRow, Drawn};

/// Row `index` of a pass, from which the tokens of a mask may be proposed. It keeps the logits of the whole pass alive.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    logits: Arc<Logits>,
    index: usize,
    mask: Arc<TokenMask>,
    /// The logarithm of the mass of the mask's tokens.
    sum: f64,
}

impl Elsewhere {
    pub(crate) fn new(logits: &Arc<Logits>, index: usize, mask: Arc<TokenMask>, sum: f64) -> Self {
        Self { logits: Arc::clone(logits), index, mask, sum }
    }

    fn ask(&self, without: &[TokenId], pick: Pick) -> Result<RowAnswer, RowError> {
        let among = Among::Mask(self.mask.as_ref().as_ref());
        let question = RowQuestion { without, pick, ..RowQuestion::mass(self.index, among) };
        ask_one(&self.logits, &question)
    }

    pub(super) fn of_token(&self, token: TokenId) -> Result<f64, RowError> {
        if token.index() >= self.mask.len() || !self.mask.contains(token) {
            return Ok(f64::NEG_INFINITY);
        }
        let token = [token];
        Ok(ask_one(&self.logits, &RowQuestion::mass(self.index, Among::List(&token)))?.log_mass)
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    pub(super) fn log_mass(&self, without: &[TokenId]) -> Result<f64, RowError> {
        if without.is_empty() {
            return Ok(self.sum);
        }
        Ok(self.ask(without, Pick::Nothing)?.log_mass)
    }

    pub(super) fn draw(&self, without: &[TokenId], uniform: f64) -> Result<Option<Drawn>, RowError> {
        let drawn = self.ask(without, Pick::Uniform(uniform))?.picked;
        Ok(drawn.and_then(|drawn| Some(Drawn { token: drawn.token?, log_p: drawn.log_prob, rest: None })))
    }

    pub(super) fn best(&self) -> Result<Option<(TokenId, f64)>, RowError> {
        let best = self.ask(&[], Pick::Best)?.picked;
        Ok(best.and_then(|best| Some((best.token?, best.log_prob))))
    }

    /// Copies the row to host memory.
    pub(super) fn read(&self) -> Result<DenseRow, RowError> {
        let row = self.logits.to_host(self.index)?;
        Ok(DenseRow::listed(&row, self.mask.ids().take_while(|id| id.index() < row.len()).collect()))
    }

    /// The bytes of the row on its device, and of the mask.
    pub(super) fn bytes(&self) -> usize {
        self.logits.vocab_len() * 4 + self.mask.words().len() * 4
    }
}

/// The answer to one question.
fn ask_one(logits: &Logits, question: &RowQuestion<'_>) -> Result<RowAnswer, RowError> {
    let mut answers = Vec::with_capacity(1);
    logits.answer(std::slice::from_ref(question), &mut answers)?;
    Ok(answers[0])
}
