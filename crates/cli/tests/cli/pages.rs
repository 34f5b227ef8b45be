//! Pages of a manual and completions name every command and option.

#[allow(dead_code, reason = "its `main` is that of the example")]
#[path = "../../examples/pages.rs"]
mod example;

use std::{collections::BTreeMap, path::Path};

fn files(folder: &Path) -> BTreeMap<String, String> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

/// The names of all commands below one, joined by what stands between them.
fn names(command: &clap::Command, before: &str, found: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{before}-{}", sub.get_name());
        found.push(name.clone());
        names(sub, &name, found);
    }
}

#[test]
fn pages_and_completions_name_every_command() {
    let folder = tempfile::tempdir().unwrap();
    example::write(folder.path()).unwrap();
    let command = unskew::command_line::command();
    let mut found = vec!["unskew".to_owned()];
    names(&command, "unskew", &mut found);
    assert!(found.len() > 15 && found.contains(&"unskew-set-build".to_owned()), "{found:?}");
    let pages = files(&folder.path().join("man"));
    for name in &found {
        let page = pages.get(&format!("{name}.1")).unwrap_or_else(|| panic!("{name}: {:?}", pages.keys()));
        assert!(page.contains(".SH SYNOPSIS") && page.len() > 300, "{name}");
    }
    assert!(pages["unskew-generate.1"].contains("\\-\\-prompts"), "{}", pages["unskew-generate.1"]);
    let completions = files(&folder.path().join("completions"));
    assert_eq!(completions.len(), 5, "{:?}", completions.keys());
    for (shell, text) in &completions {
        for name in command.get_subcommands().map(clap::Command::get_name) {
            assert!(text.contains(name), "{shell}: {name}");
        }
        assert!(text.contains("json-schema") && text.contains("skip-prompts"), "{shell}");
    }
}
