//! Grammars in the text of a grammar: JSON Schemas, other grammars by name, and files. A [`Resolve`] supplies them.
//!
//! This crate reads no files and knows no JSON Schema, and a text that is not trusted must not choose the files that
//! are read. So a text refers to the outside only through an object that the caller supplies.
//!
//! A grammar inside another is a part of it, like a rule: its texts stand between those around it, and the boundary
//! may lie inside of a token. Its names are its own, and so is its `%ignore`. A lazy terminal in it competes with the
//! readings around it too.

use std::{fmt, sync::Arc};

use unskew_grammar::Grammar;

use super::{lower::Ignored, tree::Tree};

/// Supplies the grammars and files to which the text of a grammar refers. Each method is given the reference as
/// written, and answers with the reason if there is no such thing. Methods that are not implemented refuse
/// everything.
///
/// # Example
///
/// A grammar that is called by its name:
///
/// ```
/// use unskew_grammar::{Grammar, GrammarLimits};
/// use unskew_notation::{GrammarOptions, Resolve, Resolver, from_lark};
///
/// #[derive(Debug)]
/// struct Numbers;
///
/// impl Resolve for Numbers {
///     fn named(&self, name: &str) -> Result<Grammar, String> {
///         let number = from_lark("start: /[0-9]+/", &GrammarOptions::default(), &GrammarLimits::default());
///         if name == "number" { Ok(number.expect("it is a grammar")) } else { Err("it is not there".to_owned()) }
///     }
/// }
///
/// let options = GrammarOptions::default().with_resolver(Resolver::new(Numbers));
/// let limits = GrammarLimits::default();
/// assert!(from_lark("start: \"[\" @number \"]\"", &options, &limits).is_ok());
/// let error = from_lark("start: @letter", &options, &limits).unwrap_err();
/// assert_eq!(error.to_string(), "line 1, column 8: `@letter`: it is not there");
/// ```
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The grammar of a JSON Schema that stands in the text as `%json {…}`.
    ///
    /// # Errors
    ///
    /// Why it has no grammar.
    fn json_schema(&self, schema: &str) -> Result<Grammar, String> {
        _ = schema;
        Err("no JSON Schema is read here; `unskew-schema` makes a grammar of one".to_owned())
    }

    /// The grammar that the text uses as `@name`.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn named(&self, name: &str) -> Result<Grammar, String> {
        _ = name;
        Err("no grammar has this name; copy its rules into this one".to_owned())
    }

    /// The text of the file that `%import` names. `path` ends in `.lark`, its parts are separated by slashes, and it
    /// is relative to the text that imports it.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn file(&self, path: &str) -> Result<String, String> {
        _ = path;
        Err("no files are read here; copy the definitions into this grammar".to_owned())
    }
}

/// A [`Resolve`], or none: then a text that refers to the outside is an error.
#[derive(Clone, Default)]
pub struct Resolver(Option<Arc<dyn Resolve>>);

impl Resolver {
    /// A resolver that asks `resolve`.
    pub fn new(resolve: impl Resolve + 'static) -> Self {
        Self(Some(Arc::new(resolve)))
    }

    pub(super) fn get(&self) -> &dyn Resolve {
        match &self.0 {
            Some(resolve) => &**resolve,
            None => &Nothing,
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Resolvers are equal if they are the same.
impl PartialEq for Resolver {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }
}

impl Eq for Resolver {}

#[derive(Debug)]
struct Nothing;

impl Resolve for Nothing {}

/// A grammar in the text of another.
#[derive(Debug)]
pub(super) enum Nested<'t> {
    /// A part of the text.
    Text(Box<Part<'t>>),
    /// From the outside.
    Ready(Grammar),
}

/// A grammar as a part of a text.
#[derive(Debug)]
pub(super) struct Part<'t> {
    pub(super) tree: Tree<'t>,
    pub(super) ignored: Ignored,
    /// The definition of the start rule.
    pub(super) start: usize,
}

/// How deep grammars may stand in each other. Each level takes some kilobytes of the call stack.
pub(super) const MAX_DEPTH: u32 = 32;
