//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! - Who depends on whom, from `cargo metadata`: the arrows of ARCHITECTURE.md, and which crate alone may name a heavy
//!   library.
//! - Which folder of a crate may name which other one (`rooms`).
//! - Every Rust file begins with a module doc and has at most 600 lines without its tests. Its comments have at most
//!   120 columns; tables and code in them may be wider, and rustfmt sees to the code.
//! - Every feature has a comment: its meaning and its cost.
//! - No crate has more lines of code than its budget (`lines`).
//! - Every published manifest has what a registry shows (`manifests`), and no link in Markdown leads to nothing
//!   (`links`).
//! - Nothing unfinished, nothing switched off, no path of one machine.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{Result, lines, links, manifests, rooms::arrows};

/// The most lines of a file, its tests not counted.
const MAX_LINES: usize = 600;

/// The most columns of a line of a comment.
const MAX_COLUMNS: usize = 120;

/// Which crates of the workspace each may depend on, development dependencies not counted.
const ARROWS: [(&str, &[&str]); 28] = [
    ("unskew-core", &[]),
    ("unskew-files", &[]),
    ("unskew-gguf", &[]),
    ("unskew-vocab", &["unskew-core", "unskew-gguf"]),
    ("unskew-trie", &["unskew-core"]),
    ("unskew-automata", &["unskew-core", "unskew-files", "unskew-trie"]),
    ("unskew-grammar", &["unskew-automata", "unskew-core", "unskew-trie"]),
    ("unskew-notation", &["unskew-automata", "unskew-core", "unskew-grammar", "unskew-trie"]),
    ("unskew-grammars", &["unskew-automata", "unskew-core", "unskew-grammar", "unskew-trie"]),
    ("unskew-schema", &["unskew-automata", "unskew-core", "unskew-grammar"]),
    ("unskew-samplers", &["unskew-core", "unskew-trie"]),
    ("unskew-shaders", &[]),
    ("unskew-sets", &["unskew-core", "unskew-files", "unskew-shaders"]),
    (
        "unskew-engine",
        &[
            "unskew-automata",
            "unskew-core",
            "unskew-grammar",
            "unskew-grammars",
            "unskew-notation",
            "unskew-schema",
            "unskew-sets",
            "unskew-trie",
            "unskew-vocab",
        ],
    ),
    ("unskew-capi", &["unskew-core", "unskew-engine", "unskew-notation", "unskew-vocab"]),
    ("unskew-tiny-model", &[]),
    ("unskew-runner", &["unskew-core", "unskew-gguf", "unskew-sets"]),
    ("unskew-llama-cpp", &["unskew-core", "unskew-vocab"]),
    ("unskew-endpoint", &["unskew-core"]),
    (
        "unskew",
        &[
            "unskew-automata",
            "unskew-core",
            "unskew-endpoint",
            "unskew-engine",
            "unskew-files",
            "unskew-grammar",
            "unskew-grammars",
            "unskew-llama-cpp",
            "unskew-notation",
            "unskew-runner",
            "unskew-samplers",
            "unskew-schema",
            "unskew-sets",
            "unskew-tiny-model",
            "unskew-trie",
            "unskew-vocab",
        ],
    ),
    ("unskew-pages", &["unskew"]),
    ("unskew-python", &["unskew"]),
    ("unskew-wasm", &["unskew"]),
    ("unskew-examples", &["unskew"]),
    ("unskew-testdata", &["unskew-core"]),
    (
        "unskew-benches",
        &[
            "unskew-automata",
            "unskew-core",
            "unskew-engine",
            "unskew-grammar",
            "unskew-grammars",
            "unskew-notation",
            "unskew-runner",
            "unskew-samplers",
            "unskew-schema",
            "unskew-sets",
            "unskew-tiny-model",
            "unskew-trie",
            "unskew-vocab",
        ],
    ),
    ("unskew-tiny-model-train", &["unskew-runner", "unskew-vocab"]),
    ("xtask", &[]),
];

/// Libraries that only these crates may name; tests of others may have them as a judge.
const ALONE: [(&str, &[&str]); 12] = [
    ("burn", &["unskew-runner"]),
    ("burn-core", &["unskew-runner"]),
    ("tokenizers", &["unskew-vocab"]),
    ("clap", &["unskew", "unskew-benches", "unskew-pages"]),
    ("wgpu", &["unskew-sets"]),
    ("naga", &["unskew-shaders"]),
    ("pyo3", &["unskew-python"]),
    ("wasm-bindgen", &["unskew-wasm"]),
    ("cbindgen", &["unskew-capi"]),
    ("llama-cpp-2", &["unskew-llama-cpp"]),
    ("llama-cpp-sys-2", &["unskew-llama-cpp"]),
    ("ureq", &["unskew-endpoint"]),
];

/// Words that must not stand in the sources. Spelled so that this file does not find itself.
const FORBIDDEN: [&str; 5] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
    concat!("#[ign", "ore"),
];

pub(crate) fn tidy(root: &Path) -> Result<()> {
    println!("$ tidy");
    let mut faults = Vec::new();
    let metadata = metadata(root)?;
    dependencies(&metadata, &mut faults)?;
    manifests::check(root, &metadata, &mut faults)?;
    let markdown = sources(root, &mut faults)?;
    links::check(root, &markdown, &manifests::address(root)?, &mut faults);
    lines::check(root, &mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    Err(format!("tidy found {} faults", faults.len()).into())
}

fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn dependencies(metadata: &Value, faults: &mut Vec<String>) -> Result<()> {
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            faults.push(format!(
                "{name}: a new crate; add its arrows to xtask/src/tidy.rs and ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            let development = dependency["kind"] == "dev";
            let ours = ARROWS.iter().any(|(crate_name, _)| *crate_name == other);
            if ours && !development && !allowed.contains(&other) {
                faults.push(format!("{name} must not depend on {other}"));
            }
            if ours && development && other == "unskew-testdata" && dependency["req"] != "*" {
                faults.push(format!("{name}: unskew-testdata is never published; name it without a version"));
            }
            match ALONE.iter().find(|(library, _)| *library == other) {
                Some((_, owners)) if !owners.contains(&name) && !development => {
                    faults.push(format!("{name} must not name {other}: only {} may", owners.join(" and ")));
                }
                _ => {}
            }
        }
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        features(&manifest, faults)?;
    }
    Ok(())
}

/// Every feature but `default` has a comment above it.
fn features(manifest: &Path, faults: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(manifest)?;
    let lines: Vec<&str> = text.lines().collect();
    let Some(begin) = lines.iter().position(|line| *line == "[features]") else { return Ok(()) };
    for (index, line) in
        lines.iter().enumerate().skip(begin + 1).take_while(|(_, line)| !line.starts_with('['))
    {
        // A feature is a key at the start of a line; its list may go on over indented lines.
        let key = line.split('=').next().unwrap_or_default().trim_end();
        let is_key = line.contains('=') && line.starts_with(|first: char| first.is_ascii_alphanumeric());
        if is_key && key != "default" && !lines[index - 1].starts_with('#') {
            faults.push(format!("{}:{}: feature `{key}` has no comment", manifest.display(), index + 1));
        }
    }
    Ok(())
}

/// Looks at each file, and returns those in Markdown by their names.
fn sources(root: &Path, faults: &mut Vec<String>) -> Result<BTreeMap<String, String>> {
    let mut markdown = BTreeMap::new();
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        let path = root.join(name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if name.ends_with(".rs") {
            source(name, &text, faults);
            arrows(name, &text, faults);
        }
        if !name.ends_with(".json") {
            for (number, line) in text.lines().enumerate() {
                if has_machine_path(line) {
                    faults.push(format!("{name}:{}: a path of one machine", number + 1));
                }
            }
        }
        if name.ends_with(".md") {
            markdown.insert(name.to_owned(), text);
        }
    }
    Ok(markdown)
}

fn source(name: &str, text: &str, faults: &mut Vec<String>) {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        faults.push(format!("{name}: begins without a module doc"));
    }
    let is_test = name.starts_with("tests/") || name.contains("/tests/") || name.ends_with("tests.rs");
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
    if !is_test && lines > MAX_LINES {
        faults.push(format!("{name}: {lines} lines without tests; at most {MAX_LINES}"));
    }
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if let Some((_, comment)) = line.trim_start().split_once("//").filter(|(before, _)| before.is_empty())
        {
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            is_code ^= comment.starts_with("```");
            if !is_code && !comment.starts_with('|') && line.chars().count() > MAX_COLUMNS {
                faults.push(format!("{name}:{}: a comment of more than {MAX_COLUMNS} columns", number + 1));
            }
        }
        for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
            faults.push(format!("{name}:{}: `{word}`", number + 1));
        }
    }
}

/// An absolute path into a home or a checkout.
fn has_machine_path(line: &str) -> bool {
    ["work", "root", "home", "Users"].iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            // The end of a longer path or of an address is not the beginning of one.
            !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-}".contains(before))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_source_are_found() {
        let mut faults = Vec::new();
        let unfinished = format!("fn f() {{ {} }}", FORBIDDEN[0]);
        source("a.rs", &format!("//! Doc.\n{unfinished}\n"), &mut faults);
        source("b.rs", "fn f() {}\n", &mut faults);
        source("c.rs", &format!("//! Doc.\n{}", "\n".repeat(MAX_LINES)), &mut faults);
        source(
            "d.rs",
            &format!("#![no_std]\n\n//! Doc.\n#[cfg(test)]\n{}", "\n".repeat(MAX_LINES)),
            &mut faults,
        );
        let long = "a word ".repeat(MAX_COLUMNS / 7);
        let rest = "fn f() {}\n";
        source("e.rs", &format!("//! {long}\n{rest}"), &mut faults);
        source(
            "f.rs",
            &format!("//! Doc.\n//!\n//! | {long} |\n//! ```\n//! {long}\n//! ```\n{rest}"),
            &mut faults,
        );
        assert_eq!(faults.len(), 4, "{faults:?}");
    }

    #[test]
    fn machine_paths_are_absolute() {
        let path = |folder: &str| format!("see /{folder}/x");
        assert!(has_machine_path(&path("work")) && has_machine_path(&path("home")));
        assert!(!has_machine_path("https://example.org/work/x") && !has_machine_path("../work/x"));
    }
}
