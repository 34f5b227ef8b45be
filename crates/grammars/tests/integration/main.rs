//! One program for the tests of this crate, so that they are linked once. Tests that measure the heap of the
//! process are programs of their own next to this folder.

mod canonical;
mod common;
mod constructs;
mod masks;
mod notations;
mod written;
