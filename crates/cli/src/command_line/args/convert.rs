//! The options of `unskew convert`.

use clap::{Args, ValueEnum};
use unskew_engine::GBNF_BYTES;

use super::ConstraintArgs;

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The notation
    #[arg(long, value_enum, default_value = "gbnf")]
    pub(crate) format: Notation,
    /// The greatest length of the text; a longer one is loosened, and if that does not help it is an error
    #[arg(long, value_name = "N", default_value_t = GBNF_BYTES)]
    pub(crate) max_bytes: usize,
    /// Fail where the text would allow more than the constraint
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

/// A notation of grammars.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Notation {
    /// GBNF, of llama.cpp.
    Gbnf,
}
