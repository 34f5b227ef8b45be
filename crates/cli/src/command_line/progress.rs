//! Messages and progress of the facade, on standard error.

use std::{
    io::IsTerminal,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{Event, Observer};
use indicatif::{ProgressBar, ProgressStyle};

use crate::command_line::{
    error::in_flags,
    plain::{is_quiet, say},
};

/// Text files of at least this many bytes have a bar while they are read.
const LONG: u64 = 1 << 20;

/// Writes findings, and shows how far the reading of a large file is.
pub(crate) fn observer() -> Observer {
    Observer::new(hearer())
}

/// The callback of [`observer`].
pub(crate) fn hearer() -> impl Fn(Event<'_>) + Send + Sync + 'static {
    let reading: Mutex<Option<ProgressBar>> = Mutex::new(None);
    move |event| {
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Note(text) => say(in_flags(text)),
            Event::Reading { bytes, of, .. } => {
                reading.get_or_insert_with(|| of_bytes(of)).set_position(bytes);
            }
            Event::Read { .. } => reading.take().iter().for_each(ProgressBar::finish_and_clear),
            _ => {}
        }
    }
}

/// The bar of the outputs of a run. It is set when the drawing begins.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    bar: OnceLock<ProgressBar>,
    /// The positions that the model has evaluated: where outputs are rare, only they tell that something goes on.
    positions: AtomicU64,
    /// The outputs of the prompts before this one.
    before: AtomicU64,
}

impl Drawing {
    /// Shows the progress of so many outputs, where that is known; a single one may take minutes, and has a clock.
    pub(crate) fn begin(&self, outputs: Option<usize>) -> &ProgressBar {
        self.bar.get_or_init(|| outputs.map_or_else(ProgressBar::hidden, of_outputs))
    }

    /// The next outputs are those of another prompt, after so many.
    pub(crate) fn go_on(&self, outputs: usize) {
        self.before.store(outputs as u64, Ordering::Relaxed);
    }

    pub(crate) fn hear(&self, event: Event<'_>) {
        let Some(bar) = self.bar.get() else { return };
        match event {
            Event::Learned { outputs, of } if outputs < of => {
                bar.set_message(format!("learning {outputs}/{of}"));
            }
            Event::Learned { .. } => bar.set_message(""),
            Event::Evaluated { positions, .. } => {
                let positions = self.positions.fetch_add(positions, Ordering::Relaxed) + positions;
                bar.set_message(format!("{positions} positions"));
            }
            Event::Drawn { outputs, .. } => bar.set_position(self.before.load(Ordering::Relaxed) + outputs),
            _ => {}
        }
    }
}

/// Whether somebody sees the progress.
fn is_shown() -> bool {
    std::io::stderr().is_terminal() && !is_quiet()
}

/// The bar of the reading of so many bytes.
pub(crate) fn of_bytes(of: u64) -> ProgressBar {
    if !is_shown() || of <= LONG {
        return ProgressBar::hidden();
    }
    ProgressBar::new(of).with_style(style("{bar:40} {bytes}/{total_bytes} {eta}"))
}

fn of_outputs(outputs: usize) -> ProgressBar {
    if !is_shown() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match outputs {
        1 => (ProgressBar::new_spinner(), "{spinner} {elapsed} {msg}"),
        _ => (ProgressBar::new(outputs as u64), "{bar:40} {pos}/{len} {elapsed}, {eta} left {msg}"),
    };
    let bar = bar.with_style(style(template));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// The bar of one sampler of an audit.
pub(crate) fn of_sampler(name: &'static str, outputs: usize) -> ProgressBar {
    if !is_shown() {
        return ProgressBar::hidden();
    }
    ProgressBar::new(outputs as u64)
        .with_style(style("{msg:10} {bar:40} {pos}/{len} {eta}"))
        .with_message(name)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a valid template")
}
