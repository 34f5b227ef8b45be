//! Samplers whose outputs carry weights: masked sampling, and two that estimate the mass of the constraint on the way.

pub(crate) mod awrs;
mod masked;
mod smc;

pub use awrs::Awrs;
pub use masked::Masked;
pub use smc::{Populations, Smc, SmcConfig};
