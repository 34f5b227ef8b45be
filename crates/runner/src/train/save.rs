//! Writes weights as a Hugging Face checkpoint: f16 safetensors, the Llama names, linear maps as `[out, in]`.

use std::collections::HashMap;

use half::f16;
use safetensors::tensor::{Dtype, TensorView};

use crate::config::ModelConfig;
use crate::config::parameters;
use crate::math::matrix::transposed;

/// The bytes of a `model.safetensors`. `values` have the order and orientation of [`parameters::table`]. Each value is
/// rounded to the nearest f16.
pub(crate) fn to_f16(config: &ModelConfig, values: &[Vec<f32>]) -> Vec<u8> {
    let encoded: Vec<(String, Vec<usize>, Vec<u8>)> = parameters::table(config)
        .into_iter()
        .zip(values)
        .map(|(parameter, values)| {
            let [rows, columns] = parameter.shape;
            let halves: Vec<f16> = values.iter().map(|value| f16::from_f32(*value)).collect();
            let halves = if parameter.is_transposed() { transposed(&halves, rows, columns) } else { halves };
            let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
            (parameter.stored.shape, parameter.stored.name, bytes)
        })
        .map(|(shape, name, bytes)| (name, shape, bytes))
        .collect();
    let views = encoded.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F16, shape.clone(), bytes);
        (name.as_str(), view.expect("two bytes were written for each value"))
    });
    // transformers refuses a file without this entry. It is the only entry: two entries would vary in their order.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(views, Some(metadata)).expect("names and shapes are valid")
}
