//! `generate --set FILE --gpu` where the model can run on the GPU too: every step is made there, and no logits are read back.
//!
//! Only in programs with the feature `wgpu`. Samplers that learn from whole rows need the logits; those and what else does not
//! fit run on the CPU, with masks from the GPU as without the feature, and a warning says why.

use unskew::{
    runner::{DeviceError, Llama, SetMethod, SetSampleError, SetSampler, SetTask},
    sets::SetConstraint,
};

use crate::{
    any_model::AnyModel,
    args::{DiscForm, GenerateArgs, SamplerKind},
    error::{Failure, Result, chain},
    load::{self, Tokens},
    plain::say,
    samplers::Choice,
    sets,
};

/// Why the steps are not made on the GPU, where that is asked for; nothing where it is not, or where they can be.
fn obstacle(args: &GenerateArgs, choice: &Choice, model: &AnyModel) -> Option<&'static str> {
    let options = &args.sampler.options;
    let learns = choice.kind == SamplerKind::Disc && options.disc_form != Some(DiscForm::Fresh);
    if !matches!(model, AnyModel::Llama(_)) {
        Some("a table is no model for a GPU")
    } else if args.speculation.drafts(choice.kind) {
        Some("drafts are verified on the CPU")
    } else if args.save_trie.is_some() || args.load_trie.is_some() {
        Some("what is learned is learned on the CPU")
    } else if options.top_k.is_some() || options.top_p.is_some() || options.disc_top_m.is_some() {
        Some("truncation is made on the CPU")
    } else if learns {
        Some("DISC learns from whole rows of logits unless it is told --disc-form fresh")
    } else if !matches!(choice.kind, SamplerKind::Masked | SamplerKind::Greedy | SamplerKind::Disc) {
        Some("of the samplers only masked, greedy and disc with --disc-form fresh run there")
    } else {
        None
    }
}

/// A sampler whose steps are made on the GPU; none, and a warning, where the CPU draws.
pub(crate) fn sampler(
    args: &GenerateArgs,
    choice: &Choice,
    model: &AnyModel,
    tokens: &Tokens,
    healed: &str,
    task: SetTask,
) -> Result<Option<SetSampler>> {
    let Some(path) = args.constraint.set.as_deref().filter(|_| args.constraint.gpu) else { return Ok(None) };
    if let Some(reason) = obstacle(args, choice, model) {
        warn(&reason);
        return Ok(None);
    }
    let AnyModel::Llama(model) = model else { unreachable!("a table is an obstacle") };
    load::check_stray(&args.constraint)?;
    let constraint = sets::set_constraint(path, &args.constraint, tokens, healed)?;
    match on_gpu(model, &constraint, task, method(args, choice)) {
        Err(error) if is_about_the_gpu(&error) => {
            warn(&chain(&error));
            Ok(None)
        }
        Err(error) => Err(Failure::bad(&error)),
        Ok(sampler) => Ok(Some(sampler)),
    }
}

fn on_gpu(
    model: &Llama,
    constraint: &SetConstraint,
    task: SetTask,
    method: SetMethod,
) -> std::result::Result<SetSampler, SetSampleError> {
    SetSampler::new(model.on_gpu()?, constraint, task, method)
}

fn is_about_the_gpu(error: &SetSampleError) -> bool {
    matches!(error, SetSampleError::Device(DeviceError::NoRuntime { .. } | DeviceError::Gpu(_)))
}

fn method(args: &GenerateArgs, choice: &Choice) -> SetMethod {
    let options = &args.sampler.options;
    match choice.kind {
        SamplerKind::Greedy => SetMethod::Greedy,
        SamplerKind::Disc => {
            let k = options.disc_k.map_or(unskew::samplers::Exact::DISC_PARTICLES, u64::from);
            SetMethod::Disc { max_tries: k, max_positions: u64::MAX, particles: k }
        }
        _ => SetMethod::Masked,
    }
}

fn warn(reason: &dyn std::fmt::Display) {
    say(format_args!("warning: --gpu: {reason}; the model runs on the CPU"));
}
