//! The kernels of `unskew-shaders`, run by wgpu on any adapter.
//!
//! Where the logits of a model lie on the device, a [`Chooser`] answers questions about them there and reads back a
//! token and a few numbers for each question. The rows of `unskew-runner` do so with its feature `wgpu`. The
//! candidates of a set are verified there too ([`GpuSetConstraint`]). Masks are made by the CPU, which is faster: a
//! dispatch alone takes longer than a mask.
//!
//! On a machine without an adapter the error is [`GpuError::NoAdapter`], and the caller stays with
//! [`SetConstraint`](crate::SetConstraint), which needs no adapter.

mod choice;
mod constraint;
mod device;

pub use choice::{Choice, ChoiceQuestion, Chooser, LogitBuffer, Next, Rule};
pub use constraint::GpuSetConstraint;
pub use device::{Gpu, GpuError};
