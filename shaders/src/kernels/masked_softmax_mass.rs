//! The normalisers of a row of logits, over all tokens and over those that a mask allows, in one pass over the row for the
//! largest logits and one for the sums.
//!
//! `log sum exp` over the allowed tokens less that over all is the logarithm of the mass of the mask, P(A | prefix): what
//! DISC multiplies up for each sequence, and what masked sampling divides by.
//!
//! Sums are of 32-bit floats in another order than here, and `exp` of a shader is not that of a CPU, so this is the one
//! kernel whose results are compared with a tolerance: an absolute error of 1e-4 in each logarithm.

use crate::{Access, Binding, Kernel};

/// The logarithm of zero, and the logit of what is no token: a shader must not rely on infinities.
pub const LOWEST: f32 = -3.0e38;

/// The kernel; the reference is [`masked_softmax_mass`].
pub const MASKED_SOFTMAX_MASS: Kernel = Kernel {
    name: "masked_softmax_mass",
    source: include_str!("masked_softmax_mass.wgsl"),
    workgroup: 256,
    over_set: false,
    bindings: &[
        Binding { name: "logits", access: Access::Read },
        Binding { name: "masks", access: Access::Read },
        Binding { name: "shape", access: Access::Uniform },
        Binding { name: "masses", access: Access::ReadWrite },
    ],
};

/// What is computed for a row, in the order of the buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mass {
    /// The largest logit.
    pub largest: f32,
    /// The logarithm of the sum over all tokens; [`LOWEST`] for none.
    pub log_sum: f32,
    /// The logarithm of the sum over the allowed tokens; [`LOWEST`] for none.
    pub log_sum_allowed: f32,
    /// The logarithm of the mass of the mask, at most 0; [`LOWEST`] for none.
    pub log_mass: f32,
}

/// The same on the CPU, in 64 bits, for one row of logits and its mask.
///
/// # Panics
///
/// If the mask has no word for a logit.
pub fn masked_softmax_mass(logits: &[f32], mask: &[u32]) -> Mass {
    let allowed = |token: usize| mask[token / 32] >> (token % 32) & 1 == 1;
    let log_sum = |of: &dyn Fn(usize) -> bool| {
        let kept = || (0..).zip(logits).filter(|(token, logit)| of(*token) && **logit > LOWEST);
        let largest = kept().fold(LOWEST, |largest, (_, logit)| logit.max(largest));
        let sum: f64 = kept().map(|(_, logit)| (f64::from(*logit) - f64::from(largest)).exp()).sum();
        (largest, if sum > 0.0 { f64::from(largest) + sum.ln() } else { f64::from(LOWEST) })
    };
    let ((largest, all), (_, of_allowed)) = (log_sum(&|_| true), log_sum(&allowed));
    let log_mass =
        if of_allowed > f64::from(LOWEST) { (of_allowed - all).min(0.0) } else { f64::from(LOWEST) };
    Mass { largest, log_sum: all as f32, log_sum_allowed: of_allowed as f32, log_mass: log_mass as f32 }
}
