//! The engine from C: a small API of its own, and the functions that llama.cpp calls of llguidance.
//!
//! ```text
//! C program  --include/unskew.h-----> api  --.
//!                                            +--memory (pointers), handles (numbers)--> unskew-engine
//! llama.cpp  --include/llguidance.h-> llg  --'
//! ```
//!
//! A caller in C can hand over anything, so as little as possible is taken on trust. **A handle is a number** that
//! looks like a pointer: it is looked up in a table and never followed (module `handles`). So a handle that was
//! freed, freed twice, or is of another kind is an error with a message, and a handle that two threads use at once is
//! locked. The caller must be trusted with the address and length of texts and rows: module `memory` has every such
//! access, and the unsafe blocks of other modules hand the caller's promise over to it.
//!
//! No panic crosses the boundary: each function catches it and answers with an error.
//!
//! Tried instead: handles that are pointers to boxes, as most libraries have them. They save the look-up, and a
//! handle that is freed twice is then a fault of the whole process.

#![allow(
    unsafe_code,
    reason = "a boundary to C reads and writes the caller's memory, and exports functions by their names"
)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod api;
mod error;
mod handles;
pub mod llg;
mod memory;
mod tokens;
