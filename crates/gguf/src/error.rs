//! Why a GGUF file could not be read.

/// Why a GGUF file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file cannot be opened or read.
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    /// The first bytes are not those of the format.
    #[error("not a GGUF file: it does not begin with `GGUF`")]
    NotGguf,
    /// A version of the format that is not read here.
    #[error(
        "version {version} of GGUF; versions 2 and 3 in little-endian order are read, convert the model again"
    )]
    Version {
        /// The version.
        version: u32,
    },
    /// The file ends too soon.
    #[error("the file ends too soon: {what} at byte {at} needs {wanted} bytes and {left} are left")]
    Truncated {
        /// The part of the file.
        what: &'static str,
        /// The byte at which it begins.
        at: u64,
        /// Its length, at the least.
        wanted: u64,
        /// The rest of the file.
        left: u64,
    },
    /// More bytes in front of the weights than the limit.
    #[error("more than {limit} bytes in front of the weights; raise the limit if that is right")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// A count that the file has no room for.
    #[error("{count} {what} at byte {at}, and the {left} bytes that are left hold {most} at the most")]
    Count {
        /// The things that are counted.
        what: &'static str,
        /// The count of the file.
        count: u64,
        /// The byte at which it stands.
        at: u64,
        /// The rest of the file.
        left: u64,
        /// The largest count that is possible.
        most: u64,
    },
    /// A text that is not UTF-8.
    #[error("the {what} at byte {at} is not UTF-8")]
    NotUtf8 {
        /// The kind of text.
        what: &'static str,
        /// The byte at which it begins.
        at: u64,
    },
    /// A key or a tensor that is listed twice.
    #[error("the {what} {name} is listed twice")]
    Twice {
        /// `key` or `tensor`.
        what: &'static str,
        /// Its name, in quotes.
        name: String,
    },
    /// A value of a type that the format does not have.
    #[error("the key {key} has a value of type {kind}, and there is no such type")]
    ValueType {
        /// The key, in quotes.
        key: String,
        /// The number of the type.
        kind: u32,
    },
    /// A truth value that is neither 0 nor 1, or an alignment that is no power of two.
    #[error("the key {key} has the value {value}: {reason}")]
    Value {
        /// The key, in quotes.
        key: String,
        /// The value.
        value: u64,
        /// The reason.
        reason: &'static str,
    },
    /// An entry of the table of tensors that cannot be.
    #[error("the tensor {name}: {reason}")]
    Tensor {
        /// Its name, in quotes.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// How many characters of a name a message quotes.
const SHOWN: usize = 40;

/// A name in quotes, on one line, cut where it is long.
pub(crate) fn quoted(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}
