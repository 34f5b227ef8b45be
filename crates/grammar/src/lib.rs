//! A context-free grammar as data, with its written meaning: rules over terminals, and the facts about them that are
//! computed before they are used.
//!
//! # Should you use this crate?
//!
//! Use it to make grammars in a program, or to look into them: it has neither an engine nor a reader of texts. To read
//! Lark, GBNF, EBNF or ABNF take `unskew-notation`, to read JSON Schema `unskew-schema`, and to make masks of a grammar
//! `unskew-grammars`.
//!
//! # Where things are
//!
//! ```text
//! unskew-notation, unskew-schema, or a program --builder, counted, import--> Grammar (data)
//!                                                                                |
//!             terminal/ languages of terminals, byte by byte  <------------------+
//!             analysis, size, alike: for people   <------------------------------+
//!             regular, within: other grammars and automata of it   <-------------+
//!                                                                                |
//!                                   unskew-grammars makes masks of it  <---------'
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `data` | rules over terminals: [`Grammar`] |
//! | `builder`, `counted`, `reports` | [`GrammarBuilder`], its terminals of counted units, names and temperatures of parts |
//! | `choices` | which members of a group may be read together |
//! | `import` | a grammar as a part of another |
//! | `terminal/` | languages of terminals in a compact form: counted units, differences; terminals byte by byte |
//! | `near` | the bytes that may stand beside a part |
//! | `fixpoint` | least fixpoints: productive and nullable expressions |
//! | `alike` | whether two grammars have the same rules |
//! | `calls`, `size` | the graph of calls, and sizes |
//! | `analysis` | useless rules, left recursion |
//! | `token_set` | sets of tokens by id and name: [`TokenSet`] |
//! | `budget` | terminals with a budget of tokens, written out for a vocabulary |
//! | `regular` | a grammar without recursion as one automaton |
//! | `within` | a grammar with those texts of its terminals alone that a regular language has |
//! | `error`, `syntax_error`, `fate` | errors of all stages, those of texts, and the fate of a construct |
//! | `limits` | the limits of all stages: [`GrammarLimits`] |
//! | `kit` | what the other crates of grammars share with this one, and no part of the API |
//!
//! # Example
//!
//! ```
//! use unskew_grammar::{Grammar, GrammarLimits};
//!
//! // value: "[" value* "]" | /[0-9]+/
//! let limits = GrammarLimits::default();
//! let mut builder = Grammar::builder(&limits);
//! let value = builder.rule("value");
//! let inner = builder.call(value);
//! let inner = builder.repeat(inner, 0, None);
//! let (open, close) = (builder.literal("["), builder.literal("]"));
//! let list = builder.sequence([open, inner, close]);
//! let number = builder.regex("number", "[0-9]+")?;
//! let body = builder.choice([list, number]);
//! builder.define(value, body);
//! let grammar = builder.build(value)?;
//! assert!(grammar.analysis().rule(grammar.start()).recursive);
//! assert_eq!(grammar.size().terminals, 3);
//! # Ok::<(), unskew_grammar::GrammarError>(())
//! ```

mod alike;
mod analysis;
mod budget;
mod builder;
mod calls;
mod choices;
mod counted;
mod data;
mod error;
mod fate;
mod fixpoint;
mod import;
#[doc(hidden)]
pub mod kit;
mod limits;
mod near;
mod regular;
mod reports;
mod size;
mod syntax_error;
mod terminal;
mod token_set;
mod within;

pub use analysis::{Analysis, Finding, FindingKind, LeftRecursion, RuleFacts};
pub use budget::{BudgetLanguage, TokenBudget};
pub use builder::GrammarBuilder;
pub use choices::{MemberChoice, MemberWay};
pub use data::{Expr, ExprId, Grammar, RuleId, Terminal, TerminalId, Unordered};
pub use error::GrammarError;
pub use fate::Fate;
pub use limits::GrammarLimits;
pub use size::GrammarSize;
pub use syntax_error::{Location, SyntaxError, SyntaxErrorKind};
pub use terminal::{counted::CountedUnits, difference::Difference};
pub use token_set::TokenSet;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
