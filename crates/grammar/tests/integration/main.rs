//! One program for the tests of this crate whose grammars are texts, so that they are linked once. They are not beside
//! the code, because the crate that reads texts depends on this one.

mod alike;
mod analysis;
mod regular;
