//! Why an endpoint gives no answer that can be used.
//!
//! No message holds a key: keys are sent in one header and stand in no text.

use crate::Server;

/// Why an endpoint gives no answer that can be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address is none of a server.
    #[error("{address:?} is no address of a server: {why}")]
    Address {
        /// The address, without a password.
        address: String,
        /// The reason.
        why: &'static str,
    },
    /// An option that there is not, or a value that it does not take.
    #[error("`endpoint` {option}: {why}")]
    Option {
        /// The option.
        option: String,
        /// The reason.
        why: String,
    },
    /// A key that no header can hold.
    #[error("the key in the environment variable {variable} has characters that a header cannot hold")]
    Key {
        /// The variable.
        variable: String,
    },
    /// An https address in a build without TLS.
    #[error("{address}: https needs the feature `https` of unskew, and this program was built without it")]
    NoTls {
        /// The address.
        address: String,
    },
    /// No connection.
    #[error("{address}: no answer in {tries} tries: {reason}; is the server running there?")]
    Unreachable {
        /// The address.
        address: String,
        /// How often it was tried.
        tries: u32,
        /// The reason.
        reason: String,
    },
    /// No whole answer in time.
    #[error(
        "{address}: no whole answer within {seconds} seconds; a longer time is `endpoint` timeout=SECONDS"
    )]
    TimedOut {
        /// The address.
        address: String,
        /// The limit.
        seconds: u64,
    },
    /// The server wants another key.
    #[error(
        "{address}: the server refuses the key (HTTP {status}): set the environment variable {variable} to one that it takes"
    )]
    Unauthorized {
        /// The address.
        address: String,
        /// The status of HTTP.
        status: u16,
        /// The variable that was read.
        variable: String,
    },
    /// The server is busy, or starting, and stayed so.
    #[error("{address}: HTTP {status} in {tries} tries: {message}; more tries are `endpoint` retries=N")]
    Busy {
        /// The address.
        address: String,
        /// The status of HTTP.
        status: u16,
        /// How often it was tried.
        tries: u32,
        /// The beginning of the answer.
        message: String,
    },
    /// The server asks for a longer wait than there is patience for.
    #[error("{address}: HTTP {status}, and the server asks to wait {seconds} seconds; try again after that")]
    Wait {
        /// The address.
        address: String,
        /// The status of HTTP.
        status: u16,
        /// The wait that it asks for.
        seconds: u64,
    },
    /// The server refuses the request.
    #[error("{address}: HTTP {status}: {message}")]
    Status {
        /// The address.
        address: String,
        /// The status of HTTP.
        status: u16,
        /// The beginning of the answer, or the place that a redirection names.
        message: String,
    },
    /// The answer is longer than the limit.
    #[error("{address}: the answer is longer than {limit} bytes; a higher limit is `endpoint` bytes=N")]
    TooLarge {
        /// The address.
        address: String,
        /// The limit.
        limit: u64,
    },
    /// The connection ended in the middle of the answer, each time.
    #[error("{address}: the answer broke off in {tries} tries: {reason}")]
    Broken {
        /// The address.
        address: String,
        /// How often it was tried.
        tries: u32,
        /// The reason.
        reason: String,
    },
    /// The answer is not the JSON that this server gives.
    #[error("{address}: not an answer that is known of {server}: {reason}")]
    Answer {
        /// The address.
        address: String,
        /// The server that the answer is read as.
        server: Server,
        /// The reason.
        reason: String,
    },
    /// There are several models.
    #[error("{address} serves {}; choose one by `endpoint` model=NAME", names.join(", "))]
    Models {
        /// The address.
        address: String,
        /// Their names.
        names: Vec<String>,
    },
    /// The server has no such interface, or none that says enough.
    #[error("{server} {what}; {way_out}")]
    Unsupported {
        /// The server.
        server: Server,
        /// The interface.
        what: String,
        /// The way out.
        way_out: String,
    },
    /// Rows were asked for without the server's tokenizer.
    #[error(
        "the tokens of {server} are not known: give its `tokenizer` (a tokenizer.json, or a .gguf file), or use `sampler` rejection"
    )]
    NoTokenizer {
        /// The server.
        server: Server,
    },
    /// A row of log-probabilities that is not whole.
    #[error("{server} gives {got} of the {of} log-probabilities of a row; {way_out}")]
    NotWhole {
        /// The server.
        server: Server,
        /// The entries that it gives.
        got: usize,
        /// The entries of a whole row.
        of: usize,
        /// The way out.
        way_out: String,
    },
    /// A row that is not a distribution of this model.
    #[error(
        "{server}: a row of log-probabilities is of another model than its tokenizer, or changed by the server: {reason}"
    )]
    Row {
        /// The server.
        server: Server,
        /// The reason.
        reason: String,
    },
    /// The tokenizer here is not the one of the server.
    #[error(
        "the tokenizer is not the server's: the tokens of {text:?} are {ours:?} here, and {theirs:?} there"
    )]
    Tokenizer {
        /// A text.
        text: String,
        /// Its tokens here.
        ours: Vec<u32>,
        /// Its tokens there.
        theirs: Vec<u32>,
    },
    /// A sequence that the model cannot continue.
    #[error("a sequence of {len} tokens passes the context of the server's model, {context} tokens")]
    Context {
        /// The length.
        len: usize,
        /// The most tokens.
        context: usize,
    },
    /// A row of the empty sequence.
    #[error("a server needs a token to start from; give a prompt")]
    Empty,
    /// A token that the model does not have.
    #[error("token {token} is none of the model's {vocab_len}")]
    Token {
        /// The token.
        token: u32,
        /// The length of a row.
        vocab_len: usize,
    },
}

impl EndpointError {
    pub(crate) fn unsupported(server: Server, what: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self::Unsupported { server, what: what.into(), way_out: way_out.into() }
    }
}
