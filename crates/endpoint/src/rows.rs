//! A server as a [`LanguageModel`]: each row is the log-probabilities of all next tokens, which the server gives as a
//! JSON list.
//!
//! Only whole rows make a model. The most probable tokens alone say nothing of the others, and a constraint may need
//! just those. So a row that lacks an entry, or whose probabilities do not sum to one, is an error, and never filled
//! up.
//!
//! The server keeps its own cache of prefixes. Here nothing is kept: a row is one request, and a batch of rows is one
//! where the server takes several prompts.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};

use crate::{Endpoint, EndpointError, Server, texts::OneOrMany};

/// The entries that one request asks for at most, over all of its rows.
const ENTRIES: usize = 2_000_000;
/// The rows that one request asks for at most.
const ROWS: usize = 64;
/// How far from one the probabilities of a row may sum: they are rounded to 32 bits, and printed.
const TOLERANCE: f64 = 1e-3;

/// A server as a model of tokens.
#[derive(Clone, Debug)]
pub struct EndpointModel {
    endpoint: Arc<Endpoint>,
    vocab_len: usize,
    /// Why there are no rows.
    missing: Option<EndpointError>,
}

impl EndpointModel {
    /// Asks for a row after `probe`, some tokens of the model. `tokens` is the length of its vocabulary, which a row
    /// may exceed: then the server or [`Options::vocab`](crate::Options::vocab) says so.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], where the server gives no whole rows.
    pub fn open(endpoint: Arc<Endpoint>, tokens: usize, probe: &[u32]) -> Result<Self, EndpointError> {
        let vocab_len = endpoint.vocab_len.unwrap_or(tokens);
        let model = Self { endpoint, vocab_len, missing: None };
        model.rows(&[probe])?;
        Ok(model)
    }

    /// A model that answers each question with `why` there are no rows: its endpoint has outputs alone.
    pub fn without_rows(endpoint: Arc<Endpoint>, tokens: usize, why: EndpointError) -> Self {
        Self { endpoint, vocab_len: tokens, missing: Some(why) }
    }

    /// The server.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The rows after some sequences.
    fn rows(&self, prompts: &[&[u32]]) -> Result<Vec<Vec<f32>>, EndpointError> {
        if let Some(why) = &self.missing {
            return Err(why.clone());
        }
        let together = (ENTRIES / self.vocab_len.max(1)).clamp(1, ROWS);
        let mut rows = Vec::with_capacity(prompts.len());
        for prompts in prompts.chunks(together) {
            let entries = match self.endpoint.server() {
                Server::Vllm => self.vllm(prompts),
                Server::Sglang => self.sglang(prompts),
                Server::LlamaCpp => self.llama_cpp(prompts),
                server @ Server::OpenAi => Err(EndpointError::unsupported(
                    server,
                    "gives no whole rows of log-probabilities",
                    "use `sampler` rejection, or a server of vLLM, SGLang or llama.cpp (`endpoint` server=NAME says which \
                     it is)",
                )),
            }?;
            if entries.len() != prompts.len() {
                let reason = format!("it holds {} rows for {} prompts", entries.len(), prompts.len());
                return Err(self.endpoint.client.unknown("", reason));
            }
            for entries in entries {
                rows.push(self.whole(entries)?);
            }
        }
        Ok(rows)
    }

    /// The row of its entries.
    fn whole(&self, entries: Vec<(u32, f64)>) -> Result<Vec<f32>, EndpointError> {
        let server = self.endpoint.server();
        let mut row = vec![f32::NAN; self.vocab_len];
        let (mut got, mut sum) = (0, 0.0);
        for (id, log_prob) in entries {
            let Some(entry) = row.get_mut(id as usize) else {
                let reason = format!(
                    "it names token {id}, and {} tokens are expected (`endpoint` vocab=N says how many there are)",
                    self.vocab_len
                );
                return Err(EndpointError::Row { server, reason });
            };
            if entry.is_nan() {
                got += 1;
                sum += log_prob.exp();
                #[allow(clippy::cast_possible_truncation, reason = "servers compute in 32 bits")]
                let log_prob = log_prob as f32;
                *entry = log_prob;
            }
        }
        if got != self.vocab_len {
            let way_out = match server {
                Server::Vllm => "start it with --max-logprobs -1, or use `sampler` rejection or masked",
                _ => "use `sampler` rejection",
            };
            return Err(EndpointError::NotWhole {
                server,
                got,
                of: self.vocab_len,
                way_out: way_out.to_owned(),
            });
        }
        if (sum - 1.0).abs() > TOLERANCE || sum.is_nan() {
            let reason = format!("the probabilities of {got} tokens sum to {sum:.4}");
            return Err(EndpointError::Row { server, reason });
        }
        Ok(row)
    }

    fn vllm(&self, prompts: &[&[u32]]) -> Result<Vec<Vec<(u32, f64)>>, EndpointError> {
        #[derive(Deserialize)]
        struct Answer {
            choices: Vec<Choice>,
        }
        #[derive(Deserialize)]
        struct Choice {
            #[serde(default)]
            index: usize,
            logprobs: Option<LogProbs>,
        }
        #[derive(Deserialize)]
        struct LogProbs {
            #[serde(default)]
            top_logprobs: Vec<Option<HashMap<String, f64>>>,
        }
        const PATH: &str = "/v1/completions";
        let body = json!({
            "model": self.endpoint.model, "prompt": prompts, "max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
            "min_p": 0.0, "repetition_penalty": 1.0, "logprobs": self.vocab_len, "return_tokens_as_token_ids": true,
        });
        let Answer { mut choices } = match self.endpoint.client.post(PATH, &body) {
            Err(EndpointError::Status { status: 400 | 422, message, .. }) => {
                return Err(EndpointError::unsupported(
                    Server::Vllm,
                    format!("gives no whole rows of log-probabilities ({message})"),
                    "start it with --max-logprobs -1, or use `sampler` rejection or masked",
                ));
            }
            answer => answer?,
        };
        choices.sort_by_key(|choice| choice.index);
        let entries = |choice: Choice| {
            let top = choice.logprobs.and_then(|of| of.top_logprobs.into_iter().next().flatten());
            let top = top.ok_or_else(|| self.endpoint.client.unknown(PATH, "it holds no `top_logprobs`"))?;
            let id = |name: &str| name.strip_prefix("token_id:")?.parse().ok();
            let entry = |(name, log_prob): (String, f64)| {
                let id = id(&name)
                    .ok_or_else(|| self.endpoint.client.unknown(PATH, format!("{name:?} is no `token_id:`")));
                Ok((id?, log_prob))
            };
            top.into_iter().map(entry).collect()
        };
        choices.into_iter().map(entries).collect()
    }

    fn sglang(&self, prompts: &[&[u32]]) -> Result<Vec<Vec<(u32, f64)>>, EndpointError> {
        type Top = Vec<(f64, u32, Option<Value>)>;
        #[derive(Deserialize)]
        struct Answer {
            meta_info: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(default)]
            output_top_logprobs: Vec<Option<Top>>,
        }
        const PATH: &str = "/generate";
        let body = json!({
            "input_ids": prompts, "sampling_params": {"max_new_tokens": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1},
            "return_logprob": true, "logprob_start_len": -1, "top_logprobs_num": self.vocab_len,
        });
        let answer: OneOrMany<Answer> = self.endpoint.client.post(PATH, &body)?;
        let entries = |answer: Answer| {
            let top = answer.meta_info.output_top_logprobs.into_iter().next().flatten();
            let top =
                top.ok_or_else(|| self.endpoint.client.unknown(PATH, "it holds no `output_top_logprobs`"))?;
            Ok(top.into_iter().map(|(log_prob, id, _)| (id, log_prob)).collect())
        };
        answer.into_vec().into_iter().map(entries).collect()
    }

    fn llama_cpp(&self, prompts: &[&[u32]]) -> Result<Vec<Vec<(u32, f64)>>, EndpointError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            index: usize,
            #[serde(default)]
            completion_probabilities: Vec<Probabilities>,
        }
        #[derive(Deserialize)]
        struct Probabilities {
            #[serde(default)]
            top_logprobs: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            id: u32,
            logprob: Option<f64>,
        }
        const PATH: &str = "/completion";
        // The server leaves out the row of a drawn token that is a part of a character. The bias decides which token
        // is drawn, and rows are taken before it. The ids here know no bytes, so a token that is whole is found by
        // trying.
        let prompt = match prompts {
            [one] => json!(one),
            many => json!(many),
        };
        let mut biased = 0;
        loop {
            let body = json!({
                "prompt": prompt, "n_predict": 1, "temperature": 1.0, "samplers": ["temperature"], "n_probs": self.vocab_len,
                "cache_prompt": true, "post_sampling_probs": false, "logit_bias": [[biased, 1e4]],
            });
            let answers: OneOrMany<Answer> = self.endpoint.client.post(PATH, &body)?;
            let mut answers = answers.into_vec();
            answers.sort_by_key(|answer| answer.index);
            let lacks = |answer: &Answer| answer.completion_probabilities.is_empty();
            if answers.iter().any(lacks) && biased < 256 && (biased as usize) < self.vocab_len {
                biased += 16;
                continue;
            }
            let entries = |answer: Answer| {
                let row = answer.completion_probabilities.into_iter().next();
                let row = row.ok_or_else(|| {
                    self.endpoint.client.unknown(PATH, "it holds no `completion_probabilities`")
                })?;
                let entry = |entry: Entry| (entry.id, entry.logprob.unwrap_or(f64::NEG_INFINITY));
                Ok(row.top_logprobs.into_iter().map(entry).collect())
            };
            return answers.into_iter().map(entries).collect();
        }
    }
}

impl LanguageModel for EndpointModel {
    type Sequence = Vec<u32>;
    type Error = EndpointError;

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn context_len(&self) -> Option<usize> {
        // The tokens of outputs alone are not counted here.
        match self.missing {
            Some(_) => None,
            // A server that has read a whole context has no room for the token that a row is of.
            None => self.endpoint.context_len.map(|len| len - 1),
        }
    }

    fn start(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn len(&self, sequence: &Vec<u32>) -> usize {
        sequence.len()
    }

    fn fork(&mut self, sequence: &Vec<u32>) -> Vec<u32> {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Vec<u32>, len: usize) {
        assert!(len <= sequence.len(), "a sequence of {} tokens has no first {len}", sequence.len());
        sequence.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<u32>>],
        logits: &mut Logits,
    ) -> Result<(), EndpointError> {
        let mut prefixes: Vec<Vec<u32>> = Vec::new();
        for Extension { sequence, tokens, rows } in &*batch {
            if let Some(TokenId(token)) = tokens.iter().find(|token| token.index() >= self.vocab_len) {
                return Err(EndpointError::Token { token: *token, vocab_len: self.vocab_len });
            }
            let mut all = (*sequence).clone();
            all.extend(tokens.iter().map(|token| token.0));
            if let Some(context) = self.context_len().filter(|context| all.len() > *context) {
                return Err(EndpointError::Context { len: all.len(), context });
            }
            if all.is_empty() && *rows == Rows::Last {
                return Err(EndpointError::Empty);
            }
            prefixes.extend(rows.prefixes(tokens.len(), all.len()).map(|len| all[..len].to_vec()));
        }
        let prefixes: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
        let rows = self.rows(&prefixes)?;
        let target = logits.reset(rows.len(), self.vocab_len);
        for (target, row) in target.chunks_exact_mut(self.vocab_len.max(1)).zip(&rows) {
            target.copy_from_slice(row);
        }
        for Extension { sequence, tokens, .. } in batch {
            sequence.extend(tokens.iter().map(|token| token.0));
        }
        Ok(())
    }
}
