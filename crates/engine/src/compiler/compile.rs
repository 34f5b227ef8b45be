//! From a [`Spec`] and the tokens of a model to a constraint.

use std::{collections::BTreeMap, ffi::OsStr, path::Path, sync::Arc};

use unskew_automata::{AnyRegex, CanonicalConstraint, Pattern, RegexConstraint, dfa::DfaAlgebra, regex};
use unskew_core::{Cancel, Constraint, Unconstrained};
use unskew_grammar::Grammar;
use unskew_grammars::{CanonicalGrammar, Captures, GrammarConstraint, TreeLibrary};
use unskew_schema::Registry;
#[cfg(feature = "sets")]
use unskew_sets::ExclusionConstraint;

use crate::{
    BoxError, Compiler, Error, Progress, Result, Spec, TokenSpace, Until, chain,
    compiler::grammars::{self, Around},
    pool::{Growth, Measured, Pool},
    read,
    spec::{Language, Numbers, RegistrySource, Resolved, Source},
};

/// Any text.
const ANYTHING: &str = "(?s:.*)";

/// The parameters of one call.
pub(crate) struct Work<'a> {
    pub(crate) resolved: &'a Resolved<'a>,
    /// The text that outputs begin with.
    pub(crate) healed: &'a str,
    pub(crate) until: &'a Until,
    #[cfg_attr(not(feature = "sets"), allow(dead_code, reason = "files of items are what takes long"))]
    pub(crate) progress: &'a dyn Progress,
}

/// A spec that is compiled.
struct Making<'a> {
    work: &'a Work<'a>,
    spec: &'a Spec,
    tokens: &'a TokenSpace,
    /// Trees that grammars share.
    library: Option<&'a Arc<TreeLibrary>>,
    limits: Numbers,
    cancel: &'a Cancel,
    growth: &'a Growth,
}

impl Compiler {
    /// The constraint of a spec that has its texts in it ([`Spec::resolve`]).
    pub(super) fn compiled(&self, work: &Work<'_>, cancel: &Cancel) -> Result<Arc<Pool>> {
        let &Work { resolved, healed, .. } = work;
        let library = if resolved.has_grammar() { self.library()? } else { None };
        let (spec, tokens) = (resolved.spec(), &*self.tokens);
        let mut limits = spec.limits.numbers();
        // Those on the memory that stays are the compiler's own.
        if let Some(bytes) = self.kept.options.constraint_bytes {
            (limits.regex.mask_cache_bytes, limits.regex.lazy_bytes) = (bytes, bytes);
            limits.grammar.scratch_bytes = bytes;
        }
        limits.regex.cancel = cancel.clone();
        limits.grammar.regex.cancel = cancel.clone();
        let (library, growth) = (library.as_ref(), &self.kept.growth);
        let making = Making { work, spec, tokens, library, limits, cancel, growth };
        let canonical = spec.canonical;
        match &spec.language {
            Language::Anything if !canonical && healed.is_empty() => {
                Ok(making.pool(Arc::new(Unconstrained::new(tokens.vocabulary())), None))
            }
            Language::Anything => making.regex(ANYTHING.into()),
            Language::Regex(regex) => {
                let (_, pattern) = regex.source.read()?;
                making.regex(regex.dialect.pattern(&pattern))
            }
            Language::Choices(choices) => {
                let choices: Vec<String> = choices.iter().map(|choice| format!("{healed}{choice}")).collect();
                making.choices(&choices)
            }
            Language::Grammar(_)
            | Language::JsonSchema(_)
            | Language::StructuralTag(_)
            | Language::AnyOf(_)
            | Language::Sequence(_) => {
                let around = Around::new(Some(tokens.vocabulary()), making.limits.clone(), cancel.clone());
                let (_, grammar) = grammars::of_language(&spec.language, &around)?;
                making.grammar(&grammar)
            }
            #[cfg(feature = "sets")]
            Language::Set(set) => {
                let made =
                    crate::items::set_constraint(set, canonical, tokens, healed, work.progress, cancel)?;
                Ok(making.pool(Arc::new(made), None))
            }
            #[cfg(feature = "sets")]
            Language::ExcludeSet(path) => {
                let made = crate::items::exclusion(path, tokens, healed)?;
                if canonical { making.all_but(&made) } else { Ok(making.pool(Arc::new(made), None)) }
            }
            #[cfg(not(feature = "sets"))]
            Language::Set(_) | Language::ExcludeSet(_) => Err(Error::combination(
                "`set` and `exclude_set` need the feature `sets`, and this program was built without it; give `choices`",
            )),
        }
    }
}

impl Making<'_> {
    /// The constraint with its scratches, and with the reader of captures of the grammar that it is, or satisfies.
    fn pool<C: Constraint + Measured>(
        &self,
        constraint: Arc<C>,
        captures: Option<Arc<Captures>>,
    ) -> Arc<Pool> {
        Arc::new(Pool::new(constraint, captures, self.spec.notes(), Arc::clone(self.growth)))
    }

    fn regex(&self, pattern: Pattern<'_>) -> Result<Arc<Pool>> {
        let (tokens, limits, healed) = (self.tokens, &self.limits.regex, self.work.healed);
        if !healed.is_empty() {
            // `^` is the beginning of the pattern's text, behind the healed one.
            let mut dfas = DfaAlgebra::new(limits);
            let parts = [dfas.literals([healed]), dfas.pattern(pattern)];
            let [healed, text] = parts.map(|part| part.map_err(Error::constraint));
            let whole = dfas.concatenation([&healed?, &text?]).map_err(Error::constraint)?;
            if self.spec.canonical {
                let made = CanonicalConstraint::from_dfa(&whole, &tokens.canonical_index()?, limits);
                return self.canonical(made);
            }
            let made = RegexConstraint::from_dfa(Arc::new(whole), tokens.trie()?, limits);
            return Ok(self.pool(Arc::new(made.map_err(Error::constraint)?), None));
        }
        if self.spec.canonical {
            let made = CanonicalConstraint::new(pattern, &tokens.canonical_index()?, limits);
            return self.canonical(made);
        }
        Ok(match regex(pattern, tokens.trie()?, limits).map_err(Error::constraint)? {
            AnyRegex::Dfa(constraint) => self.pool(constraint, None),
            AnyRegex::Lazy(constraint) => self.pool(constraint, None),
        })
    }

    /// The tokenizer's own sequences of the texts that are no item of `exclusion`. The items become an automaton, so
    /// that the limits of a regex hold for them.
    #[cfg(feature = "sets")]
    fn all_but(&self, exclusion: &ExclusionConstraint) -> Result<Arc<Pool>> {
        let mut dfas = DfaAlgebra::new(&self.limits.regex);
        let any = dfas.pattern(ANYTHING).map_err(Error::constraint)?;
        let items: Vec<_> = exclusion.texts().collect();
        let texts = if items.is_empty() {
            any
        } else {
            let items = dfas.literals(items).map_err(Error::constraint)?;
            dfas.difference(&any, &items).map_err(Error::constraint)?
        };
        let (index, limits) = (self.tokens.canonical_index()?, &self.limits.regex);
        self.canonical(CanonicalConstraint::from_dfa(&texts, &index, limits))
    }

    fn choices(&self, choices: &[String]) -> Result<Arc<Pool>> {
        let limits = &self.limits.regex;
        if self.spec.canonical {
            let made = CanonicalConstraint::from_choices(choices, &self.tokens.canonical_index()?, limits);
            return self.canonical(made);
        }
        let made = RegexConstraint::from_choices(choices, self.tokens.trie()?, limits);
        Ok(self.pool(Arc::new(made.map_err(Error::constraint)?), None))
    }

    fn grammar(&self, grammar: &Grammar) -> Result<Arc<Pool>> {
        let (tokens, limits) = (self.tokens, &self.limits);
        let grammar = grammar.behind(self.work.healed.as_bytes());
        grammars::take_fuel(&grammar, self.cancel, &limits.grammar)?;
        let made = match self.library {
            Some(library) => GrammarConstraint::with_library(&grammar, library, &limits.grammar),
            None => GrammarConstraint::new(&grammar, tokens.trie()?, &limits.grammar),
        };
        let made = made.map_err(Error::constraint)?;
        let captures = made.capture_reader().cloned();
        if self.spec.canonical {
            let made = CanonicalGrammar::new(made, &tokens.canonical_index()?, &limits.regex);
            return Ok(self.pool(Arc::new(made.map_err(Error::constraint)?), captures));
        }
        Ok(self.pool(Arc::new(made), captures))
    }

    fn canonical(
        &self,
        made: std::result::Result<CanonicalConstraint, impl Into<BoxError>>,
    ) -> Result<Arc<Pool>> {
        Ok(self.pool(Arc::new(made.map_err(Error::constraint)?), None))
    }
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
    for path in read::files(folder, &["json"])? {
        let parts = path.strip_prefix(folder).unwrap_or(&path).iter().map(OsStr::to_string_lossy);
        each(&path, &parts.collect::<Vec<_>>().join("/"), read(&path)?)?;
    }
    Ok(())
}
