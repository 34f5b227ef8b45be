//! GGUF files: the tensors of a model in one file, in plain numbers or in the blocks of ggml.

use std::path::Path;

use unskew_gguf::{Gguf, GgufTensor};

use super::{File, LoadError, LoadOptions, Tensor, load};
use crate::config::ModelConfig;
use crate::config::gguf::{self, Divisors, GgufModelError};
use crate::config::parameters::{Parameter, Stored};
use crate::math::blocks::BlockType;
use crate::math::matrix::Matrix;
use crate::math::pack::Format;

/// The types that are read, as an error names them.
const TYPES: &str =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL and IQ4_XS";

/// A file whose header was read and checked.
struct Checked {
    config: ModelConfig,
    table: Vec<Parameter>,
    file: File<'static>,
    tensors: Vec<Tensor>,
}

/// The configuration of the model in a file; all of its header is checked.
pub(crate) fn config(path: &Path) -> Result<ModelConfig, LoadError> {
    Ok(checked(path)?.config)
}

/// The configuration and the weights of the model in a file. Matrices have the order of
/// [`crate::config::parameters::table`].
pub(crate) fn from_file(
    path: &Path,
    options: &mut LoadOptions<'_>,
) -> Result<(ModelConfig, Vec<Matrix>), LoadError> {
    let Checked { config, table, file, tensors } = checked(path)?;
    let matrices = load(&table, vec![(file, tensors)], options)?;
    Ok((config, matrices))
}

fn checked(path: &Path) -> Result<Checked, LoadError> {
    let in_file =
        |source: GgufModelError| LoadError::Gguf { path: path.to_owned(), source: Box::new(source) };
    let mut file = File::open(path.to_owned(), Vec::new())?;
    let header = Gguf::open(path).map_err(|error| in_file(error.into()))?;
    let divisors = divisors(&header, &mut file).map_err(|error| match error {
        Ok(error) => in_file(error),
        Err(error) => file.failed(error),
    })?;
    let config = gguf::read(&header, &divisors).map_err(in_file)?;
    let table = gguf::parameters(&header, &config).map_err(in_file)?;
    let tensor = |parameter: &Parameter| {
        let Stored { name, shape, .. } = &parameter.stored;
        let Some(found) = header.tensor(name) else {
            return Err(LoadError::Missing { path: path.to_owned(), tensor: name.clone() });
        };
        let own = found.shape.iter().rev().map(|size| usize::try_from(*size).unwrap_or(usize::MAX));
        let own: Vec<usize> = own.collect();
        if own != *shape {
            return Err(LoadError::Shape { tensor: name.clone(), found: own, expected: shape.clone() });
        }
        let [_, inputs] = parameter.matrix();
        match format(found).filter(|format| format.row_bytes(inputs).is_some()) {
            Some(format) => Ok(Tensor { begin: found.start, format, shape: own }),
            None => Err(in_file(GgufModelError::Type {
                tensor: name.clone(),
                found: found.type_name().map_or_else(|| format!("of number {}", found.kind), str::to_owned),
                known: TYPES,
            })),
        }
    };
    let tensors = table.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    file.rows = (0..table.len()).collect();
    Ok(Checked { config, table, file, tensors })
}

fn format(tensor: &GgufTensor) -> Option<Format> {
    match tensor.kind {
        0 => Some(Format::F32),
        1 => Some(Format::F16),
        30 => Some(Format::Bf16),
        kind => BlockType::of(kind).map(Format::Blocks),
    }
}

/// Reads the divisors of rotary frequencies: some lists of at most a head's width.
fn divisors(header: &Gguf, file: &mut File<'_>) -> Result<Divisors, Result<GgufModelError, std::io::Error>> {
    let mut all = Divisors::default();
    for (list, name) in all.iter_mut().zip(gguf::divisors()) {
        let Some(tensor) = header.tensor(name) else { continue };
        let count = match (tensor.kind, tensor.shape.as_slice()) {
            (0, [count]) if *count <= 1 << 15 => *count as usize,
            _ => {
                return Err(Ok(GgufModelError::Invalid {
                    key: name.to_owned(),
                    value: format!("{:?} of type {}", tensor.shape, tensor.type_name().unwrap_or("unknown")),
                    expected: "a list of F32".to_owned(),
                }));
            }
        };
        let mut bytes = vec![0; 4 * count];
        file.content.read(tensor.start, &mut bytes).map_err(Err)?;
        let (numbers, _) = bytes.as_chunks();
        *list = Some(numbers.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect());
    }
    Ok(all)
}
