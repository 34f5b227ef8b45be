//! Where a model runs.

use burn::tensor::Device;

/// The device that a model's tensors live on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Plain Rust on the CPU, with SIMD and threads.
    #[default]
    Cpu,
    /// The default GPU through wgpu. The first calls are slow (tens of seconds): kernels are tuned on them.
    #[cfg(feature = "wgpu")]
    Wgpu,
}

impl Backend {
    pub(crate) fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Device::wgpu(Default::default()),
        }
    }
}
