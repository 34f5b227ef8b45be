//! A set on a machine with little memory. A process that cannot have more than a given number of bytes builds the set
//! through temporary files, maps it, and asks it.
//!
//! The test runs itself again as a process of its own, which first limits its address space: 512 MiB for a million
//! items, and less for fewer items in debug builds. Everything counts, also the mapped file and the program.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "what a process needed is worth knowing")]

use std::{process::Command, sync::Arc};

use rustix::process::{Resource, Rlimit, setrlimit};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_sets::{ItemSet, SetBuilder, SetConstraint, SetLimits};

/// The items, the address space, and the memory that items may take before they go to a file, both in MiB.
const FORM: (u32, u64, usize) = if cfg!(debug_assertions) { (60_000, 96, 1) } else { (1_000_000, 512, 16) };

/// Marks the limited process, and names its file.
const LIMITED: &str = "UNSKEW_LIMITED";

const WORDS: u32 = 40_000;

/// Different numbers for different arguments: a step of a generator that has every number once.
fn mixed(number: u32) -> u32 {
    let number = number.wrapping_mul(0x9e37_79b1);
    number ^ number >> 15
}

/// Item `index` as a line: seven words, the first of which are frequent.
fn line(index: u32) -> String {
    let words = [
        mixed(index) % 200,
        mixed(index ^ 0x5555) % 3000,
        mixed(index.wrapping_add(77)) % WORDS,
        index % WORDS,
        index / WORDS,
        mixed(index.wrapping_mul(3)) % WORDS,
        mixed(index / 7) % WORDS,
    ];
    words.map(|word| format!("{word} ")).concat()
}

fn encode(line: &str) -> Result<Vec<TokenId>, std::num::ParseIntError> {
    line.split_terminator(' ').map(|word| word.parse().map(TokenId)).collect()
}

#[test]
fn a_large_set_works_in_little_memory() {
    let (items, mib, _) = FORM;
    if let Some(path) = std::env::var_os(LIMITED) {
        let limit = Some(mib << 20);
        setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
        // The limit holds.
        assert!(Vec::<u8>::new().try_reserve_exact(usize::try_from(mib << 20).unwrap()).is_err());
        build_and_ask(path.as_ref());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "limited::a_large_set_works_in_little_memory",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env(LIMITED, folder.path().join("set"))
        // Without this, each thread that allocates would reserve 64 MiB of addresses.
        .env("MALLOC_ARENA_MAX", "1")
        // Each thread also reserves its stack, which counts on machines with many cores.
        .env("RAYON_NUM_THREADS", "2")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let needed =
        stdout.lines().find(|line| line.starts_with("peak")).expect("the process says what it needed");
    println!("{items} items in {mib} MiB: {needed}");
}

fn build_and_ask(path: &std::path::Path) {
    let (items, _, memory) = FORM;
    let mut vocabulary = Vocabulary::builder();
    (0..WORDS).for_each(|word| {
        vocabulary.text(format!("{word} ").as_bytes());
    });
    let vocabulary = Arc::new(vocabulary.build().unwrap());
    let limits = SetLimits { memory: memory << 20, ..SetLimits::default() };
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary)).limits(limits);
    let mut at = 0;
    // Lines are made on request, as from a pipe.
    let lines = Lines {
        next: String::new(),
        read: 0,
        item: || {
            at += 1;
            (at <= items).then(|| line(at - 1) + "\n")
        },
    };
    builder.push_lines(lines, encode, |_, _| ()).unwrap();
    let (set, report) = builder.build_to(path).unwrap();
    assert_eq!((report.items, report.duplicates), (u64::from(items), 0));
    assert!(report.spilled > 1, "the items must not have fitted: {}", report.spilled);
    drop(set);

    let set = Arc::new(ItemSet::open(path, &vocabulary).unwrap());
    set.verify().unwrap();
    let constraint = SetConstraint::new(Arc::clone(&set), vocabulary.len()).unwrap();
    let mut mask = TokenMask::new(vocabulary.len());
    for index in (0..items).step_by(items as usize / 2000) {
        let mut state = constraint.start();
        for token in encode(&line(index)).unwrap() {
            constraint.fill_mask(&mut (), &state, mask.as_mut());
            assert!(mask.contains(token) && !constraint.is_accepting(&state));
            constraint.advance(&mut (), &mut state, token).unwrap();
        }
        assert!(constraint.is_accepting(&state));
        constraint.fill_mask(&mut (), &state, mask.as_mut());
        assert!(mask.none());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    println!("\npeak of addresses {}, of memory {}", of("VmPeak:"), of("VmHWM:"));
}

/// Lines that are made on request.
struct Lines<F> {
    next: String,
    read: usize,
    item: F,
}

impl<F: FnMut() -> Option<String>> std::io::Read for Lines<F> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let ready = std::io::BufRead::fill_buf(self)?;
        let len = ready.len().min(into.len());
        into[..len].copy_from_slice(&ready[..len]);
        std::io::BufRead::consume(self, len);
        Ok(len)
    }
}

impl<F: FnMut() -> Option<String>> std::io::BufRead for Lines<F> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.read == self.next.len() {
            (self.next, self.read) = ((self.item)().unwrap_or_default(), 0);
        }
        Ok(&self.next.as_bytes()[self.read..])
    }

    fn consume(&mut self, len: usize) {
        self.read += len;
    }
}
