//! The model on a GPU, for programs with the feature `wgpu`: its rows stay there, and every sampler draws from them.

use unskew_engine::chain;
use unskew_runner::Llama;

use super::{AnyModel, Observer};

/// The model on the default GPU; the model as it is, and a note, where that cannot be.
pub(crate) fn on_gpu(model: &AnyModel, observer: &Observer) -> AnyModel {
    let note = |reason: &str| {
        observer.note(format_args!("warning: `gpu`: {reason}; the model runs on the CPU"));
    };
    match model.with(Llama::on_gpu) {
        Some(Ok(there)) => return AnyModel::new(there),
        Some(Err(error)) => note(&chain(&error)),
        None => note("only a transformer runs on a GPU"),
    }
    model.clone()
}
