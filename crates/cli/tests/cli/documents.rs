//! The examples of `docs/command-line.md`: a shell runs each block, and prints the text block after it.

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

#[test]
#[cfg(unix)]
fn examples_of_the_command_line_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/command-line.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_unskew")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let (mut printed, mut compared) = (String::new(), 0);
    for (language, block) in blocks(&document) {
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
            other => panic!("a block in {other}"),
        }
    }
    assert!(compared > 1);
}
