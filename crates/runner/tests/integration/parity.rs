//! The decoder beside transformers, over tiny checkpoints of every family with every switch of its configuration on.
//!
//! The checkpoints and the logits lie in `tests/parity`; `parity/make.py` made them (`cargo xtask parity` makes
//! others, and runs this test over them by the variable `UNSKEW_PARITY`). Lengths go beyond windows and beyond the
//! positions of training.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::{Llama, LoadOptions, ModelConfig, Quantization};

use crate::common::extend;

/// The checkpoints.
fn folders() -> Vec<PathBuf> {
    let folder = std::env::var_os("UNSKEW_PARITY")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity"), PathBuf::from);
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 12, "{all:?}");
    all
}

/// The results of transformers: texts, and for each length the logits after so many tokens of each text.
struct Reference {
    texts: Vec<Vec<TokenId>>,
    logits: Vec<(usize, Vec<Vec<f32>>)>,
}

fn reference(folder: &Path) -> Reference {
    let bytes = fs::read(folder.join("logits.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let rows = |name: &str| {
        let view = file.tensor(name).unwrap();
        let numbers = view.data().as_chunks::<4>().0.to_vec();
        numbers.chunks(view.shape()[1]).map(<[[u8; 4]]>::to_vec).collect::<Vec<_>>()
    };
    let texts = rows("tokens");
    let texts = texts.iter().map(|row| row.iter().map(|id| TokenId(u32::from_le_bytes(*id))).collect());
    let mut logits: Vec<(usize, Vec<Vec<f32>>)> = file
        .names()
        .into_iter()
        .filter_map(|name| {
            let length = name.strip_prefix("logits.")?.parse().unwrap();
            let rows = rows(name);
            Some((
                length,
                rows.iter().map(|row| row.iter().map(|x| f32::from_le_bytes(*x)).collect()).collect(),
            ))
        })
        .collect();
    logits.sort_by_key(|(length, _)| *length);
    Reference { texts: texts.collect(), logits }
}

fn is_bf16(folder: &Path) -> bool {
    folder.to_str().unwrap().ends_with("bf16")
}

fn best(row: &[f32]) -> (usize, f32) {
    let at = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
    let second = (0..row.len()).filter(|index| *index != at).map(|index| row[index]).fold(f32::MIN, f32::max);
    (at, row[at] - second)
}

/// The largest difference; the best tokens must be the same where the reference's two best are further apart than
/// `tolerance`.
fn compare(what: &str, row: &[f32], expected: &[f32], tolerance: f32) -> f32 {
    let apart = row.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= tolerance, "{what}: {apart}");
    let (at, gap) = best(expected);
    assert!(gap <= tolerance || best(row).0 == at, "{what}: another best token");
    apart
}

#[test]
#[allow(clippy::print_stderr, reason = "a report for `cargo xtask parity`")]
fn logits_are_those_of_transformers() {
    for folder in folders() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let mut model = Llama::from_dir(&folder).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Reference { texts, logits } = reference(&folder);
        let tolerance = if is_bf16(&folder) { 2e-2 } else { 2e-4 };
        let mut most = 0.0_f32;
        // Token by token, from prompts of different lengths, and all texts in one batch.
        for (start, shape) in [(usize::MAX, "at once"), (1, "by one"), (20, "by one after 20")] {
            let mut sequences: Vec<_> = texts.iter().map(|_| model.start()).collect();
            for (length, expected) in &logits {
                let mut rows = Logits::new();
                loop {
                    let pieces: Vec<&[TokenId]> = sequences
                        .iter()
                        .zip(&texts)
                        .map(|(sequence, text)| {
                            let len = sequence.tokens().len();
                            let step = if len < start { start.saturating_sub(len) } else { 1 };
                            &text[len..len.saturating_add(step).min(*length)]
                        })
                        .collect();
                    if pieces.iter().all(|piece| piece.is_empty()) {
                        break;
                    }
                    let mut batch: Vec<_> = sequences
                        .iter_mut()
                        .zip(&pieces)
                        .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
                        .collect();
                    model.extend(&mut batch, &mut rows).unwrap();
                }
                for (index, (row, expected)) in rows.rows().zip(expected).enumerate() {
                    let what = format!("{name}, {shape}, text {index}, {length} tokens");
                    most = most.max(compare(&what, row, expected, tolerance));
                }
            }
        }
        // Back to shorter texts, out of the same sequence.
        let mut sequence = model.start();
        for (length, expected) in logits.iter().rev() {
            if sequence.tokens().is_empty() {
                extend(&mut model, &mut sequence, &texts[0][..*length], Rows::Last);
            }
            model.truncate(&mut sequence, *length);
            let row = extend(&mut model, &mut sequence, &[], Rows::Last);
            compare(&format!("{name}, truncated to {length}"), &row[0], &expected[0], tolerance);
        }
        eprintln!("{name}: {most:.1e}");
    }
}

/// A configuration that is written is read back as the same.
#[test]
fn configurations_are_written_and_read() {
    for folder in folders() {
        let text = fs::read_to_string(folder.join("config.json")).unwrap();
        let config = ModelConfig::from_json(&text).unwrap();
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config, "{folder:?}");
    }
}

/// Weights of eight bits are the model but for their rounding, and a batch equals its items.
#[test]
fn eight_bits_are_near() {
    for folder in folders() {
        let mut options = LoadOptions::default();
        options.quantization = Quantization::Q8_0;
        let mut model = Llama::from_dir_with(&folder, &mut options).unwrap();
        let mut exact = Llama::from_dir(&folder).unwrap();
        assert_eq!(model.kept_as(), "q8_0");
        assert!(model.weight_bytes() < exact.weight_bytes());
        let Reference { texts, .. } = reference(&folder);
        model.remember(0);
        let mut sequence = model.start();
        let rows = extend(&mut model, &mut sequence, &texts[0], Rows::All);
        let mut sequence = exact.start();
        let expected = extend(&mut exact, &mut sequence, &texts[0], Rows::All);
        let square = |rows: &[Vec<f32>]| rows.iter().flatten().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let difference: Vec<Vec<f32>> = rows
            .iter()
            .zip(&expected)
            .map(|(row, expected)| row.iter().zip(expected).map(|(a, b)| a - b).collect())
            .collect();
        let noise = (square(&difference) / square(&expected)).sqrt();
        assert!(noise > 0.0 && noise < 0.05, "{folder:?}: {noise}");
        let mut sequence = model.start();
        for (token, row) in texts[0].iter().zip(&rows) {
            assert_eq!(extend(&mut model, &mut sequence, &[*token], Rows::Last)[0], *row, "{folder:?}");
        }
    }
}
