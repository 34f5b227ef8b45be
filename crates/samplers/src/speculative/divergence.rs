//! The Kullback-Leibler divergence between the target `q` and another distribution `pi`, in nats: the divergence of the
//! paper. It adds up along a sequence.
//!
//! `KL(q || pi) = sum q_i f(pi_i / q_i)` with `f(ratio) = -ln(ratio)`, so that `q ln(q / pi)` is the term of an
//! outcome. The optimum of mentored decoding is the same clamp for every convex `f`: the divergence decides only how
//! far the clamp goes, and its value and slope are all that the search asks for.
//!
//! Tried instead: the divergence as a parameter. Nobody has asked for another one, and budgets of most others do not
//! add up along a sequence.

/// `f(ratio)`, for a ratio `pi / q` in `[0, inf)`.
pub(super) fn value(ratio: f64) -> f64 {
    -ratio.ln()
}

/// `f'(ratio)`, for a ratio in `[0, inf]`: never falling.
pub(super) fn slope(ratio: f64) -> f64 {
    -ratio.recip()
}
