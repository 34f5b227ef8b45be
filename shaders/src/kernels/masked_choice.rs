//! The next token after a row of logits, among the tokens that a mask allows, and the end of the sequence where it is
//! allowed. The same passes give the masses of the tokens, of the end and of the whole row. Several questions may be
//! about one row.
//!
//! This kernel serves a step that reads back no logits: a token and four numbers a question. The random numbers come
//! from the caller, 32 bits a question, so that a seed decides the outputs and the shader needs no generator. Not
//! taken: noise for each token (Gumbel's trick). It saves a pass, but it needs a generator for each token, and noise
//! of 24 bits cannot draw a token less probable than about e -16.
//!
//! The work is two kernels. [`ROW_PARTS`] divides each row into [`choice_parts`], one workgroup for each, and writes
//! their largest logits and sums. [`MASKED_CHOICE`] adds the parts up, and searches one part for the token. Tried
//! instead: one kernel with one workgroup for a question. A workgroup runs on one unit of a GPU, and its 256 lanes went
//! through a row of 100,000 logits in 392 steps, three times; on an H100 that took longer than reading the row back.
//!
//! Cost: two passes over the row, the second one out of the caches, and one over a part.
//!
//! The end of the sequence is one event, as on the CPU: the sum over the ids that end it. Sums are of 32-bit floats
//! and the random number has 24 bits, so that the probability of drawing a token is that of the logits up to about
//! 1e-6. A token that is not allowed, or has probability zero, is never drawn.

use crate::{Access, Binding, Kernel};

/// Stands for the logit of a token with probability zero, and for the logarithm of zero: shaders cannot rely on
/// infinities.
pub const LOWEST: f32 = -3.0e38;

/// Stands for no token.
pub const NONE: u32 = u32::MAX;

/// Stands for the end of the sequence among tokens.
pub const END: u32 = u32::MAX - 1;

/// Stands for a row that is no distribution: an infinite logit, a NaN, or no probability at all.
pub const BROKEN: u32 = u32::MAX - 2;

/// The most parts of a row.
const MOST_PARTS: usize = 64;

/// The number of parts of a row of `vocab_len` logits: a part has a thousand tokens, or more in a long row.
pub fn choice_parts(vocab_len: usize) -> usize {
    vocab_len.div_ceil(1024).clamp(1, MOST_PARTS)
}

/// The 32-bit words of a part in the buffer between the two kernels.
pub const CHOICE_PART_WORDS: usize = 8;

/// The kernel that goes before [`MASKED_CHOICE`]: the parts of the rows that questions are about. The two have one
/// reference, [`masked_choice`].
pub const ROW_PARTS: Kernel = Kernel {
    name: "row_parts",
    source: concat!(include_str!("row.wgsl"), include_str!("row_parts.wgsl")),
    workgroup: 256,
    bindings: &[
        Binding { name: "logits", access: Access::Read },
        Binding { name: "masks", access: Access::Read },
        Binding { name: "shape", access: Access::Uniform },
        Binding { name: "questions", access: Access::Read },
        Binding { name: "parts", access: Access::ReadWrite },
    ],
};

/// The kernel; the reference is [`masked_choice`].
pub const MASKED_CHOICE: Kernel = Kernel {
    name: "masked_choice",
    source: concat!(include_str!("row.wgsl"), include_str!("masked_choice.wgsl")),
    workgroup: 256,
    bindings: &[
        Binding { name: "logits", access: Access::Read },
        Binding { name: "masks", access: Access::Read },
        Binding { name: "shape", access: Access::Uniform },
        Binding { name: "questions", access: Access::Read },
        Binding { name: "parts", access: Access::Read },
        Binding { name: "ends", access: Access::Read },
        Binding { name: "tokens", access: Access::ReadWrite },
        Binding { name: "choices", access: Access::ReadWrite },
    ],
};

/// The rule that chooses a token.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pick {
    /// The most probable token. Among equally probable outcomes: the end of the sequence, then the lowest id.
    Greedy,
    /// A token by a random number in [0, 1): the upper 24 bits of this number, divided by 2^24. The end takes the front
    /// of the interval, and the tokens follow in the order of their ids.
    Random(u32),
}

/// The answer to a question: [`tokens`](Self::token) is a buffer of its own, and the other fields lie in the order of
/// `choices`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MaskedChoice {
    /// The token, [`END`], [`BROKEN`], or [`NONE`] where no allowed outcome has a probability.
    pub token: u32,
    /// The token's logit at the temperature; for the end, the logarithm of the sum over its ids. [`LOWEST`] for no
    /// token.
    pub logit: f32,
    /// The logarithm of the sum over all tokens; [`LOWEST`] for a sum of zero.
    pub log_sum: f32,
    /// The logarithm of the sum over the ids that end the sequence; [`LOWEST`] where the sequence may not end.
    pub log_end: f32,
    /// The logarithm of the sum over the allowed tokens; [`LOWEST`] for a sum of zero.
    pub log_tokens: f32,
}

/// The reference on the CPU, in 64 bits, for one row of logits and its mask. `scale` is the reciprocal of the
/// temperature.
///
/// # Panics
///
/// Never: a mask may be shorter or longer than the row.
pub fn masked_choice(
    logits: &[f32],
    mask: &[u32],
    may_end: bool,
    ends: &[u32],
    scale: f32,
    pick: Pick,
) -> MaskedChoice {
    let lowest = f64::from(LOWEST);
    let logit = |token: usize| match logits.get(token) {
        Some(logit) if *logit > LOWEST => (f64::from(*logit) * f64::from(scale)).clamp(lowest, -lowest),
        _ => lowest,
    };
    let allowed = |token: usize| mask.get(token / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
    let sum = |of: &mut dyn Iterator<Item = usize>| {
        let kept: Vec<f64> = of.map(logit).filter(|logit| *logit > lowest).collect();
        let largest = kept.iter().copied().fold(lowest, f64::max);
        let sum: f64 = kept.iter().map(|logit| (logit - largest).exp()).sum();
        if sum > 0.0 { largest + sum.ln() } else { lowest }
    };
    let end = sum(&mut ends.iter().filter(|_| may_end).map(|id| *id as usize));
    let log_sum = sum(&mut (0..logits.len()));
    let log_tokens = sum(&mut (0..logits.len()).filter(|token| allowed(*token)));
    let larger = end.max(log_tokens);
    let log_sum_allowed = if larger > lowest {
        larger + ((end - larger).exp() + (log_tokens - larger).exp()).ln()
    } else {
        lowest
    };
    let odd = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    let (token, logit) = if logits.iter().any(odd) || log_sum <= lowest {
        (BROKEN, lowest)
    } else if log_sum_allowed <= lowest {
        (NONE, lowest)
    } else {
        let live = |token: &usize| allowed(*token) && logit(*token) > lowest;
        match pick {
            Pick::Greedy => {
                let better = |best: Option<usize>, token| match best {
                    Some(best) if logit(best) >= logit(token) => Some(best),
                    _ => Some(token),
                };
                match (0..logits.len()).filter(live).fold(None, better) {
                    Some(best) if end < logit(best) => (best as u32, logit(best)),
                    _ => (END, end),
                }
            }
            Pick::Random(bits) => {
                let mut rest = f64::from(bits >> 8) / 2.0_f64.powi(24);
                let mut last = (NONE, lowest);
                let events = [(END, end)].into_iter().filter(|(_, logit)| *logit > lowest);
                for event in
                    events.chain((0..logits.len()).filter(live).map(|token| (token as u32, logit(token))))
                {
                    last = event;
                    let weight = (event.1 - log_sum_allowed).exp();
                    if rest < weight {
                        break;
                    }
                    rest -= weight;
                }
                last
            }
        }
    };
    let [logit, log_sum, log_end, log_tokens] = [logit, log_sum, end, log_tokens].map(|value| value as f32);
    MaskedChoice { token, logit, log_sum, log_end, log_tokens }
}
