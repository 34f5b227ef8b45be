//! `cargo xtask bench`: builds the program of the benchmarks and runs it in the caller's directory.
//!
//! The program reads its arguments itself. They are looked at here only for the parts that it is built with: engines
//! of other projects, a counting allocator, burn and its wgpu, and other programs that it starts.

use std::path::Path;

use crate::{
    Result, conformance,
    process::{cargo, cargo_here},
    real,
};

pub(crate) fn bench(root: &Path, args: &[&str]) -> Result<()> {
    let (suite, options) = match args {
        [] => ("help", Vec::new()),
        ["real", options @ ..] => return real::bench(root, options),
        // Names that older records show.
        ["suite", options @ ..] => return conformance::conformance(root, options),
        ["regex-memory", options @ ..] => ("regex", [&["--memory"], options].concat()),
        ["grammars-memory", options @ ..] => ("grammars", [&["--memory"], options].concat()),
        [suite, options @ ..] => (*suite, options.to_vec()),
    };
    let asks_for_help = options.iter().any(|option| ["--help", "-h"].contains(option));
    let peers = value(&options, "--peers");
    let mut features = Vec::new();
    if asks_for_help {
        // As it is built fastest.
    } else if ["regex", "grammars", "published"].contains(&suite) || (suite == "maskbench" && peers.is_some())
    {
        features.push("peers");
    }
    if options.contains(&"--memory") {
        features.push("memory");
    }
    match suite {
        "checkpoints" => features.push("runner"),
        "runner" => features.push("burn"),
        "device" => features.push("wgpu"),
        _ => {}
    }
    if options.contains(&"--glrmask")
        || peers.is_some_and(|peers| peers.split(',').any(|peer| peer == "glrmask"))
    {
        glrmask(root)?;
    }
    if options.contains(&"--llama-cpp") {
        let example = ["--features", "llama-cpp", "--example", "speed", "--target-dir", "target"];
        cargo(root, &[&["build", "--release", "--package", "unskew-llama-cpp"], &example[..]].concat())?;
    }
    if options.contains(&"--embedded") || (suite == "checkpoints" && !asks_for_help) {
        cargo(root, &["build", "--release", "--package", "unskew", "--target-dir", "target"])?;
    }
    let features = features.join(",");
    let manifest = root.join("Cargo.toml");
    let manifest = manifest.to_str().ok_or("the path of the repository is not UTF-8")?;
    let program = ["run", "--release", "--manifest-path", manifest, "--package", "unskew-benches"];
    cargo_here(&[&program[..], &["--features", &features, "--", suite], &options].concat())
}

/// The value of an option that is written `OPTION VALUE` or `OPTION=VALUE`.
fn value<'a>(options: &[&'a str], option: &str) -> Option<&'a str> {
    let after = |(at, text): (usize, &&'a str)| match text.strip_prefix(option)? {
        "" => options.get(at + 1).copied(),
        rest => rest.strip_prefix('='),
    };
    options.iter().enumerate().find_map(after)
}

/// Builds the program that serves glrmask, which cannot be built together with the other peers.
fn glrmask(root: &Path) -> Result<()> {
    let folder = root.join("benches/glrmask");
    let (manifest, target) = (folder.join("Cargo.toml"), folder.join("target"));
    let [Some(manifest), Some(target)] = [manifest.to_str(), target.to_str()] else {
        return Err("the path of the repository is not UTF-8".into());
    };
    cargo(root, &["build", "--release", "--manifest-path", manifest, "--target-dir", target])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_are_found() {
        assert_eq!(value(&["--data", "d", "--peers", "a,b"], "--peers"), Some("a,b"));
        assert_eq!(value(&["--peers=a"], "--peers"), Some("a"));
        assert_eq!((value(&["--peers"], "--peers"), value(&["--peersonal"], "--peers")), (None, None));
    }
}
