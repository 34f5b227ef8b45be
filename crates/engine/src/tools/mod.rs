//! Tools: from a list of them to the structural tag in which a model of a known family calls them.
//!
//! [`Tool::list`] reads what MCP servers and the interfaces of OpenAI and Anthropic say of tools. [`ToolRequest::spec`]
//! is the constraint on a model's output: reasoning, free text and calls, each as the family writes it (`forms`), with
//! arguments that satisfy the schemas of their tools. A response format says what stands in the place of free text.
//!
//! A mark such as `<|tool_call_begin|>` is a control token of some tokenizers and text of others, so it is a token
//! with `or_text` in the tag: it is decided where the constraint meets a vocabulary.
//!
//! Tried instead: `triggered_tags`, as XGrammar has them. Their triggers are texts, which control tokens have none of;
//! no mark overlaps itself, so that free text without it, followed by it, is the same.

mod forms;
mod writing;

use serde_json::value::RawValue;

use self::forms::{FORMS, Form};
use crate::{
    Error, Result, Spec,
    fields::{Fields, quoted},
    spec::{NO_PARAMETERS, closing, refused},
};

/// A tool that a model may call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// The name, of letters, digits and `_ - . : /`.
    pub name: String,
    /// What it is for; empty where nobody says.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: String,
}

impl Tool {
    /// The tools of a list, of an object with the list as `tools`, or of an answer with that as `result`: what an MCP
    /// server says to `tools/list` (`inputSchema`), OpenAI's `{"type": "function", "function": {...}}`, its content
    /// alone (`parameters`), and Anthropic's `input_schema`. With `closed`, objects that declare members have no
    /// others; `None`: those of tools that say `strict`.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] with the place, and where a server has more pages of its list.
    pub fn list(text: &str, closed: Option<bool>) -> Result<Vec<Self>> {
        let wrong = |error| {
            Error::combination(format!("`tools` is an array of tools, or an object with one: {error}"))
        };
        let value: &RawValue = serde_json::from_str(text).map_err(wrong)?;
        let list: Vec<Box<RawValue>> = match value.get().trim_start().starts_with('{') {
            true => {
                let mut fields = Fields::read(value, "").map_err(refused)?;
                if let Some((result, at)) = fields.raw("result") {
                    fields = Fields::read(&result, &at).map_err(refused)?;
                }
                if fields.get::<String>("nextCursor").map_err(refused)?.is_some() {
                    return Err(Error::combination(
                        "the list of tools has a `nextCursor`, so that tools are missing; ask the server for all pages",
                    ));
                }
                fields.required("tools").map_err(refused)?
            }
            false => serde_json::from_str(value.get()).map_err(wrong)?,
        };
        let mut tools: Vec<Self> = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            let at = format!("tools/{index}");
            let tool = Self::read(value, &at, closed)?;
            if tools.iter().any(|other| other.name == tool.name) {
                let why = format!("`{at}`: there is another tool with the name {:?}", tool.name);
                return Err(Error::combination(why));
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    /// A list in the form of OpenAI's interface, which chat templates are shown.
    ///
    /// # Panics
    ///
    /// If the parameters of a tool are no JSON; those of a [`list`](Self::list) are.
    pub fn to_json(tools: &[Self]) -> String {
        let tools = tools.iter().map(|Self { name, description, parameters }| {
            let (name, description) = (quoted(name), quoted(description));
            format!(
                r#"{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{parameters}}}}}"#
            )
        });
        format!("[{}]", tools.collect::<Vec<_>>().join(","))
    }

    /// Fields beside those that matter are for other readers.
    fn read(value: &RawValue, at: &str, closes: Option<bool>) -> Result<Self> {
        let mut fields = Fields::read(value, at).map_err(refused)?;
        let kind: Option<String> = fields.get("type").map_err(refused)?;
        if let Some(kind) = kind.filter(|kind| kind != "function" && kind != "custom") {
            let why = format!("`{at}/type` is {kind:?}, and only a \"function\" has arguments");
            return Err(Error::combination(why));
        }
        if let Some((function, at)) = fields.raw("function") {
            fields = Fields::read(&function, &at).map_err(refused)?;
        }
        let name: String = fields.required("name").map_err(refused)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            let place = fields.place("name");
            let why = format!(
                "`{place}` is {name:?}: the name of a tool has letters, digits and `_ - . : /` alone"
            );
            return Err(Error::combination(why));
        }
        let description: Option<String> = fields.get("description").map_err(refused)?;
        let strict: Option<bool> = fields.get("strict").map_err(refused)?;
        let schemas = ["parameters", "inputSchema", "input_schema"].map(|name| fields.raw(name));
        let mut given = schemas.into_iter().flatten().filter(|(schema, _)| schema.get() != "null");
        let parameters = match (given.next(), given.next()) {
            (Some((schema, at)), None) => closing(schema.get(), &at, closes, strict)?,
            (None, _) => NO_PARAMETERS.to_owned(),
            (Some((_, first)), Some((_, second))) => {
                return Err(Error::combination(format!(
                    "`{first}` and `{second}` are two schemas; give one"
                )));
            }
        };
        Ok(Self { name, description: description.unwrap_or_default(), parameters })
    }
}

/// Whether there are calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_enums, reason = "interfaces of servers have these")]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
    /// One, of the tool of this name.
    Named(String),
}

/// Whether the model reasons before it answers, in the marks of its family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_enums, reason = "interfaces of servers have these")]
pub enum Reasoning {
    /// It does not.
    #[default]
    Disabled,
    /// It does. The prompt may have begun the reasoning: the mark of its beginning may be missing.
    Enabled,
    /// As the model likes; the mark of its beginning tells.
    Auto,
}

/// What a request with tools asks of a model's output.
///
/// # Example
///
/// ```
/// use unskew_engine::tools::{Tool, ToolChoice, ToolRequest};
///
/// let tools = r#"[{"name": "add", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]"#;
/// let mut request = ToolRequest::of_model("Qwen/Qwen3-8B")?;
/// request.choice = ToolChoice::Required;
/// let spec = request.spec(&Tool::list(tools, Some(true))?)?;
/// assert!(spec.to_json().contains(r#"{\"name\": \"add\", \"arguments\": "#));
/// # Ok::<(), unskew_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolRequest {
    form: &'static Form,
    /// Whether there are calls.
    pub choice: ToolChoice,
    /// Whether there may be several calls. gpt-oss ends its turn after one.
    pub parallel: bool,
    /// Whether the model reasons first.
    pub reasoning: Reasoning,
    /// The format of an answer without calls, a part of a structural tag such as `{"type": "json_schema",
    /// "json_schema": {...}}`; free text otherwise. There is no text beside calls then.
    pub response: Option<String>,
}

impl ToolRequest {
    /// A request to a model: the name of a family ([`families`]), or the name of a model with or without its owner.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] where it is not known, with the families that are.
    pub fn of_model(model: &str) -> Result<Self> {
        let form = forms::named(model).ok_or_else(|| {
            let known = families().collect::<Vec<_>>().join(", ");
            Error::combination(format!(
                "the way in which {model:?} writes calls is not known: give its family, one of {known}; or write a structural tag"
            ))
        })?;
        let (choice, reasoning) = (ToolChoice::default(), Reasoning::default());
        Ok(Self { form, choice, parallel: true, reasoning, response: None })
    }

    /// The name of the family.
    pub fn family(&self) -> &'static str {
        self.form.names[0]
    }

    /// The constraint.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] where there is no tool to call, and for reasoning of a family that does none.
    pub fn spec(&self, tools: &[Tool]) -> Result<Spec> {
        let tools: Vec<&Tool> = match &self.choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Named(name) => {
                let found = tools.iter().find(|tool| tool.name == *name);
                let none =
                    || Error::combination(format!("the choice names {name:?}, which is none of the tools"));
                vec![found.ok_or_else(none)?]
            }
            _ => tools.iter().collect(),
        };
        if tools.is_empty() && self.choice == ToolChoice::Required {
            return Err(Error::combination("a call is required, and there are no tools"));
        }
        if self.reasoning == Reasoning::Enabled && self.form.thought.is_none() && !self.form.is_harmony() {
            let family = self.family();
            let why =
                format!("models of the family `{family}` have no marks of reasoning: leave `reasoning` out");
            return Err(Error::combination(why));
        }
        Ok(Spec::structural_tag(self.tag(&tools)))
    }

    /// The marks of the family as an object of JSON, for readers of calls.
    pub fn marks(&self) -> String {
        self.form.to_json()
    }
}

/// The families of models whose calls are known.
pub fn families() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|form| form.names[0])
}
