//! From a [`Spec`] and the tokens of a model to a constraint.

use std::{fs, path::Path, sync::Arc};

use unskew_automata::{CanonicalConstraint, Limits, RegexConstraint, regex};
use unskew_core::{AnyConstraint, Unconstrained};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarFormat, GrammarLimits, LarkOptions};
use unskew_schema::{MemberOrder, Registry, SchemaLimits, SchemaOptions};
use unskew_sets::SetConstraint;

use crate::{
    BoxError, Error, Progress, Result, Spec, TokenSpace, items, read,
    spec::{GrammarSpec, Language, RegistrySource, SchemaSpec, Source},
};

/// A constraint of which the kinds are told apart that a program may read more of than masks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Drafts count tokens by place in it.
    Grammar(Arc<GrammarConstraint>),
    /// A GPU can draw from it.
    Set(SetConstraint),
    /// Any other.
    Other(AnyConstraint),
}

impl TokenSpace {
    /// The constraint that `spec` describes, over these tokens.
    ///
    /// # Errors
    ///
    /// [`Error`], where a file cannot be read, the constraint cannot be enforced exactly, or its parts do not go together.
    pub fn constraint(&self, spec: &Spec) -> Result<AnyConstraint> {
        Ok(self.kind(spec, "", &())?.into_any())
    }

    /// The constraint that `spec` describes on outputs that begin with `healed`, which was taken off a prompt, and its kind. Lines
    /// that are left out of a set, and the reading of large files, are told to `progress`.
    ///
    /// # Errors
    ///
    /// As [`constraint`](Self::constraint).
    pub fn kind(&self, spec: &Spec, healed: &str, progress: &dyn Progress) -> Result<Kind> {
        compile(spec, self, healed, progress)
    }
}

impl Kind {
    /// The constraint, whatever its kind.
    pub fn into_any(self) -> AnyConstraint {
        match self {
            Self::Grammar(constraint) => AnyConstraint::new(constraint),
            Self::Set(constraint) => AnyConstraint::new(constraint),
            Self::Other(constraint) => constraint,
        }
    }
}

fn compile(spec: &Spec, tokens: &TokenSpace, healed: &str, progress: &dyn Progress) -> Result<Kind> {
    let canonical = spec.canonical;
    match &spec.language {
        Language::Anything if !canonical && healed.is_empty() => {
            Ok(Kind::Other(AnyConstraint::new(Unconstrained::new(tokens.vocabulary()))))
        }
        Language::Anything => {
            compile_regex(&format!("{}(?s:.*)", literal(healed)), canonical, tokens).map(Kind::Other)
        }
        Language::Regex(source) => {
            let (_, pattern) = source.read()?;
            let pattern = match healed {
                "" => pattern,
                healed => format!("{}(?:{pattern})", literal(healed)),
            };
            compile_regex(&pattern, canonical, tokens).map(Kind::Other)
        }
        Language::Choices(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| format!("{healed}{choice}")).collect();
            compile_choices(&choices, canonical, tokens).map(Kind::Other)
        }
        Language::Grammar(GrammarSpec { maximal_munch: true, .. }) if canonical => Err(Error::combination(
            "`canonical` takes a grammar as one automaton, which knows no terminals, so it cannot be combined with \
             `maximal_munch`; leave out one of the two",
        )),
        Language::Grammar(spec) => {
            let limits = GrammarLimits::default();
            let (path, grammar) = spec.grammar(&limits)?;
            compile_grammar(&grammar, path, spec.maximal_munch, canonical, tokens, healed)
        }
        Language::JsonSchema(spec) => {
            let (path, grammar) = spec.grammar()?;
            compile_grammar(&grammar, path, false, canonical, tokens, healed)
        }
        Language::Set(spec) => {
            items::set_constraint(spec, canonical, tokens, healed, progress).map(Kind::Set)
        }
        Language::ExcludeSet(path) => items::exclusion(path, canonical, tokens, healed).map(Kind::Other),
    }
}

/// A pattern that matches `text` alone. It is spelled character by character, so that nothing in it is syntax.
fn literal(text: &str) -> String {
    text.chars().map(|char| format!("\\x{{{:x}}}", u32::from(char))).collect()
}

fn compile_regex(pattern: &str, canonical: bool, tokens: &TokenSpace) -> Result<AnyConstraint> {
    let limits = Limits::default();
    if canonical {
        let constraint = CanonicalConstraint::new(pattern, &tokens.canonical_index()?, &limits);
        return constraint.map(AnyConstraint::new).map_err(Error::constraint);
    }
    regex(pattern, Arc::clone(tokens.vocabulary()), tokens.trie()?, &limits).map_err(Error::constraint)
}

fn compile_choices(choices: &[String], canonical: bool, tokens: &TokenSpace) -> Result<AnyConstraint> {
    let limits = Limits::default();
    if canonical {
        let constraint = CanonicalConstraint::from_choices(choices, &tokens.canonical_index()?, &limits);
        return constraint.map(AnyConstraint::new).map_err(Error::constraint);
    }
    let constraint =
        RegexConstraint::from_choices(choices, Arc::clone(tokens.vocabulary()), tokens.trie()?, &limits);
    constraint.map(AnyConstraint::new).map_err(Error::constraint)
}

fn compile_grammar(
    grammar: &Grammar,
    path: Option<&Path>,
    maximal_munch: bool,
    canonical: bool,
    tokens: &TokenSpace,
    healed: &str,
) -> Result<Kind> {
    let grammar = grammar.behind(healed.as_bytes());
    if canonical {
        let limits = Limits::default();
        let dfa = grammar.regular(&limits).map_err(|error| of_file(path, error))?;
        let constraint = CanonicalConstraint::from_dfa(&dfa, &tokens.canonical_index()?, &limits);
        return constraint.map(AnyConstraint::new).map(Kind::Other).map_err(Error::constraint);
    }
    let limits = GrammarLimits::default();
    let (vocabulary, trie) = (Arc::clone(tokens.vocabulary()), tokens.trie()?);
    let constraint = match maximal_munch {
        true => GrammarConstraint::with_maximal_munch(&grammar, vocabulary, trie, &limits),
        false => GrammarConstraint::new(&grammar, vocabulary, trie, &limits),
    };
    constraint.map(|constraint| Kind::Grammar(Arc::new(constraint))).map_err(|error| of_file(path, error))
}

/// An error about the text of a constraint, with the name of its file.
pub(crate) fn of_file(path: Option<&Path>, error: impl Into<BoxError>) -> Error {
    match path {
        Some(path) => Error::file(path, error),
        None => Error::constraint(error),
    }
}

impl Source {
    /// The text, and the file that it is from.
    pub(crate) fn read(&self) -> Result<(Option<&Path>, String)> {
        match self {
            Self::Text(text) => Ok((None, text.clone())),
            Self::File(path) => Ok((Some(path), read::text(path)?)),
        }
    }
}

impl GrammarSpec {
    /// The language of the text.
    pub(crate) fn language(&self) -> Result<GrammarFormat> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let Source::File(path) = &self.source else {
            return Err(Error::combination(
                "the text of a `grammar` needs its `grammar_format`: lark, gbnf or ebnf",
            ));
        };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        GrammarFormat::from_extension(extension).ok_or_else(|| {
            Error::file(
                path,
                "the name must end in .lark, .gbnf or .ebnf, which says how the grammar is written",
            )
        })
    }

    fn grammar(&self, limits: &GrammarLimits) -> Result<(Option<&Path>, Grammar)> {
        let format = self.language()?;
        let (path, text) = self.source.read()?;
        let grammar = match (format, self.max_ignored) {
            (GrammarFormat::Lark, max_ignored_chars) => {
                let options = LarkOptions { max_ignored_chars, ..LarkOptions::default() };
                Grammar::from_lark(&text, &options, limits)
            }
            (_, Some(_)) => {
                return Err(Error::combination(
                    "`max_ignored` bounds %ignore, which only grammars in Lark have",
                ));
            }
            (format, None) => Grammar::parse(&text, format, limits),
        };
        Ok((path, grammar.map_err(|error| of_file(path, error))?))
    }
}

impl SchemaSpec {
    fn grammar(&self) -> Result<(Option<&Path>, Grammar)> {
        let options = self.options()?;
        let (path, text) = self.source.read()?;
        let grammar = unskew_schema::grammar(&text, &options, &SchemaLimits::default());
        Ok((path, grammar.map_err(|error| of_file(path, error))?))
    }

    pub(crate) fn options(&self) -> Result<SchemaOptions> {
        let mut options = SchemaOptions::default();
        options.whitespace = self.whitespace.unwrap_or_default();
        options.ascii = self.ascii;
        options.exponents = self.exponents.unwrap_or(0);
        options.registry = registry(self.registry.as_ref())?;
        if self.any_order {
            options.order = MemberOrder::Any;
        }
        Ok(options)
    }
}

/// Schemas by their names; of a folder, those in its `.json` files and in the folders in it, each by its path from there.
fn registry(source: Option<&RegistrySource>) -> Result<Registry> {
    /// The most files and folders.
    const MAX_ENTRIES: usize = 100_000;
    let mut registry = Registry::new();
    let folder = match source {
        None => return Ok(registry),
        Some(RegistrySource::Schemas(schemas)) => {
            for (name, text) in schemas {
                registry.insert(name, text).map_err(|error| {
                    Error::combination(format!("`schema_registry`: {name:?}: {}", crate::chain(&error)))
                })?;
            }
            return Ok(registry);
        }
        Some(RegistrySource::Folder(folder)) => folder,
    };
    let mut folders = vec![(folder.clone(), String::new())];
    let mut left = MAX_ENTRIES;
    while let Some((at, name)) = folders.pop() {
        let entries = fs::read_dir(&at).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| Error::file(&at, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            left = left.checked_sub(1).ok_or_else(|| {
                Error::file(
                    folder,
                    format!("more than {MAX_ENTRIES} files and folders; keep the schemas apart"),
                )
            })?;
            let path = entry.path();
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            // A link to a folder is none, so this ends.
            if entry.file_type().map_err(|error| Error::file(&path, error))?.is_dir() {
                folders.push((path, name + "/"));
            } else if name.ends_with(".json") {
                registry.insert(&name, &read::text(&path)?).map_err(|error| Error::file(&path, error))?;
            }
        }
    }
    Ok(registry)
}
