//! `cargo xtask`: everything that is done to this repository, by name.
//!
//! Each task runs cargo and says what it runs, so that any of them can be repeated by hand.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

mod attack;
mod check;
#[cfg(feature = "train")]
mod corpus;
mod process;
mod tidy;
#[cfg(feature = "train")]
mod train;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use process::cargo;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
cargo xtask TASK

  check             all that CI runs, cheapest first: format, tidy, clippy, docs, tests, kernels, packages,
                    a minute of attacks
  test              the tests alone
  gpu               the kernels on every adapter, bit for bit; skipped by name where there is none
  wgpu              what takes burn's wgpu, 25 CPU-minutes to build, and is in no other task: clippy, docs and tests of models
                    on a GPU, and of sets there
  tidy              what no compiler checks: module docs, file lengths, who depends on whom, features documented
  package           build every crate that is published from what would be published
  train [STEPS]     make the embedded models (STEPS: a trial run of so many steps, into target/train/trial)
  bench [FILTER]    the benchmarks of our own engines
  bench regex [OPTIONS] [FILTER ...]
                    the regex engines beside published ones: times (`--help` lists the options; builds the peers)
  bench grammars [OPTIONS] [FILTER ...]
                    the grammar engines likewise; with `--glrmask`, glrmask too, in a program of its own that takes
                    a quarter of an hour to build
  bench speculation [solver] [frontier] [OPTIONS]
                    the solver of mentored decoding beside the published algorithm, and what its budget buys; with `--embedded`,
                    for the embedded models too, which builds the command line
  bench sets [OPTIONS]
                    structures that hold millions of titles (`--help` lists the options)
  bench device [OPTIONS]
                    a step of a batch where the model runs on wgpu: masks there, uploaded, or logits read back (builds burn's
                    wgpu, 25 CPU-minutes)
  bench regex-memory, bench grammars-memory
                    likewise: memory
  bench maskbench --data DIR [OPTIONS]
                    JSON Schema on MaskBench's files: what passes, and the times (`--help` lists the options; `--peers
                    llguidance,glrmask` builds those named, the latter for half an hour)
  bench suite --data DIR
                    the tests of the official JSON-Schema-Test-Suite: right, refused and wrong by keyword
  bench soak [OPTIONS]
                    threads that serve strangers' constraints for minutes: memory, times, masks that differ (`--help` lists the
                    options)
  bench samplers [cases] [tokens] [research] [--embedded] [--record]
                    samplers side by side: distance from the exact distribution, cost, time for a token, memory; with
                    `--embedded` also on the embedded model
  attack [MINUTES] [--seed N] [--case N] [--program FILE] [--seconds S] [--megabytes MB]
                    hostile inputs against the command line that was built last, each under limits; fails on anything but an
                    answer or an error (default: 2 minutes)
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
        ["test"] => check::test(root),
        ["gpu"] => check::gpu(root),
        ["wgpu"] => check::wgpu(root),
        ["tidy"] => tidy::tidy(root),
        ["package"] => check::package(root),
        ["train", rest @ ..] if rest.len() < 2 => train(root, rest.first().copied()),
        ["bench", rest @ ..] => bench(root, rest),
        ["attack", rest @ ..] => attack::attack(root, rest),
        ["fuzz", rest @ ..] if rest.len() < 3 => fuzz(root, rest),
        _ => {
            eprint!("{USAGE}");
            Err("no such task".into())
        }
    }
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the repository's root").to_owned()
}

#[cfg(feature = "train")]
fn train(root: &Path, steps: Option<&str>) -> Result<()> {
    train::run(root, steps.map(str::parse).transpose()?)
}

/// Without the feature, builds xtask again with it: only this task needs a tensor library.
#[cfg(not(feature = "train"))]
fn train(root: &Path, steps: Option<&str>) -> Result<()> {
    let mut args = vec!["run", "--release", "--package", "xtask", "--features", "train", "--", "train"];
    args.extend(steps);
    cargo(root, &args)
}

/// Without a name, criterion's benchmarks. The engines of other projects take minutes to build, so that they are behind a
/// feature that only the programs which compare engines are built with.
fn bench(root: &Path, filter: &[&str]) -> Result<()> {
    if let ["speculation", options @ ..] = filter {
        return with_program(root, "speculation_suite", options);
    }
    if let ["sets", options @ ..] = filter {
        let package = ["run", "--release", "--package", "unskew-benches", "--bin", "set_suite", "--"];
        return cargo(root, &[&package[..], options].concat());
    }
    if let ["device", options @ ..] = filter {
        let package = ["run", "--release", "--package", "unskew-benches", "--features", "wgpu"];
        return cargo(root, &[&package[..], &["--bin", "device_suite", "--"], options].concat());
    }
    if let ["maskbench", options @ ..] = filter {
        return maskbench(root, options);
    }
    if let [program @ ("suite" | "soak"), options @ ..] = filter {
        let program = if *program == "suite" { "schema_suite" } else { "soak" };
        let package = ["run", "--release", "--package", "unskew-benches", "--bin", program, "--"];
        let options = absolute(options)?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        return cargo(root, &[&package[..], &options].concat());
    }
    let program = match filter.first() {
        Some(&"regex") => Some("regex_suite"),
        Some(&"regex-memory") => Some("regex_memory"),
        Some(&"grammars") => Some("grammar_suite"),
        Some(&"grammars-memory") => Some("grammar_memory"),
        _ => None,
    };
    if let ["samplers", options @ ..] = filter {
        return with_program(root, "sampler_suite", options);
    }
    if let Some(program) = program {
        let package = ["run", "--release", "--package", "unskew-benches", "--features", "peers"];
        let (wanted, options): (Vec<&str>, Vec<&str>) =
            filter[1..].iter().partition(|option| **option == "--glrmask");
        let glrmask = if wanted.is_empty() { Vec::new() } else { glrmask(root)? };
        let glrmask: Vec<&str> = glrmask.iter().map(String::as_str).collect();
        return cargo(root, &[&package[..], &["--bin", program, "--"], &glrmask, &options].concat());
    }
    let mut args = vec!["bench", "--package", "unskew-benches"];
    if !filter.is_empty() {
        args.push("--");
        args.extend(filter);
    }
    cargo(root, &args)
}

/// Builds only the peers that are asked for.
fn maskbench(root: &Path, options: &[&str]) -> Result<()> {
    let named = options.iter().zip(options.iter().skip(1)).find(|(option, _)| **option == "--peers");
    let wants = |peer: &str| named.is_some_and(|(_, names)| names.split(',').any(|name| name == peer));
    let mut args = vec!["run", "--release", "--package", "unskew-benches", "--bin", "maskbench"];
    if named.is_some() {
        // All peers know each other's names; glrmask's program is built besides.
        args.extend(["--features", "peers"]);
    }
    args.push("--");
    let program = if wants("glrmask") { glrmask(root)? } else { Vec::new() };
    let options = absolute(options)?;
    args.extend(program.iter().chain(&options).map(String::as_str));
    cargo(root, &args)
}

/// The options with paths as they are seen from here: the programs run in the repository's root.
fn absolute(options: &[&str]) -> Result<Vec<String>> {
    const PATHS: [&str; 6] = ["--data", "--tokenizer", "--json", "--samples", "--plot", "--remotes"];
    let mut paths = Vec::new();
    let mut is_path = false;
    for option in options {
        if is_path {
            let path = std::path::absolute(option)?;
            paths.push(path.to_str().ok_or("a path that is not UTF-8")?.to_owned());
        } else {
            paths.push((*option).to_owned());
        }
        is_path = PATHS.contains(option);
    }
    Ok(paths)
}

/// Without other projects' engines; and with the command line as a program of its own, so that the suite needs no tensor library.
fn with_program(root: &Path, suite: &str, options: &[&str]) -> Result<()> {
    let (wanted, options): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| **option == "--embedded");
    let mut args = vec!["run", "--release", "--package", "unskew-benches", "--bin", suite, "--"];
    let program = root.join("target/release/unskew");
    if !wanted.is_empty() {
        cargo(root, &["build", "--release", "--package", "unskew", "--target-dir", "target"])?;
        args.extend(["--unskew", program.to_str().ok_or("the path of the repository is not UTF-8")?]);
    }
    args.extend(options);
    cargo(root, &args)
}

/// Builds the program that serves glrmask, which cannot be built together with the other peers, and says where it is.
fn glrmask(root: &Path) -> Result<Vec<String>> {
    let target = root.join("benches/glrmask/target");
    let target = target.to_str().ok_or("the path of the repository is not UTF-8")?;
    let manifest = "benches/glrmask/Cargo.toml";
    cargo(root, &["build", "--release", "--manifest-path", manifest, "--target-dir", target])?;
    Ok(vec!["--program".to_owned(), format!("glrmask={target}/release/unskew-bench-glrmask")])
}

/// Runs libFuzzer without sanitizers, which need a nightly toolchain; the crates have no unsafe code.
fn fuzz(root: &Path, args: &[&str]) -> Result<()> {
    let (targets, seconds) = match args {
        [target, seconds] => (vec![(*target).to_owned()], seconds.parse::<u32>()?),
        [target] => (vec![(*target).to_owned()], 300),
        _ => (fuzz_targets(root)?, 300),
    };
    for target in targets {
        // What was found before, which stays on this machine, and the seeds, which libFuzzer reads and does not change.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(root.join(&corpus))?;
        let limit = format!("-max_total_time={seconds}");
        let mut args = vec!["fuzz", "run", "--sanitizer", "none", target.as_str(), corpus.as_str()];
        if root.join(&seeds).is_dir() {
            args.push(&seeds);
        }
        // Its dependencies take longer to build than those of all others.
        if target == "checkpoint" {
            args.splice(2..2, ["--features", "checkpoint"]);
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
