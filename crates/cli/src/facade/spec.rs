//! What an output must be: one value for every kind of constraint, with its options, and its JSON form.
//!
//! A [`Spec`] is data. It names files and does not read them, and it knows neither a model nor a command line. So programs can
//! build it, keep it, compare it and send it. [`TokenSpace::constraint`](super::TokenSpace::constraint) compiles it for the tokens of
//! one model.
//!
//! Options belong to the kind that reads them: white space exists only for a JSON Schema. The flat form, [`SpecOptions`], is what
//! people write, in JSON or as options of a command. Turning it into a `Spec` is the one place where an option without its kind is
//! refused.
//!
//! Tried instead: the flat form everywhere. Each place that read it listed all options by name, and a new option had to be added to
//! six lists.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use unskew_grammars::GrammarFormat;
use unskew_schema::Whitespace;

/// The largest [`GrammarSpec::max_ignored`]: each is a copy of the automaton of ignored text.
pub const MAX_IGNORED: u32 = 10_000;

/// The largest [`SchemaSpec::exponents`]: compiling takes hours beyond.
pub const MAX_EXPONENT: u32 = 100;

/// A constraint on outputs, as data.
///
/// # Example
///
/// ```
/// use unskew::Spec;
///
/// let spec = Spec::regex("[0-9]{4}").canonical();
/// assert_eq!(spec.to_json(), r#"{"regex":"[0-9]{4}","canonical":true}"#);
/// assert_eq!(Spec::from_json(&spec.to_json())?, spec);
///
/// let wrong = Spec::from_json(r#"{"regex": "a", "ascii": true}"#).unwrap_err();
/// assert!(wrong.to_string().contains("`ascii` is for the strings of a `json_schema`"));
/// # Ok::<(), unskew::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "SpecOptions", into = "SpecOptions")]
pub struct Spec {
    /// Which texts are outputs.
    pub language: Language,
    /// Whether only the token sequences count that the tokenizer itself writes for their text.
    pub canonical: bool,
}

/// Which texts are outputs.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Language {
    /// All.
    #[default]
    Anything,
    /// Those that a regular expression matches as a whole (syntax of the `regex` crate).
    Regex(Source),
    /// Those of a list.
    Choices(Vec<String>),
    /// The words of a context-free grammar.
    Grammar(GrammarSpec),
    /// JSON that satisfies a JSON Schema.
    JsonSchema(SchemaSpec),
    /// The items of a set.
    Set(SetSpec),
    /// All but the items of a set, however tokens divide them. A built set, or a text file with one item a line.
    ExcludeSet(PathBuf),
}

/// A text that stands here, or in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The text itself.
    Text(String),
    /// A file, in UTF-8. A line break at its end is not part of the text.
    File(PathBuf),
}

/// A grammar and how it is read.
#[derive(Clone, PartialEq, Debug)]
pub struct GrammarSpec {
    /// The text.
    pub source: Source,
    /// The language of the text. `None`: the one that the ending of the file's name says.
    pub format: Option<GrammarFormat>,
    /// Lark: the most characters that `%ignore` takes in one place; `None`: any number.
    pub max_ignored: Option<u32>,
    /// Whether outputs are cut into terminals as the scanner of a compiler does, each as long as possible.
    pub maximal_munch: bool,
}

/// A JSON Schema and how its values are written.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaSpec {
    /// The text.
    pub source: Source,
    /// The white space between parts; `None`: [`Whitespace::default`].
    pub whitespace: Option<Whitespace>,
    /// Whether strings are of ASCII alone, with other characters as escapes.
    pub ascii: bool,
    /// The largest exponent of numbers under a condition; `None`: no exponents there.
    pub exponents: Option<u32>,
    /// A folder of schemas that `$ref` may lead to.
    pub registry: Option<PathBuf>,
    /// Whether the members of an object come in any order.
    pub any_order: bool,
}

/// A set of items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetSpec {
    /// A built set, or a text file with one item a line.
    pub file: PathBuf,
    /// The name of a subset of a built set.
    pub subset: Option<String>,
    /// Whether masks are made on a GPU, where there is one.
    pub gpu: bool,
}

/// Options that make no [`Spec`]. Names of options stand between backticks, as in JSON.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// An option of a kind of constraint that is not asked for.
    #[error("{about}; give one, or leave it out")]
    Stray {
        /// What the option is for.
        about: &'static str,
    },
    /// Two kinds of constraint.
    #[error("`{first}` and `{second}` are two constraints; give one of them")]
    Two {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// An option with a value that it does not take.
    #[error("`{option}` = {value:?}: {why}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it takes.
        why: String,
    },
    /// Text that is not the JSON of a `Spec`.
    #[error("not a constraint in JSON: {0}")]
    Json(String),
}

impl Spec {
    /// The outputs of a language, in every spelling.
    pub fn new(language: Language) -> Self {
        Self { language, canonical: false }
    }

    /// The whole output matches `pattern` (syntax of the `regex` crate, no look-around).
    pub fn regex(pattern: impl Into<String>) -> Self {
        Self::new(Language::Regex(Source::Text(pattern.into())))
    }

    /// The output is one of these texts.
    pub fn choices<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        Self::new(Language::Choices(choices.into_iter().map(Into::into).collect()))
    }

    /// The output is a word of the grammar that `text` describes.
    pub fn grammar(text: impl Into<String>, format: GrammarFormat) -> Self {
        let source = Source::Text(text.into());
        let (max_ignored, maximal_munch) = (None, false);
        Self::new(Language::Grammar(GrammarSpec { source, format: Some(format), max_ignored, maximal_munch }))
    }

    /// The output is a word of the grammar in a file that ends in `.lark`, `.gbnf` or `.ebnf`.
    pub fn grammar_file(path: impl Into<PathBuf>) -> Self {
        let source = Source::File(path.into());
        let (max_ignored, maximal_munch) = (None, false);
        Self::new(Language::Grammar(GrammarSpec { source, format: None, max_ignored, maximal_munch }))
    }

    /// The output is JSON that satisfies the JSON Schema `text`.
    pub fn json_schema(text: impl Into<String>) -> Self {
        Self::new(Language::JsonSchema(SchemaSpec::new(Source::Text(text.into()))))
    }

    /// The output is JSON that satisfies the JSON Schema in a file.
    pub fn json_schema_file(path: impl Into<PathBuf>) -> Self {
        Self::new(Language::JsonSchema(SchemaSpec::new(Source::File(path.into()))))
    }

    /// The output is an item of the set in a file: a built set, or a text file with one item a line.
    pub fn set(path: impl Into<PathBuf>) -> Self {
        Self::new(Language::Set(SetSpec { file: path.into(), subset: None, gpu: false }))
    }

    /// The output is any text but an item of the set in a file.
    pub fn exclude_set(path: impl Into<PathBuf>) -> Self {
        Self::new(Language::ExcludeSet(path.into()))
    }

    /// The same, in the tokenizer's own spelling alone.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        self.canonical = true;
        self
    }

    /// Whether every sequence of text tokens is allowed.
    pub fn is_unconstrained(&self) -> bool {
        !self.canonical && self.language == Language::Anything
    }

    /// The constraint that JSON text describes: an object with the fields of [`SpecOptions`].
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the text is something else, or its options do not belong together.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        let options: SpecOptions =
            serde_json::from_str(text).map_err(|error| SpecError::Json(error.to_string()))?;
        options.try_into()
    }

    /// The constraint as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and switches are JSON")
    }
}

/// The role of a file that a [`Spec`] names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileRole {
    /// The text of a regex, a grammar or a schema.
    Text,
    /// Items: a text, or a built set with the changes beside it.
    Items,
    /// A folder of schemas.
    Registry,
}

impl Spec {
    /// The same with `map` of each file in its place.
    #[must_use]
    pub fn map_files(mut self, mut map: impl FnMut(FileRole, PathBuf) -> PathBuf) -> Self {
        let mut text = |source: Source| match source {
            Source::Text(text) => Source::Text(text),
            Source::File(path) => Source::File(map(FileRole::Text, path)),
        };
        self.language = match self.language {
            Language::Regex(source) => Language::Regex(text(source)),
            Language::Grammar(spec) => Language::Grammar(GrammarSpec { source: text(spec.source), ..spec }),
            Language::JsonSchema(spec) => {
                let source = text(spec.source);
                let registry = spec.registry.map(|folder| map(FileRole::Registry, folder));
                Language::JsonSchema(SchemaSpec { source, registry, ..spec })
            }
            Language::Set(spec) => Language::Set(SetSpec { file: map(FileRole::Items, spec.file), ..spec }),
            Language::ExcludeSet(path) => Language::ExcludeSet(map(FileRole::Items, path)),
            other @ (Language::Anything | Language::Choices(_)) => other,
        };
        self
    }
}

impl SchemaSpec {
    /// The schema with no options.
    pub fn new(source: Source) -> Self {
        let (whitespace, ascii, exponents, registry, any_order) = (None, false, None, None, false);
        Self { source, whitespace, ascii, exponents, registry, any_order }
    }
}

/// In a few words, for people.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.language {
            Language::Anything if self.canonical => f.write_str("any text")?,
            Language::Anything => f.write_str("no constraint")?,
            Language::Regex(Source::Text(pattern)) => write!(f, "regex {pattern}")?,
            Language::Regex(Source::File(path)) => write!(f, "regex of {}", path.display())?,
            Language::Choices(choices) => write!(f, "{} choices", choices.len())?,
            Language::Grammar(GrammarSpec { source, maximal_munch, .. }) => {
                write!(f, "grammar{source}")?;
                if *maximal_munch {
                    f.write_str(", its terminals as long as possible")?;
                }
            }
            Language::JsonSchema(schema) => write!(f, "JSON Schema{}", schema.source)?,
            Language::Set(SetSpec { file, subset: Some(name), .. }) => {
                write!(f, "subset {name} of {}", file.display())?;
            }
            Language::Set(set) => write!(f, "set of {}", set.file.display())?,
            Language::ExcludeSet(path) => write!(f, "anything but {}", path.display())?,
        }
        if self.canonical { f.write_str(", as the tokenizer writes it") } else { Ok(()) }
    }
}

/// Where a text is from, behind the name of its kind.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => Ok(()),
            Self::File(path) => write!(f, " of {}", path.display()),
        }
    }
}

/// A [`Spec`] as people write it: one flat list of options, most of them absent. This is its JSON form.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are those of the kinds of a `Spec`, which describe them")]
pub struct SpecOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The text of a grammar, with `grammar_format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<String>,
    /// `lark`, `gbnf` or `ebnf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ignored: Option<u32>,
    #[serde(skip_serializing_if = "is_off")]
    pub maximal_munch: bool,
    /// The schema itself, as JSON and not as text.
    #[serde(skip_serializing_if = "Option::is_none", with = "schema_value")]
    pub json_schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema_file: Option<PathBuf>,
    /// `compact`, `bounded:N`, `flexible` or `indent:N`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitespace: Option<String>,
    #[serde(skip_serializing_if = "is_off")]
    pub ascii: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponents: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<PathBuf>,
    #[serde(skip_serializing_if = "is_off")]
    pub any_order: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    #[serde(skip_serializing_if = "is_off")]
    pub gpu: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_set: Option<PathBuf>,
    #[serde(skip_serializing_if = "is_off")]
    pub canonical: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_off(switch: &bool) -> bool {
    !switch
}

/// A schema in JSON is a part of the object around it. A text that is no JSON stays a string, so that nothing is lost.
mod schema_value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(text) = text else { return serializer.serialize_none() };
        // Line breaks of JSON stand between its values alone, so that a space is the same.
        match RawValue::from_string(text.replace(['\n', '\r'], " ")) {
            Ok(value) if !text.trim_start().starts_with('"') => value.serialize(serializer),
            _ => text.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        // A string holds the text of a schema.
        Ok(Some(serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())))
    }
}

impl SpecOptions {
    /// The options that say nothing without a kind: whether each is given, whether its kind is, and what it is for.
    fn stray(&self) -> Option<&'static str> {
        let (set, grammar) = (self.set.is_some(), self.grammar.is_some() || self.grammar_file.is_some());
        let schema = self.json_schema.is_some() || self.json_schema_file.is_some();
        let options = [
            (self.gpu, set, "`gpu` makes the masks of a `set`"),
            (self.subset.is_some(), set, "`subset` is a part of a `set`"),
            (self.max_ignored.is_some(), grammar, "`max_ignored` bounds %ignore of a `grammar`"),
            (self.maximal_munch, grammar, "`maximal_munch` cuts outputs into the terminals of a `grammar`"),
            (
                self.grammar_format.is_some(),
                self.grammar.is_some(),
                "`grammar_format` is that of the text of a `grammar`",
            ),
            (self.whitespace.is_some(), schema, "`whitespace` is that of a `json_schema`"),
            (self.ascii, schema, "`ascii` is for the strings of a `json_schema`"),
            (self.exponents.is_some(), schema, "`exponents` is for the numbers of a `json_schema`"),
            (
                self.schema_registry.is_some(),
                schema,
                "`schema_registry` is for the references of a `json_schema`",
            ),
            (self.any_order, schema, "`any_order` is for the members of a `json_schema`"),
        ];
        options.into_iter().find(|(is_given, has_kind, _)| *is_given && !has_kind).map(|(.., about)| about)
    }

    /// The names of the kinds that are asked for.
    fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let kinds = [
            (self.regex.is_some(), "regex"),
            (self.regex_file.is_some(), "regex_file"),
            (!self.choices.is_empty(), "choices"),
            (self.grammar.is_some(), "grammar"),
            (self.grammar_file.is_some(), "grammar_file"),
            (self.json_schema.is_some(), "json_schema"),
            (self.json_schema_file.is_some(), "json_schema_file"),
            (self.set.is_some(), "set"),
            (self.exclude_set.is_some(), "exclude_set"),
        ];
        kinds.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// Reads a value by its own parser.
fn parsed<T: std::str::FromStr<Err: fmt::Display>>(
    option: &'static str,
    value: Option<&str>,
) -> Result<Option<T>, SpecError> {
    let parse = |value: &str| {
        let wrong =
            |error: T::Err| SpecError::Value { option, value: value.to_owned(), why: error.to_string() };
        value.parse().map_err(wrong)
    };
    value.map(parse).transpose()
}

impl TryFrom<SpecOptions> for Spec {
    type Error = SpecError;

    fn try_from(options: SpecOptions) -> Result<Self, SpecError> {
        if let Some(about) = options.stray() {
            return Err(SpecError::Stray { about });
        }
        for (option, value, most) in [
            ("max_ignored", options.max_ignored, MAX_IGNORED),
            ("exponents", options.exponents, MAX_EXPONENT),
        ] {
            if let Some(value) = value.filter(|value| *value > most) {
                let why = format!("give a whole number up to {most}");
                return Err(SpecError::Value { option, value: value.to_string(), why });
            }
        }
        let mut kinds = options.kinds();
        if let (Some(first), Some(second)) = (kinds.next(), kinds.next()) {
            return Err(SpecError::Two { first, second });
        }
        drop(kinds);
        let format = match options.grammar_format.as_deref() {
            Some(name) => Some(GrammarFormat::from_extension(name).ok_or_else(|| SpecError::Value {
                option: "grammar_format",
                value: name.to_owned(),
                why: "it is `lark`, `gbnf` or `ebnf`".to_owned(),
            })?),
            None if options.grammar.is_some() => {
                let why = "the text of a grammar needs its language: `lark`, `gbnf` or `ebnf`".to_owned();
                return Err(SpecError::Value { option: "grammar_format", value: String::new(), why });
            }
            None => None,
        };
        let whitespace = parsed("whitespace", options.whitespace.as_deref())?;
        let text = |text: Option<String>, file: Option<PathBuf>| {
            text.map(Source::Text).or_else(|| file.map(Source::File))
        };
        let language = if let Some(source) = text(options.regex, options.regex_file) {
            Language::Regex(source)
        } else if let Some(source) = text(options.grammar, options.grammar_file) {
            let SpecOptions { max_ignored, maximal_munch, .. } = options;
            Language::Grammar(GrammarSpec { source, format, max_ignored, maximal_munch })
        } else if let Some(source) = text(options.json_schema, options.json_schema_file) {
            let SpecOptions { ascii, exponents, schema_registry: registry, any_order, .. } = options;
            Language::JsonSchema(SchemaSpec { source, whitespace, ascii, exponents, registry, any_order })
        } else if let Some(file) = options.set {
            Language::Set(SetSpec { file, subset: options.subset, gpu: options.gpu })
        } else if let Some(file) = options.exclude_set {
            Language::ExcludeSet(file)
        } else if !options.choices.is_empty() {
            Language::Choices(options.choices)
        } else {
            Language::Anything
        };
        Ok(Self { language, canonical: options.canonical })
    }
}

impl From<Spec> for SpecOptions {
    fn from(spec: Spec) -> Self {
        let options = Self { canonical: spec.canonical, ..Self::default() };
        let apart = |source| match source {
            Source::Text(text) => (Some(text), None),
            Source::File(path) => (None, Some(path)),
        };
        match spec.language {
            Language::Anything => options,
            Language::Regex(source) => {
                let (regex, regex_file) = apart(source);
                Self { regex, regex_file, ..options }
            }
            Language::Choices(choices) => Self { choices, ..options },
            Language::Grammar(GrammarSpec { source, format, max_ignored, maximal_munch }) => {
                let (grammar, grammar_file) = apart(source);
                let grammar_format = format.filter(|_| grammar.is_some()).map(|format| {
                    let name = match format {
                        GrammarFormat::Gbnf => "gbnf",
                        GrammarFormat::Ebnf => "ebnf",
                        _ => "lark",
                    };
                    name.to_owned()
                });
                Self { grammar, grammar_file, grammar_format, max_ignored, maximal_munch, ..options }
            }
            Language::JsonSchema(schema) => {
                let SchemaSpec { source, whitespace, ascii, exponents, registry, any_order } = schema;
                let (json_schema, json_schema_file) = apart(source);
                let whitespace = whitespace.map(spell_whitespace);
                Self {
                    json_schema,
                    json_schema_file,
                    whitespace,
                    ascii,
                    exponents,
                    schema_registry: registry,
                    any_order,
                    ..options
                }
            }
            Language::Set(SetSpec { file, subset, gpu }) => Self { set: Some(file), subset, gpu, ..options },
            Language::ExcludeSet(file) => Self { exclude_set: Some(file), ..options },
        }
    }
}

/// The text that [`Whitespace`] is read from.
fn spell_whitespace(whitespace: Whitespace) -> String {
    match whitespace {
        Whitespace::Compact => "compact".to_owned(),
        Whitespace::Bounded(most) => format!("bounded:{most}"),
        Whitespace::Indent(blanks) => format!("indent:{blanks}"),
        _ => "flexible".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, with every option that it has.
    const ALL: &[&str] = &[
        "{}",
        r#"{"canonical":true}"#,
        r#"{"regex":"a\"b","canonical":true}"#,
        r#"{"regex_file":"r.txt"}"#,
        r#"{"choices":["yes","no"]}"#,
        r#"{"grammar":"start: \"a\"","grammar_format":"lark","max_ignored":3,"maximal_munch":true}"#,
        r#"{"grammar_file":"g.gbnf"}"#,
        r#"{"json_schema":{"type":"integer","maximum":1e2},"whitespace":"indent:2","ascii":true,"exponents":3,"schema_registry":"all","any_order":true}"#,
        r#"{"json_schema":true}"#,
        r#"{"json_schema_file":"s.json","whitespace":"bounded:4"}"#,
        r#"{"set":"s.set","subset":"films","gpu":true}"#,
        r#"{"exclude_set":"taken.txt"}"#,
    ];

    #[test]
    fn json_goes_there_and_back() {
        for text in ALL {
            let spec = Spec::from_json(text).unwrap();
            assert_eq!(spec.to_json(), *text);
            assert_eq!(Spec::from_json(&spec.to_json()).unwrap(), spec);
        }
        // Text of a schema that is no JSON is kept, and refused when it is compiled.
        let broken = Spec::json_schema("{");
        assert_eq!(Spec::from_json(&broken.to_json()).unwrap(), broken);
    }

    #[test]
    fn options_that_do_not_belong_together_are_refused() {
        let refusal = |text: &str| Spec::from_json(text).unwrap_err().to_string();
        for (text, message) in [
            (r#"{"regex": "a", "set": "b"}"#, "`regex` and `set` are two constraints"),
            (r#"{"regex": "a", "gpu": true}"#, "`gpu` makes the masks of a `set`; give one, or leave it out"),
            (r#"{"whitespace": "compact"}"#, "`whitespace` is that of a `json_schema`"),
            (r#"{"json_schema": {}, "whitespace": "wide"}"#, "`whitespace` = \"wide\": it is `compact`"),
            (r#"{"grammar": "start: \"a\""}"#, "needs its language"),
            (r#"{"grammar": "", "grammar_format": "bnf"}"#, "it is `lark`, `gbnf` or `ebnf`"),
            (
                r#"{"json_schema": {}, "exponents": 101}"#,
                "`exponents` = \"101\": give a whole number up to 100",
            ),
            (r#"{"regexp": "a"}"#, "unknown field `regexp`"),
            ("[", "not a constraint in JSON"),
        ] {
            assert!(refusal(text).contains(message), "{text}: {}", refusal(text));
        }
    }
}
