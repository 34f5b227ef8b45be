//! A tokenizer as a list of independent parts, each of which can be left out: plans are drawn, written as JSON and
//! shrunk.

use serde_json::{Map, Value, json};

/// The spelling of text in the tokens of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spelling {
    /// GPT-2's alphabet of bytes.
    Bytes,
    /// Characters, with a mark in place of a space.
    Mark(char),
    /// Characters unchanged.
    Plain,
}

/// An added token. Its id follows from its content and its position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Added {
    pub(crate) content: String,
    pub(crate) special: bool,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    pub(crate) normalized: bool,
}

impl Added {
    pub(crate) fn special(content: &str) -> Self {
        Self { content: content.to_owned(), special: true, ..Self::default() }
    }

    pub(crate) fn text(content: &str, normalized: bool) -> Self {
        Self { content: content.to_owned(), normalized, ..Self::default() }
    }

    pub(crate) fn rstrip(mut self) -> Self {
        self.rstrip = true;
        self
    }

    pub(crate) fn lstrip(mut self) -> Self {
        self.lstrip = true;
        self
    }
}

/// A whole tokenizer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    pub(crate) spelling: Spelling,
    pub(crate) normalizers: Vec<Value>,
    pub(crate) splits: Vec<Value>,
    pub(crate) decoders: Vec<Value>,
    pub(crate) added: Vec<Added>,
    /// The tokens of the model; ids are positions.
    pub(crate) tokens: Vec<String>,
    pub(crate) merges: Vec<(String, String)>,
    /// The other fields of the model.
    pub(crate) options: Map<String, Value>,
    /// A model of another kind, in full.
    pub(crate) model: Option<Value>,
    /// The words of random texts.
    pub(crate) words: Vec<String>,
}

impl Plan {
    /// A tokenizer without steps and without tokens.
    pub(crate) fn new(spelling: Spelling) -> Self {
        Self {
            spelling,
            normalizers: Vec::new(),
            splits: Vec::new(),
            decoders: Vec::new(),
            added: Vec::new(),
            tokens: Vec::new(),
            merges: Vec::new(),
            options: Map::new(),
            model: None,
            words: Vec::new(),
        }
    }

    /// The `tokenizer.json`.
    pub(crate) fn file(&self) -> Value {
        let ids: Map<String, Value> = self.tokens.iter().cloned().zip((0..).map(|id| json!(id))).collect();
        let mut model = self.options.clone();
        model.insert("type".to_owned(), json!("BPE"));
        model.insert("vocab".to_owned(), Value::Object(ids));
        model.insert(
            "merges".to_owned(),
            self.merges.iter().map(|(left, right)| json!([left, right])).collect(),
        );
        let model = self.model.clone().unwrap_or(Value::Object(model));
        let mut next = match &model["vocab"] {
            Value::Object(ids) => ids.len(),
            Value::Array(pieces) => pieces.len(),
            _ => 0,
        };
        let mut added: Vec<Value> = Vec::new();
        for token in &self.added {
            let known = match &model["vocab"] {
                Value::Object(ids) => ids.get(&token.content).cloned(),
                Value::Array(pieces) => {
                    pieces.iter().position(|piece| piece[0] == json!(token.content)).map(|id| json!(id))
                }
                _ => None,
            };
            let id = known.unwrap_or_else(|| {
                next += 1;
                json!(next - 1)
            });
            added.push(json!({
                "id": id, "content": token.content, "special": token.special, "single_word": token.single_word,
                "lstrip": token.lstrip, "rstrip": token.rstrip, "normalized": token.normalized,
            }));
        }
        json!({
            "version": "1.0",
            "added_tokens": added,
            "normalizer": sequence(&self.normalizers, "normalizers"),
            "pre_tokenizer": sequence(&self.splits, "pretokenizers"),
            "post_processor": null,
            "decoder": sequence(&self.decoders, "decoders"),
            "model": model,
        })
    }

    /// The plan without the steps that prepend to a text, and whether it is the same tokenizer.
    pub(crate) fn without_prefix(&self) -> (Self, bool) {
        let mut plan = self.clone();
        plan.normalizers.retain(|step| step["type"] != "Prepend");
        for step in &mut plan.splits {
            if step["type"] == "Metaspace" {
                step["prepend_scheme"] = json!("never");
                step["add_prefix_space"] = json!(false);
            }
            if step["type"] == "ByteLevel" {
                step["add_prefix_space"] = json!(false);
            }
        }
        let same = plan.normalizers == self.normalizers
            && plan.splits.iter().zip(&self.splits).all(|(left, right)| left == right || !prefixes(right));
        (plan, same)
    }

    /// Whether a step prepends to every piece that another step has split off. The beginning of a continuation then
    /// depends on the piece before it, so that a continuation has no sequence of its own.
    pub(crate) fn prefixes_pieces(&self) -> bool {
        let splits = |step: &Value| match step["type"].as_str() {
            Some("ByteLevel") => step["use_regex"] != json!(false),
            Some("Metaspace") => step["split"] != json!(false),
            _ => true,
        };
        let first = self.splits.iter().position(splits).unwrap_or(self.splits.len());
        self.splits
            .iter()
            .skip(first + 1)
            .any(|step| prefixes(step) && step["prepend_scheme"] != json!("first"))
    }

    /// Whether a step before the model spells text as the tokens are spelled.
    pub(crate) fn is_spelled(&self) -> bool {
        let has = |steps: &[Value], kind: &str| steps.iter().any(|step| step["type"] == kind);
        match self.spelling {
            Spelling::Bytes => has(&self.normalizers, "ByteLevel") || has(&self.splits, "ByteLevel"),
            Spelling::Mark(_) => {
                has(&self.splits, "Metaspace")
                    || self.normalizers.iter().any(|step| step["pattern"] == json!({"String": " "}))
            }
            Spelling::Plain => true,
        }
    }

    /// Plans with one part less each, the largest parts first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            if plan != *self {
                smaller.push(plan);
            }
        };
        for at in 0..self.added.len() {
            push(&|plan| _ = plan.added.remove(at));
        }
        for at in 0..self.splits.len() {
            push(&|plan| _ = plan.splits.remove(at));
        }
        for at in 0..self.normalizers.len() {
            push(&|plan| _ = plan.normalizers.remove(at));
        }
        for name in self.options.keys() {
            push(&|plan| _ = plan.options.remove(name));
        }
        push(&|plan| plan.merges.clear());
        for size in [64, 16, 4, 1] {
            let mut from = 0;
            while from < self.tokens.len() {
                let range = from..(from + size).min(self.tokens.len());
                push(&|plan| {
                    plan.tokens.drain(range.clone());
                    plan.drop_loose_merges();
                });
                from += size;
            }
        }
        for at in 0..self.merges.len() {
            push(&|plan| _ = plan.merges.remove(at));
        }
        for at in 0..self.added.len() {
            push(&|plan| plan.added[at].special = false);
            push(&|plan| plan.added[at].single_word = false);
            push(&|plan| plan.added[at].lstrip = false);
            push(&|plan| plan.added[at].rstrip = false);
            push(&|plan| plan.added[at].normalized = false);
            if self.added[at].content.chars().count() > 1 {
                push(&|plan| _ = plan.added[at].content.pop());
            }
        }
        // The steps that spell text for the tokens stay: without them, another difference would be found.
        smaller.retain(|plan| plan.is_spelled() || !self.is_spelled());
        smaller
    }

    /// Removes merges of tokens that do not exist.
    pub(crate) fn drop_loose_merges(&mut self) {
        let known: std::collections::HashSet<&String> = self.tokens.iter().collect();
        let prefix =
            self.options.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or_default();
        self.merges.retain(|(left, right)| {
            let inside = right.strip_prefix(prefix);
            known.contains(left)
                && known.contains(right)
                && inside.is_some_and(|right| known.contains(&format!("{left}{right}")))
        });
    }

    /// The kinds of its steps and options, which identify a kind of difference.
    pub(crate) fn signature(&self) -> String {
        let kinds = |steps: &[Value]| {
            let kinds: Vec<String> = steps
                .iter()
                .map(|step| {
                    let mut text = step["type"].as_str().unwrap_or_default().to_owned();
                    for key in
                        ["behavior", "invert", "prepend_scheme", "split", "use_regex", "add_prefix_space"]
                    {
                        match &step[key] {
                            Value::String(value) => text += &format!(" {value}"),
                            Value::Bool(value) => text += &format!(" {key}={value}"),
                            _ => {}
                        }
                    }
                    text
                })
                .collect();
            kinds.join(", ")
        };
        let mut added: Vec<String> = self
            .added
            .iter()
            .map(|token| {
                let flags = [
                    ("special", token.special),
                    ("single_word", token.single_word),
                    ("lstrip", token.lstrip),
                    ("rstrip", token.rstrip),
                    ("normalized", token.normalized),
                ];
                let set: Vec<&str> = flags.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
                format!("({})", set.join(" "))
            })
            .collect();
        added.sort();
        let spelling = match self.spelling {
            Spelling::Bytes => "bytes",
            Spelling::Mark(_) => "mark",
            Spelling::Plain => "plain",
        };
        format!(
            "{spelling} | {} | {} | {} | {}",
            kinds(&self.normalizers),
            kinds(&self.splits),
            added.join(" "),
            self.options.keys().cloned().collect::<Vec<_>>().join(" "),
        )
    }
}

/// Whether `step` prepends to a text.
fn prefixes(step: &Value) -> bool {
    match step["type"].as_str() {
        Some("ByteLevel") => step["add_prefix_space"] == json!(true),
        Some("Metaspace") => {
            let scheme = step["prepend_scheme"].as_str().unwrap_or("always");
            scheme != "never" && step["add_prefix_space"] != json!(false)
        }
        _ => false,
    }
}

/// Null, the step, or a sequence of the steps.
fn sequence(steps: &[Value], field: &str) -> Value {
    match steps {
        [] => Value::Null,
        [step] => step.clone(),
        _ => json!({"type": "Sequence", field: steps}),
    }
}

/// GPT-2's character for a byte: printable Latin-1 is unchanged, the other bytes are numbered from U+0100.
pub(crate) fn byte_character(byte: u8) -> char {
    let stays =
        |byte: u32| (33..=126).contains(&byte) || (161..=172).contains(&byte) || (174..=255).contains(&byte);
    if stays(u32::from(byte)) {
        return char::from(byte);
    }
    let moved = (0..u32::from(byte)).filter(|byte| !stays(*byte)).count();
    char::from_u32(0x100 + u32::try_from(moved).unwrap()).unwrap()
}
