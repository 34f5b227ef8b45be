//! How fast this machine reads memory: the bound of a step whose weights no cache holds.

use std::time::Instant;

use crate::threads::*;

/// Of `u32`: 256 MiB, larger than caches.
const LEN: usize = 1 << 26;

/// Numbers that one thread reads in a row.
const CHUNK: usize = 1 << 20;

/// The bytes that all threads together read in a second, the best of some rounds.
#[must_use]
pub fn memory_bandwidth(rounds: usize) -> f64 {
    let block: Vec<u32> = (0..LEN as u32).collect();
    let read = |_| {
        let begin = Instant::now();
        let all = block.par_chunks(CHUNK).map(sum).reduce_with(u32::wrapping_add);
        std::hint::black_box(all);
        size_of_val(&block[..]) as f64 / begin.elapsed().as_secs_f64()
    };
    (0..rounds.max(1)).map(read).fold(0.0, f64::max)
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
