//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod build;
mod changes;
mod common;
mod file;
mod limited;
mod listing;
mod oracle;
mod store;
