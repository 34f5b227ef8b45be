//! `cargo xtask wheel` and `cargo xtask python`: the Python package, built and tested.
//!
//! Neither is a part of `check`, so that it needs no Python. Tools go into virtual environments under `target/python`, one for building and
//! one with nothing but the wheel and the packages of its tests, as a user's would be.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, process::cargo};

/// The packages that the tests need beside the wheel.
const TEST_PACKAGES: [&str; 2] = ["numpy", "pytest"];

/// The limit for a wheel, in bytes.
const MAX_WHEEL: u64 = 12 << 20;

/// Builds the wheel into `target/wheels`.
pub(crate) fn wheel(root: &Path) -> Result<PathBuf> {
    let python = environment(root, "build", &["maturin>=1.9,<2"])?;
    let out = root.join("target/wheels");
    if out.is_dir() {
        std::fs::remove_dir_all(&out)?;
    }
    let manifest = root.join("crates/python/Cargo.toml");
    let mut command = Command::new(&python);
    command.args(["-m", "maturin", "build", "--release", "--locked", "--interpreter"]);
    command.arg(&python).arg("--manifest-path").arg(manifest).arg("--out").arg(&out);
    run(command)?;
    let wheels = std::fs::read_dir(&out)?.map(|entry| Ok(entry?.path()));
    let wheels = wheels.collect::<Result<Vec<_>>>()?;
    let [wheel] = &wheels[..] else { return Err(format!("maturin made {} wheels", wheels.len()).into()) };
    let bytes = std::fs::metadata(wheel)?.len();
    println!("{}: {:.1} MiB", wheel.display(), bytes as f64 / f64::from(1 << 20));
    if bytes > MAX_WHEEL {
        return Err(format!("the wheel is larger than {MAX_WHEEL} bytes").into());
    }
    Ok(wheel.clone())
}

/// Builds the wheel and the command line, installs the wheel, and runs its tests with `args` for pytest.
pub(crate) fn python(root: &Path, args: &[&str]) -> Result<()> {
    let wheel = wheel(root)?;
    // The masks of the package are compared with those of the command line.
    cargo(root, &["build", "--package", "unskew"])?;
    let python = environment(root, "test", &TEST_PACKAGES)?;
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]).arg(wheel);
    run(command)?;
    let mut command = Command::new(&python);
    let name = format!("unskew{}", std::env::consts::EXE_SUFFIX);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).args(args);
    command.current_dir(root.join("crates/python"));
    command.env("UNSKEW_BIN", root.join("target/debug").join(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    run(command)
}

/// The interpreter of a virtual environment under `target/python` with these packages.
fn environment(root: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = root.join("target/python").join(name);
    let python = match cfg!(windows) {
        true => folder.join("Scripts/python.exe"),
        false => folder.join("bin/python"),
    };
    if !python.is_file() {
        // `PYTHON` names another interpreter.
        let base = std::env::var_os("PYTHON")
            .unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into());
        let mut command = Command::new(base);
        command.args(["-m", "venv"]).arg(&folder);
        run(command)?;
    }
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(command)?;
    Ok(python)
}

fn run(mut command: Command) -> Result<()> {
    let line = format!("{command:?}").replace('"', "");
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("`{line}` cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})").into()) }
}
