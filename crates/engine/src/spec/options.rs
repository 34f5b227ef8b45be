//! The flat form of a constraint: the options that people write, in JSON or as flags.
//!
//! Turning it into a [`Spec`] is the one place where an option without its kind is refused.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;
use unskew_automata::Dialect;
use unskew_notation::GrammarFormat;
use unskew_schema::{Spelling, Whitespace};

use super::{
    GrammarSpec, Language, OPTIONS, OptionInfo, OptionValue, RegexSpec, RegistrySource, SchemaSpec, SetSpec,
    Source, Spec, SpecError, SpecLimits, TagSpec,
};

/// A [`Spec`] as people write it: one flat list of options, most of them absent. This is its JSON form.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are those of the kinds of a `Spec`, which describe them")]
pub struct SpecOptions {
    /// [`SPEC_VERSION`], or nothing, which is the same. It is not written.
    #[serde(skip_serializing)]
    pub version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex_file: Option<PathBuf>,
    /// `python`, `rust` or `ecma`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex_dialect: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "some")]
    pub choices: Vec<String>,
    /// The text of a grammar, with `grammar_format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<String>,
    /// `lark`, `gbnf`, `ebnf`, `xgrammar` or `abnf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ignored: Option<u32>,
    /// The start rule of a grammar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The constraints that a grammar in Lark uses as `@name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub grammars: BTreeMap<String, Spec>,
    /// The texts of the files that a grammar in Lark imports, by their paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub imports: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "some")]
    pub any_of: Vec<Spec>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "some")]
    pub sequence: Vec<Spec>,
    /// The structural tag itself, as JSON and not as text.
    #[serde(skip_serializing_if = "Option::is_none", with = "schema_part")]
    pub structural_tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structural_tag_file: Option<PathBuf>,
    /// The schema itself, as JSON and not as text.
    #[serde(skip_serializing_if = "Option::is_none", with = "schema_part")]
    pub json_schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema_file: Option<PathBuf>,
    /// `compact`, `spaced`, `printed`, `bounded:N`, `flexible` or `indent:N`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitespace: Option<String>,
    /// `plain` or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spelling: Option<String>,
    #[serde(skip_serializing_if = "is_off")]
    pub ascii: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponents: Option<u32>,
    /// `draft-04`, `draft-06`, `draft-07`, `2019-09`, `2020-12`, `openapi-3.0` or `openapi-3.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<RegistrySource>,
    #[serde(skip_serializing_if = "is_off")]
    pub any_order: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u32>,
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
    /// `model` or `free`: who ends an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Limits by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_off(switch: &bool) -> bool {
    !switch
}

/// A schema in JSON is a part of the object around it. A text that is no JSON stays a string, so that nothing is lost.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum SchemaValue<'a> {
    Json(Box<RawValue>),
    Text(&'a str),
}

/// The schema `text` as a value.
pub(super) fn schema_value(text: &str) -> SchemaValue<'_> {
    // Line breaks of JSON stand between its values alone, so that a space is the same.
    match RawValue::from_string(text.replace(['\n', '\r'], " ")) {
        Ok(value) if !text.trim_start().starts_with('"') => SchemaValue::Json(value),
        _ => SchemaValue::Text(text),
    }
}

/// The text of a schema that is a value. A string holds the text of a schema.
pub(super) fn schema_text(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

mod schema_part {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        text.as_deref().map(super::schema_value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Some(super::schema_text(&value)))
    }
}

/// The version of the JSON form that this crate reads and writes. Its fields keep their meaning; more may be added.
pub const SPEC_VERSION: u32 = 1;

/// A list that is written allows what is in it: an empty one is no constraint that is left out.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() {
        return Err(D::Error::custom(
            "an empty list of choices or constraints allows no output; leave it out for any",
        ));
    }
    Ok(list)
}

impl SpecOptions {
    /// The first option that says nothing without a kind that is not asked for.
    fn stray(&self) -> Option<&'static OptionInfo> {
        let has_kind = |option: &OptionInfo| self.kinds().any(|kind| option.kinds.contains(&kind));
        OPTIONS.iter().find(|option| option.value.is_given(self) && !has_kind(option))
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
            (self.structural_tag.is_some(), "structural_tag"),
            (self.structural_tag_file.is_some(), "structural_tag_file"),
            (self.set.is_some(), "set"),
            (self.exclude_set.is_some(), "exclude_set"),
            (!self.any_of.is_empty(), "any_of"),
            (!self.sequence.is_empty(), "sequence"),
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
        if let Some(version) = options.version.filter(|version| *version != SPEC_VERSION) {
            let why = format!("this program reads version {SPEC_VERSION} alone");
            return Err(SpecError::Value { option: "version", value: version.to_string(), why });
        }
        if let Some(&OptionInfo { name, about, .. }) = options.stray() {
            return Err(SpecError::Stray { name, about });
        }
        for &OptionInfo { name: option, ref value, .. } in OPTIONS {
            if let OptionValue::Number(of, most) = value
                && let Some(value) = of(&options).filter(|value| value > most)
            {
                let why = format!("give a whole number up to {most}");
                return Err(SpecError::Value { option, value: value.to_string(), why });
            }
        }
        let mut limits = SpecLimits::default();
        for (name, value) in &options.limits {
            limits.set(name, *value)?;
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
                why: "it is `lark`, `gbnf`, `ebnf`, `xgrammar` or `abnf`".to_owned(),
            })?),
            None if options.grammar.is_some() => {
                let why =
                    "the text of a grammar needs its language: `lark`, `gbnf`, `ebnf`, `xgrammar` or `abnf`"
                        .to_owned();
                return Err(SpecError::Value { option: "grammar_format", value: String::new(), why });
            }
            None => None,
        };
        let whitespace = parsed("whitespace", options.whitespace.as_deref())?;
        let spelling = parsed("spelling", options.spelling.as_deref())?;
        let dialect = parsed("dialect", options.dialect.as_deref())?;
        let end = parsed("end", options.end.as_deref())?;
        let regex_dialect: Option<Dialect> = parsed("regex_dialect", options.regex_dialect.as_deref())?;
        let text = |text: Option<String>, file: Option<PathBuf>| {
            text.map(Source::Text).or_else(|| file.map(Source::File))
        };
        let language = if let Some(source) = text(options.regex, options.regex_file) {
            Language::Regex(RegexSpec { source, dialect: regex_dialect.unwrap_or_default() })
        } else if let Some(source) = text(options.grammar, options.grammar_file) {
            let SpecOptions { max_ignored, start, grammars, imports, .. } = options;
            Language::Grammar(GrammarSpec { source, format, max_ignored, start, grammars, imports })
        } else if let Some(source) = text(options.json_schema, options.json_schema_file) {
            Language::JsonSchema(SchemaSpec {
                source,
                whitespace,
                spelling,
                ascii: options.ascii,
                exponents: options.exponents,
                dialect,
                registry: options.schema_registry,
                any_order: options.any_order,
                margin: options.margin.unwrap_or(0),
            })
        } else if let Some(source) = text(options.structural_tag, options.structural_tag_file) {
            Language::StructuralTag(TagSpec { source, whitespace, spelling })
        } else if let Some(file) = options.set {
            Language::Set(SetSpec { file, subset: options.subset, gpu: options.gpu })
        } else if let Some(file) = options.exclude_set {
            Language::ExcludeSet(file)
        } else if !options.any_of.is_empty() {
            Language::AnyOf(options.any_of)
        } else if !options.sequence.is_empty() {
            Language::Sequence(options.sequence)
        } else if !options.choices.is_empty() {
            Language::Choices(options.choices)
        } else {
            Language::Anything
        };
        Ok(Self { language, canonical: options.canonical, end, limits })
    }
}

impl From<Spec> for SpecOptions {
    fn from(spec: Spec) -> Self {
        let limits = spec.limits.iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let end = spec.end.map(|end| end.to_string());
        let options = Self { canonical: spec.canonical, end, limits, ..Self::default() };
        let apart = |source| match source {
            Source::Text(text) => (Some(text), None),
            Source::File(path) => (None, Some(path)),
        };
        match spec.language {
            Language::Anything => options,
            Language::Regex(RegexSpec { source, dialect }) => {
                let (regex, regex_file) = apart(source);
                let regex_dialect = (dialect != Dialect::default()).then(|| dialect.name().to_owned());
                Self { regex, regex_file, regex_dialect, ..options }
            }
            Language::Choices(choices) => Self { choices, ..options },
            Language::Grammar(GrammarSpec { source, format, max_ignored, start, grammars, imports }) => {
                let (grammar, grammar_file) = apart(source);
                let grammar_format =
                    format.filter(|_| grammar.is_some()).map(|format| format.extension().to_owned());
                Self {
                    grammar,
                    grammar_format,
                    grammar_file,
                    max_ignored,
                    start,
                    grammars,
                    imports,
                    ..options
                }
            }
            Language::JsonSchema(schema) => {
                let (json_schema, json_schema_file) = apart(schema.source);
                Self {
                    json_schema,
                    json_schema_file,
                    whitespace: schema.whitespace.map(spell_whitespace),
                    spelling: schema.spelling.map(spell),
                    ascii: schema.ascii,
                    exponents: schema.exponents,
                    dialect: schema.dialect.map(|dialect| dialect.to_string()),
                    schema_registry: schema.registry,
                    any_order: schema.any_order,
                    margin: Some(schema.margin).filter(|margin| *margin > 0),
                    ..options
                }
            }
            Language::StructuralTag(TagSpec { source, whitespace, spelling }) => {
                let (structural_tag, structural_tag_file) = apart(source);
                let whitespace = whitespace.map(spell_whitespace);
                let spelling = spelling.map(spell);
                Self { structural_tag, structural_tag_file, whitespace, spelling, ..options }
            }
            Language::Set(SetSpec { file, subset, gpu }) => Self { set: Some(file), subset, gpu, ..options },
            Language::ExcludeSet(file) => Self { exclude_set: Some(file), ..options },
            Language::AnyOf(any_of) => Self { any_of, ..options },
            Language::Sequence(sequence) => Self { sequence, ..options },
        }
    }
}

/// The text that [`Spelling`] is read from.
fn spell(spelling: Spelling) -> String {
    match spelling {
        Spelling::Plain => "plain".to_owned(),
        _ => "any".to_owned(),
    }
}

/// The text that [`Whitespace`] is read from.
fn spell_whitespace(whitespace: Whitespace) -> String {
    match whitespace {
        Whitespace::Compact => "compact".to_owned(),
        Whitespace::Spaced => "spaced".to_owned(),
        Whitespace::Line => "line".to_owned(),
        Whitespace::Printed => "printed".to_owned(),
        Whitespace::Bounded(most) => format!("bounded:{most}"),
        Whitespace::Indent(blanks) => format!("indent:{blanks}"),
        _ => "flexible".to_owned(),
    }
}
