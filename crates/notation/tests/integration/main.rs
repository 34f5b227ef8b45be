//! One program for the tests of this crate, so that they are linked once. What outputs a text allows is tested in
//! `unskew-grammars`, which has an engine and oracles.

mod bad_grammars;
mod fates;
mod files;
