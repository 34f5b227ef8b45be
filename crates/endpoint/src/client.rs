//! JSON over HTTP, with an end to everything: time, tries, bytes.
//!
//! The library is ureq, which blocks. Samplers wait for each answer anyway, so an asynchronous client (reqwest,
//! hyper) brings a runtime and some sixty crates for nothing. ureq sends no POST again by itself, and knows nothing
//! of `Retry-After`: that is here. A request for outputs may be sent again, since an answer that was lost was seen by
//! nobody.
//!
//! Redirections are not followed: a POST becomes a GET on the way, and the key goes to another host.

use std::{io, thread::sleep, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use ureq::{Agent, Error, http::Response};

use crate::{EndpointError, Options, Server, options::Key};

/// The longest wait that a server may ask for.
const MOST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait between tries where the server names none.
const MOST_BACKOFF: Duration = Duration::from_secs(8);
/// The part of a server's message that is read, and the part that is shown.
const MESSAGE_BYTES: u64 = 64 << 10;
const MESSAGE_CHARS: usize = 400;

/// A server that can be asked.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    /// The address without `/v1`.
    base: String,
    key: Option<Key>,
    variable: String,
    options: Options,
    /// The server that answers are read as.
    pub(crate) server: Server,
}

/// The end of one try.
enum Failure {
    /// Another try may help, after this time where the server names one.
    Again(EndpointError, Option<Duration>),
    Final(EndpointError),
}

impl Client {
    pub(crate) fn new(address: &str, options: &Options) -> Result<Self, EndpointError> {
        let (base, host) = base(address)?;
        if base.starts_with("https:") && !cfg!(feature = "https") {
            return Err(EndpointError::NoTls { address: base });
        }
        let (variable, key) = options.key(&host)?;
        let mut config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .timeout_connect(Some(options.timeout.min(Duration::from_secs(10))))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("unskew/", env!("CARGO_PKG_VERSION")));
        if matches!(host.as_str(), "localhost" | "[::1]") || host.starts_with("127.") {
            // A proxy would look for the server on its own machine.
            config = config.proxy(None);
        }
        let server = options.server.unwrap_or(Server::OpenAi);
        Ok(Self { agent: config.build().into(), base, key, variable, options: options.clone(), server })
    }

    /// The address without `/v1`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, EndpointError> {
        self.ask(path, None)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, EndpointError> {
        let body = serde_json::to_vec(body).expect("numbers, texts and lists are JSON");
        self.ask(path, Some(&body))
    }

    /// An answer that is JSON, and not the one that is expected.
    pub(crate) fn unknown(&self, path: &str, reason: impl Into<String>) -> EndpointError {
        let address = format!("{}{path}", self.base);
        EndpointError::Answer { address, server: self.server, reason: reason.into() }
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, body: Option<&[u8]>) -> Result<T, EndpointError> {
        let mut wait = self.options.backoff;
        let mut tries = 1;
        let bytes = loop {
            match self.once(path, body, tries) {
                Ok(bytes) => break bytes,
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again(error, _)) if tries > self.options.retries => return Err(error),
                Err(Failure::Again(_, asked)) => sleep(asked.unwrap_or(wait)),
            }
            tries += 1;
            wait = (wait * 2).min(MOST_BACKOFF);
        };
        serde_json::from_slice(&bytes).map_err(|error| self.unknown(path, error.to_string()))
    }

    fn once(&self, path: &str, body: Option<&[u8]>, tries: u32) -> Result<Vec<u8>, Failure> {
        let address = format!("{}{path}", self.base);
        let failed = |error| self.failed(&address, error, tries);
        let bearer = self.key.as_ref().map(Key::bearer);
        let answer = match body {
            None => {
                let request = self.agent.get(&address);
                match &bearer {
                    Some(bearer) => request.header("authorization", bearer).call(),
                    None => request.call(),
                }
            }
            Some(body) => {
                let request = self.agent.post(&address).header("content-type", "application/json");
                match &bearer {
                    Some(bearer) => request.header("authorization", bearer).send(body),
                    None => request.send(body),
                }
            }
        };
        let mut answer = answer.map_err(failed)?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(self.refused(&address, &mut answer, tries));
        }
        let limit = self.options.bytes;
        answer.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)
    }

    /// The library's own error.
    fn failed(&self, address: &str, error: Error, tries: u32) -> Failure {
        let address = address.to_owned();
        let reason = error.to_string();
        let broken = |address| EndpointError::Broken { address, tries, reason: reason.clone() };
        match error {
            Error::Timeout(_) => {
                Failure::Final(EndpointError::TimedOut { address, seconds: self.options.timeout.as_secs() })
            }
            Error::BodyExceedsLimit(limit) => Failure::Final(EndpointError::TooLarge { address, limit }),
            Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                Failure::Final(EndpointError::TimedOut { address, seconds: self.options.timeout.as_secs() })
            }
            Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::BrokenPipe
                ) =>
            {
                Failure::Again(broken(address), None)
            }
            Error::Protocol(_) => Failure::Again(broken(address), None),
            Error::Io(_) | Error::HostNotFound | Error::ConnectionFailed => {
                Failure::Again(EndpointError::Unreachable { address, tries, reason }, None)
            }
            _ => Failure::Final(EndpointError::Unreachable { address, tries, reason }),
        }
    }

    /// A status that is not 200.
    fn refused(&self, address: &str, answer: &mut Response<ureq::Body>, tries: u32) -> Failure {
        let (address, status) = (address.to_owned(), answer.status().as_u16());
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let asked = header("retry-after").and_then(|text| text.trim().parse().ok());
        let moved = header("location").filter(|_| (300..400).contains(&status));
        let moved = moved.map(|place| format!("the server has moved to {place}; give that address"));
        let message = moved.unwrap_or_else(|| {
            let body = answer.body_mut().with_config().limit(MESSAGE_BYTES).lossy_utf8(true);
            shown(&body.read_to_string().unwrap_or_default())
        });
        let message = self.key.as_ref().map_or_else(|| message.clone(), |key| key.hidden_in(&message));
        match (status, asked) {
            (401 | 403, _) => Failure::Final(EndpointError::Unauthorized {
                address,
                status,
                variable: self.variable.clone(),
            }),
            (429 | 502 | 503 | 504, Some(seconds)) if seconds > MOST_WAIT.as_secs() => {
                Failure::Final(EndpointError::Wait { address, status, seconds })
            }
            (429 | 502 | 503 | 504, asked) => {
                let error = EndpointError::Busy { address, status, tries, message };
                Failure::Again(error, asked.map(Duration::from_secs))
            }
            _ => Failure::Final(EndpointError::Status { address, status, message }),
        }
    }
}

/// The message in the answer of a server, in one line.
fn shown(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let inside = ["/error/message", "/message", "/error", "/detail"];
    let text = inside.iter().find_map(|place| json.pointer(place)?.as_str()).unwrap_or(body);
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MESSAGE_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    match line.is_empty() {
        true => "no message".to_owned(),
        false => line,
    }
}

/// The address of a server without `/v1` at its end, and its host.
fn base(address: &str) -> Result<(String, String), EndpointError> {
    let wrong = |why| {
        // A password stays out of the message.
        let shown = address.rsplit_once('@').map_or(address, |(_, rest)| rest);
        EndpointError::Address { address: shown.to_owned(), why }
    };
    let scheme = ["http://", "https://"].into_iter().find(|scheme| address.starts_with(scheme));
    let rest = scheme.map(|scheme| &address[scheme.len()..]);
    let rest = rest.ok_or_else(|| wrong("it begins with http:// or https://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(wrong("keys are read from the environment variable UNSKEW_API_KEY, not from an address"));
    }
    if rest.contains(['?', '#']) {
        return Err(wrong("it has no query"));
    }
    let uri: ureq::http::Uri =
        address.parse().map_err(|_| wrong("it is not of the form http://HOST:PORT"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
    let base = address.trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base);
    Ok((base.to_owned(), host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |address: &str| base(address).map(|(base, host)| format!("{base} {host}"));
        for address in ["http://a:8000", "http://a:8000/", "http://a:8000/v1", "http://a:8000/v1/"] {
            assert_eq!(of(address).unwrap(), "http://a:8000 a");
        }
        assert_eq!(of("https://b.org/api/v1").unwrap(), "https://b.org/api b.org");
        assert_eq!(of("http://[::1]:8/v1").unwrap(), "http://[::1]:8 [::1]");
        for wrong in ["a:8000", "ftp://a", "http://", "http://a b", "http://a?x", "http://:80"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let error = of("http://me:secret@a").unwrap_err().to_string();
        assert!(error.contains("UNSKEW_API_KEY") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn messages_are_one_short_line() {
        assert_eq!(shown(r#"{"error": {"message": "no\n such"}}"#), "no such");
        assert_eq!(shown(r#"{"detail": "no"}"#), "no");
        assert_eq!(shown("<html>\n"), "<html>");
        assert_eq!(shown(""), "no message");
        assert_eq!(shown(&"a ".repeat(10_000)).chars().count(), MESSAGE_CHARS + 1);
    }
}
