//! The tokenizers of well-known models, if their files are present.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::path::PathBuf;

/// The names and files under `$UNSKEW_DATA/tokenizers`, sorted by name. If there are none, the reason is printed.
pub(crate) fn tokenizer_files() -> Vec<(String, PathBuf)> {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        println!("skipped: set UNSKEW_DATA to a folder with tokenizers/*/tokenizer.json");
        return Vec::new();
    };
    let folder = PathBuf::from(data).join("tokenizers");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} cannot be read", folder.display());
        return Vec::new();
    };
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let file = entry.path().join("tokenizer.json");
        file.is_file().then(|| (entry.file_name().to_string_lossy().into_owned(), file))
    };
    let mut files: Vec<_> = entries.filter_map(file).collect();
    files.sort();
    files
}
