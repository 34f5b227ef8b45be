//! The bytes of a set, in memory or in a mapped file.
//!
//! Searches jump through a set. With pages of 4 KiB nearly every jump also misses the table of pages: for six million
//! items these misses took a third of the time of a mask. A large set in memory therefore asks for huge pages, where
//! the system has them (Linux, unless the system has them switched off). The pages of a mapped file are as the file
//! system gives them.

use std::ops::Deref;

use memmap2::Mmap;
use mmap_guard::FileData;

/// Smaller sets stay in ordinary memory: the table of pages covers them.
#[cfg(any(target_os = "linux", test))]
const LARGE: usize = 1 << 22;

/// The bytes of a set.
#[derive(Debug)]
pub(crate) enum Memory {
    File(FileData),
    /// Memory without a file, in huge pages if the system grants them.
    Pages(Mmap),
}

impl Memory {
    /// Takes over the bytes. Large ones are copied to huge pages; they stay in place where there is no memory for the
    /// copy.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        match in_huge_pages(&bytes) {
            Some(pages) => Self::Pages(pages),
            None => Self::File(FileData::Loaded(bytes)),
        }
    }
}

#[cfg(target_os = "linux")]
fn in_huge_pages(bytes: &[u8]) -> Option<Mmap> {
    if bytes.len() < LARGE {
        return None;
    }
    let mut pages = memmap2::MmapMut::map_anon(bytes.len()).ok()?;
    pages.advise(memmap2::Advice::HugePage).ok()?;
    pages.copy_from_slice(bytes);
    pages.make_read_only().ok()
}

#[cfg(not(target_os = "linux"))]
fn in_huge_pages(_: &[u8]) -> Option<Mmap> {
    None
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::File(data) => data,
            Self::Pages(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_was_given() {
        for len in [0, 1, LARGE - 1, LARGE, LARGE + 4097] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            assert!(Memory::new(bytes.clone())[..] == bytes, "{len}");
        }
    }
}
