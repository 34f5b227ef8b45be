//! From a checkpoint and a constraint to outputs: the parts, put together.
//!
//! Three layers, each of which knows only those before it. *Data*: the parts of a request ([`Spec`], [`Method`]).
//! *Tokens and models*: files become a [`TokenSpace`] and a [`Model`]. *Construction*: a [`Request`] compiles the
//! constraint, makes the sampler and gives [`Draws`].

mod any_model;
pub mod audit;
#[cfg(feature = "chat")]
mod chat;
#[cfg(feature = "runner")]
mod checkpoint;
mod compile;
#[cfg(feature = "wgpu")]
mod device;
mod drafts;
mod draws;
#[cfg(feature = "http")]
mod endpoint;
mod engine;
mod error;
mod event;
mod gather;
mod loss;
pub mod method;
mod model;
mod prompt;
mod request;
#[cfg(feature = "stream")]
mod stream;

#[cfg(feature = "command-line")]
pub(crate) use self::compile::compile;
#[cfg(feature = "stream")]
pub use self::stream::DrawStream;
pub use self::{
    any_model::{AnyModel, AnyModelError, AnySequence},
    drafts::{Draft, Drafted},
    draws::{Draws, Output, Polled},
    engine::Truncate,
    error::{Error, Result},
    event::{Event, Observer},
    gather::Each,
    loss::Loss,
    method::{METHODS, Method, MethodError, MethodInfo},
    model::{Model, ModelSource, folder_tokenizer},
    prompt::{Chat, Prompt},
    request::{Ended, Request, Start},
};
#[cfg(feature = "sets")]
pub use unskew_engine::items;
pub use unskew_engine::{
    BoxError, Capture, CaptureError, Captures, Explained, Language, Mismatch, Spec, SpecError, SpecOptions,
    TokenSpace, chain, read, spec, tools,
};
