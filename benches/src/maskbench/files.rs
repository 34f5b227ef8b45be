//! MaskBench's files: a schema, and instances that are said to be valid or not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Options;

/// A file. The schema's text and the order of members are kept as they stand there.
#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) schema: Box<RawValue>,
    #[serde(default)]
    pub(crate) tests: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) valid: bool,
    pub(crate) data: Box<RawValue>,
}

impl File {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The files that are asked for, in the order of their names.
pub(crate) fn files(options: &Options) -> Result<Vec<PathBuf>, String> {
    let data = options.data.as_deref().ok_or("--data DIR is missing")?;
    let entries = fs::read_dir(data).map_err(|error| format!("{}: {error}", data.display()))?;
    let mut files: Vec<PathBuf> = entries
        .map_while(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| {
            let name = name_of(path);
            options.filters.is_empty() || options.filters.iter().any(|filter| name.contains(filter.as_str()))
        })
        .collect();
    files.sort();
    if let Some(count) = options.sample {
        // The first places of a shuffle.
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let count = count.min(files.len());
        for place in 0..count {
            let rest = u64::try_from(files.len() - place).map_err(|error| error.to_string())?;
            let drawn = usize::try_from(random.next_u64() % rest).map_err(|error| error.to_string())?;
            files.swap(place, place + drawn);
        }
        files.truncate(count);
        files.sort();
    }
    if files.is_empty() {
        return Err(format!("{}: no such files", data.display()));
    }
    Ok(files)
}

/// The name of a file in reports.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The text of an instance as MaskBench writes it, which is Python's `json.dumps(data, ensure_ascii=False)`: a blank
/// after each comma and colon and no other white space, and in strings only the escapes that are needed. Numbers stay
/// as they are.
pub(crate) fn written(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        match first {
            ' ' | '\t' | '\n' | '\r' => {}
            ',' | ':' => {
                text.push(first);
                text.push(' ');
            }
            '"' => {
                match serde_json::from_str::<String>(token).and_then(|value| serde_json::to_string(&value)) {
                    Ok(string) => text.push_str(&string),
                    // Half of a surrogate pair, which is no text.
                    Err(_) => text.push_str(token),
                }
            }
            _ => text.push(first),
        }
        rest = behind;
    }
    text
}

/// The length of the string that `json` begins with, quotes included.
fn string_length(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_written_as_python_does() {
        let raw = "{\"a\" :[1,2.50 , -3e2],\n\t\"b,:\\u00e9\\/\\n\\u0001\\\"\": {} , \"c\":\"\\ud83d\\ude00\\ud800\"}";
        let expected =
            "{\"a\": [1, 2.50, -3e2], \"b,:é/\\n\\u0001\\\"\": {}, \"c\": \"\\ud83d\\ude00\\ud800\"}";
        assert_eq!(written(raw), expected);
        assert_eq!(written("\"\\ud83d\\ude00\""), "\"😀\"");
        assert_eq!(written(" null "), "null");
    }
}
