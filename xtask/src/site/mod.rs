//! `cargo xtask site [--no-api]`: the documentation site, in `target/site`.
//!
//! mdBook makes it of the pages that `docs/SUMMARY.md` names, with the options of the command line, the reference of
//! the Python package, the records of measurements and the notebooks as pages that are generated; rustdoc of the
//! published crates lies beside it under `api`, and the playground under `playground` where the npm package is built,
//! which it is made of (`cargo xtask wasm --build`). At the end every link is followed (`links`).
//!
//! mdBook reads `target/book`, which is written anew in each run. Two other ways were tried on paper: `src = "docs"`,
//! with which mdBook can have no page of another folder, so that links to records and designs lead nowhere; and a
//! preprocessor of mdBook, which needs the same code behind an interface in JSON.

mod book;
mod links;
mod notebook;
mod records;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use book::{Places, entries, site_path};

use crate::{Result, check::PUBLISHED, manifests, process, python};

/// The version of mdBook that the theme was written for.
const MDBOOK: &str = "0.5.4";

/// The folder of the stubs and modules of the Python package, which stands in the summary for their reference.
const PYTHON: &str = "crates/python/python/unskew";

/// The folder of the sources of the command line's options, which stands in the summary for the page of all of them.
const OPTIONS: &str = "crates/cli/src/command_line/args";

/// Where what the command line says of itself is written.
const SAID: &str = "target/pages";

const RECORDS: &str = "benches/record";

const HISTORY: &str = "benches/record/history.csv";

/// Pages of the repository name the playground by this file, which describes it. In the site the link leads to it.
const PLAYGROUND: &str = "site/README.md";

/// Makes the site. `pages` is the folder where `cargo xtask pages` wrote what the command line says of itself: a
/// release has it from its own program. Without it, it is written here.
pub(crate) fn site(root: &Path, with_api: bool, pages: Option<&Path>) -> Result<()> {
    let begin = Instant::now();
    is_installed()?;
    let pages = match pages {
        Some(pages) => pages.to_owned(),
        None => {
            crate::run(root, &["pages", SAID])?;
            root.join(SAID)
        }
    };
    let (book, site) = (root.join("target/book"), root.join("target/site"));
    let mut places = Places { repository: Some(manifests::address(root)?), ..Places::default() };
    if with_api {
        places.crates = crates(root)?;
    }
    let playground = playground(root)?;
    if playground.is_some() {
        places.pages.insert(PLAYGROUND.to_owned(), "playground/index.html".to_owned());
    }
    write_book(root, &book, &mut places, &pages)?;
    // The renderer empties the folder, so that all else is put there afterwards.
    python::run(Command::new("mdbook").arg("build").arg(&book).arg("--dest-dir").arg(&site))?;
    fs::copy(root.join(HISTORY), site.join(HISTORY))?;
    if with_api {
        api(root, &site)?;
        println!("{} links of rustdoc lead nowhere, and stand as text", links::unlink(&site, "api")?);
    }
    match playground {
        Some(playground) => copy(&playground, &site.join("playground"))?,
        None => println!("no playground: `cargo xtask wasm --build` makes the package that it runs"),
    }
    let report = links::check(&site)?;
    let mut files = Vec::new();
    links::walk(&site, &mut files)?;
    let bytes = files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<Result<u64>>()?;
    println!(
        "{}: {} files, {:.1} MB; {} pages with {} links, {} of them broken; {:.0} s",
        site.display(),
        files.len(),
        bytes as f64 / 1e6,
        report.pages,
        report.links,
        report.faults.len(),
        begin.elapsed().as_secs_f64()
    );
    let lost = places.lost.borrow();
    println!("{} links of pages have no place in this site, and stand as text", lost.len());
    for link in lost.iter().filter(|_| with_api) {
        println!("  {link}");
    }
    for fault in &report.faults {
        eprintln!("site: {fault}");
    }
    if report.faults.is_empty() {
        Ok(())
    } else {
        Err(format!("{} links are broken", report.faults.len()).into())
    }
}

/// `cargo xtask playground`: the tests of the page in headless Chromium, after `cargo xtask wasm`.
pub(crate) fn test_playground(root: &Path, args: &[&str]) -> Result<()> {
    let page = playground(root)?.ok_or("`cargo xtask wasm --build` makes the package that the page runs")?;
    let folder = root.join("site/playground");
    let ci = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    python::run(process::npm().args(ci).current_dir(&folder))?;
    // The browser is the system's.
    python::run(process::npm().args(["test", "--"]).args(args).env("PLAYGROUND", page).current_dir(&folder))
}

/// Puts the playground together, where the npm package is built. The vocabularies are fetched once.
fn playground(root: &Path) -> Result<Option<PathBuf>> {
    let npm = process::target(root).join("npm");
    let package = npm.join("unskew");
    if !package.join("web.js").is_file() {
        return Ok(None);
    }
    let out = root.join("target/playground");
    let mut command = Command::new("node");
    command.arg(root.join("site/playground/build.mjs")).arg(&package).arg(&out);
    python::run(command.arg("--vocabularies").arg(npm.join("vocabularies")))?;
    Ok(Some(out))
}

fn is_installed() -> Result<()> {
    let way = format!("`cargo install mdbook --version {MDBOOK} --locked` installs it");
    let version = Command::new("mdbook").arg("--version").output();
    let version = version.map_err(|error| format!("`mdbook` cannot be started ({error}); {way}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let series = |version: &str| version.rsplit_once('.').map(|(series, _)| series.to_owned());
    match series(version.trim().trim_start_matches("mdbook v")) == series(MDBOOK) {
        true => Ok(()),
        false => {
            Err(format!("{} is not mdBook {MDBOOK}, for which the theme is written; {way}", version.trim())
                .into())
        }
    }
}

/// The folders of the published crates, with the names of their libraries.
fn crates(root: &Path) -> Result<std::collections::BTreeMap<String, String>> {
    let metadata = process::output(root, &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let mut found = std::collections::BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        if let Some(folder) = manifest.parent().filter(|_| PUBLISHED.contains(&name)) {
            let folder = folder.strip_prefix(root)?.to_str().ok_or("the path of a crate is not UTF-8")?;
            found.insert(folder.replace('\\', "/"), name.replace('-', "_"));
        }
    }
    Ok(found)
}

/// Writes what mdBook reads.
fn write_book(root: &Path, book: &Path, places: &mut Places, said: &Path) -> Result<()> {
    if book.is_dir() {
        fs::remove_dir_all(book)?;
    }
    let source = book.join("src");
    fs::create_dir_all(&source)?;
    copy(&root.join("site/theme"), &book.join("theme"))?;
    let mut settings = fs::read_to_string(root.join("site/book.toml"))?;
    if let Some(repository) = &places.repository {
        let table = "[output.html]\n";
        settings = settings.replacen(table, &format!("{table}git-repository-url = \"{repository}\"\n"), 1);
    }
    fs::write(book.join("book.toml"), settings)?;
    fs::write(
        book.join("theme/header.hbs"),
        header(!places.crates.is_empty(), places.pages.contains_key(PLAYGROUND)),
    )?;

    let summary = fs::read_to_string(root.join("docs/SUMMARY.md"))?;
    // Of each page its path in the repository, its path in the site and its text.
    let mut pages: Vec<[String; 3]> = Vec::new();
    let mut written = String::new();
    for line in entries(&summary) {
        let entry = match line {
            Ok(entry) => entry,
            Err(line) => {
                written += &format!("{line}\n");
                continue;
            }
        };
        let generated = match &*entry.path {
            RECORDS => records::pages(root)?,
            PYTHON => reference(root)?,
            OPTIONS => {
                let text = fs::read_to_string(said.join("options.md"))?;
                let at = "reference/command-line.md".to_owned();
                vec![[OPTIONS.to_owned(), at, entry.title.clone(), text]]
            }
            path => {
                let text = fs::read_to_string(root.join(path))
                    .map_err(|error| format!("docs/SUMMARY.md names {path}: {error}"))?;
                let text = if path.ends_with(".ipynb") { notebook::markdown(&text)? } else { text };
                vec![[path.to_owned(), site_path(path), entry.title.clone(), text]]
            }
        };
        for (index, [path, at, title, text]) in generated.into_iter().enumerate() {
            let (before, title) = if index == 0 {
                (entry.before.clone(), &entry.title)
            } else {
                (format!("  {}", entry.before), &title)
            };
            written += &format!("{before}[{title}]({at})\n");
            places.pages.insert(path.clone(), at.clone());
            pages.push([path, at, text]);
        }
    }
    // From the pages themselves, and not from what stands for them in the summary.
    let ats: Vec<String> = pages.iter().map(|[_, at, _]| at.clone()).collect();
    places.pages.extend(ats.into_iter().map(|at| (at.clone(), at)));
    let python = places.pages.get(PYTHON).cloned();
    places.pages.extend(python.map(|at| ("crates/python".to_owned(), at)));
    fs::write(source.join("SUMMARY.md"), written)?;
    for [path, at, text] in &pages {
        let to = source.join(at);
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        // Links of pages that are generated are those of the site.
        let from = if root.join(path).is_file() && path != HISTORY { path } else { at };
        fs::write(to, places.rewritten(text, from, at))?;
    }
    for path in places.shown.borrow().iter() {
        let to = source.join(path.trim_start_matches("docs/"));
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        fs::copy(root.join(path), to).map_err(|error| format!("a page shows {path}: {error}"))?;
    }
    Ok(())
}

/// The bar above each page, with what is a part of this site.
fn header(with_api: bool, has_playground: bool) -> String {
    // On a phone the first ones are seen, and the others are a swipe away.
    let items = [
        (true, "index.html", "unskew"),
        (has_playground, "playground/index.html", "Playground"),
        (true, "tutorials/python.html", "Tutorials"),
        (true, "command-line.html", "Guides"),
        (true, "reference/python/unskew.html", "Python"),
        (with_api, "api/unskew/index.html", "Rust"),
        (true, "costs.html", "Costs"),
    ];
    let items = items.iter().filter(|(is_there, ..)| *is_there);
    let items: Vec<String> =
        items.map(|(_, to, name)| format!("<a href=\"{{{{ path_to_root }}}}{to}\">{name}</a>")).collect();
    format!("<nav class=\"site-bar\" aria-label=\"Site\">{}</nav>\n", items.join("\n"))
}

/// The pages of the Python package, which a script makes of its stubs and sources.
fn reference(root: &Path) -> Result<Vec<[String; 4]>> {
    let out = root.join("target/book/reference");
    let base =
        std::env::var_os("PYTHON").unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into());
    let mut command = Command::new(base);
    command
        .arg(root.join("site/reference.py"))
        .arg(root.join(PYTHON))
        .arg(&out)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    python::run(&mut command)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&out)? {
        names.push(entry?.path());
    }
    // The package first, whose name the others begin with.
    names.sort();
    let page = |path: &PathBuf| {
        let name =
            path.file_stem().and_then(|stem| stem.to_str()).ok_or("the name of a module is not UTF-8")?;
        let at = format!("reference/python/{name}.md");
        // Links between the pages are theirs, and no paths of the repository.
        let path_of = if name == "unskew" { PYTHON.to_owned() } else { at.clone() };
        Ok([path_of, at, name.to_owned(), fs::read_to_string(path)?])
    };
    names.iter().map(page).collect()
}

/// rustdoc of the published crates, in a folder of its own: `target/doc` has the private items of `check`.
fn api(root: &Path, site: &Path) -> Result<()> {
    let target = process::target(root).join("api");
    let target = target.to_str().ok_or("the path of the repository is not UTF-8")?;
    let doc = Path::new(target).join("doc");
    if doc.is_dir() {
        fs::remove_dir_all(&doc)?;
    }
    let mut args = vec!["doc", "--no-deps", "--lib", "--target-dir", target];
    for package in PUBLISHED {
        args.extend(["--package", package]);
    }
    process::run(root, &args, &[("RUSTDOCFLAGS", "--deny warnings")])?;
    let out = site.join("api");
    copy(&doc, &out)?;
    let page = "<!doctype html><meta charset=\"utf-8\"><title>unskew in Rust</title>\
        <meta http-equiv=\"refresh\" content=\"0; url=unskew/index.html\"><a href=\"unskew/index.html\">unskew in Rust</a>\n";
    fs::write(out.join("index.html"), page)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        path::{Path, PathBuf},
    };

    use super::{book::entries, links::walk};

    /// Every page of `docs` is in the summary, once, and what the summary names is there.
    #[test]
    fn the_summary_names_every_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
        let named: Vec<String> =
            entries(&summary).into_iter().filter_map(|line| Some(line.ok()?.path)).collect();
        let mut files = Vec::new();
        walk(&root.join("docs"), &mut files).unwrap();
        let is_page = |file: &&PathBuf| {
            file.extension().is_some_and(|end| end == "md" || end == "ipynb") && !file.ends_with("SUMMARY.md")
        };
        let pages = files
            .iter()
            .filter(is_page)
            .map(|file| file.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/"));
        let of_docs: BTreeSet<&String> = named.iter().filter(|path| path.starts_with("docs/")).collect();
        assert_eq!(of_docs, pages.collect::<Vec<_>>().iter().collect());
        assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len(), "a page is named twice");
        for path in &named {
            assert!(root.join(path).exists(), "{path}");
        }
    }
}
