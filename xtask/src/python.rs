//! `cargo xtask wheel` and `cargo xtask python`: the Python package, built and tested.
//!
//! Neither is a part of `check`, so that it needs no Python; `cargo xtask ci` has both. Tools go into virtual
//! environments under `target/python`: one for building, one with nothing but the wheel and numpy, one with pydantic
//! and mypy, and one with transformers, as users' would be.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    process::{cargo, target},
};

/// The environments of tests: the packages beside the wheel, and the tests that need them.
const TESTS: [(&str, &[&str], &[&str]); 3] = [
    ("numpy", &["numpy", "pytest"], &["tests", "--ignore=tests/test_transformers.py"]),
    // Types are read by pydantic where it is, and without it by a reader of the package's own. mypy reads the package
    // here; it reports more with every version.
    (
        "pydantic",
        &["numpy", "pytest", "pydantic==2.14.4", "mypy==2.4.1"],
        &["tests/test_types.py", "tests/test_tools.py", "tests/test_typing.py", "tests/test_docs.py"],
    ),
    // The versions that the tests were written for: `generate` changes with every minor version.
    (
        "transformers",
        &["numpy", "pytest", "torch==2.13.0", "transformers==5.24.0"],
        &["tests/test_transformers.py"],
    ),
];

/// The limit for a wheel, in bytes.
const MAX_WHEEL: u64 = 12 << 20;

/// How a wheel is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As it is published.
    Release,
    /// As tests are: with the assertions of debug builds, and in 0.6 of the time (400 seconds of one core, not 680).
    Dev,
}

impl Profile {
    /// The folder of cargo's builds.
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "dist",
            Self::Dev => "debug",
        }
    }

    /// As cargo and maturin call it.
    fn option(self) -> [&'static str; 2] {
        match self {
            Self::Release => ["--profile", "dist"],
            Self::Dev => ["--profile", "dev"],
        }
    }
}

/// Builds the wheel into `target/wheels`, or `target/wheels-dev`.
pub(crate) fn wheel(root: &Path, profile: Profile) -> Result<PathBuf> {
    let python = tools(root)?;
    let out = root.join(if profile == Profile::Dev { "target/wheels-dev" } else { "target/wheels" });
    if out.is_dir() {
        std::fs::remove_dir_all(&out)?;
    }
    if profile == Profile::Release {
        notices(root)?;
    }
    let manifest = root.join("crates/python/Cargo.toml");
    let mut command = Command::new(&python);
    command.args(["-m", "maturin", "build"]).args(profile.option()).args(["--locked", "--interpreter"]);
    command.arg(&python).arg("--manifest-path").arg(manifest).arg("--out").arg(&out);
    if is_free_threaded(&python)? {
        // It has no stable ABI: the wheel is for this version.
        command.arg("--no-default-features");
    }
    run(command)?;
    let wheels = std::fs::read_dir(&out)?.map(|entry| Ok(entry?.path()));
    let wheels = wheels.collect::<Result<Vec<_>>>()?;
    let [wheel] = &wheels[..] else { return Err(format!("maturin made {} wheels", wheels.len()).into()) };
    if profile == Profile::Release {
        is_small(wheel)?;
    }
    Ok(wheel.clone())
}

/// Writes what the wheel owes to others where its metadata looks for it.
pub(crate) fn notices(root: &Path) -> Result<()> {
    crate::notices::write(root, "unskew-python", &root.join("crates/python/THIRD-PARTY.txt"))
}

/// Tells the size of a wheel, and fails if it is beyond the limit.
pub(crate) fn is_small(wheel: &Path) -> Result<()> {
    let bytes = std::fs::metadata(wheel)?.len();
    println!("{}: {:.1} MiB", wheel.display(), bytes as f64 / f64::from(1 << 20));
    if bytes > MAX_WHEEL {
        return Err(format!("the wheel is larger than {MAX_WHEEL} bytes").into());
    }
    Ok(())
}

/// Whether an interpreter has no interpreter lock.
pub(crate) fn is_free_threaded(python: &Path) -> Result<bool> {
    let code = "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)";
    let answer = Command::new(python).args(["-c", code]).output()?;
    Ok(answer.stdout.trim_ascii() == b"1")
}

/// Whether tests have an environment of this name.
pub(crate) fn is_environment(name: &str) -> bool {
    TESTS.iter().any(|(one, ..)| *one == name)
}

/// What CI runs beside `check`: the tests that need numpy alone, those of the plug-ins of servers with fakes of the
/// servers among them, and those of types with pydantic and mypy. torch for the others is 5 GB.
pub(crate) fn ci(root: &Path) -> Result<()> {
    python(root, Profile::Dev, &["numpy"])?;
    python(root, Profile::Dev, &["pydantic"])
}

/// Builds the wheel, and runs its tests in each environment. With the name of an environment in front, `args` are for
/// pytest.
pub(crate) fn python(root: &Path, profile: Profile, args: &[&str]) -> Result<()> {
    let wheel = wheel(root, profile)?;
    // The masks of the package are compared with those of the engine. With the wheel's crate beside it, cargo chooses
    // the features of the wheel for libraries, and does not build them again.
    let packages = ["--package", "unskew-python", "--package", "unskew-engine"];
    cargo(root, &[&["build", "--example", "rows"][..], &profile.option(), &packages].concat())?;
    let rows = target(root).join(profile.folder()).join("examples");
    let rows = rows.join(format!("rows{}", std::env::consts::EXE_SUFFIX));
    let one = args.first().copied();
    for (name, packages, tests) in TESTS {
        if one.is_some_and(|one| one != name) {
            continue;
        }
        let python = environment(root, &interpreter(root, "build"), name, packages, &wheel)?;
        let mut command = pytest(root, &python);
        command.args(tests).args(args.iter().skip(1)).env("UNSKEW_ROWS", &rows);
        run(command)?;
    }
    Ok(())
}

/// The packages of `parity`, pinned: the test data were made with them.
const PARITY: &[&str] = &["numpy", "torch==2.13.0", "transformers==5.24.0"];

/// Makes random checkpoints of every family with transformers, and runs the decoder beside its logits.
pub(crate) fn parity(root: &Path, seed: &str) -> Result<()> {
    let seed: u32 = seed.parse().map_err(|_| format!("the seed is a number, not `{seed}`"))?;
    let python = peer(root, "parity", PARITY)?;
    let out = root.join("target/parity");
    if out.is_dir() {
        std::fs::remove_dir_all(&out)?;
    }
    let mut command = Command::new(python);
    command.arg(root.join("crates/runner/parity/make.py")).arg(&out).arg(seed.to_string());
    run(command.env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1"))?;
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "test",
        "--package",
        "unskew-runner",
        "--test",
        "integration",
        "parity",
        "--",
        "--nocapture",
    ]);
    command.current_dir(root).env("UNSKEW_PARITY", &out);
    run(&mut command)
}

/// The tests of the package, in an environment. They leave no files behind.
pub(crate) fn pytest(root: &Path, python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    command.current_dir(root.join("crates/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// The environment with the tools: maturin builds wheels, and uv installs packages, in seconds where pip takes
/// minutes for torch.
pub(crate) fn tools(root: &Path) -> Result<PathBuf> {
    let python = interpreter(root, "build");
    if !python.is_file() {
        // `PYTHON` names another interpreter.
        let base = std::env::var_os("PYTHON")
            .unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into());
        let mut command = Command::new(base);
        command.args(["-m", "venv"]).arg(folder(root, "build"));
        run(command)?;
    }
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "maturin>=1.9,<2", "uv"]);
    run(command)?;
    Ok(python)
}

/// The interpreter of an environment with these packages and nothing else.
pub(crate) fn environment(
    root: &Path,
    tools: &Path,
    name: &str,
    packages: &[&str],
    wheel: &Path,
) -> Result<PathBuf> {
    let python = installed(root, tools, name, packages)?;
    let mut command = uv(tools);
    command
        .args(["pip", "install", "--quiet", "--reinstall", "--no-deps", "--python"])
        .arg(&python)
        .arg(wheel);
    run(command)?;
    Ok(python)
}

/// The interpreter of an environment with the packages of another project.
pub(crate) fn peer(root: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    installed(root, &tools(root)?, name, packages)
}

fn installed(root: &Path, tools: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let python = interpreter(root, name);
    if !python.is_file() {
        let mut command = uv(tools);
        command.args(["venv", "--quiet", "--python"]).arg(tools).arg(folder(root, name));
        run(command)?;
    }
    let mut command = uv(tools);
    command.args(["pip", "install", "--quiet", "--python"]).arg(&python).args(packages).current_dir(root);
    run(command)?;
    Ok(python)
}

fn uv(tools: &Path) -> Command {
    let mut command = Command::new(tools);
    command.args(["-m", "uv"]);
    command
}

fn folder(root: &Path, name: &str) -> PathBuf {
    root.join("target/python").join(name)
}

pub(crate) fn interpreter(root: &Path, name: &str) -> PathBuf {
    folder(root, name).join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

pub(crate) fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Result<()> {
    let command = command.borrow_mut();
    let line = format!("{command:?}").replace('"', "");
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("`{line}` cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})").into()) }
}
