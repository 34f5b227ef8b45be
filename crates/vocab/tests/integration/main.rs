//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod built;
mod common;
mod decoders;
mod errors;
mod files;
mod gguf;
mod mutations;
mod rank_file;
