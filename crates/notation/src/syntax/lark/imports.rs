//! The files that a grammar in Lark imports, each read once.
//!
//! `%import .dir.file.NAME` and `%import dir.file (A, b)` name the file `dir/file.lark` beside the text, a further
//! dot the folder above. All files are collected before the first is parsed, as one text with [marks](FILE_MARK)
//! between them: so a tree has one text, and a definition of any file is a definition like all others. Names of a
//! file are its own, but for those that are imported, and what it ignores is not ignored elsewhere, as in Lark.
//! Definitions of other files that no rule of the text reaches are left out, and refuse nothing.

use std::collections::BTreeMap;

use unskew_grammar::{GrammarError, GrammarLimits, SyntaxError, SyntaxErrorKind};

use super::{body, common};
use crate::{
    Resolver,
    syntax::{
        cursor::Cursor,
        error::{FILE_MARK, location},
        text::File,
    },
};

/// The modules that are built in, by the paths of their files, but for `common`. A file of the same path goes before.
const MODULES: [(&str, &str); 3] = [
    ("python.lark", include_str!("modules/python.lark")),
    ("unicode.lark", include_str!("modules/unicode.lark")),
    ("lark.lark", include_str!("modules/lark.lark")),
];

fn built_in(path: &str) -> Option<&'static str> {
    MODULES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

/// A text with the files that it imports.
#[derive(Debug)]
pub(in crate::syntax) struct Sources {
    /// The texts, one after the other, with marks between them.
    pub(in crate::syntax) text: String,
    /// The files: path, and where the text begins and ends. The first is the text itself.
    pub(in crate::syntax) files: Vec<File>,
}

/// The path of a module, such as `..dir.file`, in the file `from`. The last name is that of what is imported, unless
/// names follow in brackets. `None` for a path that leads out of the folder of the text.
pub(super) fn path(from: &str, dots: usize, names: &[&str]) -> Option<String> {
    let mut folder: Vec<&str> = from.split('/').collect();
    folder.pop();
    if dots == 0 {
        folder.clear();
    }
    for _ in 1..dots {
        folder.pop()?;
    }
    folder.extend(names);
    Some(folder.join("/") + ".lark")
}

/// A reference to another file: its dots and names.
pub(super) struct Module<'t> {
    pub(super) at: usize,
    pub(super) dots: usize,
    pub(super) names: Vec<&'t str>,
}

/// Reads the dots and names after `%import`.
pub(super) fn module<'t>(cursor: &mut Cursor<'t>) -> Module<'t> {
    let at = cursor.at();
    let dots = cursor.take_while(|char| char == '.').len();
    let mut names = Vec::new();
    loop {
        names.push(body::name(cursor));
        let mut ahead = *cursor;
        if !ahead.eat(".") || body::name(&mut ahead).is_empty() {
            return Module { at, dots, names };
        }
        cursor.eat(".");
    }
}

/// `text` and the files that it imports.
pub(in crate::syntax) fn sources(
    text: &str,
    resolver: &Resolver,
    limits: &GrammarLimits,
) -> Result<Sources, SyntaxError> {
    let main = File { path: String::new(), begin: 0, end: text.len() };
    let mut sources = Sources { text: text.to_owned(), files: vec![main] };
    let mut next = 0;
    while let Some(file) = sources.files.get(next).cloned() {
        for path in imported(&sources.text[file.begin..file.end], &file.path) {
            let (path, at) = (path.0, file.begin + path.1);
            if sources.files.iter().any(|known| known.path == path) {
                continue;
            }
            let error = |message: String| {
                let construct = format!("`%import` of `{path}`");
                let kind = SyntaxErrorKind::Nested { construct, message };
                SyntaxError { kind, location: location(&sources.text, at) }
            };
            let own = resolver.get().file(&path);
            let content =
                own.or_else(|message| built_in(&path).map(str::to_owned).ok_or(message)).map_err(error)?;
            if sources.files.len() > limits.files {
                let limit = limits.files;
                return Err(error(format!(
                    "a grammar imports more than {limit} files (GrammarLimits::files)"
                )));
            }
            if sources.text.len() + content.len() > limits.grammar_bytes {
                let limit = limits.grammar_bytes;
                return Err(error(format!(
                    "the grammar and its files have more than {limit} bytes (GrammarLimits::grammar_bytes)"
                )));
            }
            sources.text.push(FILE_MARK);
            let begin = sources.text.len();
            sources.text.push_str(&content);
            sources.files.push(File { path, begin, end: sources.text.len() });
        }
        next += 1;
    }
    Ok(sources)
}

/// The paths that a text imports, each with the offset of the reference. A line that begins so inside of a regex is
/// no grammar.
fn imported(text: &str, from: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start();
        if let Some(after) = rest.strip_prefix("%import").filter(|after| after.starts_with([' ', '\t'])) {
            let blank = after.len() - after.trim_start_matches([' ', '\t']).len();
            let mut cursor = Cursor::new(&after[blank..]);
            let module = module(&mut cursor);
            body::blank(&mut cursor);
            let lists = cursor.peek() == Some('(');
            if let Some(path) = file_of(&module, lists, from) {
                found.push((path, begin + line.len() - rest.len()));
            }
        }
        begin += line.len();
    }
    found
}

/// The file of a module. `None` for the terminals that are built in, and for a path that leads out of the folder.
pub(super) fn file_of(module: &Module<'_>, lists: bool, from: &str) -> Option<String> {
    let names = if lists { &module.names[..] } else { &module.names[..module.names.len() - 1] };
    if names.is_empty() || (module.dots == 0 && *names == [common::MODULE]) {
        return None;
    }
    path(from, module.dots, names)
}

/// The texts of the files that a grammar in Lark imports, directly or not, by their paths as
/// [`Resolve::file`](crate::Resolve::file) is asked for them. So a program can keep a grammar without its folder.
/// O(n) for n bytes.
///
/// # Errors
///
/// [`GrammarError::Syntax`] for a file that `resolver` does not have, and the limit of bytes.
pub fn imported_files(
    text: &str,
    resolver: &Resolver,
    limits: &GrammarLimits,
) -> Result<BTreeMap<String, String>, GrammarError> {
    let Sources { text, files } = sources(text, resolver, limits)?;
    Ok(files.into_iter().skip(1).map(|file| (file.path, text[file.begin..file.end].to_owned())).collect())
}
