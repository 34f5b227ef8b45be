//! `--tools` and `explain --mcp`: lists of tools in each form, and the calls that each style allows.

use serde_json::{Value, json};

use crate::support::{Files, Run};

const AGE: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}, "age": {"type": "integer"}},
 "required": ["name"], "additionalProperties": false}"#;
const OPEN: &str = r#"{"type": "object", "properties": {}, "additionalProperties": false}"#;

fn files() -> Files {
    let mcp = format!(
        r#"[{{"name": "age", "title": "Age", "inputSchema": {AGE}, "annotations": {{}}}}, {{"name": "stop", "inputSchema": {OPEN}}}]"#
    );
    let open_ai = format!(
        r#"[{{"type": "function", "function": {{"name": "age", "description": "d", "parameters": {AGE}}}}},
            {{"type": "function", "function": {{"name": "stop"}}}}]"#
    );
    let object = format!(r#"{{"tools": {mcp}}}"#);
    let answer = format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {object}}}"#);
    Files::new(&[
        ("mcp.json", mcp.as_bytes()),
        ("open-ai.json", open_ai.as_bytes()),
        ("object.json", object.as_bytes()),
        ("answer.json", answer.as_bytes()),
    ])
}

/// Whether a text is a whole output.
fn accepted(files: &Files, list: &str, style: &str, choice: &str, text: &str) -> bool {
    let args = ["check", "--tools", list, "--tool-style", style, "--tool-choice", choice, "--text", text];
    let run = files.run(&[&args[..], &["--format", "json"]].concat());
    run.json()[0]["accepted"].as_bool().unwrap()
}

#[test]
fn calls_of_each_style() {
    let files = files();
    let (age, wrong) = (r#"{"name": "Ada", "age": 7}"#, r#"{"name": "Ada", "age": "7"}"#);
    let hermes = |name: &str, arguments: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
    };
    let llama =
        |name: &str, arguments: &str| format!("{{\"name\": \"{name}\", \"parameters\": {arguments}}}");
    let qwen = |name: &str, age: &str| {
        format!(
            "<tool_call>\n<function={name}>\n<parameter=name>\nAda\n</parameter>\n<parameter=age>\n{age}\n</parameter>\n\
             </function>\n</tool_call>"
        )
    };
    // One call that is right, one with a wrong argument, one of another tool, and what stands between two calls.
    let styles: [(&str, [String; 3], &str); 3] = [
        ("hermes", [hermes("age", age), hermes("age", wrong), hermes("stop", "{}")], "\n"),
        ("llama", [llama("age", age), llama("age", wrong), llama("stop", "{}")], "; "),
        (
            "qwen3-coder",
            [
                qwen("age", "7"),
                qwen("age", "old"),
                "<tool_call>\n<function=stop>\n\n</function>\n</tool_call>".to_owned(),
            ],
            "\n",
        ),
    ];
    for (style, [right, wrong, other], between) in &styles {
        let is = |choice: &str, text: &str| accepted(&files, "mcp.json", style, choice, text);
        for (text, auto, required, named) in [
            (right.clone(), true, true, true),
            (wrong.clone(), false, false, false),
            (other.clone(), true, true, false),
            ("no call".to_owned(), true, false, false),
            (format!("first {right}"), true, false, false),
            (format!("{right}{between}{other}"), true, true, false),
            (String::new(), true, false, false),
        ] {
            let found = [is("auto", &text), is("required", &text), is("age", &text)];
            assert_eq!(found, [auto, required, named], "{style}: {text}");
        }
    }
}

#[test]
fn lists_of_each_form_are_one() {
    let files = files();
    let convert = |list: &str| {
        let args = ["explain", "--tools", list, "--tool-style", "hermes", "--tool-choice", "required"];
        let run = files.run(&[&args[..], &["--format", "json"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    };
    let mcp = convert("mcp.json");
    assert!(mcp.contains("maxLength"), "{mcp}");
    for list in ["open-ai.json", "object.json", "answer.json"] {
        assert_eq!(convert(list), mcp, "{list}");
    }
    let run = files.run(&[
        "generate",
        "--tools",
        "mcp.json",
        "--tool-style",
        "hermes",
        "--tool-choice",
        "stop",
        "--seed",
        "1",
    ]);
    assert!(
        run.stdout.starts_with("<tool_call>\n{\"name\": \"stop\", \"arguments\": {"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

/// Such a mark is written as the token, and as its text where the vocabulary has none.
#[test]
fn marks_are_control_tokens_where_there_are_such() {
    let files = files();
    let mut tokenizer: Value = serde_json::from_str(unskew::tiny_model::TOKENIZER_JSON).unwrap();
    let token = json!({"id": 2048, "content": "<tool_call>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    tokenizer["added_tokens"].as_array_mut().unwrap().push(token);
    std::fs::write(files.path("t.json"), tokenizer.to_string()).unwrap();
    let mask = |more: &[&str]| {
        let args =
            ["mask", "--tools", "mcp.json", "--tool-style", "hermes", "--tool-choice", "required", "--list"];
        files.run(&[&args[..], more, &["--format", "json"]].concat()).json()[0]["ids"].clone()
    };
    assert_eq!(mask(&["--tokenizer", "t.json"]), json!([2048]));
    assert!(!mask(&[]).as_array().unwrap().is_empty());
}

#[test]
fn what_is_no_list_or_no_choice_is_refused() {
    let files = files();
    let refusal = |args: &[&str]| files.run(&[&["mask"], args].concat()).refusal().to_owned();
    let with = |list: &str| {
        std::fs::write(files.path("l.json"), list).unwrap();
        refusal(&["--tools", "l.json", "--tool-style", "hermes"])
    };
    for (list, words) in [
        ("{", "l.json: `tools` is an array of tools"),
        ("{}", "`tools` is missing"),
        (r#"[{"inputSchema": {}}]"#, "`tools/0`: `name` is missing"),
        (r#"{"tools": [], "nextCursor": "2"}"#, "`nextCursor`"),
        (
            r#"[{"name": "a", "inputSchema": {}}, {"name": "a", "inputSchema": {}}]"#,
            "another tool with the name \"a\"",
        ),
    ] {
        assert!(with(list).contains(words), "{list}: {}", with(list));
    }
    let of = |more: &[&str]| refusal(&[&["--tools", "mcp.json"], more].concat());
    assert!(of(&[]).contains("--tool-style"), "{}", of(&[]));
    let none = of(&["--tool-style", "hermes", "--tool-choice", "walk"]);
    assert!(none.contains("\"walk\", which is none of the tools"), "{none}");
    let unknown = of(&["--tool-style", "gpt-7"]);
    assert!(unknown.contains("\"gpt-7\"") && unknown.contains("qwen_3"), "{unknown}");
    assert!(of(&["--tool-style", "hermes", "--regex", "a"]).contains("cannot be used with"));
    assert!(refusal(&["--tool-choice", "auto"]).contains("--tools"));
}

#[test]
fn fates_of_the_tools_of_a_server() {
    let files = files();
    let run = files.run(&["explain", "--mcp", "answer.json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(
        lines[0].starts_with("enforced   age: ") && lines[1].starts_with("enforced   stop: "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);

    let list = json!({"tools": [
        {"name": "good", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}},
        {"name": "some", "inputSchema": {"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "uniqueItems": true}}}},
    ]});
    std::fs::write(files.path("mixed.json"), list.to_string()).unwrap();
    let check = |run: &Run| {
        assert_eq!(run.code, 2, "{}", run.stdout);
        assert!(run.stderr.contains("tools whose arguments are not enforced: odd\n"), "{}", run.stderr);
    };
    let run = files.run(&["explain", "--mcp", "mixed.json"]);
    check(&run);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[1].starts_with("rejected   odd: #/properties/a pattern: "), "{lines:?}");
    let run = files.run(&["explain", "--mcp", "mixed.json", "--format", "jsonl"]);
    check(&run);
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fates: Vec<_> =
        lines.iter().map(|line| (line["tool"].as_str().unwrap(), line["fate"].as_str().unwrap())).collect();
    assert_eq!(fates, [("good", "enforced"), ("odd", "rejected"), ("some", "narrowed")]);
    assert!(
        lines[0]["constructs"].as_array().unwrap().iter().any(|one| one["construct"] == "properties"),
        "{}",
        lines[0]
    );
    let both = files.run(&["explain", "--mcp", "mixed.json", "--regex", "a"]);
    assert!(both.refusal().contains("cannot be used with"), "{}", both.stderr);
}
