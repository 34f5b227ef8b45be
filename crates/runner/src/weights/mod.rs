//! Reads the weights of a checkpoint: safetensors in F32, F16 or BF16, in one file or in several with an index
//! ([`safetensors`]), or a GGUF file ([`gguf`]).
//!
//! Every check comes before any large allocation, for all files: every tensor of the model is there, and its type and
//! shape are those of the configuration. Tensors are then read a few megabytes at a time and packed, so that the peak
//! of memory is the model. Not taken: mapping files into memory. Weights are laid out anew for the kernel, so that a
//! mapped file would be read once, as it is here, and a file that shrinks meanwhile would end the process.

pub(crate) mod gguf;
pub(crate) mod random;
pub(crate) mod safetensors;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::config::parameters::{Kind, Parameter, Stored};
use crate::config::{ConfigError, GgufModelError};
use crate::math::kernel::LANES;
use crate::math::matrix::Matrix;
use crate::math::pack::{Format, NotFinite, Packer};

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
        "{path} has no tensor `{tensor}`, which the configuration calls for; check that both are of the same model"
    )]
    Missing {
        /// The file or index that was searched, or `safetensors` for bytes in memory.
        path: PathBuf,
        /// Its name in the file.
        tensor: String,
    },
    /// A tensor's shape is not that of the configuration.
    #[error(
        "tensor `{tensor}` has shape {found:?}, the configuration says {expected:?}; check that both are of the same model"
    )]
    Shape {
        /// Its name in the file.
        tensor: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape that follows from the configuration.
        expected: Vec<usize>,
    },
    /// A tensor's type cannot be read.
    #[error("tensor `{tensor}` has type {found}, supported are F32, F16 and BF16; convert the checkpoint")]
    Type {
        /// Its name in the file.
        tensor: String,
        /// The type in the file.
        found: String,
    },
    /// A GGUF file that holds no model, or one that is not computed here.
    #[error("{}: {source}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<GgufModelError>,
    },
    /// A weight is infinite or not a number.
    #[error(
        "tensor `{tensor}` holds {value} at {index}, but weights must be finite; fetch the checkpoint again"
    )]
    NotFinite {
        /// Its name in the file.
        tensor: String,
        /// Position in the file's row-major order.
        index: usize,
        /// The value.
        value: f32,
    },
}

impl LoadError {
    /// Whether a GGUF file is whole, and asks for a computation or holds a type of weights that is not known here:
    /// llama.cpp may know it.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        matches!(self, Self::Gguf { source, .. } if source.is_beyond())
    }
}

/// How the weights of a model are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantization {
    /// As the checkpoint stores them. Blocks of a GGUF file are kept in eight bits where 32 weights share a scale (and
    /// an offset), and in f32 otherwise: the same numbers in both cases.
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

/// Bytes of a file that are read at a time, or one panel's where these are more.
const GROUP: usize = 4 << 20;

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
    format: Format,
    shape: Vec<usize>,
}

impl Tensor {
    /// The bytes of a row of `inputs` weights, which was checked to be whole.
    fn row_bytes(&self, inputs: usize) -> usize {
        self.format.row_bytes(inputs).expect("whole blocks in a row")
    }
}

impl File<'_> {
    /// Opens a regular file.
    fn open(path: PathBuf, rows: Vec<usize>) -> Result<Self, LoadError> {
        regular(&path)?;
        let file = fs::File::open(&path).map_err(|source| LoadError::Io { path: path.clone(), source })?;
        Ok(Self { path, content: Content::File(file), rows })
    }

    fn damaged(&self, reason: impl ToString) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), reason: reason.to_string() }
    }

    fn failed(&self, source: std::io::Error) -> LoadError {
        LoadError::Io { path: self.path.clone(), source }
    }
}

/// Reads all files, whose tensors were found and checked. They belong to the rows of the table that the file has.
fn load(
    table: &[Parameter],
    files: Vec<(File<'_>, Vec<Tensor>)>,
    options: &mut LoadOptions<'_>,
) -> Result<Vec<Matrix>, LoadError> {
    let size = |row: usize, tensor: &Tensor| {
        let [outputs, inputs] = table[row].matrix();
        (outputs * tensor.row_bytes(inputs)) as u64
    };
    let mut progress = LoadProgress { done: 0, total: 0 };
    for (file, tensors) in &files {
        progress.total += file.rows.iter().zip(tensors).map(|(row, tensor)| size(*row, tensor)).sum::<u64>();
    }
    let mut matrices: Vec<Option<Matrix>> = vec![None; table.len()];
    for (mut file, tensors) in files {
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
        let Stored { name, first, is_transposed, turns, .. } = &parameter.stored;
        let quantizes = quantizes && !matches!(parameter.kind, Kind::Norm | Kind::Bias);
        let mut packer = Packer::new([outputs, inputs], tensor.format, quantizes);
        let refused = |NotFinite { index, value }| LoadError::NotFinite {
            tensor: name.clone(),
            index: first * inputs + index,
            value,
        };
        let bytes = tensor.row_bytes(inputs);
        if *is_transposed {
            // All of it, since an output's weights are a column.
            let (columns, width) = (tensor.shape[1], bytes / inputs);
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
        if let Some(heads) = *turns {
            // All of it, since the rows of a head are mixed.
            let mut all = vec![0; outputs * bytes];
            let at = tensor.begin + (bytes * first) as u64;
            self.content.read(at, &mut all).map_err(|error| self.failed(error))?;
            let half = outputs / heads / 2;
            let rows = (0..outputs).flat_map(|row| {
                let (head, side, at) = (row / (2 * half), row / half % 2, row % half);
                &all[(head * 2 * half + 2 * at + side) * bytes..][..bytes]
            });
            packer.push(&rows.copied().collect::<Vec<u8>>()).map_err(refused)?;
            report(all.len());
            return Ok(Matrix::packed([outputs, inputs], packer));
        }
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
