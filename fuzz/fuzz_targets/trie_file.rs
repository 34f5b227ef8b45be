//! Any bytes as saved prefixes, and valid files with any changes. The result is an error, or bounds with
//! which the sampler continues without a panic and with outputs that satisfy the constraint. The checksum is
//! corrected, so that the bytes before it are read.

#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use twox_hash::XxHash3_64;
use unskew_automata::RegexConstraint;
use unskew_core::{Constraint, Sampler, TableModel};
use unskew_samplers::{Exact, Sampling, Scheduler, Task};

const NAME: &str = "a table";
/// The number of outputs from which the valid file is built.
const OUTPUTS: usize = 12;

#[derive(Arbitrary, Debug)]
enum Case<'a> {
    Bytes(&'a [u8]),
    Changed { words: Vec<(u16, u32)>, bytes: Vec<(u16, u8)>, floats: Vec<(u16, f64)>, len: Option<i8> },
}

type Cars = Sampling<TableModel, Scheduler<&'static RegexConstraint, Exact>>;

fn model() -> &'static TableModel {
    static MODEL: OnceLock<TableModel> = OnceLock::new();
    MODEL.get_or_init(|| TableModel::new(["a", "b", "ab"], vec![0.3, 0.3, 0.2, 0.2], []).unwrap())
}

fn constraint() -> &'static RegexConstraint {
    static CONSTRAINT: OnceLock<RegexConstraint> = OnceLock::new();
    let vocabulary = || Arc::clone(model().vocabulary());
    CONSTRAINT.get_or_init(|| RegexConstraint::for_vocabulary("(ab|ba){1,3}", vocabulary()).unwrap())
}

/// A sampler of a few short outputs.
fn sampler() -> Cars {
    let mut task = Task::new(model().clone(), constraint(), model().vocabulary(), 6);
    task.max_bytes = 1 << 20;
    Sampling::new(task, Exact::cars(100))
}

fn draw(sampler: &mut Cars, outputs: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..outputs {
        // Changed bounds may hide every output. The sampler then stops with an error.
        let Ok(draw) = sampler.draw(&mut rng) else { return };
        let constraint = constraint();
        let mut state = constraint.start();
        assert!(draw.tokens.iter().all(|token| constraint.advance(&mut (), &mut state, *token).is_ok()));
        assert!(constraint.is_accepting(&state));
    }
}

fuzz_target!(|case: Case<'_>| {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut sampler = sampler();
        draw(&mut sampler, OUTPUTS);
        sampler.save(NAME)
    });
    let bytes = match case {
        Case::Bytes(bytes) => bytes.to_vec(),
        Case::Changed { words, bytes, floats, len } => {
            let mut file = file.clone();
            let body = file.len() - 8;
            for (at, word) in words {
                let at = usize::from(at) % (body - 4);
                file[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            for (at, float) in floats {
                let at = usize::from(at) % (body - 8);
                file[at..at + 8].copy_from_slice(&float.to_le_bytes());
            }
            for (at, byte) in bytes {
                file[usize::from(at) % body] = byte;
            }
            let body = body.saturating_add_signed(isize::from(len.unwrap_or(0)));
            file.resize(body, 0);
            let sum = XxHash3_64::oneshot(&file);
            file.extend(sum.to_le_bytes());
            file
        }
    };
    let mut sampler = sampler();
    match sampler.load(NAME, &bytes) {
        Ok(()) => {
            // The loaded bounds are saved, and loaded again.
            let saved = sampler.save(NAME);
            self::sampler().load(NAME, &saved).expect("what was written is read");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    draw(&mut sampler, 3);
});
