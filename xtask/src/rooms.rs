//! The arrows between the folders of a crate, as `cargo xtask tidy` checks them: a lower folder names no higher one.
//!
//! A folder is a room of the crate; the crate's documentation says in which order they stand. Only paths that begin
//! with `crate::` are read, because files name other rooms by these alone. Tests may name every room.

/// The rooms of each crate, and of a folder that has rooms itself, from the lowest to the highest: the folder, the
/// beginning of the paths that name its rooms, and the rooms. Files beside them stand above all rooms.
const ROOMS: [(&str, &str, &[&str]); 9] = [
    (
        "crates/trie/src/",
        "crate::",
        &["automaton", "tuning", "ids", "byte_trie", "symbols", "quotient", "walk", "trie", "healing"],
    ),
    ("crates/automata/src/", "crate::", &["regex", "dfa", "tokens", "split", "canonical", "published"]),
    (
        "crates/grammar/src/",
        "crate::",
        &[
            "terminal", "choices", "data", "builder", "counted", "reports", "import", "budget", "fixpoint",
            "near", "alike", "calls", "analysis", "size", "regular", "within", "kit",
        ],
    ),
    (
        "crates/grammars/src/",
        "crate::",
        &["ids", "tuning", "network", "unique", "parser", "captures", "trees", "mask", "constraint"],
    ),
    ("crates/notation/src/", "crate::", &["gbnf", "lazy", "looks", "layout", "syntax"]),
    ("crates/notation/src/syntax/", "crate::syntax::", &["text", "tree", "lower", "bnf", "xgrammar", "lark"]),
    ("crates/schema/src/", "crate::", &["decimal", "draft", "text", "document", "normalize", "emit"]),
    ("crates/sets/src/", "crate::", &["item_set", "build", "gpu"]),
    ("crates/runner/src/", "crate::", &["config", "math", "cache", "weights", "burn", "train"]),
];

/// Adds a fault for each arrow of a file that points up.
pub(crate) fn arrows(file: &str, text: &str, faults: &mut Vec<String>) {
    if file.ends_with("tests.rs") {
        return;
    }
    for (folder, prefix, rooms) in ROOMS {
        let Some(room) = file.strip_prefix(folder).and_then(|inside| inside.split(['/', '.']).next()) else {
            continue;
        };
        let Some(index) = rooms.iter().position(|other| *other == room) else { continue };
        for other in named(text, prefix) {
            if rooms[index + 1..].contains(&other.as_str()) {
                faults.push(format!("{file}: `{room}` names `{other}`, which stands above it"));
            }
        }
    }
}

/// The names after `prefix` in the paths of the code before its tests.
fn named(text: &str, prefix: &str) -> Vec<String> {
    let code: String = text
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (at, begin) in code.match_indices(prefix) {
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
                    fn f() -> crate::parser::places::Place { crate::network::rules::x() } // crate::captures::y\n\
                    #[cfg(test)]\nmod tests { use crate::syntax::z; }";
        assert_eq!(named(code, "crate::"), ["Dfa", "ids", "mask", "network", "parser", "trees"]);
    }
}
