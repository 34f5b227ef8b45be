//! Why a GGUF file is no model that is computed here.

use unskew_gguf::GgufError;

/// Why a GGUF file is no model that is computed here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufModelError {
    /// The file is no GGUF file, or a damaged one.
    #[error(transparent)]
    File(#[from] GgufError),
    /// An architecture that no family here is.
    #[error("the architecture \"{name}\" is not computed here; {known} are")]
    Architecture {
        /// The name.
        name: String,
        /// Those that are.
        known: String,
    },
    /// The model is in several files.
    #[error(
        "the model is split into {count} files, and one is read here; join them (llama-gguf-split --merge)"
    )]
    Split {
        /// The number of files.
        count: u64,
    },
    /// A key that has no default is absent, or its value is of another type.
    #[error("there is no key `{key}` of the right type; convert the model again")]
    Missing {
        /// The key.
        key: String,
    },
    /// A value is out of range, alone or beside another one.
    #[error("`{key}` is {value}, but it must be {expected}")]
    Invalid {
        /// The key, or the size of the model that follows from some.
        key: String,
        /// The value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// A key asks for a computation that is not known here.
    #[error("`{key}` is {value}, which is not computed here; computed is {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The supported values.
        supported: String,
    },
    /// A tensor that is no part of a model of this architecture here.
    #[error("the tensor `{tensor}` is no part of a \"{architecture}\" that is computed here")]
    Tensor {
        /// The tensor.
        tensor: String,
        /// The architecture.
        architecture: String,
    },
    /// A type of weights that is not read.
    #[error("the tensor `{tensor}` has the type {found}, which is not read here; {known} are")]
    Type {
        /// The tensor.
        tensor: String,
        /// The type in the file.
        found: String,
        /// Those that are read.
        known: &'static str,
    },
}

impl GgufModelError {
    /// Whether the file is whole, and llama.cpp may run it.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        matches!(
            self,
            Self::Architecture { .. }
                | Self::Split { .. }
                | Self::Unsupported { .. }
                | Self::Tensor { .. }
                | Self::Type { .. }
        )
    }
}
