//! Passes of a transformer that are timed, on the CPU and on a device: one new token for each of some sequences, or a
//! prompt.

use std::time::Instant;

use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};

use crate::clock::Moment;

/// The sequences of a pass, and the tokens that it appends to each.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) sequences: usize,
    /// New tokens of each sequence. More than one: the pass is the first of its sequences.
    pub(crate) tokens: usize,
}

/// Tokens before the first pass that is timed.
const PROMPT: usize = 8;

/// Nanoseconds of passes, on the wall and of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) wall: Vec<u64>,
    pub(crate) process: Vec<u64>,
}

impl Shape {
    pub(crate) fn name(self) -> String {
        match self {
            Self { sequences: 1, tokens: 1 } => "one sequence".to_owned(),
            Self { sequences, tokens: 1 } => format!("{sequences} sequences"),
            Self { tokens, .. } => format!("prompt of {tokens}"),
        }
    }

    /// Times so many passes after `warm` passes that are not counted. `end` belongs to each pass: it uses the logits.
    /// Answers how many tokens were appended.
    ///
    /// Each round has the same tokens, so a model must remember none of them.
    pub(crate) fn time<M: LanguageModel>(
        self,
        model: &mut M,
        warm: usize,
        passes: usize,
        times: &mut Times,
        mut end: impl FnMut(&Logits) -> Result<(), String>,
    ) -> Result<usize, String> {
        let vocab_len = model.vocab_len();
        let token = |number: usize| TokenId::from_index(number * 7919 % vocab_len);
        let mut appended = 0;
        let mut logits = Logits::new();
        let mut sequences: Vec<M::Sequence> = (0..self.sequences).map(|_| model.start()).collect();
        for pass in 0..warm + passes {
            let is_first = self.tokens > 1 || pass == 0;
            if is_first {
                sequences.iter_mut().for_each(|sequence| *sequence = model.start());
            }
            let len = if self.tokens > 1 {
                self.tokens
            } else if is_first {
                PROMPT
            } else {
                1
            };
            let pieces: Vec<Vec<TokenId>> = (0..self.sequences)
                .map(|item| (0..len).map(|at| token(pass * 131 + item * 17 + at)).collect())
                .collect();
            appended += len * self.sequences;
            let mut batch: Vec<Extension<'_, M::Sequence>> = sequences
                .iter_mut()
                .zip(&pieces)
                .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
                .collect();
            let (process, wall) = (Moment::now(), Moment::Wall(Instant::now()));
            model.extend(&mut batch, &mut logits).map_err(|error| error.to_string())?;
            end(&logits)?;
            if pass >= warm {
                times.wall.push(wall.ns());
                times.process.push(process.ns());
            }
        }
        Ok(appended)
    }
}
