//! The options of an endpoint, and its key.

use std::{fmt, str::FromStr, time::Duration};

use crate::{EndpointError, Server};

/// The variable that holds the key of any server.
pub const KEY_VARIABLE: &str = "UNSKEW_API_KEY";
/// The variable that holds the key of OpenAI's own server, and is sent nowhere else.
const OPENAI_VARIABLE: &str = "OPENAI_API_KEY";
const OPENAI_HOST: &str = "api.openai.com";

/// How a server is asked. Change the fields of [`Options::default`], or read them from a text: `timeout=60,retries=2`.
///
/// # Example
///
/// ```
/// use unskew_endpoint::Options;
///
/// let options: Options = "timeout=60,model=meta-llama/Llama-3.2-1B".parse()?;
/// assert_eq!(options.timeout.as_secs(), 60);
/// assert!("speed=9".parse::<Options>().is_err());
/// # Ok::<(), unskew_endpoint::EndpointError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long a whole answer may take. 300 seconds by default.
    pub timeout: Duration,
    /// How often a request is sent again where the server is busy (HTTP 429, 502, 503, 504) or the connection breaks.
    /// 4 by default.
    pub retries: u32,
    /// The wait before the first repetition, which doubles each time where the server names no other. A quarter of a
    /// second by default.
    pub backoff: Duration,
    /// The model, where the server has several.
    pub model: Option<String>,
    /// The kind of the server, where it does not say so itself.
    pub server: Option<Server>,
    /// The entries of a row, where they are more than the tokenizer has tokens and the server does not say how many.
    pub vocab: Option<usize>,
    /// The longest answer, in bytes. 512 MiB by default: a whole row of 150,000 tokens takes up to 20.
    pub bytes: u64,
    /// The environment variable with the key. By default `UNSKEW_API_KEY`, and for `api.openai.com` `OPENAI_API_KEY`
    /// where that is not set.
    pub key_variable: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            retries: 4,
            backoff: Duration::from_millis(250),
            model: None,
            server: None,
            vocab: None,
            bytes: 512 << 20,
            key_variable: None,
        }
    }
}

impl FromStr for Options {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut options = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            options.set(name.trim(), value.trim())?;
        }
        Ok(options)
    }
}

impl Options {
    /// Sets one option by its name.
    ///
    /// # Errors
    ///
    /// [`EndpointError::Option`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), EndpointError> {
        let wrong = |why: String| EndpointError::Option { option: name.to_owned(), why };
        let number = |most: u64| match value.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(wrong(format!("{value:?} is not a whole number up to {most}"))),
        };
        match name {
            "timeout" => match number(86_400)? {
                0 => return Err(wrong("an answer takes longer than 0 seconds".to_owned())),
                seconds => self.timeout = Duration::from_secs(seconds),
            },
            "retries" => self.retries = u32::try_from(number(100)?).unwrap_or(100),
            "vocab" => self.vocab = usize::try_from(number(1 << 24)?).ok(),
            "bytes" => self.bytes = number(1 << 40)?,
            "model" | "key" if value.is_empty() => return Err(wrong("a name is missing".to_owned())),
            "model" => self.model = Some(value.to_owned()),
            "key" => self.key_variable = Some(value.to_owned()),
            "server" => {
                self.server = Some(Server::from_name(value).ok_or_else(|| {
                    wrong(format!("{value:?} is none of vllm, sglang, llama.cpp and openai"))
                })?);
            }
            _ => {
                return Err(wrong(
                    "there is none; there are timeout, retries, model, server, vocab, bytes and key"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// The variable that was read, and the key in it.
    pub(crate) fn key(&self, host: &str) -> Result<(String, Option<Key>), EndpointError> {
        let read = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let default = match host == OPENAI_HOST && read(KEY_VARIABLE).is_none() {
            true => OPENAI_VARIABLE,
            false => KEY_VARIABLE,
        };
        let variable = self.key_variable.clone().unwrap_or_else(|| default.to_owned());
        let Some(value) = read(&variable) else {
            return match &self.key_variable {
                Some(name) => Err(EndpointError::Option {
                    option: "key".to_owned(),
                    why: format!("the environment variable {name} is not set"),
                }),
                None => Ok((variable, None)),
            };
        };
        let text = value.into_string().unwrap_or_default();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(EndpointError::Key { variable });
        }
        Ok((variable, Some(Key(text))))
    }
}

/// A key, which no text shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The value of the header.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A text of the server without the key, which some servers repeat.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.0, "(key)")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}
