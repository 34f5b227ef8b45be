//! The budget of lines of code, crate by crate: `xtask/lines.txt` has the most that each may have.
//!
//! Code grows with each construct that is written beside an older one, and no single commit shows it. A commit that
//! needs more raises the number of its crate, and says what for. One that takes code away lowers it.
//!
//! Comments, blank lines and tests are not counted: files `tests.rs` and `testing.rs`, and modules under `cfg(test)`.

use std::{collections::BTreeMap, fs, path::Path};

use crate::Result;

/// The file of the budget.
const FILE: &str = "xtask/lines.txt";

/// A crate below its budget by more than this has a number that nobody has lowered.
const SLACK: usize = 250;

/// Adds a fault for each crate that has more lines than its budget, or far fewer.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    let budget = budget(&fs::read_to_string(root.join(FILE))?)?;
    for entry in fs::read_dir(root.join("crates"))? {
        let (path, name) =
            (entry?.path(), |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
        let (Some(name), true) = (name(&path), path.join("src").is_dir()) else { continue };
        let lines = folder(&path.join("src"))?;
        match budget.get(&name) {
            None => faults.push(format!("{FILE}: crates/{name} is not in it; add `{name} {lines}`")),
            Some(most) if lines > *most => faults.push(format!(
                "crates/{name} has {lines} lines of code, and {FILE} allows {most}: take code out, or raise it in a commit that says what for"
            )),
            Some(most) if lines + SLACK < *most => {
                faults.push(format!("crates/{name} has {lines} lines of code: lower its {most} in {FILE}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Lines of a name and a number; `#` begins a comment.
fn budget(text: &str) -> Result<BTreeMap<String, usize>> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, number) =
                line.split_once(' ').ok_or_else(|| format!("{FILE}: {line:?} is no name and number"))?;
            Ok((name.to_owned(), number.trim().parse()?))
        })
        .collect()
}

/// The lines of code of the Rust files in a folder.
fn folder(folder: &Path) -> Result<usize> {
    let mut lines = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            lines += if name == "tests" { 0 } else { self::folder(&path)? };
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
            lines += code(&fs::read_to_string(&path)?);
        }
    }
    Ok(lines)
}

/// The lines of code of a file. rustfmt writes the brackets of an item in the column in which it begins.
fn code(text: &str) -> usize {
    let mut lines = text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let bare = line.trim();
        if bare.starts_with("#[cfg(test)]") || bare.starts_with("#[cfg(all(test") {
            let indent = &line[..line.len() - line.trim_start().len()];
            let is_end = |line: &str| {
                line.strip_prefix(indent).is_some_and(|rest| {
                    rest.starts_with('}') || (!rest.starts_with(' ') && rest.ends_with(';'))
                })
            };
            lines.find(|line| is_end(line));
        } else if !bare.is_empty() && !bare.starts_with("//") {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{budget, code};

    #[test]
    fn comments_blank_lines_and_tests_are_no_code() {
        let text = "//! A file.\n\nuse a::b;\n\n/// A function.\nfn f() {\n    g(); // calls\n}\n\n#[cfg(test)]\nmod tests;\n\n\
                    #[cfg(test)]\nmod more {\n    fn g() {}\n}\nconst A: u8 = 1;\n";
        assert_eq!(code(text), 5);
    }

    #[test]
    fn a_budget_is_names_with_numbers() {
        assert_eq!(
            budget("# all\ncore 12 # of it\n").unwrap().into_iter().collect::<Vec<_>>(),
            [("core".to_owned(), 12)]
        );
        assert!(budget("core\n").is_err());
    }
}
