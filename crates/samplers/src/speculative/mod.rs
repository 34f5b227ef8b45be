//! Speculation: drafts of several tokens, verified by the target model in one pass.

mod divergence;
mod guessed;
mod levels;
mod optimum;
mod pair;
mod selection;

pub use divergence::{Divergence, KullbackLeibler, ReverseKullbackLeibler, TotalVariation};
pub use guessed::Guessed;
pub use optimum::{BudgetError, Optimum, optimum};
pub use pair::{Pair, PairError};
pub use selection::Selection;
