//! The part that an inference engine embeds: constraints as data, a compiler that keeps them, and matchers that make
//! masks.
//!
//! ```text
//! JSON, options, requests --spec, tag--> Spec --compiler (cache, deadline)--> Compiled --matcher--> Matcher --batch--> rows of masks
//!                                                      |                        |                      |
//!                                  automata, grammars, schema, sets        pool of scratches     one sequence, owned
//! ```
//!
//! There is no sampler here, no model and no tensor: rows are `&mut [u32]` of the caller, in the layout that engines
//! and their kernels share.
//!
//! # Should you use this crate?
//!
//! To put constraints into an inference engine that has its own sampler: yes. To draw outputs from a model, take
//! the `unskew` crate; for one kind of constraint alone, `unskew-automata`, `unskew-grammars` or `unskew-sets`.
//!
//! # Where each thing lives
//!
//! | module | its subject |
//! |---|---|
//! | [`spec`] | constraints as data, their one JSON form, `response_format` and tools ([`JsonRequest`]), what a request may ask for ([`RequestRules`]) |
//! | [`tag`] | structural tags, lowered to a grammar |
//! | `grammars` | grammars of specs: what a grammar refers to, and specs as parts of others |
//! | `compile` | from a `Spec` to a constraint of one of the engines |
//! | `compiler` | once for each spec, within limits of memory and time |
//! | `pool` | a constraint of any kind with the scratches that all share |
//! | `constraint` | a compiled constraint as that of samplers |
//! | `matcher` | one sequence: fill, accept, validate, roll back, forced tokens and texts |
//! | `place` | where in a text a fault is, as bytes |
//! | `rejection` | where the text of some tokens leaves a constraint |
//! | `batch` | rows of many sequences and of their drafts, on threads |
//! | [`items`], [`read`] | files, within limits |
//! | `tokens` | the meaning of each id, and the tokens of a text ([`TokenSpace`]) |
//!
//! # Guarantees
//!
//! - A row has exactly the bits of the tokens that [`Matcher::accept`] takes, on any thread, after any rollback, in
//!   any batch.
//! - Types are owned and have no lifetimes. All of them are [`Send`] and [`Sync`], so that bindings can hold them.
//! - Wrong use is an error ([`MatcherError`]), a construct that is not enforced exactly is an error with its place
//!   ([`Error`]), and no argument makes a function panic.
//! - A [`Compiler`] keeps constraints within a limit in bytes, and [`Compiler::stats`] tells how many bytes it keeps.
//!
//! # Example: a tool call in free text
//!
//! ```
//! use unskew_core::{TokenId, Vocabulary};
//! use unskew_engine::{Compiler, Spec, TokenSpace};
//!
//! let mut builder = Vocabulary::builder();
//! for byte in 0..=255 {
//!     builder.text(&[byte]);
//! }
//! let end = builder.control("<end>");
//! builder.end_of_sequence(end);
//! let compiler = Compiler::new(TokenSpace::from_vocabulary(builder.build()?));
//!
//! let tag = r#"{"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": [
//!     {"begin": "<call>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</call>"}]}}"#;
//! let mut matcher = compiler.compile(&Spec::structural_tag(tag))?.matcher();
//! let tokens = |text: &str| text.bytes().map(|byte| TokenId(byte.into())).collect::<Vec<_>>();
//! assert_eq!(matcher.accept_all(&tokens("I ask <call>"))?, 12);
//! assert_eq!(matcher.validate(&tokens("no number"))?, 0);
//! assert_eq!(matcher.accept_all(&tokens("42</call> and wait"))?, 18);
//! assert!(matcher.is_accepting());
//! matcher.rollback(18)?;
//! assert!(!matcher.is_accepting());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod compiler;
mod constraint;
mod error;
mod explain;
mod fields;
mod gbnf;
#[cfg(feature = "sets")]
pub mod items;
mod matcher;
mod place;
mod pool;
mod progress;
pub mod read;
mod rejection;
pub mod spec;
pub mod tag;
mod tokens;
pub mod tools;

pub use unskew_automata::{Dialect, UnknownDialect};
pub use unskew_grammars::{Capture, CaptureError, Captures, LeftOut};
pub use unskew_notation::{Gbnf, Loosening, LooseningKind};

pub use self::{
    batch::{BatchRow, DraftNode, Drafts, Threads, fill_batch},
    compiler::{COMPILE_FUEL, Compiled, Compiler, CompilerOptions, CompilerStats, Until},
    constraint::LastScratch,
    error::{BoxError, Error, Mismatch, Result, chain, place},
    explain::Explained,
    gbnf::GBNF_BYTES,
    matcher::{Matcher, MatcherError, MatcherOptions},
    place::{Place, Places},
    progress::Progress,
    rejection::Rejection,
    spec::{JsonRequest, Language, RegexSpec, RequestRules, SPEC_VERSION, Spec, SpecError, SpecOptions},
    tokens::TokenSpace,
};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
