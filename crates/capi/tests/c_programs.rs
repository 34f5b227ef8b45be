//! Programs in C, compiled against the headers and linked with the library, static and shared.

#![cfg(unix)]

mod common;

use std::{ffi::OsStr, fmt::Write as _, path::Path, process::Command};

use common::{Case, Random, cases, compile, compiler, here, hex, ids, library, mask, succeeds, unescaped};
use unskew_core::TokenId;
use unskew_engine::Spec;

/// Compiles a program of `tests/c`, with the static library or the shared one.
fn program(name: &str, is_shared: bool, folder: &Path) -> std::path::PathBuf {
    let (program, source) = (folder.join(name), here().join("tests/c").join(format!("{name}.c")));
    let include = here().join("include");
    let library = library(if is_shared { "so" } else { "a" });
    let mut search = std::ffi::OsString::from("-Wl,-rpath,");
    search.push(library.parent().unwrap());
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"].map(OsStr::new);
    let files = [include.as_os_str(), OsStr::new("-o"), program.as_os_str(), source.as_os_str()];
    let libraries = [library.as_os_str(), &search].into_iter();
    let system = ["-lpthread", "-ldl", "-lm"].map(OsStr::new);
    let arguments: Vec<&OsStr> = flags.into_iter().chain(files).chain(libraries).chain(system).collect();
    compile("cc", &arguments);
    program
}

/// The script for a program, and the lines that it has to write: masks of both APIs after each token.
fn script(random: &mut Random) -> (String, String) {
    let engine = compiler();
    let (mut script, mut expected) = (String::new(), String::new());
    for Case { spec, llg } in cases() {
        let mut matcher = engine.compile(&Spec::from_json(&spec).unwrap()).unwrap().matcher();
        writeln!(script, "spec {spec}").unwrap();
        if let Some((kind, data)) = &llg {
            writeln!(script, "llg {kind} {data}").unwrap();
            // Both are made of one constraint.
            let _ = unescaped(data);
        }
        for _ in 0..12 {
            let row = mask(&matcher);
            writeln!(script, "masks").unwrap();
            for _ in 0..1 + usize::from(llg.is_some()) {
                writeln!(expected, "{}", hex(&row)).unwrap();
            }
            let allowed = ids(&row);
            let token = allowed[random.below(allowed.len())];
            writeln!(script, "accept {token}").unwrap();
            assert!(matcher.accept(TokenId(token)).unwrap());
            if matcher.is_terminated() {
                break;
            }
        }
    }
    (script, expected)
}

#[test]
fn masks_in_c_are_those_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let engine = compiler();
    let tokens = common::table_file(engine.tokens().vocabulary(), folder.path());
    let json = folder.path().join("tokenizer.json");
    std::fs::write(&json, common::TOKENIZER).unwrap();
    let (script, expected) = script(&mut Random::new(7));
    let script_file = folder.path().join("script.txt");
    std::fs::write(&script_file, script).unwrap();
    for is_shared in [false, true] {
        let program = program("masks", is_shared, folder.path());
        let done = Command::new(program).arg(&json).arg(&tokens).arg(&script_file).output().unwrap();
        let written = succeeds(&done);
        for (line, (written, expected)) in written.lines().zip(expected.lines()).enumerate() {
            assert_eq!(written, expected, "line {line}");
        }
        assert_eq!(written.lines().count(), expected.lines().count());
    }
}

#[test]
fn errors_in_c_have_messages_and_places() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("tokenizer.json");
    std::fs::write(&json, common::TOKENIZER).unwrap();
    let program = program("errors", false, folder.path());
    let done = Command::new(program).arg(&json).output().unwrap();
    assert_eq!(succeeds(&done), "all is as it should be\n");
}
