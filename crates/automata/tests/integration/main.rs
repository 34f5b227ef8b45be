//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with a harness of
//! their own, are programs of their own beside this folder.

mod added;
mod canonical;
mod common;
mod direct_merge;
mod generated;
mod lazy;
mod lift;
mod limits;
mod properties;
mod suite;
mod tokenizers;
mod vegas;
