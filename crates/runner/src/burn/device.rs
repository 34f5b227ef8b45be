//! Logits that stay on the GPU and answer questions there: burn's device and queue, and the kernels of `unskew-sets`.
//!
//! burn computes logits into a buffer of its own device. The two crates share that device: the kernels of
//! `unskew-sets` are compiled on it and read the buffer. A row of logits is four bytes for each id of the vocabulary,
//! and stays on the device. The answer to a question is a token and a few numbers. Every sampler therefore runs over
//! a model on a GPU as over one on the CPU, without code of its own.
//!
//! burn documents the way to put other work on its queue: flush the pending commands (burn collects commands before
//! it submits them), keep the tensor until the work is done, and submit to the same queue, which keeps the order. Not
//! taken: launching the kernels through burn's runtime (its example of a custom kernel). The kernels' sources would
//! need burn's names and its order of bindings, and the kernels of the two crates would drift apart.
//!
//! There is one runtime for the process: burn starts it at most once for an adapter, and gives out the handles only
//! then.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use ::burn::tensor::{DType, Device, Tensor};
use ::burn_gpu::{
    backend::Wgpu,
    cubecl::wgpu::{AutoCompiler, WgpuServer},
};
use unskew_core::{
    Extension, LanguageModel, LogitRows, Logits, MaskBatch, RowError, TokenId,
    rows::{Among, Outcome, Pick, RowAnswer, RowQuestion},
};
use unskew_sets::{Choice, ChoiceQuestion, Chooser, Gpu, GpuError, LogitBuffer, Next, Rule};

use super::{Llama, Sequence};
use crate::batch::{ModelError, Work};

/// An error of moving a model to a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// burn found no adapter, or another part of the process has started burn's runtime before.
    #[error(
        "burn's runtime for wgpu does not start: {reason}; run the model on the CPU, or start this crate's first"
    )]
    NoRuntime {
        /// burn's message.
        reason: String,
    },
    /// The model is on the CPU.
    #[error("the model runs on the CPU, whose logits no GPU sees; move it with `Llama::on_gpu`")]
    OnCpu,
}

/// burn's runtime on the default adapter, and the kernels compiled for it.
pub(crate) struct Shared {
    pub(crate) device: Device,
    gpu: Arc<Gpu>,
    chooser: Mutex<Chooser>,
}

/// The runtime of this process; the first call starts it.
pub(crate) fn shared() -> Result<&'static Shared, DeviceError> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let start = || {
        let (device, setup) = Device::wgpu_options().init_with_setup().map_err(|error| error.to_string())?;
        let gpu = Gpu::shared(setup.adapter.get_info().name, setup.device, setup.queue);
        let chooser = Chooser::new(Arc::clone(&gpu)).map_err(|error| error.to_string())?;
        Ok(Shared { device, gpu, chooser: Mutex::new(chooser) })
    };
    SHARED.get_or_init(start).as_ref().map_err(|reason| DeviceError::NoRuntime { reason: reason.clone() })
}

impl Llama {
    /// The device of the model.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OnCpu`], and [`DeviceError::NoRuntime`].
    pub fn gpu(&self) -> Result<Arc<Gpu>, DeviceError> {
        if self.device == Device::flex() {
            return Err(DeviceError::OnCpu);
        }
        Ok(Arc::clone(&shared()?.gpu))
    }

    /// Appends tokens to each sequence of the batch, and leaves the logits on the device.
    pub(crate) fn extend_on_device(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        plan: Vec<Work>,
        logits: &mut Logits,
    ) -> Result<(), ModelError> {
        let mut parts = Vec::new();
        self.passes(batch, plan, |logits| {
            parts.push(logits);
            Ok(())
        })?;
        let vocab_len = self.vocab_len();
        match parts.len() {
            0 => _ = logits.reset(0, vocab_len),
            _ => logits.place(Box::new(DeviceRows {
                logits: Tensor::cat(parts, 0),
                vocab_len,
                temperature: 1.0,
            })),
        }
        Ok(())
    }
}

/// Rows of logits on the device. Answers are exact up to about 1e-4 of a logarithm. A drawn outcome depends on 24
/// bits of the random number.
struct DeviceRows {
    logits: Tensor<2>,
    vocab_len: usize,
    /// The divisor of the logits when a question is answered.
    temperature: f32,
}

impl fmt::Debug for DeviceRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRows").field("vocab_len", &self.vocab_len).finish_non_exhaustive()
    }
}

impl DeviceRows {
    /// Answers questions whose ids of the end are `ends` or none.
    fn answer_all(&self, questions: &[&RowQuestion<'_>], ends: &[TokenId]) -> Result<Vec<Choice>, RowError> {
        let mut masks = MaskBatch::new(questions.len(), self.vocab_len);
        let mut asked = Vec::with_capacity(questions.len());
        for (index, question) in questions.iter().enumerate() {
            let mut mask = masks.row_mut(index);
            let of_row = |id: &TokenId| id.index() < self.vocab_len;
            match question.among {
                Among::All => mask.fill(),
                Among::Mask(of) if of.len() == self.vocab_len => mask.copy_from(of),
                Among::Mask(of) => of.into_ids().filter(of_row).for_each(|id| mask.insert(id)),
                Among::List(list) => list.iter().copied().filter(of_row).for_each(|id| mask.insert(id)),
            }
            question.without.iter().copied().filter(of_row).for_each(|id| mask.remove(id));
            let rule = match question.pick {
                Pick::Nothing | Pick::Best => Rule::Greedy,
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a number in [0, 1) times 2^32"
                )]
                Pick::Uniform(number) => Rule::Sample((number * 4_294_967_296.0) as u32),
            };
            asked.push(ChoiceQuestion { row: question.row, may_end: !question.ends.is_empty(), rule });
        }
        let shared = shared().map_err(|error| RowError::Device { source: error.into() })?;
        let mut chooser = shared.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        with_buffer(self.logits.clone(), self.vocab_len, |logits| {
            chooser.answer(logits, self.temperature, ends, &asked, &masks)
        })
    }
}

impl LogitRows for DeviceRows {
    fn len(&self) -> usize {
        self.logits.dims()[0]
    }

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError> {
        let values = self
            .logits
            .clone()
            .narrow(0, row, 1)
            .try_into_vec_as::<f32>()
            .map_err(|error| RowError::Device { source: error.to_string().into() })?;
        out.copy_from_slice(&values);
        out.iter_mut().for_each(|logit| *logit /= self.temperature);
        Ok(())
    }

    fn answer(&self, questions: &[RowQuestion<'_>], answers: &mut Vec<RowAnswer>) -> Result<(), RowError> {
        let mut all: Vec<Option<RowAnswer>> = vec![None; questions.len()];
        // One submission for each list of ids that end a sequence; as a rule there is one list.
        while let Some(first) = all.iter().position(Option::is_none) {
            let open = || (first..questions.len()).filter(|index| all[*index].is_none());
            let of = |index: usize| questions[index].ends;
            let ends = open().map(of).find(|ends| !ends.is_empty()).unwrap_or_default();
            let group: Vec<usize> =
                open().filter(|index| of(*index).is_empty() || of(*index) == ends).collect();
            let asked: Vec<&RowQuestion<'_>> = group.iter().map(|index| &questions[*index]).collect();
            let choices = self.answer_all(&asked, ends)?;
            for ((index, question), choice) in group.into_iter().zip(asked).zip(choices) {
                all[index] = Some(to_answer(&choice, question.pick));
            }
        }
        answers.extend(all.into_iter().flatten());
        Ok(())
    }

    fn divide(&mut self, temperature: f64) -> bool {
        #[allow(clippy::cast_possible_truncation, reason = "the device computes with 32 bits")]
        let divided = (f64::from(self.temperature) * temperature) as f32;
        let can = divided > 0.0 && divided.is_finite() && divided.recip().is_finite();
        if can {
            self.temperature = divided;
        }
        can
    }
}

fn to_answer(choice: &Choice, pick: Pick) -> RowAnswer {
    let Choice { next, log_prob, log_end, log_mass } = *choice;
    let token = match next {
        Next::Token(token) => Some(Some(token)),
        Next::End => Some(None),
        Next::Nothing => None,
    };
    let picked = token.filter(|_| pick != Pick::Nothing);
    let picked = picked.map(|token| Outcome { token, log_prob: f64::from(log_prob) });
    RowAnswer { log_end: f64::from(log_end), log_mass: f64::from(log_mass), picked }
}

/// Calls `read` with the buffer of a tensor, once the work that fills the buffer is submitted.
fn with_buffer<T>(
    logits: Tensor<2>,
    vocab_len: usize,
    read: impl FnOnce(LogitBuffer<'_>) -> Result<T, GpuError>,
) -> Result<T, RowError> {
    let failed = |reason: String| RowError::Device { source: reason.into() };
    let tensor = logits
        .try_into_primitive::<Wgpu>()
        .map_err(|error| failed(format!("no tensor of wgpu: {error:?}")))?;
    let shape: Vec<usize> = tensor.meta.shape().iter().copied().collect();
    if tensor.dtype != DType::F32 || shape.get(1) != Some(&vocab_len) || !tensor.is_contiguous() {
        return Err(failed(format!("logits of an unknown form: {tensor:?}")));
    }
    // Once `get_resource` returns, the commands that fill the buffer are recorded; `flush` submits them.
    let resource = tensor
        .client
        .get_resource::<WgpuServer<AutoCompiler>>(tensor.handle.clone())
        .and_then(|resource| tensor.client.flush().map(|()| resource))
        .map_err(|error| failed(error.to_string()))?;
    let buffer = resource.resource();
    let rows = LogitBuffer { buffer: &buffer.buffer, offset: buffer.offset, rows: shape[0], vocab_len };
    // `read` waits for the answer, so that the tensor outlives the work.
    let answer = read(rows).map_err(|error| match error {
        GpuError::NotADistribution { row } => RowError::NotADistribution { row },
        error => RowError::Device { source: error.into() },
    })?;
    drop(resource);
    Ok(answer)
}
