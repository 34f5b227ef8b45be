//! Reads the weights of a checkpoint: safetensors in F32, F16 or BF16, in one file or in several with an index.
//!
//! Every check comes before any large allocation, for all files: every tensor of the model is there, and its type and
//! shape are those of the configuration. Tensors are then read a few megabytes at a time and packed, so that the peak
//! of memory is the model. Not taken: mapping files into memory. Weights are laid out anew for the kernel, so that a
//! mapped file would be read once, as it is here, and a file that shrinks meanwhile would end the process.

pub(crate) mod random;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata};
use serde_json::Value;

use crate::config::parameters::{self, Kind, Parameter, Stored};
use crate::config::{ConfigError, ModelConfig};
use crate::math::kernel::LANES;
use crate::math::matrix::Matrix;
use crate::math::pack::{NotFinite, Packer};

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

/// How the weights of a model are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantization {
    /// As the checkpoint stores them.
    #[default]
    None,
    /// Eight bits: whole numbers, with a scale for each 32 weights of an output. The model is another one, by the
    /// rounding.
    Q8_0,
}

/// Bytes of a checkpoint that were read, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Those read.
    pub done: u64,
    /// All.
    pub total: u64,
}

/// How a model is loaded.
#[derive(Default)]
#[non_exhaustive]
pub struct LoadOptions<'a> {
    /// How the weights are kept.
    pub quantization: Quantization,
    /// Called after every few megabytes.
    pub on_progress: Option<&'a mut dyn FnMut(LoadProgress)>,
}

impl std::fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadOptions").field("quantization", &self.quantization).finish_non_exhaustive()
    }
}

/// The name in errors of a checkpoint that was passed as bytes.
const IN_MEMORY: &str = "safetensors";

/// Bytes of a file that are read at a time, or one panel's where these are more.
const GROUP: usize = 4 << 20;

/// The longest header of a file, as in the safetensors library.
const MOST_HEADER: u64 = 100_000_000;

/// Reads a `model.safetensors` that is already in memory. Matrices have the order of [`parameters::table`].
pub(crate) fn from_bytes(
    config: &ModelConfig,
    bytes: &[u8],
    options: &mut LoadOptions<'_>,
) -> Result<Vec<Matrix>, LoadError> {
    let table = parameters::table(config);
    let all = (0..table.len()).collect();
    let content = Content::Bytes(bytes);
    load(&table, vec![File { path: IN_MEMORY.into(), content, rows: all }], options)
}

/// Reads the weights in a folder: `model.safetensors` where there is one, otherwise the shards that
/// `model.safetensors.index.json` names.
pub(crate) fn from_folder(
    config: &ModelConfig,
    folder: &Path,
    options: &mut LoadOptions<'_>,
) -> Result<Vec<Matrix>, LoadError> {
    let table = parameters::table(config);
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    let files = if single.exists() || !index.exists() {
        vec![(single, (0..table.len()).collect())]
    } else {
        let shards = shards(&index, &table)?.into_iter();
        shards.map(|(shard, rows)| (folder.join(shard), rows)).collect()
    };
    let open = |(path, rows): (PathBuf, Vec<usize>)| {
        let failed = |source| LoadError::Io { path: path.clone(), source };
        regular(&path)?;
        let content = Content::File(fs::File::open(&path).map_err(failed)?);
        Ok(File { path, content, rows })
    };
    load(&table, files.into_iter().map(open).collect::<Result<_, LoadError>>()?, options)
}

/// Refuses what is no regular file. Only such files have a known end, so that the disk bounds the memory of the read.
fn regular(path: &Path) -> Result<(), LoadError> {
    let failed = |source| LoadError::Io { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(());
    }
    Err(LoadError::Damaged { path: path.to_owned(), reason: "it is no regular file".to_owned() })
}

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    regular(path)?;
    fs::read(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })
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
        let name = &parameter.stored.name;
        let short = name.strip_prefix("transformer.").unwrap_or(name);
        let Some(shard) = map.get(name.as_str()).or_else(|| map.get(short)) else {
            return Err(LoadError::Missing { path: index.to_owned(), tensor: name.clone() });
        };
        let Some(shard) = shard.as_str() else {
            return Err(damaged(format!("the shard of `{name}` is {shard}, not a file name")));
        };
        // An index must not point outside its folder.
        if Path::new(shard).file_name().is_none_or(|name| name != shard) {
            return Err(damaged(format!("the shard of `{name}` is \"{shard}\", not a file name")));
        }
        shards.entry(shard.to_owned()).or_default().push(row);
    }
    Ok(shards)
}

/// Where the bytes of a file are.
enum Content<'a> {
    Bytes(&'a [u8]),
    File(fs::File),
}

impl Content<'_> {
    fn len(&self) -> std::io::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(file.metadata()?.len()),
        }
    }

    /// Fills a buffer with the bytes from `at` on.
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Bytes(bytes) => {
                let mut rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                rest.read_exact(buffer)
            }
            Self::File(file) => {
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(buffer)
            }
        }
    }
}

/// A file of a checkpoint, and the rows of the table that are in it.
struct File<'a> {
    path: PathBuf,
    content: Content<'a>,
    rows: Vec<usize>,
}

/// A tensor of a file: where its bytes begin, its type and its shape.
struct Tensor {
    begin: u64,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl File<'_> {
    fn damaged(&self, reason: impl ToString) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), reason: reason.to_string() }
    }

    fn failed(&self, source: std::io::Error) -> LoadError {
        LoadError::Io { path: self.path.clone(), source }
    }

    /// Reads the header.
    fn header(&mut self) -> Result<(u64, Metadata), LoadError> {
        let len = self.content.len().map_err(|error| self.failed(error))?;
        let mut size = [0; 8];
        if len < 8 {
            return Err(self.damaged(format!("it has {len} bytes, fewer than the length of a header takes")));
        }
        self.content.read(0, &mut size).map_err(|error| self.failed(error))?;
        let size = u64::from_le_bytes(size);
        if size > MOST_HEADER || size > len - 8 {
            let most = MOST_HEADER.min(len - 8);
            return Err(self.damaged(format!("its header says that it has {size} bytes, of at most {most}")));
        }
        let mut header = vec![0; size as usize];
        self.content.read(8, &mut header).map_err(|error| self.failed(error))?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| self.damaged(error))?;
        let data = len - 8 - size;
        let end = metadata.tensors().values().map(|info| info.data_offsets.1 as u64).max().unwrap_or(0);
        if end != data {
            return Err(self.damaged(format!("it has {data} bytes of tensors, and its header says {end}")));
        }
        Ok((8 + size, metadata))
    }

    /// The tensors of the file's rows, after checks of all of them.
    fn tensors(&mut self, table: &[Parameter]) -> Result<Vec<Tensor>, LoadError> {
        let (data, metadata) = self.header()?;
        let find = |row: &usize| {
            let Stored { name, shape: expected, .. } = &table[*row].stored;
            // Older files of GPT-2 have names without the model's.
            let short = name.strip_prefix("transformer.").unwrap_or(name);
            let Some(info) = metadata.info(name).or_else(|| metadata.info(short)) else {
                return Err(LoadError::Missing { path: self.path.clone(), tensor: name.clone() });
            };
            if info.shape != *expected {
                let (found, expected) = (info.shape.clone(), expected.clone());
                return Err(LoadError::Shape { tensor: name.clone(), found, expected });
            }
            let width: usize = match info.dtype {
                Dtype::F32 => 4,
                Dtype::F16 | Dtype::BF16 => 2,
                other => {
                    return Err(LoadError::Type { tensor: name.clone(), found: format!("{other:?}") });
                }
            };
            let (begin, end) = info.data_offsets;
            // The configuration's limits keep the product small.
            let size = expected.iter().product::<usize>() * width;
            if end.checked_sub(begin) != Some(size) {
                return Err(self.damaged(format!("`{name}` has {begin} to {end} for {size} bytes")));
            }
            Ok(Tensor { begin: data + begin as u64, dtype: info.dtype, shape: info.shape.clone() })
        };
        self.rows.iter().map(find).collect()
    }
}

/// Reads all files, after checks of all of them.
fn load(
    table: &[Parameter],
    mut files: Vec<File<'_>>,
    options: &mut LoadOptions<'_>,
) -> Result<Vec<Matrix>, LoadError> {
    let tensors: Vec<Vec<Tensor>> =
        files.iter_mut().map(|file| file.tensors(table)).collect::<Result<_, _>>()?;
    let width = |dtype| if dtype == Dtype::F32 { 4 } else { 2 };
    let size = |row: usize, tensor: &Tensor| table[row].len() as u64 * width(tensor.dtype);
    let mut progress = LoadProgress { done: 0, total: 0 };
    for (file, tensors) in files.iter().zip(&tensors) {
        progress.total += file.rows.iter().zip(tensors).map(|(row, tensor)| size(*row, tensor)).sum::<u64>();
    }
    let mut matrices: Vec<Option<Matrix>> = vec![None; table.len()];
    for (mut file, tensors) in files.into_iter().zip(tensors) {
        for (row, tensor) in std::mem::take(&mut file.rows).into_iter().zip(tensors) {
            let mut report = |bytes: usize| {
                progress.done += bytes as u64;
                if let Some(on_progress) = &mut options.on_progress {
                    on_progress(progress);
                }
            };
            let quantizes = options.quantization == Quantization::Q8_0;
            matrices[row] = Some(file.matrix(&table[row], &tensor, quantizes, &mut report)?);
        }
    }
    Ok(matrices.into_iter().map(|matrix| matrix.expect("every row of the table is one of a file")).collect())
}

impl File<'_> {
    /// Reads one parameter.
    fn matrix(
        &mut self,
        parameter: &Parameter,
        tensor: &Tensor,
        quantizes: bool,
        report: &mut dyn FnMut(usize),
    ) -> Result<Matrix, LoadError> {
        let [outputs, inputs] = parameter.matrix();
        let Stored { name, first, is_transposed, .. } = &parameter.stored;
        let quantizes = quantizes && !matches!(parameter.kind, Kind::Norm | Kind::Bias);
        let Some(mut packer) = Packer::new([outputs, inputs], tensor.dtype, quantizes) else {
            return Err(LoadError::Type { tensor: name.clone(), found: format!("{:?}", tensor.dtype) });
        };
        let width = if tensor.dtype == Dtype::F32 { 4 } else { 2 };
        let refused = |NotFinite { index, value }| LoadError::NotFinite {
            tensor: name.clone(),
            index: first * inputs + index,
            value,
        };
        if *is_transposed {
            // All of it, since an output's weights are a column.
            let columns = tensor.shape[1];
            let mut all = vec![0; inputs * columns * width];
            self.content.read(tensor.begin, &mut all).map_err(|error| self.failed(error))?;
            let mut rows = Vec::with_capacity(outputs * inputs * width);
            for output in *first..first + outputs {
                for input in 0..inputs {
                    rows.extend_from_slice(&all[(input * columns + output) * width..][..width]);
                }
            }
            packer.push(&rows).map_err(refused)?;
            report(rows.len());
            return Ok(Matrix::packed([outputs, inputs], packer));
        }
        let bytes = inputs * width;
        let group = LANES * (GROUP / (LANES * bytes)).max(1);
        let mut buffer = vec![0; bytes * group.min(outputs)];
        for from in (0..outputs).step_by(group) {
            let buffer = &mut buffer[..bytes * group.min(outputs - from)];
            let at = tensor.begin + (bytes * (first + from)) as u64;
            self.content.read(at, buffer).map_err(|error| self.failed(error))?;
            packer.push(buffer).map_err(refused)?;
            report(buffer.len());
        }
        Ok(Matrix::packed([outputs, inputs], packer))
    }
}
