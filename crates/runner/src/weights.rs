//! Reads the weights of a checkpoint: safetensors in F32, F16 or BF16, in one file or in several with an index.
//!
//! Every check comes before any large allocation: every tensor of the model is there, and its type and shape are those of
//! the configuration. A file is read whole and dropped when its tensors are packed, so that the peak of memory is the
//! model and one file. Not taken: mapping files into memory. It would save the memory of the file, but it needs unsafe
//! code, and a file that changes during the read is undefined behaviour.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value;

use crate::config::{ConfigError, ModelConfig};
use crate::matrix::{Matrix, NotFinite};
use crate::parameters::{self, Parameter};

/// An error of loading a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read.
    #[error(
        "cannot read {path}; a model folder holds config.json and model.safetensors, or shards and their index"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file's content is not that of its kind: it is truncated, corrupt or of another format.
    #[error("{path} is damaged: {reason}; fetch it again")]
    Damaged {
        /// The file, or `safetensors` for bytes in memory.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A tensor of the model is in none of the files.
    #[error(
        "{path} has no tensor `{tensor}`, which config.json calls for; check that both are of the same model"
    )]
    Missing {
        /// The file or index that was searched, or `safetensors` for bytes in memory.
        path: PathBuf,
        /// The Hugging Face name.
        tensor: String,
    },
    /// A tensor's shape is not that of the configuration.
    #[error(
        "tensor `{tensor}` has shape {found:?}, config.json says {expected:?}; check that both are of the same model"
    )]
    Shape {
        /// The Hugging Face name.
        tensor: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape that follows from the configuration.
        expected: Vec<usize>,
    },
    /// A tensor's type cannot be read.
    #[error("tensor `{tensor}` has type {found}, supported are F32, F16 and BF16; convert the checkpoint")]
    Type {
        /// The Hugging Face name.
        tensor: String,
        /// The type in the file.
        found: String,
    },
    /// A weight is infinite or not a number.
    #[error(
        "tensor `{tensor}` holds {value} at {index}, but weights must be finite; fetch the checkpoint again"
    )]
    NotFinite {
        /// The Hugging Face name.
        tensor: String,
        /// Position in the file's row-major order.
        index: usize,
        /// The value.
        value: f32,
    },
}

/// The name in errors of a checkpoint that was passed as bytes.
const IN_MEMORY: &str = "safetensors";

/// Reads a `model.safetensors` that is already in memory. Matrices have the order of [`parameters::table`].
pub(crate) fn from_bytes(config: &ModelConfig, bytes: &[u8]) -> Result<Vec<Matrix>, LoadError> {
    let path = Path::new(IN_MEMORY);
    let mut loader = Loader::new(config);
    let all: Vec<usize> = (0..loader.table.len()).collect();
    loader.load(path, bytes, &all)?;
    Ok(loader.finish())
}

/// Reads the weights in a folder: `model.safetensors` where there is one, otherwise the shards that
/// `model.safetensors.index.json` names.
pub(crate) fn from_folder(config: &ModelConfig, folder: &Path) -> Result<Vec<Matrix>, LoadError> {
    let mut loader = Loader::new(config);
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if single.exists() || !index.exists() {
        let all: Vec<usize> = (0..loader.table.len()).collect();
        loader.load(&single, &read(&single)?, &all)?;
        return Ok(loader.finish());
    }
    for (shard, parameters) in shards(&index, &loader.table)? {
        let path = folder.join(shard);
        loader.load(&path, &read(&path)?, &parameters)?;
    }
    Ok(loader.finish())
}

/// Reads a file whole. Only regular files have a known end, so that the disk bounds the memory of the read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Io { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(LoadError::Damaged { path: path.to_owned(), reason: "it is no regular file".to_owned() });
    }
    fs::read(path).map_err(failed)
}

/// The rows of the table that each shard holds, by the index file.
fn shards(index: &Path, table: &[Parameter]) -> Result<BTreeMap<String, Vec<usize>>, LoadError> {
    let damaged = |reason: String| LoadError::Damaged { path: index.to_owned(), reason };
    let root: Value = serde_json::from_slice(&read(index)?).map_err(|error| damaged(error.to_string()))?;
    let map: HashMap<&str, &Value> = match root.get("weight_map") {
        Some(Value::Object(map)) => map.iter().map(|(name, shard)| (name.as_str(), shard)).collect(),
        _ => return Err(damaged("it has no object `weight_map`".to_owned())),
    };
    let mut shards: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (row, parameter) in table.iter().enumerate() {
        let Some(shard) = map.get(parameter.name.as_str()) else {
            return Err(LoadError::Missing { path: index.to_owned(), tensor: parameter.name.clone() });
        };
        let Some(shard) = shard.as_str() else {
            return Err(damaged(format!("the shard of `{}` is {shard}, not a file name", parameter.name)));
        };
        // An index must not point outside its folder.
        if Path::new(shard).file_name().is_none_or(|name| name != shard) {
            return Err(damaged(format!(
                "the shard of `{}` is \"{shard}\", not a file name",
                parameter.name
            )));
        }
        shards.entry(shard.to_owned()).or_default().push(row);
    }
    Ok(shards)
}

/// Collects matrices from one file after the other.
struct Loader {
    table: Vec<Parameter>,
    matrices: Vec<Option<Matrix>>,
}

impl Loader {
    fn new(config: &ModelConfig) -> Self {
        let table = parameters::table(config);
        let matrices = vec![None; table.len()];
        Self { table, matrices }
    }

    /// Reads some rows of the table from a file's bytes, after checks of all of them.
    fn load(&mut self, path: &Path, bytes: &[u8], rows: &[usize]) -> Result<(), LoadError> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|error| LoadError::Damaged { path: path.to_owned(), reason: error.to_string() })?;
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            let parameter = &self.table[*row];
            let tensor = parameter.name.clone();
            let Ok(view) = file.tensor(&tensor) else {
                return Err(LoadError::Missing { path: path.to_owned(), tensor });
            };
            let expected = parameter.file_shape();
            if view.shape() != expected {
                return Err(LoadError::Shape { tensor, found: view.shape().to_vec(), expected });
            }
            if !matches!(view.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                return Err(unknown(tensor, view.dtype()));
            }
            views.push((*row, view));
        }
        for (row, view) in views {
            let parameter = &self.table[row];
            let tensor = || parameter.name.clone();
            let matrix = Matrix::from_bytes(parameter.matrix(), view.dtype(), view.data());
            self.matrices[row] = match matrix {
                Some(Ok(matrix)) => Some(matrix),
                Some(Err(NotFinite { index, value })) => {
                    return Err(LoadError::NotFinite { tensor: tensor(), index, value });
                }
                None => return Err(unknown(tensor(), view.dtype())),
            };
        }
        Ok(())
    }

    fn finish(self) -> Vec<Matrix> {
        let matrices = self.matrices.into_iter();
        matrices.map(|matrix| matrix.expect("each row of the table was read from some file")).collect()
    }
}

fn unknown(tensor: String, dtype: Dtype) -> LoadError {
    LoadError::Type { tensor, found: format!("{dtype:?}") }
}
