//! `cargo xtask attack door`: hostile requests against the plug-ins of vLLM and SGLang.
//!
//! First the classes of both in a process of their own, with fakes around them, then a live vLLM server over HTTP. The
//! requests and the judge are Python (`crates/python/engines/attack`), in the environments of the engines.

use std::{path::Path, process::Command};

use crate::{
    Result,
    engines::engine,
    python::{Profile, run, wheel},
};

/// `args`: `--seed` is for all parts, `--only PART` for one of `vllm`, `sglang` (the classes) and `server`, and the
/// rest for the live part, `--minutes` among them.
pub(crate) fn door(root: &Path, args: &[&str]) -> Result<()> {
    let (mut seed, mut only, mut rest) = ("0", None, Vec::new());
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: a value is missing"))?;
        match *option {
            "--seed" => seed = value,
            "--only" => only = Some(*value),
            _ => rest.extend([*option, value]),
        }
    }
    let parts = ["vllm", "sglang", "server"];
    if let Some(unknown) = only.filter(|only| !parts.contains(only)) {
        return Err(format!("there is no part `{unknown}`: {}", parts.join(", ")).into());
    }
    let wheel = wheel(root, Profile::Release)?;
    let folder = root.join("crates/python/engines/attack");
    let mut failed = Vec::new();
    for part in parts.into_iter().filter(|part| only.is_none_or(|only| only == *part)) {
        let python = engine(root, if part == "sglang" { "sglang" } else { "vllm" }, &wheel)?;
        let mut command = Command::new(python);
        if part == "server" {
            command
                .arg(folder.join("door.py"))
                .args(["--folder"])
                .arg(root.join("target/attack/door"))
                .args(&rest);
        } else {
            command.arg(folder.join("classes.py")).arg(part);
        }
        command.args(["--seed", seed]).env("PYTHONDONTWRITEBYTECODE", "1");
        if let Err(error) = run(command) {
            println!("{part}: {error}");
            failed.push(part);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("the attack on {} found faults", failed.join(" and ")).into())
    }
}
