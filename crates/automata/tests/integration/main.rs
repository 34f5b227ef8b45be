//! One program for the tests of this crate, so that they are linked once. A test that counts the heap is a program of
//! its own beside this folder.

mod added;
mod canonical;
mod common;
mod dialects;
mod direct_merge;
mod generated;
mod lazy;
mod lift;
mod limits;
mod looking;
mod properties;
mod suite;
mod tokenizers;
mod vegas;
