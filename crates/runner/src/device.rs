//! Next tokens that are chosen where the logits lie: burn's device and queue, and the kernels of `unskew-sets`.
//!
//! burn computes logits into a buffer of its own device. Here that device is shared: the kernels of `unskew-sets` are compiled
//! on it, read the buffer, and write the next tokens. A row of logits is four bytes for each id of the vocabulary, and is not
//! read back; what comes back is a token and a few numbers.
//!
//! The way is the one that burn documents for work of others on its queue: flush what is pending (it collects commands before
//! it submits them), keep the tensor until the work is done, and submit to the same queue, which keeps the order. Launching the
//! kernels through burn's runtime (its example of a custom kernel) was the alternative: their sources would need its names and
//! its order of bindings, each set array would be a tensor, and the kernels of two crates would drift apart.
//!
//! The runtime is one for the process: burn starts it at most once for an adapter, and gives out the handles only then.

use std::sync::{Arc, OnceLock};

use burn::tensor::{DType, Device, Tensor};
use burn_gpu::{
    backend::Wgpu,
    cubecl::wgpu::{AutoCompiler, WgpuServer},
};
use unskew_core::{Extension, LanguageModel, MaskBatch};
use unskew_sets::{Choice, Chooser, Gpu, GpuError, GpuSet, Interval, LogitRows, Rule};

use crate::{
    backend::Backend,
    llama::{Llama, ModelError, Sequence, append},
};

/// Why tokens cannot be chosen on the device. No sequence of the batch has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// burn found no adapter, or another part of the process has started burn's runtime before.
    #[error(
        "burn's runtime for wgpu does not start: {reason}; run the model on the CPU, or start this crate's first"
    )]
    NoRuntime {
        /// What burn says.
        reason: String,
    },
    /// The model is on the CPU.
    #[error("the model runs on the CPU, whose logits no GPU sees; move it with `Llama::on_gpu`")]
    OnCpu,
    /// The chooser was made for another device.
    #[error("the chooser belongs to another device than the model; make it on the one of `Llama::gpu`")]
    OtherDevice,
    /// The model could not be evaluated.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The choice failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// burn's runtime on the default adapter, and the kernels compiled for it.
pub(crate) struct Shared {
    pub(crate) device: Device,
    gpu: Arc<Gpu>,
}

/// The runtime of this process. It is started by the first call.
pub(crate) fn shared() -> Result<&'static Shared, DeviceError> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let start = || {
        let (device, setup) = Device::wgpu_options().init_with_setup().map_err(|error| error.to_string())?;
        let gpu = Gpu::shared(setup.adapter.get_info().name, setup.device, setup.queue);
        Ok(Shared { device, gpu })
    };
    SHARED.get_or_init(start).as_ref().map_err(|reason| DeviceError::NoRuntime { reason: reason.clone() })
}

impl Llama {
    /// The model on the default GPU. As [`to_backend`](Self::to_backend) with [`Backend::Wgpu`], and an error where that panics.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoRuntime`].
    pub fn on_gpu(&self) -> Result<Self, DeviceError> {
        shared()?;
        Ok(self.to_backend(Backend::Wgpu))
    }

    /// The device that the model runs on: what is uploaded there can be used with its logits.
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

    /// Appends tokens to each sequence of the batch, and chooses what comes next of those tokens that `set` allows behind the
    /// interval of each, all on the device: [`Chooser::in_set`] with the logits of [`extend`](LanguageModel::extend). There is
    /// an interval for each row that the batch asks for.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]. No sequence and no interval has changed then.
    ///
    /// # Panics
    ///
    /// As [`Chooser::in_set`].
    pub fn choose_in_set(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        chooser: &mut Chooser,
        set: &GpuSet,
        intervals: &mut [Interval],
        rule: Rule<'_>,
    ) -> Result<Vec<Choice>, DeviceError> {
        self.choose(batch, chooser, |chooser, logits| chooser.in_set(set, intervals, logits, rule))
    }

    /// Appends tokens to each sequence of the batch, and chooses what comes next of those tokens that its mask allows:
    /// [`Chooser::masked`] with the logits of [`extend`](LanguageModel::extend). The masks are uploaded, and the logits stay.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]. No sequence has changed then.
    ///
    /// # Panics
    ///
    /// As [`Chooser::masked`].
    pub fn choose_masked(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        chooser: &mut Chooser,
        masks: &MaskBatch,
        may_end: &[bool],
        rule: Rule<'_>,
    ) -> Result<Vec<Choice>, DeviceError> {
        self.choose(batch, chooser, |chooser, logits| chooser.masked(masks, may_end, logits, rule))
    }

    /// Appends tokens to each sequence of the batch, and leaves the logits where they are.
    pub(crate) fn prefill(&mut self, batch: &mut [Extension<'_, Sequence>]) -> Result<(), ModelError> {
        self.passes(batch, |_| Ok(()))?;
        append(batch);
        Ok(())
    }

    fn choose(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        chooser: &mut Chooser,
        choose: impl FnOnce(&mut Chooser, LogitRows<'_>) -> Result<Vec<Choice>, GpuError>,
    ) -> Result<Vec<Choice>, DeviceError> {
        if !Arc::ptr_eq(&self.gpu()?, chooser.gpu()) {
            return Err(DeviceError::OtherDevice);
        }
        let mut parts = Vec::new();
        self.passes(batch, |logits| {
            parts.push(logits);
            Ok(())
        })?;
        let logits = match parts.len() {
            0 => return Ok(Vec::new()),
            1 => parts.swap_remove(0),
            _ => Tensor::cat(parts, 0),
        };
        let choices = with_buffer(logits, self.vocab_len(), |logits| choose(chooser, logits))?;
        append(batch);
        Ok(choices)
    }
}

/// Hands over the buffer that a tensor lies in, once the work that fills it has been submitted.
fn with_buffer<T>(
    logits: Tensor<2>,
    vocab_len: usize,
    read: impl FnOnce(LogitRows<'_>) -> Result<T, GpuError>,
) -> Result<T, DeviceError> {
    let failed = |reason: String| DeviceError::Model(ModelError::Device { reason });
    let tensor = logits
        .try_into_primitive::<Wgpu>()
        .map_err(|error| failed(format!("no tensor of wgpu: {error:?}")))?;
    let shape: Vec<usize> = tensor.meta.shape().iter().copied().collect();
    if tensor.dtype != DType::F32 || shape.get(1) != Some(&vocab_len) || !tensor.is_contiguous() {
        return Err(failed(format!("logits of an unknown form: {tensor:?}")));
    }
    // Whoever asks for the buffer has the commands for it recorded; this submits them.
    let resource = tensor
        .client
        .get_resource::<WgpuServer<AutoCompiler>>(tensor.handle.clone())
        .and_then(|resource| tensor.client.flush().map(|()| resource))
        .map_err(|error| failed(error.to_string()))?;
    let buffer = resource.resource();
    let rows = LogitRows { buffer: &buffer.buffer, offset: buffer.offset, rows: shape[0], vocab_len };
    // The answer is read back in it, so that the tensor outlives the work.
    let answer = read(rows)?;
    drop(resource);
    Ok(answer)
}
