//! Runs the command line as a user does.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A run of the program in a folder of its own.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `unskew` with `args` in `folder`.
pub(crate) fn unskew_in(folder: &std::path::Path, args: &[&str]) -> Run {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_unskew")).args(args).current_dir(folder).output().unwrap();
    Run {
        code: status.code().unwrap(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Runs `unskew` with `args` in `folder`, and this text on its standard input.
pub(crate) fn unskew_reading(folder: &std::path::Path, args: &[&str], input: &str) -> Run {
    use std::io::Write as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_unskew"));
    command
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Run {
        code: status.code().unwrap(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Runs `unskew` with `args`.
pub(crate) fn unskew(args: &[&str]) -> Run {
    unskew_in(&std::env::temp_dir(), args)
}

impl Run {
    /// The lines of a run, as JSON. It must have succeeded, unless they say that a text or a construct is rejected.
    pub(crate) fn json(&self) -> Vec<Value> {
        let lines: Vec<Value> = self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let says = |name: &str, value: Value| lines.iter().any(|line| line[name] == value);
        let code = if says("accepted", false.into()) {
            1
        } else if says("fate", "rejected".into()) {
            2
        } else {
            0
        };
        assert_eq!(self.code, code, "{}", self.stderr);
        lines
    }

    /// The message of a run that must have failed with bad input: exactly one line, and nothing on standard output.
    /// Below it may stand the line of a text that it is about.
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        let (message, excerpt) = self.stderr.split_once('\n').unwrap();
        let is_drawn = |line: &str| line.trim_start().starts_with("-->") || line.contains(" |");
        assert!(
            [0, 4].contains(&excerpt.lines().count()) && excerpt.lines().all(is_drawn),
            "{}",
            self.stderr
        );
        message
    }
}

/// A folder with files, gone when it is dropped.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        unskew_in(self.0.path(), args)
    }

    /// The content of a file that a run has written.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The table of the command line's own documentation.
pub(crate) const TABLE: &[u8] = br#"{"tokens": ["0", "1"], "eos": 2, "default": [0.45, 0.45, 0.10],
 "contexts": {"": [0.5, 0.5, 0.0], "0 0": [0.9, 0.05, 0.05]}}"#;
