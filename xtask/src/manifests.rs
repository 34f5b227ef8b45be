//! What a stranger reads of a package before the code: the manifests of published crates.
//!
//! A registry shows a package without its repository, takes no version back, and reports most of what is missing only
//! when it is pushed. The address of the repository stands in one place, the manifest of the workspace; the files that
//! cannot inherit it are compared with it here, and so is the version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{Result, check::PUBLISHED};

/// What crates.io allows: keywords of a package, and characters of each.
const KEYWORDS: (usize, usize) = (5, 20);

/// The files that name the repository by its address and cannot inherit it.
const ADDRESSES: [&str; 5] = [
    "crates/python/pyproject.toml",
    "crates/wasm/js/package.json",
    "CITATION.cff",
    "SECURITY.md",
    ".github/ISSUE_TEMPLATE/config.yml",
];

/// The address of the repository, from the manifest of the workspace.
pub(crate) fn address(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    let address = line.and_then(|rest| rest.strip_suffix('"')).ok_or("Cargo.toml names no repository")?;
    Ok(address.to_owned())
}

/// Adds a fault for each manifest of a published crate that lacks something, by `cargo metadata`, and for each file
/// that names another repository or version.
pub(crate) fn check(root: &Path, metadata: &Value, faults: &mut Vec<String>) -> Result<()> {
    let address = address(root)?;
    let mut published = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if package["publish"].is_null() {
            published.push(package["name"].as_str().unwrap_or_default());
            faults.extend(
                manifest(package, &address).into_iter().map(|fault| {
                    format!("{}: {fault}", package["manifest_path"].as_str().unwrap_or_default())
                }),
            );
            licences(root, package, faults);
            order(package, faults);
        }
    }
    for name in &published {
        if !PUBLISHED.contains(name) {
            faults.push(format!("{name} is published, and PUBLISHED of xtask/src/check.rs does not name it"));
        }
    }
    for name in PUBLISHED {
        if !published.contains(&name) {
            faults.push(format!("PUBLISHED of xtask/src/check.rs names {name}, which is not published"));
        }
    }
    for name in ADDRESSES {
        let text = fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        faults.extend(
            foreign(&text, &address).into_iter().map(|line| {
                format!("{name}:{line}: another repository than {address}, which Cargo.toml names")
            }),
        );
    }
    let citation = fs::read_to_string(root.join("CITATION.cff"))?;
    let version = concat!("version: ", env!("CARGO_PKG_VERSION"));
    if !citation.lines().any(|line| line == version) {
        faults.push(format!("CITATION.cff: the line `{version}` is missing"));
    }
    Ok(())
}

/// What the manifest of a published crate lacks.
fn manifest(package: &Value, address: &str) -> Vec<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let list = |key: &str| package[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut faults = Vec::new();
    let mut require = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    for key in ["description", "license", "rust_version", "readme"] {
        require(!text(key).is_empty(), &format!("no `{key}`"));
    }
    require(!list("authors").is_empty(), "no `authors`");
    require(!list("categories").is_empty(), "no `categories`");
    let keywords = list("keywords");
    let fits = |keyword: &Value| keyword.as_str().is_some_and(|word| word.len() <= KEYWORDS.1);
    require(
        (1..=KEYWORDS.0).contains(&keywords.len()) && keywords.iter().all(fits),
        &format!("`keywords` are 1 to {} of at most {} characters", KEYWORDS.0, KEYWORDS.1),
    );
    require(text("repository") == address, "`repository` is not that of the workspace");
    require(text("homepage").starts_with("https://"), "no `homepage`");
    let documentation = format!("https://docs.rs/{}", text("name"));
    require(text("documentation") == documentation, &format!("`documentation` is not {documentation}"));
    require(
        package["metadata"]["docs"]["rs"].is_object(),
        "no `[package.metadata.docs.rs]`, which says with which features its documentation is built",
    );
    faults
}

/// Crates are pushed in the order of [`PUBLISHED`], and the registry must have what one names with a version, for its
/// tests too.
fn order(package: &Value, faults: &mut Vec<String>) {
    let place = |name: &str| PUBLISHED.iter().position(|one| *one == name);
    let name = package["name"].as_str().unwrap_or_default();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let other = dependency["name"].as_str().unwrap_or_default();
        if dependency["req"] != "*" && place(other).is_some_and(|other| Some(other) > place(name)) {
            faults
                .push(format!("PUBLISHED of xtask/src/check.rs names {name} before {other}, which it needs"));
        }
    }
}

/// A package has the texts of both licences, equal to those of the repository: cargo packs only files of its folder.
fn licences(root: &Path, package: &Value, faults: &mut Vec<String>) {
    let folder = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let (own, of_all) = (fs::read(folder.with_file_name(name)), fs::read(root.join(name)));
        if !matches!((own, of_all), (Ok(own), Ok(of_all)) if own == of_all) {
            faults.push(format!("{}: {name} of the repository must lie beside it", folder.display()));
        }
    }
}

/// The lines of a text that name a repository of the same host and another name.
fn foreign(text: &str, address: &str) -> Vec<usize> {
    let host = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/") + "/";
    let is_foreign = |line: &&str| {
        line.match_indices(&host).any(|(at, _)| {
            let rest = line[at..].strip_prefix(address);
            !rest.is_some_and(|rest| {
                let rest = rest.strip_prefix(".git").unwrap_or(rest);
                rest.is_empty() || rest.starts_with(['/', '"', '\'', ' ', '#', ')'])
            })
        })
    };
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| is_foreign(line)).map(|(number, _)| number + 1).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{foreign, manifest};

    const ADDRESS: &str = "https://example.org/a/b";

    #[test]
    fn a_manifest_without_a_field_is_a_fault() {
        let whole = json!({
            "name": "x", "description": "d", "license": "MIT", "rust_version": "1.0", "readme": "README.md",
            "authors": ["a"], "categories": ["science"], "keywords": ["k"], "repository": ADDRESS,
            "homepage": ADDRESS, "documentation": "https://docs.rs/x", "metadata": {"docs": {"rs": {}}},
        });
        assert_eq!(manifest(&whole, ADDRESS), [""; 0]);
        for key in whole.as_object().unwrap().keys() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(key);
            assert_eq!(manifest(&without, ADDRESS).len(), 1, "{key}");
        }
        let mut long = whole.clone();
        long["keywords"] = json!(["a word of more than twenty characters"]);
        assert_eq!(manifest(&long, ADDRESS).len(), 1);
    }

    #[test]
    fn another_repository_is_found_by_its_line() {
        let text = "x\nsee https://example.org/a/b/blob and 'https://example.org/a/b.git'\nhttps://example.org/a/bc\n";
        assert_eq!(foreign(text, ADDRESS), [3]);
    }
}
