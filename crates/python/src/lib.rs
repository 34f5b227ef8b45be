//! `unskew._unskew`, the extension module of the Python package: masks, matchers and samplers.
//!
//! The module is thin. Constraints, compiler and matchers are those of `unskew-engine`, and `sample` runs the
//! samplers of the facade over a Python function. The public names, the exceptions and the type stubs are in
//! `python/unskew`.
//!
//! Rules:
//!
//! - The interpreter lock is released while a tokenizer loads, a constraint is compiled, masks are made, and a
//!   sampler works.
//! - Nothing panics on purpose. A panic in the calls of servers is an `InternalError` (`error::guarded`); elsewhere it
//!   would be Python's `PanicException`.
//! - Memory of the caller is read and written by the methods of `memoryview` (`view`).

mod capture;
mod compiler;
mod constraint;
mod error;
mod faithful;
mod matcher;
mod model;
mod sample;
mod tokenizer;
mod typed;
mod view;

use pyo3::prelude::*;

/// Constrained decoding that keeps the language model's own distribution.
#[pymodule(gil_used = false)]
mod _unskew {
    #[pymodule_export]
    use super::{
        capture::Capture,
        compiler::{Compiled, Compiler},
        constraint::Constraint,
        error::_panic,
        faithful::{Faithful, Walk, known_walks, merge_stats, step_walks},
        matcher::{Matcher, accept_batch, fill_batch},
        model::{Endpoint, Model},
        sample::{
            Draws,
            audit::audit,
            draw::{_draw, Draw},
            methods, sample,
            stream::{Stream, stream},
        },
        tokenizer::Tokenizer,
        typed::{_tool_list, _tools},
        view::{Rows, apply},
    };

    use pyo3::prelude::*;

    /// Runs the command line with the arguments after the program's name; the exit code.
    #[pyfunction]
    fn _run(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
        let name = std::ffi::OsString::from("unskew");
        py.detach(|| unskew::command_line::run(std::iter::once(name).chain(arguments)))
    }

    #[pymodule_export]
    const COMPILE_FUEL: u64 = unskew::engine::COMPILE_FUEL;

    #[allow(non_upper_case_globals, reason = "the name that Python expects")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
