//! Specs from JavaScript: the JSON form of [`Spec`], with `tools` besides.
//!
//! There are no files in a page, so an option that names one is refused here, before a file system says that there is
//! none. Tools become a structural tag by the family of a model, as the command line's `--tools` does.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use unskew::{
    Language, Spec, chain,
    spec::{RegistrySource, Source},
    tools::{Tool, ToolChoice, ToolRequest, families},
};

use crate::fault::Fault;

/// The longest text of a spec, in bytes: far beyond the limits of the engines, whose errors name the size.
const MAX_BYTES: usize = 1 << 28;

/// What JavaScript asks for.
#[derive(Debug)]
pub(crate) struct Given {
    /// The constraint; of tools without a family there is none.
    pub(crate) spec: Option<Spec>,
    /// The tools, where some are given.
    pub(crate) tools: Vec<Tool>,
    /// Whether places are those in a text that the caller has: a schema may be given as a value.
    pub(crate) is_text: bool,
}

impl Given {
    /// Reads the JSON of a spec.
    pub(crate) fn read(json: &str) -> Result<Self, Fault> {
        if json.len() > MAX_BYTES {
            let why =
                format!("the spec has {} bytes, and {MAX_BYTES} is the limit; make it smaller", json.len());
            return Err(Fault::new("spec", why));
        }
        let wrong =
            |error: serde_json::Error| Fault::new("spec", format!("not a constraint in JSON: {error}"));
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).map_err(wrong)?;
        let is_written = |name: &str| fields.get(name).is_some_and(|value| value.get().starts_with('"'));
        let is_text = ["regex", "grammar", "json_schema", "structural_tag"].into_iter().any(is_written);
        if !fields.contains_key("tools") {
            for name in ["tool_style", "tool_choice"] {
                if fields.contains_key(name) {
                    return Err(Fault::new(
                        "spec",
                        format!("`{name}` is for `tools`; give both, or leave it out"),
                    ));
                }
            }
            let spec = of_json(json)?;
            return Ok(Self { spec: Some(spec), tools: Vec::new(), is_text });
        }
        let tools = tools(fields["tools"])?;
        let word = |name: &'static str| {
            let value = fields.get(name).map(|value| serde_json::from_str::<String>(value.get()));
            value.transpose().map_err(|_| Fault::new("spec", format!("`{name}` is a text")))
        };
        let (style, choice) = (word("tool_style")?, word("tool_choice")?);
        let mut rest = fields.clone();
        for name in ["tools", "tool_style", "tool_choice"] {
            rest.remove(name);
        }
        let base = of_json(&crate::fault::json(&rest))?;
        if base.language != Language::Anything {
            return Err(Fault::new("spec", "`tools` and another constraint are two; give one of them"));
        }
        let Some(style) = style else {
            if choice.is_some() {
                return Err(Fault::new(
                    "spec",
                    "`tool_choice` needs a `tool_style`, the family of the model",
                ));
            }
            return Ok(Self { spec: None, tools, is_text: false });
        };
        let mut request = ToolRequest::of_model(&style).map_err(|error| Fault::of_engine(&error))?;
        request.choice = match choice.as_deref() {
            None | Some("auto") => ToolChoice::Auto,
            Some("required") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            Some(name) => ToolChoice::Named(name.to_owned()),
        };
        let spec = request.spec(&tools).map_err(|error| Fault::of_engine(&error))?;
        Ok(Self { spec: Some(Spec { language: spec.language, ..base }), tools, is_text: false })
    }

    /// The constraint that is to be compiled.
    pub(crate) fn constraint(self) -> Result<Spec, Fault> {
        self.spec.ok_or_else(|| {
            let families = families().collect::<Vec<_>>().join(", ");
            let why = format!(
                "`tools` need a `tool_style`, the family of the model that calls them: one of {families}"
            );
            Fault::new("spec", why)
        })
    }
}

/// A list of tools, or its text.
fn tools(value: &RawValue) -> Result<Vec<Tool>, Fault> {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    Tool::list(text.as_deref().unwrap_or(value.get()), None).map_err(|error| Fault::of_engine(&error))
}

fn of_json(json: &str) -> Result<Spec, Fault> {
    let spec = Spec::from_json(json).map_err(|error| Fault::new("spec", chain(&error)))?;
    without_files(&spec)?;
    Ok(spec)
}

/// Refuses what names files.
fn without_files(spec: &Spec) -> Result<(), Fault> {
    let refused = |name: &str, instead: &str| {
        Err(Fault::new("spec", format!("`{name}` names a file, and there are none here; give {instead}")))
    };
    match &spec.language {
        Language::Regex(regex) if is_file(&regex.source) => refused("regex_file", "`regex`"),
        Language::Grammar(grammar) if is_file(&grammar.source) => refused("grammar_file", "`grammar`"),
        Language::Grammar(grammar) => grammar.grammars.values().try_for_each(without_files),
        Language::JsonSchema(schema) if is_file(&schema.source) => {
            refused("json_schema_file", "`json_schema`")
        }
        Language::JsonSchema(schema) if matches!(schema.registry, Some(RegistrySource::Folder(_))) => {
            refused("schema_registry", "the schemas by their names")
        }
        Language::StructuralTag(tag) if is_file(&tag.source) => {
            refused("structural_tag_file", "`structural_tag`")
        }
        Language::Set(_) => refused("set", "`choices`"),
        Language::ExcludeSet(_) => refused("exclude_set", "a `regex` or a `grammar`"),
        Language::AnyOf(parts) | Language::Sequence(parts) => parts.iter().try_for_each(without_files),
        _ => Ok(()),
    }
}

fn is_file(source: &Source) -> bool {
    matches!(source, Source::File(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_those_of_the_library() {
        let given = Given::read(r#"{"regex": "[0-9]{2}", "canonical": true}"#).unwrap();
        assert!(given.is_text && given.spec == Some(Spec::regex("[0-9]{2}").canonical()));
        assert!(!Given::read(r#"{"json_schema": {"type": "integer"}}"#).unwrap().is_text);
        assert!(Given::read(r#"{"json_schema": "{\"type\": \"integer\"}"}"#).unwrap().is_text);
        assert_eq!(Given::read("{}").unwrap().spec, Some(Spec::default()));
    }

    #[test]
    fn tools_become_a_constraint_of_a_family() {
        let tools = r#"[{"name": "add", "inputSchema": {"type": "object"}}]"#;
        let read = |rest: &str| Given::read(&format!(r#"{{"tools": {tools}{rest}}}"#));
        let given =
            read(r#", "tool_style": "qwen_3", "tool_choice": "required", "canonical": true"#).unwrap();
        let mut request = ToolRequest::of_model("qwen_3").unwrap();
        request.choice = ToolChoice::Required;
        let expected = request.spec(&Tool::list(tools, None).unwrap()).unwrap().canonical();
        assert_eq!(given.spec, Some(expected));
        let without = read("").unwrap();
        assert_eq!((without.spec.clone(), without.tools.len()), (None, 1));
        assert!(without.constraint().unwrap_err().message.contains("qwen_3"));
        let text = format!(r#"{{"tools": {}}}"#, serde_json::to_string(tools).unwrap());
        assert_eq!(Given::read(&text).unwrap().tools, Tool::list(tools, None).unwrap());
        for (rest, words) in [
            (r#", "regex": "a""#, "two"),
            (r#", "tool_choice": "auto""#, "tool_style"),
            (r#", "tool_style": "none such""#, "qwen_3"),
            (r#", "tool_style": 3"#, "text"),
            (r#", "tool_style": "qwen_3", "tool_choice": "sub""#, "none of the tools"),
        ] {
            let error = read(rest).unwrap_err();
            assert!(error.message.contains(words), "{error:?}");
        }
    }

    #[test]
    fn files_are_refused() {
        for (json, words) in [
            (r#"{"regex_file": "a"}"#, "`regex`"),
            (r#"{"any_of": [{"regex": "a"}, {"set": "a"}]}"#, "`choices`"),
            (r#"{"exclude_set": "a"}"#, "`regex`"),
            (r#"{"grammar_file": "a.lark"}"#, "`grammar`"),
            (r#"{"json_schema": {}, "schema_registry": "a"}"#, "by their names"),
            (
                r#"{"grammar": "start: @a", "grammar_format": "lark", "grammars": {"a": {"json_schema_file": "a"}}}"#,
                "json_schema",
            ),
            (r#"{"structural_tag_file": "a"}"#, "structural_tag"),
            (r#"{"tool_choice": "auto"}"#, "for `tools`"),
            ("[]", "not a constraint"),
            (r#"{"regx": "a"}"#, "regx"),
        ] {
            let error = Given::read(json).unwrap_err();
            assert!(error.kind == "spec" && error.message.contains(words), "{error:?}");
        }
    }
}
