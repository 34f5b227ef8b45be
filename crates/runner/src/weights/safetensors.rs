//! Safetensors: the tensors of a model in a file, in memory, or in shards with an index.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata};
use serde_json::Value;

use super::{Content, File, LoadError, LoadOptions, Tensor, load, read};
use crate::config::ModelConfig;
use crate::config::parameters::{self, Parameter, Stored};
use crate::math::matrix::Matrix;
use crate::math::pack::Format;

/// The name in errors of a checkpoint that was passed as bytes.
const IN_MEMORY: &str = "safetensors";

/// The longest header of a file, as in the safetensors library.
const MOST_HEADER: u64 = 100_000_000;

/// Reads a `model.safetensors` that is already in memory. Matrices have the order of [`parameters::table`].
pub(crate) fn from_bytes(
    config: &ModelConfig,
    bytes: &[u8],
    options: &mut LoadOptions<'_>,
) -> Result<Vec<Matrix>, LoadError> {
    let table = parameters::table(config);
    let rows = (0..table.len()).collect();
    let mut file = File { path: IN_MEMORY.into(), content: Content::Bytes(bytes), rows };
    let tensors = file.tensors(&table)?;
    load(&table, vec![(file, tensors)], options)
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
        let mut file = File::open(path, rows)?;
        let tensors = file.tensors(&table)?;
        Ok((file, tensors))
    };
    load(&table, files.into_iter().map(open).collect::<Result<_, LoadError>>()?, options)
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

impl File<'_> {
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
            let (format, width) = match info.dtype {
                Dtype::F32 => (Format::F32, 4),
                Dtype::F16 => (Format::F16, 2),
                Dtype::BF16 => (Format::Bf16, 2),
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
            Ok(Tensor { begin: data + begin as u64, format, shape: info.shape.clone() })
        };
        self.rows.iter().map(find).collect()
    }
}
