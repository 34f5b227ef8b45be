//! JSON Schema as exact grammars.
//!
//! # Should you use this crate?
//!
//! To make a grammar of a JSON Schema, or to learn which of its keywords are enforced and how: yes. For masks,
//! give the grammar to `unskew-grammars`; `unskew-engine` does both and keeps what it compiled. To validate
//! values that exist, take a validator such as `jsonschema`.
//!
//! ```text
//! text --document/--> schemas and references --normalize/--> shapes --emit/--> Grammar
//!                                                              |
//!                        strings, numbers, patterns, formats --text/--> automata over JSON text
//! ```
//!
//! # Exact means
//!
//! - Every output is JSON that satisfies the schema under the specification of its draft. A keyword that is not
//!   enforced exactly is a [`SchemaError`] with its JSON pointer, its name, the reason and a way out. Unknown
//!   keywords are annotations, as the specification requires; [`explain()`] lists them.
//! - A valid value has many texts, and the outputs are a subset of them. Members have the order of the schema
//!   (declared members, then members that are only required, then others) or any order, see [`MemberOrder`]. Member
//!   names and the strings of an `enum` have only the escapes that they need, for printable characters of ASCII.
//!   Numbers under a condition (`integer`, bounds, `multipleOf`, `enum`) have no exponent, or a small one, see
//!   [`SchemaOptions::exponents`]. White space follows [`Whitespace`]. Other strings have all spellings, surrogate
//!   pairs included.
//! - No name occurs twice in an object. A name that the schema does not list has one spelling, without needless
//!   escapes, so that equal names have equal texts. The same holds for strings and numbers that `uniqueItems`
//!   compares.
//! - A keyword with a value that the metaschema of its draft forbids is an error at every schema, whether a value
//!   reaches it or not. Keywords that a draft does not have are annotations.
//! - [`Fate::Narrowed`](unskew_grammar::Fate::Narrowed) in [`explain()`] marks each keyword that allows values
//!   which are not outputs: formats with a restricted set of texts, indented values that nest deeper than
//!   [`SchemaLimits::levels`], and the rare arrays and objects that run out of items or names.
//! - `format` is always enforced, for all formats of the specification. Some formats are written in a restricted
//!   form; the table in `text/format/mod.rs` lists them. Other format names are annotations.
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
mod elements;
mod emit;
mod error;
mod explain;
mod limits;
mod normalize;
mod options;
mod text;
mod trials;

pub use document::registry::Registry;
pub use draft::Draft;
pub use elements::{ElementStyle, ValueType};
pub use error::SchemaError;
pub use explain::{KeywordFate, explain};
pub use limits::SchemaLimits;
pub use options::{MemberOrder, SchemaOptions, Separators, Spelling, Whitespace};

use unskew_grammar::Grammar;

use normalize::expander::Expander;
use text::languages::Languages;

/// Compiles the schema `text` to the grammar of the JSON texts that satisfy it.
///
/// Cost: reading `text`, plus building its automata and rules; `limits` bounds each.
///
/// # Errors
///
/// [`SchemaError`]. If several keywords cannot be enforced, the error names one of them; [`explain()`] lists all.
pub fn grammar(text: &str, options: &SchemaOptions, limits: &SchemaLimits) -> Result<Grammar, SchemaError> {
    grammar_with(text, options, limits, &mut KnownAutomata::default())
}

/// The automata of schemas that were compiled, for those that come next. The tools of a request have strings and names
/// in common, and in the style of a model these take 100 times as long as the rest.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct KnownAutomata(Option<Languages>);

/// As [`grammar()`], with automata that other schemas have made.
#[doc(hidden)]
pub fn grammar_with(
    text: &str,
    options: &SchemaOptions,
    limits: &SchemaLimits,
    known: &mut KnownAutomata,
) -> Result<Grammar, SchemaError> {
    let languages = match known.0.take() {
        Some(languages) => languages.again(options, limits),
        None => Languages::new(options, limits),
    };
    let schemas = document::schemas::Schemas::read(text, options, limits);
    let made = schemas.and_then(|mut schemas| {
        schemas.share();
        let expander = Expander::with_languages(schemas, languages, options, limits);
        let mut emitter = emit::emitter::Emitter::new(expander, options, limits)?;
        match emitter.grammar() {
            Err(SchemaError::Unsatisfiable { .. }) => {
                Err(trials::Trials::new(emitter.ex, options, limits).conflict())
            }
            made => {
                known.0 = Some(emitter.ex.languages);
                made
            }
        }
    });
    // Each part reports a cancelled automaton as an error of its own.
    made.map_err(|error| if options.cancel.is_cancelled() { SchemaError::Cancelled } else { error })
}

/// What a user should know of a schema beside its fates: that it constrains nothing, or that it was found inside of an
/// object such as a tool. One sentence each. Nothing where the schema cannot be read.
///
/// Cost: reading `text`.
///
/// # Example
///
/// ```
/// use unskew_schema::{SchemaLimits, SchemaOptions, notes};
///
/// let notes = |text| notes(text, &SchemaOptions::default(), &SchemaLimits::default());
/// assert_eq!(notes(r#"{"type": "string"}"#).len(), 0);
/// assert_eq!(notes(r#"{"typ": "string"}"#).len(), 1);
/// assert_eq!(notes(r#"{"name": "f", "inputSchema": {"type": "object"}}"#).len(), 1);
/// ```
pub fn notes(text: &str, options: &SchemaOptions, limits: &SchemaLimits) -> Vec<String> {
    let schemas = document::schemas::Schemas::read(text, options, limits);
    schemas.map_or_else(|_| vec![], |schemas| schemas.notes)
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
