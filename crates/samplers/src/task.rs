//! What is to be drawn: a model, a constraint, a prompt and a limit.

use unskew_core::{Constraint, LanguageModel, TokenId, Vocabulary};

use crate::Cancel;

/// The draws that step together where nothing else is said.
const BATCH: usize = 16;

/// The memory for visited prefixes and their rows where nothing else is said, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// One task: outputs of `model` after `prompt` that `constraint` accepts, of at most `max_tokens` tokens.
///
/// Its target law is that of the model given those two conditions: the length limit is part of the constraint, and an
/// output that would be cut off has probability zero. The model is the one whose law counts: to sample at another
/// temperature, put a [`Warped`](crate::Warped) model here.
///
/// Both the model and the constraint may be borrowed: `&mut M` is a model, and `&C` a constraint.
#[derive(Clone, Debug)]
pub struct Task<M, C> {
    /// The language model.
    pub model: M,
    /// The constraint on what follows the prompt.
    pub constraint: C,
    /// The tokens before the output.
    pub prompt: Vec<TokenId>,
    /// The ids that end a sequence. Drawing any of them is one event: the output stops.
    pub end: Vec<TokenId>,
    /// The most tokens of an output, its end not counted.
    pub max_tokens: usize,
    /// The most draws that step through the model together, where the sampler allows it: each holds a sequence of the
    /// model. No output depends on it. 16 by default.
    pub batch: usize,
    /// The most memory for visited prefixes and rows of the model, in bytes; sequences of the model are not counted. What
    /// does not fit is forgotten and computed again. 256 MiB by default.
    pub max_bytes: usize,
    /// Ends the drawing: samplers then answer [`SampleError::Cancelled`](crate::SampleError::Cancelled).
    pub cancel: Cancel,
}

impl<M: LanguageModel, C: Constraint> Task<M, C> {
    /// The task without a prompt, with the vocabulary's end-of-sequence ids.
    pub fn new(model: M, constraint: C, vocabulary: &Vocabulary, max_tokens: usize) -> Self {
        Self {
            model,
            constraint,
            prompt: Vec::new(),
            end: vocabulary.end_of_sequence().to_vec(),
            max_tokens,
            batch: BATCH,
            max_bytes: MAX_BYTES,
            cancel: Cancel::default(),
        }
    }

    /// The same task after `prompt`.
    #[must_use]
    pub fn after(mut self, prompt: Vec<TokenId>) -> Self {
        self.prompt = prompt;
        self
    }
}
