//! Context-free grammars as exact constraints over tokens.

mod error;
mod grammar;
mod limits;

pub use error::GrammarError;
pub use grammar::{Expr, ExprId, Grammar, GrammarBuilder, RuleId, Terminal, TerminalId};
pub use limits::GrammarLimits;
