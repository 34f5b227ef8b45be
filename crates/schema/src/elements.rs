//! Objects as elements: how models write the arguments of a call that do not write JSON.

/// How the members of an object are written where they are no JSON: an element for each, such as
/// `<parameter=city>Oslo</parameter>`. A value that is a string stands in its element as it is, other values as JSON.
///
/// The texts are those that a parser of the style reads back as a value of the schema. So a string has none of the
/// marks in it, and is none that the parser would read as another type of its schema. An object that declares members
/// has no others unless a keyword is about these.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_schema::{ElementStyle, SchemaLimits, SchemaOptions, ValueType, Whitespace, grammar};
///
/// let all = &[(ValueType::ALL, "")];
/// let plain = ElementStyle::PLAIN;
/// let style = ElementStyle { before: "<{name}", begin: ">", end: "</", after: "{name}>", types: all, ..plain };
/// let (mut options, limits) = (SchemaOptions::default(), SchemaLimits::default());
/// (options.elements, options.whitespace) = (Some(Arc::new(style)), Whitespace::Compact);
/// let schema = r#"{"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["s"]}"#;
/// let texts = grammar(schema, &options, &limits)?.regular(&limits.grammar.regex)?;
/// assert!(texts.accepts(b"<n>12</n><s>a \"b\"</s>") && !texts.accepts(b"<s>a</b</s>") && !texts.accepts(b"<n>1</n>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a style is written down whole")]
pub struct ElementStyle {
    /// The text in front of a value. `{name}` stands for the name, and `{type}` for the word of [`types`](Self::types).
    pub before: &'static str,
    /// The same of an item of an array, which has no name (`{name}` in `after` is `item` then). `None`: arrays and
    /// objects in an element are JSON.
    pub item: Option<&'static str>,
    /// Whether white space may stand between `before` and `begin`.
    pub is_spaced: bool,
    /// The mark that begins a value.
    pub begin: &'static str,
    /// The mark that ends a value. No string has it, and no proper prefix of it is a suffix.
    pub end: &'static str,
    /// The text after `end`.
    pub after: &'static str,
    /// The word for the types of a value. Types with the same word are told apart by their texts alone.
    pub types: &'static [(&'static [ValueType], &'static str)],
    /// A text that a parser takes away around a string, once at each end.
    pub wrap: &'static str,
    /// A pattern of texts that no string has, beside `end`. It is empty if there is none.
    pub forbidden: &'static str,
    /// A pattern of the names that are written as they are.
    pub names: &'static str,
    /// Characters of names with the text that is written for them.
    pub escapes: &'static [(char, &'static str)],
    /// A pattern of all names as they are written, if some have escapes.
    pub escaped: Option<&'static str>,
    /// Texts that no name and no string has as it is written.
    pub excludes: Vec<String>,
}

impl ElementStyle {
    /// Without marks; a style replaces some of its fields.
    pub const PLAIN: Self = Self {
        before: "",
        item: None,
        is_spaced: false,
        begin: "",
        end: "",
        after: "",
        types: &[],
        wrap: "",
        forbidden: "",
        names: r"[^<>\s\x00](?:[^<>\r\n\x00]*[^<>\s\x00])?",
        escapes: &[],
        escaped: None,
        excludes: Vec::new(),
    };

    /// The name as it is written, which may have characters that no name has.
    pub(crate) fn escaped(&self, name: &str) -> String {
        let escape = |c: char| self.escapes.iter().find(|(of, _)| *of == c).map(|(_, text)| *text);
        let mut written = String::new();
        for c in name.chars() {
            match escape(c) {
                Some(text) => written.push_str(text),
                None => written.push(c),
            }
        }
        written
    }

    /// Whether the name stands after the value too, so that it cannot be any of infinitely many.
    pub(crate) fn repeats_names(&self) -> bool {
        self.after.contains(NAME)
    }
}

/// The place of the name, and of the word of the type.
pub(crate) const NAME: &str = "{name}";
pub(crate) const TYPE: &str = "{type}";

/// A type of JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums, reason = "JSON has these")]
pub enum ValueType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl ValueType {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Null, Self::Boolean, Self::Number, Self::String, Self::Array, Self::Object];
}
