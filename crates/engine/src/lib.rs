//! What an inference engine embeds.
mod compile;
mod error;
mod explain;
pub mod items;
mod progress;
pub mod read;
pub mod spec;
mod tokens;

pub use self::{
    compile::Kind,
    error::{BoxError, Error, Mismatch, Result, chain},
    explain::Explained,
    progress::Progress,
    spec::{Language, SPEC_VERSION, Spec, SpecError, SpecOptions},
    tokens::TokenSpace,
};
