//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod bounds;
mod cancel;
mod common;
mod conditions;
mod explained;
mod gbnf;
mod keywords;
mod large;
mod listed;
mod maskbench;
mod metaschema;
mod names;
mod numbers;
mod random;
mod references;
mod refusals;
mod registry;
