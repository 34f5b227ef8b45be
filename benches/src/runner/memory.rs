//! How fast this machine reads memory: the bound of a pass whose weights no cache holds.

use std::time::Instant;

use rayon::prelude::*;

/// Of `u32`: larger than caches.
const LEN: usize = 1 << 27;

/// Numbers that one thread reads in a row.
const CHUNK: usize = 1 << 20;

/// Memory to read.
pub(super) struct Block(Vec<u32>);

impl Block {
    pub(super) fn new() -> Self {
        Self((0..LEN as u32).collect())
    }

    /// Reads all of it on all threads, and returns the gigabytes in a second.
    pub(super) fn read(&mut self) -> f64 {
        let begin = Instant::now();
        let sum = self.0.par_chunks(CHUNK).map(sum).reduce(|| 0, u32::wrapping_add);
        let taken = begin.elapsed().as_nanos() as f64;
        std::hint::black_box(sum);
        (LEN * size_of::<u32>()) as f64 / taken
    }
}

/// A sum in strips, of which the compiler makes vectors.
fn sum(numbers: &[u32]) -> u32 {
    let mut strips = [0_u32; 64];
    for chunk in numbers.chunks_exact(strips.len()) {
        for (strip, number) in strips.iter_mut().zip(chunk) {
            *strip = strip.wrapping_add(*number);
        }
    }
    strips.into_iter().fold(0, u32::wrapping_add)
}
