//! Context-free grammars as exact constraints over tokens.

mod analysis;
mod constraint;
mod error;
mod explain;
mod fixpoint;
mod grammar;
mod limits;
mod mask;
mod parser;
mod places;
mod portable;
mod rules;
mod speculation;
mod syntax;
mod terminals;
mod trees;

pub use analysis::{Analysis, Finding, FindingKind, GrammarSize, LeftRecursion, RuleFacts};
pub use constraint::{GrammarConstraint, GrammarScratch, GrammarState, GrammarStats};
pub use error::GrammarError;
pub use explain::{Explained, Fate, explain};
pub use grammar::{Expr, ExprId, Grammar, GrammarBuilder, RuleId, Terminal, TerminalId};
pub use limits::GrammarLimits;
pub use speculation::{CountConfig, CountFileError, CountModel};
pub use syntax::{GrammarFormat, LarkOptions, Location, SyntaxError, SyntaxErrorKind};
pub use trees::TreeLibrary;
