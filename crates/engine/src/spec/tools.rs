//! Tools that a model may call, from the lists that people have: OpenAI's, and that of an MCP server.
//!
//! [`Tools::spec`] makes the constraint of them. The marks around a call are those of the templates that the models
//! are published with. A mark that is a control token of a vocabulary is no text there, and needs a
//! [structural tag](crate::tag) of one's own.

use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use unskew_core::Vocabulary;

use super::{JsonRequest, Language, SchemaSpec, Source, Spec};
use crate::{Error, Result};

/// Tools that a model may call.
///
/// # Example
///
/// ```
/// use unskew_engine::{CallStyle, Tools};
///
/// // The result of `tools/list` of an MCP server; OpenAI's list is read too.
/// let tools = Tools::from_json(
///     r#"{"tools": [{"name": "age", "inputSchema": {"type": "object", "properties": {"of": {"type": "string"}}}}]}"#,
/// )?;
/// let spec = tools.spec(CallStyle::Hermes, "required")?;
/// assert!(spec.to_json().contains(r#""begin":"<tool_call>\n{\"name\": \"age\", \"arguments\": ""#));
/// # Ok::<(), unskew_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tools(Vec<Tool>);

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    /// In the form of OpenAI's interface.
    json: Box<RawValue>,
}

/// How a model writes a call of a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallStyle {
    /// JSON alone: `[{"name": ..., "parameters": {...}}]`, and the arguments alone where one tool is named.
    Json,
    /// `<tool_call>`, and in it `{"name": ..., "arguments": {...}}`.
    Hermes,
    /// `{"name": ..., "parameters": {...}}`.
    Llama,
    /// `<tool_call>`, and in it `<function=NAME>` with `<parameter=NAME>`.
    Qwen3Coder,
}

impl CallStyle {
    /// All of them, by name, with the models that write so.
    pub const ALL: [(&'static str, Self, &'static str); 4] = [
        ("json", Self::Json, "JSON alone, with no mark around it"),
        ("hermes", Self::Hermes, "JSON in `<tool_call>`: Hermes, Qwen 2.5, Qwen 3"),
        ("llama", Self::Llama, "JSON with `name` and `parameters`: Llama 3.1 and later"),
        ("qwen3-coder", Self::Qwen3Coder, "`<function=NAME>` in `<tool_call>`: Qwen 3 Coder"),
    ];

    /// The control token of a vocabulary that one of the marks around a call is, by its name: the marks are written as
    /// text, and a model that knows the token writes that.
    pub fn control_token(self, vocabulary: &Vocabulary) -> Option<String> {
        let Marks { around, .. } = self.marks()?;
        let mut names = vocabulary.control_tokens().map(|(_, name)| name.into_owned());
        names.find(|name| !name.is_empty() && around.iter().any(|mark| mark.contains(name.as_str())))
    }

    /// The marks around a call; JSON has none.
    fn marks(self) -> Option<Marks> {
        Some(match self {
            Self::Json => return None,
            Self::Hermes => Marks {
                trigger: "<tool_call>",
                around: ["<tool_call>\n{\"name\": ", ", \"arguments\": ", "}\n</tool_call>"],
                style: "json",
                separator: "\n",
            },
            Self::Llama => Marks {
                trigger: "{\"name\": ",
                around: ["{\"name\": ", ", \"parameters\": ", "}"],
                style: "json",
                separator: "; ",
            },
            Self::Qwen3Coder => Marks {
                trigger: "<tool_call>",
                around: ["<tool_call>\n<function=", ">\n", "</function>\n</tool_call>"],
                style: "qwen_xml",
                separator: "\n",
            },
        })
    }
}

/// The marks around a call.
struct Marks {
    /// Where a call begins in free text.
    trigger: &'static str,
    /// In front of the name, between the name and the arguments, and after those.
    around: [&'static str; 3],
    /// How the arguments are written, by the name of structural tags.
    style: &'static str,
    /// Between two calls.
    separator: &'static str,
}

/// A list, or an answer of an MCP server with a list in it.
#[derive(Deserialize)]
struct Answer {
    tools: Option<Vec<Box<RawValue>>>,
    result: Option<Box<RawValue>>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

/// A tool of either form. The fields that say nothing of its arguments are not read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    name: Option<String>,
    description: Option<String>,
    input_schema: Option<Box<RawValue>>,
    function: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn of_text(text: &str) -> Result<Vec<Tool>, String> {
    let tools: Vec<Box<RawValue>> = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map_err(no_json)?,
        false => {
            let answer: Answer = serde_json::from_str(text).map_err(no_json)?;
            if answer.next_cursor.is_some() {
                return Err(
                    "the list has a `nextCursor`, so that tools are missing; ask the server for all pages"
                        .to_owned(),
                );
            }
            match answer {
                Answer { tools: Some(tools), .. } => tools,
                Answer { result: Some(result), .. } => return of_text(result.get()),
                _ => return Err("neither a list of tools nor an object with `tools`".to_owned()),
            }
        }
    };
    let tools: Vec<Tool> =
        tools.iter().enumerate().map(|(index, tool)| of_value(tool, index)).collect::<Result<_, _>>()?;
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|other| other.name == tool.name) {
            return Err(format!("tools/{index}: there is another tool with the name {:?}", tool.name));
        }
    }
    Ok(tools)
}

fn of_value(value: &RawValue, index: usize) -> Result<Tool, String> {
    let given: Given =
        serde_json::from_str(value.get()).map_err(|error| format!("tools/{index}: {error}"))?;
    match given {
        Given { function: Some(function), .. } => Ok(Tool { name: function.name, json: value.to_owned() }),
        Given { name: Some(name), description, input_schema: Some(parameters), .. } => {
            #[derive(Serialize)]
            struct Function<'a> {
                name: &'a str,
                #[serde(skip_serializing_if = "Option::is_none")]
                description: Option<String>,
                parameters: Box<RawValue>,
            }
            #[derive(Serialize)]
            struct OpenAi<'a> {
                r#type: &'static str,
                function: Function<'a>,
            }
            let function = Function { name: &name, description, parameters };
            let json = serde_json::value::to_raw_value(&OpenAi { r#type: "function", function });
            Ok(Tool { json: json.map_err(no_json)?, name })
        }
        _ => Err(format!(
            "tools/{index} is no tool: give OpenAI's {{\"type\": \"function\", \"function\": {{...}}}}, or the `name` and the \
             `inputSchema` of an MCP server"
        )),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn no_json(error: serde_json::Error) -> String {
    format!("no list of tools: {error}")
}

impl Tools {
    /// The tools of OpenAI's list, `[{"type": "function", "function": {...}}]`, or of a list, an object with `tools` or
    /// an answer of an MCP server, `{"tools": [{"name": ..., "inputSchema": {...}}]}`.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] where it is neither, has a page that is missing, or two tools of one name.
    pub fn from_json(text: &str) -> Result<Self> {
        of_text(text).map(Self).map_err(Error::combination)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.name.as_str())
    }

    /// The list in the form of OpenAI's interface, which chat templates are shown.
    ///
    /// # Panics
    ///
    /// Never: texts of JSON are JSON.
    pub fn to_json(&self) -> String {
        let tools: Vec<&RawValue> = self.0.iter().map(|tool| &*tool.json).collect();
        serde_json::to_string(&tools).expect("texts of JSON are JSON")
    }

    /// The arguments of one tool, as JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] where there is no such tool, and with the field of it that is meant.
    pub fn arguments(&self, name: &str) -> Result<Spec> {
        let choice = json!({"type": "function", "function": {"name": name}}).to_string();
        JsonRequest::default().tools(&self.to_json(), &choice)
    }

    /// The constraint of calls in a style. The choice is `auto` (text, and calls in it), `required` (one call or more)
    /// or the name of a tool (one call of it).
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] where the list is empty, the choice is none of it, or the style cannot write it.
    pub fn spec(&self, style: CallStyle, choice: &str) -> Result<Spec> {
        let is_called = |tool: &&Tool| ["auto", "required", tool.name.as_str()].contains(&choice);
        let called: Vec<&Tool> = self.0.iter().filter(is_called).collect();
        if called.is_empty() {
            let names: Vec<&str> = self.names().collect();
            return Err(Error::combination(match &names[..] {
                [] => "`tools`: the list has no tool".to_owned(),
                names => format!("`tool_choice` {choice:?} is none of the tools: {}", names.join(", ")),
            }));
        }
        let Some(marks) = style.marks() else {
            return match choice {
                "auto" => Err(Error::combination(
                    "`tool_style` json has no mark that tells a call from text, which `tool_choice` auto needs: make it required, \
                     name a tool, or take the style of the model",
                )),
                "required" => JsonRequest::default().tools(&self.to_json(), "\"required\""),
                name => self.arguments(name),
            };
        };
        let tags = called.iter().map(|tool| self.tag(tool, &marks)).collect::<Result<Vec<_>>>()?.join(",");
        let format = match choice {
            "auto" => {
                format!(
                    r#"{{"type":"triggered_tags","triggers":[{}],"tags":[{tags}]}}"#,
                    json!(marks.trigger)
                )
            }
            "required" => format!(
                r#"{{"type":"tags_with_separator","tags":[{tags}],"separator":{},"at_least_one":true}}"#,
                json!(marks.separator)
            ),
            _ => tags,
        };
        Ok(Spec::structural_tag(format!(r#"{{"type":"structural_tag","format":{format}}}"#)))
    }

    /// The tag of the calls of a tool.
    fn tag(&self, tool: &Tool, marks: &Marks) -> Result<String> {
        let Marks { around: [begin, middle, end], style, .. } = marks;
        // In JSON a name is a string; elsewhere it stands there as it is.
        let name = match *style {
            "json" => json!(tool.name).to_string(),
            _ if tool.name.contains(['<', '>', '\n']) => {
                return Err(Error::combination(format!(
                    "`tool_style` has no way to write the name {:?}",
                    tool.name
                )));
            }
            _ => tool.name.clone(),
        };
        let Language::JsonSchema(SchemaSpec { source: Source::Text(schema), .. }) =
            self.arguments(&tool.name)?.language
        else {
            unreachable!("the arguments of a tool are a schema");
        };
        let (begin, end) = (json!(format!("{begin}{name}{middle}")), json!(end));
        // The members of a schema keep their order, which is that of the arguments.
        Ok(format!(
            r#"{{"type":"tag","begin":{begin},"content":{{"type":"json_schema","style":"{style}","json_schema":{schema}}},"end":{end}}}"#
        ))
    }
}
