//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod ahead;
mod batches;
mod canonical;
mod distributions;
mod elsewhere;
mod ends;
mod extremes;
mod imh;
mod long_rows;
mod optimum;
mod samplers;
mod speculative;
mod support;
mod twisted;
