//! What CI runs, in one process, cheapest first.

use std::path::{Path, PathBuf};

use crate::{
    Result,
    process::{cargo, run},
    tidy,
};

/// All features but `unskew-runner/wgpu`, which alone takes longer to build than everything else together.
const FEATURES: &str = "unskew-core/json,unskew-vocab/train,unskew-runner/train,unskew-sets/wgpu,xtask/train";

/// The crates that are published, in order of dependency.
const PUBLISHED: [&str; 10] = [
    "unskew-core",
    "unskew-vocab",
    "unskew-automata",
    "unskew-grammars",
    "unskew-samplers",
    "unskew-shaders",
    "unskew-sets",
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
    gpu(root)?;
    package(root)
}

/// The kernels on every adapter. Where there is none, tests are listed as skipped, or fail if the environment variable
/// `UNSKEW_GPU` is `require`.
pub(crate) fn gpu(root: &Path) -> Result<()> {
    cargo(root, &["test", "--package", "unskew-sets", "--features", "wgpu", "--test", "gpu"])
}

pub(crate) fn test(root: &Path) -> Result<()> {
    cargo(root, &["test", "--workspace"])
}

/// Packages and builds every published crate from its package. A package has no workspace around it, and so none of its
/// profiles: with them given again, the dependencies that the tests have built serve here too.
pub(crate) fn package(root: &Path) -> Result<()> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let profile = dev_profile(&manifest).ok_or("Cargo.toml has no [profile.dev] before [profile.release]")?;
    std::fs::create_dir_all(root.join("target"))?;
    let config = root.join("target/dev-profile.toml");
    std::fs::write(&config, profile)?;

    forget_packages()?;
    let config = config.to_str().ok_or("the path of the repository is not UTF-8")?;
    let mut args = vec!["package", "--allow-dirty", "--config", config];
    for package in PUBLISHED {
        args.extend(["--package", package]);
    }
    cargo(root, &args)
}

/// Removes what cargo keeps of earlier packages. It takes a published version to be immutable, so it would build a crate
/// against the others as they were when a repository at this path was last packaged under the same version.
fn forget_packages() -> Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).ok_or("there is no home directory")?;
    let Ok(registries) = std::fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries {
        let registry = registry?;
        // Cargo names the sources of a registry after its host, and those of a folder have none.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in PUBLISHED {
            let sources = registry.path().join(format!("{package}-{}", env!("CARGO_PKG_VERSION")));
            if sources.is_dir() {
                std::fs::remove_dir_all(sources)?;
            }
        }
    }
    Ok(())
}

/// The part of a manifest that says how debug builds are made.
fn dev_profile(manifest: &str) -> Option<&str> {
    let (_, from_dev) = manifest.split_at_checked(manifest.find("[profile.dev]")?)?;
    from_dev.get(..from_dev.find("[profile.release]")?)
}
