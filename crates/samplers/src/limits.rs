//! The largest numbers of objects that a sampler holds in memory at once.
//!
//! A count comes from a user, and a process that runs out of memory ends. So a sampler that is asked for more than a
//! limit answers [`SampleError::TooMany`] at its first draw. Constructors do not check: most of them cannot fail
//! otherwise, and a draw can. Counts of tries and steps have no limit here, since they take only time: a
//! [`Cancel`](crate::Cancel) ends them.

use crate::SampleError;

/// The most particles of a population ([`Smc::particles`](crate::Smc::particles)). A rollout takes some
/// kilobytes.
pub const MAX_PARTICLES: usize = 1 << 14;

/// The widest [`Beam`](crate::Beam). A prefix in it takes up to some kilobytes.
pub const MAX_BEAMS: usize = 1 << 14;

/// The most outputs among which [DISC](crate::Exact::disc) chooses. It holds all of them.
pub const MAX_CANDIDATES: usize = 1 << 14;

/// The longest draft ([`DraftLength`](crate::speculative::DraftLength)). Each of its positions takes a row of logits.
pub const MAX_DRAFT: usize = 256;

/// Refuses a `count` of objects above its limit.
pub(crate) fn check<E>(what: &'static str, count: usize, limit: usize) -> Result<(), SampleError<E>> {
    if count > limit { Err(SampleError::TooMany { what, count, limit }) } else { Ok(()) }
}
