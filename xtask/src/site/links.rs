//! The links of the built site: each leads to a file of it, and to a place in that file; nothing is fetched from
//! elsewhere.
//!
//! It reads what a browser reads, so that it finds what mdBook, rustdoc and our own generators do to a link, and not
//! what the Markdown says. Links to other sites are not followed. Written here because mdbook-linkcheck is for
//! versions of mdBook before 0.5, and knows neither rustdoc nor files that lie beside the book.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::Result;

/// What a check has found.
#[derive(Default)]
pub(super) struct Report {
    pub(super) pages: usize,
    pub(super) links: usize,
    pub(super) faults: BTreeSet<Fault>,
}

/// A link that does not lead where it should: its page, its target as it is decoded, and why.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault {
    page: PathBuf,
    link: String,
    why: &'static str,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.page.display(), self.link, self.why)
    }
}

/// A page: the places in it, and its links with whether a browser fetches their targets.
struct Page {
    ids: BTreeSet<String>,
    links: Vec<(String, bool)>,
    base: Option<String>,
}

pub(super) fn check(site: &Path) -> Result<Report> {
    let mut files = Vec::new();
    walk(site, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "html")) {
        let text = String::from_utf8_lossy(&fs::read(file)?).into_owned();
        pages.insert(file.strip_prefix(site)?.to_path_buf(), read(&text));
    }
    let files: BTreeSet<PathBuf> =
        files.iter().filter_map(|file| Some(file.strip_prefix(site).ok()?.to_path_buf())).collect();
    let mut report = Report { pages: pages.len(), ..Report::default() };
    for (path, page) in &pages {
        for (link, is_fetched) in &page.links {
            report.links += 1;
            let fault = fault(path, page, link, *is_fetched, &pages, &files);
            let fault = fault.map(|why| Fault { page: path.clone(), link: link.clone(), why });
            report.faults.extend(fault);
        }
    }
    Ok(report)
}

fn fault(
    path: &Path,
    page: &Page,
    link: &str,
    is_fetched: bool,
    pages: &BTreeMap<PathBuf, Page>,
    files: &BTreeSet<PathBuf>,
) -> Option<&'static str> {
    if link.starts_with("data:") || link.starts_with("javascript:") || link.starts_with("mailto:") {
        return None;
    }
    if link.contains("://") || link.starts_with("//") {
        return is_fetched.then_some("is fetched from elsewhere");
    }
    let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = target.split('?').next().unwrap_or_default();
    let mut found = match (target, &page.base) {
        ("", _) => path.to_path_buf(),
        // A page for any address names what it needs from the root.
        (_, Some(_)) => PathBuf::from(decoded(target).trim_start_matches('/')),
        _ if target.starts_with('/') => return Some("is from the root of the server"),
        _ => match resolved(path.parent().unwrap_or(Path::new("")), &decoded(target)) {
            Some(found) => found,
            None => return Some("leaves the site"),
        },
    };
    if !files.contains(&found) {
        found.push("index.html");
        if !files.contains(&found) {
            return Some("there is no such file");
        }
    }
    // Lines of a source file, which a script of rustdoc shows.
    let is_lines = !fragment.is_empty() && fragment.chars().all(|each| each.is_ascii_digit() || each == '-');
    let ids = pages.get(&found).map(|page| &page.ids)?;
    // A browser takes an id as it is written in a link, or else decoded.
    let is_there = ids.contains(fragment) || ids.contains(&decoded(fragment));
    let is_missing = !fragment.is_empty() && !is_lines && !is_there;
    is_missing.then_some("there is no such place in the file")
}

/// Makes texts of the links under `folder` that lead nowhere. How many.
///
/// rustdoc writes some: to items that are hidden, from the types that implement them, and in documentation that it
/// takes over from other crates; and a script for a trait that nothing implements. Those of our own documentation are
/// errors of rustdoc itself.
pub(super) fn unlink(site: &Path, folder: &str) -> Result<usize> {
    let report = check(site)?;
    let faults: Vec<&Fault> = report.faults.iter().filter(|fault| fault.page.starts_with(folder)).collect();
    for fault in &faults {
        let file = site.join(&fault.page);
        let link = fault.link.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut text = fs::read_to_string(&file)?;
        for link in [&link, &fault.link] {
            text = text.replace(&format!(" href=\"{link}\""), "").replace(&format!(" src=\"{link}\""), "");
        }
        fs::write(&file, text)?;
    }
    Ok(faults.len())
}

/// The ids and links of a page, scripts left out.
fn read(text: &str) -> Page {
    let mut page = Page { ids: BTreeSet::new(), links: Vec::new(), base: None };
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        rest = &rest[open + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let (tag, after) = element(rest);
        rest = after;
        let name = tag.split(|each: char| each.is_ascii_whitespace()).next().unwrap_or_default();
        for (attribute, value) in attributes(&tag[name.len()..]) {
            match (attribute, name) {
                ("id", _) | ("name", "a") => drop(page.ids.insert(value)),
                ("href", "base") => page.base = Some(value),
                ("href", "link") | ("src", _) => page.links.push((value, true)),
                ("href", "a") => page.links.push((value, false)),
                _ => {}
            }
        }
        if name == "script" || name == "style" {
            rest = rest.find(&format!("</{name}")).map_or("", |end| &rest[end..]);
        }
    }
    page
}

/// A tag up to its end, which does not lie in a quoted value, and what follows.
fn element(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, each) in text.char_indices() {
        match (quote, each) {
            (None, '>') => return (&text[..at], &text[at + 1..]),
            (None, '"' | '\'') => quote = Some(each),
            (Some(open), each) if open == each => quote = None,
            _ => {}
        }
    }
    (text, "")
}

fn attributes(mut tag: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    while let Some(equals) = tag.find('=') {
        let name = tag[..equals].rsplit(|each: char| each.is_ascii_whitespace()).next().unwrap_or_default();
        tag = &tag[equals + 1..];
        let (value, after) = match tag.chars().next() {
            Some(quote @ ('"' | '\'')) => tag[1..].split_once(quote).unwrap_or((&tag[1..], "")),
            _ => tag.split_at(tag.find(|each: char| each.is_ascii_whitespace()).unwrap_or(tag.len())),
        };
        found.push((
            name,
            value.replace("&amp;", "&").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">"),
        ));
        tag = after;
    }
    found
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code =
            after.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code.filter(|_| first == b'%') {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn resolved(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut found = folder.to_path_buf();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if found.pop() => {}
            ".." => return None,
            part => found.push(part),
        }
    }
    Some(found)
}

/// All files under a folder.
pub(super) fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_nowhere_are_found() {
        let folder = std::env::temp_dir().join(format!("unskew-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        let page = r##"<h1 id="a b">x</h1><a href="sub/">s</a><a href="sub/index.html#there">t</a><a href="#a%20b">h</a>
            <a href="https://example.org/">fine</a><script>"<b></b><a href='nowhere'>"</script><!-- <a href="nowhere"> -->
            <a class='x' href=missing.html>1</a><a href="sub/index.html#gone">2</a><img src="https://example.org/i.png">
            <a href="../outside.html">4</a><a title="a > b" href="/index.html">5</a>"##;
        fs::write(folder.join("index.html"), page).unwrap();
        fs::write(
            folder.join("sub/index.html"),
            r##"<p id=there>..</p><a href="../index.html?x=1&amp;y#there">6</a>"##,
        )
        .unwrap();
        let report = check(&folder).unwrap();
        let removed = unlink(&folder, "sub").unwrap();
        let left = check(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let faults: Vec<String> = report.faults.iter().map(Fault::to_string).collect();
        let expected = [
            "index.html: ../outside.html: leaves the site",
            "index.html: /index.html: is from the root of the server",
            "index.html: https://example.org/i.png: is fetched from elsewhere",
            "index.html: missing.html: there is no such file",
            "index.html: sub/index.html#gone: there is no such place in the file",
            "sub/index.html: ../index.html?x=1&y#there: there is no such place in the file",
        ];
        assert_eq!((report.pages, report.links), (2, 10));
        assert_eq!(faults, expected);
        assert_eq!((removed, left.links, left.faults.len()), (1, 9, 5));
    }
}
