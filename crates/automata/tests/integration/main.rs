//! One program for the tests of this crate, so that they are linked once. A test that counts the heap is a program of
//! its own beside this folder. The feature `published` adds the comparisons with the methods of papers.

mod added;
mod canonical;
mod common;
mod dialects;
#[cfg(feature = "published")]
mod direct_merge;
mod generated;
mod lazy;
#[cfg(feature = "published")]
mod lift;
mod limits;
mod looking;
mod properties;
mod suite;
mod tokenizers;
#[cfg(feature = "published")]
mod vegas;
