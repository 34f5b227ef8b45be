//! A language model of any type, as one type.
//!
//! The counterpart of [`AnyConstraint`](unskew_core::AnyConstraint): programs choose a model at run time and write
//! samplers for one type. A model is shared, so that several samplers draw from it one after the other and its
//! weights are in memory once. Each call locks it for one pass.
//!
//! Tried instead: an enum of the models of the command line. It had no place for a model of one's own.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use unskew_core::{Extension, LanguageModel, Logits};

use super::{Event, Observer};

/// A language model of any type, shared by reference count.
///
/// # Panics
///
/// Its methods panic when they are given a sequence that another kind of model started.
#[derive(Clone)]
pub struct AnyModel {
    model: Arc<Mutex<dyn Erased>>,
    vocab_len: usize,
    context_len: Option<usize>,
    observer: Observer,
}

/// A sequence of an [`AnyModel`].
pub struct AnySequence(Box<dyn Any + Send>);

/// Why an [`AnyModel`] could not be evaluated: the error of the model itself.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AnyModelError(Box<dyn std::error::Error + Send + Sync>);

impl AnyModelError {
    /// Erases the type of an error.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }

    /// The error as one of type `E`, where it is.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl AnyModel {
    /// Erases the type of `model`.
    pub fn new<M>(model: M) -> Self
    where
        M: LanguageModel<Sequence: Send + 'static> + Send + 'static,
    {
        let (vocab_len, context_len) = (model.vocab_len(), model.context_len());
        Self { model: Arc::new(Mutex::new(model)), vocab_len, context_len, observer: Observer::default() }
    }

    /// Calls `with` with the model where it is of type `M`.
    pub fn with<M: 'static, T>(&self, with: impl FnOnce(&M) -> T) -> Option<T> {
        let model = self.locked();
        (&*model as &dyn Any).downcast_ref().map(with)
    }

    /// The model is evaluated in one call at a time, and a call that panicked has left no half of a pass to others.
    /// The same model, whose passes are told.
    #[must_use]
    pub(crate) fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    fn locked(&self) -> MutexGuard<'_, dyn Erased + 'static> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AnyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyModel").field("vocab_len", &self.vocab_len).finish_non_exhaustive()
    }
}

impl AnySequence {
    /// A placeholder for a sequence that was moved elsewhere.
    pub(super) fn none() -> Self {
        Self(Box::new(()))
    }
}

impl fmt::Debug for AnySequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySequence")
    }
}

impl LanguageModel for AnyModel {
    type Sequence = AnySequence;
    type Error = AnyModelError;

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn context_len(&self) -> Option<usize> {
        self.context_len
    }

    fn start(&mut self) -> AnySequence {
        self.locked().erased_start()
    }

    fn len(&self, sequence: &AnySequence) -> usize {
        self.locked().erased_len(sequence)
    }

    fn fork(&mut self, sequence: &AnySequence) -> AnySequence {
        self.locked().erased_fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut AnySequence, len: usize) {
        self.locked().erased_truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, AnySequence>],
        logits: &mut Logits,
    ) -> Result<(), AnyModelError> {
        let positions = batch.iter().map(|extension| extension.tokens.len() as u64).sum();
        self.locked().erased_extend(batch, logits)?;
        let appended = match batch {
            [one] => one.tokens,
            _ => &[],
        };
        self.observer.tell(Event::Evaluated { positions, appended });
        Ok(())
    }
}

/// The methods carry names of their own: with those of [`LanguageModel`], a call would be ambiguous.
trait Erased: Any + Send {
    fn erased_start(&mut self) -> AnySequence;
    fn erased_len(&self, sequence: &AnySequence) -> usize;
    fn erased_fork(&mut self, sequence: &AnySequence) -> AnySequence;
    fn erased_truncate(&mut self, sequence: &mut AnySequence, len: usize);
    fn erased_extend(
        &mut self,
        batch: &mut [Extension<'_, AnySequence>],
        logits: &mut Logits,
    ) -> Result<(), AnyModelError>;
}

const FOREIGN: &str = "the sequence was started by this model";

impl<M> Erased for M
where
    M: LanguageModel<Sequence: Send + 'static> + Send + 'static,
{
    fn erased_start(&mut self) -> AnySequence {
        AnySequence(Box::new(self.start()))
    }

    fn erased_len(&self, sequence: &AnySequence) -> usize {
        self.len(sequence.0.downcast_ref().expect(FOREIGN))
    }

    fn erased_fork(&mut self, sequence: &AnySequence) -> AnySequence {
        AnySequence(Box::new(self.fork(sequence.0.downcast_ref().expect(FOREIGN))))
    }

    fn erased_truncate(&mut self, sequence: &mut AnySequence, len: usize) {
        self.truncate(sequence.0.downcast_mut().expect(FOREIGN), len);
    }

    fn erased_extend(
        &mut self,
        batch: &mut [Extension<'_, AnySequence>],
        logits: &mut Logits,
    ) -> Result<(), AnyModelError> {
        let mut items: Vec<Extension<'_, M::Sequence>> = batch
            .iter_mut()
            .map(|item| Extension {
                sequence: item.sequence.0.downcast_mut().expect(FOREIGN),
                tokens: item.tokens,
                rows: item.rows,
            })
            .collect();
        self.extend(&mut items, logits).map_err(AnyModelError::new)
    }
}
