//! The arrows between the folders of a crate, as `cargo xtask tidy` checks them: a lower folder names no higher one.
//!
//! A folder is a room of the crate; the crate's documentation says in which order they stand. Only paths that begin with `crate::` are
//! read, because files name other rooms by these alone. Tests may name every room.

/// The rooms of each crate, from the lowest to the highest. Files beside them stand above all rooms.
const ROOMS: [(&str, &[&str]); 4] = [
    (
        "crates/trie",
        &["automaton", "tuning", "ids", "byte_trie", "symbols", "quotient", "walk", "trie", "healing"],
    ),
    ("crates/automata", &["regex", "dfa", "tokens", "published", "split", "canonical"]),
    (
        "crates/grammars",
        &[
            "ids", "tuning", "terminal", "grammar", "network", "lazy", "looks", "layout", "syntax", "munch", "unique",
            "parser", "trees", "mask",
        ],
    ),
    ("crates/schema", &["decimal", "draft", "text", "document", "normalize", "emit"]),
];

/// Adds a fault for each arrow of a file that points up.
pub(crate) fn arrows(file: &str, text: &str, faults: &mut Vec<String>) {
    let in_crate = |(name, rooms): &(&str, &'static [&'static str])| {
        let inside = file.strip_prefix(name)?.strip_prefix("/src/")?;
        let room = inside.split(['/', '.']).next()?;
        rooms.iter().position(|other| *other == room).map(|index| (room.to_owned(), &rooms[index + 1..]))
    };
    let Some((room, higher)) = ROOMS.iter().find_map(in_crate).filter(|_| !file.ends_with("tests.rs")) else {
        return;
    };
    for other in named(text) {
        if higher.contains(&other.as_str()) {
            faults.push(format!("{file}: `{room}` names `{other}`, which stands above it"));
        }
    }
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
