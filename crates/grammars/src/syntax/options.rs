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
    /// Supplies the schemas, grammars and files to which the text refers. Default: none, and such a reference is an error.
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

    /// The same with this resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }
}
