//! The examples of `docs/command-line.md` and of its tutorial: a shell runs each block, and prints the text block
//! after it.
//!
//! A block in `sh install` installs something and is not run, and one in `sh real` is for a real model (`real`).

use std::{path::Path, process::Command};

/// The blocks of a document with their languages, in order.
pub(crate) fn blocks(document: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut is_open = false;
    for line in document.lines() {
        match line.strip_prefix("```") {
            Some(language) => {
                is_open = !is_open;
                if is_open {
                    blocks.push((language, String::new()));
                }
            }
            None if is_open => blocks.last_mut().unwrap().1.extend([line, "\n"]),
            None => {}
        }
    }
    blocks
}

/// A document of this repository.
pub(crate) fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs the commands of a document in a folder of their own. How many outputs were compared.
#[cfg(unix)]
fn run(document: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_unskew")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let (mut printed, mut compared) = (String::new(), 0);
    for (language, block) in blocks(document) {
        match language {
            "sh" => {
                let run = Command::new("sh")
                    .args(["-e", "-c", &block])
                    .current_dir(&folder)
                    .env("PATH", &path)
                    .output()
                    .unwrap();
                assert!(run.status.success(), "{block}\n{}", String::from_utf8_lossy(&run.stderr));
                printed = String::from_utf8(run.stdout).unwrap();
            }
            "text" => {
                assert!(printed.contains(&block), "{block}\nis not in\n{printed}");
                compared += 1;
            }
            "sh install" | "sh real" => printed.clear(),
            other => panic!("a block in {other}"),
        }
    }
    compared
}

#[test]
#[cfg(unix)]
fn examples_of_the_command_line_run() {
    assert!(run(&document("docs/command-line.md")) > 1);
}

#[test]
#[cfg(unix)]
fn the_tutorial_of_the_command_line_runs() {
    assert!(run(&document("docs/tutorials/command-line.md")) > 4);
}
