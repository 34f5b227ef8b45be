//! `explain`: what is enforced, how, and what is refused, with the places in the text that was given.

use serde::Serialize;
use unskew::{
    Explained, Language, Spec,
    engine::{Compiler, Place as Found, Places, Until},
    spec::Source,
};
use wasm_bindgen::prelude::*;

use crate::{
    Tokenizer,
    constraint::FUEL,
    fault::{Fault, Place, json},
    spec::Given,
    text::Text,
};

/// The most values of a schema whose places are kept.
const MAX_VALUES: usize = 1 << 20;

#[derive(Debug, Serialize)]
struct Construct {
    #[serde(flatten)]
    explained: Explained,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
}

#[derive(Debug, Serialize)]
struct Tool {
    tool: String,
    fate: &'static str,
    constructs: Vec<Construct>,
}

#[derive(Debug, Default, Serialize)]
struct Explanation {
    ok: bool,
    constructs: Vec<Construct>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Tool>>,
}

/// The fates of all constructs of a spec, as JSON. What cannot be read is an answer too. With a tokenizer the
/// constraint is compiled, and what its tokens do not write is an answer.
#[wasm_bindgen]
pub fn explain(spec: &str, tokenizer: Option<Tokenizer>) -> String {
    let explanation = explained(spec, tokenizer.as_ref())
        .unwrap_or_else(|fault| Explanation { error: Some(fault), ..Explanation::default() });
    json(&explanation)
}

fn explained(json: &str, tokenizer: Option<&Tokenizer>) -> Result<Explanation, Fault> {
    let given = Given::read(json)?;
    let Some(spec) = &given.spec else { return Ok(of_tools(&given)) };
    let source = given.is_text.then(|| source(spec)).flatten();
    let mut constructs = match spec.explain() {
        Ok(constructs) => constructs,
        // Choices have no constructs, and are enforced as they are.
        Err(_) if matches!(spec.language, Language::Anything | Language::Choices(_)) => Vec::new(),
        Err(error) => return Err(placed(&error, source)),
    };
    if let Some(tokenizer) = tokenizer {
        let until = Until { fuel: Some(FUEL), ..Until::default() };
        let compiled = Compiler::shared(&tokenizer.tokens).compile_until(spec, &until);
        match compiled {
            Ok(compiled) => {
                constructs.extend(compiled.explain_left_out());
                constructs.extend(compiled.explain_quoted(spec).map_err(|error| placed(&error, source))?);
            }
            Err(_) if constructs.iter().any(|construct| construct.fate == "rejected") => {}
            Err(error) => return Err(placed(&error, source)),
        }
    }
    let ok = constructs.iter().all(|construct| construct.fate != "rejected");
    let constructs = placed_constructs(constructs, source);
    Ok(Explanation { ok, constructs, notes: spec.notes(), ..Explanation::default() })
}

/// The fates of the arguments of each tool.
fn of_tools(given: &Given) -> Explanation {
    let mut tools = Vec::new();
    for tool in &given.tools {
        let constructs = Spec::json_schema(&*tool.parameters).explain();
        let (fate, constructs) = match constructs {
            Ok(constructs) => (Explained::worst(&constructs), placed_constructs(constructs, None)),
            Err(error) => {
                let Fault { message, .. } = Fault::of_engine(&error);
                return Explanation {
                    error: Some(Fault::new("constraint", format!("`{}`: {message}", tool.name))),
                    ..Explanation::default()
                };
            }
        };
        tools.push(Tool { tool: tool.name.clone(), fate, constructs });
    }
    let ok = tools.iter().all(|tool| tool.fate != "rejected");
    Explanation { ok, tools: Some(tools), ..Explanation::default() }
}

/// The text that places are in.
pub(crate) fn source(spec: &Spec) -> Option<&str> {
    let source = match &spec.language {
        Language::Regex(regex) => &regex.source,
        Language::Grammar(grammar) => &grammar.source,
        Language::JsonSchema(schema) => &schema.source,
        Language::StructuralTag(tag) => &tag.source,
        _ => return None,
    };
    match source {
        Source::Text(text) => Some(text),
        Source::File(_) => None,
    }
}

/// An error with its place in the text.
pub(crate) fn placed(error: &unskew::engine::Error, text: Option<&str>) -> Fault {
    let mut fault = Fault::of_engine(error);
    let found = match error {
        unskew::engine::Error::Constraint(source) => Found::of(&**source),
        _ => None,
    };
    let path = match &found {
        Some(Found::Pointer(pointer)) => Some(pointer.clone()),
        _ => None,
    };
    let range = found.zip(text).and_then(|(found, text)| Some((found.range(text)?, text)));
    fault.place = match (range, path) {
        (Some((range, text)), path) => Some(Box::new(Place { path, ..Text::new(text).place(&range) })),
        (None, Some(path)) => Some(Box::new(Place { path: Some(path), ..Place::default() })),
        (None, None) => None,
    };
    fault
}

fn placed_constructs(constructs: Vec<Explained>, text: Option<&str>) -> Vec<Construct> {
    let places = text.map(Text::new);
    let has_pointers = constructs.iter().any(|construct| construct.pointer.is_some());
    let values = text.filter(|_| has_pointers).map(|text| Places::of(text, MAX_VALUES));
    let place = |construct: &Explained| {
        if let Some(pointer) = &construct.pointer {
            let path = Some(pointer.clone());
            // The keyword, where the construct is one.
            let range = values.as_ref().and_then(|values| {
                let keyword = construct.construct.replace('~', "~0").replace('/', "~1");
                values.range(&format!("{pointer}/{keyword}"))
            });
            return Some(match (range, &places) {
                (Some(range), Some(places)) => Place { path, ..places.place(&range) },
                _ => Place { path, ..Place::default() },
            });
        }
        let (line, column) = construct.span.as_deref()?.split_once(':')?;
        let (line, column) = (line.parse().ok()?, column.parse().ok()?);
        let Some(places) = &places else {
            return Some(Place { line: Some(line), column: Some(column), ..Place::default() });
        };
        let byte = places.byte(line, column)?;
        Some(places.place(&(byte..byte)))
    };
    let with_place = |explained: Explained| {
        let place = place(&explained);
        Construct { explained, place }
    };
    constructs.into_iter().map(with_place).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn explain(spec: &Value) -> Value {
        serde_json::from_str(&super::explain(&spec.to_string(), None)).unwrap()
    }

    /// What stands at the place of a construct.
    fn at<'a>(text: &'a str, place: &Value) -> &'a str {
        let index = |name: &str| usize::try_from(place[name].as_u64().unwrap()).unwrap();
        &text[index("start")..index("end")]
    }

    #[test]
    fn constructs_have_the_places_of_their_keywords() {
        let schema = "{\n  \"properties\": {\"age\": {\"type\": \"integer\",\n   \"minimum\": 18}}\n}";
        let answer = explain(&json!({ "json_schema": schema }));
        assert_eq!(answer["ok"], true);
        let minimum = answer["constructs"].as_array().unwrap();
        let minimum = minimum.iter().find(|construct| construct["construct"] == "minimum").unwrap();
        assert_eq!(at(schema, &minimum["place"]), "18");
        assert_eq!(
            (&minimum["place"]["line"], &minimum["place"]["path"]),
            (&json!(3), &json!("#/properties/age"))
        );
        // As a value, there is no text to point into.
        let value: Value = serde_json::from_str(schema).unwrap();
        let answer = explain(&json!({ "json_schema": value }));
        assert!(answer["constructs"][0]["place"]["start"].is_null());
    }

    #[test]
    fn faults_are_answers_with_places() {
        let answer = explain(&json!({ "regex": "é(" }));
        assert_eq!((&answer["ok"], &answer["error"]["kind"]), (&json!(false), &json!("constraint")));
        assert_eq!(answer["error"]["place"]["start"], 1);
        let text = r#"{"pattern": "(a", "type": "string"}"#;
        let answer = explain(&json!({ "json_schema": text }));
        assert_eq!(answer["ok"], false, "{answer}");
        let grammar = "start: \"a\" nothing\n";
        let answer = explain(&json!({ "grammar": grammar, "grammar_format": "lark" }));
        assert!(answer["ok"] == false && answer.to_string().contains("nothing"), "{answer}");
        let answer = explain(&json!({ "json_schema": "{" }));
        assert_eq!(
            (&answer["error"]["kind"], &answer["error"]["place"]["line"]),
            (&json!("constraint"), &json!(1))
        );
        let answer = explain(&json!({ "regx": "a" }));
        assert_eq!(answer["error"]["kind"], "spec");
        assert_eq!(explain(&json!({ "choices": ["a"] }))["ok"], true);
    }

    #[test]
    fn tools_have_the_worst_fate_of_their_constructs() {
        let tools = json!([
            {"name": "a", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            {"name": "b", "inputSchema": {"type": "object", "properties": {"n": {"minimum": "x"}}}},
        ]);
        let answer = explain(&json!({ "tools": tools }));
        assert_eq!(answer["ok"], false);
        let fates: Vec<&Value> =
            answer["tools"].as_array().unwrap().iter().map(|tool| &tool["fate"]).collect();
        assert_eq!(fates, [&json!("enforced"), &json!("rejected")], "{answer}");
    }
}
