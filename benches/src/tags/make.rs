//! Random structural tags and token sequences that they nearly have.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde_json::{Value, json};
use unskew_core::{TokenId, Vocabulary};

pub(super) struct Maker<'v> {
    random: ChaCha8Rng,
    vocabulary: &'v Vocabulary,
}

/// A piece of a sequence.
enum Piece {
    Text(String),
    Token(TokenId),
}

const TEXTS: &[&str] = &["a", "b", "ab", "<", "<a", "<ab", ">", "a>", "ba", "aba", "<b", "b>", "aa"];
const NOISE: &[&str] = &["a", "b", "<", ">", "ab", "1", "x", "é"];
/// Tokens of text that are named: by number, or by their text.
const NAMED: &[&str] = &["ab", "aba", "<a", "a", "b", "><"];

/// Schemas with an instance of each, and whether it is an object of parameters.
const SCHEMAS: &[(&str, &[&str], bool)] = &[
    (
        r#"{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"}},"required":["a"],"additionalProperties":false}"#,
        &[r#"{"a":"ab","n":12}"#, r#"{"a":"x<b>"}"#, r#"{"a":"é \n","n":-1}"#, r#"{"n":1}"#],
        true,
    ),
    (
        r#"{"type":"object","properties":{"b":{"type":"boolean"},"s":{"type":"string"},"o":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},"required":["b","o"],"additionalProperties":false}"#,
        &[
            r#"{"b":true,"s":"aba","o":{"x":"1"}}"#,
            r#"{"b":false,"o":{"x":"ab>","y":3}}"#,
            r#"{"b":1,"o":{}}"#,
        ],
        true,
    ),
    (
        r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2},"k":{"enum":["ab","x<"]},"z":{"type":"null"}},"required":[],"additionalProperties":false}"#,
        &[r#"{"l":[1,2],"k":"ab"}"#, r#"{"k":"x<","z":null}"#, "{}", r#"{"l":[]}"#],
        true,
    ),
    (r#"{"type":"string"}"#, &[r#""ab""#, r#""<a>""#, r#""\u0061b""#, r#""a\"b""#], false),
    (r#"{"type":"array","items":{"enum":["a","ab",1]}}"#, &[r#"["a","ab",1]"#, "[]", r#"["b"]"#], false),
];

const STYLES: &[&str] = &[
    "qwen_xml",
    "minimax_xml",
    "minimax_m3_xml",
    "deepseek_xml",
    "glm_xml",
    "cohere_xml",
    "kimi_k3_xml",
    "deepseek_v4_1_xml",
];

impl<'v> Maker<'v> {
    pub(super) fn new(seed: u64, vocabulary: &'v Vocabulary) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), vocabulary }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn texts(&mut self, least: usize, most: usize) -> Vec<&'static str> {
        let mut texts = Vec::new();
        for _ in 0..least + self.below(most - least + 1) {
            let text = self.pick(TEXTS);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// A token of text by its number or its text.
    fn token(&mut self) -> Value {
        let text = self.pick(NAMED);
        match self.below(2) {
            0 => json!(text),
            _ => json!(self.id(text).0),
        }
    }

    fn tokens(&mut self, most: usize) -> Vec<Value> {
        (0..self.below(most + 1)).map(|_| self.token()).collect()
    }

    fn id(&self, text: &str) -> TokenId {
        let found = self.vocabulary.text_tokens().find(|(_, other)| *other == text.as_bytes());
        found.expect("it is a token").0
    }

    /// The token that a value names.
    fn named(&self, value: &Value) -> TokenId {
        match value.as_u64() {
            Some(id) => TokenId(u32::try_from(id).unwrap_or(0)),
            None => self.id(value.as_str().unwrap_or("a")),
        }
    }

    pub(super) fn format(&mut self) -> Value {
        let depth = self.below(4);
        self.of_depth(depth)
    }

    fn of_depth(&mut self, depth: usize) -> Value {
        match if depth == 0 { self.below(11) } else { self.below(26) } {
            0 | 1 => json!({"type": "const_string", "value": self.pick(TEXTS)}),
            2 => match self.below(3) {
                0 => json!({"type": "any_text", "excludes": self.texts(0, 1), "max_chars": self.below(4)}),
                _ => json!({"type": "any_text", "excludes": self.texts(0, 2)}),
            },
            3 => json!({"type": "regex", "pattern": self.pick(&["[0-9]+", "a*b", "[^b]{1,2}"])}),
            4 => json!({"type": "token", "token": self.token()}),
            5 => json!({"type": "exclude_token", "exclude_tokens": self.tokens(3)}),
            6 => match self.below(3) {
                0 => {
                    json!({"type": "any_tokens", "exclude_tokens": self.tokens(3), "max_tokens": self.below(4)})
                }
                _ => json!({"type": "any_tokens", "exclude_tokens": self.tokens(3)}),
            },
            7 | 8 => self.schema(),
            9 => json!({"type": "grammar", "grammar": "root ::= \"(\" root? \")\" | [a-b]+"}),
            10 => json!({"type": "const_string", "value": self.pick(&["a", "<ab", "é"])}),
            11..=13 => self.several("sequence", depth),
            14 => self.several("or", depth),
            15 => {
                let content = self.of_depth(depth - 1);
                match self.below(4) {
                    0 => json!({"type": "optional", "content": content}),
                    1 => json!({"type": "plus", "content": content}),
                    2 => json!({"type": "star", "content": content}),
                    _ => {
                        let (min, max) = self.pick(&[(0, 2), (1, 2), (2, -1), (0, 0), (1, 3)]);
                        json!({"type": "repeat", "min": min, "max": max, "content": content})
                    }
                }
            }
            16 => json!({
                "type": "tags_with_separator",
                "tags": (0..1 + self.below(2)).map(|_| self.tag(depth, None)).collect::<Vec<_>>(),
                "separator": self.pick(&["", ",", "a", "<"]),
                "at_least_one": self.below(2) == 0,
                "stop_after_first": self.below(3) == 0,
            }),
            17 | 18 => {
                let rules = self.texts(1, 2);
                let rules: Vec<_> =
                    rules.into_iter().map(|trigger| json!([trigger, self.of_depth(depth - 1)])).collect();
                json!({"type": "dispatch", "rules": rules, "excludes": self.texts(0, 1), "loop": self.below(3) > 0})
            }
            19 | 20 => {
                let triggers = self.texts(1, 2);
                let mut tags = Vec::new();
                for trigger in &triggers {
                    for _ in 0..1 + self.below(2) {
                        tags.push(self.tag(depth, Some(trigger)));
                    }
                }
                json!({
                    "type": "triggered_tags",
                    "triggers": triggers,
                    "tags": tags,
                    "excludes": self.texts(0, 1),
                    "at_least_one": self.below(3) == 0,
                    "stop_after_first": self.below(3) == 0,
                })
            }
            21 => {
                let trigger = self.token();
                let content = self.of_depth(depth - 1);
                let begin = json!({"type": "token", "token": trigger});
                json!({
                    "type": "token_triggered_tags",
                    "trigger_tokens": [trigger],
                    "tags": [{"type": "tag", "begin": begin, "content": content, "end": self.end()}],
                    "exclude_tokens": self.tokens(2),
                    "at_least_one": self.below(3) == 0,
                    "stop_after_first": self.below(3) == 0,
                })
            }
            22 => json!({
                "type": "token_dispatch",
                "rules": [[self.token(), self.of_depth(depth - 1)]],
                "exclude_tokens": self.tokens(2),
                "loop": self.below(3) > 0,
            }),
            23 => {
                let begin = json!({"type": "token", "token": self.token()});
                json!({"type": "tag", "begin": begin, "content": self.of_depth(depth - 1), "end": self.end()})
            }
            _ => self.tag(depth, None),
        }
    }

    fn several(&mut self, kind: &str, depth: usize) -> Value {
        let elements: Vec<_> = (0..1 + self.below(3)).map(|_| self.of_depth(depth - 1)).collect();
        json!({"type": kind, "elements": elements})
    }

    fn tag(&mut self, depth: usize, trigger: Option<&str>) -> Value {
        let begin = match trigger {
            Some(trigger) => format!("{trigger}{}", self.pick(&["", "a", "b", ">"])),
            None => self.pick(TEXTS).to_owned(),
        };
        json!({"type": "tag", "begin": begin, "content": self.of_depth(depth - 1), "end": self.end()})
    }

    fn end(&mut self) -> Value {
        match self.below(6) {
            0 => json!({"type": "token", "token": self.token()}),
            1 => json!(self.texts(1, 2)),
            _ => json!(self.pick(TEXTS)),
        }
    }

    fn schema(&mut self) -> Value {
        let (schema, _, is_object) = self.pick(SCHEMAS);
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let mut format = json!({"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1});
        if is_object && self.below(2) == 0 {
            format["style"] = json!(self.pick(STYLES));
        }
        if self.below(3) == 0 {
            format["excludes"] = json!(self.texts(1, 2));
        }
        format
    }

    /// A sequence that `format` has, or nearly.
    pub(super) fn sequence(&mut self, format: &Value) -> Vec<TokenId> {
        let mut pieces = Vec::new();
        match self.below(6) {
            0 => self.noise(&mut pieces),
            _ => self.along(format, &mut pieces),
        }
        if self.below(4) == 0 && !pieces.is_empty() {
            pieces.remove(self.below(pieces.len()));
        }
        // Neighbours are spelled together, so that tokens lie across their border.
        let (mut tokens, mut text) = (Vec::new(), String::new());
        for piece in pieces {
            match piece {
                Piece::Text(more) => text.push_str(&more),
                Piece::Token(token) => {
                    self.spell(&std::mem::take(&mut text), &mut tokens);
                    tokens.push(token);
                }
            }
        }
        self.spell(&text, &mut tokens);
        tokens
    }

    fn spell(&mut self, text: &str, tokens: &mut Vec<TokenId>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let fit: Vec<(TokenId, usize)> = self
                .vocabulary
                .text_tokens()
                .filter(|(_, text)| rest.starts_with(text))
                .map(|(id, text)| (id, text.len()))
                .collect();
            let (token, len) = self.pick(&fit);
            tokens.push(token);
            rest = &rest[len..];
        }
    }

    fn noise(&mut self, pieces: &mut Vec<Piece>) {
        for _ in 0..self.below(4) {
            pieces.push(Piece::Text(self.pick(NOISE).to_owned()));
        }
    }

    fn along(&mut self, format: &Value, pieces: &mut Vec<Piece>) {
        let list = |name: &str| format[name].as_array().cloned().unwrap_or_default();
        match format["type"].as_str().unwrap_or_default() {
            "const_string" => {
                pieces.push(Piece::Text(format["value"].as_str().unwrap_or_default().to_owned()));
            }
            "any_text" => self.noise(pieces),
            "regex" => pieces.push(Piece::Text(self.pick(&["1", "12", "b", "ab", "aab", "a"]).to_owned())),
            "grammar" => pieces.push(Piece::Text(self.pick(&["(a)", "()", "ab", "((b))", "("]).to_owned())),
            "token" => pieces.push(Piece::Token(self.named(&format["token"]))),
            "exclude_token" | "any_tokens" => {
                for _ in 0..self.below(3) {
                    let text = self.pick(&["a", "ab", "b<", "x", "aba", "<"]);
                    match self.id_of(text) {
                        Some(token) => pieces.push(Piece::Token(token)),
                        None => pieces.push(Piece::Text(text.to_owned())),
                    }
                }
            }
            "json_schema" => self.instance(format, pieces),
            "sequence" => list("elements").iter().for_each(|part| self.along(part, pieces)),
            "or" => {
                let parts = list("elements");
                let at = self.below(parts.len());
                self.along(&parts[at], pieces);
            }
            "optional" | "plus" | "star" | "repeat" => {
                for _ in 0..self.below(4) {
                    self.along(&format["content"], pieces);
                }
            }
            "tag" => self.along_tag(format, pieces),
            "triggered_tags" | "token_triggered_tags" => {
                let tags = list("tags");
                if format["at_least_one"] != json!(true) {
                    self.noise(pieces);
                }
                for _ in 0..self.below(3) {
                    let at = self.below(tags.len());
                    self.along_tag(&tags[at], pieces);
                    if self.below(2) == 0 {
                        self.noise(pieces);
                    }
                }
            }
            "tags_with_separator" => {
                let tags = list("tags");
                for at in 0..self.below(3) {
                    if at > 0 {
                        pieces.push(Piece::Text(format["separator"].as_str().unwrap_or_default().to_owned()));
                    }
                    let at = self.below(tags.len());
                    self.along_tag(&tags[at], pieces);
                }
            }
            "dispatch" | "token_dispatch" => {
                let rules = list("rules");
                for _ in 0..self.below(3) {
                    self.noise(pieces);
                    let rule = &rules[self.below(rules.len())];
                    match format["type"] == json!("dispatch") {
                        true => pieces.push(Piece::Text(rule[0].as_str().unwrap_or_default().to_owned())),
                        false => pieces.push(Piece::Token(self.named(&rule[0]))),
                    }
                    self.along(&rule[1], pieces);
                }
                self.noise(pieces);
            }
            _ => {}
        }
    }

    fn id_of(&self, text: &str) -> Option<TokenId> {
        self.vocabulary.text_tokens().find(|(_, other)| *other == text.as_bytes()).map(|(id, _)| id)
    }

    fn along_tag(&mut self, tag: &Value, pieces: &mut Vec<Piece>) {
        self.mark(&tag["begin"], pieces);
        self.along(&tag["content"], pieces);
        self.mark(&tag["end"], pieces);
    }

    fn mark(&mut self, mark: &Value, pieces: &mut Vec<Piece>) {
        match mark {
            Value::String(text) => pieces.push(Piece::Text(text.clone())),
            Value::Array(texts) => {
                let text = texts[self.below(texts.len())].as_str().unwrap_or_default();
                pieces.push(Piece::Text(text.to_owned()));
            }
            token => pieces.push(Piece::Token(self.named(&token["token"]))),
        }
    }

    /// JSON, or the elements of a style.
    fn instance(&mut self, format: &Value, pieces: &mut Vec<Piece>) {
        let found = SCHEMAS.iter().find(|(schema, ..)| {
            serde_json::from_str::<Value>(schema).is_ok_and(|schema| schema == format["json_schema"])
        });
        let Some((_, instances, _)) = found else { return };
        let text = self.pick(instances);
        match format["style"].as_str() {
            None => {
                let text = if self.below(3) == 0 {
                    text.replace(':', ": ").replace(',', ", ")
                } else {
                    text.to_owned()
                };
                pieces.push(Piece::Text(text));
            }
            Some(style) => {
                let value: Value = serde_json::from_str(text).expect("JSON");
                let mut text = String::new();
                for (name, value) in value.as_object().into_iter().flatten() {
                    if self.below(4) == 0 {
                        text.push('\n');
                    }
                    element(style, Some(name.as_str()), value, &mut text);
                }
                pieces.push(Piece::Text(text));
            }
        }
    }
}

/// A parameter as a style writes it.
fn element(style: &str, name: Option<&str>, value: &Value, into: &mut String) {
    const BAR: &str = "\u{ff5c}DSML\u{ff5c}";
    let raw = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let key = name.unwrap_or("item");
    let inside = |into: &mut String| match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| element(style, Some(name.as_str()), value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| element(style, None, item, into)),
        _ => into.push_str(&raw),
    };
    match style {
        "qwen_xml" => into.push_str(&format!("<parameter={key}>{raw}</parameter>")),
        "minimax_xml" => into.push_str(&format!("<parameter name=\"{key}\">{raw}</parameter>")),
        "deepseek_xml" | "deepseek_v4_1_xml" => {
            let (space, is_string) = (if style == "deepseek_xml" { "" } else { " " }, value.is_string());
            into.push_str(&format!(
                "<{BAR}{space}parameter name=\"{key}\" string=\"{is_string}\">{raw}</{BAR}{space}parameter>"
            ));
        }
        "glm_xml" => into.push_str(&format!("<arg_key>{key}</arg_key><arg_value>{raw}</arg_value>")),
        "kimi_k3_xml" => {
            let of = match value {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "boolean",
                Value::Null => "null",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            into.push_str(&format!(
                "<|open|>argument key=\"{key}\" type=\"{of}\"<|sep|>{raw}<|close|>argument<|sep|>"
            ));
        }
        "cohere_xml" => {
            let of = match value {
                Value::String(_) => "raw",
                Value::Array(_) => "list",
                Value::Object(_) => "dict",
                _ => "json",
            };
            let name = name.map(|name| format!(" name=\"{name}\"")).unwrap_or_default();
            into.push_str(&format!("<cofl:value{name} type=\"{of}\">"));
            inside(into);
            into.push_str("</cofl:value>");
        }
        _ => {
            into.push_str(&format!("]<]minimax[>[<{key}>"));
            inside(into);
            into.push_str(&format!("]<]minimax[>[</{key}>"));
        }
    }
}

/// The reason that the documentation gives for a difference; `here` where only ours accepts the sequence.
///
/// Reasons are those of formats, and not of a sequence: to see which readings a sequence has is what the two engines
/// are for.
pub(super) fn reason(format: &Value, here: bool) -> Option<&'static str> {
    const TOKENS: &[&str] =
        &["token", "exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"];
    if !here && repeats(format, TOKENS) {
        return Some("tokens inside of `repeat` are not excluded there");
    }
    if here && has(format, TOKENS) {
        return Some("a token that is text and itself at once goes on in one of the two ways there");
    }
    if here && counts_characters(format) {
        return Some("with `excludes`, `max_chars` counts the bytes of a character in two tokens there");
    }
    let fires = !here && has(format, &["dispatch", "triggered_tags"]);
    fires.then_some("a trigger fires inside of an excluded text that is not complete, and there it does not")
}

/// Whether a `repeat` has a format of one of these types in it.
fn repeats(format: &Value, types: &[&str]) -> bool {
    any(format, &|format| format["type"] == json!("repeat") && has(format, types))
}

/// Whether an `any_text` has both excluded texts and a budget of characters.
fn counts_characters(format: &Value) -> bool {
    any(format, &|format| {
        let excludes = format["excludes"].as_array().is_some_and(|texts| !texts.is_empty());
        format["type"] == json!("any_text") && excludes && format["max_chars"].is_u64()
    })
}

/// Whether a format of one of these types is in it.
fn has(format: &Value, types: &[&str]) -> bool {
    any(format, &|format| format["type"].as_str().is_some_and(|of| types.contains(&of)))
}

/// Whether it or a format in it is such a one. Schemas are not looked at.
fn any(format: &Value, test: &dyn Fn(&Value) -> bool) -> bool {
    match format {
        Value::Object(members) => {
            let mut inside = members.iter().filter(|(name, _)| *name != "json_schema");
            test(format) || inside.any(|(_, member)| any(member, test))
        }
        Value::Array(items) => items.iter().any(|item| any(item, test)),
        _ => false,
    }
}
