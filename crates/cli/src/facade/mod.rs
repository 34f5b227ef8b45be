//! From a checkpoint and a constraint to outputs: the parts, put together.
//!
//! Three layers, each of which knows only those before it. *Data*: the parts of a request ([`Spec`], [`Method`]). *Tokens and models*: files
//! become a [`TokenSpace`] and a [`Model`]. *Construction*: a [`Request`] compiles the constraint, makes the sampler and gives
//! [`Draws`].

mod any_model;
mod compile;
#[cfg(feature = "wgpu")]
mod device;
mod drafts;
mod draws;
mod engine;
mod error;
mod event;
mod explain;
pub mod items;
pub mod method;
mod model;
pub mod read;
mod request;
pub mod spec;
mod tokens;

pub use self::{
    any_model::{AnyModel, AnyModelError, AnySequence},
    drafts::{Draft, Drafted},
    draws::{Draws, Output},
    engine::Truncate,
    error::{BoxError, Error, Mismatch, Result, chain},
    event::{Event, Observer},
    explain::Explained,
    method::{METHODS, Method, MethodError, MethodInfo},
    model::{Model, ModelSource},
    request::{Request, Start},
    spec::{Language, Spec, SpecError, SpecOptions},
    tokens::TokenSpace,
};
