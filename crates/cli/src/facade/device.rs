//! Sets where the model runs on a GPU: every step is made there, and no logits are read back.
//!
//! Only in programs with the feature `wgpu`. Samplers that learn from whole rows need the logits. Those, and everything else that does
//! not fit, run on the CPU, with masks from the GPU as without the feature, and a note says why.

use rand_core::Rng;
use unskew_core::{Draw, Sampler};
use unskew_engine::chain;
use unskew_runner::{DeviceError, Llama, SetMethod, SetSampleError, SetSampler, SetTask};
use unskew_samplers::{Exact, SampleError};
use unskew_sets::SetConstraint;

use super::{
    AnyModel, AnyModelError, Method, Observer,
    engine::{AnySampleError, Engine},
    error::{Error, Result},
    method::{Disc, DiscForm},
};

/// The steps that a device can make for a method, or why it cannot.
fn method_there(method: &Method, truncates: bool) -> Result<SetMethod, &'static str> {
    if truncates {
        return Err("truncation is made on the CPU");
    }
    match method {
        Method::Disc(Disc { top_m: Some(_), .. }) => Err("truncation is made on the CPU"),
        Method::Disc(disc) if disc.form == Some(DiscForm::Published) => {
            let k = disc.k.map_or(Exact::DISC_PARTICLES, u64::from);
            let (max_tries, max_positions, particles) = (k, u64::MAX, k);
            Ok(SetMethod::Disc { max_tries, max_positions, particles })
        }
        Method::Disc(_) => Err("DISC learns from whole rows of logits unless it is disc:form=published"),
        Method::Masked => Ok(SetMethod::Masked),
        Method::Greedy => Ok(SetMethod::Greedy),
        _ => Err("of the samplers only masked, greedy and disc:form=published run there"),
    }
}

/// A sampler whose steps are made on the GPU; none, and a note, where the CPU draws.
pub(crate) fn engine(
    model: &AnyModel,
    constraint: &SetConstraint,
    method: &Method,
    truncates: bool,
    task: SetTask,
    observer: &Observer,
) -> Result<Option<Engine>> {
    let note = |reason: &str| {
        observer.note(format_args!("warning: `gpu`: {reason}; the model runs on the CPU"));
    };
    let there = match method_there(method, truncates) {
        Ok(there) => there,
        Err(reason) => {
            note(reason);
            return Ok(None);
        }
    };
    let on_gpu = |model: &Llama| -> Result<SetSampler, SetSampleError> {
        SetSampler::new(model.on_gpu()?, constraint, task, there)
    };
    let Some(made) = model.with(on_gpu) else {
        note("only a transformer runs on a GPU");
        return Ok(None);
    };
    match made {
        Ok(sampler) => Ok(Some(Engine::Plain(Box::new(OnGpu(sampler)), None))),
        Err(error @ SetSampleError::Device(DeviceError::NoRuntime { .. } | DeviceError::Gpu(_))) => {
            note(&chain(&error));
            Ok(None)
        }
        Err(error) => Err(Error::Model(error.into())),
    }
}

/// A sampler on a device, with the error of the others.
struct OnGpu(SetSampler);

impl Sampler for OnGpu {
    type Error = AnySampleError;

    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, AnySampleError> {
        self.0.draw(rng).map_err(|error| SampleError::Model(AnyModelError::new(error)))
    }

    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> Result<(), AnySampleError> {
        self.0.draw_each(count, rng, each).map_err(|error| SampleError::Model(AnyModelError::new(error)))
    }
}
