//! The task of a sampler: a model, a constraint, a prompt and a limit.

use unskew_core::{Constraint, LanguageModel, TokenId, Vocabulary};

use crate::Cancel;

/// The measures of a model, in place of the model: for [machines](crate::Machine) that are fed rows from elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelShape {
    /// The length of a row of logits.
    pub row_len: usize,
    /// The most tokens of a sequence, the prompt included; `None` without a limit. Drafts end at this length.
    pub context_len: Option<usize>,
}

/// The default number of rollouts that step together.
const BATCH: usize = 16;

/// The default memory for visited prefixes and their rows, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// One task: outputs of `model` after `prompt` that `constraint` accepts, of at most `max_tokens` tokens.
///
/// The target distribution of the task is that of the model given those two conditions: the length limit is part of
/// the constraint, and an output that would be cut off has probability zero. The task's model defines the
/// distribution: to sample at another temperature, put a [`Warped`](crate::Warped) model here.
///
/// Both the model and the constraint may be borrowed: `&mut M` is a model, and `&C` a constraint.
#[derive(Clone, Debug)]
pub struct Task<M, C> {
    /// The language model.
    pub model: M,
    /// The constraint on the tokens after the prompt.
    pub constraint: C,
    /// The tokens before the output.
    pub prompt: Vec<TokenId>,
    /// The ids that end a sequence. Drawing any of them is one event: the output stops.
    pub end: Vec<TokenId>,
    /// The most tokens of an output, its end not counted.
    pub max_tokens: usize,
    /// Makes the `top` most probable tokens of each step its only candidates: they are verified one by one (PPV for
    /// sets), and no mask is made. All tokens are candidates by default.
    ///
    /// **This changes the target distribution**: it is that of the model, given an accepted output each of whose
    /// tokens was among the `top` of its step. Where none of these is allowed, all allowed tokens are candidates:
    /// such a step neither ends the output nor leaves the constraint. The end of the sequence is always a candidate.
    pub top: Option<usize>,
    /// The most rollouts that step through the model together: each holds a sequence of the model. The outputs of a
    /// seed do not depend on this number, except under policies that learn. 16 by default.
    pub batch: usize,
    /// The most memory for visited prefixes and rows of the model, in bytes; sequences of the model are not counted.
    /// Prefixes and rows beyond it are forgotten and computed again. 256 MiB by default.
    pub max_bytes: usize,
    /// Cancels the drawing: samplers then answer [`SampleError::Cancelled`](crate::SampleError::Cancelled).
    pub cancel: Cancel,
}

impl<M, C> Task<M, C> {
    fn of(model: M, constraint: C, vocabulary: &Vocabulary, max_tokens: usize) -> Self {
        Self {
            model,
            constraint,
            prompt: Vec::new(),
            end: vocabulary.end_of_sequence().to_vec(),
            max_tokens,
            top: None,
            batch: BATCH,
            max_bytes: MAX_BYTES,
            cancel: Cancel::default(),
        }
    }
}

impl<M: LanguageModel, C: Constraint> Task<M, C> {
    /// The task without a prompt, with the vocabulary's end-of-sequence ids.
    pub fn new(model: M, constraint: C, vocabulary: &Vocabulary, max_tokens: usize) -> Self {
        Self::of(model, constraint, vocabulary, max_tokens)
    }

    /// The same task after `prompt`.
    #[must_use]
    pub fn after(mut self, prompt: Vec<TokenId>) -> Self {
        self.prompt = prompt;
        self
    }

    /// The same task with the [`top`](Self::top) most probable tokens of each step as its only candidates.
    #[must_use]
    pub fn among(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// The model, and the task with the model's shape in its place.
    pub fn split(self) -> (M, Task<ModelShape, C>) {
        let Self { model, constraint, prompt, end, max_tokens, top, batch, max_bytes, cancel } = self;
        let shape = ModelShape { row_len: model.vocab_len(), context_len: model.context_len() };
        (model, Task { model: shape, constraint, prompt, end, max_tokens, top, batch, max_bytes, cancel })
    }
}

impl<C: Constraint> Task<ModelShape, C> {
    /// The task without a prompt for rows of `row_len` logits, with the vocabulary's end-of-sequence ids.
    pub fn without_model(row_len: usize, constraint: C, vocabulary: &Vocabulary, max_tokens: usize) -> Self {
        Self::of(ModelShape { row_len, context_len: None }, constraint, vocabulary, max_tokens)
    }
}
