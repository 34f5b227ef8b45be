//! The checks of CI, in one process, cheapest first.

use std::path::Path;

use crate::{
    Result,
    process::{cargo, output, run, target},
    tidy,
};

/// The features that [`check`] has: all but those with burn or wgpu, which take longer to build than everything else
/// together, see [`features`] and [`wgpu`].
const FEATURES: &str = "unskew-benches/published,unskew-core/json,unskew-vocab/train,unskew/stream";

/// The features of [`features`].
const HEAVY: &str = "unskew/gpu,unskew/schemars,unskew-benches/burn,unskew-core/json,unskew-vocab/train,unskew-runner/train,unskew-sets/wgpu,unskew-tiny-model-train/train";

/// The crates that are published, in order of dependency.
pub(crate) const PUBLISHED: [&str; 20] = [
    "unskew-core",
    "unskew-files",
    "unskew-gguf",
    "unskew-tiny-model",
    "unskew-vocab",
    "unskew-trie",
    "unskew-automata",
    "unskew-grammar",
    "unskew-notation",
    "unskew-grammars",
    "unskew-schema",
    "unskew-samplers",
    "unskew-shaders",
    "unskew-sets",
    "unskew-engine",
    "unskew-capi",
    "unskew-runner",
    "unskew-llama-cpp",
    "unskew-endpoint",
    "unskew",
];

pub(crate) fn check(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"])?;
    tidy::tidy(root)?;
    without_features(root)?;
    lints(root, &["--workspace", "--features", FEATURES])?;
    test(root)
}

/// Clippy and docs of these packages and features.
fn lints(root: &Path, of: &[&str]) -> Result<()> {
    cargo(root, &[&["clippy"][..], of, &["--all-targets", "--", "--deny", "warnings"]].concat())?;
    let doc = [&["doc", "--no-deps", "--document-private-items"][..], of].concat();
    run(root, &doc, &[("RUSTDOCFLAGS", "--deny warnings")])
}

/// The features that [`check`] leaves out: the decoder beside burn's, training, and the kernels on every adapter.
/// Where there is no adapter, tests are listed as skipped, or fail if the environment variable `UNSKEW_GPU` is
/// `require`.
pub(crate) fn features(root: &Path) -> Result<()> {
    lints(root, &["--workspace", "--features", HEAVY])?;
    // Of the whole workspace: with one package alone, cargo chooses other features for libraries, and builds them
    // again.
    let test = ["test", "--workspace", "--features", "unskew-runner/train,unskew-sets/wgpu,unskew/schemars"];
    let tests = ["--test", "burn", "--test", "training", "--test", "gpu", "--test", "typed"];
    cargo(root, &[&test[..], &tests].concat())
}

/// The build that no other task has: models on a GPU, and sets beside them. As with [`features`], tests without an
/// adapter are listed as skipped. Always the same packages: with others cargo may choose other features of burn's
/// parts, and build them again.
pub(crate) fn wgpu(root: &Path) -> Result<()> {
    let features = "unskew/wgpu,unskew-benches/wgpu,unskew-runner/wgpu";
    let mut of = vec!["--features", features];
    for package in ["unskew-runner", "unskew-benches", "unskew"] {
        of.extend(["--package", package]);
    }
    lints(root, &of)?;
    cargo(root, &[&["test"][..], &of, &["--test", "device", "--test", "cli"]].concat())
}

/// The build with llama.cpp, which no other task has: it is C++, and needs cmake and libclang.
pub(crate) fn llama_cpp(root: &Path) -> Result<()> {
    let features = "unskew-llama-cpp/llama-cpp,unskew/llama-cpp";
    let of = ["--features", features, "--package", "unskew-llama-cpp", "--package", "unskew"];
    cargo(root, &["fmt", "--all", "--check"])?;
    lints(root, &of)?;
    cargo(root, &["test", "--package", "unskew-llama-cpp", "--features", "llama-cpp"])?;
    cargo(root, &["test", "--package", "unskew", "--features", "llama-cpp", "--test", "cli", "gguf"])
}

/// Clippy for platforms that this machine is not: whether they have what the code asks of them, and what is left over
/// there. No test runs, and C is only compiled: `ring` by zig, which is the C compiler of cargo-zigbuild.
pub(crate) fn cross(root: &Path) -> Result<()> {
    const WINDOWS: &str = "x86_64-pc-windows-gnu";
    let mut command = crate::zig::zigbuild(root)?;
    command.args([
        "clippy",
        "--locked",
        "--target",
        WINDOWS,
        "--package",
        "unskew",
        "--package",
        "unskew-capi",
    ]);
    crate::python::run(command.args(["--", "--deny", "warnings"]).current_dir(root))
        .map_err(|error| format!("{error}; `rustup target add {WINDOWS}` provides the target"))?;
    crate::run(root, &["wasm", "libraries"])
}

/// Masks of regexes alone: `unskew-automata` without its features has none of the crates that they bring. And its build
/// without the methods of papers, which the tests of the workspace bring: with them, nothing is dead code.
fn without_features(root: &Path) -> Result<()> {
    const BROUGHT: [&str; 3] = ["petgraph", "unicode-normalization-alignments", "unskew-files"];
    let of = ["--package", "unskew-automata", "--no-default-features"];
    for of in [&of[..], &of[..2]] {
        cargo(root, &[&["clippy"][..], of, &["--", "--deny", "warnings"]].concat())?;
    }
    let tree = [&["tree"][..], &of, &["--edges", "normal", "--prefix", "none", "--format", "{p}"]].concat();
    let tree = output(root, &tree)?;
    match tree.lines().find(|line| BROUGHT.iter().any(|brought| line.split(' ').next() == Some(brought))) {
        Some(line) => Err(format!("unskew-automata without features depends on {line}").into()),
        None => Ok(()),
    }
}

pub(crate) fn test(root: &Path) -> Result<()> {
    cargo(root, &["test", "--workspace", "--features", "unskew/stream"])
}

/// Packages every published crate and checks each by itself, out of the packages alone: with its own features and no
/// file that is not in them. Cargo's own verification would build every crate anew, with other features than the
/// tests.
pub(crate) fn package(root: &Path) -> Result<()> {
    let mut args = vec!["package", "--allow-dirty", "--no-verify"];
    for package in PUBLISHED {
        args.extend(["--package", package]);
    }
    cargo(root, &args)?;

    let target = target(root);
    let (packages, unpacked) = (target.join("package"), target.join("unpacked"));
    if unpacked.is_dir() {
        std::fs::remove_dir_all(&unpacked)?;
    }
    std::fs::create_dir_all(&unpacked)?;
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let profile = dev_profile(&manifest).ok_or("Cargo.toml has no [profile.dev] before [profile.release]")?;
    let mut workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n".to_owned();
    for package in PUBLISHED {
        let folder = format!("{package}-{}", env!("CARGO_PKG_VERSION"));
        let archive = packages.join(format!("{folder}.crate"));
        let mut tar = std::process::Command::new("tar");
        // With the time of now: packages have one time for all, and an older build would seem to be of these files.
        if !tar.arg("-xmzf").arg(&archive).arg("-C").arg(&unpacked).status()?.success() {
            return Err(format!("tar cannot unpack {}", archive.display()).into());
        }
        workspace += &format!("{package} = {{ path = \"{folder}\" }}\n");
    }
    workspace += "\n";
    workspace += profile;
    std::fs::write(unpacked.join("Cargo.toml"), workspace)?;
    std::fs::copy(root.join("Cargo.lock"), unpacked.join("Cargo.lock"))?;
    let manifest = unpacked.join("Cargo.toml");
    let manifest = manifest.to_str().ok_or("the path of the repository is not UTF-8")?;
    let target = target.to_str().ok_or("the path of the repository is not UTF-8")?;
    for package in PUBLISHED {
        cargo(root, &["check", "--manifest-path", manifest, "--target-dir", target, "--package", package])?;
    }
    Ok(())
}

/// The part of a manifest that says how debug builds are made.
fn dev_profile(manifest: &str) -> Option<&str> {
    let (_, from_dev) = manifest.split_at_checked(manifest.find("[profile.dev]")?)?;
    from_dev.get(..from_dev.find("[profile.release]")?)
}
