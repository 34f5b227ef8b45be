#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | content |
//! |---|---|
//! | `client` | JSON over HTTP: time-outs, repetitions, limits, the key |
//! | `server` | which server it is, and what it serves |
//! | `texts` | whole outputs, constraints in the words of servers, scores |
//! | `rows` | a server as a `LanguageModel`, where rows are whole |
//! | `draw` | samplers over whole outputs: rejection, weights |

mod client;
mod draw;
mod error;
mod options;
mod rows;
mod server;
mod texts;

pub use self::{
    draw::{DrawError, Reading, TextRejection, TextTask, TextWeights},
    error::EndpointError,
    options::{KEY_VARIABLE, Options},
    rows::EndpointModel,
    server::{Endpoint, Server},
    texts::{Asked, Prompt, ServerConstraint, Text},
};
