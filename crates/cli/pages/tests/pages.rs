//! Pages of a manual, completions and the page of all options name every command and option.

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
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_unskew-pages")).arg(folder.path()).status();
    assert!(program.unwrap().success());
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
    let options = std::fs::read_to_string(folder.path().join("options.md")).unwrap();
    for name in &found {
        // No name of a command has a hyphen.
        let heading = format!("\n## {}\n\n````text\n", name.replace('-', " "));
        assert!(options.contains(&heading), "{name}");
    }
    let mut described = 0;
    all(&command, &mut |command| {
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let Some(long) = option.get_long() else { continue };
            assert!(options.contains(&format!("--{long}")), "--{long} of {}", command.get_name());
            described += 1;
        }
    });
    assert!(described > 60, "{described}");
}

fn all(command: &clap::Command, see: &mut dyn FnMut(&clap::Command)) {
    see(command);
    command.get_subcommands().for_each(|below| all(below, see));
}
