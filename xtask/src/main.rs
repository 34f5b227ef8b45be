//! `cargo xtask`: everything that is done to this repository, by name.
//!
//! Each task runs cargo and prints its commands, so that any of them can be repeated by hand.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

mod attack;
mod bench;
mod check;
mod conformance;
mod engines;
mod lines;
mod links;
mod lint;
mod manifests;
mod notices;
mod process;
mod python;
mod real;
mod release;
mod rooms;
mod site;
mod tidy;
mod wasm;
mod zig;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use process::cargo;
use python::Profile;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
cargo xtask TASK

  check             all that needs no Python of what CI runs, cheapest first: format, tidy, clippy, docs, tests
  ci                all that CI runs: `check`, `lint`, `python --dev numpy` and `pydantic`, and the tests in Rust of `real`
  test              the tests alone
  features          clippy and docs with the features that `check` leaves out, and their tests: the decoder on the CPU beside burn's,
                    training, and the kernels on every adapter, bit for bit, skipped by name where there is none (20 CPU-minutes)
  wgpu              clippy, docs and tests of models on a GPU, and of sets there: burn's wgpu, which is in no other task and takes
                    25 CPU-minutes to build
  llama-cpp         format, clippy, docs and tests of models that llama.cpp runs: C++, which is in no other task (cmake, a C++ compiler
                    and libclang; 5 minutes to build on two cores)
  tidy              the rules that no compiler checks: module docs, file lengths, who depends on whom, features documented
  cross             compile checks for platforms that this machine is not: Windows, and the libraries for wasm32
  lint              spelling (typos) and workflows (zizmor, actionlint), by tools that PyPI has
  deny [CHECK ...]  licences, sources and bans of dependencies, and advisories about them, which are fetched (cargo-deny)
  semver REVISION   whether changes of the published APIs since a revision are told by the version (cargo-semver-checks)
  pages FOLDER      pages of a manual, completions of shells and a page of all options, made of the command line
  site [--no-api]   the documentation site, into target/site: the pages of docs, the options of the command line, the reference of Python, the
                    records of measurements, the playground where `wasm --build` has made its package, and rustdoc, which takes most of
                    the time; fails on a broken link (needs mdbook, and Python 3.10 or later)
  package           build every crate that is published from its package
  wheel             the Python package as a wheel, into target/wheels (installs maturin into an environment under target)
  python [--dev] [ENVIRONMENT [ARGUMENTS]]
                    builds the wheel, and runs its tests in environments under target: `numpy`, `pydantic`, and `transformers` with torch, of
                    which 5 GB are downloaded (ARGUMENTS: for pytest; the variable PYTHON names another interpreter; with --dev the
                    wheel is a debug build, as in CI)
  engines [--newest] [ENGINE ...] [ARGUMENTS]
                    builds the wheel, installs it with each engine into an environment under target, makes a real model, and runs the
                    tests of the plug-in with the engine itself on the CPU: vllm, sglang (6 and 7 GB of packages, 0.1 GB for the
                    model; ARGUMENTS: for pytest), in the versions that are pinned or the newest
  real [ARGUMENTS]  fetches two real models (0.1 and 0.25 GB) into target/real, checks their sums, and runs on them: commands and code of
                    the documents as they stand, our decoder beside transformers, laws, and the spelling of texts of their own
                    (torch, of which 5 GB are downloaded; ARGUMENTS: for pytest)
  wasm [--build | TEST ...]
                    the npm package `unskew` for browsers and Node, into target/npm, its size and its tests: masks and draws beside Rust's,
                    faults, memory, transformers.js (needs Node 20 or later with npm, and rustup's target wasm32-unknown-unknown; 0.6 GB of
                    packages; --build: without tests; TEST: masks, package, transformers; UNSKEW_DATA names a folder with more specs)
  playground [ARGUMENTS]
                    the tests of the playground in headless Chromium, after `wasm` or `wasm --build` (Node 20 or later with npm; the variable
                    CHROMIUM names the browser where it is not /usr/bin/chromium; ARGUMENTS: for Playwright)
  wasm libraries    checks that the library crates build for browsers
  parity [SEED]     makes tiny random checkpoints of every family with transformers, in an environment under target (torch, of which
                    5 GB are downloaded), and runs the decoder beside its logits (default seed: 1, that of the test data)
  train [STEPS]     make the embedded models (STEPS: a trial run of so many steps, into target/train/trial)
  bench SUBCOMMAND [ARGUMENTS]
                    builds `unskew-bench` with the features that the subcommand needs, and runs it here: regex, grammars,
                    published, maskbench, soak, samplers, speculation, sets, runner, device, real (`cargo xtask bench help` lists them and their
                    options; regex, grammars and published build other projects' engines, runner builds burn for 5 CPU-minutes, device
                    burn's wgpu for 25)
  conformance --data DIR [--any-order] [--record] [FILTER ...]
                    the official JSON-Schema-Test-Suite in DIR: right, refused and wrong by keyword; fails if anything invalid
                    is accepted
  attack [MINUTES] [--seed N] [--case N] [--program FILE] [--seconds S] [--megabytes MB]
                    hostile inputs against the command line that was built last, each under limits; fails on anything but an
                    answer or an error (default: 2 minutes)
  attack door [--seed N] [--only vllm|sglang|server] [--minutes M] [--requests N] [ARGUMENTS]
                    hostile requests against the plug-ins: the classes of both engines with fakes, and a live vLLM server over HTTP,
                    beside a client that behaves (default: 10 minutes or 10,000 requests; needs the engines' environments and
                    makes them; ARGUMENTS: for crates/python/engines/attack/door.py, `--show N` prints a request)
  release --dry-run FOLDER [--only PART]... [--target TRIPLE]...
                    all that a release consists of, into one folder with checksums: crates, sdist, wheels, archives of the command line, c (the C
                    library, by cargo-c), npm (`wasm`), site, sums (the default: all of them, and on Linux x86-64 and aarch64, each with glibc and musl);
                    free-threaded, a wheel for the interpreter `PYTHON`, only where it is named
  release --notes TAG
                    what is new in this version, from the changelog, if the tag is that of the version
  release --publish pushes the crates that the registry does not have yet
  fuzz [TARGET] [SECONDS]
                    fuzz one target, or each for the given time (default: each for 300 seconds)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&root(), &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, args: &[&str]) -> Result<()> {
    match args {
        ["check"] => check::check(root),
        ["ci"] => check::check(root)
            .and_then(|()| lint::lint(root))
            .and_then(|()| python::ci(root))
            .and_then(|()| real::ci(root)),
        ["test"] => check::test(root),
        ["features"] => check::features(root),
        ["wgpu"] => check::wgpu(root),
        ["llama-cpp"] => check::llama_cpp(root),
        ["cross"] => check::cross(root),
        ["lint"] => lint::lint(root),
        ["deny", checks @ ..] => lint::deny(root, checks),
        ["semver", revision] => lint::semver(root, revision),
        ["tidy"] => tidy::tidy(root),
        ["pages", folder] => pages(root, folder),
        ["site"] => site::site(root, true, None),
        ["site", "--no-api"] => site::site(root, false, None),
        ["package"] => check::package(root),
        ["release", rest @ ..] => release::release(root, rest),
        ["wheel"] => python::wheel(root, Profile::Release).map(drop),
        ["python", "--dev", rest @ ..] => python(root, Profile::Dev, rest),
        ["python", rest @ ..] => python(root, Profile::Release, rest),
        ["engines", rest @ ..] => engines::engines(root, rest),
        ["real", rest @ ..] => real::real(root, rest),
        ["wasm", "libraries"] => wasm::libraries(root),
        ["wasm", rest @ ..] => wasm::wasm(root, rest),
        ["playground", rest @ ..] => site::test_playground(root, rest),
        ["parity"] => python::parity(root, "1"),
        ["parity", seed] => python::parity(root, seed),
        ["train", rest @ ..] if rest.len() < 2 => train(root, rest),
        ["bench", rest @ ..] => bench::bench(root, rest),
        ["conformance", rest @ ..] => conformance::conformance(root, rest),
        ["attack", rest @ ..] => attack::attack(root, rest),
        ["fuzz", rest @ ..] if rest.len() < 3 => fuzz(root, rest),
        _ => {
            eprint!("{USAGE}");
            Err("no such task".into())
        }
    }
}

fn python(root: &Path, profile: Profile, args: &[&str]) -> Result<()> {
    match args.first().filter(|name| !python::is_environment(name)) {
        Some(unknown) => {
            Err(format!("there is no environment `{unknown}`: numpy, pydantic, transformers").into())
        }
        None => python::python(root, profile, args),
    }
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the repository's root").to_owned()
}

fn train(root: &Path, steps: &[&str]) -> Result<()> {
    let package = ["run", "--release", "--package", "unskew-tiny-model-train", "--features", "train", "--"];
    cargo(root, &[&package[..], steps].concat())
}

/// The library that makes them is in no program that is released.
fn pages(root: &Path, folder: &str) -> Result<()> {
    cargo(root, &["run", "--package", "unskew-pages", "--", folder])
}

/// Runs libFuzzer without sanitizers, which need a nightly toolchain; the crates have no unsafe code.
fn fuzz(root: &Path, args: &[&str]) -> Result<()> {
    let (targets, seconds) = match args {
        [target, seconds] => (vec![(*target).to_owned()], seconds.parse::<u32>()?),
        [target] => (vec![(*target).to_owned()], 300),
        _ => (fuzz_targets(root)?, 300),
    };
    for target in targets {
        // Earlier findings, which stay on this machine, and the seeds, which libFuzzer reads and does not change.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(root.join(&corpus))?;
        let limit = format!("-max_total_time={seconds}");
        let mut args = vec!["fuzz", "run", "--sanitizer", "none", target.as_str(), corpus.as_str()];
        if root.join(&seeds).is_dir() {
            args.push(&seeds);
        }
        args.extend(["--", &limit, "-rss_limit_mb=4096", "-timeout=30"]);
        cargo(root, &args)
            .map_err(|error| format!("{error}; `cargo install cargo-fuzz` provides `cargo fuzz`"))?;
    }
    Ok(())
}

fn fuzz_targets(root: &Path) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        targets.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    }
    targets.sort();
    Ok(targets)
}
