//! The models that the command line runs, as one type.

use unskew::{
    core::{Extension, LanguageModel, Logits, TableModel, TableModelError, TokenId},
    runner::{Llama, ModelError, Sequence},
};

/// A table or a transformer.
#[derive(Debug)]
pub(crate) enum AnyModel {
    Table(TableModel),
    Llama(Box<Llama>),
}

/// A sequence of either.
#[derive(Debug)]
pub(crate) enum AnySequence {
    Table(Vec<TokenId>),
    Llama(Sequence),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AnyModelError {
    #[error(transparent)]
    Table(#[from] TableModelError),
    #[error(transparent)]
    Llama(#[from] ModelError),
}

/// The items of a batch as one kind of sequence.
macro_rules! items {
    ($batch:expr, $kind:ident) => {
        $batch
            .iter_mut()
            .map(|item| match item.sequence {
                AnySequence::$kind(sequence) => Extension { sequence, tokens: item.tokens, rows: item.rows },
                _ => panic!("the sequence was started by this model"),
            })
            .collect::<Vec<_>>()
    };
}

impl LanguageModel for AnyModel {
    type Sequence = AnySequence;
    type Error = AnyModelError;

    fn vocab_len(&self) -> usize {
        match self {
            Self::Table(model) => model.vocab_len(),
            Self::Llama(model) => model.vocab_len(),
        }
    }

    fn context_len(&self) -> Option<usize> {
        match self {
            Self::Table(model) => model.context_len(),
            Self::Llama(model) => model.context_len(),
        }
    }

    fn start(&mut self) -> AnySequence {
        match self {
            Self::Table(model) => AnySequence::Table(model.start()),
            Self::Llama(model) => AnySequence::Llama(model.start()),
        }
    }

    fn len(&self, sequence: &AnySequence) -> usize {
        match (self, sequence) {
            (Self::Table(model), AnySequence::Table(sequence)) => model.len(sequence),
            (Self::Llama(model), AnySequence::Llama(sequence)) => model.len(sequence),
            _ => panic!("the sequence was started by this model"),
        }
    }

    fn fork(&mut self, sequence: &AnySequence) -> AnySequence {
        match (self, sequence) {
            (Self::Table(model), AnySequence::Table(sequence)) => AnySequence::Table(model.fork(sequence)),
            (Self::Llama(model), AnySequence::Llama(sequence)) => AnySequence::Llama(model.fork(sequence)),
            _ => panic!("the sequence was started by this model"),
        }
    }

    fn truncate(&mut self, sequence: &mut AnySequence, len: usize) {
        match (self, sequence) {
            (Self::Table(model), AnySequence::Table(sequence)) => model.truncate(sequence, len),
            (Self::Llama(model), AnySequence::Llama(sequence)) => model.truncate(sequence, len),
            _ => panic!("the sequence was started by this model"),
        }
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, AnySequence>],
        logits: &mut Logits,
    ) -> Result<(), AnyModelError> {
        match self {
            Self::Table(model) => Ok(model.extend(&mut items!(batch, Table), logits)?),
            Self::Llama(model) => Ok(model.extend(&mut items!(batch, Llama), logits)?),
        }
    }
}
