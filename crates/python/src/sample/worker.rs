//! The thread of a sampler, and the channels between it and its caller.
//!
//! ```text
//! caller: Next                   Rows                  Next
//!           \                   /    \                /
//! sampler:   Ready ... asks Rows      ... Output      ...
//! ```
//!
//! The caller reads one channel. What it wants and the rows that it gives go through two others: the samplers of
//! several prompts work on threads of their own, and ask for rows while nobody wants an output. When either end is
//! gone, the other learns it from its channel: a sampler whose caller is gone gets an error for its rows, and ends.

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
    Draws, Each, Output,
    core::{Cancel, Extension, LanguageModel, Logits, TokenId},
};

use crate::{compiler::LOOK, error::Class};

/// From the sampler to the caller.
pub(super) enum Question {
    /// The sampler is made.
    Ready(unskew::Result<Ready>),
    /// Rows of a model after these sequences.
    Rows(Asked, Vec<Vec<u32>>),
    /// Tokens that a pass has appended to the one sequence of it.
    Appended(Vec<u32>),
    /// The next output with the place of its prompt (none: there are no more), and the logarithm of the estimate of
    /// P(constraint) after it.
    Output(Option<(usize, unskew::Result<Box<Output>>)>, Option<f64>),
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
    wanted: Arc<Mutex<Receiver<()>>>,
    rows: Arc<Mutex<Receiver<Vec<f32>>>>,
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

    /// Whether another output is wanted; waits until one is.
    fn is_wanted(&self) -> bool {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).recv().is_ok()
    }

    /// The rows after `prefixes`, one question at a time; None: the caller is gone.
    fn rows(&self, asked: Asked, prefixes: Vec<Vec<u32>>) -> Option<Vec<f32>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        self.questions.send(Question::Rows(asked, prefixes)).ok()?;
        rows.recv().ok()
    }
}

/// The caller's ends of the channels. Dropping it ends the sampler.
#[derive(Debug)]
pub(super) struct Worker {
    questions: Mutex<Receiver<Question>>,
    wanted: Sender<()>,
    rows: Sender<Vec<f32>>,
    cancel: Cancel,
    /// Why the thread ended, if it panicked.
    panic: Arc<Mutex<Option<String>>>,
    /// After a fork there is no thread.
    process: u32,
}

pub(super) fn channels(cancel: Cancel) -> (Ask, Worker) {
    let ((questions, asked), (wanted, wants), (rows, given)) = (channel(), channel(), channel());
    let shared = (Arc::new(Mutex::new(wants)), Arc::new(Mutex::new(given)));
    let ask = Ask { questions, wanted: shared.0, rows: shared.1, cancel: cancel.clone() };
    let (questions, process) = (Mutex::new(asked), std::process::id());
    (ask, Worker { questions, wanted, rows, cancel, panic: Arc::default(), process })
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

    /// Asks for the next output.
    pub(super) fn want(&self) -> PyResult<()> {
        if self.process != std::process::id() {
            return Err(
                Class::Sample.error("the sampler is of another process: call `sample` after the fork")
            );
        }
        self.wanted.send(()).map_err(|_| self.ended())
    }

    /// Gives the rows that were asked for.
    pub(super) fn give(&self, rows: Vec<f32>) -> PyResult<()> {
        self.rows.send(rows).map_err(|_| self.ended())
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

/// The sampler of one prompt, or those of several.
pub(super) enum Drawing {
    One(Box<Draws>),
    Each(Each),
}

impl Drawing {
    fn ready(&self) -> Ready {
        let (seed, sampler, explain) = match self {
            Self::One(draws) => (draws.seed(), draws.method(), draws.explain()),
            Self::Each(each) => {
                let explain = format!("{}: {}", each.method(), each.method().distribution());
                (each.seed(), each.method(), explain)
            }
        };
        Ready { seed, sampler: sampler.to_string(), explain }
    }

    fn next(&mut self) -> Question {
        match self {
            Self::One(draws) => {
                let output = draws.next().map(|output| (0, output.map(Box::new)));
                Question::Output(output, draws.log_mass())
            }
            Self::Each(each) => {
                let output = each.next().map(|(place, output)| (place, output.map(Box::new)));
                let log_mass = output.as_ref().and_then(|(place, _)| each.log_mass(*place));
                Question::Output(output, log_mass)
            }
        }
    }
}

/// The life of a sampler's thread, which makes its sampler first.
pub(super) fn draw(ask: &Ask, make: impl FnOnce() -> unskew::Result<Drawing>) {
    let (mut drawing, ready) = match make() {
        Ok(drawing) => {
            let ready = Ok(drawing.ready());
            (Some(drawing), ready)
        }
        Err(error) => (None, Err(error)),
    };
    if ask.questions.send(Question::Ready(ready)).is_err() {
        return;
    }
    while let Some(drawing) = &mut drawing
        && ask.is_wanted()
    {
        if ask.questions.send(drawing.next()).is_err() {
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
            match self.ask.rows(self.asked, prefixes) {
                Some(rows) if rows.len() == into.len() => into.copy_from_slice(&rows),
                _ => return Err(Gone),
            }
        }
        for Extension { sequence, tokens, .. } in batch {
            sequence.extend(tokens.iter().map(|TokenId(id)| id));
        }
        Ok(())
    }
}
