//! Grammars as text: which load, and what they mean.

use std::{fs, path::Path};

use unskew_grammars::{Grammar, GrammarFormat, GrammarLimits};

/// Every grammar of the folder that `UNSKEW_DATA` names.
#[test]
fn published_grammars_load() {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        eprintln!("UNSKEW_DATA is not set: published grammars were not read");
        return;
    };
    let mut loaded = 0;
    for folder in ["llama-cpp-grammars", "gad-grammars", "gad-bv4", "gad-slia/grammars"] {
        for entry in fs::read_dir(Path::new(&data).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let Some(format) = GrammarFormat::from_extension(extension) else { continue };
            let text = fs::read_to_string(&path).unwrap();
            let grammar = Grammar::parse(&text, format, &GrammarLimits::default());
            let grammar = grammar.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(grammar.rules().len() > 1, "{}", path.display());
            loaded += 1;
        }
    }
    assert!(loaded > 40, "{loaded} grammars");
}
