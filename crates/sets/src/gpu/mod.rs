//! Sets on a GPU: the kernels of `unskew-shaders`, run by wgpu on any adapter.
//!
//! A set is uploaded once. Each question is one upload, one dispatch and one read-back, for many sequences at a time.
//! The answers are those of the CPU, bit for bit. For a single sequence, or for masks that a CPU reads, the CPU is
//! faster: a dispatch alone takes longer than a mask.
//!
//! Where the logits of a model also lie on the device, a [`Chooser`] answers questions about them there and reads
//! back a token and a few numbers for each question. The rows of `unskew-runner` do so with its feature `wgpu`.
//!
//! On a machine without an adapter the error is [`GpuError::NoAdapter`], and the caller stays with
//! [`SetConstraint`](crate::SetConstraint), which needs no adapter.

mod choice;
mod constraint;
mod device;
mod set;

pub use choice::{Choice, ChoiceQuestion, Chooser, LogitBuffer, Next, Rule};
pub use constraint::GpuSetConstraint;
pub use device::{Gpu, GpuError};
pub use set::GpuSet;
