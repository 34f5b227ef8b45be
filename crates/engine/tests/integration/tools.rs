//! Tools: lists of them as servers have them, and the outputs of every family of models. The languages are compared
//! with XGrammar's builders in the tests of the Python package.

use std::sync::Arc;

use unskew_core::{TokenId, Vocabulary};
use unskew_engine::{
    Compiler, Spec, TokenSpace,
    tools::{Reasoning, Tool, ToolChoice, ToolRequest, families},
};

use crate::common::bytes;

const TOOLS: &str = r#"{"tools": [
    {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    {"name": "stop"}]}"#;

fn tools() -> Vec<Tool> {
    Tool::list(TOOLS, Some(true)).unwrap()
}

fn request(model: &str, choice: ToolChoice) -> ToolRequest {
    let mut request = ToolRequest::of_model(model).unwrap();
    request.choice = choice;
    request
}

fn ids(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(u32::from(byte))).collect()
}

fn accepts(compiler: &Compiler, spec: &Spec, ids: &[TokenId]) -> bool {
    let mut matcher = compiler.compile(spec).unwrap_or_else(|error| panic!("{spec}: {error}")).matcher();
    matcher.accept_all(ids).unwrap() == ids.len() && matcher.is_accepting()
}

#[test]
fn lists_of_tools() {
    let expected = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
    let [add, stop] = &tools()[..] else { panic!("two tools") };
    assert_eq!((&*add.name, &*add.description, &*add.parameters), ("add", "Adds.", expected));
    assert_eq!((&*stop.name, &*stop.description), ("stop", ""));
    let schema = r#"{"type":"object"}"#;
    for text in [
        format!(r#"[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#),
        format!(r#"[{{"type":"function","name":"f","parameters":{schema}}}]"#),
        format!(r#"[{{"name":"f","input_schema":{schema},"cache_control":null}}]"#),
        format!(r#"{{"tools":[{{"name":"f","title":"F","inputSchema":{schema}}}]}}"#),
        format!(r#"{{"id":1,"result":{{"tools":[{{"name":"f","inputSchema":{schema}}}]}}}}"#),
    ] {
        let [tool] = &Tool::list(&text, None).unwrap()[..] else { panic!("one tool: {text}") };
        assert_eq!((&*tool.name, &*tool.parameters), ("f", schema), "{text}");
    }
    for (text, message) in [
        ("1", "`tools` is an array of tools"),
        (r#"{"tool": []}"#, "`tools` is missing"),
        (r#"{"tools": [], "nextCursor": "x"}"#, "ask the server for all pages"),
        (r#"[{"type": "web_search"}]"#, "`tools/0/type` is \"web_search\""),
        (r#"[{"name": "a b"}]"#, "`tools/0/name` is \"a b\""),
        (r#"[{"name": "a"}, {"name": "a"}]"#, "`tools/1`: there is another tool with the name \"a\""),
        (r#"[{"name": "a", "parameters": {}, "inputSchema": {}}]"#, "are two schemas"),
    ] {
        let error = Tool::list(text, None).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// Each family takes every choice, and a call that is required is there.
#[test]
fn every_family() {
    let compiler = Compiler::new(bytes());
    assert_eq!(families().count(), 20);
    for family in families() {
        for reasoning in [Reasoning::Disabled, Reasoning::Enabled, Reasoning::Auto] {
            for choice in [
                ToolChoice::Auto,
                ToolChoice::None,
                ToolChoice::Required,
                ToolChoice::Named("stop".to_owned()),
            ] {
                for response in [None, Some(r#"{"type":"json_schema","json_schema":{"type":"null"}}"#)] {
                    let mut request = request(family, choice.clone());
                    assert_eq!(request.family(), family);
                    (request.reasoning, request.response) = (reasoning, response.map(str::to_owned));
                    match request.spec(&tools()) {
                        Ok(spec) => assert!(compiler.compile(&spec).is_ok(), "{family} {choice:?}"),
                        Err(error) => {
                            assert!(
                                reasoning == Reasoning::Enabled && error.to_string().contains("no marks")
                            );
                        }
                    }
                }
            }
        }
    }
    let spec = request("qwen_3", ToolChoice::Required).spec(&tools()).unwrap();
    let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 1}}\n</tool_call>";
    for (text, expected) in
        [(call.to_owned(), true), (format!("{call} and {call}"), true), (format!("x{call}"), false)]
    {
        assert_eq!(accepts(&compiler, &spec, &ids(&text)), expected, "{text}");
    }
    assert!(!accepts(&compiler, &spec, &ids(&call.replace("add", "sub"))));
}

/// A mark is its token where the vocabulary has one of its name, and its text where not.
#[test]
fn marks_are_control_tokens_where_there_are_some() {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    let [calls, args] = ["[TOOL_CALLS]", "[ARGS]"].map(|name| builder.control(name));
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    let control = Compiler::new(Arc::new(TokenSpace::from_vocabulary(Arc::new(builder.build().unwrap()))));
    let spec = request("mistral_v13", ToolChoice::Auto).spec(&tools()).unwrap();
    let call = [&ids("So: ")[..], &[calls], &ids("add"), &[args], &ids("{\"n\": 1}")].concat();
    let text = ids("So: [TOOL_CALLS]add[ARGS]{\"n\": 1}");
    assert!(accepts(&control, &spec, &call) && !accepts(&control, &spec, &text));
    assert!(accepts(&Compiler::new(bytes()), &spec, &text));
}

#[test]
fn what_is_refused() {
    let error = |model: &str, choice: ToolChoice, reasoning| {
        let request = ToolRequest::of_model(model).map(|mut request| {
            (request.choice, request.reasoning) = (choice, reasoning);
            request
        });
        request.and_then(|request| request.spec(&[])).unwrap_err().to_string()
    };
    let unknown = error("gemma-4-27b", ToolChoice::Auto, Reasoning::Auto);
    assert!(unknown.contains("\"gemma-4-27b\"") && families().all(|family| unknown.contains(family)));
    assert!(error("llama", ToolChoice::Required, Reasoning::Disabled).contains("there are no tools"));
    assert!(error("llama", ToolChoice::Named("f".to_owned()), Reasoning::Disabled).contains("names \"f\""));
    assert!(error("llama", ToolChoice::Auto, Reasoning::Enabled).contains("no marks of reasoning"));
}
