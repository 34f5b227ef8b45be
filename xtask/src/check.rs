//! What CI runs, in one process, cheapest first.

use std::path::Path;

use crate::{
    Result,
    process::{cargo, run},
    tidy,
};

/// All features that build without a GPU: `unskew-runner/wgpu` alone takes longer than everything else together.
const FEATURES: &str = "unskew-core/json,unskew-vocab/train,unskew-runner/train,xtask/train";

/// The crates that are published, in order of dependency.
const PUBLISHED: [&str; 7] = [
    "unskew-core",
    "unskew-vocab",
    "unskew-automata",
    "unskew-samplers",
    "unskew-tiny-model",
    "unskew-runner",
    "unskew",
];

pub(crate) fn check(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"])?;
    tidy::tidy(root)?;
    let warnings = ["--", "--deny", "warnings"];
    cargo(
        root,
        &[&["clippy", "--workspace", "--all-targets", "--features", FEATURES][..], &warnings].concat(),
    )?;
    run(
        root,
        &["doc", "--workspace", "--no-deps", "--document-private-items", "--features", FEATURES],
        &[("RUSTDOCFLAGS", "--deny warnings")],
    )?;
    test(root)?;
    package(root)
}

pub(crate) fn test(root: &Path) -> Result<()> {
    cargo(root, &["test", "--workspace"])
}

/// Packages and builds every published crate. A package has no workspace around it, and so none of its profiles: they
/// are given again, so that the dependencies that the tests have built are used.
pub(crate) fn package(root: &Path) -> Result<()> {
    let profile = "profile.dev";
    let config = [
        format!("{profile}.opt-level=1"),
        format!("{profile}.debug=\"line-tables-only\""),
        format!("{profile}.package.\"*\".debug=false"),
    ];
    let mut args = vec!["package", "--allow-dirty"];
    for setting in &config {
        args.extend(["--config", setting]);
    }
    for package in PUBLISHED {
        args.extend(["--package", package]);
    }
    cargo(root, &args)
}
