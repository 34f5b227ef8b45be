//! zig as the C compiler and the linker for Linux: of other processors, with an old glibc, and with musl. It comes from
//! PyPI.
//!
//! Cargo, maturin and cargo-c all get it from here, as scripts in `target/zig`. `cargo zigbuild` and `maturin --zig`
//! were tried: each has a path of its own to the same linker, cargo takes another linker for another build, and a
//! release compiled every library twice. The scripts call `cargo-zigbuild zig cc`, which leaves out the arguments that
//! zig does not take.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{
    Result,
    process::target as target_folder,
    python::{self, run},
};

/// The oldest glibc that programs and wheels run with: that of manylinux2014.
const GLIBC: &str = "2.17";

/// Musl's libraries without their own libc, as maturin asks for wheels: so that a program shares them.
const DYNAMIC: &str = "-C target-feature=-crt-static";

/// Variables of cargo.
pub(crate) type Environment = Vec<(String, OsString)>;

pub(crate) fn is_linux(target: &str) -> bool {
    target.contains("-linux-")
}

/// The variables that make zig the compiler of C and the linker for those targets that are Linux.
pub(crate) fn environment(root: &Path, targets: &[String]) -> Result<Environment> {
    let mut environment = Vec::new();
    if !targets.iter().any(|target| is_linux(target)) {
        return Ok(environment);
    }
    let zigbuild = program(root, "cargo-zigbuild")?;
    let python = python::interpreter(root, "build");
    let folder = folder(root)?;
    let archiver =
        script(&folder.join("ar"), &format!("exec '{}' -m ziglang ar \"$@\"\n", python.display()))?;
    for target in targets.iter().filter(|target| is_linux(target)) {
        let compiler = format!(
            "export CARGO_ZIGBUILD_ZIG_COMMAND='{}' CARGO_ZIGBUILD_ZIG_COMMAND_ARGS='-m ziglang'\n\
            exec '{}' zig cc -- -fno-sanitize=all -target {} \"$@\"\n",
            python.display(),
            zigbuild.display(),
            of_zig(target)
        );
        let compiler = script(&folder.join(format!("cc-{target}")), &compiler)?;
        let name = target.replace('-', "_");
        environment.push((format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), compiler.clone().into()));
        environment.push((format!("CC_{name}"), compiler.into()));
        environment.push((format!("AR_{name}"), archiver.clone().into()));
    }
    Ok(environment)
}

/// The variables with which programs for musl are made of the same libraries as wheels, which load a libc: the programs
/// alone have it inside.
pub(crate) fn programs(root: &Path, targets: &[String]) -> Result<Environment> {
    let mut environment = environment(root, targets)?;
    let musl: Vec<&String> = targets.iter().filter(|target| target.ends_with("-musl")).collect();
    if musl.is_empty() {
        return Ok(environment);
    }
    for target in musl {
        let name = target.replace('-', "_").to_uppercase();
        environment.push((format!("CARGO_TARGET_{name}_RUSTFLAGS"), DYNAMIC.into()));
    }
    // The last option of a kind is the one that counts.
    let wrapper = "case \" $* \" in\n\
        *' --crate-name unskew'*' --crate-type bin '*-linux-musl*) exec \"$@\" -C target-feature=+crt-static ;;\n\
        *) exec \"$@\" ;;\n\
        esac\n";
    let wrapper = script(&folder(root)?.join("rustc"), wrapper)?;
    environment.push(("RUSTC_WRAPPER".to_owned(), wrapper.into()));
    Ok(environment)
}

/// `cargo-zigbuild`, for targets that are not Linux.
pub(crate) fn zigbuild(root: &Path) -> Result<Command> {
    let program = program(root, "cargo-zigbuild")?;
    let folder = program.parent().ok_or("a program without a folder")?;
    // It looks for zig there.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new(&program);
    command.env("PATH", std::env::join_paths(path)?);
    Ok(command)
}

/// A program of the environment with the tools, and zig beside it on Linux.
pub(crate) fn program(root: &Path, name: &str) -> Result<PathBuf> {
    // pip takes seconds to see that nothing is to be done.
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    let interpreter = match TOOLS.get() {
        Some(interpreter) => interpreter,
        None => {
            let interpreter = python::tools(root)?;
            if cfg!(target_os = "linux") {
                let mut install = Command::new(&interpreter);
                install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                run(install.args(["ziglang>=0.15", "cargo-zigbuild>=0.22,<0.25"]))?;
            }
            TOOLS.get_or_init(|| interpreter)
        }
    };
    Ok(interpreter.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

/// The name of a target in zig: the triple without the vendor, and the version of glibc.
fn of_zig(target: &str) -> String {
    let name = target.replace("-unknown-", "-");
    if name.ends_with("-gnu") { format!("{name}.{GLIBC}") } else { name }
}

/// Where the scripts are, by a path that is the same from everywhere.
fn folder(root: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(target_folder(root))?.join("zig");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes a program for the shell. One that has this text already keeps its time, which cargo looks at.
fn script(file: &Path, text: &str) -> Result<PathBuf> {
    let text = format!("#!/bin/sh\n{text}");
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(file.to_owned());
    }
    fs::write(file, text)?;
    #[cfg(unix)]
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::of_zig;

    #[test]
    fn glibc_is_old_and_musl_has_no_version() {
        assert_eq!(of_zig("x86_64-unknown-linux-gnu"), "x86_64-linux-gnu.2.17");
        assert_eq!(of_zig("aarch64-unknown-linux-musl"), "aarch64-linux-musl");
    }
}
