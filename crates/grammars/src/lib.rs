//! Context-free grammars as exact constraints over tokens.

mod error;
mod grammar;
mod limits;
mod syntax;

pub use error::GrammarError;
pub use grammar::{Expr, ExprId, Grammar, GrammarBuilder, RuleId, Terminal, TerminalId};
pub use limits::GrammarLimits;
pub use syntax::{GrammarFormat, Position, SyntaxError, SyntaxErrorKind};
