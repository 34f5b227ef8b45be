//! A [`Spec`] with the texts of its files in their place, by which a cache finds a constraint.

use std::{borrow::Cow, fmt::Write, fs, path::PathBuf, sync::Arc, time::UNIX_EPOCH};

use unskew_core::Cancel;
use unskew_notation::{GrammarFormat, imported_files};

use super::{GrammarSpec, Language, RegexSpec, RegistrySource, SchemaSpec, Source, Spec, TagSpec};
use crate::{
    Error, Result,
    compiler::{compile, grammars::Around},
};

/// The longest text that a constraint is kept by, in bytes. Schemas and tags that are longer are refused at once
/// ([`SchemaLimits::schema_bytes`](unskew_schema::SchemaLimits::schema_bytes)), in less time than a key of them
/// takes: no deadline waits for that.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// A spec that names no file but of items.
pub(crate) struct Resolved<'a> {
    spec: Cow<'a, Spec>,
    /// The file that the text is from.
    path: Option<PathBuf>,
    /// The identity of a text file of items; `None` where a file is not to be found again.
    items: Option<String>,
}

impl Spec {
    /// The same with the texts of files in their place.
    pub(crate) fn resolve(&self) -> Result<Resolved<'_>> {
        let mut spec = Cow::Borrowed(self);
        let mut path = None;
        let mut text = |source: &Source| -> Result<Option<Source>> {
            let (file, text) = match source {
                Source::Text(_) => return Ok(None),
                Source::File(_) => source.read()?,
            };
            path = file.map(ToOwned::to_owned);
            Ok(Some(Source::Text(text)))
        };
        match &self.language {
            Language::Regex(regex) => {
                if let Some(source) = text(&regex.source)? {
                    spec.to_mut().language = Language::Regex(RegexSpec { source, dialect: regex.dialect });
                }
            }
            Language::Grammar(grammar) => {
                let source = text(&grammar.source)?;
                if source.is_some() || !grammar.grammars.is_empty() {
                    let format = Some(grammar.language()?);
                    let mut grammars = grammar.grammars.clone();
                    for part in grammars.values_mut() {
                        resolve_part(part)?;
                    }
                    let mut imports = grammar.imports.clone();
                    if let (Some(Source::Text(text)), Some(GrammarFormat::Lark)) = (&source, format) {
                        let around = Around::new(None, self.limits.numbers(), Cancel::default());
                        let limits = around.grammars();
                        // A text that imports nothing, or has a fault, is compiled as it is.
                        if let Ok(files) = imported_files(text, &grammar.resolver(&around), limits) {
                            imports.extend(files);
                        }
                    }
                    let source = source.unwrap_or_else(|| grammar.source.clone());
                    spec.to_mut().language = Language::Grammar(GrammarSpec {
                        source,
                        format,
                        grammars,
                        imports,
                        ..grammar.clone()
                    });
                }
            }
            Language::AnyOf(parts) => {
                let parts = resolve_parts(parts)?;
                spec.to_mut().language = Language::AnyOf(parts);
            }
            Language::Sequence(parts) => {
                let parts = resolve_parts(parts)?;
                spec.to_mut().language = Language::Sequence(parts);
            }
            Language::JsonSchema(schema) => {
                let source = text(&schema.source)?;
                let registry = match &schema.registry {
                    Some(RegistrySource::Folder(folder)) => {
                        Some(RegistrySource::Schemas(compile::registry_texts(folder, crate::read::text)?))
                    }
                    _ => None,
                };
                if source.is_some() || registry.is_some() {
                    let old = schema.clone();
                    let (source, registry) = (source.unwrap_or(old.source), registry.or(old.registry));
                    spec.to_mut().language =
                        Language::JsonSchema(SchemaSpec { source, registry, ..schema.clone() });
                }
            }
            Language::StructuralTag(tag) => {
                if let Some(source) = text(&tag.source)? {
                    spec.to_mut().language = Language::StructuralTag(TagSpec { source, ..tag.clone() });
                }
            }
            Language::Set(set) if set.gpu => {
                return Err(Error::combination(
                    "`gpu` is for the samplers of this project, and not for a compiler; leave it out",
                ));
            }
            Language::Anything | Language::Choices(_) | Language::Set(_) | Language::ExcludeSet(_) => {}
        }
        let items = items_key(&spec)?;
        Ok(Resolved { spec, path, items })
    }
}

/// Puts the texts of files in their place in a part of a constraint. Items of a part are its text too.
fn resolve_part(part: &mut Spec) -> Result<()> {
    if let Language::Set(set) = &part.language
        && set.subset.is_none()
        && !set.gpu
    {
        let text = crate::read::text(&set.file)?;
        let items = text.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect();
        part.language = Language::Choices(items);
        return Ok(());
    }
    let resolved = part.resolve()?.spec.into_owned();
    *part = resolved;
    Ok(())
}

fn resolve_parts(parts: &[Spec]) -> Result<Vec<Spec>> {
    let mut parts = parts.to_vec();
    parts.iter_mut().try_for_each(resolve_part)?;
    Ok(parts)
}

/// The identity of a text file of items: `None` where it has none, and for a built set, which is opened in less time.
fn items_key(spec: &Spec) -> Result<Option<String>> {
    let path = match &spec.language {
        Language::Set(set) => &set.file,
        Language::ExcludeSet(path) => path,
        _ => return Ok(Some(String::new())),
    };
    // A pipe is read once, so it is not opened here.
    let Some(metadata) = fs::metadata(path).ok().filter(fs::Metadata::is_file) else { return Ok(None) };
    #[cfg(feature = "sets")]
    if crate::items::ItemFile::open(path)?.is_built() {
        return Ok(None);
    }
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(changed
        .zip(fs::canonicalize(path).ok())
        .map(|(changed, path)| format!("{} {} {}", metadata.len(), changed.as_nanos(), path.display())))
}

impl Resolved<'_> {
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether trees may help.
    pub(crate) fn has_grammar(&self) -> bool {
        matches!(
            &self.spec.language,
            Language::Grammar(_)
                | Language::JsonSchema(_)
                | Language::StructuralTag(_)
                | Language::AnyOf(_)
                | Language::Sequence(_)
        )
    }

    /// The key of the same constraint; `None` where it is not to be kept.
    pub(crate) fn key(&self) -> Option<String> {
        let items = self.items.as_ref()?;
        if self.text_bytes() > MAX_KEPT_BYTES {
            return None;
        }
        let mut key = self.spec.json()?;
        if !items.is_empty() {
            write!(key, "\n{items}").expect("a string takes all");
        }
        Some(key)
    }

    /// The length of the text.
    fn text_bytes(&self) -> usize {
        let source = match &self.spec.language {
            Language::Regex(regex) => &regex.source,
            Language::Grammar(grammar) => &grammar.source,
            Language::JsonSchema(schema) => &schema.source,
            Language::StructuralTag(tag) => &tag.source,
            Language::AnyOf(_) | Language::Sequence(_) => {
                return self.spec.json().map_or(usize::MAX, |json| json.len());
            }
            Language::Anything | Language::Choices(_) | Language::Set(_) | Language::ExcludeSet(_) => {
                return 0;
            }
        };
        match source {
            Source::Text(text) => text.len(),
            Source::File(_) => 0,
        }
    }

    /// The error with the name of the file that the text is from, if it is about the text.
    pub(crate) fn named(&self, error: Arc<Error>) -> Arc<Error> {
        match &self.path {
            Some(path) if matches!(*error, Error::Constraint(_)) => Arc::new(Error::file(path, error)),
            _ => error,
        }
    }
}
