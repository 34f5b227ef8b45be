//! From a request with tools to the text of a structural tag.

use super::{
    Reasoning, Tool, ToolChoice, ToolRequest,
    forms::{Form, HARMONY_CALLS, Shape},
};
use crate::{fields::quoted, tag::style};

fn constant(text: &str) -> String {
    format!(r#"{{"type":"const_string","value":{}}}"#, quoted(text))
}

fn listed(kind: &str, parts: &[String]) -> String {
    match parts {
        [] => constant(""),
        [one] => one.clone(),
        _ => format!(r#"{{"type":"{kind}","elements":[{}]}}"#, parts.join(",")),
    }
}

fn sequence(parts: &[String]) -> String {
    listed("sequence", parts)
}

fn either(parts: &[String]) -> String {
    listed("or", parts)
}

/// `kind` is `optional` or `star`.
fn repeated(kind: &str, part: &str) -> String {
    format!(r#"{{"type":"{kind}","content":{part}}}"#)
}

fn free(excludes: &[&str]) -> String {
    let excludes = excludes.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(",");
    format!(r#"{{"type":"any_text","excludes":[{excludes}]}}"#)
}

/// Marks are longer ones first, so that none is taken for the beginning of another.
fn next_mark<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let places = marks.iter().filter_map(|mark| text.find(mark).map(|at| (at, *mark)));
    places.min_by_key(|(at, mark)| (*at, usize::MAX - mark.len()))
}

impl Form {
    pub(super) fn is_harmony(&self) -> bool {
        self.shape == Shape::Harmony
    }

    /// A text with marks in it, and with the number of a call in the place of `{id}`.
    fn text(&self, text: &str) -> String {
        let mut parts = Vec::new();
        let mut left = text;
        let marks: Vec<&str> = self.marks.iter().copied().chain(["{id}"]).collect();
        while let Some((at, mark)) = next_mark(left, &marks) {
            if at > 0 {
                parts.push(constant(&left[..at]));
            }
            parts.push(match mark {
                "{id}" => r#"{"type":"regex","pattern":"[0-9]+"}"#.to_owned(),
                _ => format!(r#"{{"type":"token","token":{},"or_text":true}}"#, quoted(mark)),
            });
            left = &left[at + mark.len()..];
        }
        if !left.is_empty() {
            parts.push(constant(left));
        }
        sequence(&parts)
    }

    fn call(&self, tool: &Tool) -> String {
        let style = match self.style {
            "json" => String::new(),
            style => format!(r#","style":"{style}""#),
        };
        let whitespace = match self.whitespace {
            "" => String::new(),
            name => format!(r#","whitespace":"{name}""#),
        };
        // A parser looks for the marks of the section before it reads what stands between them.
        let section = [self.section.0.trim(), self.section.1].into_iter().filter(|mark| !mark.is_empty());
        let texts: Vec<String> = self.unquoted.iter().copied().chain(section).map(quoted).collect();
        let excludes = match &texts[..] {
            [] => String::new(),
            texts => format!(r#","excludes":[{}]"#, texts.join(",")),
        };
        let schema = &tool.parameters;
        let arguments =
            format!(r#"{{"type":"json_schema","json_schema":{schema}{style}{whitespace}{excludes}}}"#);
        let begins: Vec<String> =
            self.begins().iter().map(|begin| self.text(&begin.replace("{name}", &tool.name))).collect();
        sequence(&[either(&begins), arguments, self.text(self.end)])
    }

    fn begins(&self) -> &[&'static str] {
        match self.shape {
            Shape::Harmony => &HARMONY_CALLS,
            _ => std::slice::from_ref(&self.begin),
        }
    }

    /// The marks as JSON: those of calls, of reasoning and of elements.
    pub(super) fn to_json(&self) -> String {
        let elements = style::named(self.style).map(|style| {
            let words: Vec<_> = style.types.iter().map(|(_, word)| *word).collect();
            let escapes: Vec<_> = style.escapes.iter().map(|(c, text)| (c.to_string(), *text)).collect();
            serde_json::json!({
                "before": style.before, "item": style.item, "begin": style.begin, "end": style.end,
                "after": style.after, "words": words, "wrap": style.wrap, "escapes": escapes,
            })
        });
        let shape = match self.shape {
            Shape::Free => "free",
            Shape::Kimi => "kimi",
            Shape::Harmony => "harmony",
        };
        let thought = self.thought.map(|(begin, end, after)| [begin, end, after]);
        let marks = serde_json::json!({
            "family": self.names[0], "shape": shape, "section": [self.section.0, self.section.1], "begins": self.begins(),
            "end": self.end, "thought": thought, "thoughtless": self.thoughtless, "elements": elements,
        });
        marks.to_string()
    }
}

impl ToolRequest {
    /// The text of the structural tag.
    pub(super) fn tag(&self, tools: &[&Tool]) -> String {
        let format = match self.form.shape {
            Shape::Free => sequence(&[self.thought(), self.answer(tools)]),
            Shape::Kimi => self.kimi(tools),
            Shape::Harmony => self.harmony(tools),
        };
        format!(r#"{{"type":"structural_tag","format":{format}}}"#)
    }

    /// The reasoning in front of the answer.
    fn thought(&self) -> String {
        let Form { thought, thoughtless, .. } = self.form;
        let Some((begin, end, after)) = *thought else { return constant("") };
        let rest = sequence(&[free(&[begin, end]), self.form.text(end), self.form.text(after)]);
        let begin = self.form.text(begin);
        match self.reasoning {
            Reasoning::Disabled => self.form.text(thoughtless),
            Reasoning::Enabled => sequence(&[repeated("optional", &begin), rest]),
            Reasoning::Auto => repeated("optional", &sequence(&[begin, rest])),
        }
    }

    fn is_single(&self) -> bool {
        !self.parallel || matches!(self.choice, ToolChoice::Named(_))
    }

    /// One call or more, in their section, with nothing but `between` between them.
    fn calls(&self, tools: &[&Tool], between: &str) -> String {
        let calls: Vec<String> = tools.iter().map(|tool| self.form.call(tool)).collect();
        let one = either(&calls);
        let (open, close) = self.form.section;
        let mut parts = vec![self.form.text(open), one.clone()];
        if !self.is_single() {
            parts.push(repeated("star", &sequence(&[between.to_owned(), one])));
        }
        parts.push(self.form.text(close));
        sequence(&parts)
    }

    /// Free text and calls.
    fn answer(&self, tools: &[&Tool]) -> String {
        let form = self.form;
        let text = free(form.excludes);
        let in_section = !form.section.0.is_empty();
        let between = form.text(form.between);
        if let Some(response) = self.response.clone() {
            // Line breaks stand between calls without a section in some templates, and in others nothing.
            let between = if in_section { between } else { repeated("optional", &constant("\n")) };
            let calls = |lead: &str| sequence(&[form.text(lead), self.calls(tools, &between)]);
            return match self.choice {
                _ if tools.is_empty() => response,
                ToolChoice::Auto if form.lead.is_empty() => either(&[calls(""), response]),
                ToolChoice::Auto => either(&[calls(form.lead), calls(""), response]),
                _ => calls(form.lead),
            };
        }
        if tools.is_empty() {
            return text;
        }
        // Calls without a section have free text between them.
        let unit = match in_section {
            true => self.calls(tools, &between),
            false => either(&tools.iter().map(|tool| form.call(tool)).collect::<Vec<_>>()),
        };
        let more = repeated("star", &sequence(&[unit.clone(), text.clone()]));
        match (&self.choice, self.is_single()) {
            (ToolChoice::Auto, true) => sequence(&[text, repeated("optional", &unit)]),
            (ToolChoice::Auto, false) => sequence(&[text, more]),
            (_, false) if form.goes_on => sequence(&[unit, text, more]),
            _ => sequence(&[form.text(form.lead), unit]),
        }
    }

    /// Kimi K3: a response, then calls, then the end of the message. Beside calls, a response of a format is empty.
    fn kimi(&self, tools: &[&Tool]) -> String {
        let form = self.form;
        let mark = |text: &str| form.text(text);
        let end = mark("<|close|>response<|sep|>");
        let calls = self.calls(tools, &mark(form.between));
        let text = free(form.excludes);
        let answer = match (self.response.clone(), &self.choice) {
            (Some(response), _) if tools.is_empty() => sequence(&[response, end]),
            (None, _) if tools.is_empty() => sequence(&[text, end]),
            (Some(response), ToolChoice::Auto) => {
                either(&[sequence(&[end.clone(), calls]), sequence(&[response, end])])
            }
            (None, ToolChoice::Auto) => sequence(&[text, end, repeated("optional", &calls)]),
            (Some(_), _) => sequence(&[end, calls]),
            (None, _) => sequence(&[text, end, calls]),
        };
        // The prompt has begun the response of a model that does not reason.
        let (begin, thought, response) = form.thought.expect("Kimi K3 reasons");
        let (begin, response) = (mark(begin), mark(response));
        let thought = sequence(&[free(form.excludes), mark(thought)]);
        let front = match self.reasoning {
            Reasoning::Disabled => constant(""),
            Reasoning::Enabled => sequence(&[repeated("optional", &begin), thought, response]),
            Reasoning::Auto => sequence(&[repeated("optional", &sequence(&[begin, thought])), response]),
        };
        sequence(&[front, answer, mark("<|close|>message<|sep|>")])
    }

    /// gpt-oss: messages of analysis, then a call or a final message, whose marks of the end may end the sequence.
    fn harmony(&self, tools: &[&Tool]) -> String {
        let form = self.form;
        let mark = |text: &str| form.text(text);
        let text = free(form.excludes);
        let analysis =
            [mark("<|channel|>analysis<|message|>"), text.clone(), mark("<|end|><|start|>assistant")];
        let front = match self.reasoning {
            Reasoning::Disabled => constant(""),
            _ => repeated("star", &sequence(&analysis)),
        };
        let content = self.response.clone().unwrap_or(text);
        let end = either(&[mark("<|return|>"), mark("<|end|>")]);
        let answer = sequence(&[mark("<|channel|>final<|message|>"), content, end]);
        let mut last: Vec<String> = tools.iter().map(|tool| form.call(tool)).collect();
        if tools.is_empty() || self.choice == ToolChoice::Auto {
            last.push(answer);
        }
        sequence(&[front, either(&last)])
    }
}
