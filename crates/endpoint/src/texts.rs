//! Whole outputs of a server: as the model draws them, or under a constraint that the server enforces; and their
//! scores.
//!
//! Everything that would change the model's distribution is switched off in each request (top-k, top-p, min-p,
//! penalties), since servers take defaults for it from the model's `generation_config.json`, and llama.cpp has its
//! own.
//!
//! The log-probability of an output is a sum over its tokens and the end after them. Where a server leaves out the
//! end there is none.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use unskew_core::Finish;

use crate::{Endpoint, EndpointError, Server};

/// The text in front of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prompt {
    /// A text; the server puts in front what its tokenizer does.
    Text(String),
    /// Tokens, as they are.
    Ids(Vec<u32>),
    /// The messages of a chat, in the form of OpenAI's interface; the server puts them into its chat template.
    Chat(Value),
}

impl Prompt {
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Ids(ids) => json!(ids),
            Self::Chat(messages) => messages.clone(),
        }
    }
}

/// A constraint in the words of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerConstraint {
    /// One of these texts.
    Choices(Vec<String>),
    /// The whole output matches.
    Regex(String),
    /// JSON of this schema.
    JsonSchema(String),
    /// A word of a grammar: GBNF, or the EBNF of XGrammar.
    Ebnf(String),
    /// A word of a grammar in Lark.
    Lark(String),
    /// A structural tag.
    StructuralTag(String),
}

/// The outputs that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The text in front.
    pub prompt: &'a Prompt,
    /// How many; a server may give fewer, and gives at least one.
    pub count: usize,
    /// The most tokens of one.
    pub max_tokens: usize,
    /// Divides the logits.
    pub temperature: f64,
    /// The seed, where the server takes one.
    pub seed: u32,
    /// The constraint that the server enforces.
    pub constraint: Option<&'a ServerConstraint>,
}

/// One output of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct Text {
    /// The text.
    pub text: String,
    /// Its tokens, the end of the sequence included where the server gives it.
    pub ids: Option<Vec<u32>>,
    /// The tokens of the prompt.
    pub prompt_ids: Option<Vec<u32>>,
    /// How it ended.
    pub finish: Finish,
    /// The sum of the log-probabilities of `ids` at temperature 1: without a constraint the model's own, and with one
    /// those after the mask where the [server weighs](Server::weighs).
    pub log_prob: Option<f64>,
}

#[derive(Deserialize)]
struct Choices {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: usize,
    #[serde(default)]
    text: String,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Option<Value>,
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
    #[serde(default)]
    prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    prompt_logprobs: Option<Vec<Option<Map<String, Value>>>>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::Many(all) => all,
            Self::One(one) => vec![one],
        }
    }
}

/// SGLang's entry of a token: its log-probability (none for the first of a prompt), its id, its text.
type Scored = (Option<f64>, u32, Option<Value>);

#[derive(Deserialize)]
struct Generated {
    #[serde(default)]
    text: String,
    meta_info: Meta,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    finish_reason: Option<Value>,
    #[serde(default)]
    output_token_logprobs: Option<Vec<Scored>>,
    #[serde(default)]
    input_token_logprobs: Option<Vec<Scored>>,
}

#[derive(Deserialize)]
struct Completed {
    #[serde(default)]
    index: usize,
    content: String,
    #[serde(default)]
    tokens: Vec<u32>,
    #[serde(default)]
    stop_type: String,
    #[serde(default)]
    completion_probabilities: Vec<Probability>,
}

#[derive(Deserialize)]
struct Probability {
    logprob: Option<f64>,
}

impl Endpoint {
    /// Draws outputs, in the order in which they were asked for: taken as they finish, short ones would come first.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], where the server fails, or cannot enforce the constraint.
    pub fn texts(&self, asked: &Asked<'_>) -> Result<Vec<Text>, EndpointError> {
        let texts = match (asked.prompt, self.server()) {
            (Prompt::Chat(_), _) => self.chat(asked)?,
            (_, Server::Vllm | Server::OpenAi) => self.completions(asked)?,
            (_, Server::Sglang) => self.generate(asked)?,
            (_, Server::LlamaCpp) => self.completion(asked)?,
        };
        match texts.is_empty() {
            true => Err(self.client.unknown("", "it holds no output")),
            false => Ok(texts),
        }
    }

    /// The fields of OpenAI's interface, with all that changes the distribution switched off.
    fn fields(&self, asked: &Asked<'_>, path: &str) -> Result<Map<String, Value>, EndpointError> {
        let Asked { count, max_tokens, temperature, seed, constraint, .. } = *asked;
        let mut body = json!({
            "model": self.model, "n": count.min(self.slots), "max_tokens": max_tokens, "temperature": temperature,
            "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": seed,
        });
        let more = match self.server() {
            Server::OpenAi => json!({}),
            Server::LlamaCpp => json!({"top_k": 0, "min_p": 0.0, "samplers": ["temperature"]}),
            Server::Sglang => {
                json!({"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "skip_special_tokens": false})
            }
            Server::Vllm => json!({
                "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": true,
                "skip_special_tokens": false, "spaces_between_special_tokens": false,
            }),
        };
        let body = body.as_object_mut().expect("an object");
        if let Value::Object(more) = more {
            body.extend(more);
        }
        match (constraint, self.server()) {
            (None, _) => {}
            (Some(constraint), Server::Vllm) => {
                body.insert(
                    "structured_outputs".to_owned(),
                    vllm(constraint, |reason| self.client.unknown(path, reason))?,
                );
            }
            (Some(_), server) => return Err(no_weights(server)),
        }
        Ok(std::mem::take(body))
    }

    fn completions(&self, asked: &Asked<'_>) -> Result<Vec<Text>, EndpointError> {
        const PATH: &str = "/v1/completions";
        let mut body = self.fields(asked, PATH)?;
        match asked.prompt {
            Prompt::Ids(_) if !self.server().gives_ids() => {
                return Err(EndpointError::unsupported(
                    self.server(),
                    "takes no prompt of tokens",
                    "give the prompt as a text",
                ));
            }
            prompt => body.insert("prompt".to_owned(), prompt.json()),
        };
        if self.server() == Server::Vllm {
            body.insert("logprobs".to_owned(), json!(0));
        }
        let Choices { choices } = self.client.post(PATH, &body)?;
        self.in_order(choices, PATH, asked, |choice| {
            let numbers = choice.logprobs.as_ref()?.get("token_logprobs")?.as_array()?;
            (numbers.len() == choice.token_ids.as_ref()?.len())
                .then(|| numbers.iter().map(Value::as_f64).sum())?
        })
    }

    fn chat(&self, asked: &Asked<'_>) -> Result<Vec<Text>, EndpointError> {
        const PATH: &str = "/v1/chat/completions";
        let mut body = self.fields(asked, PATH)?;
        body.insert("messages".to_owned(), asked.prompt.json());
        let Choices { choices } = self.client.post(PATH, &body)?;
        self.in_order(choices, PATH, asked, |_| None)
    }

    fn in_order(
        &self,
        mut choices: Vec<Choice>,
        path: &str,
        asked: &Asked<'_>,
        log_prob: impl Fn(&Choice) -> Option<f64>,
    ) -> Result<Vec<Text>, EndpointError> {
        choices.sort_by_key(|choice| choice.index);
        // vLLM gives the tokens of a prompt with its first output alone.
        let prompt_ids = choices.iter().find_map(|choice| choice.prompt_token_ids.clone());
        let text = |choice: Choice| {
            let finish = self.finish(choice.finish_reason.as_deref(), path)?;
            let log_prob = log_prob(&choice).filter(|_| asked.temperature == 1.0);
            let text = choice.message.and_then(|message| message.content).unwrap_or(choice.text);
            Ok(Text { text, ids: choice.token_ids, prompt_ids: prompt_ids.clone(), finish, log_prob })
        };
        choices.into_iter().map(text).collect()
    }

    /// How an output ended, in the words of any server.
    fn finish(&self, reason: Option<&str>, path: &str) -> Result<Finish, EndpointError> {
        match reason {
            Some("stop" | "eos") => Ok(Finish::Stop),
            Some("length" | "limit") => Ok(Finish::Length),
            other => Err(self.client.unknown(path, format!("an output ended by {other:?}"))),
        }
    }

    fn generate(&self, asked: &Asked<'_>) -> Result<Vec<Text>, EndpointError> {
        const PATH: &str = "/generate";
        let Asked { count, max_tokens, temperature, seed, constraint, .. } = *asked;
        let mut parameters = json!({
            "max_new_tokens": max_tokens, "temperature": temperature, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
            "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
            "skip_special_tokens": false, "spaces_between_special_tokens": false,
        });
        if let Some(constraint) = constraint {
            let (field, value) = sglang(constraint)?;
            parameters[field] = Value::String(value);
        }
        // With one seed for all, a server in its deterministic mode would give the same output again and again.
        let each: Vec<Value> = (0..count)
            .map(|index| {
                let mut own = parameters.clone();
                own["sampling_seed"] = json!(seed.wrapping_add(u32::try_from(index).unwrap_or(0)) >> 1);
                own
            })
            .collect();
        let start = if constraint.is_some() { 0 } else { -1 };
        let mut body = json!({"sampling_params": each, "return_logprob": true, "logprob_start_len": start});
        match asked.prompt {
            Prompt::Ids(ids) => body["input_ids"] = json!(vec![ids; count]),
            prompt => body["text"] = json!(vec![prompt.json(); count]),
        }
        let generated: OneOrMany<Generated> = self.client.post(PATH, &body)?;
        let text = |generated: Generated| {
            let Meta { finish_reason, output_token_logprobs, input_token_logprobs } = generated.meta_info;
            let reason = finish_reason.as_ref().and_then(|reason| reason.get("type")?.as_str());
            let finish = self.finish(reason, PATH)?;
            let ids = |list: &[Scored]| list.iter().map(|(_, id, _)| *id).collect();
            let log_prob = output_token_logprobs.as_deref().and_then(sum).filter(|_| temperature == 1.0);
            Ok(Text {
                text: generated.text,
                ids: output_token_logprobs.as_deref().map(ids),
                prompt_ids: input_token_logprobs.filter(|list| !list.is_empty()).as_deref().map(ids),
                finish,
                log_prob,
            })
        };
        generated.into_vec().into_iter().map(text).collect()
    }

    fn completion(&self, asked: &Asked<'_>) -> Result<Vec<Text>, EndpointError> {
        const PATH: &str = "/completion";
        let Asked { count, max_tokens, temperature, seed, constraint, .. } = *asked;
        if constraint.is_some() {
            return Err(no_weights(Server::LlamaCpp));
        }
        let mut body = json!({
            "n_predict": max_tokens, "temperature": temperature, "samplers": ["temperature"], "top_k": 0, "top_p": 1.0,
            "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": seed >> 1,
            "n_probs": 1, "return_tokens": true, "cache_prompt": true, "n_cmpl": count.min(self.slots),
        });
        body["prompt"] = asked.prompt.json();
        let completed: OneOrMany<Completed> = self.client.post(PATH, &body)?;
        let mut completed = completed.into_vec();
        completed.sort_by_key(|completed| completed.index);
        let text = |completed: Completed| {
            let finish = self.finish(Some(&completed.stop_type), PATH)?;
            let numbers = completed.completion_probabilities;
            let whole = numbers.len() == completed.tokens.len() && temperature == 1.0;
            Ok(Text {
                text: completed.content,
                log_prob: whole.then(|| numbers.iter().map(|number| number.logprob).sum()).flatten(),
                ids: Some(completed.tokens).filter(|ids| !ids.is_empty()),
                prompt_ids: None,
                finish,
            })
        };
        completed.into_iter().map(text).collect()
    }

    /// The sum of the model's own log-probabilities of the tokens `output` after `prompt`, which is not empty.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], where the server fails, or gives no log-probabilities of prompts.
    pub fn score(&self, prompt: &[u32], output: &[u32]) -> Result<f64, EndpointError> {
        let ids = [prompt, output].concat();
        let (path, total) = match self.server() {
            Server::Vllm => {
                let body = json!({
                    "model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0,
                });
                let Choices { choices } = self.client.post("/v1/completions", &body)?;
                let rows = choices.into_iter().next().and_then(|choice| choice.prompt_logprobs);
                let of = |rows: Vec<Option<Map<String, Value>>>| {
                    let rows = rows.get(prompt.len()..)?;
                    let pairs = rows.iter().zip(output);
                    let each =
                        pairs.map(|(row, id)| row.as_ref()?.get(&id.to_string())?.get("logprob")?.as_f64());
                    (rows.len() == output.len()).then(|| each.sum::<Option<f64>>())?
                };
                ("/v1/completions", rows.and_then(of))
            }
            Server::Sglang => {
                let body = json!({
                    "input_ids": ids, "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
                    "return_logprob": true, "logprob_start_len": 0,
                });
                let generated: OneOrMany<Generated> = self.client.post("/generate", &body)?;
                let first = generated.into_vec().into_iter().next();
                let of = |list: Vec<Scored>| {
                    let list = &list[list.len().checked_sub(output.len())?..];
                    list.iter().map(|(_, id, _)| *id).eq(output.iter().copied()).then(|| sum(list))?
                };
                ("/generate", first.and_then(|first| first.meta_info.input_token_logprobs).and_then(of))
            }
            server => return Err(no_weights(server)),
        };
        total.ok_or_else(|| {
            self.client.unknown(path, "it holds no log-probability of each token of the prompt")
        })
    }
}

fn sum(list: &[Scored]) -> Option<f64> {
    list.iter().map(|(number, ..)| *number).sum()
}

/// Why there are no weights.
pub(crate) fn no_weights(server: Server) -> EndpointError {
    match server {
        Server::LlamaCpp => EndpointError::unsupported(
            server,
            "gives the model's own log-probabilities under a constraint, not those after the mask, so that outputs have no weights",
            "use `sampler` rejection, or give its `tokenizer`: then rows of log-probabilities are read, and every sampler runs",
        ),
        _ => EndpointError::unsupported(
            server,
            "gives no log-probabilities after the mask and of prompts that could be relied on, so that outputs have no weights",
            "use `sampler` rejection, or a server of vLLM, SGLang or llama.cpp (`endpoint` server=NAME says which it is)",
        ),
    }
}

fn vllm(
    constraint: &ServerConstraint,
    wrong: impl Fn(String) -> EndpointError,
) -> Result<Value, EndpointError> {
    Ok(match constraint {
        ServerConstraint::Choices(texts) => json!({"choice": texts}),
        ServerConstraint::Regex(regex) => json!({"regex": regex}),
        ServerConstraint::JsonSchema(schema) => {
            let schema: Value = serde_json::from_str(schema)
                .map_err(|error| wrong(format!("the schema is not JSON: {error}")))?;
            json!({"json": schema})
        }
        ServerConstraint::Ebnf(grammar) | ServerConstraint::Lark(grammar) => json!({"grammar": grammar}),
        ServerConstraint::StructuralTag(tag) => json!({"structural_tag": tag}),
    })
}

fn sglang(constraint: &ServerConstraint) -> Result<(&'static str, String), EndpointError> {
    Ok(match constraint {
        ServerConstraint::Choices(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| escaped(text)).collect();
            ("regex", format!("({})", texts.join("|")))
        }
        ServerConstraint::Regex(regex) => ("regex", regex.clone()),
        ServerConstraint::JsonSchema(schema) => ("json_schema", schema.clone()),
        ServerConstraint::Ebnf(grammar) => ("ebnf", grammar.clone()),
        ServerConstraint::StructuralTag(tag) => ("structural_tag", tag.clone()),
        ServerConstraint::Lark(_) => {
            return Err(EndpointError::unsupported(
                Server::Sglang,
                "takes no grammar in Lark",
                "write it in GBNF or in the EBNF of XGrammar, or use `sampler` rejection",
            ));
        }
    })
}

/// A text as a regex.
fn escaped(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => regex.push_str("\\n"),
            '\r' => regex.push_str("\\r"),
            '\t' => regex.push_str("\\t"),
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' | '/'
            | '-' => {
                regex.push('\\');
                regex.push(char);
            }
            other => regex.push(other),
        }
    }
    regex
}
