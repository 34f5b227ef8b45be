//! The arrows between the folders of a crate, as `cargo xtask tidy` checks them: a lower folder names no higher one.
//!
//! A folder is a room of the crate; the crate's documentation says in which order they stand. Only paths that begin with `crate::` are
//! read, because files name other rooms by these alone. Tests may name every room.

use std::{fs, path::Path};

use crate::Result;

/// The rooms of each crate, from the lowest to the highest. Files beside them stand above all rooms.
const ROOMS: [(&str, &[&str]); 3] = [
    ("crates/automata", &["regex", "dfa", "tokens", "published", "split", "canonical"]),
    (
        "crates/grammars",
        &[
            "ids", "terminal", "grammar", "network", "lazy", "syntax", "munch", "unique", "parser", "trees",
            "mask",
        ],
    ),
    ("crates/schema", &["decimal", "draft", "text", "document", "normalize", "emit"]),
];

/// Files that name a higher room, and why.
const EXCEPTIONS: [(&str, &str); 1] = [
    // A library of trees keeps parts of masks too, for the next scratch of the same grammar.
    ("crates/grammars/src/trees/kept.rs", "mask"),
];

/// Adds a fault for each arrow that points up.
pub(crate) fn rooms(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    for (name, rooms) in ROOMS {
        for (index, room) in rooms.iter().enumerate() {
            let folder = root.join(name).join("src").join(room);
            let mut files = vec![folder.with_extension("rs")];
            let mut folders = vec![folder];
            while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
                for entry in fs::read_dir(folder)? {
                    let path = entry?.path();
                    if path.is_dir() { folders.push(path) } else { files.push(path) }
                }
            }
            for path in files.iter().filter(|path| path.is_file() && !is_test(path)) {
                let text = fs::read_to_string(path)?;
                let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
                for other in named(&text) {
                    let is_higher = rooms[index + 1..].contains(&other.as_str());
                    let is_known = EXCEPTIONS.contains(&(file.as_str(), other.as_str()));
                    if is_higher && !is_known {
                        faults.push(format!("{file}: `{room}` names `{other}`, which stands above it"));
                    }
                }
            }
        }
    }
    Ok(())
}

fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.extension().is_none_or(|extension| extension != "rs") || stem == "tests" || stem.ends_with("_tests")
}

/// The first names of the paths that begin with `crate::`, in the code before its tests.
fn named(text: &str) -> Vec<String> {
    let code: String = text
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (at, begin) in code.match_indices("crate::") {
        let rest = &code[at + begin.len()..];
        match rest.strip_prefix('{') {
            Some(list) => found.extend(first_names(list)),
            None => found.extend(first_names(rest).into_iter().take(1)),
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The names that stand first in each path of a list, up to its closing bracket.
fn first_names(list: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let (mut depth, mut is_first) = (0, true);
    for char in list.chars() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(String::new());
                is_first = true;
            }
            char if depth == 0 && is_first && (char.is_alphanumeric() || char == '_') => {
                names.last_mut().expect("it begins with one").push(char);
            }
            char if char.is_whitespace() && names.last().is_some_and(String::is_empty) => {}
            _ if depth == 0 => is_first = false,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn rooms_are_found_in_paths_and_lists() {
        let code = "use crate::{\n    Dfa, ids::{COUNTS, NONE},\n    mask::maker::Maker,\n};\nuse crate::trees::nodes;\n\
                    fn f() -> crate::parser::places::Place { crate::network::rules::x() } // crate::munch::y\n\
                    #[cfg(test)]\nmod tests { use crate::syntax::z; }";
        assert_eq!(named(code), ["Dfa", "ids", "mask", "network", "parser", "trees"]);
    }
}
