//! The command line, run as a user runs it.

mod commands;
mod refusals;
mod support;
