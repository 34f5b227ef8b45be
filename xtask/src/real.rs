//! `cargo xtask real`: two real models, fetched once into `target/real`, and what is tested on them.
//!
//! `crates/python/real/models.py` fetches and checks them, and makes the folders that transformers and engines load.
//! The tests in Rust need the GGUF file of SmolLM2 alone, so that CI runs them; those in Python need torch, and the
//! notebooks packages of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    process::{cargo, target},
    python::{Profile, environment, interpreter, peer, pytest, run, tools, wheel},
};

/// The models, as `models.py` names them.
const MODELS: [&str; 2] = ["smollm2", "gemma3"];

/// The packages that read the models: transformers asks for the last two to read a GGUF file.
const PACKAGES: &[&str] =
    &["numpy", "pytest", "torch==2.13.0", "transformers==5.24.0", "gguf", "accelerate", "pydantic"];

/// What the notebooks of `docs/notebooks` need beside the wheel, and what runs them.
const NOTEBOOKS: &[&str] = &["pandas", "matplotlib", "pydantic==2.14.4", "nbclient", "ipykernel"];

fn folder(root: &Path) -> PathBuf {
    root.join("target/real")
}

fn models(root: &Path, python: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(root.join("crates/python/real/models.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("TQDM_DISABLE", "1");
    command
}

/// The GGUF file of a model. `tools` has pip.
fn file(root: &Path, tools: &Path, name: &str) -> Result<PathBuf> {
    let folder = folder(root);
    run(models(root, tools).args(["fetch", name]).arg(&folder))?;
    Ok(folder.join(format!("{name}.gguf")))
}

/// The folder of SmolLM2. `tools` has pip, and `python` has torch, transformers, gguf and accelerate.
pub(crate) fn model(root: &Path, tools: &Path, python: &Path) -> Result<PathBuf> {
    checkpoint(root, tools, python, MODELS[0])
}

fn checkpoint(root: &Path, tools: &Path, python: &Path, name: &str) -> Result<PathBuf> {
    let (file, folder) = (file(root, tools, name)?, folder(root).join(name));
    run(models(root, python).arg("folder").arg(file).arg(&folder))?;
    Ok(folder)
}

/// What CI runs: the tests in Rust, on the file of SmolLM2.
pub(crate) fn ci(root: &Path) -> Result<()> {
    let file = file(root, &tools(root)?, MODELS[0])?;
    let mut command = Command::new(env!("CARGO"));
    // Of the whole workspace, so that cargo chooses the features of the tests before, and builds nothing again.
    command.args(["test", "--workspace", "--test", "cli", "real::"]).current_dir(root);
    run(command.env("UNSKEW_REAL_GGUF", file))
}

/// All tests on both models. `args` are for pytest.
pub(crate) fn real(root: &Path, args: &[&str]) -> Result<()> {
    ci(root)?;
    let wheel = wheel(root, Profile::Release)?;
    let tools = interpreter(root, "build");
    let python = environment(root, &tools, "real", &[PACKAGES, NOTEBOOKS].concat(), &wheel)?;
    for name in MODELS {
        checkpoint(root, &tools, &python, name)?;
    }
    let mut command = pytest(root, &python);
    command.args(["-s", "real"]).args(args).env("UNSKEW_REAL", folder(root)).env("HF_HUB_OFFLINE", "1");
    run(command.env("UNSKEW_PROGRAM", program(root)?))
}

/// The command line, as it is published.
fn program(root: &Path) -> Result<PathBuf> {
    cargo(root, &["build", "--profile", "dist", "--package", "unskew"])?;
    Ok(target(root).join("dist").join(format!("unskew{}", std::env::consts::EXE_SUFFIX)))
}

/// `cargo xtask bench real`: what masks do to both models. `args` are for `crates/python/bench/real.py`.
pub(crate) fn bench(root: &Path, args: &[&str]) -> Result<()> {
    let python = peer(root, "real", PACKAGES)?;
    let (program, tools) = (program(root)?, interpreter(root, "build"));
    for name in MODELS {
        let judge = checkpoint(root, &tools, &python, name)?;
        let mut command = Command::new(&python);
        command.arg(root.join("crates/python/bench/real.py")).arg("--unskew").arg(&program);
        command.arg("--model").arg(folder(root).join(format!("{name}.gguf"))).arg("--judge").arg(judge);
        command.arg("--record").arg(root.join(format!("benches/record/real-{name}.md")));
        // Gemma is a base model, and has no chat template.
        command.args((name != MODELS[0]).then_some("--base")).args(args);
        run(command.env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1"))?;
    }
    Ok(())
}
