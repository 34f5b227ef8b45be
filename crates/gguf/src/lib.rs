//! GGUF files: what stands in front of the weights, read in safe code and checked.
//!
//! # Should you use this crate?
//!
//! To look into a GGUF file that may be hostile: yes. To run its model take `unskew-runner`, and for its
//! tokenizer `unskew-vocab`.
//!
//! The metadata say which model it is and hold its tokenizer; the table of tensors says where the weights lie. The
//! weights are not read. `unskew-vocab` makes a tokenizer of such a header, and `unskew-runner` a model. The two depend
//! on nothing of each other, so the header has a crate of its own. Every count and length of the file is compared with
//! the rest of the file before memory is asked for, and the place of every tensor with the end of the file: llama.cpp
//! ends the process on some of these faults, so that a program does well to look here first.
//!
//! Tried instead: the metadata functions of llama.cpp. They give no arrays of strings, so no tokens and no merges,
//! and they need its build in C++ for masks and checks, which run no model.
//!
//! The format is that of `docs/gguf.md` of the ggml project, versions 2 and 3, little endian.

mod error;
mod reader;
mod types;

use std::{collections::HashMap, fs::File, io::BufReader, path::Path};

pub use error::GgufError;

/// The bytes in front of the weights that [`Gguf::open`] reads at the most: 256 MiB. The largest known vocabularies
/// take some tens.
pub const HEADER_BYTES: usize = 256 << 20;

/// The part of a GGUF file before its weights.
///
/// # Example
///
/// ```
/// use unskew_gguf::{Gguf, GgufError};
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

impl GgufTensor {
    /// The name of its type, as ggml spells it; `None` for types that are newer than this code.
    pub fn type_name(&self) -> Option<&'static str> {
        types::name(self.kind)
    }
}

impl Gguf {
    /// The first bytes of every GGUF file.
    pub const MAGIC: [u8; 4] = *b"GGUF";

    /// Reads a file up to its weights, which may begin after [`HEADER_BYTES`] at the latest.
    ///
    /// Of a model split into several files this is the first.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        Self::open_with(path, HEADER_BYTES)
    }

    /// As [`open`](Self::open), with another limit on the bytes in front of the weights.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn open_with(path: impl AsRef<Path>, header_bytes: usize) -> Result<Self, GgufError> {
        let file = File::open(path).map_err(GgufError::Read)?;
        let len = file.metadata().map_err(GgufError::Read)?.len();
        reader::read(BufReader::new(file), len, header_bytes)
    }

    /// Reads a whole file that is in memory.
    ///
    /// # Errors
    ///
    /// [`GgufError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GgufError> {
        reader::read(bytes, bytes.len() as u64, HEADER_BYTES)
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

    /// The number of a key, with a fraction or without; `None` where there is none.
    pub fn float(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            GgufValue::Float(number) => Some(*number),
            GgufValue::Unsigned(number) => Some(*number as f64),
            GgufValue::Signed(number) => Some(*number as f64),
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

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&GgufTensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
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
