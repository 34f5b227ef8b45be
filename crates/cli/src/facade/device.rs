//! Sets where the model runs on a GPU: every step is made there, and no logits are read back.
//!
//! Only in programs with the feature `wgpu`. Samplers that learn from whole rows need the logits. Those, and everything else that does
//! not fit, run on the CPU, with masks from the GPU as without the feature, and a note says why.

use std::collections::VecDeque;

use rand_core::Rng;
use unskew_core::{Draw, Sampler};
use unskew_runner::{DeviceError, Llama, SetMethod, SetSampleError, SetSampler, SetTask};
use unskew_samplers::{Exact, SampleError};
use unskew_sets::SetConstraint;

use super::{
    AnyModel, AnyModelError, Method, Observer,
    engine::{AnySampler, Drawn, Engine},
    error::{Error, Result, chain},
    method::{Disc, DiscForm},
};

/// The steps that a device can make for a method, or why it cannot.
fn method_there(method: &Method, truncates: bool) -> Result<SetMethod, &'static str> {
    if truncates {
        return Err("truncation is made on the CPU");
    }
    match method {
        Method::Disc(Disc { top_m: Some(_), .. }) => Err("truncation is made on the CPU"),
        Method::Disc(Disc { budget: Some(_), .. }) => Err("a budget of DISC is counted on the CPU"),
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
    let batch = task.batch;
    let on_gpu = |model: &Llama| -> Result<SetSampler, SetSampleError> {
        SetSampler::new(model.on_gpu()?, constraint, task, there)
    };
    let Some(made) = model.with(on_gpu) else {
        note("only a transformer runs on a GPU");
        return Ok(None);
    };
    match made {
        Ok(sampler) => Ok(Some(Box::new(OnGpu { sampler, batch, ready: VecDeque::new() }))),
        Err(error @ SetSampleError::Device(DeviceError::NoRuntime { .. } | DeviceError::Gpu(_))) => {
            note(&chain(&error));
            Ok(None)
        }
        Err(error) => Err(Error::Model(error.into())),
    }
}

/// A sampler on a device, which draws a batch at a time.
struct OnGpu {
    sampler: SetSampler,
    batch: usize,
    ready: VecDeque<Draw>,
}

impl AnySampler for OnGpu {
    fn next(&mut self, left: &mut usize, rng: &mut dyn Rng) -> Option<Drawn> {
        if self.ready.is_empty() && *left > 0 {
            let count = self.batch.min(*left);
            *left -= count;
            let ready = &mut self.ready;
            if let Err(error) = self.sampler.draw_each(count, rng, &mut |draw| ready.push_back(draw)) {
                self.ready.clear();
                return Some(Err(SampleError::Model(AnyModelError::new(error))));
            }
        }
        self.ready.pop_front().map(|draw| Ok((draw, None)))
    }
}
