//! Constraints as data: one type for every kind, with its options, and a JSON form.
//!
//! A [`Spec`] is data. It names files and does not read them, and it knows neither a model nor a command line. So
//! programs can build it, keep it, compare it and send it. [`Compiler::compile`](crate::Compiler::compile)
//! compiles it for the tokens of one model.
//!
//! Options belong to the kind that reads them: white space exists only for a JSON Schema. The flat form,
//! [`SpecOptions`], is what people write, in JSON or as options of a command. Turning it into a `Spec` is the one
//! place where an option without its kind is refused.
//!
//! Tried instead: the flat form everywhere. Each place that read it listed all options by name, and a new option had
//! to be added to six lists.

mod limits;
mod options;
mod request_rules;
mod requests;
mod resolved;
mod source;
mod table;
#[cfg(feature = "schemars")]
mod typed;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;
use unskew_automata::Dialect;
use unskew_core::OutputEnd;
use unskew_notation::GrammarFormat;
use unskew_schema::{Draft, Spelling, Whitespace};

pub(crate) use self::limits::Numbers;
pub use self::limits::{LIMITS, Limit, SpecLimits};
pub use self::options::{SPEC_VERSION, SpecOptions};
pub use self::request_rules::RequestRules;
pub use self::requests::JsonRequest;
pub(crate) use self::requests::{NO_PARAMETERS, closing, refused};
pub(crate) use self::resolved::Resolved;
pub use self::source::{RegexSpec, Source};
pub use self::table::{MAX_EXPONENT, MAX_IGNORED, MAX_MARGIN, OPTIONS, OptionInfo, OptionValue};

/// A constraint on outputs, as data.
///
/// # Example
///
/// ```
/// use unskew_engine::Spec;
///
/// let spec = Spec::regex("[0-9]{4}").canonical();
/// assert_eq!(spec.to_json(), r#"{"regex":"[0-9]{4}","canonical":true}"#);
/// assert_eq!(Spec::from_json(&spec.to_json())?, spec);
///
/// let wrong = Spec::from_json(r#"{"regex": "a", "ascii": true}"#).unwrap_err();
/// assert!(wrong.to_string().contains("`ascii` is for the strings of a `json_schema`"));
/// # Ok::<(), unskew_engine::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "SpecOptions", into = "SpecOptions")]
pub struct Spec {
    /// Which texts are outputs.
    pub language: Language,
    /// Whether only the token sequences count that the tokenizer itself writes for their text.
    pub canonical: bool,
    /// Who ends an output; `None`: [`Spec::end`] says who. A part of another constraint has none of its own. Masks are
    /// the same under both.
    pub end: Option<OutputEnd>,
    /// The limits on the cost of the constraint that differ from their defaults. A part of another constraint has
    /// none of its own.
    pub limits: SpecLimits,
}

/// Which texts are outputs.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Language {
    /// All.
    #[default]
    Anything,
    /// Those that a regular expression matches as a whole.
    Regex(RegexSpec),
    /// Those of a list.
    Choices(Vec<String>),
    /// The words of a context-free grammar.
    Grammar(GrammarSpec),
    /// JSON that satisfies a JSON Schema.
    JsonSchema(SchemaSpec),
    /// Free text with tools in it, as a [structural tag](crate::tag) says.
    StructuralTag(TagSpec),
    /// The items of a set.
    Set(SetSpec),
    /// All but the items of a set, however tokens divide them. A built set, or a text file with one item a line.
    ExcludeSet(PathBuf),
    /// The outputs of any of these constraints.
    AnyOf(Vec<Spec>),
    /// An output of each of these constraints, one after the other. A token may cross the boundary.
    Sequence(Vec<Spec>),
}

/// A grammar and how it is read.
#[derive(Clone, PartialEq, Debug)]
pub struct GrammarSpec {
    /// The text. In Lark it may be llguidance's list of grammars in JSON.
    pub source: Source,
    /// The language of the text. `None`: the one that the ending of the file's name says.
    pub format: Option<GrammarFormat>,
    /// Lark: the most characters that `%ignore` takes in one place; `None`: any number.
    pub max_ignored: Option<u32>,
    /// The start rule; `None`: the one that the language of the text has by default.
    pub start: Option<String>,
    /// Lark: the constraints that the text uses as `@name`, by their names. They know each other.
    pub grammars: BTreeMap<String, Spec>,
    /// Lark: the texts of the files that the text imports, by their paths from its folder. Those of a file are found
    /// there.
    pub imports: BTreeMap<String, String>,
}

/// A JSON Schema and how its values are written.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaSpec {
    /// The text.
    pub source: Source,
    /// The white space between parts; `None`: that of the [`spelling`](Self::spelling).
    pub whitespace: Option<Whitespace>,
    /// Which spellings of a value are outputs; `None`: [`Spelling::Plain`], what programs write.
    pub spelling: Option<Spelling>,
    /// Whether strings are of ASCII alone, with other characters as escapes.
    pub ascii: bool,
    /// The largest exponent of numbers under a condition; `None`: no exponents there.
    pub exponents: Option<u32>,
    /// The dialect of a schema without `$schema`; `None`: 2020-12, or 2019-09 where `items` is a list.
    pub dialect: Option<Draft>,
    /// Schemas that `$ref` may lead to.
    pub registry: Option<RegistrySource>,
    /// Whether the members of an object come in any order.
    pub any_order: bool,
    /// The most characters of white space in front of the document, and after it.
    pub margin: u32,
}

/// A structural tag and how JSON in it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagSpec {
    /// The text, which is JSON.
    pub source: Source,
    /// The white space between parts of JSON, where the tag says nothing; `None`: that of the
    /// [`spelling`](Self::spelling).
    pub whitespace: Option<Whitespace>,
    /// Which spellings of a JSON value are outputs; `None`: [`Spelling::Plain`].
    pub spelling: Option<Spelling>,
}

/// Schemas that others refer to. In JSON a folder is a string, and schemas are an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrySource {
    /// The `.json` files in a folder and the folders in it, each by its path from there.
    Folder(PathBuf),
    /// The texts of schemas by their names.
    Schemas(BTreeMap<String, String>),
}

/// Schemas are parts of the object, as JSON and not as text.
impl Serialize for RegistrySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Folder(folder) => folder.serialize(serializer),
            Self::Schemas(schemas) => {
                serializer.collect_map(schemas.iter().map(|(name, text)| (name, options::schema_value(text))))
            }
        }
    }
}

impl<'de> Deserialize<'de> for RegistrySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        if let Ok(folder) = serde_json::from_str(value.get()) {
            return Ok(Self::Folder(folder));
        }
        let schemas: BTreeMap<String, Box<RawValue>> = serde_json::from_str(value.get()).map_err(|_| {
            D::Error::custom(
                "`schema_registry` is the path of a folder, or an object of schemas by their names",
            )
        })?;
        Ok(Self::Schemas(
            schemas.into_iter().map(|(name, value)| (name, options::schema_text(&value))).collect(),
        ))
    }
}

impl From<PathBuf> for RegistrySource {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl From<String> for RegistrySource {
    fn from(folder: String) -> Self {
        Self::Folder(folder.into())
    }
}

/// A set of items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetSpec {
    /// A built set, or a text file with one item a line.
    pub file: PathBuf,
    /// The name of a subset of a built set.
    pub subset: Option<String>,
    /// Whether samplers of this project use a GPU, where there is one.
    pub gpu: bool,
}

/// Options that make no [`Spec`]. Names of options stand between backticks, as in JSON.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// An option of a kind of constraint that is not asked for.
    #[error("`{name}` {about}; give one, or leave it out")]
    Stray {
        /// The option.
        name: &'static str,
        /// Its purpose.
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
        /// The values that it takes.
        why: String,
    },
    /// Text that is not the JSON of a `Spec`.
    #[error("not a constraint in JSON: {0}")]
    Json(String),
    /// An option that a server does not allow a request.
    #[error("`{place}` {why}")]
    Request {
        /// The option, such as `any_of[0].set`.
        place: String,
        /// The reason.
        why: String,
    },
    /// A limit that a request sets above that of the server.
    #[error("`{place}` is {value}, and this server allows at most {most}: give no more, or leave it out")]
    RequestLimit {
        /// The limit, such as `any_of[0].limits.grammar.nodes`.
        place: String,
        /// The value that the request asks for.
        value: u64,
        /// The most that the server allows.
        most: u64,
    },
}

impl SpecError {
    /// The option that is meant, for people.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::Value { option, .. } => Some(format!("`{option}`")),
            Self::Request { place, .. } | Self::RequestLimit { place, .. } => Some(format!("`{place}`")),
            _ => None,
        }
    }
}

impl Spec {
    /// The outputs of a language, in every spelling.
    pub fn new(language: Language) -> Self {
        Self { language, canonical: false, end: None, limits: SpecLimits::default() }
    }

    /// The whole output matches `pattern`, which is written as for Python's module `re`.
    pub fn regex(pattern: impl Into<String>) -> Self {
        Self::regex_in(pattern, Dialect::Python)
    }

    /// The whole output matches `pattern`, which is written in `dialect`.
    pub fn regex_in(pattern: impl Into<String>, dialect: Dialect) -> Self {
        Self::new(Language::Regex(RegexSpec { source: Source::Text(pattern.into()), dialect }))
    }

    /// The output is one of these texts.
    pub fn choices<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        Self::new(Language::Choices(choices.into_iter().map(Into::into).collect()))
    }

    /// The output is a word of the grammar that `text` describes.
    pub fn grammar(text: impl Into<String>, format: GrammarFormat) -> Self {
        let spec = GrammarSpec { format: Some(format), ..GrammarSpec::new(Source::Text(text.into())) };
        Self::new(Language::Grammar(spec))
    }

    /// The output is a word of the grammar in a file that ends in `.lark`, `.gbnf`, `.ebnf` or `.bnf`, `.xgrammar` or
    /// `.abnf`.
    pub fn grammar_file(path: impl Into<PathBuf>) -> Self {
        Self::new(Language::Grammar(GrammarSpec::new(Source::File(path.into()))))
    }

    /// The output is JSON that satisfies the JSON Schema `text`.
    pub fn json_schema(text: impl Into<String>) -> Self {
        Self::new(Language::JsonSchema(SchemaSpec::new(Source::Text(text.into()))))
    }

    /// The output is JSON that satisfies the JSON Schema in a file.
    pub fn json_schema_file(path: impl Into<PathBuf>) -> Self {
        Self::new(Language::JsonSchema(SchemaSpec::new(Source::File(path.into()))))
    }

    /// The output is as the structural tag `text` says.
    pub fn structural_tag(text: impl Into<String>) -> Self {
        Self::new(Language::StructuralTag(TagSpec {
            source: Source::Text(text.into()),
            whitespace: None,
            spelling: None,
        }))
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

    /// The same with outputs that end so.
    #[must_use]
    pub fn ending(mut self, end: OutputEnd) -> Self {
        self.end = Some(end);
        self
    }

    /// Who ends an output where samplers draw it. Where nobody has said it, the constraint does: what the model would
    /// say after a label or a record belongs to no answer (`docs/ends.md` has what real models write). Nothing leaves
    /// the constraint that allows everything, so that the model ends its outputs.
    pub fn end(&self) -> OutputEnd {
        self.end.unwrap_or(if self.is_unconstrained() { OutputEnd::Model } else { OutputEnd::Free })
    }

    /// The same with the limit of this [name](LIMITS) at `value`.
    ///
    /// # Errors
    ///
    /// [`SpecError::Value`] for a name that no limit has, and for a value that it does not take.
    pub fn limit(mut self, name: &str, value: u64) -> Result<Self, SpecError> {
        self.limits.set(name, value)?;
        Ok(self)
    }

    /// The output is one of any of these constraints.
    pub fn any_of(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::new(Language::AnyOf(parts.into_iter().collect()))
    }

    /// The output is one of each of these constraints, one after the other.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::new(Language::Sequence(parts.into_iter().collect()))
    }

    /// Whether every sequence of text tokens is allowed.
    pub fn is_unconstrained(&self) -> bool {
        !self.canonical && self.language == Language::Anything
    }

    /// Whether the constraint is compiled as a grammar, unless it is canonical.
    pub fn is_grammar(&self) -> bool {
        use Language::{AnyOf, Grammar, JsonSchema, Sequence, StructuralTag};
        matches!(self.language, Grammar(_) | JsonSchema(_) | StructuralTag(_) | AnyOf(_) | Sequence(_))
    }

    /// The same constraint with all spellings that JSON allows, where it does not say which: to judge texts that
    /// somebody else has written, and not to write them.
    #[must_use]
    pub fn judging(mut self) -> Self {
        self.each_part(&mut |language| match language {
            Language::JsonSchema(SchemaSpec { spelling, .. })
            | Language::StructuralTag(TagSpec { spelling, .. }) => {
                spelling.get_or_insert(Spelling::Any);
            }
            _ => {}
        });
        self
    }

    fn each_part(&mut self, each: &mut dyn FnMut(&mut Language)) {
        each(&mut self.language);
        match &mut self.language {
            Language::AnyOf(parts) | Language::Sequence(parts) => {
                parts.iter_mut().for_each(|part| part.each_part(each));
            }
            Language::Grammar(grammar) => grammar.grammars.values_mut().for_each(|part| part.each_part(each)),
            _ => {}
        }
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
    ///
    /// # Panics
    ///
    /// If it names a file whose path is not UTF-8.
    pub fn to_json(&self) -> String {
        self.json().expect("texts, numbers, switches and paths in UTF-8 are JSON")
    }

    /// The same; `None` for a path that is not UTF-8.
    pub(crate) fn json(&self) -> Option<String> {
        serde_json::to_string(self).ok()
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
    pub fn map_files(self, mut map: impl FnMut(FileRole, PathBuf) -> PathBuf) -> Self {
        self.map_each_file(&mut map)
    }

    fn map_each_file(mut self, map: &mut dyn FnMut(FileRole, PathBuf) -> PathBuf) -> Self {
        let text = |source: Source, map: &mut dyn FnMut(FileRole, PathBuf) -> PathBuf| match source {
            Source::Text(text) => Source::Text(text),
            Source::File(path) => Source::File(map(FileRole::Text, path)),
        };
        self.language = match self.language {
            Language::Regex(regex) => {
                Language::Regex(RegexSpec { source: text(regex.source, map), dialect: regex.dialect })
            }
            Language::Grammar(spec) => {
                let source = text(spec.source, map);
                let grammars = spec.grammars.into_iter();
                let grammars = grammars.map(|(name, spec)| (name, spec.map_each_file(map))).collect();
                Language::Grammar(GrammarSpec { source, grammars, ..spec })
            }
            Language::AnyOf(parts) => {
                Language::AnyOf(parts.into_iter().map(|part| part.map_each_file(map)).collect())
            }
            Language::Sequence(parts) => {
                Language::Sequence(parts.into_iter().map(|part| part.map_each_file(map)).collect())
            }
            Language::JsonSchema(spec) => {
                let source = text(spec.source, map);
                let registry = spec.registry.map(|registry| match registry {
                    RegistrySource::Folder(folder) => RegistrySource::Folder(map(FileRole::Registry, folder)),
                    schemas @ RegistrySource::Schemas(_) => schemas,
                });
                Language::JsonSchema(SchemaSpec { source, registry, ..spec })
            }
            Language::StructuralTag(spec) => {
                Language::StructuralTag(TagSpec { source: text(spec.source, map), ..spec })
            }
            Language::Set(spec) => Language::Set(SetSpec { file: map(FileRole::Items, spec.file), ..spec }),
            Language::ExcludeSet(path) => Language::ExcludeSet(map(FileRole::Items, path)),
            other @ (Language::Anything | Language::Choices(_)) => other,
        };
        self
    }
}

impl GrammarSpec {
    /// The grammar with no options.
    pub fn new(source: Source) -> Self {
        let (grammars, imports) = (BTreeMap::new(), BTreeMap::new());
        Self { source, format: None, max_ignored: None, start: None, grammars, imports }
    }
}

/// How JSON is written where a spec leaves it open: as programs write it, with the white space of printers.
pub(crate) fn form(spelling: Option<Spelling>, whitespace: Option<Whitespace>) -> (Spelling, Whitespace) {
    let spelling = spelling.unwrap_or(Spelling::Plain);
    let usual = match spelling {
        Spelling::Plain => Whitespace::Printed,
        _ => Whitespace::default(),
    };
    (spelling, whitespace.unwrap_or(usual))
}

impl SchemaSpec {
    /// The schema with no options.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            whitespace: None,
            spelling: None,
            ascii: false,
            exponents: None,
            dialect: None,
            registry: None,
            any_order: false,
            margin: 0,
        }
    }
}

/// In a few words, for people.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.language {
            Language::Anything if self.canonical => f.write_str("any text")?,
            Language::Anything => f.write_str("no constraint")?,
            Language::Regex(RegexSpec { source: Source::Text(pattern), .. }) => write!(f, "regex {pattern}")?,
            Language::Regex(RegexSpec { source: Source::File(path), .. }) => {
                write!(f, "regex of {}", path.display())?;
            }
            Language::Choices(choices) => write!(f, "{} choices", choices.len())?,
            Language::Grammar(GrammarSpec { source, .. }) => write!(f, "grammar{source}")?,
            Language::JsonSchema(schema) => write!(f, "JSON Schema{}", schema.source)?,
            Language::StructuralTag(tag) => write!(f, "structural tag{}", tag.source)?,
            Language::Set(SetSpec { file, subset: Some(name), .. }) => {
                write!(f, "subset {name} of {}", file.display())?;
            }
            Language::Set(set) => write!(f, "set of {}", set.file.display())?,
            Language::ExcludeSet(path) => write!(f, "anything but {}", path.display())?,
            Language::AnyOf(parts) => write!(f, "one of {} constraints", parts.len())?,
            Language::Sequence(parts) => write!(f, "{} constraints one after the other", parts.len())?,
        }
        if self.canonical {
            f.write_str(", as the tokenizer writes it")?;
        }
        match self.end {
            Some(OutputEnd::Free) => f.write_str(", where the model's text leaves it"),
            Some(OutputEnd::Model) => f.write_str(", and then the end of the model's text"),
            None => Ok(()),
        }
    }
}

/// Where a text is from, as an ending of the name of its kind.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => Ok(()),
            Self::File(path) => write!(f, " of {}", path.display()),
        }
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
        r#"{"grammar":"start: \"a\"","grammar_format":"lark","max_ignored":3}"#,
        r#"{"grammar_file":"g.gbnf","start":"value"}"#,
        r#"{"grammar":"root ::= \"a\"","grammar_format":"xgrammar"}"#,
        r#"{"grammar":"a = \"b\"","grammar_format":"abnf","start":"a"}"#,
        r#"{"grammar":"start: @a","grammar_format":"lark","grammars":{"a":{"regex":"b"}},"imports":{"d/b.lark":"c: \"d\""}}"#,
        r#"{"any_of":[{"regex":"a"},{"sequence":[{"choices":["b"]},{"json_schema":true}]}]}"#,
        r#"{"json_schema":{"type":"integer","maximum":1e2},"whitespace":"indent:2","ascii":true,"exponents":3,"dialect":"openapi-3.0","schema_registry":"all","any_order":true,"margin":2}"#,
        r#"{"json_schema":true}"#,
        r#"{"json_schema":true,"schema_registry":{"a.json":{"const": 1.50}}}"#,
        r#"{"structural_tag":{"type":"structural_tag","format":{"type":"any_text"}},"whitespace":"compact"}"#,
        r#"{"structural_tag_file":"t.json","canonical":true}"#,
        r#"{"json_schema_file":"s.json","whitespace":"bounded:4"}"#,
        r#"{"set":"s.set","subset":"films","gpu":true}"#,
        r#"{"exclude_set":"taken.txt"}"#,
        r#"{"choices":["A","B"],"end":"free"}"#,
        r#"{"regex":"a","canonical":true,"end":"model","limits":{"grammar.nodes":7}}"#,
        r#"{"regex":"a","limits":{"grammar.nodes":7,"regex.nfa_size":8}}"#,
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
            (r#"{"regex": "a", "gpu": true}"#, "`gpu` is for a `set`; give one, or leave it out"),
            (r#"{"whitespace": "compact"}"#, "`whitespace` is that of a `json_schema` or a `structural_tag`"),
            (r#"{"json_schema": {}, "whitespace": "wide"}"#, "`whitespace` = \"wide\": it is `compact`"),
            (r#"{"grammar": "start: \"a\""}"#, "needs its language"),
            (
                r#"{"grammar": "", "grammar_format": "peg"}"#,
                "it is `lark`, `gbnf`, `ebnf`, `xgrammar` or `abnf`",
            ),
            (
                r#"{"json_schema": {}, "exponents": 101}"#,
                "`exponents` = \"101\": give a whole number up to 100",
            ),
            (r#"{"version": 2, "regex": "a"}"#, "`version` = \"2\": this program reads version 1 alone"),
            (r#"{"json_schema": true, "schema_registry": 7}"#, "the path of a folder, or an object"),
            (
                r#"{"regex": "a", "limits": {"size": 3}}"#,
                "`limits` = \"size\": the limits are grammar.automata_bytes,",
            ),
            (r#"{"regexp": "a"}"#, "unknown field `regexp`"),
            ("[", "not a constraint in JSON"),
        ] {
            assert!(refusal(text).contains(message), "{text}: {}", refusal(text));
        }
    }
}
