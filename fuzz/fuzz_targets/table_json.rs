//! Any bytes as a table model. The result is an error, or a model with distributions as rows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use unskew_core::{TableModel, conformance};

fuzz_target!(|json: &[u8]| {
    let Ok(mut model) = TableModel::from_json(json) else { return };
    if model.vocabulary().len() > 1 {
        conformance::check_model(&mut model, &[vec![0, 0], vec![0]], 0.0).unwrap();
    }
});
