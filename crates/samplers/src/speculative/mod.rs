//! Speculation.

mod budget;
mod config;
mod divergence;
mod length;
mod levels;
mod ngram;
mod optimum;
mod pair;
mod selection;

pub use budget::{Budget, ShareError};
pub use config::{SpeculationConfig, SpeculationError, SpeculationStats, check_vocabularies};
pub use divergence::{Divergence, KullbackLeibler, ReverseKullbackLeibler, TotalVariation};
pub use length::DraftLength;
pub use ngram::Ngram;
pub use optimum::{BudgetError, Optimum, optimum};
pub use pair::{Pair, PairError};
pub use selection::Selection;
