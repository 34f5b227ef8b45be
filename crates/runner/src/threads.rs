//! Rayon's words for parallel loops; where there are no threads, on WebAssembly, the same loops one after the other.
//!
//! Rayon runs there too, on the thread that calls it, and is a twentieth of a module that people wait for. Tried
//! instead: a feature, which each program for browsers would have to know of.

#[cfg(not(target_family = "wasm"))]
pub(crate) use rayon::{current_num_threads, prelude::*, slice::Chunks};
#[cfg(target_family = "wasm")]
pub(crate) use {
    one::{Loops, Slices, current_num_threads},
    std::slice::Chunks,
};

#[cfg(target_family = "wasm")]
mod one {
    use std::slice::{Chunks, ChunksExact, ChunksExactMut, ChunksMut, Iter};

    pub(crate) fn current_num_threads() -> usize {
        1
    }

    pub(crate) trait Slices<T> {
        fn par_iter(&self) -> Iter<'_, T>;
        fn par_chunks(&self, size: usize) -> Chunks<'_, T>;
        fn par_chunks_exact(&self, size: usize) -> ChunksExact<'_, T>;
        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T>;
        fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T>;
    }

    impl<T> Slices<T> for [T] {
        fn par_iter(&self) -> Iter<'_, T> {
            self.iter()
        }

        fn par_chunks(&self, size: usize) -> Chunks<'_, T> {
            self.chunks(size)
        }

        fn par_chunks_exact(&self, size: usize) -> ChunksExact<'_, T> {
            self.chunks_exact(size)
        }

        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
            self.chunks_mut(size)
        }

        fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T> {
            self.chunks_exact_mut(size)
        }
    }

    pub(crate) trait Loops: IntoIterator + Sized {
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }

        fn map_init<I, R>(
            self,
            init: impl FnOnce() -> I,
            map: impl Fn(&mut I, Self::Item) -> R,
        ) -> impl Iterator<Item = R> {
            let mut own = init();
            self.into_iter().map(move |item| map(&mut own, item))
        }

        fn for_each_init<I>(self, init: impl FnOnce() -> I, each: impl Fn(&mut I, Self::Item)) {
            self.map_init(init, each).for_each(drop);
        }

        fn reduce_with(self, both: impl Fn(Self::Item, Self::Item) -> Self::Item) -> Option<Self::Item> {
            self.into_iter().reduce(both)
        }

        fn find_map_first<R>(self, find: impl Fn(Self::Item) -> Option<R>) -> Option<R> {
            self.into_iter().find_map(find)
        }
    }

    impl<I: IntoIterator> Loops for I {}
}
