//! From the options of a constraint to its [`Spec`].

use std::path::Path;

use serde_json::{Map, Value};

use crate::{
    Spec, SpecError, SpecOptions,
    method::{named_value, named_values},
    read,
    spec::OptionValue,
};

use crate::command_line::{
    args::ConstraintArgs,
    error::{Failure, Result},
    help,
};

impl ConstraintArgs {
    /// The constraint that the options describe.
    pub(crate) fn spec(&self) -> Result<Spec> {
        let options = self.options()?;
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
            set,
            subset,
            exclude_set,
            choice,
            start,
            ..
        } = self;
        Ok(SpecOptions {
            regex: regex.clone(),
            regex_file: regex_file.clone(),
            choices: choice.clone(),
            grammar_file: grammar.clone(),
            start: start.clone(),
            json_schema_file: json_schema.clone(),
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
