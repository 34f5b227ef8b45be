//! How models write the parameters of a call that do not write JSON: the marks around a name and a value.

/// How a model writes parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Qwen,
    Minimax,
    Deepseek,
    DeepseekSpaced,
    Glm,
    Kimi,
    Cohere,
    MinimaxNested,
}

/// The JSON type that an element names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    String,
    Number,
    Boolean,
    Null,
    Array,
    Object,
    /// One that is known only once it is written.
    Any,
}

/// The beginning of each mark of MiniMax M3.
const MARK: &str = "]<]minimax[>[";

impl Style {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "qwen_xml" => Self::Qwen,
            "minimax_xml" => Self::Minimax,
            "deepseek_xml" => Self::Deepseek,
            "deepseek_v4_1_xml" => Self::DeepseekSpaced,
            "glm_xml" => Self::Glm,
            "kimi_k3_xml" => Self::Kimi,
            "cohere_xml" => Self::Cohere,
            "minimax_m3_xml" => Self::MinimaxNested,
            _ => return None,
        })
    }

    /// Whether values inside of values are elements too.
    pub(super) fn nests(self) -> bool {
        matches!(self, Self::Cohere | Self::MinimaxNested)
    }

    /// Whether there may be white space around a value that is no string.
    pub(super) fn is_spaced(self) -> bool {
        self != Self::MinimaxNested
    }

    /// The name as it is written; `None` where it cannot be.
    pub(super) fn written(self, name: &str) -> Option<String> {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
        match self {
            _ if name.is_empty() => None,
            Self::Cohere if !name.contains('\0') => {
                let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                Some(name.replace('"', "&quot;"))
            }
            Self::Kimi if !name.contains(['\0', '<', '>']) => {
                Some(name.replace('&', "&amp;").replace('"', "&quot;"))
            }
            _ => name.chars().all(is_plain).then(|| name.to_owned()),
        }
    }

    /// A pattern of all names as they are written, or of those without escapes.
    pub(super) fn names(self, with_escapes: bool) -> &'static str {
        match self {
            Self::Cohere if with_escapes => "(?:[^\\x00\"&<>]|&amp;|&lt;|&gt;|&quot;)+",
            Self::Kimi if with_escapes => "(?:[^\\x00\"&<>]|&amp;|&quot;)+",
            Self::Cohere | Self::Kimi => "[^\\x00\"&<>]+",
            _ => r"[\p{Alphabetic}\p{N}_.$-]+",
        }
    }

    /// The texts in front of a value, with white space between them. An item of an array has no name.
    pub(super) fn open(self, name: Option<&str>, of: Type) -> Vec<String> {
        if self == Self::Cohere {
            let of = match of {
                Type::String => "raw",
                Type::Object => "dict",
                Type::Array => "list",
                _ => "json",
            };
            let name = name.map(|name| format!(" name=\"{name}\"")).unwrap_or_default();
            return vec![format!("<cofl:value{name} type=\"{of}\">")];
        }
        let name = name.unwrap_or("item");
        let is_string = if of == Type::String { "true" } else { "false" };
        match self {
            Self::Qwen => vec![format!("<parameter={name}>")],
            Self::Minimax => vec![format!("<parameter name=\"{name}\">")],
            Self::Deepseek => {
                vec![format!("<\u{ff5c}DSML\u{ff5c}parameter name=\"{name}\" string=\"{is_string}\">")]
            }
            Self::DeepseekSpaced => {
                vec![format!("<\u{ff5c}DSML\u{ff5c} parameter name=\"{name}\" string=\"{is_string}\">")]
            }
            Self::Glm => vec![format!("<arg_key>{name}</arg_key>"), "<arg_value>".to_owned()],
            Self::Kimi => {
                let of = match of {
                    Type::String => "string",
                    Type::Number => "number",
                    Type::Boolean => "boolean",
                    Type::Null => "null",
                    Type::Array => "array",
                    Type::Object | Type::Any => "object",
                };
                vec![format!("<|open|>argument key=\"{name}\" type=\"{of}\"<|sep|>")]
            }
            Self::MinimaxNested => vec![format!("{MARK}<{name}>")],
            Self::Cohere => unreachable!("it is above"),
        }
    }

    /// The text after a value.
    pub(super) fn close(self, name: Option<&str>) -> String {
        match self {
            Self::MinimaxNested => format!("{MARK}</{}>", name.unwrap_or("item")),
            _ => self.end().to_owned(),
        }
    }

    /// The text that a string may not contain.
    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Cohere => "</cofl:value>",
            Self::MinimaxNested => MARK,
            Self::Qwen | Self::Minimax => "</parameter>",
            Self::Deepseek => "</\u{ff5c}DSML\u{ff5c}parameter>",
            Self::DeepseekSpaced => "</\u{ff5c}DSML\u{ff5c} parameter>",
            Self::Glm => "</arg_value>",
            Self::Kimi => "<|close|>argument<|sep|>",
        }
    }

    /// Whether an element says whether its value is a string.
    pub(super) fn names_strings(self) -> bool {
        matches!(self, Self::Deepseek | Self::DeepseekSpaced) || self.names_types()
    }

    /// Whether an element names the type of its value.
    pub(super) fn names_types(self) -> bool {
        self == Self::Kimi
    }
}
