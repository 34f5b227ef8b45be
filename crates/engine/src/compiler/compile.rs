//! From a [`Spec`] and the tokens of a model to a constraint.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use unskew_automata::{
    AnyRegex, CanonicalConstraint, DfaAlgebra, LazyRegexConstraint, Limits, Pattern, RegexConstraint, regex,
};
use unskew_core::{AnyConstraint, Cancel, Unconstrained};
use unskew_grammars::{Captures, Grammar, GrammarConstraint, TreeLibrary};
use unskew_schema::Registry;
use unskew_sets::{ExclusionConstraint, SetConstraint};

use crate::{
    BoxError, Error, Progress, Result, Spec, TokenSpace, chain,
    compiler::grammars::{self, Around},
    items,
    machine::{Growth, Machine, Pool},
    read,
    spec::{Language, Numbers, RegistrySource, Source},
};

/// A constraint by its kind, for programs that read more of it than masks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// The words of a context-free grammar.
    Grammar(Arc<GrammarConstraint>),
    /// The items of a set.
    Set(SetConstraint),
    /// Any text but items.
    Exclusion(ExclusionConstraint),
    /// The texts of a regular expression.
    Regex(Arc<RegexConstraint>),
    /// The same, of which states are made when they are reached.
    LazyRegex(Arc<LazyRegexConstraint>),
    /// The tokenizer's own sequences, with the reader of captures of the grammar that they satisfy, if it names parts
    /// of its outputs.
    Canonical(Arc<CanonicalConstraint>, Option<Arc<Captures>>),
    /// Any text.
    Anything(Unconstrained),
}

/// The circumstances of a compilation.
pub(crate) struct Means<'a> {
    /// The text that outputs begin with.
    pub(crate) healed: &'a str,
    pub(crate) progress: &'a dyn Progress,
    /// Trees that grammars share.
    pub(crate) library: Option<&'a Arc<TreeLibrary>>,
    /// The bytes that a constraint, and each of its scratches, may keep; `None`: the limits of the engines.
    pub(crate) kept_bytes: Option<usize>,
    pub(crate) cancel: Cancel,
}

impl TokenSpace {
    /// The constraint that `spec` describes, over these tokens. It is compiled anew each time; a
    /// [`Compiler`](crate::Compiler) keeps it.
    ///
    /// # Errors
    ///
    /// [`Error`], where a file cannot be read, the constraint cannot be enforced exactly, or its parts do not go
    /// together.
    pub fn constraint(&self, spec: &Spec) -> Result<AnyConstraint> {
        Ok(self.kind(spec, "", &())?.into_any())
    }

    /// The constraint that `spec` describes on outputs that begin with `healed`, which was taken off a prompt, and
    /// its kind. Lines that are left out of a set, and the reading of large files, are told to `progress`.
    ///
    /// # Errors
    ///
    /// As [`constraint`](Self::constraint).
    pub fn kind(&self, spec: &Spec, healed: &str, progress: &dyn Progress) -> Result<Kind> {
        let cancel = Cancel::default();
        compile(spec, self, &Means { healed, progress, library: None, kept_bytes: None, cancel })
    }
}

impl Kind {
    /// The constraint without its kind.
    pub fn into_any(self) -> AnyConstraint {
        match self {
            Self::Grammar(constraint) => AnyConstraint::new(constraint),
            Self::Set(constraint) => AnyConstraint::new(constraint),
            Self::Exclusion(constraint) => AnyConstraint::new(constraint),
            Self::Regex(constraint) => AnyConstraint::new(constraint),
            Self::LazyRegex(constraint) => AnyConstraint::new(constraint),
            Self::Canonical(constraint, _) => AnyConstraint::new(constraint),
            Self::Anything(constraint) => AnyConstraint::new(constraint),
        }
    }

    /// The reader of the parts of outputs that the constraint names, if it names any.
    pub fn captures(&self) -> Option<&Arc<Captures>> {
        match self {
            Self::Grammar(constraint) => constraint.capture_reader(),
            Self::Canonical(_, captures) => captures.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn into_machine(self, notes: Vec<String>, growth: Growth) -> Arc<dyn Machine> {
        let captures = self.captures().cloned();
        match self {
            Self::Grammar(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::Set(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::Exclusion(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::Regex(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::LazyRegex(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::Canonical(constraint, _) => Arc::new(Pool::new(constraint, captures, notes, growth)),
            Self::Anything(constraint) => Arc::new(Pool::new(constraint, captures, notes, growth)),
        }
    }
}

impl Means<'_> {
    /// The limits that `spec` sets. Those of a compiler on the memory that stays are its own.
    fn limits(&self, spec: &Spec) -> Numbers {
        let mut limits = spec.limits.numbers();
        if let Some(bytes) = self.kept_bytes {
            (limits.regex.mask_cache_bytes, limits.regex.lazy_bytes) = (bytes, bytes);
            limits.grammar.scratch_bytes = bytes;
        }
        limits.regex.cancel = self.cancel.clone();
        limits.grammar.regex.cancel = self.cancel.clone();
        limits
    }
}

pub(crate) fn compile(spec: &Spec, tokens: &TokenSpace, means: &Means<'_>) -> Result<Kind> {
    let (canonical, healed, limits) = (spec.canonical, means.healed, means.limits(spec));
    match &spec.language {
        Language::Anything if !canonical && healed.is_empty() => {
            Ok(Kind::Anything(Unconstrained::new(tokens.vocabulary())))
        }
        Language::Anything => compile_regex("(?s:.*)".into(), healed, canonical, tokens, &limits.regex),
        Language::Regex(regex) => {
            let (_, pattern) = regex.source.read()?;
            compile_regex(regex.dialect.pattern(&pattern), healed, canonical, tokens, &limits.regex)
        }
        Language::Choices(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| format!("{healed}{choice}")).collect();
            compile_choices(&choices, canonical, tokens, &limits.regex)
        }
        Language::Grammar(_)
        | Language::JsonSchema(_)
        | Language::StructuralTag(_)
        | Language::AnyOf(_)
        | Language::Sequence(_) => {
            let around = Around::new(Some(tokens.vocabulary()), limits.clone(), means.cancel.clone());
            let (path, grammar) = grammars::of_language(&spec.language, &around)?;
            compile_grammar(&grammar, path, canonical, tokens, means, &limits)
        }
        Language::Set(spec) => {
            items::set_constraint(spec, canonical, tokens, healed, means.progress).map(Kind::Set)
        }
        Language::ExcludeSet(path) => items::exclusion(path, canonical, tokens, healed).map(Kind::Exclusion),
    }
}

fn compile_regex(
    pattern: Pattern<'_>,
    healed: &str,
    canonical: bool,
    tokens: &TokenSpace,
    limits: &Limits,
) -> Result<Kind> {
    if !healed.is_empty() {
        // `^` is the beginning of the pattern's text, behind the healed one.
        let mut dfas = DfaAlgebra::new(limits);
        let parts = [dfas.literals([healed]), dfas.pattern(pattern)];
        let [healed, text] = parts.map(|part| part.map_err(Error::constraint));
        let whole = dfas.concatenation([&healed?, &text?]).map_err(Error::constraint)?;
        if canonical {
            return canonical_of(
                CanonicalConstraint::from_dfa(&whole, &tokens.canonical_index()?, limits),
                None,
            );
        }
        let made = RegexConstraint::from_dfa(Arc::new(whole), tokens.trie()?, limits);
        return made.map(Arc::new).map(Kind::Regex).map_err(Error::constraint);
    }
    if canonical {
        let constraint = CanonicalConstraint::new(pattern, &tokens.canonical_index()?, limits);
        return canonical_of(constraint, None);
    }
    let made = regex(pattern, tokens.trie()?, limits);
    Ok(match made.map_err(Error::constraint)? {
        AnyRegex::Dfa(constraint) => Kind::Regex(constraint),
        AnyRegex::Lazy(constraint) => Kind::LazyRegex(constraint),
    })
}

fn canonical_of(
    made: std::result::Result<CanonicalConstraint, impl Into<BoxError>>,
    captures: Option<Captures>,
) -> Result<Kind> {
    let constraint = made.map_err(Error::constraint)?;
    Ok(Kind::Canonical(Arc::new(constraint), captures.map(Arc::new)))
}

fn compile_choices(
    choices: &[String],
    canonical: bool,
    tokens: &TokenSpace,
    limits: &Limits,
) -> Result<Kind> {
    if canonical {
        let constraint = CanonicalConstraint::from_choices(choices, &tokens.canonical_index()?, limits);
        return canonical_of(constraint, None);
    }
    let constraint = RegexConstraint::from_choices(choices, tokens.trie()?, limits);
    constraint.map(Arc::new).map(Kind::Regex).map_err(Error::constraint)
}

fn compile_grammar(
    grammar: &Grammar,
    path: Option<&Path>,
    canonical: bool,
    tokens: &TokenSpace,
    means: &Means<'_>,
    limits: &Numbers,
) -> Result<Kind> {
    let grammar = grammar.behind(means.healed.as_bytes());
    grammars::take_fuel(&grammar, &means.cancel, &limits.grammar)?;
    if canonical {
        let dfa = grammar.regular(&limits.regex).map_err(|error| of_file(path, error))?;
        let constraint = CanonicalConstraint::from_dfa(&dfa, &tokens.canonical_index()?, &limits.regex);
        let captures = Captures::new(&grammar, tokens.vocabulary(), &limits.grammar);
        return canonical_of(constraint, captures.map_err(|error| of_file(path, error))?);
    }
    let limits = &limits.grammar;
    let trie = tokens.trie()?;
    let constraint = match means.library {
        Some(library) => GrammarConstraint::with_library(&grammar, library, limits),
        None => GrammarConstraint::new(&grammar, trie, limits),
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

/// Schemas that others refer to.
pub(crate) fn registry(source: Option<&RegistrySource>, cancel: &Cancel) -> Result<Registry> {
    let mut registry = Registry::new();
    // Each text is within a limit.
    let look = || if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) };
    match source {
        None => {}
        Some(RegistrySource::Schemas(schemas)) => {
            for (name, text) in schemas {
                look()?;
                registry.insert(name, text).map_err(|error| {
                    Error::combination(format!("`schema_registry`: {name}: {}", chain(&error)))
                })?;
            }
        }
        Some(RegistrySource::Folder(folder)) => {
            each_schema(folder, read::text, |path, name, text| {
                look()?;
                registry.insert(name, &text).map_err(|error| Error::file(path, error))
            })?;
        }
    }
    Ok(registry)
}

/// The texts of the schemas in a folder, by their names, each as `read` gives it.
pub(crate) fn registry_texts(
    folder: &Path,
    read: impl Fn(&Path) -> Result<String>,
) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    each_schema(folder, read, |_, name, text| {
        texts.insert(name.to_owned(), text);
        Ok(())
    })?;
    Ok(texts)
}

/// The schemas in the `.json` files of a folder and the folders in it: path, name and text. The name is the path from
/// `folder` on.
fn each_schema(
    folder: &Path,
    read: impl Fn(&Path) -> Result<String>,
    mut each: impl FnMut(&Path, &str, String) -> Result<()>,
) -> Result<()> {
    /// The most files and folders.
    const MAX_ENTRIES: usize = 100_000;
    let mut folders = vec![(folder.to_owned(), String::new())];
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
                each(&path, &name, read(&path)?)?;
            }
        }
    }
    Ok(())
}
