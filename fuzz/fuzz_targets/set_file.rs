//! Any bytes as the file of a set, and valid files with any changes. The result is an error, or a set that
//! answers queries, and never a panic. The same holds for deltas.

#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_sets::{Delta, ItemSet, SetBuilder, SetConstraint};

/// The offsets of the fixed numbers, the sections and the columns in the header.
const SUMMED: usize = 24;
const SECTIONS: usize = 64;
const COLUMNS: usize = SECTIONS + 5 * 16;

#[derive(Arbitrary, Debug)]
enum Case<'a> {
    Bytes(&'a [u8]),
    /// A valid file with replaced words, truncated or extended. Lengths and checksums are corrected.
    Changed {
        width: u8,
        words: Vec<(u16, u32)>,
        bytes: Vec<(u16, u8)>,
        len: Option<i8>,
    },
    Delta {
        words: Vec<(u8, u32)>,
    },
}

fn example(width: u8) -> Vec<u8> {
    let vocab_len = [9, 300, 70_000][usize::from(width % 3)];
    let mut builder = SetBuilder::new(vocab_len);
    for item in 0..200u32 {
        let token = |at: u32| TokenId(item.wrapping_mul(at + 3) % (7 + at));
        builder.push(&(0..item % 5).map(token).collect::<Vec<_>>()).unwrap();
    }
    // Prefixes with many items, for which the followers are stored as bits and as a list.
    for item in 0..900u32 {
        let third = if item % 3 == 0 { item % 2 } else { item % 7 };
        builder.push(&[1, item % 2, third, item / 9 % 9, item % 9].map(TokenId)).unwrap();
    }
    builder.build().unwrap().0.as_bytes().to_vec()
}

/// Writes the length and all checksums anew, if the parts can be found.
fn mend(file: &mut [u8]) {
    let len = file.len();
    file[SUMMED..SUMMED + 8].copy_from_slice(&(len as u64).to_le_bytes());
    let word =
        |file: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|byte| file[at + byte])) as usize;
    let (width, columns) = (word(file, SECTIONS - 12), word(file, SECTIONS - 8));
    let header = COLUMNS.saturating_add(columns.saturating_mul(24));
    if header > len {
        return;
    }
    let mut end = header;
    let mut part = |file: &mut [u8], len: usize, at: usize| {
        let begin = end.next_multiple_of(64);
        end = begin.saturating_add(len).min(1 << 40);
        let sum = XxHash3_64::oneshot(file.get(begin..end).unwrap_or_default());
        file[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    };
    for at in (COLUMNS..header).step_by(24) {
        let tokens = word(file, at);
        part(file, tokens.saturating_mul(width), at + 8);
        part(file, tokens.div_ceil(480) * 64, at + 16);
    }
    for at in (SECTIONS..COLUMNS).step_by(16) {
        let len = word(file, at);
        part(file, len, at + 8);
    }
    let sum = XxHash3_64::oneshot(&file[SUMMED..header]);
    file[SUMMED - 8..SUMMED].copy_from_slice(&sum.to_le_bytes());
}

fn walk(constraint: &SetConstraint) {
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut state = constraint.start();
    for step in 0..8 {
        constraint.fill_mask(&mut (), &state, mask.as_mut());
        constraint.forced(&mut (), &state);
        let allowed: Vec<TokenId> = mask.ids().collect();
        constraint.candidates(&state, &allowed, &mut vec![false; allowed.len()]);
        let Some(token) = allowed.get(step * 7 % allowed.len().max(1)) else { break };
        if constraint.advance(&mut (), &mut state, *token).is_err() {
            break;
        }
    }
}

fuzz_target!(|case: Case<'_>| {
    static FILES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    let files = FILES.get_or_init(|| [0, 1, 2].map(example));
    let bytes = match case {
        Case::Bytes(bytes) => bytes.to_vec(),
        Case::Delta { words } => {
            let set = Arc::new(ItemSet::from_bytes(files[0].clone()).unwrap());
            let mut delta = Delta::new(&set);
            delta.add(&set, &[TokenId(8), TokenId(8)]).unwrap();
            delta.remove(&set, &set.item(5).unwrap()).unwrap();
            let mut bytes = delta.to_bytes();
            for (at, word) in words {
                let at = SUMMED + 8 + usize::from(at) % ((bytes.len() - SUMMED - 8) / 4) * 4;
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            let sum = XxHash3_64::oneshot(&bytes[SUMMED..]);
            bytes[SUMMED - 8..SUMMED].copy_from_slice(&sum.to_le_bytes());
            if let Ok(delta) = Delta::from_bytes(&bytes, &set) {
                delta.compact(&set).unwrap();
            }
            return;
        }
        Case::Changed { width, words, bytes, len } => {
            let mut file = files[usize::from(width % 3)].clone();
            for (at, word) in words {
                let at = SUMMED + 8 + usize::from(at) % ((file.len() - SUMMED - 8) / 4) * 4;
                file[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            for (at, byte) in bytes {
                let at = COLUMNS + usize::from(at) % (file.len() - COLUMNS);
                file[at] = byte;
            }
            file.resize(file.len().saturating_add_signed(isize::from(len.unwrap_or(0))), 0);
            mend(&mut file);
            file
        }
    };
    let Ok(set) = ItemSet::from_bytes(bytes) else { return };
    let _ = (set.verify(), set.subset_names());
    set.items().take(1000).for_each(drop);
    (0..set.len().min(1000) as u32).for_each(|place| drop(set.item(place)));
    let vocab_len = set.vocab_len();
    if let Ok(constraint) = SetConstraint::new(Arc::new(set), vocab_len.min(1 << 20)) {
        walk(&constraint);
    }
});
