//! Links of Markdown files that lead into this repository: the file must exist, and so must the heading.
//!
//! An address of the repository itself (`.../blob/main/PATH`) is such a link too: READMEs of packages are shown without
//! the repository around them, so that theirs are absolute, and relative ones are faults there. Other addresses need a
//! network, and the workflow `docs` has a job for them. Anchors are made as GitHub makes them. pulldown-cmark reads the
//! files, so that brackets in code are no links; the checkers that were looked at are programs of their own with a
//! client of HTTP, which `cargo xtask check` must not need.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What is looked at in a file.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    /// Each link with its line.
    links: Vec<(usize, String)>,
}

/// Adds a fault for each link to a file or a heading that does not exist. `files` are the texts of the files in
/// Markdown by their names; `address` is that of the repository.
pub(crate) fn check(root: &Path, files: &BTreeMap<String, String>, address: &str, faults: &mut Vec<String>) {
    let pages: BTreeMap<&str, Page> = files.iter().map(|(name, text)| (name.as_str(), page(text))).collect();
    let own = format!("{address}/blob/main/");
    for (name, page) in &pages {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        // Those that a registry shows.
        let is_shown = name.ends_with("/README.md")
            && (folder.starts_with("crates") || folder == Path::new("shaders"))
            && root.join(folder).join("Cargo.toml").is_file();
        for (line, link) in &page.links {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path.strip_prefix(&own) {
                Some(path) => PathBuf::from(path),
                None if path.contains("://") || path.starts_with("mailto:") => continue,
                None if path.is_empty() => PathBuf::from(name),
                None => {
                    if is_shown {
                        faults.push(format!(
                            "{name}:{line}: `{link}` is relative, and a registry shows this file alone; write {own}..."
                        ));
                    }
                    folder.join(path)
                }
            };
            let Some(target) = plain(&target) else {
                faults.push(format!("{name}:{line}: `{link}` leads out of the repository"));
                continue;
            };
            match pages.get(target.as_str()) {
                Some(page) if anchor.is_empty() || page.anchors.contains(anchor) => {}
                Some(_) => faults.push(format!("{name}:{line}: {target} has no heading #{anchor}")),
                None if root.join(&target).exists() => {}
                None => faults.push(format!("{name}:{line}: `{link}` leads to no file")),
            }
        }
    }
}

/// A path without `.` and `..`, or nothing if it leads out.
pub(crate) fn plain(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

fn page(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for (event, at) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = text[..at.start].matches('\n').count() + 1;
                page.links.push((line, dest_url.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                // A heading that comes again has a number.
                let numbered = (1..).map(|number| format!("{slug}-{number}"));
                let first =
                    std::iter::once(slug.clone()).chain(numbered).find(|one| !page.anchors.contains(one));
                page.anchors.extend(first);
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    page
}

/// The anchor of a heading: small letters, digits, hyphens and underscores; blanks are hyphens.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ if character.is_alphanumeric() => Some(character),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(slug("Who may `send` what? (v2, a_b)"), "who-may-send-what-v2-a_b");
        let page = page("# A b\n\n## A b\n\n`[no](link)` and [one](x.md#y)\n");
        assert_eq!(page.anchors.into_iter().collect::<Vec<_>>(), ["a-b", "a-b-1"]);
        assert_eq!(page.links, [(5, "x.md#y".to_owned())]);
    }

    #[test]
    fn links_to_nothing_are_faults() {
        // A folder that has none of these files.
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let texts = [
            (
                "a.md",
                "# Here\n\n[1](docs/b.md#there) [2](docs/c.md) [3](#here) [4](#gone)\n[5](https://example.org/x)\n",
            ),
            (
                "docs/b.md",
                "# There\n\n[1](../a.md#there) [2](../../a.md) [3](https://h/a/b/blob/main/a.md#here) [4](https://h/a/b/blob/main/z.md)\n",
            ),
        ];
        let files = texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let mut faults = Vec::new();
        check(root, &files, "https://h/a/b", &mut faults);
        let found: Vec<&str> = faults.iter().map(|fault| fault.split(": ").nth(1).unwrap()).collect();
        assert_eq!(
            found,
            [
                "`docs/c.md` leads to no file",
                "a.md has no heading #gone",
                "a.md has no heading #there",
                "`../../a.md` leads out of the repository",
                "`https://h/a/b/blob/main/z.md` leads to no file",
            ]
        );
    }
}
