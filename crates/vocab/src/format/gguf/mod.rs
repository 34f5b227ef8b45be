//! GGUF files: what stands in front of the weights, read in safe code and checked.
//!
//! The metadata say which model it is and hold its tokenizer; the table of tensors says where the weights lie. The
//! weights are not read. Every count and length of the file is compared with the rest of the file before memory is
//! asked for, and the place of every tensor with the end of the file: llama.cpp ends the process on some of these
//! faults, so that a program does well to look here first.
//!
//! Tried instead: the metadata functions of llama.cpp. They give no arrays of strings, so no tokens and no merges,
//! and they need its build in C++ for masks and checks, which run no model.
//!
//! The format is that of `docs/gguf.md` of the ggml project, versions 2 and 3, little endian.

mod error;
mod pre_tokenizers;
mod reader;
mod tokenizer;
mod types;

use std::{collections::HashMap, fs::File, io::BufReader, path::Path};

pub use error::GgufError;

use crate::{Limits, TokenizerError};

/// The part of a GGUF file before its weights.
///
/// # Example
///
/// ```
/// use unskew_vocab::{Gguf, GgufError};
///
/// // Version 3, no tensor, one pair: the architecture.
/// let mut file = b"GGUF\x03\0\0\0".to_vec();
/// file.extend(0u64.to_le_bytes());
/// file.extend(1u64.to_le_bytes());
/// for (text, kind) in [("general.architecture", Some(8u32)), ("llama", None)] {
///     file.extend((text.len() as u64).to_le_bytes());
///     file.extend(text.as_bytes());
///     file.extend(kind.map(u32::to_le_bytes).into_iter().flatten());
/// }
/// let gguf = Gguf::from_bytes(&file)?;
/// assert_eq!(gguf.text("general.architecture"), Some("llama"));
///
/// let error = Gguf::from_bytes(&file[..40]).unwrap_err();
/// assert!(matches!(error, GgufError::Truncated { .. }));
/// # Ok::<(), GgufError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Gguf {
    version: u32,
    metadata: HashMap<String, GgufValue>,
    tensors: Vec<GgufTensor>,
    data_start: u64,
}

/// A value of the metadata. Numbers of all widths are one type of each sign.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum GgufValue {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A number of 32 or 64 bits with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// Many values of one type; none of them is an array.
    Unsigneds(Vec<u64>),
    /// As for `Unsigneds`.
    Signeds(Vec<i64>),
    /// As for `Unsigneds`.
    Floats(Vec<f64>),
    /// As for `Unsigneds`.
    Bools(Vec<bool>),
    /// As for `Unsigneds`.
    Texts(Vec<String>),
}

/// An entry of the table of tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GgufTensor {
    /// Its name.
    pub name: String,
    /// Its shape: the first number is that of the entries that lie side by side.
    pub shape: Vec<u64>,
    /// The number of its type in ggml.
    pub kind: u32,
    /// The byte of the file at which it begins.
    pub start: u64,
    /// Its length in bytes; `None` for types that are newer than this code.
    pub bytes: Option<u64>,
}

impl Gguf {
    /// The first bytes of every GGUF file.
    pub const MAGIC: [u8; 4] = *b"GGUF";

    /// Reads a file up to its weights, with the default [`Limits`].
    ///
    /// Of a model split into several files this is the first.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        Self::open_with(path, &Limits::DEFAULT)
    }

    /// As [`open`](Self::open) with other limits: [`Limits::file_bytes`] is that of the bytes in front of the weights.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, GgufError> {
        let file = File::open(path).map_err(GgufError::Read)?;
        let len = file.metadata().map_err(GgufError::Read)?.len();
        reader::read(BufReader::new(file), len, limits)
    }

    /// Reads a whole file that is in memory.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GgufError> {
        reader::read(bytes, bytes.len() as u64, &Limits::DEFAULT)
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&GgufValue> {
        self.metadata.get(key)
    }

    /// Every key with its value, in no order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &GgufValue)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The text of a key; `None` where there is none, or the value is no text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            GgufValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a key; `None` where there is none, or the value is negative or no whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            GgufValue::Unsigned(number) => Some(*number),
            GgufValue::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The truth of a key; `None` where there is none, or the value is of another type.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            GgufValue::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The architecture of the model, as llama.cpp names it.
    pub fn architecture(&self) -> Option<&str> {
        self.text("general.architecture")
    }

    /// The table of tensors, in the order of the file.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// The byte of the file at which the weights begin.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// Whether the file at `path` begins as a GGUF file does. A file that cannot be read does not.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let mut magic = [0; 4];
        let read = File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
        read.is_ok() && magic == Self::MAGIC
    }
}

impl From<GgufError> for TokenizerError {
    fn from(error: GgufError) -> Self {
        match error {
            GgufError::Read(error) => Self::Read(error),
            error => Self::Gguf(error),
        }
    }
}
