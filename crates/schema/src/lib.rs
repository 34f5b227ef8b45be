//! JSON Schema as exact grammars.
//!
//! ```text
//! text --document/--> schemas and references --normalize/--> shapes --emit/--> Grammar
//!                                                              |
//!                        strings, numbers, patterns, formats --text/--> automata over JSON text
//! ```
//!
//! # Exact means
//!
//! - Every output is JSON that satisfies the schema, as the specification of its draft says. A keyword that is not enforced
//!   exactly is a [`SchemaError`] with its JSON pointer, its name, the reason and a way out. Unknown keywords are annotations, as
//!   the specification says; [`explain()`] lists them.
//! - Of the texts of a valid value, these are outputs: members in the order of the schema (declared ones, then those that are
//!   only required, then others) or in any, as [`MemberOrder`] says; names and the strings of an `enum` with the escapes that they
//!   need and no others, as far as they are printable characters of ASCII; numbers under a condition (`integer`, bounds, `multipleOf`,
//!   `enum`) without an exponent, or with small ones as [`SchemaOptions::exponents`] says; white space as [`Whitespace`] says.
//!   Other strings have all spellings, surrogate pairs among them.
//! - No name comes twice in an object. Names that the schema does not list are written in one way each, without needless escapes, so
//!   that this can be told; so are strings and numbers that `uniqueItems` compares.
//! - A keyword whose value its draft does not allow is an error wherever it stands, as the metaschema has it. Keywords that a draft does
//!   not have are annotations.
//! - Where some values that a keyword allows are no outputs, [`explain()`] says which:
//!   [`Fate::Narrowed`](unskew_grammars::Fate::Narrowed). These are formats of which a part is written, indented values that nest deeper than
//!   [`SchemaLimits::levels`], and few arrays and objects whose items or names run out.
//! - `format` is always enforced, for all formats of the specification; of the texts of some of them only a part is written, as
//!   the table in `text/format.rs` says. Other names are annotations.
//! - Every stage has a limit ([`SchemaLimits`]).
//!
//! # Example
//!
//! ```
//! use unskew_schema::{SchemaLimits, SchemaOptions, grammar};
//!
//! let (options, limits) = (SchemaOptions::default(), SchemaLimits::default());
//! let schema = r#"{"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}"#;
//! assert!(grammar(schema, &options, &limits).is_ok());
//!
//! let error = grammar(r#"{"items": {"uniqueItems": true}}"#, &options, &limits).unwrap_err();
//! assert_eq!((error.pointer(), error.keyword()), (Some("#/items"), Some("uniqueItems"))); // of arrays and objects
//! ```

mod decimal;
mod document;
mod draft;
mod emit;
mod error;
mod explain;
mod limits;
mod normalize;
mod options;
mod text;

pub use document::registry::Registry;
pub use error::SchemaError;
pub use explain::{KeywordFate, explain};
pub use limits::SchemaLimits;
pub use options::{MemberOrder, SchemaOptions, Whitespace};

use unskew_grammars::Grammar;

/// The grammar of the JSON texts that satisfy the schema `text`.
///
/// Cost: that of reading, and of the automata and rules that come out, bounded by `limits`.
///
/// # Errors
///
/// [`SchemaError`]: of several keywords that are not enforced, one; [`explain()`] lists all.
pub fn grammar(text: &str, options: &SchemaOptions, limits: &SchemaLimits) -> Result<Grammar, SchemaError> {
    let schemas = document::schemas::Schemas::read(text, &options.registry, limits, &options.cancel);
    let made = schemas.and_then(|schemas| {
        let expander = normalize::expand::Expander::new(schemas, options, limits);
        emit::rules::Emitter::new(expander, options, limits)?.grammar()
    });
    // Whatever the work was for when it ended.
    made.map_err(|error| if options.cancel.is_cancelled() { SchemaError::Cancelled } else { error })
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
