//! Prompts as the messages of a chat: the template of a checkpoint, in the language of Jinja.
//!
//! The template is `chat_template.jinja`, or `chat_template` of `tokenizer_config.json`, where a list has it by the
//! name `default`, or `tokenizer.chat_template` of a GGUF file. It sees what transformers shows to it: `messages`,
//! `add_generation_prompt`, and the special tokens by their names. Its text holds the tokens that begin a text, so that
//! none is put in front again. The work of a template is bounded, since it comes with a checkpoint.

use std::path::{Path, PathBuf};

use minijinja::{
    Environment, Error as TemplateError, ErrorKind, Value, context, syntax::SyntaxConfig, value::ValueKind,
};
use serde_json::Value as Json;
use unskew_engine::read;
use unskew_vocab::{Gguf, GgufValue};

use super::{
    Chat,
    error::{Error, Result},
};

/// The instructions that a template may take: a message of a megabyte needs some thousand.
const FUEL: u64 = 1_000_000;

/// The longest template, in bytes.
const MOST: usize = 1 << 20;

/// Names of special tokens that templates use.
const TOKENS: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

/// A chat template.
#[derive(Clone, Debug)]
pub(super) struct ChatTemplate {
    path: PathBuf,
    text: String,
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// The template in the folder of a checkpoint, if there is one.
    pub(super) fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let config_path = folder.join("tokenizer_config.json");
        let config: Json = match config_path.is_file() {
            true => serde_json::from_str(&read::text(&config_path)?)
                .map_err(|error| Error::file(&config_path, error.to_string()))?,
            false => Json::Null,
        };
        let own_path = folder.join("chat_template.jinja");
        let (path, text) = if own_path.is_file() {
            let text = read::text(&own_path)?;
            (own_path, text)
        } else {
            let template = match &config["chat_template"] {
                Json::Array(named) => named
                    .iter()
                    .find(|entry| entry["name"] == "default")
                    .or(named.first())
                    .map_or(&Json::Null, |entry| &entry["template"]),
                template => template,
            };
            let Some(text) = template.as_str() else { return Ok(None) };
            (config_path, text.to_owned())
        };
        // A token is its text, or an object with it.
        let token = |name| {
            let value: &Json = &config[name];
            let text = value.as_str().or_else(|| value["content"].as_str())?;
            Some((name, text.to_owned()))
        };
        let tokens = TOKENS.into_iter().filter_map(token).collect();
        Self { path, text, tokens }.checked().map(Some)
    }

    /// The template in a GGUF file, if there is one.
    pub(super) fn of_gguf(path: &Path) -> Result<Option<Self>> {
        let gguf = Gguf::open(path).map_err(|error| Error::file(path, error))?;
        let Some(text) = gguf.text("tokenizer.chat_template") else { return Ok(None) };
        let token = |(name, key): (&'static str, &str)| {
            let Some(GgufValue::Texts(tokens)) = gguf.get("tokenizer.ggml.tokens") else { return None };
            let id = gguf.number(&format!("tokenizer.ggml.{key}_token_id"))?;
            Some((name, tokens.get(usize::try_from(id).ok()?)?.clone()))
        };
        let keys = ["bos", "eos", "unknown", "padding"];
        let tokens = TOKENS.into_iter().zip(keys).filter_map(token).collect();
        Self { path: path.to_owned(), text: text.to_owned(), tokens }.checked().map(Some)
    }

    fn checked(self) -> Result<Self> {
        match self.text.len() {
            ..=MOST => Ok(self),
            size => {
                let reason = format!("its chat template has {size} bytes, and {MOST} is the limit");
                Err(Error::file(&self.path, reason))
            }
        }
    }

    /// The text in front of the answer to a chat.
    pub(super) fn render(&self, chat: &Chat) -> Result<String> {
        let failed = |error: TemplateError| {
            let reason = error.to_string().replace('\n', " ");
            Error::file(&self.path, format!("the chat template fails: {reason}"))
        };
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(failed)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, TemplateError> {
            Err(TemplateError::new(ErrorKind::InvalidOperation, message))
        });
        let template = environment.template_from_str(&self.text).map_err(failed)?;
        // In the order of their fields, which a template may show.
        let value = |text: &str| {
            let value = serde_json::from_str::<Value>(text);
            value.map_err(|error| Error::combination(format!("`messages` or `tools`: {error}")))
        };
        let (mut messages, tools) = (value(chat.messages())?, chat.tools().map(value).transpose()?);
        // A template that takes contents in parts reads their `text`; others fail on parts, or write them out as lists.
        if !["text'", "text\"", ".text"].iter().any(|reading| self.text.contains(reading)) {
            messages = joined(&messages)?;
        }
        let tokens = Value::from_pairs(self.tokens.iter().map(|(name, text)| (*name, text.as_str())));
        let context = context! { messages, add_generation_prompt => true, tools, ..tokens };
        template.render(context).map_err(failed)
    }
}

/// Messages whose contents are texts: parts of the type `text` are joined by line breaks, as servers do.
fn joined(messages: &Value) -> Result<Value> {
    let failed = |error: TemplateError| Error::combination(format!("`messages`: {error}"));
    let mut made = Vec::new();
    for (at, message) in messages.try_iter().map_err(failed)?.enumerate() {
        let content = message.get_attr("content").unwrap_or_default();
        if content.kind() != ValueKind::Seq {
            made.push(message);
            continue;
        }
        let mut texts = Vec::new();
        for (part_at, part) in content.try_iter().map_err(failed)?.enumerate() {
            let (kind, text) =
                (part.get_attr("type").unwrap_or_default(), part.get_attr("text").unwrap_or_default());
            match (kind.as_str(), text.as_str()) {
                (Some("text"), Some(text)) => texts.push(text.to_owned()),
                _ => {
                    return Err(Error::combination(format!(
                        "`messages/{at}/content/{part_at}` is no text: the chat template of the model takes parts of the type \
                         `text` alone"
                    )));
                }
            }
        }
        let fields = message.try_iter().map_err(failed)?.map(|name| {
            let is_content = name.as_str() == Some("content");
            let value = if is_content { texts.join("\n").into() } else { message.get_item(&name)? };
            Ok((name.to_string(), value))
        });
        let fields = fields.collect::<Result<Vec<_>, TemplateError>>().map_err(failed)?;
        made.push(Value::from_pairs(fields));
    }
    Ok(made.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str) -> Result<String> {
        let tokens = vec![("bos_token", "<s>".to_owned()), ("eos_token", "</s>".to_owned())];
        ChatTemplate { path: "t".into(), text: template.to_owned(), tokens }.render(&" Hi ".into())
    }

    #[test]
    fn parts_of_messages_are_texts_where_a_template_takes_texts() {
        let of = |template: &str, messages: &str| {
            let template = ChatTemplate { path: "t".into(), text: template.to_owned(), tokens: Vec::new() };
            template.render(&Chat::from_json(messages).unwrap()).map_err(|error| error.to_string())
        };
        let parts = r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"x","content":"c"}]"#;
        let plain = "{% for m in messages %}{{ m.role + ':' + m.content }};{% endfor %}";
        assert_eq!(of(plain, parts).unwrap(), "user:a\nb;x:c;");
        let reads = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}<{{ p['text'] \
                     }}>{% endfor %}{% endif %}{% endfor %}";
        assert_eq!(of(reads, parts).unwrap(), "<a><b>c");
        let image = parts.replacen(r#""type":"text","text":"b""#, r#""type":"image_url","image_url":{}"#, 1);
        assert!(of(plain, &image).unwrap_err().contains("`messages/0/content/1` is no text"));
    }

    #[test]
    fn templates_of_published_models_are_rendered() {
        // The forms of ChatML, Llama 3, Gemma and Mistral.
        for (template, expected) in [
            (
                "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + \
                 '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
                "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n",
            ),
            (
                "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = \
                 '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + \
                 '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content \
                 }}{% endfor %}",
                "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
            ),
            (
                "{{ bos_token }}{%- for m in messages -%}{%- if m.role == 'system' -%}{{ raise_exception('no system') }}\
                 {%- endif -%}{{ '<start_of_turn>' + m.role + '\\n' + m.content.strip() + '<end_of_turn>' }}{%- endfor -%}",
                "<s><start_of_turn>user\nHi<end_of_turn>",
            ),
            (
                "{%- if not tools is defined or not tools %}{{ bos_token }}{% endif %}\n  {%- set ns = \
                 namespace(n=0) %}{%- for m in messages %}{%- set ns.n = ns.n + 1 %}[INST]{{ m['content'] }}[/INST]\
                 {%- endfor %}{{ ns.n }}{{ messages | tojson }}",
                "<s>[INST] Hi [/INST]1[{\"role\":\"user\",\"content\":\" Hi \"}]",
            ),
        ] {
            assert_eq!(
                rendered(template).unwrap().replace(": ", ":").replace(", ", ","),
                expected.replace(": ", ":")
            );
        }
    }

    #[test]
    fn faults_of_templates_are_errors() {
        for (template, words) in [
            ("{% for", "the chat template fails"),
            ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
            ("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "fuel"),
            ("{{ messages.nothing() }}", "nothing"),
        ] {
            let error = rendered(template).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }
}
