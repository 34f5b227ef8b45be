//! Choices that the text of a grammar leaves open.

use super::nested::Resolver;

/// Options for reading a grammar.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GrammarOptions {
    /// The name of the start rule. Default: `start` in Lark, `root` in GBNF, `root` or else the first rule in EBNF.
    pub start: Option<String>,
    /// Lark: the greatest number of consecutive ignored terminals. Default: unbounded.
    ///
    /// A single ignored terminal may still be long, for example one of `[ \t]+`.
    pub max_ignored: Option<u32>,
    /// Lark: the greatest number of ignored characters in one place, between two terminals. Default: unbounded, as
    /// in Lark. An ignored text consists of whole ignored terminals, and a terminal that would exceed the
    /// bound is not allowed.
    pub max_ignored_chars: Option<u32>,
    /// Lark: how blocks are indented, for a grammar with `%declare`. Default: as in Python.
    pub indenter: Indenter,
    /// Supplies the schemas, grammars and files to which the text refers. Default: none, and such a reference is an
    /// error.
    pub resolver: Resolver,
}

impl GrammarOptions {
    /// The same with this start rule.
    #[must_use]
    pub fn with_start(mut self, start: impl Into<String>) -> Self {
        self.start = Some(start.into());
        self
    }

    /// The same with this bound of ignored characters.
    #[must_use]
    pub fn with_max_ignored_chars(mut self, most: impl Into<Option<u32>>) -> Self {
        self.max_ignored_chars = most.into();
        self
    }

    /// The same with this bound of ignored terminals.
    #[must_use]
    pub fn with_max_ignored(mut self, most: impl Into<Option<u32>>) -> Self {
        self.max_ignored = most.into();
        self
    }

    /// The same with this indenter.
    #[must_use]
    pub fn with_indenter(mut self, indenter: Indenter) -> Self {
        self.indenter = indenter;
        self
    }

    /// The same with this resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }
}

/// How blocks are indented: the attributes of Lark's `Indenter`. The default is its `PythonIndenter`.
///
/// ```
/// use unskew_grammar::GrammarLimits;
/// use unskew_notation::{GrammarOptions, Indenter, from_lark};
///
/// let text = r#"
/// start: item+
/// item: /[a-z]+/ BREAK [IN item+ OUT]
/// BREAK: /(\n[ \t]*)+/
/// %declare IN OUT
/// "#;
/// let mut indenter = Indenter::default();
/// (indenter.newline, indenter.indent, indenter.dedent) = ("BREAK".into(), "IN".into(), "OUT".into());
/// let options = GrammarOptions::default().with_indenter(indenter);
/// assert!(from_lark(text, &options, &GrammarLimits::default()).is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Indenter {
    /// The name of the terminal of line feeds with the indentation after them: `NL_type`.
    pub newline: String,
    /// The name of the declared terminal at the beginning of a block: `INDENT_type`.
    pub indent: String,
    /// The name of the declared terminal at the end of a block: `DEDENT_type`.
    pub dedent: String,
    /// The texts of brackets between which lines do not count: `OPEN_PAREN_types`, by their texts.
    pub open: Vec<String>,
    /// The texts that close them: `CLOSE_PAREN_types`.
    pub close: Vec<String>,
    /// The columns of a tab: `tab_len`.
    pub tab: u32,
}

impl Default for Indenter {
    fn default() -> Self {
        let texts = |texts: [&str; 3]| texts.map(str::to_owned).to_vec();
        Self {
            newline: "_NEWLINE".to_owned(),
            indent: "_INDENT".to_owned(),
            dedent: "_DEDENT".to_owned(),
            open: texts(["(", "[", "{"]),
            close: texts([")", "]", "}"]),
            tab: 8,
        }
    }
}
