//! The servers that are known, and how each is recognised.
//!
//! All answer `GET /v1/models`, and three of them say there who they are (`owned_by`). One request so tells the
//! server, its models and, mostly, sizes. Anything else is read as OpenAI's interface alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EndpointError, Options, client::Client};

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Server {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's own server.
    LlamaCpp,
    /// Any with OpenAI's interface.
    OpenAi,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::LlamaCpp => "llama.cpp's server",
            Self::OpenAi => "an OpenAI-compatible server",
        })
    }
}

impl Server {
    /// The server with this name among the options.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "vllm" => Self::Vllm,
            "sglang" => Self::Sglang,
            "llama.cpp" | "llama-cpp" | "llamacpp" => Self::LlamaCpp,
            "openai" => Self::OpenAi,
            _ => return None,
        })
    }

    /// Whether its log-probabilities under a constraint are those after the mask, and a prompt can be scored: both
    /// are needed for weights.
    pub fn weighs(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }

    /// Whether it gives the tokens of its outputs.
    pub fn gives_ids(self) -> bool {
        self != Self::OpenAi
    }
}

#[derive(Deserialize)]
struct Models {
    #[serde(default)]
    data: Vec<ServedModel>,
}

#[derive(Deserialize)]
struct ServedModel {
    id: String,
    #[serde(default)]
    owned_by: Option<String>,
    /// vLLM and SGLang.
    #[serde(default)]
    max_model_len: Option<usize>,
    /// llama.cpp.
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    n_vocab: Option<usize>,
    #[serde(default)]
    n_ctx: Option<usize>,
}

#[derive(Deserialize)]
struct Props {
    #[serde(default)]
    total_slots: Option<usize>,
}

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<u32>,
}

/// A model that a server runs.
///
/// # Example
///
/// ```no_run
/// use unskew_endpoint::{Endpoint, Options};
///
/// let endpoint = Endpoint::connect("http://localhost:8000", &Options::default())?;
/// println!("{} at {}", endpoint.server(), endpoint.address());
/// # Ok::<(), unskew_endpoint::EndpointError>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) client: Client,
    pub(crate) model: String,
    pub(crate) context_len: Option<usize>,
    /// The entries of a row, where the server or the user says it.
    pub(crate) vocab_len: Option<usize>,
    /// The outputs that it draws in one request.
    pub(crate) slots: usize,
}

impl Endpoint {
    /// Asks the server at `address` which models it has. A `/v1` at the end of the address may be there or not.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], where there is no server, or it has several models and the options name none.
    pub fn connect(address: &str, options: &Options) -> Result<Self, EndpointError> {
        let mut client = Client::new(address, options)?;
        let Models { data } = client.get("/v1/models")?;
        let chosen = match &options.model {
            Some(name) => data.iter().find(|model| model.id == *name),
            None if data.len() > 1 => {
                let names = data.into_iter().map(|model| model.id).take(20).collect();
                return Err(EndpointError::Models { address: client.base().to_owned(), names });
            }
            None => data.first(),
        };
        let owner = data.iter().find_map(|model| model.owned_by.as_deref()).unwrap_or_default();
        client.server = options.server.or_else(|| Server::from_name(owner)).unwrap_or(Server::OpenAi);
        // An adapter or an alias may be served without being listed.
        let named = options.model.clone().or_else(|| chosen.map(|model| model.id.clone()));
        let Some(model) = named else {
            return Err(client.unknown("/v1/models", "it lists no model"));
        };
        let meta = chosen.and_then(|model| model.meta.as_ref());
        let slots = match client.server {
            Server::LlamaCpp => {
                client.get::<Props>("/props").ok().and_then(|props| props.total_slots).unwrap_or(1)
            }
            _ => usize::MAX,
        };
        Ok(Self {
            model,
            context_len: chosen
                .and_then(|model| model.max_model_len.or_else(|| model.meta.as_ref()?.n_ctx))
                .filter(|len| *len > 0),
            vocab_len: options.vocab.or_else(|| meta?.n_vocab),
            slots: slots.max(1),
            client,
        })
    }

    /// The kind of the server.
    pub fn server(&self) -> Server {
        self.client.server
    }

    /// Its address, without `/v1`.
    pub fn address(&self) -> &str {
        self.client.base()
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The most tokens of a sequence, where the server says it.
    pub fn context_len(&self) -> Option<usize> {
        self.context_len
    }

    /// Compares the tokens of a text with the server's, where it tells its own: a constraint over the tokens of
    /// another tokenizer allows other texts.
    ///
    /// # Errors
    ///
    /// [`EndpointError::Tokenizer`] where they differ, or the server fails.
    pub fn check_tokens(&self, text: &str, ours: &[u32]) -> Result<(), EndpointError> {
        #[derive(Serialize)]
        struct Content<'a> {
            content: &'a str,
            add_special: bool,
        }
        #[derive(Serialize)]
        struct Prompt<'a> {
            model: &'a str,
            prompt: &'a str,
            add_special_tokens: bool,
        }
        let theirs = match self.server() {
            Server::LlamaCpp => self.client.post("/tokenize", &Content { content: text, add_special: false }),
            Server::Vllm | Server::Sglang => {
                let prompt = Prompt { model: &self.model, prompt: text, add_special_tokens: false };
                self.client.post("/tokenize", &prompt)
            }
            Server::OpenAi => return Ok(()),
        };
        match theirs {
            Ok(Tokens { tokens }) if tokens == ours => Ok(()),
            Ok(Tokens { tokens }) => {
                Err(EndpointError::Tokenizer { text: text.to_owned(), ours: ours.to_vec(), theirs: tokens })
            }
            // Older releases and some proxies do not have it.
            Err(EndpointError::Status { status: 404 | 405, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
