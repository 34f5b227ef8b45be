//! Sets on a GPU: the kernels of `unskew-shaders`, run by wgpu on any adapter.
//!
//! A set is uploaded once. Each question is one upload, one dispatch and one read-back, for many sequences at a time; the
//! answers are those of the CPU, bit for bit, but for [`Gpu::masses`], whose sums are of floats. For a single sequence, or
//! masks that a CPU reads, the CPU is faster: a dispatch alone takes longer than a mask.
//!
//! Without an adapter there is [`GpuError::NoAdapter`], and the caller stays with [`SetConstraint`](crate::SetConstraint),
//! which needs none.

mod constraint;
mod device;
mod set;

pub use constraint::GpuSetConstraint;
pub use device::{Gpu, GpuError};
pub use set::GpuSet;
