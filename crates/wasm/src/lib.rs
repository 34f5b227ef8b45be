//! `unskew` for JavaScript: the module of the npm package of this name, which runs in browsers and in Node.
//!
//! ```text
//! this crate --wasm-bindgen--> unskew_bg.wasm, glue.js <-- js/unskew.js (classes, errors, iterators) <-- js/web.js, js/node.js (loading)
//! ```
//!
//! What crosses the boundary is numbers, lists of numbers and texts; what has structure is JSON. Classes, errors with a
//! kind and iterators are JavaScript (`js/unskew.js`), and their types are written by hand (`js/unskew.d.ts`). So the
//! binding needs no library besides wasm-bindgen, and all that decides anything is tested here without a browser.
//!
//! Rules:
//!
//! - An error is a `Fault` with a stable kind, and its place where there is one.
//! - Nothing looks at a clock, which there is none of: compiling is bounded by fuel.
//! - Models that are functions of JavaScript are never called from here. A sampler is polled, says which rows it wants,
//!   and is given them (`draws`). So such a function may be asynchronous, and a page stays alive between passes.
//! - A panic ends the module. Its message is kept for the error that JavaScript sees ([`last_panic`]).

mod constraint;
mod draws;
mod explain;
mod fault;
mod model;
mod spec;
mod text;
mod tokenizer;

use std::sync::Mutex;

use serde::Serialize;
use unskew::METHODS;
use wasm_bindgen::prelude::*;

pub use crate::{
    constraint::{Constraint, Matcher},
    draws::Draws,
    explain::explain,
    fault::Fault,
    model::Model,
    tokenizer::Tokenizer,
};

/// The message of the panic that has ended the module.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps messages of panics. Called once, when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = PANIC.lock() {
            *last = Some(panic.to_string());
        }
    }));
}

/// The message of the panic that has ended the module, if one has.
#[wasm_bindgen(js_name = lastPanic)]
pub fn last_panic() -> Option<String> {
    PANIC.lock().ok().and_then(|last| last.clone())
}

/// Panics, so that a test can see what JavaScript is told.
///
/// # Panics
///
/// Always.
#[wasm_bindgen(js_name = panicForTests)]
pub fn panic_for_tests() {
    panic!("asked for");
}

/// The version of the package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

#[derive(Serialize)]
struct Sampler {
    name: &'static str,
    help: &'static str,
    distribution: &'static str,
}

/// The samplers by name, as JSON.
#[wasm_bindgen]
pub fn samplers() -> String {
    let all = METHODS.iter().map(|info| Sampler {
        name: info.name,
        help: info.help,
        distribution: info.distribution,
    });
    fault::json(&all.collect::<Vec<_>>())
}
