//! The rules of a server for the constraints of requests: the files that one may name, and its cost.
//!
//! A client is not trusted. A constraint with the text of a file in it writes that file, line by line, so a request
//! names no file, unless the server lends a folder. Limits are the server's, and a request may only lower them.
//!
//! The rules are applied to the parsed [`Spec`], part by part, and structs are taken apart without `..`. So a new
//! option does not compile before somebody has decided about it. Texts of lent files are read here, and nobody opens
//! them again. Of items, which may be millions, the path is handed on with its links followed.
//!
//! Tried instead: a list of the names of options, looked at before the text was parsed. Parts of `any_of`, `sequence`
//! and `grammars` passed it.

use std::{
    collections::BTreeMap,
    fs, mem,
    path::{Path, PathBuf},
};

use unskew_core::Cancel;
use unskew_notation::{GrammarFormat, Resolve, Resolver, imported_files};
#[cfg(feature = "sets")]
use unskew_sets::SetStore;

use super::{
    GrammarSpec, Language, Limit, RegexSpec, RegistrySource, SchemaSpec, SetSpec, Source, Spec, SpecError,
    SpecLimits, TagSpec,
};
use crate::{Error, Result, chain, compiler::compile::registry_texts, compiler::grammars::Around, read};

/// The rules of a server for the constraints of requests.
///
/// # Example
///
/// ```
/// use unskew_engine::{RequestRules, Spec};
///
/// let rules = RequestRules::default();
/// let error = Spec::of_request(r#"{"any_of": [{"set": "/etc/passwd"}]}"#, &rules).unwrap_err();
/// assert!(error.to_string().starts_with("`any_of[0].set` names a file"));
/// let error = Spec::of_request(r#"{"regex": "a", "limits": {"grammar.state_items": 1073741824}}"#, &rules).unwrap_err();
/// assert!(error.to_string().contains("`limits.grammar.state_items` is 1073741824, and this server allows at most "));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestRules {
    /// The folder that files of requests lie in; `None`: a request names no file.
    pub files: Option<PathBuf>,
    /// The limits that differ from their defaults. They hold for each request.
    pub limits: SpecLimits,
}

impl Spec {
    /// The constraint that the JSON text of a request describes, under the rules of a server.
    ///
    /// Texts of lent files are read, so this is not for a thread that must not wait.
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json), and [`SpecError::Request`] and [`SpecError::RequestLimit`] for what the rules
    /// do not allow.
    pub fn of_request(text: &str, rules: &RequestRules) -> Result<Self, SpecError> {
        if !text.trim_start().starts_with('{') {
            let why = r#"a constraint is an object, such as {"regex": "[a-z]+"}"#;
            return Err(SpecError::Json(why.to_owned()));
        }
        Self::from_json(text)?.under(rules)
    }

    /// The same constraint, if a request may ask for it, with the limits of the rules where it lowers none.
    ///
    /// # Errors
    ///
    /// [`SpecError::Request`] and [`SpecError::RequestLimit`].
    pub fn under(mut self, rules: &RequestRules) -> Result<Self, SpecError> {
        rules.check(&mut self, "")?;
        let own = mem::replace(&mut self.limits, rules.limits.clone());
        for (name, value) in own.iter() {
            self.limits.set(name, value)?;
        }
        Ok(self)
    }
}

/// The refusal of a file that is not there, and of one that is not lent.
const NOTHING: &str = "names nothing in the folder that this server lends";

fn refused(place: &str, why: impl Into<String>) -> SpecError {
    SpecError::Request { place: place.to_owned(), why: why.into() }
}

fn inside(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

impl RequestRules {
    /// Puts the texts of lent files in their place.
    fn check(&self, spec: &mut Spec, place: &str) -> Result<(), SpecError> {
        let Spec { language, canonical: _, end: _, limits } = spec;
        self.check_limits(limits, place)?;
        match language {
            Language::Anything | Language::Choices(_) => {}
            Language::Regex(RegexSpec { source, dialect: _ }) => {
                self.put_text(source, &inside(place, "regex_file"))?;
            }
            Language::Grammar(grammar) => self.check_grammar(grammar, place)?,
            // The tests of requests find every option with a path by its type.
            Language::JsonSchema(SchemaSpec { source, registry, .. }) => {
                self.put_text(source, &inside(place, "json_schema_file"))?;
                if let Some(RegistrySource::Folder(folder)) = registry {
                    let place = inside(place, "schema_registry");
                    *registry = Some(RegistrySource::Schemas(self.registry(folder, &place)?));
                }
            }
            Language::StructuralTag(TagSpec { source, whitespace: _, spelling: _ }) => {
                self.put_text(source, &inside(place, "structural_tag_file"))?;
            }
            Language::Set(SetSpec { file, subset: _, gpu }) => {
                if *gpu {
                    let why = "is for programs with a GPU of their own, and not for requests";
                    return Err(refused(&inside(place, "gpu"), why));
                }
                *file = self.items(file, &inside(place, "set"))?;
            }
            Language::ExcludeSet(file) => *file = self.items(file, &inside(place, "exclude_set"))?,
            Language::AnyOf(parts) => self.check_parts(parts, &inside(place, "any_of"))?,
            Language::Sequence(parts) => self.check_parts(parts, &inside(place, "sequence"))?,
        }
        Ok(())
    }

    fn check_parts(&self, parts: &mut [Spec], place: &str) -> Result<(), SpecError> {
        let mut parts = parts.iter_mut().enumerate();
        parts.try_for_each(|(at, part)| self.check(part, &format!("{place}[{at}]")))
    }

    fn check_grammar(&self, grammar: &mut GrammarSpec, place: &str) -> Result<(), SpecError> {
        let format = grammar.language();
        let GrammarSpec { source, format: own, max_ignored: _, start: _, grammars, imports } = grammar;
        for (name, part) in grammars {
            self.check(part, &inside(&inside(place, "grammars"), name))?;
        }
        let Source::File(path) = source else { return Ok(()) };
        let place = inside(place, "grammar_file");
        let path = self.file(path, &place)?;
        let format = format.map_err(|error| refused(&place, why(&error)))?;
        let text = read::text(&path).map_err(|error| refused(&place, why(&error)))?;
        // llguidance's list of grammars imports no file.
        if format == GrammarFormat::Lark && !text.trim_start().starts_with('{') {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            let resolver = Resolver::new(Imports { rules: self.clone(), folder, texts: mem::take(imports) });
            let around = Around::new(None, self.limits.numbers(), Cancel::default());
            *imports = imported_files(&text, &resolver, around.grammars())
                .map_err(|error| refused(&place, chain(&error)))?;
        }
        (*source, *own) = (Source::Text(text), Some(format));
        Ok(())
    }

    /// A file of items with its links followed. Changes of a built set lie beside it.
    fn items(&self, path: &Path, place: &str) -> Result<PathBuf, SpecError> {
        let path = self.file(path, place)?;
        if path.to_str().is_none() {
            // A constraint with such a path is no JSON.
            return Err(refused(place, NOTHING));
        }
        #[cfg(feature = "sets")]
        let changes = SetStore::new(&path).map(|store| store.changes().to_owned());
        #[cfg(feature = "sets")]
        if let Ok(changes) = changes
            && changes.symlink_metadata().is_ok()
        {
            self.file(&changes, place)?;
        }
        Ok(path)
    }

    fn registry(&self, folder: &Path, place: &str) -> Result<BTreeMap<String, String>, SpecError> {
        let folder = self.found(folder, place, fs::Metadata::is_dir)?;
        let texts = registry_texts(&folder, |path| read::text(&self.file(path, place)?));
        texts.map_err(|error| match error {
            Error::Spec(error) => error,
            error => refused(place, why(&error)),
        })
    }

    fn put_text(&self, source: &mut Source, place: &str) -> Result<(), SpecError> {
        if let Source::File(path) = source {
            let text = read::text(&self.file(path, place)?);
            *source = Source::Text(text.map_err(|error| refused(place, why(&error)))?);
        }
        Ok(())
    }

    fn file(&self, path: &Path, place: &str) -> Result<PathBuf, SpecError> {
        self.found(path, place, fs::Metadata::is_file)
    }

    /// A path in the lent folder with its links followed. A file elsewhere and a file that is not there have one error,
    /// so that a client learns nothing of other files.
    fn found(
        &self,
        path: &Path,
        place: &str,
        is_wanted: impl Fn(&fs::Metadata) -> bool,
    ) -> Result<PathBuf, SpecError> {
        let Some(folder) = &self.files else {
            return Err(refused(place, "names a file, and this server lends none to requests"));
        };
        let folder = fs::canonicalize(folder).map_err(|error| {
            refused(
                place,
                format!("names a file, and the folder that this server lends is not there: {error}"),
            )
        })?;
        // Files of these tell what processes hold, and are regular ones by their kind.
        let is_of_system = |path: &Path| ["/proc", "/sys"].iter().any(|of| path.starts_with(of));
        fs::canonicalize(folder.join(path))
            .ok()
            .filter(|found| found.starts_with(&folder) && !is_of_system(found))
            .filter(|found| fs::metadata(found).is_ok_and(|metadata| is_wanted(&metadata)))
            .ok_or_else(|| refused(place, NOTHING))
    }

    fn check_limits(&self, own: &SpecLimits, place: &str) -> Result<(), SpecError> {
        for (name, value) in own.iter() {
            let most = self.limits.get(name).or_else(|| {
                // One number sets all fields of a limit, so that none of them may be raised.
                Limit::named(name).and_then(|limit| limit.defaults().into_iter().min())
            });
            if let Some(most) = most.filter(|most| value > *most) {
                let place = inside(&inside(place, "limits"), name);
                return Err(SpecError::RequestLimit { place, value, most });
            }
        }
        Ok(())
    }
}

/// The reason without the path on the server.
fn why(error: &Error) -> String {
    match error {
        Error::File { path, source } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("names {name}: {}", chain(&**source))
        }
        error => chain(error),
    }
}

/// The files that a lent grammar imports.
#[derive(Debug)]
struct Imports {
    rules: RequestRules,
    folder: PathBuf,
    /// Those that stand in the constraint.
    texts: BTreeMap<String, String>,
}

impl Resolve for Imports {
    fn file(&self, path: &str) -> std::result::Result<String, String> {
        if let Some(text) = self.texts.get(path) {
            return Ok(text.clone());
        }
        let found = self.rules.file(&self.folder.join(path), path).map_err(|error| error.to_string())?;
        read::text(&found).map_err(|error| why(&error))
    }
}
