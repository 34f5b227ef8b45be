//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod common;
mod config;
mod gguf;
mod loading;
mod parity;
mod reference;
mod sequences;
