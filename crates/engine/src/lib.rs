//! What an inference engine embeds.
mod batch;
mod compile;
mod compiler;
mod error;
mod explain;
mod fields;
pub mod items;
mod machine;
mod matcher;
mod progress;
pub mod read;
pub mod spec;
pub mod tag;
mod tokens;

pub use self::{
    batch::{BatchRow, DraftNode, Drafts, fill_batch},
    compile::Kind,
    compiler::{Compiled, Compiler, CompilerOptions, CompilerStats, Until},
    error::{BoxError, Error, Mismatch, Result, chain},
    explain::Explained,
    matcher::{Matcher, MatcherError, MatcherOptions},
    progress::Progress,
    spec::{JsonRequest, Language, SPEC_VERSION, Spec, SpecError, SpecOptions},
    tokens::TokenSpace,
};
