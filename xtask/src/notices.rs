//! The notices that a program owes to the libraries in it: their licences ask that their texts go with every copy.
//!
//! Each release has them as `THIRD-PARTY.txt`, made of the files that the libraries' own packages hold, for exactly the
//! libraries of that program. cargo-about does the same from the texts of licences as a standard has them, without the
//! names that stand in the files, unless it is told of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{Result, process::output};

/// Beginnings of the names of such files.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Writes the notices of a package of the workspace, with its default features, for all platforms.
pub(crate) fn write(root: &Path, package: &str, file: &Path) -> Result<()> {
    let tree = ["tree", "--locked", "--package", package, "--edges", "normal", "--target", "all"];
    let tree = output(root, &[&tree[..], &["--prefix", "none", "--format", "{p}"]].concat())?;
    let used: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    let metadata = output(root, &["metadata", "--locked", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;

    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for library in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| library[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        // Those of this repository have no source.
        if library["source"].is_null() || !used.contains(&(name, version)) {
            continue;
        }
        list += &format!("{name} {version}: {}, {}\n", text("license"), text("repository"));
        let folder = Path::new(text("manifest_path")).parent().ok_or("a package without a folder")?;
        for path in chosen(licences(folder)?) {
            texts.entry(fs::read_to_string(&path)?.trim().replace('\r', "")).or_default().push(name);
        }
    }
    let mut out = format!("Libraries of others in {package}\n\n{list}");
    for (text, names) in &texts {
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    println!(
        "{}: {} libraries, {} texts, {} bytes",
        file.display(),
        list.lines().count(),
        texts.len(),
        out.len()
    );
    if texts.is_empty() {
        return Err("the packages of the libraries hold no licences".into());
    }
    Ok(fs::write(file, out)?)
}

/// `name v1.2.3 (...)`, as `cargo tree` writes a package.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

fn licences(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && !name.ends_with(".rs") && NAMES.iter().any(|begin| name.starts_with(begin)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Of a choice of licences the MIT's, whose text is short, beside what is no part of the choice.
fn chosen(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let is = |path: &PathBuf, word: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().contains(word))
    };
    let has_mit = files.iter().any(|path| is(path, "mit"));
    files.into_iter().filter(|path| !has_mit || !(is(path, "apache") || is(path, "unlicense"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{chosen, name_and_version};

    #[test]
    fn a_choice_of_licences_is_the_short_one() {
        let files = ["COPYRIGHT", "LICENSE-APACHE", "LICENSE-MIT"].map(Into::into).to_vec();
        assert_eq!(chosen(files), ["COPYRIGHT", "LICENSE-MIT"].map(std::path::PathBuf::from));
        let one = vec!["LICENSE-APACHE".into()];
        assert_eq!(chosen(one.clone()), one);
    }

    #[test]
    fn packages_are_read_as_cargo_writes_them() {
        assert_eq!(name_and_version("serde v1.0.2 (proc-macro)"), Some(("serde", "1.0.2")));
        assert_eq!(name_and_version(""), None);
    }
}
