//! The files of the book: where each page of the repository lies in the site, and the links between them.
//!
//! A page keeps its path: `docs/ends.md` becomes `ends.html`, `crates/automata/DESIGN.md` becomes
//! `crates/automata/DESIGN.html`. A link of a page is followed from where the page lies in the repository, so that it
//! works there too; what it leads to has a place in the site, or none, and then the text stands without a link.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::links::plain;

/// A line of `docs/SUMMARY.md` that names a page: what stands before it, its title, and its path in the repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) before: String,
    pub(super) title: String,
    pub(super) path: String,
}

/// The pages that a summary names, and its other lines.
pub(super) fn entries(summary: &str) -> Vec<std::result::Result<Entry, String>> {
    let entry = |line: &str| {
        let (before, rest) = line.split_once('[')?;
        let (title, rest) = rest.split_once("](")?;
        let (target, _) = rest.split_once(')')?;
        Some(Entry {
            before: before.to_owned(),
            title: title.to_owned(),
            path: plain(&Path::new("docs").join(target))?,
        })
    };
    summary.lines().map(|line| entry(line).ok_or_else(|| line.to_owned())).collect()
}

/// What the links of pages may lead to.
#[derive(Default)]
pub(super) struct Places {
    /// The pages of the book, and the files beside them, by their paths in the repository.
    pub(super) pages: BTreeMap<String, String>,
    /// The folders of crates, and the names of their libraries, where rustdoc is a part of the site.
    pub(super) crates: BTreeMap<String, String>,
    /// The address of the repository, where one is known.
    pub(super) repository: Option<String>,
    /// Files of the repository that pages show.
    pub(super) shown: RefCell<BTreeSet<String>>,
    /// Links that have no place: a page and what it names.
    pub(super) lost: RefCell<BTreeSet<String>>,
}

impl Places {
    /// The place of a link's target in a page that lies at `from` in the repository and at `at` in the site. None:
    /// there is none.
    fn place(&self, from: &str, at: &str, target: &str) -> Option<String> {
        let inside = self.repository.as_deref().and_then(|repository| {
            let rest = target.strip_prefix(repository)?.trim_start_matches('/');
            rest.strip_prefix("blob/main/").or_else(|| rest.strip_prefix("tree/main/"))
        });
        let is_elsewhere = target.contains("://") || target.starts_with('#') || target.starts_with("mailto:");
        if inside.is_none() && is_elsewhere {
            return Some(target.to_owned());
        }
        let (path, fragment) = match inside.unwrap_or(target).split_once('#') {
            Some((path, fragment)) => (path, format!("#{fragment}")),
            None => (inside.unwrap_or(target), String::new()),
        };
        let path = match inside {
            Some(_) => path.trim_end_matches('/').to_owned(),
            None => plain(&Path::new(from).parent()?.join(path))?,
        };
        if let Some(page) = self.pages.get(&path).or_else(|| self.pages.get(&format!("{path}/README.md"))) {
            return Some(relative(at, page) + &fragment);
        }
        if let Some(page) = self.documented(&path) {
            return Some(relative(at, &page));
        }
        if is_shown(&path) && path.starts_with("docs/") {
            self.shown.borrow_mut().insert(path.clone());
            return Some(relative(at, strip_docs(&path)));
        }
        let repository = self.repository.as_deref()?.trim_end_matches('/');
        Some(format!("{repository}/blob/main/{path}{fragment}"))
    }

    /// The page of rustdoc about a crate or a source file.
    fn documented(&self, path: &str) -> Option<String> {
        let (folder, library) = self.crates.iter().find(|(folder, _)| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        let inside = path[folder.len()..].trim_start_matches('/');
        match inside.strip_prefix("src/") {
            _ if ["", "README.md", "src/lib.rs"].contains(&inside) => {
                Some(format!("api/{library}/index.html"))
            }
            Some(source) if source.ends_with(".rs") => Some(format!("api/src/{library}/{source}.html")),
            _ => None,
        }
    }

    /// A page with its links as they are in the site.
    pub(super) fn rewritten(&self, text: &str, from: &str, at: &str) -> String {
        let (mut out, mut opened) = (String::with_capacity(text.len()), Vec::new());
        let (mut rest, mut is_code) = (text, false);
        while let Some(first) = rest.chars().next() {
            if out.is_empty() || out.ends_with('\n') {
                let line = rest.split_inclusive('\n').next().unwrap_or_default();
                let is_fence = line.trim_start().starts_with("```");
                if is_fence || is_code {
                    is_code ^= is_fence;
                    out += line;
                    rest = &rest[line.len()..];
                    continue;
                }
            }
            let mut taken = first.len_utf8();
            match first {
                '`' => {
                    let ticks = rest.len() - rest.trim_start_matches('`').len();
                    let end = rest[ticks..].find(&rest[..ticks]).map_or(ticks, |end| 2 * ticks + end);
                    // A paragraph ends what is not closed.
                    taken = if rest[..end].contains("\n\n") { ticks } else { end };
                    out += &rest[..taken];
                }
                '\\' => {
                    taken += rest.chars().nth(1).map_or(0, char::len_utf8);
                    out += &rest[..taken];
                }
                '[' => {
                    opened.push(out.len());
                    out.push('[');
                }
                ']' => {
                    let open = opened.pop();
                    let target = rest
                        .strip_prefix("](")
                        .and_then(|after| after.split_once(')'))
                        .map(|(target, _)| target);
                    match target {
                        Some(target) => {
                            taken = target.len() + 3;
                            match (self.place(from, at, target), open) {
                                (Some(place), _) => out += &format!("]({place})"),
                                (None, open) => {
                                    self.lost.borrow_mut().insert(format!("{from}: {target}"));
                                    open.map(|open| out.remove(open));
                                }
                            }
                        }
                        None => out.push(']'),
                    }
                }
                _ => out.push(first),
            }
            rest = &rest[taken..];
        }
        out
    }
}

/// Whether a browser shows a file of this name.
fn is_shown(path: &str) -> bool {
    [".svg", ".png", ".csv"].iter().any(|end| path.ends_with(end))
}

/// The place in the site of a page that the repository has.
pub(super) fn site_path(path: &str) -> String {
    let path = strip_docs(path);
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.strip_suffix(".ipynb").map_or_else(|| path.to_owned(), |stem| format!("{stem}.md")),
    }
}

fn strip_docs(path: &str) -> &str {
    path.strip_prefix("docs/").unwrap_or(path)
}

/// The way from a page to a place, both from the root of the site.
pub(super) fn relative(at: &str, place: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (at.split('/').collect(), place.split('/').collect());
    let most = from.len().min(to.len()) - 1;
    let same = (0..most).take_while(|&index| from[index] == to[index]).count();
    "../".repeat(from.len() - 1 - same) + &to[same..].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let pages =
            ["docs/ends.md", "docs/tutorials/rust.md", "crates/automata/README.md", "benches/record/sets.md"];
        Places {
            pages: pages.iter().map(|page| ((*page).to_owned(), site_path(page))).collect(),
            crates: [("crates/cli".to_owned(), "unskew".to_owned())].into(),
            ..Places::default()
        }
    }

    #[test]
    fn links_are_those_of_the_site() {
        let places = places();
        let rewritten = |text: &str| places.rewritten(text, "docs/tutorials/rust.md", "tutorials/rust.md");
        for (text, expected) in [
            ("see [ends](../ends.md#measured)", "see [ends](../ends.md#measured)"),
            ("[a](../../crates/automata/README.md#dialects)", "[a](../crates/automata/index.md#dialects)"),
            ("[the\ncrate](../../crates/automata)", "[the\ncrate](../crates/automata/index.md)"),
            ("[r](../../crates/cli)", "[r](../api/unskew/index.html)"),
            ("[s](../../crates/cli/src/facade/mod.rs)", "[s](../api/src/unskew/facade/mod.rs.html)"),
            ("[set](../../benches/record/sets.md)", "[set](../benches/record/sets.md)"),
            ("![f](../frontier.svg)", "![f](../frontier.svg)"),
            ("[x](https://example.org/a) [y](#here)", "[x](https://example.org/a) [y](#here)"),
            // There is no such place, and no repository to lead to.
            ("an [own [x] file](../../xtask/src/main.rs), [b]", "an own [x] file, [b]"),
            (
                "`[x](../../nowhere)` and ``a ` [x](../../nowhere)``",
                "`[x](../../nowhere)` and ``a ` [x](../../nowhere)``",
            ),
            ("```sh\n[x](../../nowhere)\n```\n[x](../../nowhere)", "```sh\n[x](../../nowhere)\n```\nx"),
        ] {
            assert_eq!(rewritten(text), expected);
        }
        assert!(places.shown.borrow().contains("docs/frontier.svg"));
        let places = Places { repository: Some("https://example.org/r".to_owned()), ..places };
        for (text, expected) in [
            ("[own](../../xtask/src/main.rs)", "[own](https://example.org/r/blob/main/xtask/src/main.rs)"),
            ("[e](https://example.org/r/blob/main/docs/ends.md#m)", "[e](../ends.md#m)"),
            ("[c](https://example.org/r/tree/main/crates/cli/)", "[c](../api/unskew/index.html)"),
        ] {
            assert_eq!(places.rewritten(text, "docs/tutorials/rust.md", "tutorials/rust.md"), expected);
        }
    }

    #[test]
    fn a_summary_has_pages_and_other_lines() {
        let found = entries("# Summary\n\n- [Ends](ends.md)\n  - [Regexes](../crates/automata/README.md)\n");
        let entry = |before: &str, title: &str, path: &str| {
            Ok(Entry { before: before.to_owned(), title: title.to_owned(), path: path.to_owned() })
        };
        let expected = [
            Err("# Summary".to_owned()),
            Err(String::new()),
            entry("- ", "Ends", "docs/ends.md"),
            entry("  - ", "Regexes", "crates/automata/README.md"),
        ];
        assert_eq!(found, expected);
    }
}
