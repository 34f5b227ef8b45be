//! The command line, run as a user runs it.

mod audit;
mod canonical;
mod commands;
mod convert;
mod documents;
#[cfg(feature = "http")]
mod endpoints;
mod facade;
mod files;
mod gguf;
mod grammars;
mod hostile;
mod limits;
mod messages;
mod options;
mod prompts;
mod real;
mod refusals;
mod resume;
mod schema_outputs;
mod schemas;
mod set_changes;
mod sets;
mod speculation;
mod support;
mod syntax;
mod tags;
mod tools;
mod tutorial;
