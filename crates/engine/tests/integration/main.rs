//! One program for the tests of this crate, so that they are linked once. Tests that count their heap, and those with
//! a harness of their own, are programs of their own beside this folder.

mod batch;
mod canonical;
mod common;
mod compiler;
mod gbnf;
mod limits;
mod matcher;
mod notes;
mod parts;
mod request_rules;
mod requests;
mod tag_parts;
mod tag_schemas;
mod tags;
mod tokens;
mod tools;
mod written;
