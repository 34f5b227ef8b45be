//! From the options of a constraint to its [`Spec`].

use std::path::Path;

use crate::{Spec, SpecError, SpecOptions, read};

use crate::command_line::{
    args::ConstraintArgs,
    error::{Failure, Result},
};

impl ConstraintArgs {
    /// The constraint that the options describe.
    pub(crate) fn spec(&self) -> Result<Spec> {
        let mut options = self.options();
        for text in &self.with {
            text.split(',')
                .filter(|part| !part.trim().is_empty())
                .try_for_each(|part| set(&mut options, part))?;
        }
        let mut spec = match &self.spec {
            None => Spec::try_from(options).map_err(crate::Error::from)?,
            Some(_) if options != SpecOptions::default() => {
                return Err(Failure::input(
                    "--spec FILE is the whole constraint; put its other options into the file",
                ));
            }
            Some(path) => from_file(path)?,
        };
        for text in &self.limit {
            let Some((name, value)) = text.split_once('=') else {
                return Err(Failure::input(format!(
                    "--limit {text}: give a name and a number, as in {EXAMPLE}"
                )));
            };
            let value = value.trim().parse().map_err(|_| {
                Failure::input(format!("--limit {text}: {value:?} is no whole number, as in {EXAMPLE}"))
            })?;
            spec.limits.set(name.trim(), value).map_err(|error| match error {
                SpecError::Value { value, why, .. } => Failure::input(format!("--limit {value}: {why}")),
                other => Failure::bad(&other),
            })?;
        }
        Ok(spec)
    }

    /// The options that are flags, in their flat form.
    fn options(&self) -> SpecOptions {
        let Self {
            regex,
            regex_file,
            grammar,
            json_schema,
            structural_tag,
            set,
            subset,
            exclude_set,
            choice,
            start,
            ..
        } = self;
        SpecOptions {
            regex: regex.clone(),
            regex_file: regex_file.clone(),
            choices: choice.clone(),
            grammar_file: grammar.clone(),
            start: start.clone(),
            json_schema_file: json_schema.clone(),
            structural_tag_file: structural_tag.clone(),
            set: set.clone(),
            subset: subset.clone(),
            exclude_set: exclude_set.clone(),
            canonical: self.canonical,
            end: self.end.clone(),
            ..SpecOptions::default()
        }
    }
}

/// The constraint in a file of `--spec`.
fn from_file(path: &Path) -> Result<Spec> {
    let text = read::text(path)?;
    Spec::from_json(&text).map_err(|error| Failure::file(path, error))
}

/// A limit as an example.
const EXAMPLE: &str = "`--limit grammar.positions=5000000`";

/// The options that `--with` takes.
const KNOWN: &str = "regex-dialect, whitespace, spelling, ascii, exponents, dialect, schema-registry, any-order, margin, max-ignored, subset, gpu";

/// Sets one option of `--with`.
fn set(options: &mut SpecOptions, part: &str) -> Result<()> {
    let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value.trim())));
    let name = name.trim().replace('_', "-");
    let switch = || match value {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(value) => Err(Failure::input(format!("--with {name} is a switch, and takes no {value:?}"))),
    };
    let text = || {
        value
            .map(str::to_owned)
            .ok_or_else(|| Failure::input(format!("--with {name} needs a value: {name}=...")))
    };
    let number = || {
        let text = text()?;
        text.parse().map_err(|_| Failure::input(format!("--with {name}: {text:?} is no whole number")))
    };
    match name.as_str() {
        "whitespace" => options.whitespace = Some(text()?),
        "regex-dialect" => options.regex_dialect = Some(text()?),
        "spelling" => options.spelling = Some(text()?),
        "ascii" => options.ascii = switch()?,
        "exponents" => options.exponents = Some(number()?),
        "dialect" => options.dialect = Some(text()?),
        "schema-registry" => options.schema_registry = Some(text()?.into()),
        "any-order" => options.any_order = switch()?,
        "margin" => options.margin = Some(number()?),
        "max-ignored" => options.max_ignored = Some(number()?),
        "subset" => options.subset = Some(text()?),
        "gpu" => options.gpu = switch()?,
        _ => {
            return Err(Failure::input(format!("--with has no option {name:?}; it has {KNOWN}")));
        }
    }
    Ok(())
}
