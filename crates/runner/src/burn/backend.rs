//! The backends of a model on burn.

use ::burn::tensor::Device;

/// The device that a model's tensors live on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// burn's own CPU backend: it trains, and judges [`Llama`](crate::Llama) in tests.
    #[default]
    Cpu,
    /// The default GPU through wgpu. The first pass is slow: it compiles the kernels.
    #[cfg(feature = "wgpu")]
    Wgpu,
}

impl Backend {
    pub(crate) fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            // A device that fails to start returns its error at its first use.
            #[cfg(feature = "wgpu")]
            Self::Wgpu => super::device::shared()
                .map_or_else(|_| Device::wgpu(Default::default()), |shared| shared.device.clone()),
        }
    }
}
