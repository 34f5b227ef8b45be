//! llama.cpp's own sampler for llguidance, and its own tests of it, compiled and linked with this library.
//!
//! The variable `UNSKEW_LLAMA_CPP` names a folder with the sources of llama.cpp (the source package of
//! llama-cpp-python on PyPI has them in `vendor/llama.cpp`). Without it, the tests are listed as skipped. No part of
//! llama.cpp is here: `tests/c/llama.cpp` has the functions that the sampler needs of the rest of llama.cpp, over a
//! vocabulary in a file, so that nothing of the rest is built.
//!
//! The tests of llama.cpp end at the first text that is not as they say. Here `assert` counts instead, and the
//! differences are compared with a list.

#![allow(clippy::print_stdout, reason = "a test harness reports")]

mod common;

use std::{ffi::OsStr, path::Path, process::Command};

/// The checks of llama.cpp's tests on which this engine says something else, each with its reason, as
/// `tests/c/llama.cpp` prints them.
const DIFFERENCES: [(&str, &str); 1] = [("!matched: -0", "minus zero is an integer, and not below 0")];

const NAME: &str = "llama_cpp_s_tests_of_its_sampler";

fn main() {
    let Some(source) = std::env::var_os("UNSKEW_LLAMA_CPP") else {
        println!("test {NAME} ... skipped: UNSKEW_LLAMA_CPP names no sources of llama.cpp");
        return;
    };
    println!("test {NAME} on {}", source.display());
    run(Path::new(&source));
    println!("test {NAME} ... ok");
}

fn run(source: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let own = common::here().join("tests/c");
    let program = folder.path().join("llama");
    let includes = [
        own.join("shadow"),
        common::here().join("include"),
        source.join("common"),
        source.join("include"),
        source.join("ggml/include"),
    ];
    let sources = [
        source.join("common/llguidance.cpp"),
        source.join("tests/test-grammar-llguidance.cpp"),
        own.join("llama.cpp"),
    ];
    let library = common::library("a");
    let mut arguments: Vec<&OsStr> = ["-std=c++17", "-DLLAMA_USE_LLGUIDANCE", "-w"].map(OsStr::new).into();
    for include in &includes {
        arguments.extend([OsStr::new("-I"), include.as_os_str()]);
    }
    arguments.extend([OsStr::new("-o"), program.as_os_str()]);
    arguments.extend(sources.iter().map(|source| source.as_os_str()));
    arguments.push(library.as_os_str());
    arguments.extend(["-lpthread", "-ldl", "-lm"].map(OsStr::new));
    common::compile("c++", &arguments);

    let engine = common::compiler();
    let tokens = common::table_file(engine.tokens().vocabulary(), folder.path());
    let done = Command::new(program).arg(tokens).output().unwrap();
    let written = common::succeeds(&done);
    let different: Vec<&str> = written.lines().filter_map(|line| line.strip_prefix("different: ")).collect();
    let checks = written.lines().find_map(|line| line.strip_prefix("checks: ")).unwrap();
    println!("{checks} checks, {} differences:", different.len());
    for (check, reason) in DIFFERENCES {
        println!("  {check}: {reason}");
    }
    assert!(checks.parse::<u32>().unwrap() > 100);
    let logged: Vec<&str> = written.lines().filter(|line| line.starts_with("log: ")).collect();
    assert!(logged.is_empty(), "{logged:?}");
    let expected: Vec<&str> = DIFFERENCES.iter().map(|(text, _)| *text).collect();
    assert_eq!(different, expected);
}
