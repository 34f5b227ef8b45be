//! A hash for maps and sets of positions and states: numbers that tables of ours give out, and nobody chooses.
//!
//! It is that of the Firefox browser and the Rust compiler, a rotation and a multiplication for each number. The standard
//! library's resists keys that are chosen to collide and takes several times as long, which was a third of the time for a
//! mask.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// A map with this hash.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A set with this hash.
pub(crate) type Set<K> = HashSet<K, BuildHasherDefault<Mix>>;

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Mix(u64);

impl Mix {
    #[inline]
    fn add(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        // A map takes the lowest bits, and multiplication leaves those of low bits alone.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
}
