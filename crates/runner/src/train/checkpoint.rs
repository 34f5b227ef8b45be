//! The checkpoint of a training run: one safetensors file in f32 with the weights and both moments of the optimiser.
//! The metadata holds the step and every setting that decides the batches that follow.
//!
//! The checkpoint is written to a neighbouring file, flushed to disk and renamed over the old one. A run that is
//! killed at any moment therefore leaves a whole checkpoint.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::optimizer::AdamW;
use super::{State, TrainError, TrainOptions};
use crate::config::ModelConfig;
use crate::config::parameters::Parameter;

/// The settings that must be equal between the run that wrote a checkpoint and the run that resumes from it. The other
/// options (the length of the run, its rates) may change in between.
fn identity(config: &ModelConfig, options: &TrainOptions) -> Vec<(&'static str, String)> {
    vec![
        ("config", config.to_json()),
        ("seed", options.seed.to_string()),
        ("batch", options.batch.to_string()),
        ("context", options.context.to_string()),
    ]
}

const PARTS: [&str; 3] = ["weight", "first", "second"];

/// Writes the state of a run.
pub(super) fn store(
    config: &ModelConfig,
    table: &[Parameter],
    options: &TrainOptions,
    state: &State,
) -> Result<(), TrainError> {
    let mut bytes: Vec<(String, Vec<u8>, [usize; 2])> = Vec::with_capacity(3 * table.len());
    for (part, vectors) in
        PARTS.into_iter().zip([&state.values, &state.optimizer.first, &state.optimizer.second])
    {
        for (parameter, values) in table.iter().zip(vectors) {
            let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            bytes.push((format!("{part}.{}", parameter.stored.name), raw, parameter.shape));
        }
    }
    let views = bytes.iter().map(|(name, raw, shape)| {
        let view = TensorView::new(Dtype::F32, shape.to_vec(), raw);
        (name.as_str(), view.expect("four bytes were written for each value"))
    });
    let mut metadata: HashMap<String, String> =
        identity(config, options).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    metadata.insert("step".to_owned(), state.step.to_string());
    let file = safetensors::serialize(views, Some(metadata)).expect("names and shapes are valid");
    write_atomically(&options.checkpoint, &file)
}

/// Reads the state of a run; `None` when there is no checkpoint.
pub(super) fn load(
    config: &ModelConfig,
    table: &[Parameter],
    options: &TrainOptions,
) -> Result<Option<State>, TrainError> {
    let path = &options.checkpoint;
    let file = match fs::read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TrainError::Io { action: "read", path: path.clone(), source }),
    };
    let damaged = |reason: String| TrainError::Damaged { path: path.clone(), reason };
    let (_, header) = SafeTensors::read_metadata(&file).map_err(|error| damaged(error.to_string()))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let entry = |name: &str| metadata.get(name).ok_or_else(|| damaged(format!("it lacks the entry {name}")));
    for (what, expected) in identity(config, options) {
        let found = entry(what)?;
        if *found != expected {
            let (what, found) = (what.to_owned(), found.clone());
            return Err(TrainError::Mismatch { path: path.clone(), what, found, expected });
        }
    }
    let step = entry("step")?.parse().map_err(|_| damaged("its step is not a number".to_owned()))?;
    let tensors = SafeTensors::deserialize(&file).map_err(|error| damaged(error.to_string()))?;
    let read = |part: &str| -> Result<Vec<Vec<f32>>, TrainError> {
        table
            .iter()
            .map(|parameter| {
                let name = format!("{part}.{}", parameter.stored.name);
                let tensor = tensors.tensor(&name).map_err(|error| damaged(error.to_string()))?;
                if tensor.dtype() != Dtype::F32 || tensor.shape() != parameter.shape {
                    return Err(damaged(format!("{name} has another type or shape")));
                }
                let chunks = tensor.data().chunks_exact(4);
                Ok(chunks.map(|raw| f32::from_le_bytes(raw.try_into().expect("chunks of four"))).collect())
            })
            .collect()
    };
    let [values, first, second] = PARTS.map(read);
    Ok(Some(State { step, values: values?, optimizer: AdamW { first: first?, second: second? } }))
}

/// Replaces a file in one step: the file holds the old bytes or the new ones, never a part.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let write = || {
        let mut file = fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|source| TrainError::Io { action: "write", path: path.to_owned(), source })
}
