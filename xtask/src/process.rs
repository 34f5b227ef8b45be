//! Running cargo, visibly.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::Result;

/// The folder that cargo builds into.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The program `npm`, which is a script on Windows.
pub(crate) fn npm() -> Command {
    Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
}

/// No variables.
const NOTHING: &[(&str, &str)] = &[];

/// Runs `cargo` with `args` in `root` and fails as it fails.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    run(root, args, NOTHING)
}

/// As [`cargo`], in the directory that xtask was called in: paths among `args` are the caller's.
pub(crate) fn cargo_here(args: &[&str]) -> Result<()> {
    run(&std::env::current_dir()?, args, NOTHING)
}

/// As [`cargo`], and returns its output.
pub(crate) fn output(root: &Path, args: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(args).current_dir(root).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`cargo {}` failed ({}): {error}", args.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// As [`cargo`], with environment variables.
pub(crate) fn run(root: &Path, args: &[&str], env: &[(impl AsRef<OsStr>, impl AsRef<OsStr>)]) -> Result<()> {
    let line = format!("cargo {}", args.join(" "));
    println!("$ {line}");
    let begin = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(root)
        .status()?;
    if !status.success() {
        return Err(format!("`{line}` failed ({status})").into());
    }
    println!("  {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// How long one core would have worked for all programs that were run, in seconds, where the system tells: on a machine
/// that others use, the clock says little.
pub(crate) fn worked() -> Option<f64> {
    // The ticks are hundredths of a second on every Linux.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    // The times of programs that have ended, in the user's code and in the system, are the 16th and 17th value; the
    // name is the second.
    let ticks: Vec<u64> =
        after_name.split_whitespace().skip(13).take(2).map_while(|n| n.parse().ok()).collect();
    (ticks.len() == 2).then(|| ticks.iter().sum::<u64>() as f64 / 100.0)
}
