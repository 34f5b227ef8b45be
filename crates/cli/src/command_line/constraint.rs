//! From the options of a constraint to its [`Spec`].

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{
    Language, Spec, SpecError, SpecOptions,
    method::{named_value, named_values},
    read,
    spec::{OptionValue, Source},
};

use crate::command_line::{
    args::ConstraintArgs,
    error::{Failure, Result},
    help,
};

/// The value of an option that is a file, or the text that could stand in it.
#[derive(PartialEq, Eq, Debug)]
enum Given {
    File(PathBuf),
    Text(String),
}

impl Given {
    /// A file is `@FILE` or a path; what `is_text` is the text itself.
    fn new(value: &OsStr, is_text: impl Fn(&str) -> bool) -> Self {
        // A path that is no UTF-8 is no text.
        match value.to_str() {
            Some(value) => match value.strip_prefix('@') {
                Some(file) => Self::File(file.into()),
                None if is_text(value) => Self::Text(value.to_owned()),
                None => Self::File(value.into()),
            },
            None => Self::File(value.into()),
        }
    }

    /// A schema that says something is an object.
    fn schema(value: &OsStr) -> Self {
        Self::new(value, |value| value.trim_start().starts_with('{'))
    }

    /// The rule of a grammar has one of these between its name and its text, and a path has none of them.
    fn grammar(value: &OsStr) -> Self {
        Self::new(value, |value| ["::=", ": ", "\n"].iter().any(|sign| value.contains(sign)))
    }

    fn split(self) -> (Option<String>, Option<PathBuf>) {
        match self {
            Self::File(path) => (None, Some(path)),
            Self::Text(text) => (Some(text), None),
        }
    }
}

impl ConstraintArgs {
    /// The constraint that the options describe.
    pub(crate) fn spec(&self) -> Result<Spec> {
        self.spec_of(self.options()?)
    }

    /// The constraint to the arguments of a tool, with the options that are given.
    pub(crate) fn spec_of_arguments(&self, arguments: Spec) -> Result<Spec> {
        self.spec_of(SpecOptions { json_schema: SpecOptions::from(arguments).json_schema, ..self.options()? })
    }

    fn spec_of(&self, options: SpecOptions) -> Result<Spec> {
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
            let (name, value) = named_value(text);
            let Some(value) = value else {
                return Err(Failure::input(format!(
                    "--limit {text}: give a name and a number, as in {EXAMPLE}"
                )));
            };
            let value = value.parse().map_err(|_| {
                Failure::input(format!("--limit {text}: {value:?} is no whole number, as in {EXAMPLE}"))
            })?;
            spec.limits.set(name, value).map_err(|error| match error {
                SpecError::Value { value, why, .. } => Failure::input(format!("--limit {value}: {why}")),
                other => Failure::bad(&other),
            })?;
        }
        Ok(spec)
    }

    /// The options in their flat form: those of `--with`, and the flags.
    fn options(&self) -> Result<SpecOptions> {
        let mut with = Map::new();
        self.with.iter().flat_map(|text| named_values(text)).try_for_each(|pair| set(&mut with, pair))?;
        let with: SpecOptions = serde_json::from_value(Value::Object(with)).map_err(Failure::input)?;
        let Self {
            regex,
            regex_file,
            grammar,
            json_schema,
            structural_tag,
            tools,
            set,
            subset,
            exclude_set,
            choice,
            start,
            ..
        } = self;
        let (grammar, grammar_file) =
            grammar.as_deref().map(Given::grammar).map_or((None, None), Given::split);
        let format = grammar.as_ref().map(|text| if text.contains("::=") { "gbnf" } else { "lark" });
        let (schema, schema_file) =
            json_schema.as_deref().map(Given::schema).map_or((None, None), Given::split);
        // A schema, or a structural tag.
        let called = tools.spec()?.map(SpecOptions::from).unwrap_or_default();
        Ok(SpecOptions {
            regex: regex.clone(),
            regex_file: regex_file.clone(),
            choices: choice.clone(),
            grammar,
            grammar_format: format.map(str::to_owned),
            grammar_file,
            start: start.clone(),
            json_schema: schema.or(called.json_schema),
            json_schema_file: schema_file,
            structural_tag: called.structural_tag,
            structural_tag_file: structural_tag.clone(),
            set: set.clone(),
            subset: with.subset.or_else(|| subset.clone()),
            exclude_set: exclude_set.clone(),
            canonical: self.canonical,
            end: self.end.clone(),
            ..with
        })
    }
}

impl ConstraintArgs {
    /// The files that describe the constraint and are no part of its [`Spec`].
    pub(crate) fn described(&self) -> impl Iterator<Item = &Path> {
        self.spec.iter().chain(&self.tools.tools).map(PathBuf::as_path)
    }

    /// The text of the constraint where it stands in no file of its own, and the option that has it.
    pub(crate) fn text(&self) -> Option<(&'static str, String)> {
        let (flag, source) = match self.spec().ok()?.language {
            Language::Regex(spec) => ("--regex", spec.source),
            Language::Grammar(spec) => ("--grammar", spec.source),
            Language::JsonSchema(spec) => ("--json-schema", spec.source),
            Language::StructuralTag(spec) => ("--structural-tag", spec.source),
            _ => return None,
        };
        let flag = match (&self.spec, &self.tools.tools) {
            (Some(_), _) => "--spec",
            (None, Some(_)) => "--tools",
            (None, None) => flag,
        };
        match source {
            Source::Text(text) => Some((flag, text)),
            Source::File(_) => None,
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

/// Sets one option of `--with`, in the JSON form of [`SpecOptions`].
fn set(options: &mut Map<String, Value>, (name, value): (&str, Option<&str>)) -> Result<()> {
    let dashed = name.replace('_', "-");
    let Some(option) = help::with_options().find(|option| option.name == name.replace('-', "_")) else {
        let known: Vec<String> = help::with_options().map(|option| option.name.replace('_', "-")).collect();
        let known = known.join(", ");
        return Err(Failure::input(format!("--with has no option {dashed:?}; it has {known}")));
    };
    let value: Value = match (&option.value, value) {
        (OptionValue::Switch(_), None | Some("true")) => true.into(),
        (OptionValue::Switch(_), Some("false")) => false.into(),
        (OptionValue::Switch(_), Some(value)) => {
            return Err(Failure::input(format!("--with {dashed} is a switch, and takes no {value:?}")));
        }
        (_, None) => return Err(Failure::input(format!("--with {dashed} needs a value: {dashed}=..."))),
        (OptionValue::Number(..), Some(value)) => value
            .parse::<u32>()
            .map_err(|_| Failure::input(format!("--with {dashed}: {value:?} is no whole number")))?
            .into(),
        (_, Some(value)) => value.into(),
    };
    options.insert(option.name.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_files_are_told_apart() {
        let file = |path: &str| Given::File(path.into());
        let text = |text: &str| Given::Text(text.to_owned());
        for (given, schema) in [
            ("a.json", file("a.json")),
            ("@{a}.json", file("{a}.json")),
            (" {\"type\": \"null\"}", text(" {\"type\": \"null\"}")),
            ("./{a}.json", file("./{a}.json")),
        ] {
            assert_eq!(Given::schema(given.as_ref()), schema);
        }
        for (given, grammar) in [
            ("a.lark", file("a.lark")),
            ("@a: b.lark", file("a: b.lark")),
            ("C:\\a.lark", file("C:\\a.lark")),
            ("root ::= \"a\"", text("root ::= \"a\"")),
            ("start: \"a\"", text("start: \"a\"")),
        ] {
            assert_eq!(Given::grammar(given.as_ref()), grammar);
        }
    }
}
