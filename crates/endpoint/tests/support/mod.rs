//! Servers for tests: HTTP over a listener of the standard library, one request a connection, that answer as vLLM,
//! SGLang, llama.cpp's server and OpenAI's interface do, over any model; and faults by a script.

#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde_json::{Map, Value, json};
use unskew_automata::RegexConstraint;
use unskew_core::{
    Constraint, Extension, LanguageModel, Logits, Rows, TableModel, TokenId, TokenMask, Vocabulary,
};
use unskew_runner::Llama;
use unskew_vocab::Tokenizer;

/// The behaviour of a server in place of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A status, a header line (or none) and a body.
    Status(u16, &'static str, &'static str),
    /// Half of the answer, and the end of the connection.
    Truncated,
    /// No answer for this time.
    Slow(Duration),
    /// Another body with status 200.
    Body(&'static str),
    /// Zeros without an end.
    Endless,
}

/// The server that is played.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Upstream {
    Vllm { whole_rows: bool },
    Sglang,
    LlamaCpp,
    OpenAi,
}

/// The log-probabilities after a sequence.
type RowOf = Box<dyn FnMut(&[u32]) -> Vec<f64> + Send>;
type Encode = Box<dyn Fn(&str) -> Vec<u32> + Send>;

/// A model with its tokens, row by row.
pub(crate) struct World {
    row: RowOf,
    pub(crate) vocabulary: Arc<Vocabulary>,
    encode: Encode,
}

fn rows_of<M: LanguageModel<Sequence: Send> + Send + 'static>(mut model: M) -> RowOf {
    let mut known = std::collections::HashMap::<Vec<u32>, Vec<f64>>::new();
    Box::new(move |ids| {
        let mut compute = || {
            let (mut sequence, mut logits) = (model.start(), Logits::new());
            let tokens: Vec<TokenId> = ids.iter().copied().map(TokenId).collect();
            let batch = &mut [Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::Last }];
            model.extend(batch, &mut logits).unwrap();
            let row = logits.row(0);
            let normalizer = unskew_core::logprob::log_normalizer(row);
            row.iter().map(|logit| f64::from(*logit) - normalizer).collect::<Vec<f64>>()
        };
        known.entry(ids.to_vec()).or_insert_with(&mut compute).clone()
    })
}

pub(crate) fn tiny() -> Llama {
    let tiny = unskew_tiny_model::TINY;
    Llama::from_bytes(tiny.config_json, tiny.safetensors).unwrap()
}

pub(crate) fn tokenizer() -> Tokenizer {
    Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap()
}

impl World {
    /// The embedded model.
    pub(crate) fn tiny() -> Self {
        let tokenizer = tokenizer();
        Self {
            row: rows_of(tiny()),
            vocabulary: Arc::clone(tokenizer.vocabulary()),
            encode: Box::new(move |text| {
                tokenizer.encode(text, true).unwrap().iter().map(|id| id.0).collect()
            }),
        }
    }

    /// A table, whose prompt may be empty. Texts are encoded byte by byte.
    pub(crate) fn table(table: TableModel) -> Self {
        let vocabulary = Arc::clone(table.vocabulary());
        let texts: Vec<Vec<u8>> = vocabulary.text_tokens().map(|(_, text)| text.to_vec()).collect();
        let id =
            move |byte: u8| u32::try_from(texts.iter().position(|text| text[..] == [byte]).unwrap()).unwrap();
        Self {
            row: rows_of(table),
            vocabulary,
            encode: Box::new(move |text| text.bytes().map(&id).collect()),
        }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

/// A server on a port of its own, until the process ends.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    pub(crate) faults: Arc<Mutex<VecDeque<Fault>>>,
}

struct Playing {
    upstream: Upstream,
    world: World,
}

impl Server {
    pub(crate) fn start(upstream: Upstream, world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (seen, faults) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(VecDeque::new())));
        let (see, fail) = (Arc::clone(&seen), Arc::clone(&faults));
        let mut playing = Playing { upstream, world };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some(request) = read(&stream) else { continue };
                see.lock().unwrap().push(request.clone());
                let fault = fail.lock().unwrap().pop_front();
                // The client may have given up.
                let _ = match fault {
                    Some(fault) => fail_by(&mut stream, fault, &mut playing, &request),
                    None => {
                        let (status, answer) = playing.answer(&request);
                        write(&mut stream, status, "", answer.to_string().as_bytes())
                    }
                };
            }
        });
        Self { address, seen, faults }
    }

    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.path == path).cloned().collect()
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { path, authorization, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn write(stream: &mut TcpStream, status: u16, header: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{header}\r\n")?;
    stream.write_all(body)
}

fn fail_by(
    stream: &mut TcpStream,
    fault: Fault,
    playing: &mut Playing,
    request: &Seen,
) -> std::io::Result<()> {
    match fault {
        Fault::Status(status, header, body) => write(stream, status, header, body.as_bytes()),
        Fault::Body(body) => write(stream, 200, "", body.as_bytes()),
        Fault::Slow(time) => {
            thread::sleep(time);
            Ok(())
        }
        Fault::Truncated => {
            let body = playing.answer(request).1.to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
            stream.write_all(&body.as_bytes()[..body.len() / 2])
        }
        Fault::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b'0'; 4096])?;
            }
        }
    }
}

/// An output, with the log-probability of each token, the end among them.
struct Drawn {
    ids: Vec<u32>,
    log_probs: Vec<f64>,
    ended: bool,
}

impl Playing {
    fn answer(&mut self, request: &Seen) -> (u16, Value) {
        let body = &request.body;
        match (request.path.as_str(), self.upstream) {
            ("/v1/models", upstream) => (200, self.models(upstream)),
            ("/props", Upstream::LlamaCpp) => (200, json!({"total_slots": 4})),
            ("/tokenize", upstream) if upstream != Upstream::OpenAi => {
                let text = body["content"].as_str().or(body["prompt"].as_str()).unwrap();
                let ids: Vec<u32> = (self.world.encode)(text).into_iter().filter(|id| *id != 0).collect();
                (200, json!({"tokens": ids}))
            }
            ("/v1/completions", Upstream::Vllm { whole_rows }) => self.vllm(body, whole_rows),
            ("/v1/completions", Upstream::OpenAi) => {
                let choices = self.choices(body, |_, _| {});
                (200, json!({"choices": choices}))
            }
            ("/v1/chat/completions", _) => {
                let mut body = body.clone();
                body["prompt"] = body["messages"][0]["content"].clone();
                let choices = self.choices(&body, |choice, _| {
                    let text = choice.remove("text").unwrap();
                    choice.insert("message".to_owned(), json!({"role": "assistant", "content": text}));
                });
                (200, json!({"choices": choices}))
            }
            ("/generate", Upstream::Sglang) => (200, self.sglang(body)),
            ("/completion", Upstream::LlamaCpp) => (200, self.llama_cpp(body)),
            _ => (404, json!({"error": {"message": "Not Found"}})),
        }
    }

    fn models(&self, upstream: Upstream) -> Value {
        let owner = match upstream {
            Upstream::Vllm { .. } => "vllm",
            Upstream::Sglang => "sglang",
            Upstream::LlamaCpp => "llamacpp",
            Upstream::OpenAi => "somebody",
        };
        let mut model = json!({"id": "tiny", "object": "model", "owned_by": owner});
        match upstream {
            Upstream::LlamaCpp => {
                model["meta"] = json!({"n_vocab": self.world.vocabulary.len(), "n_ctx": 512});
            }
            Upstream::OpenAi => {}
            _ => model["max_model_len"] = json!(512),
        }
        json!({"object": "list", "data": [model]})
    }

    fn prompts(&self, prompt: &Value) -> Vec<Vec<u32>> {
        let ids = |list: &Value| -> Vec<u32> { serde_json::from_value(list.clone()).unwrap() };
        match prompt {
            Value::String(text) => vec![(self.world.encode)(text)],
            Value::Array(list) if list.iter().all(Value::is_number) => vec![ids(prompt)],
            Value::Array(list) => list.iter().flat_map(|one| self.prompts(one)).collect(),
            _ => panic!("a prompt"),
        }
    }

    /// Draws an output at a temperature, under a regex where there is one. Log-probabilities are those after the mask.
    fn draw(
        &mut self,
        prompt: &[u32],
        most: usize,
        temperature: f64,
        seed: u64,
        regex: Option<&str>,
    ) -> Drawn {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let vocabulary = Arc::clone(&self.world.vocabulary);
        let constraint =
            regex.map(|regex| RegexConstraint::for_vocabulary(regex, Arc::clone(&vocabulary)).unwrap());
        let mut state = constraint.as_ref().map(Constraint::start);
        let mut drawn = Drawn { ids: Vec::new(), log_probs: Vec::new(), ended: false };
        while drawn.ids.len() < most {
            let mut row = (self.world.row)(&[prompt, &drawn.ids].concat());
            if let (Some(constraint), Some(state)) = (&constraint, &state) {
                let mut mask = TokenMask::new(constraint.vocab_len());
                constraint.fill_mask(&mut constraint.scratch(), state, mask.as_mut());
                for (id, entry) in row.iter_mut().enumerate() {
                    let token = TokenId::from_index(id);
                    let allowed = match vocabulary.is_end_of_sequence(token) {
                        true => constraint.is_accepting(state),
                        false => mask.contains(token),
                    };
                    if !allowed {
                        *entry = f64::NEG_INFINITY;
                    }
                }
                let total: f64 = row.iter().map(|entry| entry.exp()).sum();
                row.iter_mut().for_each(|entry| *entry -= total.ln());
            }
            let weights: Vec<f64> = row.iter().map(|entry| (entry / temperature).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut left = f64::from(rng.next_u32()) / 4_294_967_296.0 * total;
            let chosen = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            let chosen = chosen.unwrap_or_else(|| weights.iter().rposition(|weight| *weight > 0.0).unwrap());
            drawn.ids.push(u32::try_from(chosen).unwrap());
            drawn.log_probs.push(row[chosen]);
            if vocabulary.is_end_of_sequence(TokenId::from_index(chosen)) {
                drawn.ended = true;
                break;
            }
            if let (Some(constraint), Some(state)) = (&constraint, &mut state) {
                constraint.advance(&mut constraint.scratch(), state, TokenId::from_index(chosen)).unwrap();
            }
        }
        drawn
    }

    fn text(&self, drawn: &Drawn) -> String {
        let kept = drawn.ids.len() - usize::from(drawn.ended);
        let ids: Vec<TokenId> = drawn.ids[..kept].iter().copied().map(TokenId).collect();
        String::from_utf8_lossy(&self.world.vocabulary.decode(&ids)).into_owned()
    }

    fn choices(&mut self, body: &Value, more: impl Fn(&mut Map<String, Value>, &Drawn)) -> Vec<Value> {
        let prompt = self.prompts(&body["prompt"]).remove(0);
        let outputs = &body["structured_outputs"];
        let regex = outputs["regex"].as_str().map(str::to_owned).or_else(|| {
            let texts: Vec<&str> = outputs["choice"].as_array()?.iter().filter_map(Value::as_str).collect();
            Some(texts.join("|"))
        });
        let count = body["n"].as_u64().unwrap_or(1);
        let most = usize::try_from(body["max_tokens"].as_u64().unwrap()).unwrap();
        let choice = |index| {
            let seed = body["seed"].as_u64().unwrap_or(0) * 1000 + index;
            let temperature = body["temperature"].as_f64().unwrap_or(1.0);
            let drawn = self.draw(&prompt, most, temperature, seed, regex.as_deref());
            let finish = if drawn.ended { "stop" } else { "length" };
            let mut choice = json!({"index": index, "text": self.text(&drawn), "finish_reason": finish});
            more(choice.as_object_mut().unwrap(), &drawn);
            choice
        };
        let mut choices: Vec<Value> = (0..count).map(choice).collect();
        // Servers answer as outputs finish.
        choices.reverse();
        choices
    }

    fn vllm(&mut self, body: &Value, whole_rows: bool) -> (u16, Value) {
        let logprobs = body["logprobs"].as_u64().unwrap_or(0);
        if logprobs > 20 && !whole_rows {
            let message = "Requested sample logprobs of 2048, which is greater than max allowed: 20";
            return (400, json!({"error": {"message": message, "type": "BadRequestError"}}));
        }
        let prompts = self.prompts(&body["prompt"]);
        if logprobs > 0 {
            let of = |(index, prompt): (usize, &Vec<u32>)| {
                let row = (self.world.row)(prompt);
                let top: Map<String, Value> = row
                    .iter()
                    .enumerate()
                    .map(|(id, entry)| (format!("token_id:{id}"), json!(entry.max(-9999.0))))
                    .collect();
                json!({"index": index, "text": "", "finish_reason": "length", "logprobs": {"top_logprobs": [top]}})
            };
            return (200, json!({"choices": prompts.iter().enumerate().map(of).collect::<Vec<_>>()}));
        }
        if body["prompt_logprobs"].is_number() {
            let ids = &prompts[0];
            let of = |index: usize| match index {
                0 => Value::Null,
                index => {
                    let log_prob = (self.world.row)(&ids[..index])[ids[index] as usize];
                    json!({ids[index].to_string(): {"logprob": log_prob, "rank": 1, "decoded_token": ""}})
                }
            };
            let rows: Vec<Value> = (0..ids.len()).map(of).collect();
            let choice = json!({"index": 0, "text": "", "finish_reason": "length", "prompt_logprobs": rows});
            return (200, json!({"choices": [choice]}));
        }
        let mut choices = self.choices(body, |choice, drawn| {
            choice.insert("token_ids".to_owned(), json!(drawn.ids));
            choice.insert("logprobs".to_owned(), json!({"token_logprobs": drawn.log_probs}));
        });
        if let Some(first) = choices.last_mut() {
            first["prompt_token_ids"] = json!(prompts[0]);
        }
        (200, json!({"choices": choices}))
    }

    fn sglang(&mut self, body: &Value) -> Value {
        let asked = if body["text"].is_null() { &body["input_ids"] } else { &body["text"] };
        let prompts = self.prompts(asked);
        let single = asked.is_string() || asked[0].is_number();
        let of = |(index, prompt): (usize, &Vec<u32>)| {
            let parameters = match &body["sampling_params"] {
                Value::Array(each) => &each[index],
                one => one,
            };
            let most = usize::try_from(parameters["max_new_tokens"].as_u64().unwrap()).unwrap();
            let seed = parameters["sampling_seed"].as_u64().unwrap_or(0);
            let drawn = self.draw(prompt, most, 1.0, seed, parameters["regex"].as_str());
            let finish = if drawn.ended { "stop" } else { "length" };
            let output: Vec<Value> = drawn
                .ids
                .iter()
                .zip(&drawn.log_probs)
                .map(|(id, number)| json!([number, id, null]))
                .collect();
            let input: Vec<Value> = match body["logprob_start_len"].as_i64() {
                Some(0) => (0..prompt.len())
                    .map(|at| match at {
                        0 => json!([null, prompt[0], null]),
                        at => json!([(self.world.row)(&prompt[..at])[prompt[at] as usize], prompt[at], null]),
                    })
                    .collect(),
                _ => Vec::new(),
            };
            let mut meta = json!({
                "finish_reason": {"type": finish}, "output_token_logprobs": output, "input_token_logprobs": input,
            });
            if let Some(top) = body["top_logprobs_num"].as_u64() {
                let mut row: Vec<(usize, f64)> = (self.world.row)(prompt).into_iter().enumerate().collect();
                row.sort_by(|one, other| other.1.total_cmp(&one.1));
                row.truncate(usize::try_from(top).unwrap());
                let row: Vec<Value> = row.iter().map(|(id, entry)| json!([entry, id, null])).collect();
                meta["output_top_logprobs"] = json!([row]);
            }
            json!({"text": self.text(&drawn), "meta_info": meta})
        };
        let mut answers: Vec<Value> = prompts.iter().enumerate().map(of).collect();
        if single { answers.remove(0) } else { Value::Array(answers) }
    }

    fn llama_cpp(&mut self, body: &Value) -> Value {
        let probs = body["n_probs"].as_u64().unwrap_or(0);
        let prompts = self.prompts(&body["prompt"]);
        let count = body["n_cmpl"].as_u64().unwrap_or(1);
        assert!(count <= 4, "as many as there are slots");
        let mut answers = Vec::new();
        for (prompt, child) in prompts.iter().flat_map(|prompt| (0..count).map(move |child| (prompt, child)))
        {
            let most = usize::try_from(body["n_predict"].as_u64().unwrap()).unwrap();
            let seed = body["seed"].as_u64().unwrap_or(0) + child;
            let drawn = self.draw(prompt, most, 1.0, seed, None);
            let mut each: Vec<Value> = drawn
                .ids
                .iter()
                .zip(&drawn.log_probs)
                .map(|(id, number)| json!({"id": id, "logprob": number}))
                .collect();
            if probs > 1 {
                let row = (self.world.row)(prompt);
                let top: Vec<Value> =
                    row.iter().enumerate().map(|(id, entry)| json!({"id": id, "logprob": entry})).collect();
                each[0]["top_logprobs"] = json!(top);
            }
            // A token that is a part of a character is not sent, and neither is its row.
            let biased = body["logit_bias"][0][0].as_u64();
            if biased.is_some_and(|id| id == 0) {
                each.clear();
            }
            answers.push(json!({
                "index": answers.len(), "content": self.text(&drawn), "tokens": drawn.ids, "completion_probabilities": each,
                "stop_type": if drawn.ended { "eos" } else { "limit" },
            }));
        }
        if answers.len() == 1 { answers.remove(0) } else { Value::Array(answers) }
    }
}
