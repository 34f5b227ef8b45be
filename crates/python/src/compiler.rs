//! From constraints to the part that matchers share: `unskew.Compiler` and `unskew.Compiled`.
//!
//! A constraint is compiled on a thread of its own, and the thread that called waits without the interpreter lock. It
//! wakes up now and then to ask Python for signals, so that Ctrl-C ends a compilation.

use std::{
    ffi::CString,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use pyo3::{exceptions::PyUserWarning, prelude::*, types::PyDict};
use unskew::{
    TokenSpace,
    core::Cancel,
    engine::{self, CompilerOptions, Until},
};

use crate::{
    constraint::Constraint,
    error::{Class, guarded, of_engine},
    tokenizer::Tokenizer,
    typed::Given,
};

/// How often a thread that waits looks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The longest time that a caller may give, in seconds: a hundred years.
const MAX_SECONDS: f64 = 3.2e9;

/// Compiles constraints for the tokens of one model, once each, and keeps them within a limit in bytes. Threads share
/// it.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Compiler {
    compiler: engine::Compiler,
    /// What it is made of, for pickling: the tokens, and the limits that were given.
    tokenizer: Py<Tokenizer>,
    limits: [Option<usize>; 3],
}

/// A constraint that is compiled. Matchers are made of it.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) compiled: engine::Compiled,
    /// What compiled it, and of what, for pickling.
    made_by: Py<Compiler>,
    constraint: Constraint,
}

#[pymethods]
impl Compiler {
    #[new]
    #[pyo3(signature = (tokenizer, *, cache_bytes=None, library_bytes=None, constraint_bytes=None))]
    fn new(
        tokenizer: Bound<'_, Tokenizer>,
        cache_bytes: Option<usize>,
        library_bytes: Option<usize>,
        constraint_bytes: Option<usize>,
    ) -> Self {
        let mut options = CompilerOptions::default();
        options.cache_bytes = cache_bytes.unwrap_or(options.cache_bytes);
        options.library_bytes = library_bytes.unwrap_or(options.library_bytes);
        options.constraint_bytes = constraint_bytes.or(options.constraint_bytes);
        let compiler = engine::Compiler::with_options(Arc::clone(&tokenizer.get().tokens), options);
        let limits = [cache_bytes, library_bytes, constraint_bytes];
        Self { compiler, tokenizer: tokenizer.unbind(), limits }
    }

    /// The constraint, compiled or kept from before, within `timeout` seconds and `fuel` units of work.
    #[pyo3(signature = (constraint, *, timeout=None, fuel=None))]
    fn compile(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        constraint: Given,
        timeout: Option<f64>,
        fuel: Option<u64>,
    ) -> PyResult<Compiled> {
        let compiled = slf.get().compiled(py, &constraint, timeout, fuel)?;
        Ok(Compiled { compiled, made_by: slf.clone().unbind(), constraint: constraint.0 })
    }

    /// Pickle keeps the tokens and the limits: what was compiled is compiled again where it is needed.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Py<Tokenizer>,))> {
        let (py, options) = (slf.py(), PyDict::new(slf.py()));
        let names = ["cache_bytes", "library_bytes", "constraint_bytes"];
        for (name, limit) in names.into_iter().zip(slf.get().limits) {
            options.set_item(name, limit)?;
        }
        let partial = py.import("functools")?.getattr("partial")?;
        Ok((partial.call((slf.get_type(),), Some(&options))?, (slf.get().tokenizer.clone_ref(py),)))
    }

    /// How many words of 32 bits a mask has.
    #[getter]
    fn mask_words(&self) -> usize {
        self.compiler.mask_words()
    }

    /// Its work so far and the memory that it keeps: a dict of numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.compiler.stats());
        let answer = PyDict::new(py);
        answer.set_item("hits", stats.hits)?;
        answer.set_item("misses", stats.misses)?;
        answer.set_item("entries", stats.entries)?;
        answer.set_item("bytes", stats.bytes)?;
        answer.set_item("evicted", stats.evicted)?;
        answer.set_item("compiling", stats.compiling)?;
        answer.set_item("library_bytes", stats.library_bytes)?;
        answer.set_item("tokens_bytes", stats.tokens_bytes)?;
        Ok(answer)
    }

    /// Forgets all constraints. Matchers keep theirs.
    fn clear(&self) {
        self.compiler.clear();
    }
}

impl Compiler {
    pub(crate) fn tokens(&self) -> &Arc<TokenSpace> {
        self.compiler.tokens()
    }

    pub(crate) fn compiled(
        &self,
        py: Python<'_>,
        constraint: &Constraint,
        timeout: Option<f64>,
        fuel: Option<u64>,
    ) -> PyResult<engine::Compiled> {
        let deadline = match timeout {
            None => None,
            Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => {
                Some(Instant::now() + Duration::from_secs_f64(seconds))
            }
            Some(seconds) => {
                let message = format!("`timeout` is {seconds}: give seconds from 0 on, or None");
                return Err(Class::Option.error(message));
            }
        };
        let until = Until { fuel, deadline, cancel: Cancel::default() };
        let compile = || self.compiler.compile_until(&constraint.spec, &until);
        let compiled = guarded(|| {
            py.detach(|| with_signals(&until.cancel, compile))?.map_err(|error| of_engine(&error))
        })?;
        for note in compiled.notes() {
            let text = CString::new(format!("unskew: {note}")).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        Ok(compiled)
    }
}

#[pymethods]
impl Compiled {
    /// How many words of 32 bits a mask has.
    #[getter]
    fn mask_words(&self) -> usize {
        unskew::core::words_for(self.compiled.tokens().vocabulary().len())
    }

    /// The fuel that compiling took.
    #[getter]
    fn fuel(&self) -> u64 {
        self.compiled.fuel()
    }

    /// The characters of the constraint that no tokens write; None: they write all, or it is about tokens.
    #[getter]
    fn left_out(&self) -> Option<String> {
        self.compiled.left_out().map(|left_out| left_out.to_string())
    }

    /// What a user should know of the constraint: that its schema constrains nothing, for example.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.compiled.notes().to_vec()
    }

    /// Where the text of these tokens leaves the constraint, as a dict; None: it is accepted as a whole. A last id that
    /// ends the output may be given.
    fn rejection<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let ids = crate::tokenizer::ids(&ids);
        let Some(rejection) = guarded(|| Ok(py.detach(|| self.compiled.rejection(&ids))))? else {
            return Ok(None);
        };
        let message = rejection.to_string();
        let answer = PyDict::new(py);
        answer.set_item("offset", rejection.offset)?;
        answer.set_item("before", rejection.before)?;
        answer.set_item("after", rejection.after)?;
        answer.set_item("expected", rejection.expected)?;
        answer.set_item("expected_count", rejection.expected_count)?;
        answer.set_item("may_end", rejection.may_end)?;
        answer.set_item("message", message)?;
        Ok(Some(answer))
    }

    /// Pickle keeps the constraint and its compiler, which compiles it again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Py<Compiler>,))> {
        let (py, compiled) = (slf.py(), slf.get());
        let caller = py.import("operator")?.getattr("methodcaller")?;
        let again = caller.call1(("compile", compiled.constraint.clone()))?;
        Ok((again, (compiled.made_by.clone_ref(py),)))
    }

    /// The memory of the constraint and of its matchers' scratches, in bytes.
    #[getter]
    fn memory(&self) -> usize {
        self.compiled.memory_usage()
    }
}

/// Works on another thread while this one, which must be without the interpreter lock, looks for signals. A signal
/// that raises cancels the work.
fn with_signals<T: Send>(cancel: &Cancel, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::sync_channel::<()>(0);
        let worker = scope.spawn(move || {
            // Dropped when the work is over, also by a panic.
            let _done = done;
            work()
        });
        let mut raised = None;
        while raised.is_none() && is_done.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
            raised = Python::attach(signal);
        }
        if raised.is_some() {
            cancel.cancel();
        }
        match (worker.join(), raised) {
            (Err(panic), _) => std::panic::resume_unwind(panic),
            (Ok(_), Some(raised)) => Err(raised),
            (Ok(made), None) => Ok(made),
        }
    })
}

/// The exception of a signal that has come, if any.
fn signal(py: Python<'_>) -> Option<PyErr> {
    py.check_signals().err()
}
