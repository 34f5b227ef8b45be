//! Searches for probable outputs. These outputs are samples of no distribution.

mod beam;
mod greedy;

pub use beam::{Beam, Search};
pub use greedy::Greedy;
