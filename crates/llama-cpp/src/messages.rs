//! The messages of llama.cpp while it loads a model.
//!
//! Its functions answer with a null pointer, and the reason is a line of its log. llama-cpp-2 sends that log to
//! `tracing`, which hands it to the subscriber of the thread: here to one that keeps the errors. Otherwise the log
//! goes to the subscriber of the program, or nowhere; llama.cpp's own habit is some hundred lines on the standard
//! error output.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::with_default,
};

#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == &Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        // llama-cpp-2 does not ask whether a level is enabled.
        if event.metadata().level() == &Level::ERROR {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The field `message` of an event.
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.trim().clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Calls `load`, and gives its error as llama.cpp words it: the first error that it reports, or the other words.
pub(crate) fn reported<T, E: fmt::Display>(load: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    let errors = Errors::default();
    with_default(errors.clone(), load).map_err(|error| {
        let heard = errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().find(|line| !line.is_empty()).cloned().unwrap_or_else(|| error.to_string())
    })
}
