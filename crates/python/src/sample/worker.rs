//! The thread of a sampler, and the two channels between it and its caller.
//!
//! ```text
//! caller: Next                   Rows                  Next
//!           \                   /    \                /
//! sampler:   Ready ... asks Rows      ... Output      ...
//! ```
//!
//! One message is under way at a time. When either end is gone, the other learns it from its channel: a sampler whose
//! caller is gone gets an error for its rows, and ends.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
};

use pyo3::{panic::PanicException, prelude::*};
use unskew::{
    Draws, Output,
    core::{Cancel, Extension, LanguageModel, Logits, TokenId},
};

use crate::{compiler::LOOK, error::Class};

/// From the caller to the sampler.
pub(super) enum Answer {
    /// The next output is wanted.
    Next,
    /// The rows that were asked for.
    Rows(Vec<f32>),
}

/// From the sampler to the caller.
pub(super) enum Question {
    /// The sampler is made.
    Ready(unskew::Result<Ready>),
    /// Rows of a model after these sequences.
    Rows(Asked, Vec<Vec<u32>>),
    /// The next output (none: there are no more), and the logarithm of the estimate of P(constraint) after it.
    Output(Option<unskew::Result<Box<Output>>>, Option<f64>),
    /// The sampler of an audit and the number of its outputs so far.
    Progress(&'static str, usize),
    /// The audit is done: its lines as JSON, and its page.
    Audited(unskew::Result<(String, String)>),
}

/// The models of a sampler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// The model whose outputs are drawn.
    Model,
    /// The model that drafts.
    Draft,
}

/// The facts of a sampler before it draws.
pub(super) struct Ready {
    pub(super) seed: u64,
    pub(super) sampler: String,
    pub(super) explain: String,
}

/// The sampler's ends of the channels.
#[derive(Clone)]
pub(super) struct Ask {
    questions: Sender<Question>,
    answers: Arc<Mutex<Receiver<Answer>>>,
    cancel: Cancel,
}

impl Ask {
    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Tells the caller something that has no answer. Nobody may be there any more.
    pub(super) fn tell(&self, question: Question) {
        let _ = self.questions.send(question);
    }

    fn receive(&self) -> Option<Answer> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// The caller's ends of the channels. Dropping it ends the sampler.
#[derive(Debug)]
pub(super) struct Worker {
    questions: Mutex<Receiver<Question>>,
    answers: Sender<Answer>,
    cancel: Cancel,
    /// Why the thread ended, if it panicked.
    panic: Arc<Mutex<Option<String>>>,
    /// After a fork there is no thread.
    process: u32,
}

pub(super) fn channels(cancel: Cancel) -> (Ask, Worker) {
    let ((questions, asked), (answers, answered)) = (channel(), channel());
    let ask = Ask { questions, answers: Arc::new(Mutex::new(answered)), cancel: cancel.clone() };
    let (questions, process) = (Mutex::new(asked), std::process::id());
    (ask, Worker { questions, answers, cancel, panic: Arc::default(), process })
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(&self, ask: Ask, work: impl FnOnce(&Ask) + Send + 'static) -> PyResult<()> {
        let panic = Arc::clone(&self.panic);
        let work = move || {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&ask)));
            if let Err(payload) = worked {
                *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(text_of(&*payload));
            }
            // Only now does the caller see the end of the channel.
            drop(ask);
        };
        let started = thread::Builder::new().name("unskew-sample".to_owned()).spawn(work);
        started.map(drop).map_err(|error| Class::Sample.error(format!("no thread could be started: {error}")))
    }

    pub(super) fn send(&self, answer: Answer) -> PyResult<()> {
        if self.process != std::process::id() {
            return Err(
                Class::Sample.error("the sampler is of another process: call `sample` after the fork")
            );
        }
        self.answers.send(answer).map_err(|_| self.ended())
    }

    /// The next question. It waits without the interpreter lock, and looks for signals now and then.
    pub(super) fn receive(&self, py: Python<'_>) -> PyResult<Question> {
        loop {
            let received = py
                .detach(|| self.questions.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK));
            match received {
                Ok(question) => return Ok(question),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    fn ended(&self) -> PyErr {
        match self.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(message) => PanicException::new_err(message),
            None => Class::Sample.error("the sampler has ended"),
        }
    }
}

/// The life of a sampler's thread, which makes its sampler first.
pub(super) fn draw(ask: &Ask, make: impl FnOnce() -> unskew::Result<Draws>) {
    let made = make();
    let (mut draws, ready) = match made {
        Ok(draws) => {
            let (seed, sampler, explain) = (draws.seed(), draws.method().to_string(), draws.explain());
            (Some(draws), Ok(Ready { seed, sampler, explain }))
        }
        Err(error) => (None, Err(error)),
    };
    if ask.questions.send(Question::Ready(ready)).is_err() {
        return;
    }
    while let (Some(draws), Some(Answer::Next)) = (&mut draws, ask.receive()) {
        let output = draws.next().map(|output| output.map(Box::new));
        if ask.questions.send(Question::Output(output, draws.log_mass())).is_err() {
            return;
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the sampler panicked".to_owned())
}

/// A model that asks the caller for its rows.
pub(super) struct Asking {
    asked: Asked,
    vocab_len: usize,
    ask: Ask,
}

/// The caller is gone.
#[derive(Debug)]
pub(super) struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody asks for outputs any more")
    }
}

impl std::error::Error for Gone {}

impl Asking {
    pub(super) fn new(asked: Asked, vocab_len: usize, ask: Ask) -> Self {
        Self { asked, vocab_len, ask }
    }
}

impl LanguageModel for Asking {
    type Sequence = Vec<u32>;
    type Error = Gone;

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn context_len(&self) -> Option<usize> {
        None
    }

    fn start(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn len(&self, sequence: &Vec<u32>) -> usize {
        sequence.len()
    }

    fn fork(&mut self, sequence: &Vec<u32>) -> Vec<u32> {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Vec<u32>, len: usize) {
        assert!(len <= sequence.len(), "a sequence of {} tokens has no first {len}", sequence.len());
        sequence.truncate(len);
    }

    fn extend(&mut self, batch: &mut [Extension<'_, Vec<u32>>], logits: &mut Logits) -> Result<(), Gone> {
        let mut prefixes = Vec::new();
        for item in &*batch {
            let mut all = item.sequence.clone();
            all.extend(item.tokens.iter().map(|TokenId(id)| id));
            let lengths = item.rows.prefixes(item.tokens.len(), all.len());
            prefixes.extend(lengths.map(|len| all[..len].to_vec()));
        }
        let into = logits.reset(prefixes.len(), self.vocab_len);
        if !prefixes.is_empty() {
            self.ask.questions.send(Question::Rows(self.asked, prefixes)).map_err(|_| Gone)?;
            match self.ask.receive() {
                Some(Answer::Rows(rows)) if rows.len() == into.len() => into.copy_from_slice(&rows),
                _ => return Err(Gone),
            }
        }
        for Extension { sequence, tokens, .. } in batch {
            sequence.extend(tokens.iter().map(|TokenId(id)| id));
        }
        Ok(())
    }
}
